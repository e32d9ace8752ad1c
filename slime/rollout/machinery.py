"""What a rollout function works with besides its arguments: the engines, the graders, the hooks, the sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from slime.config import Config
from slime.rollout.background import Background
from slime.rollout.client import GenerateClient
from slime.rollout.context import CustomRunner
from slime.rollout.errors import RolloutError
from slime.rollout.eval_sets import HeldOut
from slime.rollout.grading import Grader, Rewarder, RewardOptions
from slime.rollout.hook_set import HookSet
from slime.rollout.progress import Print
from slime.rollout.runner import RunnerOptions, SampleRunner
from slime.rollout.served import serve
from slime.rollout.text import TextTools


@dataclass(frozen=True, slots=True)
class Machinery:
    """Everything that the built-in functions need and that stays the same over a run.

    Attributes:
        config: the run's configuration, which hooks get as `args`.
        client: samples token ids.
        grader: the built-in graders.
        text: ids to text and back.
        hooks: the user's functions, loaded.
        runner: how training samples are asked for.
        rewards: how they are graded.
        held_out: sets to evaluate on.
        emit: prints a line for a person; None = silent.
        models: clients of every served model by its name; hooks get them from `slime.rollout.served.served_model`.
        background: where a function that generates between rounds keeps what does so.
    """

    config: Config
    client: GenerateClient
    grader: Grader
    text: TextTools
    hooks: HookSet
    runner: RunnerOptions
    rewards: RewardOptions
    held_out: tuple[HeldOut, ...] = ()
    emit: Print | None = print
    models: Mapping[str, GenerateClient] = field(default_factory=dict)
    background: Background = field(default_factory=Background)

    def sample_runner(
        self, options: RunnerOptions, generate_path: str | None, evaluation: bool = False
    ) -> SampleRunner:
        """A runner for one round or one data set; `generate_path` is the user's generation function."""
        return CustomRunner(self.client, self.text, options).bind(self.config, self.hooks, evaluation, generate_path)

    def rewarder(self, options: RewardOptions) -> Rewarder:
        """What gives the samples of one round or data set their rewards."""
        return Rewarder(self.grader, options, self.hooks, self.config)

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Inside, `machinery()` gives this."""
        token = _CURRENT.set(self)
        try:
            with serve(self.models):
                yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Machinery] = ContextVar("machinery")


def machinery() -> Machinery:
    """That of the run in which a rollout function was called.

    Raises:
        RolloutError: no run is going on.
    """
    try:
        return _CURRENT.get()
    except LookupError:
        raise RolloutError("the built-in rollout functions run inside `slime train` alone; none is going on.") from None
