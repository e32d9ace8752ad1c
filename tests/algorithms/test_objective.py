"""The objective, every form and every term, against loops over tokens in float64, with gradients.

The reference below is written from the formulas alone: Python loops over scalars, no function of `slime.algorithms`.
Its gradients come from float64 autograd through those loops; the smooth terms are checked by finite differences, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from slime.algorithms.mismatch import Level, MismatchOptions, Mode
from slime.algorithms.objective import PolicyOptions, PolicyTokens, policy_objective, value_objective

LENGTHS = [4, 1, 7, 3, 5]


@dataclass
class Case:
    """Random sequences; `current` is the leaf. Ratios spread over both sides of every limit."""

    current: Tensor
    old: Tensor
    rollout: Tensor
    reference: Tensor
    entropy: Tensor
    advantages: Tensor
    weights: Tensor

    @property
    def bounds(self) -> list[tuple[int, int]]:
        ends = torch.tensor(LENGTHS).cumsum(0).tolist()
        return [(end - length, end) for end, length in zip(ends, LENGTHS, strict=True)]

    def tokens(self, **changes: Any) -> PolicyTokens:
        tokens = PolicyTokens(
            self.weights, torch.tensor(LENGTHS), self.advantages, self.rollout, self.old, self.reference
        )
        return replace(tokens, **changes)


def draw(seed: int) -> Case:
    generator = torch.Generator().manual_seed(seed)
    total = sum(LENGTHS)

    def normal(scale: float = 1.0) -> Tensor:
        return torch.randn(total, generator=generator, dtype=torch.float64) * scale

    old = -normal().abs() - 0.2
    mask = (torch.rand(total, generator=generator) < 0.75).double()
    mask[[0, 5]] = 1.0
    weights = mask * (0.5 + torch.rand(total, generator=generator, dtype=torch.float64))
    current, rollout, base = (old + normal(scale) for scale in (0.4, 0.5, 0.3))
    return Case(current.requires_grad_(), old, rollout, base, normal().abs(), normal(), weights)


def clamp(value: Any, low: float, high: float) -> Any:
    return min(max(value, low), high)


def kl_term(kind: str, log_prob: Tensor, base: Tensor, old: Tensor, unbiased: bool) -> Any:
    r = log_prob - base
    value = {"k1": r, "k2": r * r / 2}.get(kind, (-r).exp() - 1 + r)
    if unbiased:
        value = value * (log_prob - old).exp()
    return clamp(value, -10, 10) if kind == "low_var_kl" else value


def mismatch_factor(case: Case, t: int, begin: int, end: int, options: MismatchOptions) -> float:
    """The MIS weight of token t, rejection and veto included, in plain floats."""
    trained = [k for k in range(begin, end) if case.weights[k] != 0]
    differences = [(case.old[k] - case.rollout[k]).item() for k in trained]

    def ratio(level: str) -> float:
        if level == "token":
            return math.exp((case.old[t] - case.rollout[t]).item())
        return math.exp(sum(differences) / (len(differences) if level == "geometric" else 1))

    low, high = options.tis_lower_bound or 1 / options.tis_upper_bound, options.tis_upper_bound
    weight = ratio(options.tis_level)
    if options.tis_mode == "truncate":
        weight = min(weight, high)
    elif options.tis_mode == "clip":
        weight = clamp(weight, low, high)
    elif not low <= weight <= high:
        weight = 0.0
    if options.use_rs and not low <= ratio(options.rs_level) <= high:
        return 0.0
    if options.rs_veto_threshold and min(differences) < math.log(options.rs_veto_threshold):
        return 0.0
    return weight


def reference(case: Case, options: PolicyOptions) -> Tensor:
    """The objective as its definition reads."""
    total = torch.zeros((), dtype=torch.float64)
    for begin, end in case.bounds:
        trained = [t for t in range(begin, end) if case.weights[t] != 0]
        for t in trained:
            log_prob, advantage = case.current[t], case.advantages[t].item()
            gap = log_prob - case.old[t]
            if options.form == "gspo":
                gap = sum(case.current[k] - case.old[k] for k in trained) / len(trained)
            rho = gap.exp()
            low, high = 1 - options.eps_clip, 1 + options.eps_clip_high
            if options.form == "reinforce":
                loss = -advantage * log_prob
            elif options.form == "cispo":
                loss = -clamp(rho.item(), low, high) * advantage * log_prob
            else:
                loss = max(-rho * advantage, -clamp(rho, low, high) * advantage)
                if options.eps_clip_c is not None and advantage < 0:
                    loss = min(loss, torch.tensor(-options.eps_clip_c * advantage, dtype=torch.float64))
            train = log_prob.item() if options.form == "reinforce" else case.old[t].item()
            w = math.exp(train - case.rollout[t].item())
            if options.mismatch is not None:
                loss = loss * mismatch_factor(case, t, begin, end, options.mismatch)
            elif options.correction == "tis":
                loss = loss * clamp(w, options.correction_low, options.correction_high)
            elif options.correction == "icepop":
                loss = loss * (w if options.correction_low <= w <= options.correction_high else 0.0)
            if options.opsm_delta is not None and advantage < 0:
                divergence = sum((case.old[k] - case.current[k]).item() for k in trained) / len(trained)
                loss = loss * (0.0 if divergence > options.opsm_delta else 1.0)
            kl = kl_term(options.kl_loss_type, log_prob, case.reference[t], case.old[t], options.unbiased_kl)
            loss = loss + options.kl_loss_coef * kl - options.entropy_coef * case.entropy[t]
            total = total + case.weights[t] * loss
    return total


FORMS = [
    PolicyOptions("clip", 0.2, 0.2),
    PolicyOptions("clip", 0.2, 0.4, eps_clip_c=1.5),
    PolicyOptions("gspo", 0.05, 0.08),
    PolicyOptions("gspo", 0.05, 0.08, eps_clip_c=1.1),
    PolicyOptions("cispo", 1.0, 0.3),
    PolicyOptions("cispo", 0.1, 0.1),
    PolicyOptions("reinforce"),
]
TERMS: list[dict[str, Any]] = [
    {},
    {"correction": "tis", "correction_high": 1.2},
    {"correction": "icepop", "correction_low": 0.6, "correction_high": 1.5},
    {"opsm_delta": 0.02},
    {"entropy_coef": 0.3},
    *({"kl_loss_coef": 0.2, "kl_loss_type": kind, "unbiased_kl": u} for kind in ("k1", "k2", "k3") for u in (0, 1)),
    {"kl_loss_coef": 0.2, "kl_loss_type": "low_var_kl"},
]


@pytest.mark.parametrize("term", TERMS, ids=lambda term: "-".join(map(str, term.values())) or "alone")
@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.form}-{form.eps_clip_c}")
def test_value_and_gradient_equal_the_loops(form: PolicyOptions, term: dict[str, Any]) -> None:
    options = replace(form, **term)
    for seed in range(4):
        case = draw(seed)
        case.entropy.requires_grad_()
        loss, _ = policy_objective(options, case.tokens(), case.current, case.entropy)
        expected = reference(case, options)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-11, abs=1e-12)
        leaves = [case.current, case.entropy]
        found = torch.autograd.grad(loss, leaves, allow_unused=True, materialize_grads=True)
        wanted = torch.autograd.grad(expected, leaves, allow_unused=True, materialize_grads=True)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


LEVELS: tuple[Level, ...] = get_args(Level)
MISMATCHES = [MismatchOptions(level, mode, 1.3, 0.7) for level in LEVELS for mode in get_args(Mode)]
MISMATCHES += [MismatchOptions("token", "truncate", 1.5, use_rs=True, rs_level=level) for level in LEVELS]
MISMATCHES += [MismatchOptions("sequence", "clip", 2.0, rs_veto_threshold=0.5)]


@pytest.mark.parametrize("mismatch", MISMATCHES, ids=lambda one: f"{one.tis_level}-{one.tis_mode}-{one.use_rs}")
def test_mis_equals_the_loops(mismatch: MismatchOptions) -> None:
    options, zeroed, kept = PolicyOptions("clip", 0.2, 0.28, mismatch=mismatch), 0, 0
    for seed in range(6):
        case = draw(seed)
        loss, metrics = policy_objective(options, case.tokens(), case.current)
        expected = reference(case, options)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-11, abs=1e-12)
        found, wanted = (torch.autograd.grad(value, case.current)[0] for value in (loss, expected))
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
        rejected = float(metrics["rs_reject"]) > 0 or (mismatch.tis_mode == "mask" and bool((found == 0).any()))
        zeroed, kept = zeroed + rejected, kept + bool((found != 0).any())
    assert kept
    if mismatch.use_rs or mismatch.rs_veto_threshold or mismatch.tis_mode == "mask":
        assert zeroed, "nothing was rejected, so rejection was not tested"


def test_the_smooth_terms_by_finite_differences() -> None:
    case = draw(9)
    options = PolicyOptions("clip", 1.0, 1e6, kl_loss_coef=0.3, kl_loss_type="k3", unbiased_kl=True, entropy_coef=0.1)

    def loss(current: Tensor, entropy: Tensor) -> Tensor:
        return policy_objective(options, case.tokens(), current, entropy)[0]

    assert torch.autograd.gradcheck(loss, (case.current, case.entropy.requires_grad_()))


def test_gspo_ratio_is_one_number_a_sequence_and_its_gradient_reaches_all_its_tokens() -> None:
    case = draw(3)
    weights = torch.zeros_like(case.weights)
    weights[6] = 1.0  # one token of the third sequence carries all weight
    tokens = case.tokens(weights=torch.where(case.weights != 0, weights + 1e-300, weights))
    loss, _ = policy_objective(PolicyOptions("gspo", 1.0, 1e6), tokens, case.current)
    gradient = torch.autograd.grad(loss, case.current)[0]
    trained = [t for t in range(5, 12) if case.weights[t] != 0 or t == 6]
    inside = gradient[trained]
    assert len(trained) > 2
    assert inside.tolist() == pytest.approx([inside[0].item()] * len(trained), rel=1e-9)
    assert gradient[:5].abs().max().item() < 1e-290


def test_mis_weights_are_divided_by_their_mean() -> None:
    case = draw(1)
    options = PolicyOptions(mismatch=MismatchOptions("token", "truncate", 2.0, tis_batch_normalize=True))
    one, two = (policy_objective(options, case.tokens(correction_mean=m), case.current)[0] for m in (1.0, 2.0))
    assert two.item() == pytest.approx(one.item() / 2)


def test_mismatch_metrics_alone_change_nothing() -> None:
    case = draw(2)
    plain, _ = policy_objective(PolicyOptions(), case.tokens(), case.current)
    options = PolicyOptions(correction="tis", correction_high=1.1, correction_applied=False)
    loss, metrics = policy_objective(options, case.tokens(), case.current)
    assert loss.item() == plain.item()
    weight = (case.old - case.rollout).exp()
    assert metrics["tis"].item() == pytest.approx((weight * case.weights).sum().item())
    assert metrics["ois"].item() == pytest.approx(((case.current - case.old).exp() * case.weights).sum().item())


def test_score_centering_adds_its_term() -> None:
    generator = torch.Generator().manual_seed(0)
    case, total = draw(4), sum(LENGTHS)
    trainer = torch.randn(total, 6, generator=generator, dtype=torch.float64).log_softmax(-1)[:, :3].requires_grad_()
    sampler = torch.randn(total, 6, generator=generator, dtype=torch.float64).log_softmax(-1)[:, :3]
    options = PolicyOptions("reinforce", correction="tis", correction_high=1.4, score_centering=True)
    tokens = case.tokens(rollout_head_log_probs=sampler)
    loss, metrics = policy_objective(options, tokens, case.current, head_log_probs=trainer)
    plain, _ = policy_objective(replace(options, score_centering=False), tokens, case.current)
    expected = 0.0
    for t in range(total):
        p, q = trainer[t].detach().exp().tolist(), sampler[t].exp().tolist()
        rho = (1 - sum(q)) / (1 - sum(p))
        alpha = rho * min(1 / rho, 1.4)
        term = sum((qv * min(pv / qv, 1.4) - alpha * pv) * math.log(pv) for pv, qv in zip(p, q, strict=True))
        expected += case.weights[t].item() * case.advantages[t].item() * term
    assert (loss - plain).item() == pytest.approx(expected, rel=1e-10)
    assert metrics["sc_correction"].item() == pytest.approx(expected, rel=1e-10)


def test_value_loss_equals_the_loops() -> None:
    for seed in range(4):
        case = draw(seed)
        loss, metrics = value_objective(case.weights, case.current, case.old, case.rollout, 0.2)
        expected, clipped = torch.zeros((), dtype=torch.float64), 0.0
        for t in range(sum(LENGTHS)):
            moved = case.current[t] - case.old[t]
            limited = case.old[t] + clamp(moved, -0.2, 0.2)
            error = max((case.current[t] - case.rollout[t]) ** 2, (limited - case.rollout[t]) ** 2)
            expected = expected + case.weights[t] * error
            clipped += case.weights[t].item() * (abs(moved.item()) > 0.2)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
        assert metrics["value_clipfrac"].item() == pytest.approx(clipped)
        found, wanted = (torch.autograd.grad(value, case.current)[0] for value in (loss, expected))
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-14)


def test_terms_without_their_input_are_refused() -> None:
    case = draw(0)
    for options, word in (
        (PolicyOptions(kl_loss_coef=0.1), "no reference"),
        (PolicyOptions(entropy_coef=0.1), "no entropy"),
        (PolicyOptions(score_centering=True), "derived for the reinforce loss"),
        (PolicyOptions("reinforce", score_centering=True), "the sampler's most likely tokens"),
    ):
        with pytest.raises(ValueError, match=word):
            policy_objective(options, case.tokens(ref_log_probs=None), case.current)


@pytest.mark.parametrize(("changes", "word"), [
    ({"tis_level": "word"}, "tis_level is 'word'; choose one of: token, sequence, geometric"),
    ({"tis_mode": "drop"}, "tis_mode is 'drop'"),
    ({"tis_lower_bound": 3.0}, "tis_lower_bound 3 and tis_upper_bound 2 are out of order"),
    ({"rs_upper_bound": 0.1}, "rs_lower_bound 0.5 and rs_upper_bound 0.1"),
    ({"rs_veto_threshold": 2.0}, "rs_veto_threshold is 2"),
])  # fmt: skip
def test_mismatch_options_are_checked(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        MismatchOptions(**changes).check()
