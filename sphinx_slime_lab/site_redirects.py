"""Pages at the addresses of pages that moved: each leads to the new address and keeps the place in the page.

The table is ``docs/redirects.yaml``. A page works without scripts through ``meta refresh``, names the new address as
canonical, and leads on at once, with query and anchor, where scripts run.
"""

from __future__ import annotations

import posixpath
import re
from html import escape
from importlib.resources import files
from pathlib import Path

import yaml

from slime.experiment.texts import nearest

TABLE = "redirects.yaml"
SCRIPT = "redirect.js"
_PAGE = """<!doctype html>
<html lang="{lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="canonical" href="{canonical}">
<script src="{up}{script}" data-to="{href}"></script>
<meta http-equiv="refresh" content="0; url={href}">
</head>
<body>
<p>{text} <a href="{href}">{page}</a></p>
</body>
</html>
"""
_WORDS = {
    "en": {"lang": "en", "title": "This page has moved", "text": "This page has moved:"},
    "zh": {"lang": "zh-CN", "title": "此页已移动", "text": "此页已移到："},
}


class RedirectError(ValueError):
    """A row of the table cannot be used; the message names the row and the nearest page."""


def read(path: Path) -> dict[str, str]:
    """Return the table, empty when there is none. Raises ``RedirectError`` when it is no mapping of texts."""
    if not path.is_file():
        return {}
    table = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(table, dict) or not all(isinstance(one, str) for pair in table.items() for one in pair):
        raise RedirectError(f"{path}: it must map each old page to a new one, both as text")
    return table


def write(table: dict[str, str], tree: Path, language: str, base: str) -> list[str]:
    """Write the pages of one language into its built ``tree``; return their names.

    ``base`` is the public address of the tree, or empty; then the canonical address is relative.
    Raises ``RedirectError`` when an old page still exists or a new one does not.
    """
    pages = {path.relative_to(tree).with_suffix("").as_posix() for path in tree.rglob("*.html")} - set(table)
    if table:
        script = files("sphinx_slime_lab").joinpath("templates/slime_lab", SCRIPT).read_text(encoding="utf-8")
        (tree / SCRIPT).write_text(script, encoding="utf-8", newline="\n")
    for old, new in table.items():
        page, _, anchor = new.partition("#")
        _check(tree, pages, old, page, anchor)
        up = "../" * old.count("/")
        href = f"{posixpath.relpath(page, posixpath.dirname(old) or '.')}.html" + (f"#{anchor}" if anchor else "")
        target = tree / f"{old}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        slots = {"href": href, "canonical": f"{base}{page}.html" if base else href.partition("#")[0], "page": page}
        text = _PAGE.format(
            up=up, script=SCRIPT, **_WORDS[language], **{key: escape(one) for key, one in slots.items()}
        )
        target.write_text(text, encoding="utf-8", newline="\n")
    return sorted(f"{old}.html" for old in table)


def _check(tree: Path, pages: set[str], old: str, page: str, anchor: str) -> None:
    existing = tree / f"{old}.html"
    if existing.is_file() and SCRIPT not in existing.read_text(encoding="utf-8"):
        raise RedirectError(f"{old}: this page exists, so it cannot lead elsewhere; take the row out")
    if page not in pages:
        close = nearest(page, sorted(pages))
        raise RedirectError(f"{old}: there is no page {page!r}" + (f"; did you mean {close}?" if close else ""))
    if anchor:
        ids = re.findall(r'\bid="([^"]+)"', (tree / f"{page}.html").read_text(encoding="utf-8"))
        if anchor not in ids:
            close = nearest(anchor, ids)
            raise RedirectError(f"{old}: {page} has no {anchor!r}" + (f"; did you mean {close}?" if close else ""))
