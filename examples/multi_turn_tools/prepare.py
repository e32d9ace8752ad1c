"""Makes what the example trains: a small model that has seen a few hundred calls of the calculator, and problems.

python examples/multi_turn_tools/prepare.py slime-tools
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from slime.data.chat_template import ChatTemplate
from slime.data.conversation import encode_conversation
from slime.tiny.tokenizer import build_tokenizer
from slime.tiny.warm_start import MAX_POSITIONS, build_model

HELD_OUT = 100
TARGET = 0.3
MAX_STEPS = 1500
BATCH = 64


def problems(seed: int, count: int) -> list[tuple[int, int, int]]:
    """Different triples of two-digit numbers, whose sums the model cannot do in its head."""
    draw = random.Random(seed)
    found: dict[tuple[int, int, int], None] = {}
    while len(found) < count:
        found[draw.randrange(50), draw.randrange(50), draw.randrange(50)] = None
    return list(found)


def question(numbers: tuple[int, int, int]) -> str:
    """For example ``07+35+12=``."""
    return "+".join(f"{number:02d}" for number in numbers) + "="


def demonstration(numbers: tuple[int, int, int]) -> list[dict[str, Any]]:
    """The conversation that a model with a calculator should have."""
    total = sum(numbers)
    return [
        {"role": "user", "content": question(numbers)},
        {"role": "assistant", "content": f"calc({question(numbers)[:-1]})"},
        {"role": "tool", "content": str(total)},
        {"role": "assistant", "content": f"\\boxed{{{total}}}"},
    ]


def encode(template: ChatTemplate, items: list[tuple[int, int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Demonstrations as int64 [items, width] tokens, and targets that are -100 where nothing trains."""
    pieces = [encode_conversation(template, demonstration(numbers))[0] for numbers in items]
    width = max(len(piece.tokens) for piece in pieces)
    tokens = torch.zeros(len(pieces), width, dtype=torch.int64)
    targets = torch.full((len(pieces), width), -100)
    for row, piece in enumerate(pieces):
        ids = torch.tensor(piece.tokens)
        mask = torch.tensor([0] * piece.prompt_length + piece.loss_mask, dtype=torch.bool)
        tokens[row, : len(ids)] = ids
        targets[row, : len(ids)] = torch.where(mask, ids, -100)
    return tokens, targets


def losses(model: Any, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Negative log-probability of each trained token; [items, width - 1]."""
    logits = model(tokens[:, :-1]).logits
    return functional.cross_entropy(logits.transpose(1, 2), targets[:, 1:], ignore_index=-100, reduction="none")


def warm_start(model: Any, template: ChatTemplate, items: list[tuple[int, int, int]], seed: int) -> float:
    """Train until sampling follows the demonstrations with probability `TARGET`; returns that probability."""
    tokens, targets = encode(template, items)
    draw = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    followed = 0.0
    for step in range(MAX_STEPS):
        rows = torch.randint(len(tokens), (BATCH,), generator=draw)
        found = losses(model, tokens[rows], targets[rows])
        optimizer.zero_grad()
        (found.sum() / found.count_nonzero()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 5 == 4:
            with torch.no_grad():
                # The product of the probabilities of what the model writes; the calculator's part is given.
                followed = float((-losses(model, tokens[:200], targets[:200]).sum(dim=1)).exp().mean())
            if step % 50 == 49 or followed >= TARGET:
                print(f"step {step + 1}: the demonstrations are followed with probability {followed:.3f}", flush=True)
            if followed >= TARGET:
                return followed
    raise SystemExit(f"the warm start reached {followed:.3f} in {MAX_STEPS} steps, below {TARGET}; try another --seed")


def main() -> None:
    """Write ``hf/`` and ``data/`` into the folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = build_tokenizer(MAX_POSITIONS)
    items = problems(arguments.seed, 2000 + HELD_OUT)
    data = arguments.output / "data"
    data.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", items[HELD_OUT:]), ("heldout", items[:HELD_OUT])):
        rows = [{"prompt": demonstration(one)[:1], "label": str(sum(one))} for one in part]
        (data / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    model = build_model(arguments.seed)
    warm_start(model, ChatTemplate(tokenizer), items[HELD_OUT:], arguments.seed)
    model.save_pretrained(arguments.output / "hf")
    tokenizer.save_pretrained(arguments.output / "hf")
    print(f"{arguments.output}: written")


if __name__ == "__main__":
    main()
