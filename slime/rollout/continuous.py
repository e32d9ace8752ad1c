"""Generation that does not stop between rounds: groups in flight, graded ones that wait, and what becomes of each.

The trainer takes a batch whenever enough groups are graded. A weight update holds the requests back: with
`--partial-rollout` those in flight are cut off and continued by the new weights, without it they are waited for.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from dataclasses import dataclass, field

from slime.data.buffer import FRESH, Group, staleness
from slime.data.source import DataSource
from slime.observability.metrics import Metrics
from slime.rollout.errors import RolloutError
from slime.rollout.filters import decision
from slime.rollout.groups import GroupWork
from slime.rollout.machinery import Machinery
from slime.rollout.pacing import Pacing
from slime.rollout.progress import Progress
from slime.rollout.runner import reset


@dataclass(slots=True, eq=False)
class Held:
    """A group that was taken from the data source and not yet handed to training.

    Attributes:
        group: as the source gave it; generation fills its samples.
        version: the oldest weights that may be behind one of its tokens.
        samples: what trains, once it is graded: those of `group`, or others that functions of the user's made of them.
    """

    group: Group
    version: int
    samples: Group = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What happened since the account before.

    Attributes:
        seconds: since then.
        tokens: that were generated.
        graded: groups that were generated whole, dropped ones included.
        filtered: groups that the dynamic filter dropped, by its reason.
        aborted: groups that the engine gave up on; they begin again.
        stale_groups, stale_tokens: what was too old to train on (--max-weight-staleness), and begins again.
        paused_seconds: that weight updates waited for requests in flight.
    """

    seconds: float = 0.0
    tokens: int = 0
    graded: list[Group] = field(default_factory=list)
    filtered: Counter[str] = field(default_factory=Counter)
    aborted: int = 0
    stale_groups: int = 0
    stale_tokens: int = 0
    paused_seconds: float = 0.0

    def lost(self) -> int:
        """Groups that were generated and do not train."""
        return self.filtered.total() + self.aborted


class ContinuousRollout:
    """Keeps the engines busy; implements `slime.rollout.background.Producer`.

    No more groups are in flight than there may be requests. Beside them a batch waits; with `--max-weight-staleness`
    as many groups wait as can be trained in time.
    """

    def __init__(self, tools: Machinery, source: DataSource) -> None:
        config = tools.config
        self.tools = tools
        self.source = source
        self.weight_version = tools.background.weight_version
        self._tally = Tally()
        self._accounted = (time.monotonic(), 0)
        self._batch = config.rollout_batch_size
        self._most_in_flight = max(1, tools.runner.concurrency // config.n_samples_per_prompt)
        self._pacing = Pacing(self._batch, config.max_weight_staleness)
        self._next_round = 0
        self._trains_next = self.weight_version  # the weights with which the next batch will be trained
        self._running: dict[asyncio.Task[Group | None], Held] = {}
        self._ready: list[Held] = []
        self._paused = False
        self._filter = tools.hooks.one("dynamic-filter")
        self._runner = tools.sample_runner(tools.runner, config.custom_generate_function_path)
        self._progress = Progress("", 0, tools.emit)
        self._work = GroupWork(
            self._runner, tools.rewarder(tools.rewards), self._progress, tools.hooks, config, rollout_id=0
        )
        self._wake, self._changed = asyncio.Event(), asyncio.Event()
        self._pump = asyncio.create_task(self._keep_busy())

    @property
    def queue(self) -> Metrics:
        """How much waits now, in groups."""
        return {"rollout/queue_length": float(len(self._ready)), "rollout/in_flight": float(len(self._running))}

    def account(self) -> Tally:
        """What happened since the last call."""
        then, before = self._accounted
        self._accounted = now, tokens = time.monotonic(), self._runner.generated_tokens
        tally, self._tally = self._tally, Tally()
        tally.seconds, tally.tokens = now - then, tokens - before
        return tally

    async def take(self, rollout_id: int) -> list[Group]:
        """Wait for a batch of graded groups; the oldest come first. It is out of the queue then.

        Raises:
            RolloutError: filter and engine leave too few groups; whatever ended the generation in the background.
            HookError: a hook broke its contract.
        """
        self.weight_version = self._trains_next = self.tools.background.weight_version
        self._next_round = rollout_id
        self._wake.set()
        self._progress.begin(f"rollout {rollout_id}", self._batch * self.tools.config.n_samples_per_prompt)
        async with self._progress:
            while True:
                self._raise_failure()
                self._begin_again_what_is_too_old()
                self._ready.sort(key=lambda held: held.version)
                if self._may_close():
                    break
                self._changed.clear()
                await self._changed.wait()
        taken, self._ready = self._ready[: self._batch], self._ready[self._batch :]
        self._next_round, self._trains_next = rollout_id + 1, self.weight_version + 1
        self._wake.set()
        return [held.samples for held in taken]

    async def pause(self) -> None:
        """See `Producer.pause`."""
        self._raise_failure()
        begun = time.monotonic()
        self._paused = True
        await self._runner.hold()
        self._tally.paused_seconds += time.monotonic() - begun

    def resume(self, weight_version: int) -> None:
        """See `Producer.resume`."""
        self.weight_version = self._trains_next = weight_version
        self._paused = False
        self._runner.release()
        self._wake.set()

    def unfinished(self) -> list[Group]:
        """See `Producer.unfinished`: graded groups as they are, others as bare prompts."""
        graded = [held.group if _same(held.group, held.samples) else _bare(held.group) for held in self._ready]
        return [*graded, *(_bare(held.group) for held in self._running.values())]

    async def close(self) -> None:
        """See `Producer.close`."""
        tasks = [self._pump, *self._running]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        held = [*self._ready, *self._running.values()]
        self._ready, self._running = [], {}
        self._give_back([one.group for one in held])

    async def _keep_busy(self) -> None:
        with self.tools.bound():
            try:
                while True:
                    settled, admitted = self._settle(), self._admit()
                    if settled or admitted:  # anything less would wake `take` for nothing
                        self._changed.set()
                    await self._wake.wait()
                    self._wake.clear()
            finally:
                self._changed.set()

    def _raise_failure(self) -> None:
        if self._pump.done():
            self._pump.result()

    def _may_close(self) -> bool:
        """Whether a batch is there, and what stays behind can still be trained in time."""
        if len(self._ready) < self._batch:
            return False
        rest = [held.version for held in (*self._ready[self._batch :], *self._running.values())]
        return not self._running or self._pacing.in_time(rest, self.weight_version + 1)

    def _may_admit(self) -> bool:
        running, ready = len(self._running), len(self._ready)
        if self._paused or running >= self._most_in_flight:
            return False
        if ready >= self._batch and self._pacing.max_staleness is None:
            return False  # without a bound on its age, the queue has one on its length
        if running + ready >= self._batch * (self.tools.config.num_rollout - self._next_round):
            return False  # the rest of the run needs no more
        versions = [held.version for held in (*self._ready, *self._running.values())]
        return self._pacing.in_time([*versions, self.weight_version], self._trains_next)

    def _admit(self) -> bool:
        """Begin what may be begun; whether there was anything."""
        before = len(self._running)
        while self._may_admit():
            groups = self.source.get_groups(1)
            if not groups:
                raise RolloutError(f"rollout {self._next_round}: the data source has no more groups.")
            for group in groups:
                self._begin(group)
        return len(self._running) > before

    def _begin(self, group: Group) -> None:
        held = Held(group, min(staleness(group), self.weight_version))
        if self._pacing.too_old(held.version, self._trains_next):
            self._count_stale(group)
            reset_group(group)
            held.version = self.weight_version
        work = dataclasses.replace(self._work, rollout_id=self._next_round)
        task = asyncio.create_task(work.run(group))
        task.add_done_callback(lambda _: self._wake.set())
        self._running[task] = held

    def _settle(self) -> bool:
        """Take in what is finished, in the order in which it began; whether there was anything."""
        finished = [task for task in self._running if task.done()]
        for task in finished:
            samples, held = task.result(), self._running.pop(task)
            if samples is None:
                self._tally.aborted += 1
                self._give_back([held.group])
            else:
                self._tally.graded.append(samples)
                self._judge(held, samples)
            if self._tally.lost() >= self.tools.config.dynamic_sampling_max_rounds * self._batch:
                raise RolloutError(self._exhausted())
        return bool(finished)

    def _judge(self, held: Held, samples: Group) -> None:
        if self._filter is not None:
            subject = f"group {samples[0].group_index}, {len(samples)} samples"
            found = self._filter.call(subject, decision, self.tools.config, samples)
            short = len(self._ready) + len(self._running) < self._batch
            if not (found.keep or (found.keep_when_insufficient and short)):
                self._tally.filtered[found.reason or "unnamed"] += 1
                return
        version = staleness(samples)
        self._ready.append(Held(held.group, held.version if version == FRESH else version, samples))

    def _begin_again_what_is_too_old(self) -> None:
        stale = [held for held in self._ready if self._pacing.too_old(held.version, self.weight_version)]
        self._ready = [held for held in self._ready if held not in stale]
        for held in stale:
            self._count_stale(held.samples)
        self._give_back([held.group for held in stale])
        if stale:
            self._wake.set()

    def _count_stale(self, samples: Group) -> None:
        self._tally.stale_groups += 1
        self._tally.stale_tokens += sum(sample.response_length for sample in samples)

    def _give_back(self, groups: list[Group]) -> None:
        for group in groups:
            reset_group(group)
        if groups:
            self.source.add_groups(groups)

    def _exhausted(self) -> str:
        reasons = ", ".join(f"{why} {n}" for why, n in self._tally.filtered.most_common()) or "none"
        return (
            f"rollout {self._next_round}: {len(self._ready)} of {self._batch} groups are there, and "
            f"{self._tally.lost()} were generated in vain since the last batch, which is "
            f"{self.tools.config.dynamic_sampling_max_rounds} batches (--dynamic-sampling-max-rounds): "
            f"--dynamic-sampling-filter-path dropped {self._tally.filtered.total()} ({reasons}), the engine aborted "
            f"{self._tally.aborted}. A filter that drops nearly everything means that the prompts are all too hard, "
            "all too easy, or that the grader never accepts; look at some responses."
        )


def reset_group(group: Group) -> None:
    """Back to bare prompts."""
    for sample in group:
        reset(sample)


def _bare(group: Group) -> Group:
    copies = [dataclasses.replace(sample) for sample in group]
    reset_group(copies)
    return copies


def _same(group: Group, samples: Group) -> bool:
    return len(group) == len(samples) and all(one is other for one, other in zip(group, samples, strict=True))
