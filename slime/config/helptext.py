"""``slime train --help``: every flag with its default, legal values and status, by group."""

from __future__ import annotations

import textwrap

from slime.config.config import GROUP_TITLES, REGISTRY
from slime.config.flags import Flag, value_text

_HEAD = {
    "en": "usage: slime train [--config FILE] [flags]\n\n"
    "Files and flags are merged in the order in which they stand; later ones win. Names are exact.\n"
    "`planned` marks what the runtime knows but does not run yet.",
    "zh": "用法：slime train [--config FILE] [参数]\n\n"
    "文件和参数按出现的顺序合并，后面的覆盖前面的。参数名必须写全。\n"
    "标有「计划中」的参数运行时认识，但还不能运行。",
}
_WORDS = {
    "en": {"default": "default", "required": "required", "planned": "planned", "runs": "runs", "legal": ""},
    "zh": {"default": "默认", "required": "必填", "planned": "计划中", "runs": "可运行", "legal": ""},
}


def help_text(language: str = "en", group: str | None = None) -> str:
    """The help text in ``zh`` or ``en``, of one group or of all."""
    blocks = [] if group else [_HEAD[language]]
    for name, flags in REGISTRY.groups().items():
        if group in (None, name):
            lines = [GROUP_TITLES[name][language] + ":", *(_entry(one, language) for one in flags)]
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _entry(one: Flag, language: str) -> str:
    words = _WORDS[language]
    metavar = "" if one.switch else " " + ("|".join(one.choices) if one.choices else one.type.__name__.upper())
    notes: list[str] = []
    if one.required:
        notes.append(words["required"])
    elif one.default is not None and not one.switch:
        notes.append(f"{words['default']} {value_text(one.default)}")
    if not one.runs:
        notes.append(words["planned"])
    elif one.only is not None:
        notes.append(f"{words['runs']} {', '.join(one.only)}")
    tail = f" [{'; '.join(notes)}]" if notes else ""
    body = textwrap.fill(one.help[language] + tail, 108, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return f"  {one.name}{metavar}{' ...' if one.many else ''}\n{body}"
