"""What is measured, written and printed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from slime.data.sample import PrefixCacheInfo, Sample, SpecInfo, Status
from slime.observability.console import Pace, duration, round_line
from slime.observability.estimates import Estimate
from slime.observability.evaluation import EvalScores
from slime.observability.metrics import MetricOptions, repeats_itself, rollout_metrics, speed_metrics
from slime.observability.report import BEFORE_TRAINING, Report
from slime.observability.writer import MetricsWriter


def sample(reward: float, length: int, status: Status = Status.COMPLETED, version: str = "4") -> Sample:
    return Sample(
        tokens=[1] * (2 + length),
        prompt_length=2,
        response_length=length,
        reward=reward,
        verdict="correct" if reward else "wrong",
        rollout_log_probs=[-0.5] * length,
        weight_versions=[version],
        status=status,
    )


def test_a_round_is_measured_by_hand() -> None:
    groups = [
        [sample(1.0, 2), sample(0.0, 4)],
        [sample(1.0, 6), sample(1.0, 8, Status.TRUNCATED, version="3")],
    ]
    metrics = rollout_metrics(groups, weight_version=5)
    assert metrics == {
        "rollout/raw_reward": 0.75,
        "rollout/response_len/mean": 5.0,
        "rollout/response_len/median": 5.0,
        "rollout/response_len/max": 8.0,
        "rollout/response_len/min": 2.0,
        "rollout/truncated_ratio": 0.25,
        "rollout/zero_std_ratio": 0.5,
        "rollout/weight_version": 5.0,
        "staleness/mean": 1.25,
        "staleness/max": 2.0,
        "rollout/log_probs": -0.5,
        "rollout/verdict/correct": 0.75,
        "rollout/verdict/wrong": 0.25,
        "rollout/zero_std/count_1.0": 1.0,
        "rollout/repetition_frac": 0.0,
    }


def test_further_metrics_are_made_when_they_are_asked_for() -> None:
    groups = [
        [sample(1.0, 2), sample(0.0, 4), sample(0.0, 4), sample(0.0, 4)],
        [sample(1.0, 6), sample(1.0, 6), sample(0.0, 6), sample(0.0, 8)],
    ]
    groups[0][0].loss_mask = [1, 0]
    groups[0][0].weight_versions = ["4", "4"]
    groups[1][3].reward = {"score": 0.0, "fault": "format"}
    options = MetricOptions("score", passrate=True, multi_turn=True, correct_samples=True, reward_category="fault")
    metrics = rollout_metrics(groups, 4, options)
    assert metrics["passrate/pass@1"] == pytest.approx((1 / 4 + 2 / 4) / 2)
    assert metrics["passrate/pass@2"] == pytest.approx((3 / 6 + 5 / 6) / 2)  # pairs that hold a right answer, of six
    assert metrics["passrate/pass@4"] == 1.0
    assert metrics["multi_turn/raw_response_length/response_length_mean"] == 5.0
    assert metrics["multi_turn/wo_obs_response_length/response_length_mean"] == pytest.approx(39 / 8)
    assert metrics["multi_turn/multi_turn_metric/round_number_max"] == 2.0
    assert metrics["rollout/correct_samples/ratio"] == 3 / 8
    assert metrics["rollout/correct_samples/response_len/max"] == 6.0
    assert metrics["rollout/error_cat/format"] == 1 / 8


def test_what_the_engine_saved_is_counted() -> None:
    groups = [[sample(1.0, 2), sample(0.0, 4)]]
    groups[0][0].prefix_cache_info = PrefixCacheInfo(cached_tokens=6, total_prompt_tokens=8)
    groups[0][1].prefix_cache_info = PrefixCacheInfo(cached_tokens=0, total_prompt_tokens=8)
    groups[0][1].spec_info = SpecInfo(6, 8, 2, 10)
    metrics = rollout_metrics(groups, 4)
    assert metrics["rollout/prefix_cache_hit_rate"] == 6 / 16
    assert metrics["rollout/avg_cached_tokens_per_sample"] == 3.0
    assert metrics["rollout/spec_accept_rate"] == 6 / 8
    assert metrics["rollout/spec_accept_length"] == 5.0


def test_supervised_rounds_have_neither_rewards_nor_log_probs() -> None:
    given = sample(1.0, 4)
    given.reward, given.verdict, given.rollout_log_probs, given.weight_versions = None, None, None, []
    found = rollout_metrics([[given]], 4, MetricOptions())
    assert found["rollout/response_len/mean"] == 4
    assert not {"rollout/raw_reward", "rollout/log_probs", "staleness/mean"} & found.keys()


def test_speed_is_tokens_over_time_and_gpus() -> None:
    samples = [sample(1.0, 2), sample(0.0, 8)]
    samples[1].loss_mask = [1] * 4 + [0] * 4
    assert speed_metrics(samples, seconds=2.0, generated_tokens=40, gpus=4) == {
        "perf/tokens_per_gpu_per_sec": 5.0,
        "perf/effective_tokens_per_gpu_per_sec": 6 / 8,
        "perf/longest_sample_tokens_per_sec": 4.0,
    }


def test_a_loop_is_told_from_a_long_text() -> None:
    assert repeats_itself("and so on " * 2000)
    assert not repeats_itself("and so on " * 900)
    assert not repeats_itself("".join(chr(33 + i * i * 7919 % 90) for i in range(20_000)) + str(list(range(3000))))


def test_records_are_lines_of_json_and_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.jsonl"
    for round_id in (0, 1):
        with MetricsWriter(str(path)) as writer:
            writer.write(round_id, {"a": 0.5 + round_id, "b": math.nan})
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert records == [{"round": 0, "a": 0.5, "b": None}, {"round": 1, "a": 1.5, "b": None}]


@pytest.mark.runtime
def test_tensorboard_gets_the_same_values(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsWriter(None, str(tmp_path)) as writer:
        writer.write(0, {"rollout/raw_reward": 0.25})
        writer.write(1, {"rollout/raw_reward": 0.75})
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(one.step, one.value) for one in events.Scalars("rollout/raw_reward")] == [(0, 0.25), (1, 0.75)]


def test_the_line_of_a_round_says_what_a_person_looks_for() -> None:
    metrics = {
        "rollout/raw_reward": 0.5,
        "rollout/truncated_ratio": 0.125,
        "train/grad_norm": 1.25,
        "train/train_rollout_logprob_abs_diff": 3e-7,
        "perf/rollout_time": 0.84,
        "perf/update_weights_time": 0.031,
    }
    assert round_line(8, 150, metrics, left=125.0) == (
        "round   9/150  reward 0.500  cut 12.5%  grad 1.250  |dlogp| 3.0e-07  generate 0.8s  sync 0.03s  left 2m05s"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0s"), (59.4, "59s"), (60, "1m00s"), (3599, "59m59s"), (7260, "2h01m")]
)
def test_durations_read_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_time_left_follows_the_last_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow first round is forgotten once enough others have ended."""
    now = 0.0
    monkeypatch.setattr("slime.observability.console.time.monotonic", lambda: now)
    pace = Pace(total=102, first=2)
    now = 100.0
    assert pace.finished() == 100.0 * 99
    for _ in range(20):
        now += 2.0
        left = pace.finished()
    assert pace.next == 23
    assert left == pytest.approx(2.0 * 79)


def scores(mean: float) -> EvalScores:
    return EvalScores("sums", Estimate(mean, mean - 0.1, mean + 0.1), 0.02, {2: Estimate(0.9, 0.8, 1.0)}, 0.25, 8)


def test_the_report_prints_writes_and_sums_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    with Report(2, str(path)) as report:
        report.evaluation(BEFORE_TRAINING, scores(0.4))
        report.start(0)
        with report.timed("rollout"):
            pass
        report.add({"loss": 1}, "train/")
        report.finish_round(0)
        report.add({"rollout/raw_reward": 0.5})
        report.finish_round(1)
        report.evaluation(1, scores(0.7))
        report.summary()
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert records[0] == {
        "round": -1,
        "eval/sums": 0.4,
        "eval/sums-ci95_low": pytest.approx(0.3),
        "eval/sums-ci95_high": 0.5,
        "eval/sums-standard_error": 0.02,
        "eval/sums-truncated_ratio": 0.25,
        "eval/sums-pass@2": 0.9,
        "eval/sums-pass@2-ci95_low": 0.8,
        "eval/sums-pass@2-ci95_high": 1.0,
    }
    assert records[1]["train/loss"] == 1.0 and records[1]["perf/rollout_time"] >= 0
    assert records[2] == {"round": 1, "rollout/raw_reward": 0.5}  # nothing of the round before
    printed = capsys.readouterr().out
    assert "held-out sums before training: 0.400 (95% 0.300-0.500)  pass@2 0.900" in printed
    assert "round 2/2  reward 0.500" in printed
    assert "held-out sums: 0.400 -> 0.700 (+0.300)" in printed
