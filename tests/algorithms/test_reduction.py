"""The loss of a step is one number: the float64 closed form, however the step is cut."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from slime.algorithms.mismatch import MismatchOptions
from slime.algorithms.objective import PolicyForm, PolicyOptions, PolicyTokens, policy_objective
from slime.algorithms.reduction import constant_length_weights, token_weights, weighted_sum, weights_of

LENGTHS = [3, 1, 7, 4, 2, 5, 6]
ROLLOUTS = [0, 1, 1, 2, 3, 3, 4]  # rollouts 1 and 3 have two siblings


class Step:
    """A step of seven sequences with masks, and every denominator counted by hand."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)

        def draw() -> list[Tensor]:
            return [torch.randn(n, generator=generator, dtype=torch.float64) * 0.3 for n in LENGTHS]

        self.masks = [(torch.rand(n, generator=generator) < 0.7).double() for n in LENGTHS]
        self.masks[1] = torch.zeros(1, dtype=torch.float64)
        self.current, self.rollout, self.reference = draw(), draw(), draw()
        self.entropy = [value.abs() for value in draw()]
        self.advantages = [
            torch.full((n,), (-1.0) ** i * (i + 1) / 3, dtype=torch.float64) for i, n in enumerate(LENGTHS)
        ]
        self.sums = [int(sum(self.masks[j].sum() for j in range(7) if ROLLOUTS[j] == ROLLOUTS[i])) for i in range(7)]
        self.tokens = int(sum(mask.sum() for mask in self.masks))


TERMS: dict[str, Any] = {"entropy_coef": 0.01, "kl_loss_coef": 0.1, "kl_loss_type": "k3"}
OPTIONS = PolicyOptions("clip", 0.2, 0.28, None, "tis", 0.0, 1.1, **TERMS)
# Every form, and every term that looks at whole sequences.
EVERY = [
    OPTIONS,
    PolicyOptions("gspo", 0.02, 0.03, opsm_delta=0.01, **TERMS),
    PolicyOptions("cispo", 1.0, 0.3, mismatch=MismatchOptions("sequence", "clip", 1.3), **TERMS),
    PolicyOptions("reinforce", mismatch=MismatchOptions("geometric", use_rs=True, rs_level="sequence"), **TERMS),
]


def closed_form(step: Step, per_token: bool) -> float:
    """The objective in plain Python floats, straight from its definition."""
    rollouts: dict[int, float] = {}
    for i, rollout in enumerate(ROLLOUTS):
        for t in range(LENGTHS[i]):
            log_prob, advantage = step.current[i][t].item(), step.advantages[i][t].item()
            old = step.reference[i][t].item()  # any other policy does as the old one
            ratio = math.exp(log_prob - old)
            loss = max(-ratio * advantage, -min(max(ratio, 0.8), 1.28) * advantage)
            loss *= min(math.exp(old - step.rollout[i][t].item()), 1.1)
            r = log_prob - step.reference[i][t].item()
            loss += 0.1 * (math.exp(-r) - 1 + r) - 0.01 * step.entropy[i][t].item()
            rollouts[rollout] = rollouts.get(rollout, 0.0) + step.masks[i][t].item() * loss
    if per_token:
        return sum(rollouts.values()) / step.tokens
    size = {rollout: max(step.sums[i], 1) for i, rollout in enumerate(ROLLOUTS)}
    return sum(total / size[rollout] for rollout, total in rollouts.items()) / len(rollouts)


def objective(
    step: Step, chosen: list[int], per_token: bool, options: PolicyOptions = OPTIONS
) -> tuple[Tensor, Tensor]:
    """Loss of one micro-batch and its gradient with respect to the current log-probs, scattered to 7 sequences."""
    leaf = [step.current[i].clone().requires_grad_() for i in chosen]

    def pick(values: list[Tensor]) -> Tensor:
        return torch.cat([values[i] for i in chosen])

    weights = token_weights([step.masks[i] for i in chosen], [step.sums[i] for i in chosen], 5, step.tokens, per_token)
    tokens = PolicyTokens(
        weights,
        torch.tensor([LENGTHS[i] for i in chosen]),
        pick(step.advantages),
        pick(step.rollout),
        pick(step.reference),
        pick(step.reference),
    )
    loss, _ = policy_objective(options, tokens, torch.cat(leaf), pick(step.entropy))
    loss.backward()
    gradient = [torch.zeros(n, dtype=torch.float64) for n in LENGTHS]
    for i, value in zip(chosen, leaf, strict=True):
        assert value.grad is not None
        gradient[i] = value.grad
    return loss.detach(), torch.cat(gradient)


CUTS = [[[0, 1, 2, 3, 4, 5, 6]], [[i] for i in range(7)], [[6, 2], [0, 1, 3], [5], [4]], [[1], [0, 2, 3, 4, 5, 6]]]


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("cut", CUTS)
def test_every_cut_gives_the_closed_form(cut: list[list[int]], per_token: bool) -> None:
    step = Step()
    loss = sum(objective(step, chosen, per_token)[0].item() for chosen in cut)
    assert loss == pytest.approx(closed_form(step, per_token), rel=1e-12)


@pytest.mark.parametrize("options", EVERY, ids=lambda one: one.form)
@pytest.mark.parametrize("per_token", [False, True])
def test_every_cut_and_order_gives_the_same_loss_and_gradient(per_token: bool, options: PolicyOptions) -> None:
    step = Step()
    loss, whole = objective(step, CUTS[0][0], per_token, options)
    order = random.Random(0)
    for _ in range(10):
        rest = list(range(7))
        order.shuffle(rest)
        cut = [rest[:2], rest[2:3], rest[3:]]
        parts = [objective(step, chosen, per_token, options) for chosen in cut]
        assert sum(part.item() for part, _ in parts) == pytest.approx(loss.item(), rel=1e-12)
        total = torch.stack([gradient for _, gradient in parts]).sum(0)
        assert torch.allclose(total, whole, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("form", ["clip", "cispo", "reinforce"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_cutting_inside_sequences_changes_nothing_for_losses_of_tokens(ranks: int, form: PolicyForm) -> None:
    """Context parallelism: each rank has the pieces r and 2 ranks - 1 - r of every sequence, and the step's weights."""
    step, options = Step(), PolicyOptions(form, 0.2, 0.28, None, "tis", 0.0, 1.1, **TERMS)
    whole = token_weights(step.masks, step.sums, 5, step.tokens)
    starts = [sum(LENGTHS[:i]) for i in range(7)]

    def loss_of(positions: list[int], lengths: list[int]) -> Tensor:
        def pick(values: list[Tensor]) -> Tensor:
            return torch.cat(values)[positions]

        tokens = PolicyTokens(
            whole[positions], torch.tensor(lengths), pick(step.advantages), pick(step.rollout),
            pick(step.reference), pick(step.reference),
        )  # fmt: skip
        return policy_objective(options, tokens, current[positions], pick(step.entropy))[0]

    current = torch.cat(step.current).requires_grad_()
    expected = loss_of(list(range(sum(LENGTHS))), LENGTHS)
    parts = []
    for rank in range(ranks):
        positions, lengths = [], []
        for start, length in zip(starts, LENGTHS, strict=True):
            size = -(-length // (2 * ranks))
            own = [t for t in range(length) if t // size in (rank, 2 * ranks - 1 - rank)]
            positions += [start + t for t in own]
            lengths.append(len(own))
        parts.append(loss_of(positions, lengths))
    total = torch.stack(parts).sum()
    assert total.item() == pytest.approx(expected.item(), rel=1e-12)
    found, wanted = (torch.autograd.grad(value, current, retain_graph=True)[0] for value in (total, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-15)


def test_weights_of_a_step_sum_to_one_when_every_rollout_trains() -> None:
    masks = [torch.ones(n, dtype=torch.float64) for n in (2, 3, 5)]
    assert token_weights(masks, [2, 8, 8], 2, 10).sum().item() == pytest.approx(1.0)
    assert token_weights(masks, [2, 8, 8], 2, 10, per_token=True).sum().item() == pytest.approx(1.0)


def test_masked_tokens_may_hold_anything() -> None:
    weights = torch.tensor([0.5, 0.0])
    assert weighted_sum(torch.tensor([2.0, float("inf")]), weights).item() == 1.0


def test_constant_length_weights_ignore_the_length_of_the_response() -> None:
    masks = [torch.ones(2), torch.tensor([1.0, 0, 1, 1])]
    assert constant_length_weights(masks, 8, 2).tolist() == pytest.approx([1 / 16] * 2 + [1 / 16, 0, 1 / 16, 1 / 16])
    with pytest.raises(ValueError, match="the constant length is 0"):
        constant_length_weights(masks, 0, 2)


def test_the_weights_of_a_linear_reducer() -> None:
    factors = torch.tensor([0.5, 0.25, 0.25])
    assert weights_of(lambda values: (values * factors).sum(), 3).tolist() == factors.tolist()
    with pytest.raises(ValueError, match="not linear"):
        weights_of(lambda values: values.square().sum(), 3)
    with pytest.raises(ValueError, match="not linear"):
        weights_of(lambda values: values.sum() + 1, 3)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        weights_of(lambda values: values * 2, 3)


def test_one_step_a_round_has_ratio_one_and_the_policy_gradient() -> None:
    log_probs = torch.tensor([-1.0, -2.0], dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([1.0, -3.0], dtype=torch.float64)
    weights = torch.tensor([0.5, 0.5], dtype=torch.float64)
    tokens = PolicyTokens(weights, torch.tensor([2]), advantages, log_probs.detach() + 0.25)
    loss, metrics = policy_objective(PolicyOptions(), tokens, log_probs)
    loss.backward()
    assert log_probs.grad is not None
    assert log_probs.grad.tolist() == pytest.approx((-advantages * weights).tolist())
    assert metrics["ppo_kl"].item() == 0.0
    assert metrics["train_rollout_logprob_abs_diff"].item() == pytest.approx(0.25)
