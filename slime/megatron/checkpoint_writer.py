"""When checkpoints are written: while all ranks wait, or in the background while they train on (--async-save)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from megatron.core import dist_checkpointing
from torch.distributed.checkpoint.api import CheckpointException

from slime.megatron.checkpoint_files import fresh_folder, partial_folder, prune, publish
from slime.megatron.checkpoint_format import DirectTorchDistSave, Provide
from slime.weights.tracker import CheckpointError

STATE_NAME = "slime.json"


@dataclass(frozen=True)
class Draft:
    """A checkpoint that is to be written.

    Attributes:
        name: of its folder below `root`.
        tracker: what the tracker of `root` says when it is whole.
        content: what Megatron writes.
        description: the text of ``slime.json``.
        provide: gives what a tensor must hold when it is written; None = what it holds.
    """

    root: Path
    name: str
    tracker: str
    content: dict[str, Any]
    description: str
    provide: Provide | None = None


class CheckpointWriter:
    """Writes one checkpoint after another, on all ranks; the methods are collective.

    In the background one thread of each rank writes, in the order of the calls, from copies in host memory. The threads
    agree over a process group of their own, so the training's communication is not mixed with theirs. A checkpoint
    becomes visible when all ranks have written their part of it, as it does in the foreground.
    """

    def __init__(self, background: bool = False, keep_last: int | None = None) -> None:
        """
        Args:
            keep_last: how many checkpoints `prune` leaves; None = all.
        """
        self._thread = ThreadPoolExecutor(1, "checkpoint") if background else None
        self._group = dist.new_group(backend="gloo") if background else None
        self._keep_last = keep_last
        self._running: list[Future[None]] = []
        self._failed = False

    def write(self, draft: Draft) -> Path:
        """Write the checkpoint, or begin to; returns the folder that it will stand in.

        Raises:
            CheckpointError: on every rank, when it cannot be written. What fails in the background is raised by `wait`.
        """
        folder = partial_folder(draft.root, draft.name)
        _together(partial(fresh_folder, folder))
        strategy = DirectTorchDistSave(draft.provide, copy=self._thread is not None)
        dist_checkpointing.save(draft.content, str(folder), sharded_strategy=strategy)
        self._do(partial(_write, draft, strategy, self._group))
        return draft.root / draft.name

    def prune(self, roots: Sequence[Path], step: int) -> None:
        """Delete what --keep-last leaves out of `roots`, once the checkpoints of `step` are whole.

        Raises:
            CheckpointError: as `write`.
        """
        if self._keep_last is not None:
            for root in roots:
                self._do(partial(_together, partial(prune, root, step, self._keep_last), self._group))

    def wait(self) -> None:
        """Return when everything is written that was begun.

        Raises:
            CheckpointError: on every rank, when something could not be written; earlier checkpoints are as they were.
        """
        running, self._running = self._running, []
        wait_for(running)
        self._failed = False
        for one in running:
            one.result()

    def close(self) -> None:
        """Wait, and take no more work.

        Raises:
            CheckpointError: as `wait`.
        """
        if self._thread is not None:
            self._thread.shutdown()
        self.wait()

    def _do(self, work: Callable[[], None]) -> None:
        if self._thread is None:
            work()
        else:
            self._running.append(self._thread.submit(self._unless_failed, work))

    def _unless_failed(self, work: Callable[[], None]) -> None:
        """Nothing follows a failure: a policy must not become visible whose critic could not be written."""
        if self._failed:
            return
        self._failed = True
        work()
        self._failed = False


def _write(draft: Draft, strategy: DirectTorchDistSave, group: dist.ProcessGroup | None) -> None:
    try:
        strategy.write(group)
    except CheckpointException as error:
        # torch wraps what went wrong on each rank, with its traceback; the first cause says it.
        cause = next(iter(error.failures.values()))[0]
        raise CheckpointError(f"{draft.root / draft.name} cannot be written: {cause}.") from error
    _together(partial(_finish, draft), group)


def _finish(draft: Draft) -> None:
    state = partial_folder(draft.root, draft.name) / STATE_NAME
    state.write_text(draft.description, encoding="utf-8")
    publish(draft.root, draft.name, draft.tracker)


def _together(work: Callable[[], None], group: dist.ProcessGroup | None = None) -> None:
    """The first rank works while the others wait; when it fails, all do.

    Raises:
        CheckpointError: on every rank.
    """
    failure = [""]
    if dist.get_rank() == 0:
        try:
            work()
        except OSError as error:
            failure = [f"the folder of checkpoints cannot be changed: {error}."]
    dist.broadcast_object_list(failure, src=0, group=group)
    if failure[0]:
        raise CheckpointError(failure[0])
