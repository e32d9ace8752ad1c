"""`slime grade`: verdicts on rows of a file, one JSON line a row, in the file's order."""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from slime.rewards.gold import GoldError
from slime.rewards.graders import check_label
from slime.rewards.pool import MissingLibraryError
from slime.rewards.rows import Row, read_batches
from slime.rewards.service import GradingService
from slime.rewards.verdict import Verdict

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

PROGRESS_SECONDS = 5.0
REFUSED = "refused-at-load"
JUDGED = ("correct", "wrong", "no-answer")
EXIT_STATUS = (
    "exit status: 0 every row was judged; 1 some could not be (unusable row or gold, grader error); 2 none was; "
    "130 interrupted"
)


def add_parser(subparsers: Subparsers) -> None:
    """Register ``slime grade``."""
    parser = subparsers.add_parser(
        "grade",
        help="grade responses in a file",
        description=(
            "Read rows {id, grader, response, gold} (also metadata and prompt, where a grader reads them), one JSON "
            "object a line, and print for each a JSON line with id, verdict (correct, wrong, no-answer, "
            "refused-at-load, grader-error), score, reason and milliseconds. Progress goes to standard error."
        ),
        epilog=EXIT_STATUS,
    )
    parser.add_argument("file", metavar="FILE.jsonl", help="the rows; - reads standard input")
    parser.add_argument(
        "--workers", type=_workers, default=os.cpu_count() or 1, metavar="N", help="processes that grade (one a CPU)"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=5.0,
        metavar="S",
        help="seconds for one response, then its worker is ended (5)",
    )
    parser.add_argument("--rm-url", metavar="URL", help="address of the remote grader, for rows with remote_rm")
    parser.add_argument("--reward-key", metavar="KEY", help="entry of its reply that is the score (score)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 every row was judged, 1 some could not be, 2 none was judged (the reasons are on stderr)."""
    try:
        service = _service(args)
    except (MissingLibraryError, ValueError) as error:
        print(f"slime grade: {error}", file=sys.stderr)
        return 2
    try:
        with _opened(args.file) as stream:
            return asyncio.run(_Grading(service, args.file, args.workers).run(stream))
    except OSError as error:
        print(f"slime grade: {args.file}: {error.strerror or error}", file=sys.stderr)
        return 2


def _service(args: argparse.Namespace) -> GradingService:
    remote = None
    if args.rm_url is not None:
        from slime.rewards.remote import RemoteOptions

        remote = RemoteOptions(args.rm_url, args.reward_key)
    return GradingService(args.workers, args.timeout, remote)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        yield sys.stdin.buffer
    else:
        with Path(name).open("rb") as stream:
            yield stream


class _Grading:
    """The rows on their way: some batches are graded at once, and verdicts are printed in the order of the rows."""

    def __init__(self, service: GradingService, name: str, workers: int) -> None:
        self._service = service
        self._name = "standard input" if name == "-" else name
        self._in_flight = 2 * workers
        self._counts: collections.Counter[str] = collections.Counter()
        self._began = self._spoke = time.monotonic()

    async def run(self, stream: IO[bytes]) -> int:
        """Grade everything in the stream; returns the exit status."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _interrupted)
        queue: asyncio.Queue[tuple[list[Row], asyncio.Task[list[Verdict]]] | None] = asyncio.Queue(self._in_flight)
        async with self._service, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._print_all(queue))
            batches = read_batches(stream)
            while (batch := await asyncio.to_thread(next, batches, None)) is not None:
                requests = [row.request for row in batch if row.request is not None]
                await queue.put((batch, tasks.create_task(self._service.grade(requests))))
            await queue.put(None)
        self._report("done")
        judged = sum(count for kind, count in self._counts.items() if kind in JUDGED)
        return 2 if not judged else 0 if judged == self._counts.total() else 1

    async def _print_all(self, queue: asyncio.Queue[tuple[list[Row], asyncio.Task[list[Verdict]]] | None]) -> None:
        while (item := await queue.get()) is not None:
            batch, task = item
            try:
                self._print(batch, await task)
            except BrokenPipeError:
                os._exit(0)  # whoever reads the verdicts has read enough

    def _print(self, batch: list[Row], found: list[Verdict]) -> None:
        verdicts = iter(found)
        for row in batch:
            if row.request is None:
                print(f"slime grade: {self._name}:{row.line}: {row.problem}", file=sys.stderr)
                line = _line(row, Verdict.grader_error(f"line {row.line}: {row.problem}"))
            else:
                line = _line(row, next(verdicts))
            self._counts[line["verdict"]] += 1
            sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        if time.monotonic() - self._spoke > PROGRESS_SECONDS:
            self._report("so far")

    def _report(self, state: str) -> None:
        self._spoke = time.monotonic()
        seconds = max(self._spoke - self._began, 1e-3)
        total = sum(self._counts.values())
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._counts.items())) or "nothing to grade"
        rate = f"{total} rows in {seconds:.1f} s, {total / seconds:.0f}/s"
        print(f"slime grade: {state}: {rate}; {kinds}", file=sys.stderr)


def _interrupted() -> None:
    # At once: the thread that reads may wait for input that never comes. Workers end with their input.
    sys.stdout.flush()
    os._exit(130)


def _line(row: Row, verdict: Verdict) -> dict[str, Any]:
    kind, reason = str(verdict.kind), verdict.reason
    if verdict.kind == "grader-error" and row.request is not None:
        try:
            check_label(row.request.rm_type, row.request.label, row.request.metadata)
        except GoldError as error:
            kind, reason = REFUSED, str(error)
    return {
        "id": row.id,
        "verdict": kind,
        "score": verdict.score,
        "reason": reason,
        "milliseconds": round(verdict.milliseconds, 3),
    }


def _workers(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of processes; use 1 to 1024")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no time limit; use a number of seconds above 0, at most 3600")
    return value
