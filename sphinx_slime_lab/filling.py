"""Give each experiment its parts when its page is written.

An experiment has over a thousand nodes, and all of them follow from its choices. While pages are read, only the choices
are kept: the environment stays small, and no transform of the reading phase walks through what was generated.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.render import parts
from sphinx_slime_lab.render.install import install
from sphinx_slime_lab.render.lessons import lessons
from sphinx_slime_lab.render.memory import memory
from sphinx_slime_lab.render.provenance import provenance
from sphinx_slime_lab.render.run import run_steps
from sphinx_slime_lab.render.tour import tour
from sphinx_slime_lab.workbench import workbench

NOT_SEARCHED = "no-search"
"""The class whose nodes Sphinx leaves out of its index: words of shells and of their reasons are on every page."""


class FillExperiments(SphinxPostTransform):
    """Put the parts into every ``lab`` node, before its references are resolved."""

    default_priority = 4

    def run(self, **kwargs: Any) -> None:
        """Fill the experiments of one document."""
        bench = workbench(self.config)
        for node in list(self.document.findall(ours.lab)):
            experiment = bench.experiment(node["state"])
            uid, docname = node["uid"], node["docname"]
            node += ours.lab_caption("", "", nodes.strong("", node["title"]))
            if node["has_tour"]:
                node += tour(bench, uid)
            node += parts.live(bench, experiment, uid, docname)
            if node["interactive"]:
                node += lessons(bench, experiment, uid)
                node += memory(bench, experiment.state)
                node += install(bench)
            node += parts.choices(bench, experiment, docname)
            for generated in (parts.files(bench, experiment, uid, docname), provenance(bench, experiment)):
                generated["classes"].append(NOT_SEARCHED)
                node += generated
            node.insert(len(node) - 1, run_steps(bench, experiment))
