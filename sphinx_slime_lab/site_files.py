"""Files of the whole site beside its language trees: entry, 404, sitemap, and the list of versions.

The site at the root of the output is the latest; ``<version>/<language>/`` holds the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from sphinx_slime_lab.html import render
from sphinx_slime_lab.languages import LATEST, NAMES
from sphinx_slime_lab.locale import LANGUAGES

_BUILT = ("genindex.html", "search.html", "py-modindex.html")


@dataclass(frozen=True)
class Version:
    """One version of the site: its name, its folder as an address (empty for the latest), its pages by language."""

    name: str
    path: str
    pages: dict[str, list[str]]


def pages(tree: Path, left_out: list[str]) -> list[str]:
    """Return the addresses of the written pages of a language tree, in order; redirects are ``left_out``."""
    found = (path.relative_to(tree).as_posix() for path in tree.rglob("*.html"))
    return sorted(name for name in found if name not in _BUILT and name not in left_out and not name.startswith("_"))


def versions(output: Path, left_out: list[str]) -> list[Version]:
    """Return what is built in ``output``: the latest first, the others downwards, their numbers as numbers."""
    folders = sorted((path.parent.parent for path in output.glob("*/en/index.html")), key=_by_numbers, reverse=True)
    return [
        Version(
            LATEST if folder == output else folder.name,
            "" if folder == output else f"{folder.name}/",
            {one: pages(folder / one, left_out) for one in LANGUAGES if (folder / one / "index.html").is_file()},
        )
        for folder in (output, *folders)
        if (folder / "en/index.html").is_file()
    ]


def _by_numbers(folder: Path) -> list[tuple[int, str]]:
    """1.10 comes after 1.9; words come before numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"\d+|[^\d.+-]+", folder.name)]


def write_entry(output: Path) -> None:
    """Write ``index.html``, which leads to the reader's language, and its script; plain links serve without scripts."""
    _copy(output, {"entry.html": "index.html", "entry.js": "entry.js"})


def write_not_found(output: Path, base: str) -> None:
    """Write ``404.html``. A server shows it under any address, so its links start at the root of the site."""
    root = urlsplit(base).path if base else "/"
    (output / "404.html").write_text(render("404.html", root=root), encoding="utf-8", newline="\n")


def write_versions(output: Path, listed: list[Version]) -> None:
    """Write ``versions.html`` when there is more than one, and its script."""
    if len(listed) < 2:
        return
    text = render("versions.html", versions=listed, languages={one: NAMES[one] for one in LANGUAGES})
    (output / "versions.html").write_text(text, encoding="utf-8", newline="\n")
    _copy(output, {"versions.js": "versions.js"})


def write_sitemap(output: Path, latest: Version, base: str) -> None:
    """Write ``sitemap.xml`` of the latest version, each page with its other language. Addresses start with ``base``."""
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">',
        *_entries(latest, base),
        "</urlset>",
    ]
    (output / "sitemap.xml").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _entries(latest: Version, base: str) -> Iterator[str]:
    for language, names in latest.pages.items():
        for name in names:
            others = (one for one in latest.pages if name in latest.pages[one])
            links = "".join(
                f'<xhtml:link rel="alternate" hreflang="{one}" href="{escape(f"{base}{one}/{name}")}"/>'
                for one in others
            )
            yield f"<url><loc>{escape(f'{base}{language}/{name}')}</loc>{links}</url>"


def _copy(output: Path, names: dict[str, str]) -> None:
    templates = files("sphinx_slime_lab").joinpath("templates/slime_lab")
    output.mkdir(parents=True, exist_ok=True)
    for source, name in names.items():
        text = templates.joinpath(source).read_text(encoding="utf-8")
        (output / name).write_text(text, encoding="utf-8", newline="\n")
