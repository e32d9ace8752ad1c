"""Suffix sums and GAE against their quadratic definitions in plain Python, and whitening against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from slime.algorithms.gae import discounted_suffix_sums, generalized_advantages
from slime.algorithms.whitening import whiten

LENGTHS = [1, 5, 300, 2, 129, 128]


def draw(seed: int) -> Tensor:
    return torch.randn(sum(LENGTHS), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def quadratic_gae(rewards: list[float], values: list[float], gamma: float, lambd: float) -> list[float]:
    """``A_t = sum_{k >= t} (gamma lambda)^(k - t) delta_k``, every sum written out."""
    following = [*values[1:], 0.0]
    deltas = [r + gamma * v_next - v for r, v, v_next in zip(rewards, values, following, strict=True)]
    count = len(rewards)
    return [sum((gamma * lambd) ** (k - t) * deltas[k] for k in range(t, count)) for t in range(count)]


@pytest.mark.parametrize("chunk", [1, 2, 7, 128, 1000])
@pytest.mark.parametrize(("gamma", "lambd"), [(1.0, 1.0), (0.99, 0.95), (1.0, 0.0), (0.0, 1.0), (0.7, 0.3)])
def test_gae_equals_its_quadratic_definition(gamma: float, lambd: float, chunk: int) -> None:
    rewards, values = draw(0), draw(1)
    advantages, returns = generalized_advantages(rewards, values, torch.tensor(LENGTHS), gamma, lambd, chunk)
    at = 0
    for length in LENGTHS:
        own = slice(at, at + length)
        expected = quadratic_gae(rewards[own].tolist(), values[own].tolist(), gamma, lambd)
        assert advantages[own].tolist() == pytest.approx(expected, rel=1e-11, abs=1e-11)
        assert returns[own].tolist() == pytest.approx(
            [a + v for a, v in zip(expected, values[own].tolist(), strict=True)], abs=1e-11
        )
        at += length


def test_lambda_one_is_return_minus_value_and_zero_is_one_step() -> None:
    rewards, values, lengths = torch.tensor([1.0, 2, 4]), torch.tensor([10.0, 20, 30]), torch.tensor([3])
    advantages, returns = generalized_advantages(rewards, values, lengths, 0.5, 1.0)
    assert returns.tolist() == pytest.approx([1 + 1 + 1, 2 + 2, 4])
    assert advantages.tolist() == pytest.approx([3 - 10, 4 - 20, 4 - 30])
    advantages, _ = generalized_advantages(rewards, values, lengths, 0.5, 0.0)
    assert advantages.tolist() == pytest.approx([1 + 10 - 10, 2 + 15 - 20, 4 - 30])


@pytest.mark.parametrize("chunk", [1, 3, 128])
def test_suffix_sums_equal_the_recursion(chunk: int) -> None:
    values = draw(2)
    found = discounted_suffix_sums(values, torch.tensor(LENGTHS), 0.9, chunk).tolist()
    at = 0
    for length in LENGTHS:
        following = 0.0
        for t in reversed(range(at, at + length)):
            following = values[t].item() + 0.9 * following
            assert found[t] == pytest.approx(following, rel=1e-11, abs=1e-11)
        at += length


def test_no_gradient_reaches_the_critic_through_advantages() -> None:
    values = torch.ones(3, requires_grad=True)
    advantages, returns = generalized_advantages(torch.ones(3), values, torch.tensor([3]), 1.0, 1.0)
    assert not advantages.requires_grad and not returns.requires_grad


@pytest.mark.parametrize(("gamma", "lambd", "word"), [(1.1, 1.0, "gamma is 1.1"), (1.0, -0.1, "lambd is -0.1")])
def test_discounts_are_checked(gamma: float, lambd: float, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        generalized_advantages(torch.ones(1), torch.ones(1), torch.tensor([1]), gamma, lambd)
    with pytest.raises(ValueError, match="the chunk is 0"):
        discounted_suffix_sums(torch.ones(1), torch.tensor([1]), 1.0, 0)


def test_whitening_over_all_trained_tokens() -> None:
    values, generator = draw(3) * 5 + 1e6, torch.Generator().manual_seed(4)
    mask = (torch.rand(len(values), generator=generator) < 0.6).double()
    found = whiten(values, mask)
    trained = values.numpy()[mask.numpy() > 0]
    expected = (values.numpy() - trained.mean()) / np.sqrt(trained.var(ddof=1) + 1e-8)
    assert found.numpy() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_whitening_is_the_same_on_every_number_of_ranks() -> None:
    """Each rank's sums are added up as the trainer does, in lock step."""
    values, mask = draw(5), (torch.arange(sum(LENGTHS)) % 3 != 0).double()
    whole = whiten(values, mask)
    for ranks in (2, 4):
        parts, masks = list(values.split(150)), list(mask.split(150))
        parts, masks = parts[:ranks], masks[:ranks]
        whole = whiten(torch.cat(parts), torch.cat(masks))
        found = torch.cat(whiten_together(parts, masks))
        torch.testing.assert_close(found, whole, rtol=1e-12, atol=1e-12)


def whiten_together(parts: list[Tensor], masks: list[Tensor]) -> list[Tensor]:
    """Run `whiten` on all parts; the sum over ranks is replayed from a first run that records each rank's share."""
    totals: list[Tensor] = []
    for call in range(2):
        shares: list[Tensor] = []
        for part, mask in zip(parts, masks, strict=True):
            calls = iter(range(2))

            def share(own: Tensor, calls: object = calls, call: int = call, shares: list[Tensor] = shares) -> Tensor:
                at = next(calls)  # type: ignore[call-overload]
                if at == call:
                    shares.append(own)
                return totals[at] if at < len(totals) else own

            whiten(part, mask, share)
        totals.append(torch.stack(shares).sum(0))
    results = []
    for part, mask in zip(parts, masks, strict=True):
        answers = iter(totals)
        results.append(whiten(part, mask, lambda own, answers=answers: next(answers)))  # type: ignore[misc]
    return results


def test_whitening_one_token_and_none() -> None:
    assert whiten(torch.tensor([3.0, 9.0]), torch.tensor([1.0, 0.0]))[0].item() == 0.0
    with pytest.raises(ValueError, match="no token of the round trains"):
        whiten(torch.tensor([3.0]), torch.tensor([0.0]))
