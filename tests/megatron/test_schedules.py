"""Learning rate and weight decay of every step, against their formulas, in a run that is interrupted in between."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .megatron_cases import make_batch, make_sequences

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]
HIGH, LOW, STEPS = 1e-3, 1e-4, 8
"""Four rounds of 32 samples, in steps of 16."""


def linear(step: int) -> float:
    return LOW + (HIGH - LOW) * (1 - (step - 2) / (STEPS - 2))


def cosine(step: int) -> float:
    return LOW + (HIGH - LOW) * (1 + math.cos(math.pi * (step - 2) / (STEPS - 2))) / 2


def inverse_square_root(step: int) -> float:
    return max(LOW, HIGH * math.sqrt(2 / step))


@pytest.mark.parametrize(
    ("style", "formula"), [("linear", linear), ("cosine", cosine), ("inverse-square-root", inverse_square_root)]
)
def test_rates_rise_and_fall_as_defined_across_a_resumption(
    make_trainer: Make, tmp_path: Path, style: str, formula: Callable[[int], float]
) -> None:
    flags: dict[str, Any] = {
        "lr": HIGH, "min_lr": LOW, "lr_decay_style": style, "lr_warmup_iters": 2, "lr_warmup_init": 2e-4,
        "global_batch_size": 16, "save": str(tmp_path), "load": str(tmp_path), "start_weight_decay": 0.1,
        "end_weight_decay": 0.3, "weight_decay_incr_style": "cosine" if style == "cosine" else "linear",
    }  # fmt: skip
    found: list[dict[str, float]] = []
    trainer = make_trainer(**flags)
    trainer.load()
    for step in range(1, STEPS + 1):
        found.append(trainer.train(make_batch(make_sequences(4, step))))
        if step == 3:
            trainer.save(0)
            trainer = make_trainer(**flags)
            assert trainer.load().step == 0
    for step, metrics in enumerate(found, 1):
        rising = 2e-4 + (HIGH - 2e-4) * step / 2
        assert metrics["lr"] == pytest.approx(rising if step <= 2 else formula(step), rel=1e-12)
        share = step / STEPS if style != "cosine" else (1 + math.cos(math.pi * (1 - step / STEPS))) / 2
        assert metrics["weight_decay"] == pytest.approx(0.1 + 0.2 * share, rel=1e-12)


def test_a_decay_of_its_own_length_and_a_rise_as_a_fraction_of_it(make_trainer: Make) -> None:
    trainer = make_trainer(
        lr=HIGH, min_lr=LOW, lr_decay_style="linear", lr_decay_iters=4, lr_warmup_fraction=0.25, lr_warmup_iters=0
    )
    trainer.load()
    found = [trainer.train(make_batch(make_sequences(4, step)))["lr"] for step in range(5)]
    assert found == pytest.approx([HIGH, LOW + (HIGH - LOW) * 2 / 3, LOW + (HIGH - LOW) / 3, LOW, LOW], rel=1e-12)


def test_the_weight_decay_that_is_reported_is_applied(make_trainer: Make) -> None:
    """A matrix whose gradient is 0 shrinks by lr x decay in every step, and by nothing else."""
    trainer = make_trainer(
        lr=1e-2, lr_warmup_iters=0, start_weight_decay=0.2, end_weight_decay=0.6, weight_decay_incr_style="linear"
    )
    trainer.load()

    def unused_row() -> float:
        """Of the embedding: token 1 is in no sample."""
        return float(dict(trainer.named_hf_tensors())["model.embed_tokens.weight"][1, 0])

    for step in range(1, 5):
        before = unused_row()
        decay = trainer.train(make_batch(make_sequences(4, step)))["weight_decay"]
        assert decay == pytest.approx(0.2 + 0.4 * step / 4)
        assert unused_row() == pytest.approx(before * (1 - 1e-2 * decay), rel=1e-6)
