"""The page of metrics has the names that the source writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from slime.algorithms.mismatch import MismatchOptions
from slime.algorithms.objective import PolicyOptions, PolicyTokens, policy_objective
from slime.data.sample import Sample, Status
from slime.observability.metrics import MetricOptions, rollout_metrics, speed_metrics

PAGE = (Path(__file__).parents[2] / "docs/en/reference/metrics.md").read_text(encoding="utf-8")


def _named() -> list[re.Pattern[str]]:
    """Every name of the page as a pattern: `<...>` and the dots stand for anything."""
    found = []
    for name in re.findall(r"`([a-z_]+/[^`]+|…_max)`", PAGE):
        whole = name.replace("…_max", "train/train_rollout_logprob_abs_diff_max")
        text = re.escape(whole).replace(re.escape("{mean,median,max,min}"), "(mean|median|max|min)")
        found.append(re.compile(re.sub(r"<\w+>|…", ".+", text)))
    return found


def _check(names: list[str]) -> None:
    patterns = _named()
    missing = [name for name in names if not any(pattern.fullmatch(name) for pattern in patterns)]
    assert not missing


def _sample(reward: float) -> Sample:
    sample = Sample(group_index=0, index=0, prompt="1+1=", tokens=[1, 2, 3], response="2", response_length=1)
    sample.rollout_log_probs, sample.reward, sample.status = [-0.5], reward, Status.COMPLETED
    sample.weight_versions = ["1"]
    return sample


def test_rollout_metrics_are_on_the_page() -> None:
    samples = [_sample(1.0), _sample(0.0)]
    options = MetricOptions(passrate=True, multi_turn=True, correct_samples=True)
    _check([*rollout_metrics([samples, [_sample(1.0), _sample(1.0)]], 2, options), *speed_metrics(samples, 1, 2, 1)])


@pytest.mark.parametrize("mismatch", [None, MismatchOptions(use_rs=True, rs_veto_threshold=1e-4)])
def test_training_metrics_are_on_the_page(mismatch: MismatchOptions | None) -> None:
    log_probs = torch.tensor([-0.5, -1.0], requires_grad=True)
    tokens = PolicyTokens(
        weights=torch.tensor([0.5, 0.5]), lengths=torch.tensor([2]), advantages=torch.tensor([1.0, 1.0]),
        rollout_log_probs=torch.tensor([-0.4, -1.1]), old_log_probs=torch.tensor([-0.5, -1.0]),
        ref_log_probs=torch.tensor([-0.6, -1.0]),
    )  # fmt: skip
    options = PolicyOptions(correction="tis", mismatch=mismatch, opsm_delta=0.1)
    _, metrics = policy_objective(options, tokens, log_probs, torch.tensor([0.3, 0.3]))
    _check([f"train/{name}" for name in metrics])
