"""Clipped loss, KL estimators, corrections, log-probs and entropy, each against values worked out apart."""

from __future__ import annotations

import math

import pytest
import torch

from slime.algorithms.corrections import Correction, limited
from slime.algorithms.kl import kl_estimate
from slime.algorithms.logits import entropy_from_logits, log_probs_from_logits
from slime.algorithms.losses import clipped_policy_loss


def logs(*values: float) -> torch.Tensor:
    return torch.tensor([math.log(value) for value in values], dtype=torch.float64)


def test_clipped_loss_on_both_sides_of_the_range() -> None:
    ratio = logs(0.5, 0.5, 1.0, 1.5, 1.5)
    advantages = torch.tensor([1.0, -1, 2, 1, -1], dtype=torch.float64)
    loss, clipped = clipped_policy_loss(ratio, advantages, 0.2, 0.28)
    assert loss.tolist() == pytest.approx([-0.5, 0.8, -2.0, -1.28, 1.5])
    assert clipped.tolist() == [0, 1, 0, 1, 0]


def test_clipped_tokens_have_no_gradient() -> None:
    log_probs = logs(1.5, 1.1).requires_grad_()
    loss, _ = clipped_policy_loss(log_probs, torch.ones(2).double(), 0.2, 0.2)
    loss.sum().backward()
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == pytest.approx([0.0, -1.1])


def test_dual_clip_limits_only_negative_advantages() -> None:
    advantages = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    loss, _ = clipped_policy_loss(logs(9.0, 9.0), advantages, 0.2, 0.2, 3.0)
    assert loss.tolist() == pytest.approx([3.0, -1.2])


@pytest.mark.parametrize(("low", "high", "dual", "word"), [(-0.1, 0.2, None, "eps_clip"), (1.1, 0.2, None, "eps_clip"),
    (0.2, -1.0, None, "eps_clip_high"), (0.2, 0.2, 1.0, "eps_clip_c")])  # fmt: skip
def test_clip_ranges_are_checked(low: float, high: float, dual: float | None, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        clipped_policy_loss(torch.zeros(1), torch.ones(1), low, high, dual)


def test_kl_estimators_by_their_formulas() -> None:
    ours, base = logs(0.5, 0.25), logs(0.25, 0.5)
    r = math.log(2)
    assert kl_estimate(ours, base, "k1").tolist() == pytest.approx([r, -r])
    assert kl_estimate(ours, base, "k2").tolist() == pytest.approx([r * r / 2] * 2)
    assert kl_estimate(ours, base, "k3").tolist() == pytest.approx([0.5 - 1 + r, 2 - 1 - r])


def test_k1_and_k3_average_to_the_true_kl() -> None:
    policy = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    base = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    true = sum(p * math.log(p / q) for p, q in zip(policy.tolist(), base.tolist(), strict=True))
    for kind in ("k1", "k3"):
        assert (policy * kl_estimate(policy.log(), base.log(), kind)).sum().item() == pytest.approx(true, rel=1e-12)


def test_low_var_kl_is_limited_and_k3_is_not() -> None:
    ours, base = torch.tensor([-20.0]), torch.tensor([-1.0])
    assert kl_estimate(ours, base, "low_var_kl").item() == 10.0
    assert kl_estimate(ours, base, "k3").item() > 1e8


def test_unknown_estimator_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'k4'; choose one of: k1, k2, k3, low_var_kl"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")  # type: ignore[arg-type]


def test_tis_clamps_and_icepop_drops() -> None:
    ratio = torch.tensor([0.1, 0.6, 1.5, 4.0], dtype=torch.float64)
    assert limited(ratio, "tis", 0.0, 2.0).tolist() == [0.1, 0.6, 1.5, 2.0]
    assert limited(ratio, "icepop", 0.5, 2.0).tolist() == [0.0, 0.6, 1.5, 0.0]
    assert limited(ratio, "none", 0.5, 2.0).tolist() == [1.0] * 4


def test_correction_errors() -> None:
    with pytest.raises(ValueError, match=r"low 3 and high 2"):
        limited(torch.zeros(1), "tis", 3, 2)
    with pytest.raises(ValueError, match=r"'mis'; choose one of: none, tis, icepop"):
        limited(torch.zeros(1), "mis", 0, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "low", "high"), [("tis", 0.0, 1.2), ("tis", 0.8, 1.2), ("icepop", 0.5, 1.5)])
def test_corrected_expectations_by_enumeration(kind: Correction, low: float, high: float) -> None:
    """``E_q[f(p/q) x]`` over a vocabulary: ``E_p[x]`` with wide limits, what the limits leave with narrow ones."""
    generator = torch.Generator().manual_seed(0)
    p, q = (torch.randn(8, generator=generator, dtype=torch.float64).softmax(-1) for _ in range(2))
    values = torch.randn(8, generator=generator, dtype=torch.float64)
    exact = (q * limited(p / q, kind, 0.0, 1e9) * values).sum().item()
    assert exact == pytest.approx((p * values).sum().item(), rel=1e-12)
    closed = 0.0
    for pv, qv, x in zip(p.tolist(), q.tolist(), values.tolist(), strict=True):
        # q * clamp(p / q, low, high) is p held between low q and high q; IcePop keeps p or drops it.
        inside = low * qv <= pv <= high * qv
        closed += x * (min(max(pv, low * qv), high * qv) if kind == "tis" else pv * inside)
    found = (q * limited(p / q, kind, low, high) * values).sum().item()
    assert found == pytest.approx(closed, rel=1e-12)
    assert found != pytest.approx(exact), "the limits must bind, or they are not tested"


def test_unbiased_kl_gradient_is_that_of_the_true_kl() -> None:
    """Sampled from an old policy, the weighted k3 has the KL divergence and its gradient as expectations."""
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(6, generator=generator, dtype=torch.float64, requires_grad=True)
    old, base = (torch.randn(6, generator=generator, dtype=torch.float64).log_softmax(-1) for _ in range(2))
    log_probs = logits.log_softmax(-1)
    estimate = (old.exp() * kl_estimate(log_probs, base, "k3", old)).sum()
    true = (log_probs.exp() * (log_probs - base)).sum()
    assert estimate.item() == pytest.approx(true.item(), rel=1e-12)
    found, wanted = (torch.autograd.grad(value, logits, retain_graph=True)[0] for value in (estimate, true))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)
    plain = torch.autograd.grad((old.exp() * kl_estimate(log_probs, base, "k3")).sum(), logits)[0]
    assert (plain - wanted).abs().max().item() > 1e-2, "without the weight the gradient must be off"


def test_log_probs_and_entropy_follow_the_temperature() -> None:
    probabilities = [0.5, 0.25, 0.25]
    logits = logs(*probabilities).unsqueeze(0) * 2 + 5
    found = log_probs_from_logits(logits, torch.tensor([1]), temperature=2.0)
    assert found.item() == pytest.approx(math.log(0.25), rel=1e-12)
    entropy = entropy_from_logits(logits, temperature=2.0)
    assert entropy.item() == pytest.approx(1.5 * math.log(2), rel=1e-12)
    with pytest.raises(ValueError, match="temperature is 0"):
        log_probs_from_logits(logits, torch.tensor([1]), temperature=0)


def test_a_rank_without_response_tokens_scores_none() -> None:
    """One of several that share a short sequence."""
    logits = torch.randn(0, 50)
    assert log_probs_from_logits(logits, torch.zeros(0, dtype=torch.int64)).shape == (0,)
    assert log_probs_from_logits(logits, torch.zeros(0, 3, dtype=torch.int64)).shape == (0, 3)
    assert entropy_from_logits(logits).shape == (0,)


def test_bfloat16_logits_are_computed_in_float32() -> None:
    logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(0)).bfloat16()
    found = log_probs_from_logits(logits, torch.tensor([3, 4]))
    exact = logits.double().log_softmax(-1)[[0, 1], [3, 4]]
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx(exact.tolist(), abs=1e-6)
