"""Files of conversations: what loads, what is left out, and the line of what cannot train."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slime.data.chat_template import ChatTemplate
from slime.data.columns import PromptOptions
from slime.data.conversation import supervised_samples
from slime.data.rows import PromptFileError
from slime.data.source import PromptSource
from slime.data.supervised import load_conversations

from .families import stop_ids, tokenizer

pytestmark = pytest.mark.runtime
OPTIONS = PromptOptions("messages")
TURNS = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "12"}]


def template(family: str = "llama3") -> ChatTemplate:
    return ChatTemplate(tokenizer(family), stop_token_ids=stop_ids(family))


def write(folder: Path, *conversations: Any) -> str:
    path = folder / "sft.jsonl"
    path.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in conversations), encoding="utf-8")
    return str(path)


def test_conversations_come_through_the_source_as_samples(tmp_path: Path) -> None:
    data = load_conversations(write(tmp_path, TURNS, TURNS * 2), template("qwen3"), OPTIONS)
    assert "2 conversations, 3 samples" in data.notes[0]
    assert "rewrites earlier turns, so 2 conversations make 3 samples" in data.notes[1]
    groups = PromptSource(data, 1).get_groups(2)
    samples = [sample for group in groups for one in group for sample in supervised_samples(one, template("qwen3"))]
    assert [sample.rollout_id for sample in samples] == [0, 1, 1]
    for sample in samples:
        sample.check(generated=False)


def test_what_cannot_train_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match=r"sft.jsonl:2: no message of 1 trains"):
        load_conversations(write(tmp_path, TURNS, TURNS[:1]), template(), OPTIONS)
    with pytest.raises(
        PromptFileError, match=r"sft.jsonl:1: 'messages' is text; supervised data are lists of messages"
    ):
        load_conversations(write(tmp_path, "hello"), template(), OPTIONS)
    with pytest.raises(PromptFileError, match=r"sft.jsonl:1: the chat template cannot render messages of user"):
        load_conversations(write(tmp_path, [{"role": "user"}, TURNS[1]]), template("glm4"), OPTIONS)


def test_long_conversations_are_left_out(tmp_path: Path) -> None:
    long = [TURNS[0], {"role": "assistant", "content": "z" * 300}]
    data = load_conversations(write(tmp_path, TURNS, long), template(), OPTIONS, max_tokens=200)
    assert len(data) == 1
    assert "left out 1 of 2 conversations longer than --rollout-max-context-len 200" in data.notes[0]
    with pytest.raises(PromptFileError, match="all 1 conversations are longer"):
        load_conversations(write(tmp_path, long), template(), OPTIONS, max_tokens=200)
