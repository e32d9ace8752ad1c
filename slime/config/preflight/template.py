"""The chat template of a checkpoint, rendered as Transformers renders it, without Transformers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slime.config.preflight.json_files import read_optional

if TYPE_CHECKING:
    from jinja2 import Environment, Template

    from slime.config.preflight.vocabulary import Vocabulary

Message = Mapping[str, Any]


class TemplateProblem(ValueError):
    """The template cannot be rendered; the message is Jinja's, or what the template raises itself."""


@dataclass(frozen=True)
class ChatTemplate:
    """The template's text, and the special tokens that it may name."""

    text: str
    tokens: Mapping[str, str]

    @cached_property
    def _template(self) -> Template:
        return _environment().from_string(self.text)

    def render(self, messages: Sequence[Message], *, generate: bool = False, **arguments: Any) -> str:
        """The conversation as text; ``generate`` adds the opening of the assistant's turn.

        Raises:
            TemplateProblem: the template refuses the conversation, or is no template.
        """
        from jinja2 import TemplateError

        values = {**self.tokens, "messages": list(messages), "add_generation_prompt": generate, **arguments}
        try:
            return str(self._template.render(values))
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError, IndexError, RecursionError) as error:
            raise TemplateProblem(str(error) or type(error).__name__) from None


def read_template(folder: Path, vocabulary: Vocabulary | None, own: str | None = None) -> ChatTemplate | None:
    """The template of a folder: chat_template.jinja, chat_template.json, or the key of tokenizer_config.json.

    The file `own` (``--chat-template-path``) goes before them; one that cannot be read is refused when the run starts.
    """
    settings = read_optional(folder / "tokenizer_config.json")
    text: Any = None
    named_file = folder / "chat_template.jinja" if own is None else Path(own)
    if named_file.is_file():
        text = named_file.read_text(encoding="utf-8", errors="replace")
    text = text or read_optional(folder / "chat_template.json").get("chat_template") or settings.get("chat_template")
    if isinstance(text, list):  # several named templates
        named = {one.get("name"): one.get("template") for one in text if isinstance(one, dict)}
        text = named.get("default")
    if not isinstance(text, str) or not text:
        return None
    roles = ("bos_token", "eos_token", "pad_token", "unk_token")
    tokens = {role: value for role in roles if vocabulary is not None and (value := vocabulary.named(role))}
    return ChatTemplate(text, tokens)


def _environment() -> Environment:
    """The environment that chat templates are written for: sandboxed, blocks trimmed, loop controls."""
    from jinja2 import TemplateError
    from jinja2.ext import Extension
    from jinja2.nodes import Node
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """``{% generation %}`` marks what the assistant wrote; it renders as its content."""

        tags = {"generation"}  # noqa: RUF012 -- declared so by Jinja

        def parse(self, parser: Parser) -> list[Node]:
            next(parser.stream)
            return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, indent: int | None = None, **_: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    # Templates write today's date; a fixed one keeps the checks repeatable.
    environment.globals["strftime_now"] = lambda form: "2000-01-01"
    return environment
