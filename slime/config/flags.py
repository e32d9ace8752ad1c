"""How one flag is declared, and the registry of all of them.

A flag is a dataclass field made by :func:`flag`; the registry is derived from the fields, so a flag has one
definition from which the parser, the help text, the planned/running status and the lab's checks all come.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from slime.config.underneath import underneath

Source = Literal["slime", "megatron", "sglang", "own"]

# The upstream version in which a flag of that source was read; ``since=`` of a single flag overrides it.
FIRST_SEEN: Mapping[str, str] = {
    "slime": "624b824a",
    "megatron": "core 0.16.1",
    "sglang": "0.5.23",
    "own": "0.1.0",
}
NEWER_SLIME = "002fa9d6"
# torch, NumPy and the engine all take it, also after the number of an engine was added.
MAX_SEED = 2**31 - 1
# Above it Megatron, PyArrow and the engine overflow; counts, sizes and lengths never come near.
MAX_INTEGER = 2**53

_RANGE_WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "choices": "one of {}", "comma": ", ", "above": "above {}", "minimum": "at least {}", "maximum": "at most {}",
        "int": "an integer", "float": "a number", "str": "text", "dict": "a JSON object", "bool": "true or false",
    },
    "zh": {
        "choices": "{} 之一", "comma": "，", "above": "大于 {}", "minimum": "不小于 {}", "maximum": "不大于 {}",
        "int": "整数", "float": "数", "str": "文本", "dict": "JSON 对象", "bool": "true 或 false",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Text:
    """One sentence in both languages; ``text["zh"]`` and ``text.zh`` are the same."""

    zh: str
    en: str

    def __getitem__(self, language: str) -> str:
        if language == "zh":
            return self.zh
        if language == "en":
            return self.en
        raise KeyError(language)


@dataclass(frozen=True)
class Flag:
    """One command-line flag.

    ``type`` is the type of one value (``bool``, ``int``, ``float``, ``str`` or ``dict`` for a JSON object);
    ``many`` means the flag takes one or more values. ``minimum`` and ``maximum`` are inclusive, ``above`` is an
    exclusive lower limit. ``default`` is None when the flag is required or filled by derivation. ``runs`` is False
    for a flag that the runtime does not honour yet; ``only`` lists, as text, the values that it runs today. ``sets``
    names the fields of Megatron's or SGLang's configuration that the flag sets, ``system_default`` is the value that
    the system underneath takes when ``default`` is None. ``not_yet`` lists values that the runtime does not run yet,
    of a flag that takes any other.
    """

    name: str
    field: str
    type: type
    many: bool
    default: Any
    choices: tuple[str, ...] | None
    minimum: float | None
    maximum: float | None
    above: float | None
    help: Text
    group: str
    runs: bool
    only: tuple[str, ...] | None
    source: Source
    since: str
    required: bool
    sets: tuple[str, ...] = ()
    system_default: Any = None
    not_yet: tuple[str, ...] = ()

    @property
    def switch(self) -> bool:
        """True when the flag takes no value."""
        return self.type is bool

    def range_text(self, language: str = "en") -> str:
        """The legal values in words, for help and errors."""
        words = _RANGE_WORDS[language]
        if self.choices is not None:
            return words["choices"].format(", ".join(self.choices))
        parts = [words[self.type.__name__]]
        for limit, word in ((self.above, "above"), (self.minimum, "minimum"), (self.maximum, "maximum")):
            if limit is not None:
                parts.append(words[word].format(_number(limit)))
        return words["comma"].join(parts)

    def planned(self, value: str | None = None) -> bool:
        """True when the runtime does not run this flag, or not with ``value`` (a switch has None)."""
        if not self.runs:
            return True
        if self.only is None:
            return value in self.not_yet
        if value is None:
            return self.switch and "true" not in self.only
        return _canonical(self, value) not in {_canonical(self, one) for one in self.only}


def flag(
    default: Any,
    help_zh: str,
    help_en: str,
    *,
    choices: Iterable[str] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    runs: bool = True,
    only: Iterable[Any] | None = None,
    not_yet: Iterable[str] = (),
    source: Source = "slime",
    since: str | None = None,
    required: bool = False,
    name: str | None = None,
) -> Any:
    """Declare one flag as a dataclass field.

    A field whose annotation has no ``| None`` but whose default is None is either ``required`` or filled by a
    ``derive_*`` function: after :func:`slime.config.parse_args` it is never None.
    """
    metadata = {
        "flag": True,
        "help": Text(help_zh, help_en),
        "choices": None if choices is None else tuple(choices),
        "minimum": minimum,
        "maximum": maximum,
        "above": above,
        "runs": runs,
        "only": None if only is None else tuple(value_text(value) for value in only),
        "not_yet": tuple(not_yet),
        "source": source,
        "since": since,
        "required": required,
        "name": name,
    }
    return dataclasses.field(default=default, metadata=metadata)


def planned(default: Any, help_zh: str, help_en: str, **options: Any) -> Any:
    """Declare a flag that is known but not run yet: the launcher refuses it by name."""
    return flag(default, help_zh, help_en, runs=False, **options)


def value_text(value: Any) -> str:
    """The text of a typed value as it would stand on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Registry(Mapping[str, Flag]):
    """All flags by their name (``--rollout-batch-size``), in declaration order."""

    def __init__(self, flags: Iterable[Flag]) -> None:
        self._flags: dict[str, Flag] = {}
        for one in flags:
            if one.name in self._flags:
                raise ValueError(f"{one.name} is declared twice")
            self._flags[one.name] = one
        self._fields = {one.field: one for one in self._flags.values()}

    def __getitem__(self, name: str) -> Flag:
        return self._flags[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._flags)

    def __len__(self) -> int:
        return len(self._flags)

    def by_field(self, field: str) -> Flag:
        """The flag of a Config attribute, e.g. ``rollout_batch_size``. Raises KeyError."""
        return self._fields[field]

    def groups(self) -> dict[str, list[Flag]]:
        """Flags by group title, in declaration order."""
        found: dict[str, list[Flag]] = {}
        for one in self._flags.values():
            found.setdefault(one.group, []).append(one)
        return found

    def nearest(self, name: str) -> str | None:
        """The registered flag most like ``name``, or None when nothing is similar."""
        wanted = "--" + name.lstrip("-").replace("_", "-").lower()
        if wanted in self._flags:
            return wanted
        matches = difflib.get_close_matches(wanted, self._flags, n=1, cutoff=0.6)
        return matches[0] if matches else None

    def planned(self, name: str, value: str | None = None) -> bool:
        """True when the runtime does not run this flag (or this value) yet. Raises KeyError for unknown flags."""
        return self._flags[name].planned(value)


def flags_of(group: type, title: str) -> list[Flag]:
    """Read the flags that ``group`` itself declares (inherited fields belong to their own group)."""
    hints = typing.get_type_hints(group)
    own = inspect.get_annotations(group)
    return [
        _build(item, hints[item.name], title)
        for item in dataclasses.fields(group)
        if item.name in own and item.metadata.get("flag")
    ]


def _build(item: dataclasses.Field[Any], annotation: Any, title: str) -> Flag:
    kind, many = _value_type(annotation)
    meta = dict(item.metadata)
    meta.pop("flag")
    name = meta.pop("name") or "--" + item.name.replace("_", "-")
    below = underneath(name, meta["source"])
    meta["choices"] = meta["choices"] or below.choices
    meta["since"] = meta["since"] or below.since or FIRST_SEEN[meta["source"]]
    return Flag(
        name=name,
        field=item.name,
        type=kind,
        many=many,
        default=item.default,
        group=title,
        sets=below.sets,
        system_default=below.default,
        **meta,
    )


def _value_type(annotation: Any) -> tuple[type, bool]:
    """``int | None`` -> (int, False); ``tuple[str, ...]`` -> (str, True); ``Mapping[str, Any]`` -> (dict, False)."""
    if isinstance(annotation, types.UnionType):
        (annotation,) = (one for one in typing.get_args(annotation) if one is not type(None))
    origin = typing.get_origin(annotation)
    if origin is tuple:
        return typing.get_args(annotation)[0], True
    if origin is Mapping:
        return dict, False
    return annotation, False


def _canonical(one: Flag, value: str) -> str:
    """Two spellings of the same number (``1``, ``1.0``, ``1e0``) count as the same value."""
    if one.type in (int, float):
        try:
            return repr(float(value))
        except ValueError:
            return value
    return value


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)
