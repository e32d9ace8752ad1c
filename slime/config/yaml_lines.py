"""YAML with the line of every key.

A message about a configuration file is only useful if it names the line. `load_yaml_with_lines` reads one document
into plain Python data and returns, next to it, where each key and list item stands.

Three rules of YAML 1.1 surprise people who write configuration, so the YAML 1.2 core schema is used instead: `on`,
`off`, `yes` and `no` are words (not booleans), `010` is ten (not eight), and a date is text. Duplicate keys, keys
that are not text, anchors and tags are refused: the first two are mistakes, the last two make a small file able to
ask for a large amount of work.
"""

from __future__ import annotations

import math
import re
from typing import Any

import yaml

Path = tuple[str | int, ...]
"""Where a value stands: mapping keys and list positions from the root, for example `("parallel", "tp")`."""

MAXIMUM_DEPTH = 40
MAXIMUM_CHARACTERS = 1_000_000


class YamlError(ValueError):
    """The text is not acceptable YAML.

    `line` is zero-based, `message` says what is wrong without the place, `message_zh` the same in Chinese.
    """

    def __init__(self, message: str, message_zh: str, line: int) -> None:
        super().__init__(f"line {line + 1}: {message}")
        self.message = message
        self.message_zh = message_zh
        self.line = line


class _CoreLoader(yaml.SafeLoader):
    """SafeLoader with the scalars of the YAML 1.2 core schema."""


# An own, empty table: YAML 1.1's scalars stay with SafeLoader.
_CoreLoader.yaml_implicit_resolvers = {}


def _resolver(tag: str, pattern: str, first: str) -> None:
    _CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))


_resolver("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_resolver("int", r"[-+]?[0-9]+", "-+0123456789")
_resolver("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789")
_CoreLoader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])


def load_yaml_with_lines(text: str) -> tuple[Any, dict[Path, int]]:
    """Read one YAML document.

    Returns the data (dict, list, str, int, float, bool or None) and the zero-based line of each path: of the key for
    a mapping entry, of the item for a list entry, of the first token for the root `()`. An empty document is `None`.

    Raises `YamlError` for a syntax error, a duplicate or non-text key, an anchor, an alias, a tag, more than one
    document, more than `MAXIMUM_DEPTH` levels or `MAXIMUM_CHARACTERS` characters.
    """
    if len(text) > MAXIMUM_CHARACTERS:
        raise YamlError(
            f"the text has {len(text)} characters; at most {MAXIMUM_CHARACTERS} are read",
            f"文本有 {len(text)} 个字符，最多读 {MAXIMUM_CHARACTERS} 个",
            0,
        )
    try:
        _refuse_machinery(text)
        node = yaml.compose(text, Loader=_CoreLoader)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n")
        character = f"U+{ord(text[error.position]):04X}"
        raise YamlError(
            f"the character {character} is not allowed in YAML", f"YAML 中不允许出现字符 {character}", line
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        detail = ", ".join(part for part in (error.context, error.problem) if part)
        line = mark.line if mark is not None else 0
        raise YamlError(f"not valid YAML: {detail}", f"不是合法的 YAML：{detail}", line) from error
    lines: dict[Path, int] = {(): node.start_mark.line if node is not None else 0}
    data = None if node is None else _convert(node, (), lines)
    return data, lines


def nearest_line(lines: dict[Path, int], path: Path) -> int:
    """The zero-based line of `path`, or of its closest ancestor that has one (a missing key has no line of its own)."""
    while path not in lines and path:
        path = path[:-1]
    return lines.get(path, 0)


def _refuse_machinery(text: str) -> None:
    """Refuse anchors, aliases, tags and deep nesting while the text is a stream of events and nothing is built yet."""
    depth = 0
    for event in yaml.parse(text, Loader=_CoreLoader):
        line = event.start_mark.line if event.start_mark is not None else 0
        if isinstance(event, yaml.AliasEvent):
            name = f"*{event.anchor}"
            raise YamlError(
                f"the alias {name} is not read here; write the value out",
                f"这里不读别名 {name}；请把值直接写出来",
                line,
            )
        anchor, tag = getattr(event, "anchor", None), getattr(event, "tag", None)
        if anchor is not None:
            raise YamlError(
                f"the anchor &{anchor} is not read here; write the value out",
                f"这里不读锚点 &{anchor}；请把值直接写出来",
                line,
            )
        if tag is not None:
            raise YamlError(
                f"the tag {tag} is not read here; plain values are enough",
                f"这里不读标签 {tag}；普通的值就够用",
                line,
            )
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            depth += 1
            if depth > MAXIMUM_DEPTH:
                raise YamlError(f"more than {MAXIMUM_DEPTH} levels of nesting", f"嵌套超过 {MAXIMUM_DEPTH} 层", line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            depth -= 1


def _convert(node: yaml.Node, path: Path, lines: dict[Path, int]) -> Any:
    if isinstance(node, yaml.MappingNode):
        return _convert_mapping(node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, child in enumerate(node.value):
            lines[(*path, index)] = child.start_mark.line
            items.append(_convert(child, (*path, index), lines))
        return items
    return _convert_scalar(node)


def _convert_mapping(node: yaml.MappingNode, path: Path, lines: dict[Path, int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line
        key = _convert_scalar(key_node) if isinstance(key_node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            is_scalar = isinstance(key_node, yaml.ScalarNode)
            shown, shown_zh = (key_node.value,) * 2 if is_scalar else ("a list or mapping", "（列表或映射）")
            raise YamlError(
                f"the key {shown} is not text; put it in quotes", f"键 {shown_zh} 不是文字；请加上引号", line
            )
        if key in result:
            first = lines[(*path, key)] + 1
            raise YamlError(
                f"the key {key} stands twice; it was first on line {first}",
                f"键 {key} 出现了两次，第一次在第 {first} 行",
                line,
            )
        lines[(*path, key)] = line
        result[key] = _convert(value_node, (*path, key), lines)
    return result


def _convert_scalar(node: yaml.Node) -> str | int | float | bool | None:
    kind = node.tag.rsplit(":", 1)[-1]
    text: str = node.value
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        if len(text) > 30:
            raise YamlError(
                f"the number has {len(text)} digits; at most 30 are read",
                f"这个数有 {len(text)} 位，最多读 30 位",
                node.start_mark.line,
            )
        return int(text)
    if kind == "float":
        number = float(text)
        if math.isinf(number):
            raise YamlError(f"the number {text} is too large", f"数 {text} 太大", node.start_mark.line)
        return number
    return text
