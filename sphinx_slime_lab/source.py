"""The YAML behind a directive, inline or in a file, and where each of its lines stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.util.docutils import SphinxDirective

FILE_SUFFIXES = (".yaml", ".yml", ".json")


class SourceError(ValueError):
    """The file argument cannot be read; the message names the file and the reason."""


@dataclass(frozen=True)
class Source:
    """A text and a function from its zero-based lines to ``file:line``."""

    text: str
    language: str
    locate: Callable[[int], str]
    where: str
    """``file:line`` of the directive itself, for what has no line of its own."""


def inline(directive: SphinxDirective) -> Source:
    """Return the content of the directive as a source."""
    text = "\n".join(directive.content)
    return Source(text, "yaml", lambda line: _content_location(directive, line), directive.get_location())


def from_file(directive: SphinxDirective, argument: str) -> Source:
    """Return the file that the argument names, relative to the document, and make the document depend on it."""
    relative, absolute = directive.env.relfn2path(argument)
    directive.env.note_dependency(relative)
    try:
        text = Path(absolute).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SourceError(f"cannot read {argument}: {reason}") from error
    language = "json" if absolute.endswith(".json") else "yaml"
    return Source(text, language, lambda line: f"{absolute}:{line + 1}", directive.get_location())


def names_file(argument: str) -> bool:
    """Tell whether a directive's argument is a file and not an id."""
    return argument.endswith(FILE_SUFFIXES)


def _content_location(directive: SphinxDirective, line: int) -> str:
    """Return ``file:line`` of a content line.

    reST numbers content lines by their file, MyST from the fence; the first content line tells which one speaks.
    """
    if not directive.content:
        return directive.get_location()
    line = min(line, len(directive.content) - 1)
    source, offset = directive.content.info(line)
    if directive.content.info(0)[1] == 0:
        offset = (directive.get_source_info()[1] or 0) + directive.content_offset + line
    return f"{source}:{(offset or 0) + 1}"
