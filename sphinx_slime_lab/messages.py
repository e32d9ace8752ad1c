"""Every warning of the extension: one function and a closed list of subtypes.

``suppress_warnings = ["slime_lab.finding"]`` silences one kind, ``-W`` makes any of them fail the build.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from sphinx.util import logging

TYPE = "slime_lab"
"""First half of the warning type, as in ``[slime_lab.key]``."""

Subtype = Literal["config", "duplicate", "expect", "file", "finding", "key", "reference", "value", "yaml"]
"""
- ``config``: a ``slime_lab_*`` option in ``conf.py`` has a wrong value
- ``duplicate``: two labs or recipes have one name
- ``expect``: ``:expect:`` names a finding that the experiment does not have
- ``file``: the file argument cannot be read
- ``finding``: the experiment has a finding of severity error
- ``key``: a key is not a field
- ``reference``: a role names something that does not exist
- ``value``: a field has a value that it does not accept
- ``yaml``: the text is not a YAML mapping of choices
"""

SUBTYPES: tuple[str, ...] = get_args(Subtype)

_logger = logging.getLogger("sphinx_slime_lab")


def warn(message: str, subtype: Subtype, location: Any = None) -> None:
    """Log one warning; ``location`` is a node, a docname pair or a ready ``file:line`` text."""
    _logger.warning("%s", message, location=location, type=TYPE, subtype=subtype)


def tell(message: str, location: str) -> None:
    """Say something that is no fault, such as a key of an earlier format; ``location`` is a ready ``file:line``."""
    _logger.info("%s: %s", location, message)
