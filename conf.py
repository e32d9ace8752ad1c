"""Sphinx configuration of both language trees; ``SLIME_DOC_LANG`` is ``zh`` or ``en``.

Built by ``python -m sphinx_slime_lab.site build``. Nothing in the built site comes from another host.
"""

from __future__ import annotations

import os
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

_lang = os.environ.get("SLIME_DOC_LANG", "en")
if _lang not in ("zh", "en"):
    raise SystemExit(f"SLIME_DOC_LANG is {_lang!r}: it must be zh or en")
_chinese = _lang == "zh"

project = "slime"
author = "the slime contributors"
copyright = "the slime contributors"
language = "zh_CN" if _chinese else "en"
root_doc = "index"
exclude_patterns = ["_build", "**/.*"]
templates_path = [str(ROOT / "docs/_templates")]
nitpicky = True
# Quotes only: a flag such as --recipe must keep both of its dashes.
smartquotes_action = "q"

extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinxcontrib.mermaid",
    "sphinx_slime_lab",
]

myst_enable_extensions = ["amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
html_math_renderer = "mathml"

# Diagrams become SVG files while the site is built; mermaidx needs neither node nor a browser.
mermaid_output_format = "svg"
mermaid_cmd = str(Path(sys.executable).with_name("mermaidx"))
mermaid_params = ["--quiet"]

# The lab's files have their own button, which copies the text without the reasons.
copybutton_selector = "div:not(.slime-lab__code) > div.highlight > pre"
copybutton_exclude = ".linenos, .gp, .go"

slime_lab_trees = {
    "zh": {"source": "docs/zh", "url": "../zh"},
    "en": {"source": "docs/en", "url": "../en"},
}
slime_lab_version = os.environ.get("SLIME_DOC_VERSION", "")
# Where a published site shows one data file at one commit; empty leaves the paths unlinked.
slime_lab_source_url = os.environ.get("SLIME_DOC_SOURCE_URL", "")

# Fonts of the reader's system only, with one for Chinese on each platform.
_sans = (
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Helvetica Neue', Arial, 'PingFang SC', "
    "'Hiragino Sans GB', 'Microsoft YaHei', 'Noto Sans CJK SC', 'Noto Sans SC', sans-serif"
)
_mono = (
    "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', 'Noto Sans Mono CJK SC', "
    "'PingFang SC', 'Microsoft YaHei', monospace"
)

html_theme = "furo"
html_title = "slime"
html_favicon = "sphinx_slime_lab/static/slime.svg"
# The latest version is the canonical one, whichever is built.
_base = os.environ.get("SLIME_DOC_BASEURL", "")
html_baseurl = f"{_base}{_lang}/" if _base else ""
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#1c5fa8",
        "color-brand-content": "#1c5fa8",
        "font-stack": _sans,
        "font-stack--monospace": _mono,
    },
    "dark_css_variables": {
        "color-brand-primary": "#7db8f5",
        "color-brand-content": "#7db8f5",
    },
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "slime_lab/language.html",
        "slime_lab/version.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}

latex_engine = "xelatex"

_DIAGRAM = re.compile(r'(<object data="[^"]*" type="image/svg\+xml")>(\s*<p class="warning">(.*?)</p>)', re.DOTALL)


def _help_readers(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Give Mermaid drawings the name that stands inside, where screen readers do not look; let keys scroll code."""
    if "body" in context:
        named = _DIAGRAM.sub(r'\1 role="img" aria-label="\3">\2', context["body"])
        context["body"] = named.replace('<div class="highlight"><pre>', '<div class="highlight"><pre tabindex="0">')


_ABOUT = {"zh": "slime：用强化学习训练语言模型。", "en": "slime: reinforcement learning for language models."}


def _describe(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Tell search engines what a page says first."""
    paragraphs = (" ".join(one.astext().split()) for one in doctree.findall(nodes.paragraph)) if doctree else ()
    text = next((one for one in paragraphs if len(one) > 20), _ABOUT[_lang])
    text = text if len(text) <= 160 else text[:160].rsplit(" ", 1)[0].rstrip("，、,;:") + " …"
    context["metatags"] = f'{context.get("metatags", "")}<meta name="description" content="{escape(text)}">'


def setup(app: Any) -> None:
    """Connect what this site does to its pages."""
    app.connect("html-page-context", _describe)
    app.connect("html-page-context", _help_readers)
