"""Prompt files: what loads, and the place and reason of everything that does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from slime.data.chat_template import ChatTemplateError
from slime.data.prompts import PromptDataset, PromptOptions, load_prompts
from slime.data.rows import PromptFileError, read_rows

OPTIONS = PromptOptions(input_key="prompt", label_key="label")


def write(folder: Path, *rows: Any, name: str = "train.jsonl") -> str:
    path = folder / name
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


def tokenize(text: str) -> list[int]:
    return list(text.encode())


def template(messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None) -> str:
    if messages[0]["role"] == "nobody":
        raise ChatTemplateError("the role is unknown")
    return (
        ("".join(f"<tool>{tool['name']}" for tool in tools) if tools else "")
        + "".join(f"<{message['role']}>{message['content']}" for message in messages)
        + "<assistant>"
    )


def load(spec: str, options: PromptOptions = OPTIONS, **extra: Any) -> PromptDataset:
    return load_prompts(spec, tokenize, options, **extra)


def test_text_prompts(tmp_path: Path) -> None:
    data = load(
        write(
            tmp_path,
            {"prompt": "1+1=", "label": "2", "metadata": {"answer_type": "int"}},
            "",
            {"prompt": "é", "label": 3},
        )
    )
    assert [(prompt.text, prompt.tokens, prompt.label) for prompt in data.prompts] == [
        ("1+1=", [49, 43, 49, 61], "2"),
        ("é", [195, 169], 3),
    ]
    assert data.prompts[0].metadata == {"answer_type": "int"}
    assert data.prompts[1].metadata == {}


def test_the_template_gets_a_string_as_one_user_message(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    data = load(write(tmp_path, {"prompt": "q", "label": 1}, {"prompt": messages, "label": 1}), render=template)
    assert [prompt.text for prompt in data.prompts] == ["<user>q<assistant>", "<system>s<user>u<assistant>"]


@pytest.mark.parametrize(
    ("suffix", "expected"),
    [("", "01234"), ("@[1:3]", "12"), ("@[:2]", "01"), ("@[-2:]", "34"), ("@[:]", "01234"), ("@[1:-1]", "123")],
)
def test_slices(tmp_path: Path, suffix: str, expected: str) -> None:
    spec = write(tmp_path, *({"prompt": str(i), "label": i} for i in range(5)))
    assert "".join(str(prompt.text) for prompt in load(spec + suffix).prompts) == expected


def test_parquet_rows(tmp_path: Path) -> None:
    path = tmp_path / "train.parquet"
    parquet.write_table(pyarrow.table({"prompt": ["a", "b", "c"], "label": [1, 2, 3]}), path)
    data = load(f"{path}@[1:]")
    assert [(prompt.text, prompt.label) for prompt in data.prompts] == [("b", 2), ("c", 3)]
    with pytest.raises(PromptFileError, match=r"train.parquet:1: no key 'answer'.*the row has: prompt, label"):
        load(str(path), PromptOptions(input_key="prompt", label_key="answer"))


def test_a_missing_label_key_names_line_keys_and_nearest(tmp_path: Path) -> None:
    spec = write(tmp_path, {"prompt": "a", "label": 1}, {"prompt": "b", "labels": 1})
    expected = r"train.jsonl:2: no key 'label' \(--label-key\); the row has: prompt, labels. The nearest is 'labels'"
    with pytest.raises(PromptFileError, match=expected):
        load(spec)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (['{"prompt": "a", "label": 1}', '{"prompt": '], "train.jsonl:2:12: not JSON"),
        (["", "[1]"], "train.jsonl:2: a row is a JSON object, this is a list"),
        ([{"label": 1}], r"train.jsonl:1: no key 'prompt' \(--input-key\)"),
        ([{"prompt": 5, "label": 1}], "train.jsonl:1: 'prompt' is neither text nor a list of messages"),
        ([{"prompt": [{"role": "user", "content": "a"}], "label": 1}], "add --apply-chat-template"),
        ([{"prompt": "", "label": 1}], "train.jsonl:1: the prompt in 'prompt' is empty"),
        ([{"prompt": "a", "label": 1, "metadata": "x"}], "'metadata' is a str, not an object"),
        ([""], "no rows left; the file holds 0"),
        ([{"prompt": "a", "label": 1, "tools": "{"}], r"train.jsonl:1: 'tools' \(--tool-key\) is text that is no JSON"),
        ([{"prompt": "a", "label": 1, "tools": {"name": "add"}}], r"'tools' \(--tool-key\) is no list of objects"),
    ],
)
def test_bad_rows_name_their_line(tmp_path: Path, rows: list[Any], words: str) -> None:
    with pytest.raises(PromptFileError, match=words):
        load(write(tmp_path, *rows))


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_bytes(b'{"prompt": "a"}\n{"prompt": "\xff"}\n')
    with pytest.raises(PromptFileError, match=r"bad.jsonl:2: not UTF-8 at byte 12"):
        read_rows(str(tmp_path / "bad.jsonl"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("deep.jsonl", b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", r"deep.jsonl:1: nested too deeply"),
        ("big.jsonl", b'{"x": ' + b"9" * 5000 + b"}", r"big.jsonl:1: cannot be read: Exceeds the limit"),
        ("bom.jsonl", b'\xef\xbb\xbf{"x": 1}', r"bom.jsonl:1:1: not JSON: Unexpected UTF-8 BOM"),
        ("no.parquet", b"PAR1 and no more", r"no.parquet: not a parquet file that can be read"),
        ("empty.parquet", b"", r"empty.parquet: not a parquet file that can be read"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PromptFileError, match=words):
        read_rows(str(tmp_path / name))


@pytest.mark.parametrize("suffix", ["@[-:]", "@[:-]", f"@[{'9' * 5000}:]", "@[\u0661:2]", "@[0:1]x"])
def test_slices_that_are_none(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(PromptFileError, match="is no slice"):
        read_rows(write(tmp_path, {"prompt": "a"}) + suffix)


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(PromptFileError, match="cannot be read: File name too long"):
        read_rows(str(tmp_path / ("a" * 300 + ".jsonl")))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    write(tmp_path, {"prompt": "a"})
    with pytest.raises(PromptFileError, match=r"no such file. The folder holds: train.jsonl"):
        read_rows(str(tmp_path / "trian.jsonl"))
    with pytest.raises(PromptFileError, match="does not exist either"):
        read_rows(str(tmp_path / "nowhere" / "train.jsonl"))
    with pytest.raises(PromptFileError, match=r"'.csv' is unknown; a prompt file ends in .jsonl or .parquet"):
        read_rows(str(tmp_path / "train.csv"))
    with pytest.raises(PromptFileError, match=r"write path@\[start:stop\]"):
        read_rows(str(tmp_path / "train.jsonl@[1-3]"))


def test_long_prompts_are_left_out_and_counted(tmp_path: Path) -> None:
    spec = write(tmp_path, {"prompt": "abc", "label": 1}, {"prompt": "a" * 9, "label": 1})
    data = load(spec, PromptOptions("prompt", "label", rollout_max_prompt_len=8))
    assert len(data) == 1
    assert "left out 1 of 2 prompts longer than --rollout-max-prompt-len 8" in data.notes[0]
    with pytest.raises(PromptFileError, match="all 2 prompts exceed --rollout-max-prompt-len 2; the shortest has 3"):
        load(spec, PromptOptions("prompt", "label", rollout_max_prompt_len=2))


def test_a_label_that_the_grader_refuses_names_its_line(tmp_path: Path) -> None:
    def refuse(label: Any, metadata: dict[str, Any]) -> None:
        if not isinstance(label, str):
            raise ValueError("is no text")

    with pytest.raises(PromptFileError, match=r"train\.jsonl:2: label: is no text"):
        load(write(tmp_path, {"prompt": "a", "label": "1"}, {"prompt": "a", "label": 5}), check_label=refuse)


def test_prompts_templated_twice_are_noticed(tmp_path: Path) -> None:
    spec = write(tmp_path, {"prompt": "<|user|>hi", "label": 1}, {"prompt": "hi", "label": 1})
    data = load(spec, render=template, special_tokens=["<|user|>"])
    assert "1 prompts contain special tokens already" in data.notes[-1]


def test_the_fingerprint_follows_tokens_and_labels(tmp_path: Path) -> None:
    one = load(write(tmp_path, {"prompt": "a", "label": 1}))
    assert load(write(tmp_path, {"prompt": "a", "label": 1, "more": 2})).fingerprint == one.fingerprint
    assert load(write(tmp_path, {"prompt": "a", "label": 2})).fingerprint != one.fingerprint


def test_tools_reach_the_template_and_the_metadata(tmp_path: Path) -> None:
    tools = [{"name": "add"}]
    given: list[Any] = [tools, json.dumps(tools), [], None, ""]
    rows = [{"prompt": "q", "label": 1, "own": own} for own in given]
    data = load(write(tmp_path, *rows), PromptOptions("prompt", "label", tool_key="own"), render=template)
    assert [prompt.text for prompt in data.prompts] == ["<tool>add<user>q<assistant>"] * 2 + ["<user>q<assistant>"] * 3
    assert [prompt.metadata.get("tools") for prompt in data.prompts] == [tools, tools, None, None, None]


def test_what_the_template_refuses_names_the_line(tmp_path: Path) -> None:
    spec = write(tmp_path, {"prompt": "q", "label": 1}, {"prompt": [{"role": "nobody"}], "label": 1})
    with pytest.raises(PromptFileError, match=r"train.jsonl:2: the role is unknown"):
        load(spec, render=template)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            [{"type": "text", "text": "a"}, {"type": "image", "image": "x"}],
            "message 1 in 'prompt' has a part of the type 'image'",
        ),
        ({"type": "video"}, "a part of the type 'video'; images, audio and video are not run yet"),
        (5, "message 1 in 'prompt' has a int as its content"),
        ("\ud800", "half of a surrogate pair"),
    ],
)
def test_contents_of_messages(tmp_path: Path, content: Any, words: str) -> None:
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "be brief"}]},
        {"role": "user", "content": content},
    ]
    with pytest.raises(PromptFileError, match=f"train.jsonl:1: .*{words}"):
        load(write(tmp_path, {"prompt": messages, "label": 1}), render=template)


def test_messages_may_stay_for_a_function_of_the_users(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "u"}]
    spec = write(tmp_path, {"prompt": messages, "label": 1}, {"prompt": "text", "label": 1})
    first, second = load(spec, PromptOptions("prompt", "label", keep_messages=True)).prompts
    assert (first.text, first.tokens) == (messages, [])
    assert second.tokens == tokenize("text")


def test_lengths_are_noted(tmp_path: Path) -> None:
    spec = write(tmp_path, *({"prompt": "a" * n, "label": 1} for n in range(1, 201)))
    assert "half of the prompts have at most 100 tokens, 99 of 100 at most 198, the longest 200" in load(spec).notes[0]
