"""The worker pool against answers that hang, crash or flood: it answers, replaces the worker, and blocks nobody."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from slime.rewards import worker
from slime.rewards.graders import grade
from slime.rewards.pool import GradeRequest, GraderPool
from slime.rewards.verdict import Verdict

# Gets past every limit on the text and keeps SymPy busy for longer than anyone waits.
SLOW = r"\frac{(a+b+c+d)^{99}-1}{a+b+c+d-1}"
SLOW_GOLD = r"\frac{(a+b+c+d)^{99}(a+1)-a-1}{(a+b+c+d-1)(a+1)}"


@pytest.fixture(scope="module")
def pool() -> Iterator[GraderPool]:
    with GraderPool(workers=2, time_limit=20) as pool:
        yield pool


def grade_all(pool: GraderPool, requests: list[GradeRequest]) -> list[Verdict]:
    return asyncio.run(pool.grade(requests))


def numbers(count: int) -> list[GradeRequest]:
    return [GradeRequest("math", rf"\boxed{{{i + (i % 3 == 0)}}}", str(i)) for i in range(count)]


def test_verdicts_come_in_the_order_of_the_requests(pool: GraderPool) -> None:
    requests = [*numbers(500), GradeRequest("math", r"\boxed{\sqrt{16}}", 4), GradeRequest("deepscaler", "5", "5")]
    expected = [grade(request.rm_type, request.response, request.label) for request in requests]
    assert grade_all(pool, requests) == expected
    assert grade_all(pool, []) == []


@pytest.mark.parametrize(
    "answer", ["9**9**9**9", "10**10**10", "(x+y)**99999", "(" * 3000 + "1" + ")" * 3000, "\\boxed{" * 500, "é\ud800"]
)
def test_hostile_answers_are_wrong_and_cost_nothing(pool: GraderPool, answer: str) -> None:
    for gold in (r"\frac{1}{2}", r"\frac{x}{2}"):
        verdict = grade_all(pool, [GradeRequest("math", rf"\boxed{{{answer}}}", gold)])[0]
        assert verdict.kind in ("wrong", "no-answer")


def test_a_hanging_worker_is_replaced_and_its_other_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with GraderPool(workers=1, time_limit=0.5) as pool:
        before, hang, after = GradeRequest("math", "5", "5"), GradeRequest("math", "hang", "5"), numbers(30)
        grade_all(pool, numbers(1))
        worker_that_hangs(pool, monkeypatch)
        verdicts = grade_all(pool, [before, hang, *after])
    assert verdicts[0].kind == "correct"
    assert (verdicts[1].kind, verdicts[1].reason) == (
        "grader-error",
        "no verdict within 0.5 s; the worker was replaced",
    )
    assert verdicts[2:] == [grade("math", request.response, request.label) for request in after]


def worker_that_hangs(pool: GraderPool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers from now on stop for good at the response "hang", as a library caught in a loop does."""
    started = subprocess.Popen
    code = (
        "import sys, time; from slime.rewards import worker; real = worker.grade\n"
        "def grade(rm_type, response, *rest, **more):\n"
        "    if response == 'hang':\n"
        "        time.sleep(1000)\n"
        "    if response == 'die':\n"
        "        import os; os._exit(7)\n"
        "    return real(rm_type, response, *rest, **more)\n"
        "worker.grade = grade; worker.Server(float(sys.argv[1])).serve()"
    )

    def start(arguments: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return started([arguments[0], "-c", code, arguments[-1]], **options)

    monkeypatch.setattr("slime.rewards.pool.subprocess.Popen", start)
    for feeder in pool._workers:
        process = feeder._process
        if process is not None:
            process.kill()
            process.wait()


def test_a_dying_worker_says_how_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with GraderPool(workers=1, time_limit=20) as pool:
        grade_all(pool, numbers(1))
        worker_that_hangs(pool, monkeypatch)
        verdicts = grade_all(pool, [GradeRequest("math", "die", "5"), GradeRequest("math", "5", "5")])
    assert [verdict.kind for verdict in verdicts] == ["grader-error", "correct"]
    assert "exit status 7" in verdicts[0].reason


def test_the_real_algebra_system_is_stopped_at_the_limit() -> None:
    with GraderPool(workers=1, time_limit=1.0) as pool:
        verdicts = grade_all(
            pool,
            [
                GradeRequest("math", rf"\boxed{{{SLOW}}}", SLOW_GOLD),
                GradeRequest("math", r"\boxed{\sqrt{4}}", 2),
            ],
        )
    assert (verdicts[0].kind, verdicts[0].reason) == ("grader-error", "no verdict within 1 s; the worker was replaced")
    assert verdicts[1].kind == "correct"


def test_a_worker_killed_while_idle_blames_no_request() -> None:
    with GraderPool(workers=1) as pool:
        assert grade_all(pool, numbers(1))[0].kind == "wrong"
        process = pool._workers[0]._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert grade_all(pool, numbers(2))[1].kind == "correct"


def test_the_loop_runs_on_while_a_worker_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ticks(pool: GraderPool) -> int:
        grading = asyncio.create_task(pool.grade([GradeRequest("math", "hang", "5")]))
        count = 0
        while not grading.done():
            await asyncio.sleep(0.01)
            count += 1
        assert (await grading)[0].kind == "grader-error"
        return count

    with GraderPool(workers=1, time_limit=0.5) as pool:
        grade_all(pool, numbers(1))
        worker_that_hangs(pool, monkeypatch)
        assert asyncio.run(ticks(pool)) > 5


def test_closing_answers_what_waits_and_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = GraderPool(workers=1, time_limit=60)
    grade_all(pool, numbers(1))
    worker_that_hangs(pool, monkeypatch)

    async def close_midway() -> str:
        grading = asyncio.create_task(pool.grade([GradeRequest("math", "hang", "5")] * 40))
        await asyncio.sleep(0.2)
        await asyncio.to_thread(pool.close)
        return {verdict.reason for verdict in await grading}.pop()

    assert asyncio.run(close_midway()) == "the grader pool was closed"
    assert pool._workers[0]._process is None
    pool.close()
    with pytest.raises(RuntimeError, match="closed"):
        grade_all(pool, numbers(1))


def test_a_label_that_cannot_cross_is_refused_where_it_is_given(pool: GraderPool) -> None:
    with pytest.raises(TypeError):
        grade_all(pool, [GradeRequest("math", "5", object())])
    assert grade_all(pool, [GradeRequest("math", "5", [5])])[0].kind == "grader-error"


def test_a_worker_without_a_parent_ends_itself() -> None:
    line = json.dumps([["math", "5", "5", {}]]).encode() + b"\n"
    done = subprocess.run([sys.executable, "-m", worker.__name__, "5"], input=line, capture_output=True, timeout=60)
    assert json.loads(done.stdout)[:3] == ["verdict", "correct", 1.0]
    assert done.returncode == 0


def test_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="workers is 0"):
        GraderPool(0)
    with pytest.raises(ValueError, match="time_limit is 0"):
        GraderPool(1, 0)
