"""What became of a round's samples: numbers for every round, and a line for a person when something is unusual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slime.data.schedule import ScheduleOptions
from slime.data.train_batch import TrainBatch, TrainSequence

SHOWN = 3
"""Samples that a note names; it counts the others."""


@dataclass(frozen=True, slots=True)
class BatchReport:
    """Metrics by name, and lines for a person."""

    metrics: dict[str, float]
    notes: list[str]


def report_batches(batches: Sequence[TrainBatch], options: ScheduleOptions) -> BatchReport:
    """Describe the batches of one round.

    Args:
        batches: one for each rank.
        options: those that they were scheduled with.

    Returns:
        Metrics: `samples`, `rollouts`, `steps`, `micro_batches` (of one rank), `tokens` (prompts included), `trained`
        (share of response tokens in the loss), `muted_samples` (none of their tokens), `padding_samples` (copies that
        fill a rank), `imbalance` (work of the busiest rank over the mean). Notes: samples above the token budget, steps
        of another size than --global-batch-size.
    """
    everything = [sequence for batch in batches for sequence in batch.sequences]
    # A copy that fills a rank shares its token array with the sequence that it copies.
    originals = list({id(sequence.tokens): sequence for sequence in reversed(everything)}.values())
    response = sum(sequence.response_length for sequence in originals)
    work = [sum(options.cost.of(sequence.total_length) for sequence in batch.sequences) for batch in batches]
    metrics = {
        "samples": float(len(originals)),
        "rollouts": float(sum(step.num_rollouts for step in batches[0].steps)),
        "steps": float(len(batches[0].steps)),
        "micro_batches": float(sum(len(step.micro_batch_indices) for step in batches[0].steps)),
        "tokens": float(sum(sequence.total_length for sequence in originals)),
        "trained": sum(float(sequence.loss_mask.sum()) for sequence in originals) / response,
        "muted_samples": float(sum(not sequence.loss_mask.any() for sequence in originals)),
        "padding_samples": float(len(everything) - len(originals)),
        "imbalance": max(work) * len(work) / sum(work),
    }
    return BatchReport(metrics, [*_oversize(originals, options), *_steps(batches[0], options)])


def _oversize(sequences: Sequence[TrainSequence], options: ScheduleOptions) -> list[str]:
    budget = options.budget
    large = sorted(
        (sequence for sequence in sequences if budget is not None and sequence.total_length > budget),
        key=lambda sequence: -sequence.total_length,
    )
    if not large:
        return []
    named = ", ".join(f"sample {one.sample_index} ({one.total_length} tokens)" for one in large[:SHOWN])
    more = f" and {len(large) - SHOWN} more" if len(large) > SHOWN else ""
    return [
        f"{named}{more} exceed --max-tokens-per-gpu {options.max_tokens_per_gpu} x CP {options.context_parallel_size} "
        f"= {budget}: each is a micro-batch of its own and may not fit into memory"
    ]


def _steps(batch: TrainBatch, options: ScheduleOptions) -> list[str]:
    sizes = [step.num_rollouts for step in batch.steps]
    if all(size == options.global_batch_size for size in sizes):
        return []
    return [
        f"round {batch.round_id} has {sum(sizes)} rollouts in steps of {', '.join(map(str, sizes))} instead of "
        f"--global-batch-size {options.global_batch_size}; none is dropped, and the loss divides by what is there"
    ]
