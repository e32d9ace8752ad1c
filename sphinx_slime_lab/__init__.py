"""Sphinx extension: experiments that are checked, drawn and rendered while the documentation is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__version__ = "0.1.0"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the extension. The work is imported here, so that importing the package stays cheap."""
    from sphinx_slime_lab.extension import setup as register

    return register(app)
