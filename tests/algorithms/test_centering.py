"""Score centering by enumeration: over a small vocabulary the expectation under the sampler is a finite sum."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from slime.algorithms.centering import centering_top_k
from slime.algorithms.corrections import Correction, limited

VOCABULARY = 9
KINDS: list[tuple[Correction, float, float]] = [
    ("none", 0, 2),
    ("tis", 0, 1.3),
    ("tis", 0.8, 1.3),
    ("icepop", 0.5, 1.5),
]


def draw(seed: int, spread: float = 0.6) -> tuple[Tensor, Tensor]:
    """Trainer's logits (a leaf) and the sampler's log-probs, near each other."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(VOCABULARY, generator=generator, dtype=torch.float64) * 1.5
    noise = torch.randn(VOCABULARY, generator=generator, dtype=torch.float64) * spread
    return logits.requires_grad_(), (logits.detach() + noise).log_softmax(-1)


def expected_gradient(
    logits: Tensor, log_q: Tensor, kind: Correction, low: float, high: float, centre: Tensor
) -> Tensor:
    """Gradient of ``E_q[L]`` with A = 1: every token of the vocabulary, weighted by its probability under q."""
    log_p, q = logits.log_softmax(-1), log_q.exp()
    weight = limited((log_p.detach() - log_q).exp(), kind, low, high)
    loss = -(q * weight * log_p).sum() + centre
    return torch.autograd.grad(loss, logits)[0]


@pytest.mark.parametrize(("kind", "low", "high"), KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_the_expected_score_is_zero_with_the_whole_vocabulary(
    seed: int, kind: Correction, low: float, high: float
) -> None:
    logits, log_q = draw(seed, spread=1.2)
    order = log_q.argsort(descending=True)
    centre = centering_top_k(logits.log_softmax(-1)[order][None], log_q[order][None], kind, low, high)[0]
    found = expected_gradient(logits, log_q, kind, low, high, centre)
    assert found.abs().max().item() < 2e-6  # the floor of the tail masses, 1e-6, against weights of 2 at most
    plain = expected_gradient(logits, log_q, kind, low, high, torch.zeros((), dtype=torch.float64))
    assert plain.abs().max().item() > 1e-3, "without centering the expectation must not vanish, or nothing is shown"


@pytest.mark.parametrize(("kind", "low", "high"), KINDS)
@pytest.mark.parametrize("k", [2, 4])
def test_the_tail_is_exact_where_both_sides_are_proportional(k: int, kind: Correction, low: float, high: float) -> None:
    logits, log_q = draw(1)
    order = log_q.argsort(descending=True)
    head, tail = order[:k], order[k:]
    # q on the tail becomes proportional to p, with the mass that q had there.
    p_tail = logits.detach().softmax(-1)[tail]
    q = log_q.exp()
    q[tail] = p_tail / p_tail.sum() * q[tail].sum()
    log_q = q.log()
    centre = centering_top_k(logits.log_softmax(-1)[head][None], log_q[head][None], kind, low, high)[0]
    assert expected_gradient(logits, log_q, kind, low, high, centre).abs().max().item() < 1e-12


@pytest.mark.parametrize(("kind", "low", "high"), KINDS)
def test_a_head_leaves_far_less_than_no_centering(kind: Correction, low: float, high: float) -> None:
    left, plain = 0.0, 0.0
    for seed in range(20):
        logits, log_q = draw(seed, spread=1.0)
        head = log_q.argsort(descending=True)[:5]
        centre = centering_top_k(logits.log_softmax(-1)[head][None], log_q[head][None], kind, low, high)[0]
        left += expected_gradient(logits, log_q, kind, low, high, centre).norm().item()
        plain += expected_gradient(logits, log_q, kind, low, high, centre.detach()).norm().item()
    assert left < plain / 2


def test_equal_distributions_need_no_centering() -> None:
    logits, _ = draw(5)
    log_p = logits.log_softmax(-1)
    head = log_p.detach().argsort(descending=True)[:3]
    centre = centering_top_k(log_p[head][None], log_p.detach()[head][None], "none", 0, 2)[0]
    assert torch.autograd.grad(centre, logits)[0].abs().max().item() < 1e-14


def test_probabilities_that_underflow_stay_finite() -> None:
    far = torch.tensor([[0.0, -2000.0]], requires_grad=True)
    value = centering_top_k(far, torch.tensor([[0.0, -2100.0]]), "tis", 0, 2)
    assert torch.isfinite(value).all()
