"""Where responses end, what a request asks for, and supervised rounds."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slime.data.prompts import Prompt, PromptDataset
from slime.data.source import PromptSource
from slime.rewards.pool import GraderPool
from slime.rollout.client import BAN, SamplingParams
from slime.rollout.errors import RolloutError, SetupError
from slime.rollout.machinery import machinery
from slime.rollout.seeds import request_seed
from slime.rollout.sft_rollout import generate_rollout
from slime.rollout.stops import end_of_turn, stop_set
from slime.rollout.text import text_tools
from slime.tiny.tokenizer import ASSISTANT, END, PAD, USER, build_tokenizer, vocabulary

from .bigram import Bigram, BigramClient
from .harness import tools

IDS = vocabulary()


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer(256)


def test_end_tokens_come_from_every_source(tokenizer: Any, tmp_path: Path) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [IDS[END], IDS[USER]]}))
    found = stop_set(tokenizer, str(tmp_path), chat_template=True, given=(IDS[PAD],))
    assert found.token_ids == tuple(sorted((IDS[END], IDS[USER], IDS[PAD])))
    assert found.origins[IDS[END]] == "tokenizer, generation_config.json, chat template"
    assert found.origins[IDS[PAD]] == "--rollout-stop-token-ids"
    assert f"{USER} ({IDS[USER]}: generation_config.json)" in found.note(tokenizer)


def test_the_templates_end_of_turn_is_found_although_it_is_not_the_tokenizers(tokenizer: Any, tmp_path: Path) -> None:
    """Qwen's base models: the tokenizer ends a text, the template ends a turn with another token."""
    other = build_tokenizer(256)
    other.eos_token = PAD
    assert end_of_turn(other) == [IDS[END]]
    assert stop_set(other, str(tmp_path), chat_template=True).token_ids == (IDS[PAD], IDS[END])
    assert stop_set(other, str(tmp_path), chat_template=False).token_ids == (IDS[PAD],)
    other.chat_template = "{% for m in messages %}{{ m['content'] }}" + ASSISTANT[:0] + "{% endfor %}"
    assert end_of_turn(other) == []


def test_an_end_token_that_does_not_exist_is_refused(tokenizer: Any, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="--rollout-stop-token-ids: end token 9999 is not among the tokenizer's 102"):
        stop_set(tokenizer, str(tmp_path), chat_template=True, given=(9999,))
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(SetupError, match="is no JSON"):
        stop_set(tokenizer, str(tmp_path), chat_template=True)


def test_the_token_that_ends_a_response_is_not_part_of_its_text(tokenizer: Any) -> None:
    text = text_tools(tokenizer, False, (IDS[END],))
    ids = [*text.encode("4" + USER + "2"), IDS[END]]
    assert text.response_text(ids) == "4" + USER + "2"
    assert text.response_text(ids[:-1]) == "4" + USER + "2"
    assert text_tools(tokenizer, True, (IDS[END],)).response_text(ids) == "42"


def test_parameters_of_a_request_survive_the_way_through_a_hook() -> None:
    plain = SamplingParams(max_new_tokens=4)
    assert plain.to_dict() == {"max_new_tokens": 4, "temperature": 1.0, "top_p": 1.0, "top_k": -1}
    full = SamplingParams(9, 0.5, 0.9, 7, ("a", "b"), (3, 4), 2, 1.1, True, 12345, (0, 5))
    values = full.to_dict()
    assert values["logit_bias"] == {"0": BAN, "5": BAN}
    assert values["no_stop_trim"] is True and values["skip_special_tokens"] is True
    for one in (plain, full):
        assert SamplingParams.from_dict(json.loads(json.dumps(one.to_dict()))) == one


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"max_tokens": 3}, "sampling parameter 'max_tokens' is not known"),
        ({"temperature": 1}, "need max_new_tokens"),
        ({"max_new_tokens": 1, "logit_bias": {"3": 2.0}}, "only -1000.0, which bans a token"),
    ],
)
def test_wrong_parameters_are_named(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        SamplingParams.from_dict(values)


def test_seeds_differ_wherever_requests_do() -> None:
    cases = [(s, n, i, p) for s in (1, 2) for n in ("rollout", "eval-a") for i in (0, 1, 10) for p in (4, 40)]
    seeds = [request_seed(*case) for case in cases]
    assert len(set(seeds)) == len(cases)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert request_seed(1, "rollout", 0, 4) == seeds[0]


def test_a_supervised_round_trains_what_the_assistant_says(tokenizer: Any, grader: GraderPool) -> None:
    conversations: list[list[dict[str, Any]]] = [
        [
            {"role": "user", "content": f"{i}+1="},
            {"role": "assistant", "content": str(i + 1)},
            {"role": "user", "content": "+1="},
            {"role": "assistant", "content": str(i + 2), "step_loss_mask": i % 2},
        ]
        for i in range(5)
    ]
    source = PromptSource(PromptDataset([Prompt(one, [], None, {}) for one in conversations], "sft"), 1)
    setup = tools(BigramClient(Bigram()), grader, rollout_batch_size=4, loss_type="sft_loss")
    with replace(setup, text=text_tools(tokenizer, False, (IDS[END],))).bound():
        output = generate_rollout(setup.config, 0, source)
    assert [len(group) for group in output.samples] == [1] * 4
    for i, ((sample,), messages) in enumerate(zip(output.samples, conversations, strict=False)):
        sample.check(graded=False, generated=False)
        trained = [t for t, m in zip(sample.tokens[sample.prompt_length :], sample.loss_mask or [], strict=True) if m]
        second = messages[3]["content"] + END if i % 2 else ""
        assert tokenizer.decode(trained) == messages[1]["content"] + END + second


def test_there_is_no_machinery_outside_of_a_run() -> None:
    with pytest.raises(RolloutError, match="run inside `slime train` alone"):
        machinery()
    with pytest.raises(RolloutError, match="there is no generation context here"):
        asyncio.run(_context())


async def _context() -> None:
    from slime.rollout.context import current

    current()
