"""The links from a page to the same page of the other language and of other versions, made while the site is built.

It is a plain relative link, so it works without JavaScript, under any prefix and from ``file://``; a small script adds
the place in the page. A page without a counterpart links to the other tree's home page and says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx_slime_lab import config as lab_config
from sphinx_slime_lab.locale import language_of

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

NAMES = {"zh": "中文", "en": "English"}
NOTES = {"zh": "此页暂无中文版，前往中文首页", "en": "This page exists in Chinese only; go to the English home page"}
SCRIPT = "slime-language.js"
VERSION = {"zh": "版本：{}", "en": "Version: {}"}
LATEST = "latest"
"""The version at the root of the site."""
_BUILT_PAGES = ("genindex", "search")


def add_language_link(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Put ``slime_language`` (``lang``, ``url``, ``text``, ``note``) into the template's context."""
    trees = lab_config.read(app.config).trees or {}
    here = language_of(app.config)
    others = [language for language in trees if language != here]
    if len(others) != 1 or app.builder.format != "html" or app.builder.name == "epub":
        return
    other = others[0]
    exists = pagename in _BUILT_PAGES or _has_page(Path(app.confdir, trees[other]["source"]), pagename)
    target = pagename if exists else app.config.root_doc
    up = "../" * app.builder.get_target_uri(pagename).count("/")
    url = f"{up}{trees[other]['url'].strip('/')}/{app.builder.get_target_uri(target) or 'index.html'}"
    note = "" if exists else NOTES[other]
    if exists:
        app.add_js_file(SCRIPT, loading_method="defer")
    context["slime_language"] = {"lang": other, "url": url, "text": NAMES[other], "note": note}


def add_version_link(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Put ``slime_version`` (``url``, ``text``) into the context of a site with versions."""
    version = lab_config.read(app.config).version
    if not version or app.builder.format != "html" or app.builder.name == "epub":
        return
    page = app.builder.get_target_uri(pagename)
    up = "../" * (page.count("/") + (1 if version == LATEST else 2))
    text = VERSION[language_of(app.config)].format(version)
    context["slime_version"] = {"url": f"{up}versions.html?page={page}", "text": text}


def _has_page(source: Path, pagename: str) -> bool:
    return any((source / f"{pagename}{suffix}").is_file() for suffix in (".md", ".rst"))
