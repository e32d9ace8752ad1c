"""One round for training: prompts from the source, responses from the engine, verdicts from the graders."""

from __future__ import annotations

from dataclasses import dataclass

from slime.data.sample import Sample
from slime.data.source import PromptSource
from slime.rollout.client import GenerateClient, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.grading import Grader, check_grader_errors
from slime.rollout.groups import run_groups
from slime.rollout.progress import Print, Progress
from slime.rollout.runner import Decode, SampleRunner, reset


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """Names are the flags' where there is one.

    Attributes:
        rollout_batch_size: groups (prompts) a round.
        sampling: `max_new_tokens` is ``--rollout-max-response-len``.
        rm_type: grader, for rows whose metadata names none.
        concurrency: requests in flight, ``--sglang-server-concurrency`` times engines.
        max_context_len: limit of prompt and response together, in tokens; None = none.
        deadline: seconds until requests that still run are aborted; None = wait.
        max_grader_error_ratio: share of failed gradings above which the round is refused.
        progress_interval: seconds between progress lines.
    """

    rollout_batch_size: int
    sampling: SamplingParams
    rm_type: str
    concurrency: int
    max_context_len: int | None = None
    deadline: float | None = None
    max_grader_error_ratio: float = 0.2
    progress_interval: float = 10.0


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """A round.

    Attributes:
        groups: whole graded groups, in the source's order.
        returned_groups: groups that the deadline stopped; they are back in the source and come first next time.
        seconds: wall clock of the round.
        generated_tokens: response tokens, those of aborted requests included.
    """

    groups: list[list[Sample]]
    returned_groups: int
    seconds: float
    generated_tokens: int


async def generate_rollout(
    client: GenerateClient,
    source: PromptSource,
    grader: Grader,
    decode: Decode,
    options: RolloutOptions,
    rollout_id: int,
    emit: Print | None = print,
) -> RolloutResult:
    """Generate and grade ``rollout_batch_size`` groups.

    Every sample in the result passed `Sample.check` and carries the version of the weights that generated it. If
    anything raises, all groups are back in the source, so that a retry of the round sees the same prompts.

    Args:
        client: samples token ids.
        source: prompts.
        grader: the worker pool.
        decode: response ids to text, without special tokens.
        options: see `RolloutOptions`.
        rollout_id: number of the round, for names and messages.
        emit: prints a progress line; None = silent.

    Raises:
        RolloutError: if no group is whole at the deadline, a prompt leaves no room, or the grader fails too often.
    """
    groups = source.get_groups(options.rollout_batch_size)
    samples = [sample for group in groups for sample in group]
    name = f"rollout-{rollout_id}"
    runner = SampleRunner(client, decode, options.sampling, options.concurrency, options.max_context_len, name)
    progress = Progress(f"rollout {rollout_id}", len(samples), emit, options.progress_interval)
    try:
        async with progress:
            whole = await run_groups(runner, grader, options.rm_type, groups, progress, options.deadline)
        if not whole:
            raise RolloutError(
                f"rollout {rollout_id}: no group of {len(groups)} was whole after the deadline of {options.deadline} s "
                f"({progress.line()}); raise the deadline or lower --rollout-max-response-len."
            )
        check_grader_errors([sample for group in whole for sample in group], options.max_grader_error_ratio)
    except BaseException:  # an interrupt, too, must not lose prompts
        _give_back(source, groups)
        raise
    kept = {id(group) for group in whole}
    late = [group for group in groups if id(group) not in kept]
    _give_back(source, late)
    return RolloutResult(whole, len(late), progress.seconds(), runner.generated_tokens)


def _give_back(source: PromptSource, groups: list[list[Sample]]) -> None:
    for group in groups:
        for sample in group:
            reset(sample)
            sample.remove_sample = False
    source.add_groups(groups)
