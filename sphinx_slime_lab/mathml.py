"""Formulas as MathML, converted while the site is built: no script, no font, no other host.

Every current browser draws MathML itself. LaTeX, text and the other builders keep Sphinx's own way.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes
from latex2mathml import exceptions
from latex2mathml.converter import convert

from sphinx_slime_lab.messages import warn

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_ERRORS = tuple(kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception))
"""What the converter raises; its classes have no common base of their own."""


def _mathml(node: nodes.Element, display: str) -> str:
    formula = node.astext()
    try:
        return str(convert(formula, display=display))
    except _ERRORS as error:
        warn(f"cannot convert the formula {formula!r}: {type(error).__name__}", "value", node)
        return f"<code>{escape(formula)}</code>"


def _visit_inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(f'<span class="slime-math">{_mathml(node, "inline")}</span>')
    raise nodes.SkipNode


def _visit_block(translator: Any, node: nodes.Element) -> None:
    number = f'<span class="eqno">({escape(str(node["number"]))})</span>' if node.get("number") else ""
    attributes = f' id="{escape(node["ids"][0])}"' if node["ids"] else ""
    # A wide formula scrolls sideways, which the keyboard must be able to do as well.
    translator.body.append(f'<div class="slime-math" tabindex="0"{attributes}>{number}{_mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def register(app: Sphinx) -> None:
    """Add the renderer ``mathml``; ``html_math_renderer = "mathml"`` in ``conf.py`` selects it."""
    app.add_html_math_renderer("mathml", (_visit_inline, None), (_visit_block, None))
