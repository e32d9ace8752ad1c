"""``slime train --help``: an overview by group, one group, one flag, or the flags that mention a word."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping, Sequence

from slime.config.config import GROUP_TITLES, REGISTRY
from slime.config.errors import ConfigError
from slime.config.flags import Flag, value_text

ALL: tuple[str, ...] = (*GROUP_TITLES, "all")

_WIDTH = 108
# Column at which the meaning of a flag starts in the overview.
_INDENT = 40

_HEAD = {
    "en": "usage: slime train [--config FILE ...] [flags]\n"
    "       slime train --help [GROUP | --flag | WORD | all]\n\n"
    "Files and flags are merged in the order in which they stand; later ones win. Names are exact. A switch is turned\n"
    "off by --no-NAME or --NAME=false. Below stand the flags that the runtime runs; `planned` ones it knows but\n"
    "refuses. What a flag takes, where it comes from and what it sets stands in the help of its group.",
    "zh": "用法：slime train [--config 文件 ...] [参数]\n"
    "      slime train --help [组 | --参数 | 词 | all]\n\n"
    "文件和参数按出现的顺序合并，后面的覆盖前面的。参数名必须写全。开关用 --no-NAME 或 --NAME=false 关闭。\n"
    "下面是运行时能运行的参数；「计划中」的参数运行时认识，但会拒绝。取值、来源与所设置的字段，见各组的帮助。",
}
_WORDS: Mapping[str, Mapping[str, str]] = {
    "en": {
        "default": "default", "required": "required", "planned": "planned", "runs": "runs", "takes": "takes",
        "system": "without it", "sets": "sets", "since": "from", "sep": ": ", "join": "; ",
        "more": "planned besides: {count} (slime train --help {group})",
        "found": "{count} flags mention {word!r}:",
    },
    "zh": {
        "default": "默认", "required": "必填", "planned": "计划中", "runs": "可运行", "takes": "取值",
        "system": "不写时", "sets": "设置", "since": "来自", "sep": "：", "join": "；",
        "more": "另有 {count} 个计划中（slime train --help {group}）",
        "found": "提到 {word!r} 的参数有 {count} 个：",
    },
}  # fmt: skip
_KINDS = {int: "INTEGER", float: "NUMBER", str: "TEXT", dict: "JSON", bool: ""}
# More choices than this are not listed in a flag's heading.
_SHOWN_CHOICES = 6


def help_text(language: str = "en", topic: str | None = None) -> str:
    """The help in ``zh`` or ``en``.

    Args:
        language: ``zh`` or ``en``.
        topic: None for the overview, ``all``, the id of a group, the name of a flag with or without its dashes, or a
            word that names or meanings contain.

    Raises:
        ConfigError: nothing matches the topic; the message has the groups and the nearest flag.
    """
    if topic is None:
        return "\n\n".join([_HEAD[language], *(_overview(name, language) for name in GROUP_TITLES)])
    if topic == "all":
        return "\n\n".join(_group(name, language) for name in GROUP_TITLES)
    if topic in GROUP_TITLES:
        return _group(topic, language)
    name = "--" + topic.removeprefix("--").replace("_", "-")
    if name in REGISTRY:
        return _entry(REGISTRY[name], language)
    return _search(topic, language)


def _overview(group: str, language: str) -> str:
    flags = REGISTRY.groups()[group]
    lines = [f"{GROUP_TITLES[group][language]} ({group})"]
    lines += [_line(one, language) for one in flags if one.runs]
    planned = sum(not one.runs for one in flags)
    if planned:
        lines.append("  " + _WORDS[language]["more"].format(count=planned, group=group))
    return "\n".join(lines)


def _line(one: Flag, language: str) -> str:
    """One flag on one line, or on two when its name is long."""
    notes = _short_notes(one, language)
    tail = f" [{_WORDS[language]['join'].join(notes)}]" if notes else ""
    head = f"  {one.name}{_metavar(one)}"
    margin = "\n" + " " * _INDENT
    body = margin.join(textwrap.wrap(one.help[language] + tail, _WIDTH + 12 - _INDENT, break_on_hyphens=False))
    return head + margin + body if len(head) > _INDENT - 2 else head.ljust(_INDENT) + body


def _short_notes(one: Flag, language: str) -> list[str]:
    words = _WORDS[language]
    notes = []
    if one.required:
        notes.append(words["required"])
    elif one.default is not None and not one.switch:
        notes.append(f"{words['default']} {value_text(one.default)}")
    if one.only is not None:
        notes.append(f"{words['runs']} {', '.join(one.only)}")
    return notes


def _group(group: str, language: str) -> str:
    entries = [_entry(one, language) for one in REGISTRY.groups()[group]]
    return "\n".join([f"{GROUP_TITLES[group][language]} ({group})", *entries])


def _entry(one: Flag, language: str) -> str:
    """One flag with everything that the registry knows of it."""
    words = _WORDS[language]
    notes = [f"{words['takes']} {one.range_text(language)}"] if not one.switch else []
    notes += _short_notes(one, language)
    if not one.runs:
        notes.append(words["planned"])
    if one.default is None and one.system_default not in (None, [], ""):
        notes.append(f"{words['system']} {one.system_default}")
    if one.sets:
        notes.append(f"{words['sets']} {', '.join(one.sets)}")
    notes.append(f"{words['since']} {one.source} {one.since}")
    text = textwrap.fill(
        f"{one.help[language]} [{words['join'].join(notes)}]",
        _WIDTH,
        initial_indent=" " * 6,
        subsequent_indent=" " * 6,
        break_on_hyphens=False,
    )
    return f"  {one.name}{_metavar(one)}\n{text}"


def _metavar(one: Flag) -> str:
    if one.switch:
        return ""
    shown = one.choices is not None and len(one.choices) <= _SHOWN_CHOICES
    kind = "|".join(one.choices or ()) if shown else _KINDS[one.type]
    return f" {kind}{' ...' if one.many else ''}"


def _search(word: str, language: str) -> str:
    needle = word.lower()
    found = [
        one
        for one in REGISTRY.values()
        if needle in one.name or any(needle in text.lower() for text in (one.help.zh, one.help.en))
    ]
    if not found:
        raise ConfigError(f"--help {word}: {_nothing(word)}")
    head = _WORDS[language]["found"].format(count=len(found), word=word)
    return "\n".join([head, *(_entry(one, language) for one in found)])


def _nothing(word: str) -> str:
    close = difflib.get_close_matches(word, GROUP_TITLES, n=1)
    nearest = close[0] if close else REGISTRY.nearest(word)
    hint = f"; did you mean {nearest}?" if nearest else "."
    return f"no group, flag or meaning has this word{hint} The groups are {', '.join(GROUP_TITLES)}, and all."


def help_topic(words: Sequence[str], help_words: Sequence[str]) -> str | None:
    """The word after ``--help``, or what ``--help=`` holds; None when it stands alone or last."""
    for position, word in enumerate(words):
        name, equals, attached = word.partition("=")
        if name in help_words:
            topic = attached if equals else next(iter(words[position + 1 :]), "")
            return topic if topic and topic not in help_words else None
    return None
