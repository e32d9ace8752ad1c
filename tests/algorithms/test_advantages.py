"""Advantages of tokens against loops in plain Python, with masks, KL penalties and discounts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from slime.algorithms.advantages import distilled, ppo, reinforce_plus_plus, reinforce_plus_plus_baseline
from slime.algorithms.sequences import last_tokens, padded, sequence_means, sequence_sums, spread

LENGTHS = torch.tensor([3, 1, 6, 4])


class Case:
    """Random rewards, KL estimates, values; some tokens masked, but none of a whole sequence."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        total = int(LENGTHS.sum())
        self.rewards, self.kl, self.values = (
            torch.randn(size, generator=generator, dtype=torch.float64) for size in (len(LENGTHS), total, total)
        )
        self.mask = (torch.rand(total, generator=generator) < 0.6).double()
        self.mask[LENGTHS.cumsum(0) - LENGTHS] = 1.0
        self.kl[self.mask == 0] = float("nan")  # what a masked token holds must not matter

    def sequences(self) -> list[tuple[int, int, int]]:
        """(sequence, first token, one past its last)."""
        ends = LENGTHS.cumsum(0).tolist()
        return [(i, end - length, end) for i, (end, length) in enumerate(zip(ends, LENGTHS.tolist(), strict=True))]


def penalties(case: Case, begin: int, end: int, coefficient: float) -> list[float]:
    return [-coefficient * case.kl[t].item() if case.mask[t] else 0.0 for t in range(begin, end)]


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("coefficient", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_reinforce_plus_plus(seed: int, coefficient: float, gamma: float) -> None:
    case = Case(seed)
    found = reinforce_plus_plus(case.rewards, LENGTHS, case.mask, case.kl, coefficient, gamma)
    for i, begin, end in case.sequences():
        rewards = penalties(case, begin, end, coefficient)
        rewards[max(t for t in range(end - begin) if case.mask[begin + t])] += case.rewards[i].item()
        for t in range(end - begin):
            expected = sum(gamma ** (k - t) * rewards[k] for k in range(t, end - begin))
            assert found[begin + t].item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("coefficient", [0.0, 0.3])
def test_reinforce_plus_plus_baseline(coefficient: float) -> None:
    case = Case(7)
    found = reinforce_plus_plus_baseline(case.rewards, LENGTHS, case.mask, case.kl, coefficient)
    for i, begin, end in case.sequences():
        expected = [case.rewards[i].item() + penalty for penalty in penalties(case, begin, end, coefficient)]
        assert found[begin:end].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
def test_ppo_is_gae_over_penalised_rewards(seed: int) -> None:
    case = Case(seed)
    advantages, returns = ppo(case.rewards, LENGTHS, case.mask, case.values, case.kl, 0.2, 0.95, 0.9)
    for i, begin, end in case.sequences():
        rewards = penalties(case, begin, end, 0.2)
        rewards[-1] += case.rewards[i].item()
        values = [*case.values[begin:end].tolist(), 0.0]
        deltas = [rewards[t] + 0.95 * values[t + 1] - values[t] for t in range(end - begin)]
        for t in range(end - begin):
            expected = sum((0.95 * 0.9) ** (k - t) * deltas[k] for k in range(t, end - begin))
            assert advantages[begin + t].item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
            assert returns[begin + t].item() == pytest.approx(expected + values[t], rel=1e-12, abs=1e-12)


def test_distillation_moves_toward_the_teacher() -> None:
    ours, teacher = torch.tensor([-1.0, -3.0], requires_grad=True), torch.tensor([-2.0, -1.0])
    found = distilled(torch.tensor([0.5, 0.5]), ours, teacher, 2.0)
    assert found.tolist() == pytest.approx([0.5 - 2 * (-1 + 2), 0.5 - 2 * (-3 + 1)])
    assert not found.requires_grad


def test_distillation_gradient_is_that_of_the_reverse_kl() -> None:
    """Over a whole vocabulary, ``E_p[(log p - log q) grad log p]`` equals the gradient of ``KL(p || q)``."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, generator=generator, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(7, generator=generator, dtype=torch.float64).log_softmax(-1)
    log_probs = logits.log_softmax(-1)
    advantages = distilled(torch.zeros(7, dtype=torch.float64), log_probs, teacher, 1.0)
    surrogate = -(log_probs.detach().exp() * advantages * log_probs).sum()
    kl = (log_probs.exp() * (log_probs - teacher)).sum()
    found = torch.autograd.grad(surrogate, logits, retain_graph=True)[0]
    torch.testing.assert_close(found, torch.autograd.grad(kl, logits)[0], rtol=1e-12, atol=1e-14)


def test_a_penalty_needs_a_reference() -> None:
    ones = torch.ones(2)
    with pytest.raises(ValueError, match=r"kl_coef is 0\.1 but there are no log-probs of a reference"):
        reinforce_plus_plus(torch.ones(1), torch.tensor([2]), ones, None, 0.1, 1.0)


def test_a_sequence_without_trained_tokens_is_refused_where_it_must_carry_the_reward() -> None:
    with pytest.raises(ValueError, match="sequence 1 is masked entirely"):
        reinforce_plus_plus(torch.ones(2), torch.tensor([1, 2]), torch.tensor([1.0, 0, 0]), None, 0.0, 1.0)


def test_sums_and_means_of_sequences() -> None:
    case = Case(11)
    case.values[case.mask == 0] = float("inf")
    sums, means = (f(case.values, case.mask, LENGTHS) for f in (sequence_sums, sequence_means))
    for i, begin, end in case.sequences():
        own = [case.values[t].item() for t in range(begin, end) if case.mask[t]]
        assert sums[i].item() == pytest.approx(sum(own))
        assert means[i].item() == pytest.approx(sum(own) / len(own))
    assert sequence_means(torch.ones(2), torch.zeros(2), torch.tensor([2])).tolist() == [0.0]
    assert spread(torch.tensor([1.0, -2.0]), torch.tensor([2, 3])).tolist() == [1, 1, -2, -2, -2]


def test_padding_and_last_tokens() -> None:
    rectangle, filled = padded(torch.arange(1, 6), torch.tensor([2, 3]))
    assert rectangle.tolist() == [[1, 2, 0], [3, 4, 5]]
    assert filled.tolist() == [[True, True, False], [True, True, True]]
    lengths = torch.tensor([2, 3])
    mask: Tensor = torch.tensor([1.0, 0, 0, 1, 0])
    assert last_tokens(lengths).tolist() == [1, 4]
    assert last_tokens(lengths, mask).tolist() == [0, 3]
