"""How to run the files of an experiment, with its numbers; twin of ``js/src/ui/run.js``."""

from __future__ import annotations

from docutils import nodes

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.locale import word
from sphinx_slime_lab.render.tables import code
from sphinx_slime_lab.workbench import Experiment, Workbench


def run_steps(bench: Workbench, experiment: Experiment) -> ours.lab_block:
    """Return the steps as a numbered list."""
    steps = nodes.enumerated_list("", enumtype="arabic", prefix="", suffix=".")
    for text in _texts(bench, experiment):
        pieces = enumerate(text.split("`"))
        inline = [code(piece) if at % 2 else nodes.Text(piece) for at, piece in pieces if piece]
        steps += nodes.list_item("", nodes.paragraph("", "", *inline))
    title = nodes.paragraph("", "", nodes.strong("", word(bench.language, "run")))
    return ours.lab_block("", title, steps, kind="run")


def _texts(bench: Workbench, experiment: Experiment) -> list[str]:
    state = experiment.state
    launch = bench.facts.launch[str(state["model"])]
    convert_nodes = launch.conversion.nodes
    slots = {
        "nodes": convert_nodes,
        "last": convert_nodes - 1,
        "gpus_per_node": launch.gpus_per_node,
        "ray": experiment.accounting.ray_gpus,
        "train_nodes": state["nodes"],
    }
    cpu = experiment.device == "cpu"
    keys = ["run_prepare_custom" if state["task"] == "custom" else "run_prepare"]
    keys += ["run_convert_cpu" if cpu else "run_convert_many" if convert_nodes > 1 else "run_convert_one"]
    keys += ["run_external"] if state["layout"] == "external" else []
    keys += ["run_ray_cpu" if cpu else "run_ray", "run_train", "run_look"]
    return [word(bench.language, key, **slots) for key in keys]
