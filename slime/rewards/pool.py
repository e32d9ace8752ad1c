"""A pool of killable grading processes. A hostile answer costs one worker, never the generation loop.

Each worker has a thread here that feeds it and watches the clock; callers get futures. Nothing blocks an asyncio loop,
and the pool belongs to none, so it lives as long as the run does.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import queue
import selectors
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, cast

from slime.rewards.graders import METADATA_KEYS
from slime.rewards.verdict import Verdict
from slime.rewards.worker import LOADING_SECONDS

MIN_SHARE, MAX_SHARE = 16, 64
CHUNK = 1 << 16
CLOSED = Verdict.grader_error("the grader pool was closed")
ALGEBRA = {"math_verify": "math-verify", "latex2sympy2_extended": "latex2sympy2-extended", "sympy": "sympy"}
PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])


class MissingLibraryError(RuntimeError):
    """A library that the graders need is not installed."""


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """One response to grade; see `slime.rewards.graders.grade`. The prompt is for a grader elsewhere."""

    rm_type: str
    response: str
    label: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)
    prompt: str = ""


@dataclass(slots=True)
class _Job:
    """Some requests, as the worker reads them; the verdicts so far; and who waits for all of them."""

    lines: list[bytes]
    future: Future[list[Verdict]]
    verdicts: list[Verdict] = field(default_factory=list)


class GraderPool:
    """`workers` processes, each grading one response at a time within `time_limit` seconds of wall clock.

    A response over the limit, or one that brings its worker down, gets the verdict "grader-error" with the reason; the
    worker is replaced and its remaining work goes on. Close the pool, or use it as a context manager.
    """

    def __init__(self, workers: int = 2, time_limit: float = 5.0) -> None:
        """
        Raises:
            ValueError: fewer than one worker, or no time.
            MissingLibraryError: math-verify is not installed.
        """
        if workers < 1:
            raise ValueError(f"workers is {workers}; a pool has at least 1.")
        if time_limit <= 0:
            raise ValueError(f"time_limit is {time_limit}; it must be above 0 seconds.")
        require_algebra()
        self.time_limit = time_limit
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self._workers = [_Worker(self._jobs, time_limit) for _ in range(workers)]

    async def grade(self, requests: Sequence[GradeRequest]) -> list[Verdict]:
        """Verdicts in the order of the requests, without blocking the running loop.

        Raises:
            RuntimeError: if the pool is closed.
            TypeError: if a label is no JSON value.
        """
        shares = await asyncio.gather(*(asyncio.wrap_future(future) for future in self._submit(requests)))
        return [verdict for share in shares for verdict in share]

    def _submit(self, requests: Sequence[GradeRequest]) -> list[Future[list[Verdict]]]:
        if self._closed:
            raise RuntimeError("the grader pool is closed; make a new one.")
        lines = [_line(request) for request in requests]
        # Shares small enough that every worker gets one, large enough that passing them on costs little.
        size = min(MAX_SHARE, max(MIN_SHARE, -(-len(lines) // len(self._workers))))
        jobs = [_Job(lines[start : start + size], Future()) for start in range(0, len(lines), size)]
        for job in jobs:
            self._jobs.put(job)
        return [job.future for job in jobs]

    def close(self) -> None:
        """Stop the workers. Requests that still wait get "grader-error". Closing twice is allowed."""
        if self._closed:
            return
        self._closed = True
        for worker in self._workers:
            worker.request_stop()
        for _ in self._workers:
            self._jobs.put(None)
        for worker in self._workers:
            worker.join()

    def __enter__(self) -> GraderPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_algebra() -> None:
    """Find the algebra system before a worker needs it; every answer would come back as a grader error otherwise.

    Raises:
        MissingLibraryError: math-verify or one of its parts is not installed.
    """
    for module, distribution in ALGEBRA.items():
        if importlib.util.find_spec(module) is None:
            raise MissingLibraryError(
                f"{distribution} is not installed, and the graders compare expressions with it: "
                f"pip install 'slime-rl[runtime]', or pip install {distribution}"
            )


def _line(request: GradeRequest) -> bytes:
    metadata = {name: request.metadata[name] for name in METADATA_KEYS if name in request.metadata}
    return json.dumps([request.rm_type, request.response, request.label, metadata]).encode()


class _Worker:
    """One process and the thread that feeds it. Only the thread touches the pipes; `stop` kills and waits."""

    def __init__(self, jobs: queue.SimpleQueue[_Job | None], time_limit: float) -> None:
        self._jobs = jobs
        self._time_limit = time_limit
        self._stopping = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._received = b""
        self._thread = threading.Thread(target=self._run, name="grader-feeder", daemon=True)
        self._thread.start()

    def request_stop(self) -> None:
        """Kill the process and start no other; what waits is answered as closed."""
        with self._lock:
            self._stopping = True
            if self._process is not None:
                self._process.kill()

    def join(self) -> None:
        """Wait for the thread."""
        self._thread.join()

    def _run(self) -> None:
        self._live_process()  # before the first request, so that start-up time hides behind generation
        while (job := self._jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            while len(job.verdicts) < len(job.lines):
                self._grade(job)
            job.future.set_result(job.verdicts)
        self._discard()

    def _grade(self, job: _Job) -> None:
        """Add verdicts until the job is done or the process has ended."""
        lines = job.lines[len(job.verdicts) :]
        process = self._live_process()
        if process is None:
            job.verdicts += [CLOSED] * len(lines)
            return
        try:
            stdin = cast(IO[bytes], process.stdin)
            stdin.write(b"[" + b",".join(lines) + b"]\n")
            stdin.flush()
        except BrokenPipeError:
            pass  # it died a moment ago: reading finds that out and says why
        for _ in lines:
            job.verdicts.append(self._read_verdict(process))
            if self._process is None:
                return

    def _read_verdict(self, process: subprocess.Popen[bytes]) -> Verdict:
        limit = self._time_limit
        while True:
            line = self._read_line(process, limit)
            if line is None:
                self._discard()
                reason = f"no verdict within {limit:g} s; the worker was replaced"
                return replace(Verdict.grader_error(reason), milliseconds=1000 * limit)
            if not line:
                self._discard()
                return CLOSED if self._stopping else Verdict.grader_error(_obituary(process.returncode))
            message = json.loads(line)
            if message[0] == "verdict":
                return Verdict(*message[1:])
            limit = LOADING_SECONDS if message[0] == "loading" else self._time_limit

    def _read_line(self, process: subprocess.Popen[bytes], limit: float) -> bytes | None:
        """The next line; b"" at the end of the stream; None after `limit` seconds of silence."""
        output = cast(IO[bytes], process.stdout)
        while b"\n" not in self._received:
            with selectors.DefaultSelector() as selector:
                selector.register(output, selectors.EVENT_READ)
                if not selector.select(timeout=limit):
                    return None
            chunk = os.read(output.fileno(), CHUNK)
            if not chunk:
                return b""
            self._received += chunk
        line, self._received = self._received.split(b"\n", maxsplit=1)
        return line

    def _live_process(self) -> subprocess.Popen[bytes] | None:
        """The process, started or replaced if it is gone; None once stopping."""
        if self._process is not None and self._process.poll() is not None:
            self._discard()  # ended while idle; no request is to blame
        with self._lock:
            if self._process is None and not self._stopping:
                path = os.pathsep.join(filter(None, [PACKAGE_ROOT, os.environ.get("PYTHONPATH")]))
                self._received = b""
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "slime.rewards.worker", str(self._time_limit)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env={**os.environ, "PYTHONPATH": path},
                )
            return self._process

    def _discard(self) -> None:
        """Kill the process if it lives, reap it, close its pipes."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        cast(IO[bytes], process.stdout).close()
        # Closing flushes what a dead reader never took.
        with contextlib.suppress(BrokenPipeError):
            cast(IO[bytes], process.stdin).close()


def _obituary(code: int) -> str:
    ended = f"signal {-code}" if code < 0 else f"exit status {code}"
    return f"the grading worker ended with {ended}; its own message is on standard error"
