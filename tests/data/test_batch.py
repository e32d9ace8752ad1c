"""From graded groups to batches: advantages, denominators, and one loss whatever the number of ranks."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from slime.algorithms.reduction import token_weights, weighted_sum
from slime.data.batch import BatchOptions, build_train_batches
from slime.data.batch_report import report_batches
from slime.data.convert import ConvertError
from slime.data.flops import SequenceCost
from slime.data.sample import Sample, SampleError, Status
from slime.data.schedule import ScheduleOptions
from slime.data.train_batch import TrainBatch, TrainSequence


def sample(index: int, group: int, reward: float, length: int, rollout: int | None = None) -> Sample:
    return Sample(
        group_index=group, index=index, rollout_id=index if rollout is None else rollout, tokens=[1, 2, *range(length)],
        prompt_length=2, response_length=length, reward=reward, status=Status.COMPLETED, weight_versions=["4"],
        rollout_log_probs=[-0.1 * (k + 1) for k in range(length)],
    )  # fmt: skip


def build(
    groups: list[list[Sample]], dp: int = 1, budget: int | None = 100, batch: int = 100, micro: int = 1
) -> list[TrainBatch]:
    return build_train_batches(groups, BatchOptions(ScheduleOptions(dp, batch, budget, micro_batch_size=micro)), 7)


def test_advantages_are_those_of_the_true_groups() -> None:
    groups = [[sample(i, 0, float(i < 4), 3) for i in range(8)], [sample(8 + i, 1, float(i == 0), 2) for i in range(3)]]
    (batch,) = build(groups)
    by_index = {sequence.sample_index: sequence.advantage for sequence in batch.sequences}
    assert [by_index[i] for i in range(8)] == pytest.approx(
        [0.5 / (math.sqrt(2 / 7) + 1e-6)] * 4 + [-0.5 / (math.sqrt(2 / 7) + 1e-6)] * 4
    )
    std = math.sqrt((4 / 9 + 1 / 9 + 1 / 9) / 2)
    assert [by_index[i] for i in (8, 9, 10)] == pytest.approx([2 / 3 / (std + 1e-6)] + [-1 / 3 / (std + 1e-6)] * 2)


def test_fields_of_a_sequence() -> None:
    one = sample(5, 0, 1.0, 3)
    one.loss_mask, one.status = [1, 0, 1], Status.TRUNCATED
    (batch,) = build([[one, sample(6, 0, 0.0, 1)]])
    first = next(sequence for sequence in batch.sequences if sequence.sample_index == 5)
    assert first.tokens.tolist() == [1, 2, 0, 1, 2]
    assert first.tokens.dtype == np.int64
    assert first.loss_mask.tolist() == [1, 0, 1]
    assert (first.response_length, first.total_length, first.rollout_mask_sum) == (3, 5, 2)
    assert first.rollout_log_probs == pytest.approx([-0.1, -0.2, -0.3])
    assert (first.weight_versions, first.truncated, first.raw_reward) == (["4"], True, 1.0)
    assert (batch.round_id, batch.steps[0].num_rollouts, batch.steps[0].num_tokens) == (7, 2, 3)


def test_siblings_share_their_denominator_and_missing_ids_are_filled() -> None:
    first, second, third = sample(0, 0, 1.0, 3, rollout=0), sample(1, 0, 0.0, 2, rollout=0), sample(2, 0, 0.0, 1)
    third.rollout_id = None
    (batch,) = build([[first, second, third]])
    found = {s.sample_index: (s.rollout_id, s.rollout_mask_sum) for s in batch.sequences}
    assert found == {0: (0, 5), 1: (0, 5), 2: (1, 1)}
    assert batch.steps[0].num_rollouts == 2


def test_a_removed_sample_counts_in_the_statistics_alone() -> None:
    groups = [[sample(0, 0, 1.0, 2), sample(1, 0, 0.0, 2)]]
    groups[0][0].remove_sample = True
    (batch,) = build(groups)
    removed = next(s for s in batch.sequences if s.sample_index == 0)
    kept = next(s for s in batch.sequences if s.sample_index == 1)
    assert removed.loss_mask.tolist() == [0, 0]
    assert removed.rollout_mask_sum == 1
    assert kept.advantage == pytest.approx(-0.5 / (math.sqrt(0.5) + 1e-6))


def test_a_failed_grading_is_left_out_of_its_groups_statistics() -> None:
    failed = sample(2, 0, 0.0, 2)
    failed.verdict, failed.remove_sample = "grader-error", True
    (batch,) = build([[sample(0, 0, 1.0, 2), sample(1, 0, 0.0, 2), failed]])
    found = {sequence.sample_index: sequence.advantage for sequence in batch.sequences}
    assert found == pytest.approx({0: 0.5 / (math.sqrt(0.5) + 1e-6), 1: -0.5 / (math.sqrt(0.5) + 1e-6), 2: 0.0})


def built(groups: list[list[Sample]], **options: Any) -> dict[int, TrainSequence]:
    """Sequences by sample index, of one rank in one micro-batch."""
    schedule = ScheduleOptions(1, 100, 1000)
    (batch,) = build_train_batches(groups, BatchOptions(schedule, **options), 0)
    return {sequence.sample_index: sequence for sequence in batch.sequences}


def test_groups_are_those_of_the_prompt_wherever_samples_stand() -> None:
    """Group ids decide, not positions: shuffled into one list, or one list each, the advantages are the same."""
    rewards = [1, 0, 0, 1, 1, 0, 1, 0, 0]
    samples = [sample(i, i % 3, float(reward), 2) for i, reward in enumerate(rewards)]
    by_prompt = built([[s for s in samples if s.group_index == g] for g in range(3)])
    for arrangement in ([samples[::-1]], [[one] for one in samples], [samples[:4], samples[4:]]):
        found = built(arrangement)
        assert {i: s.advantage for i, s in found.items()} == {i: s.advantage for i, s in by_prompt.items()}


def test_a_trajectory_in_pieces_counts_once() -> None:
    """Prompt 0: three trajectories, the first of them in two pieces with 3 and 5 trained tokens."""
    pieces = [sample(0, 0, 1.0, 3, rollout=0), sample(1, 0, 1.0, 5, rollout=0)]
    group = [*pieces, sample(2, 0, 0.0, 2), sample(3, 0, 0.0, 4)]
    found = built([group])
    whole = built([[sample(0, 0, 1.0, 8), sample(2, 0, 0.0, 2), sample(3, 0, 0.0, 4)]])
    assert found[0].advantage == pytest.approx(whole[0].advantage)
    assert found[1].advantage == pytest.approx(whole[0].advantage)
    assert found[3].advantage == pytest.approx(whole[3].advantage)
    # The mean over rollouts of the mean over trained tokens: each of the two pieces divides by 8, the step by 3.
    assert (found[0].rollout_mask_sum, found[1].rollout_mask_sum) == (8, 8)
    (batch,) = build([group])
    assert batch.steps[0].num_rollouts == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"estimator": "reinforce_plus_plus"}, [1, 0, 0]),
        ({"estimator": "ppo"}, [1, 0, 0]),
        ({"normalize": False}, [1, 0, 0]),
        ({"normalize_std": False}, [2 / 3, -1 / 3, -1 / 3]),
        ({"estimator": "reinforce_plus_plus_baseline"}, [2 / 3, -1 / 3, -1 / 3]),
        ({"estimator": "rloo"}, [1, -1 / 2, -1 / 2]),
    ],
)
def test_each_estimator_gets_its_scalar(options: dict[str, Any], expected: list[float]) -> None:
    found = built([[sample(i, 0, reward, 2) for i, reward in enumerate((1.0, 0.0, 0.0))]], **options)
    assert [found[i].advantage for i in range(3)] == pytest.approx(expected)


def test_the_reward_key_chooses_from_mappings_and_raw_rewards_may_be_kept() -> None:
    group = [sample(i, 0, 0.0, 2) for i in range(2)]
    group[0].reward, group[1].reward = {"score": 1.0, "acc": False}, {"score": 0.0, "acc": True}
    group[1].metadata["raw_reward"] = 0.25
    found = built([group], reward_key="score")
    assert [found[i].raw_reward for i in (0, 1)] == [1.0, 0.25]
    assert found[0].advantage > 0 > found[1].advantage


def test_a_function_may_replace_the_comparison() -> None:
    group = [sample(i, 0, float(i), 2) for i in range(3)]
    found = built([group], post_process=lambda samples: ([s.reward for s in samples], [10 * s.reward for s in samples]))
    assert [(found[i].raw_reward, found[i].advantage) for i in range(3)] == [(0, 0), (1, 10), (2, 20)]


def test_supervised_samples_need_no_log_probs() -> None:
    one = sample(0, 0, 0.0, 3)
    one.rollout_log_probs, one.weight_versions, one.loss_mask = None, [], [0, 1, 1]
    found = built([[one]], supervised=True, normalize=False)
    assert found[0].rollout_log_probs.tolist() == [0, 0, 0]
    assert found[0].loss_mask.tolist() == [0, 1, 1]
    with pytest.raises(SampleError, match="weight_versions is empty"):
        build([[one]])


def converted(**changes: Any) -> dict[str, Any]:
    """What a conversion function returns for samples 0 and 1 below."""
    return {
        "tokens": [[1, 2, 0], [1, 2, 0, 1]], "response_lengths": [1, 2], "rewards": [0.5, -0.5],
        "raw_reward": [1, 0], "truncated": [0, 1], "sample_indices": [0, 1], "loss_masks": [[1], [0, 1]], **changes,
    }  # fmt: skip


def test_a_function_may_make_the_training_data() -> None:
    group = [sample(0, 0, 1.0, 1), sample(1, 0, 0.0, 2, rollout=7)]
    found = built([group], convert=lambda samples: converted())
    assert [(s.advantage, s.raw_reward, s.truncated, s.rollout_id) for s in (found[0], found[1])] == [
        (0.5, 1, False, 0), (-0.5, 0, True, 7),
    ]  # fmt: skip
    assert found[1].rollout_log_probs == pytest.approx([-0.1, -0.2])
    assert found[1].rollout_mask_sum == 1
    assert found[1].weight_versions == ["4"]
    own = built([group], convert=lambda samples: converted(rollout_ids=[3, 3], rollout_log_probs=[[-1], [-2, -3]]))
    assert own[0].rollout_mask_sum == 2
    assert own[1].rollout_log_probs.tolist() == [-2, -3]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rewards": [0.5]}, "have 1 rewards for 2 tokens"),
        ({"reward": [0.5, 0.5]}, "have the unknown 'reward'"),
        ({"loss_masks": [[1], [0, 1, 1]]}, "row 1: 3 loss_masks for 2 response tokens"),
        ({"response_lengths": [1, 4]}, "row 1: 4 tokens with a response of 4"),
        ({"rewards": [float("nan"), 0]}, "row 0: rewards are finite"),
        ({"sample_indices": [0, 9]}, "row 1: there is no sample 9 whose rollout_log_probs could be taken"),
    ],
)
def test_converted_data_are_checked_row_by_row(changes: dict[str, Any], words: str) -> None:
    group = [sample(0, 0, 1.0, 1), sample(1, 0, 0.0, 2)]
    with pytest.raises(ConvertError, match=words):
        built([group], convert=lambda samples: converted(**changes))
    with pytest.raises(ConvertError, match="lack tokens"):
        built([group], convert=lambda samples: {key: v for key, v in converted().items() if key != "tokens"})


def test_every_rank_has_as_many_passes_without_gradients() -> None:
    groups = [[sample(4 * g + k, g, float(k == 0), 1 + (5 * g + 3 * k) % 11) for k in range(4)] for g in range(6)]
    options = ScheduleOptions(3, 24, 40, log_probs_max_tokens_per_gpu=20)
    batches = build_train_batches(groups, BatchOptions(options), 0)
    assert len({len(batch.log_prob_indices) for batch in batches}) == 1
    for batch in batches:
        assert {i for indices in batch.log_prob_indices for i in indices} == set(range(len(batch.sequences)))
        for indices in batch.log_prob_indices:
            assert sum(batch.sequences[i].total_length for i in indices) <= 20


def loss_of(batches: list[TrainBatch], step: int, per_token: bool) -> float:
    """Sum over ranks and micro-batches of weighted (log-prob x advantage), any function of tokens would do."""
    total = 0.0
    for batch in batches:
        for micro in batch.micro_batches(step):
            weights = token_weights(
                [torch.from_numpy(s.loss_mask).double() for s in micro], [s.rollout_mask_sum for s in micro],
                batch.steps[step].num_rollouts, batch.steps[step].num_tokens, per_token,
            )  # fmt: skip
            values = torch.cat([torch.from_numpy(s.rollout_log_probs).double() * s.advantage for s in micro])
            total += weighted_sum(values, weights).item()
    return total


@pytest.mark.parametrize("per_token", [False, True])
def test_the_loss_does_not_depend_on_ranks_or_micro_batches(per_token: bool) -> None:
    groups = [
        [sample(4 * g + k, g, float((g + k) % 3 == 0), 1 + (5 * g + 3 * k) % 11) for k in range(4)] for g in range(6)
    ]
    reference = [loss_of(build(groups, 1, 10_000, batch=12), step, per_token) for step in (0, 1)]
    assert abs(reference[0]) > 1e-3
    for dp, budget, micro in ((1, 20, 1), (2, 16, 1), (3, 13, 1), (5, 30, 1), (1, None, 3), (2, None, 2), (4, None, 1)):
        batches = build(groups, dp, budget, batch=12, micro=micro)
        assert len({tuple(len(step.micro_batch_indices) for step in batch.steps) for batch in batches}) == 1
        found = [loss_of(batches, step, per_token) for step in (0, 1)]
        assert found == pytest.approx(reference, rel=1e-6)


@pytest.mark.parametrize("per_token", [False, True])
def test_the_loss_does_not_depend_on_the_balance_or_on_pieces(per_token: bool) -> None:
    """Twelve trajectories, every third of them in two pieces, shared out in every way there is."""
    pieces = {
        r: [sample(3 * r + k, r // 4, float(r % 3 == 0), 1 + (5 * r + 7 * k) % 9, r) for k in range(1 + (r % 3 == 0))]
        for r in range(12)
    }
    groups = [[piece for r in range(4 * g, 4 * g + 4) for piece in pieces[r]] for g in range(3)]

    def loss(**options: Any) -> float:
        schedule = ScheduleOptions(global_batch_size=12, cost=SequenceCost(3, 1), **options)
        batches = build_train_batches(groups, BatchOptions(schedule), 0)
        assert batches[0].steps[0].num_rollouts == 12
        return loss_of(batches, 0, per_token)

    reference = loss(dp_size=1, max_tokens_per_gpu=10_000)
    assert abs(reference) > 1e-3
    for dp_size in (1, 2, 3, 5):
        for budget in (12, 30):
            for balance, flops in ((False, False), (True, False), (True, True)):
                found = loss(dp_size=dp_size, max_tokens_per_gpu=budget, balance_data=balance, balance_by_flops=flops)
                assert found == pytest.approx(reference, rel=1e-6)


def test_a_rank_short_of_samples_gets_a_muted_copy() -> None:
    groups = [[sample(0, 0, 1.0, 8), sample(1, 0, 0.0, 8), sample(2, 0, 0.0, 8)]]
    batches = build(groups, dp=2, budget=10)
    assert [len(batch.steps[0].micro_batch_indices) for batch in batches] == [2, 2]
    masks = [sequence.loss_mask.sum() for batch in batches for sequence in batch.sequences]
    assert sorted(masks) == [0, 8, 8, 8]
    assert batches[0].steps[0].num_tokens == 24


def test_batches_survive_the_trip_between_processes() -> None:
    (batch,) = build([[sample(0, 0, 1.0, 2), sample(1, 0, 0.0, 2)]])
    assert b"torch" not in pickle.dumps(batch)


def test_bad_samples_are_refused_at_the_door() -> None:
    broken = sample(3, 1, 1.0, 2)
    broken.loss_mask = [1]
    with pytest.raises(SampleError, match=r"sample 3 \(group 1\): loss_mask has 1 entries"):
        build([[broken]])
    mapping = sample(3, 1, 1.0, 2)
    mapping.reward = {"score": 1.0, "acc": True}
    with pytest.raises(SampleError, match="reward is a mapping of 'score', 'acc'; --reward-key names the one"):
        build([[mapping]])
    lacking = sample(3, 1, 1.0, 2)
    lacking.rollout_log_probs = None
    with pytest.raises(SampleError, match="rollout_log_probs is missing"):
        build([[lacking]])
    with pytest.raises(SampleError, match="round 7 has no samples"):
        build([])


def test_a_round_is_reported() -> None:
    groups = [[sample(4 * g + k, g, float(k == 0), 2 + k) for k in range(4)] for g in range(2)]
    groups[1][0].remove_sample = True
    groups[0][3].loss_mask = [0, 0, 0, 1, 1]
    schedule = ScheduleOptions(1, 8, 20)
    found = report_batches(build_train_batches(groups, BatchOptions(schedule), 3), schedule)
    assert found.notes == []
    trained = 28 - 2 - 3
    assert found.metrics == {
        "samples": 8, "rollouts": 8, "steps": 1, "micro_batches": 3, "tokens": 44, "trained": trained / 28,
        "muted_samples": 1, "padding_samples": 0, "imbalance": 1,
    }  # fmt: skip


def test_what_is_unusual_about_a_round_is_said() -> None:
    groups = [[sample(0, 0, 1.0, 28), sample(1, 0, 0.0, 8), sample(2, 0, 0.0, 8)]]
    schedule = ScheduleOptions(2, 2, 10)
    found = report_batches(build_train_batches(groups, BatchOptions(schedule), 3), schedule)
    assert "sample 0 (30 tokens) exceed --max-tokens-per-gpu 10 x CP 1 = 10" in found.notes[0]
    assert "round 3 has 3 rollouts in steps of 3 instead of --global-batch-size 2; none is dropped" in found.notes[1]
    assert (found.metrics["samples"], found.metrics["padding_samples"]) == (3, 1)
    assert found.metrics["imbalance"] == pytest.approx(40 / 30)
