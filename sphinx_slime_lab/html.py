"""HTML of the nodes. Everything here works without JavaScript; controls that need it stay hidden until it runs."""

from __future__ import annotations

import json
import posixpath
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from sphinx_slime_lab import nodes as ours
from sphinx_slime_lab.domain import slime_domain
from sphinx_slime_lab.locale import language_of, word

DOWNLOADS = "slime-lab"
"""Folder under ``_downloads`` with the generated files."""
DATA = "slime-data"
"""Folder with the JSON files that stand next to the pages."""


@cache
def _templates() -> Environment:
    loader = PackageLoader("sphinx_slime_lab", "templates/slime_lab")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def render(template: str, **values: Any) -> str:
    """Render one of the package's HTML templates."""
    return _templates().get_template(template).render(**values)


def json_block(value: Any) -> Markup:
    """Return JSON that may stand inside a script element."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def has_scripts(translator: Any) -> bool:
    """Tell whether the output may carry scripts and files: a site, but no book."""
    return translator.builder.format == "html" and translator.builder.name != "epub"


def visitors(node: type[nodes.Element]) -> tuple[Any, Any]:
    """Return the pair of functions that write a node as HTML."""
    return _VISITORS[node]


def _close(tag: str) -> Any:
    return lambda translator, node: translator.body.append(f"</{tag}>\n")


def _visit_lab(translator: Any, node: nodes.Element) -> None:
    interactive = node["interactive"] and has_scripts(translator)
    page: dict[str, Any] | None = None
    if interactive:
        rules = _rule_links(translator.builder, node)
        page = {"name": node["name"], "uid": node["uid"], "state": node["state"], "rules": rules}
    language = language_of(translator.builder.config)
    label = node["title"] or word(language, "lab")
    translator.body.append(render("lab.html", ids=node["ids"], label=label, page=page, json_block=json_block))


def _rule_links(builder: Any, node: nodes.Element) -> dict[str, str]:
    """Return where each rule is documented, as seen from the page; empty when no page documents them."""
    here = builder.current_docname or node["docname"]
    return {
        name: f"{builder.get_relative_uri(here, docname)}#{anchor}"
        for (kind, name), (docname, anchor, _) in sorted(slime_domain(builder.env).objects.items())
        if kind == "rule"
    }


def _visit_live(translator: Any, node: nodes.Element) -> None:
    translator.body.append('<div class="slime-lab__live">\n')


def _visit_picture(translator: Any, node: nodes.Element) -> None:
    translator.body.append(f'<figure class="{node["css"]}">\n{node["svg"]}</figure>\n')
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.Element) -> None:
    translator.body.append(f'<div class="slime-lab__{node["kind"]}" data-part="{node["kind"]}">\n')


def _visit_variant(translator: Any, node: nodes.Element) -> None:
    if not node["shown"] and not has_scripts(translator):
        raise nodes.SkipNode
    hidden = "" if node["shown"] else ' hidden=""'
    when = escape(json.dumps(node["when"], separators=(",", ":")))
    translator.body.append(f'<div data-when="{when}"{hidden}>\n')


def _visit_details(translator: Any, node: nodes.Element) -> None:
    translator.body.append(f'<details class="slime-lab__details" data-part="{node["kind"]}">\n')


def _visit_summary(translator: Any, node: nodes.Element) -> None:
    translator.body.append("<summary>")


def _visit_files(translator: Any, node: nodes.Element) -> None:
    translator.body.append('<div class="slime-lab__files">\n')


def _visit_data(translator: Any, node: nodes.Element) -> None:
    if not has_scripts(translator):
        translator.body.append("<span>")
        return
    translator.body.append(
        f'<a class="reference internal" type="application/json" href="{data_address(translator, node["path"])}">'
    )


def _depart_data(translator: Any, node: nodes.Element) -> None:
    translator.body.append("</a>" if has_scripts(translator) else "</span>")


def data_address(translator: Any, path: str) -> str:
    """Return the address of one of the JSON files, relative to the page."""
    builder = translator.builder
    return posixpath.join(_up(builder, builder.current_docname, DATA), path)


def _up(builder: Any, docname: str, folder: str) -> str:
    """Return the address of a folder of the output, relative to a page."""
    return posixpath.relpath(folder, posixpath.dirname(builder.get_target_uri(docname)) or ".")


def _depart_file(translator: Any, node: nodes.Element) -> None:
    """Let the keyboard reach a text that may scroll sideways."""
    for at in range(node["body_start"], len(translator.body)):
        translator.body[at] = translator.body[at].replace("<pre>", '<pre tabindex="0">')
    translator.body.append("</section>\n")


def _visit_file(translator: Any, node: nodes.Element) -> None:
    node["body_start"] = len(translator.body)
    href = write_download(translator, node) if has_scripts(translator) else None
    language = language_of(translator.builder.config)
    words = {key: word(language, key) for key in ("copy", "download")}
    translator.body.append(render("file.html", name=node["filename"], href=href, words=words))


def write_download(translator: Any, node: nodes.Element) -> str:
    """Write the file into the output and return its address, relative to the page."""
    builder = translator.builder
    docname = builder.current_docname or node["docname"]
    parts = (DOWNLOADS, *node["docname"].split("/"), node["uid"], node["filename"])
    target = Path(builder.outdir, "_downloads", *parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(node["content"], encoding="utf-8", newline="\n")
    return posixpath.join(_up(builder, docname, "_downloads"), *parts)


_VISITORS: dict[type[nodes.Element], tuple[Any, Any]] = {
    ours.lab: (_visit_lab, _close("section")),
    ours.lab_live: (_visit_live, _close("div")),
    ours.lab_picture: (_visit_picture, None),
    ours.lab_block: (_visit_block, _close("div")),
    ours.lab_variant: (_visit_variant, _close("div")),
    ours.lab_details: (_visit_details, _close("details")),
    ours.lab_summary: (_visit_summary, _close("summary")),
    ours.lab_data: (_visit_data, _depart_data),
    ours.lab_files: (_visit_files, _close("div")),
    ours.lab_file: (_visit_file, _depart_file),
}
