"""Scripts, styles and the data file: each only in builds and on pages that use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slime.experiment.browser import readers_catalog
from sphinx_slime_lab import config as lab_config
from sphinx_slime_lab.domain import slime_domain
from sphinx_slime_lab.html import json_block
from sphinx_slime_lab.locale import language_of, words
from sphinx_slime_lab.nodes import lab
from sphinx_slime_lab.workbench import workbench

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

PACKAGE = Path(__file__).resolve().parent
SCRIPT = "slime-lab.js"
DATA = "slime-lab-data.js"
STYLE = "slime-lab.css"


def add_static_folder(app: Sphinx) -> None:
    """Make HTML builds copy the package's static files; a page names them only when it needs them."""
    if app.builder.format == "html":
        # A new list: the one that is there may be Sphinx's own default, shared by every build of the process.
        app.config.html_static_path = [*app.config.html_static_path, str(PACKAGE / "static")]
        app.add_css_file(STYLE)


def add_page_scripts(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Name the two scripts on pages with a live lab. Sphinx drops what is added here after each page."""
    if app.builder.format != "html" or app.builder.name == "epub" or doctree is None:
        return
    if any(node["interactive"] for node in doctree.findall(lab)):
        app.add_js_file(DATA, loading_method="defer", priority=700)
        app.add_js_file(SCRIPT, loading_method="defer", priority=701)


def data_script(app: Sphinx) -> str:
    """Return the data file: the catalog, where it comes from, and the words of this language."""
    bench = workbench(app.config)
    options = lab_config.read(app.config)
    language = language_of(app.config)
    data = {
        "catalog": readers_catalog(bench.catalog.to_json(), language),
        "language": language,
        "project": options.storage or app.config.project,
        "provenance": bench.provenance,
        "source_url": bench.source_url,
        "words": words(language),
    }
    return f"window.SlimeLabData = {json_block(data)};\n"


def write_data(app: Sphinx, env: BuildEnvironment) -> None:
    """Write the data file into the static folder of the output, before its checksum is asked for."""
    if app.builder.format == "html" and app.builder.name != "epub":
        target = Path(app.outdir, "_static", DATA)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(data_script(app), encoding="utf-8", newline="\n")


def outdated(app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Return the documents that show data, when the data or the commit are not those of the last build."""
    fingerprint = workbench(app.config).fingerprint
    domain = slime_domain(env)
    known = domain.data.get("fingerprint")
    domain.data["fingerprint"] = fingerprint
    return sorted(domain.readers) if known not in (None, fingerprint) else []
