"""The tiny experiment's tokenizer, data and warm start."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from slime.tiny.data import HELD_OUT, Problem, split_problems, write_problems
from slime.tiny.tokenizer import VOCABULARY_SIZE, build_tokenizer, vocabulary
from slime.tiny.warm_start import (
    EncodedProblems,
    WarmStart,
    WarmStartError,
    build_model,
    run_warm_start,
    sampled_accuracy,
)

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Saved and read again, as the engine reads it."""
    from transformers import AutoTokenizer

    folder = tmp_path_factory.mktemp("tokenizer")
    build_tokenizer(256).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def test_every_printable_text_survives(tokenizer: Any) -> None:
    text = "".join(chr(code) for code in range(32, 127)) + "\n x  y \\boxed{7}"
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert max(vocabulary().values()) + 1 == len(vocabulary()) <= VOCABULARY_SIZE
    assert tokenizer.unk_token_id in tokenizer("好")["input_ids"]


def test_a_chat_is_short_and_an_answer_opens_with_one_token(tokenizer: Any) -> None:
    message = [{"role": "user", "content": Problem(7, 35).prompt}]
    prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    assert prompt == "<|user|>07+35=<|assistant|>"
    assert len(tokenizer(prompt)["input_ids"]) == 8
    answer = tokenizer(Problem(7, 35).answer)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(answer) == ["\\boxed{", "4", "2", "}"]
    whole = tokenizer.apply_chat_template([*message, {"role": "assistant", "content": "x"}], tokenize=False)
    assert whole == "<|user|>07+35=<|assistant|>x<|end|>"
    assert tokenizer.eos_token == "<|end|>"
    assert tokenizer.decode([*answer, tokenizer.eos_token_id], skip_special_tokens=True) == "\\boxed{42}"


def test_the_math_grader_reads_the_answers() -> None:
    from slime.rewards import grade

    assert grade("math", Problem(7, 35).answer, Problem(7, 35).label).score == 1.0
    assert grade("math", Problem(7, 34).answer, Problem(7, 35).label).score == 0.0
    assert grade("math", "\\boxed{4", "4").score == 0.0


def test_held_out_problems_are_disjoint_and_follow_the_seed(tmp_path: Path) -> None:
    train, held_out = split_problems(3)
    assert len(held_out) == HELD_OUT and len(train) == 2500 - HELD_OUT
    assert not set(train) & set(held_out) and len(set(train) | set(held_out)) == 2500
    assert split_problems(3) == (train, held_out) != split_problems(4)
    write_problems(tmp_path / "rows.jsonl", train)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == len(train)
    for row in rows:
        left, _, right = row["prompt"].removesuffix("=").partition("+")
        assert set(row) == {"prompt", "label"}
        assert int(left) + int(right) == int(row["label"]) and len(row["prompt"]) == 6


def test_the_same_seed_gives_the_same_weights(tokenizer: Any) -> None:
    train, held_out = (EncodedProblems(problems[:600], tokenizer) for problems in split_problems(1))
    states = []
    for _ in range(2):
        model = build_model(1)
        lines: list[str] = []
        result = run_warm_start(model, train, held_out, WarmStart(seed=1, target=0.0), lines.append)
        assert result.steps == 5 and len(lines) == 1
        states.append(model.state_dict())
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_a_warm_start_that_fails_says_so(tokenizer: Any) -> None:
    train, held_out = (EncodedProblems(problems[:600], tokenizer) for problems in split_problems(1))
    with pytest.raises(WarmStartError, match=r"in 10 steps, below its target 0\.4"):
        run_warm_start(build_model(1), train, held_out, WarmStart(seed=1, max_steps=10), lambda line: None)


def test_expected_accuracy_is_what_sampling_gives(tokenizer: Any) -> None:
    model = build_model(2)
    problems = [Problem(left, 0) for left in range(10, 50)]
    encoded = EncodedProblems(problems, tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    while sampled_accuracy(model, encoded) < 0.3:
        optimizer.zero_grad()
        encoded.answer_losses(model).sum(dim=1).mean().backward()
        optimizer.step()
    expected = sampled_accuracy(model, encoded)
    generator = torch.Generator().manual_seed(0)
    right = total = 0
    for _ in range(25):
        tokens = encoded.tokens[:, :8]
        for _ in range(5):
            with torch.no_grad():
                chances = model(tokens).logits[:, -1].softmax(-1)
            tokens = torch.cat([tokens, torch.multinomial(chances, 1, generator=generator)], dim=1)
        texts = [tokenizer.decode(row[8:]) for row in tokens.tolist()]
        right += sum(text == f"{p.answer}<|end|>" for text, p in zip(texts, problems, strict=True))
        total += len(problems)
    # 1,000 draws: three standard deviations of the mean are 0.047.
    assert right / total == pytest.approx(expected, abs=0.05)
