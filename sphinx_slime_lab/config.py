"""Options of the extension: one dataclass, whose fields become ``slime_lab_*`` values of ``conf.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx_slime_lab.messages import warn

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

PREFIX = "slime_lab_"


class OptionError(ValueError):
    """An option has a value that cannot be used; the message says what would do."""


def _option(default: Any, check: Callable[[Any], None], rebuild: str, help_text: str, types: tuple[type, ...]) -> Any:
    return field(default=default, metadata={"check": check, "rebuild": rebuild, "help": help_text, "types": types})


def _check_folder(value: Any) -> None:
    if value is not None and not Path(value).is_dir():
        raise OptionError(f"{value!r} is not a folder: give an absolute path or None")


def _check_name(value: Any) -> None:
    if not isinstance(value, str) or any(character in value for character in ":/\\\n"):
        raise OptionError(f"{value!r} must be a text without ':', slashes or line breaks")


def _check_source_url(value: Any) -> None:
    if not isinstance(value, str):
        raise OptionError(f"{value!r} must be a text")
    if value and not (value.startswith("https://") and "{commit}" in value and "{path}" in value):
        raise OptionError(f"{value!r} must start with https:// and contain {{commit}} and {{path}}")


def _check_trees(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise OptionError(f"{value!r} must map a language (zh, en) to {{'source': folder, 'url': relative address}}")
    for language, tree in value.items():
        if language not in ("zh", "en") or not isinstance(tree, Mapping) or set(tree) != {"source", "url"}:
            raise OptionError(f"{language!r}: {tree!r} must be zh or en with exactly the keys 'source' and 'url'")


@dataclass(frozen=True)
class LabConfig:
    """What ``conf.py`` may set, with the prefix ``slime_lab_``."""

    recipes: str | None = _option(
        None,
        _check_folder,
        "env",
        "Folder of the facts (default: the `recipes` that ships with slime).",
        (str, type(None)),
    )
    repository: str | None = _option(
        None,
        _check_folder,
        "env",
        "Checkout that provenance names (default: the parent of `recipes`).",
        (str, type(None)),
    )
    source_url: str = _option(
        "",
        _check_source_url,
        "env",
        "Address of one source file at one commit, with {commit} and {path} (default: paths are not linked).",
        (str,),
    )
    storage: str = _option(
        "", _check_name, "html", "Name under which the browser keeps the choices (default: the project).", (str,)
    )
    trees: Mapping[str, Any] | None = _option(
        None,
        _check_trees,
        "html",
        "The language trees, for the link to the same page of the other one.",
        (dict, type(None)),
    )
    version: str = _option(
        "",
        _check_name,
        "html",
        "Version of this build, on a site with `versions.html` above its trees (default: no link to other versions).",
        (str,),
    )


def register(app: Sphinx) -> None:
    """Add every option to Sphinx."""
    for option in fields(LabConfig):
        app.add_config_value(
            PREFIX + option.name, option.default, option.metadata["rebuild"], types=option.metadata["types"]
        )


def read(config: Config) -> LabConfig:
    """Return the checked options; a wrong one is warned of and replaced by its default."""
    values = {}
    for option in fields(LabConfig):
        value = getattr(config, PREFIX + option.name)
        try:
            option.metadata["check"](value)
        except OptionError as error:
            warn(f"{PREFIX}{option.name}: {error}", "config", "conf.py")
            value = option.default
        values[option.name] = value
    return LabConfig(**values)
