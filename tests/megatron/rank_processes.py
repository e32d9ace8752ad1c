"""Starts the ranks of a test: when one fails or hangs, the others end with it, and its traceback is the failure's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import torch.multiprocessing as mp


def run_ranks(
    body: Callable[..., None],
    ranks: int,
    *arguments: Any,
    start_method: Literal["spawn", "forkserver"] = "spawn",
    seconds: float = 300,
) -> None:
    """Call ``body(rank, ranks, *arguments)`` in `ranks` processes and wait for all.

    Raises:
        ProcessRaisedException: a rank failed; the others were ended.
        TimeoutError: not all came back within `seconds`; all were ended.
    """
    # Daemons: whatever happens here, none is left that Python waits for when the tests end.
    context = mp.start_processes(
        body, (ranks, *arguments), nprocs=ranks, join=False, daemon=True, start_method=start_method
    )
    deadline = time.monotonic() + seconds
    while not context.join(timeout=1, grace_period=5):
        if time.monotonic() > deadline:
            waiting = [rank for rank, process in enumerate(context.processes) if process.is_alive()]
            for process in context.processes:
                process.kill()
            raise TimeoutError(f"ranks {waiting} of {ranks} did not come back within {seconds:.0f} s")
