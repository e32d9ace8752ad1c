"""Graders: how many responses a second, next to bare math-verify in the same run, and what hostile answers do.

    python bench/graders.py --hostile 10000 --output bench/results/graders

writes OUTPUT.json and OUTPUT.md. Throughput: the same honest answers (numbers, fractions, expressions, in many
spellings) go through `math-verify` in this process, through `slime.rewards.grade` in this process, and through the
pool of killable workers; the ratios are what carries over to another machine. Hostile answers: each is made so that no
reading of it is right; counted are verdicts, workers that had to be replaced, and verdicts "correct", of which there
must be none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from slime.rewards import grade  # noqa: E402
from slime.rewards.pool import GradeRequest, GraderPool  # noqa: E402
from slime.rewards.verdict import Verdict  # noqa: E402
from tests.rewards.grader_hostile import hostile  # noqa: E402
from tests.rewards.grader_spellings import Case, boxed, near_misses, random_value, spellings  # noqa: E402

PROMPT = "Let me think about this problem step by step. " * 40


def equal_expressions(rng: random.Random) -> tuple[str, str]:
    """Two writings of one expression, with coefficients that rarely come twice."""
    a, b = rng.randint(2, 99), rng.randint(2, 99)
    return rng.choice(
        [
            (f"(x+{a})(x+{b})", f"x^2+{a + b}x+{a * b}"),
            (rf"\frac{{{a}}}{{\sqrt{{{b}}}}}", rf"\frac{{{a}\sqrt{{{b}}}}}{{{b}}}"),
            (rf"{a}\pi r+{b}", rf"{b}+\pi r\cdot {a}"),
            (rf"\sqrt{{{a * a * b}}}", rf"{a}\sqrt{{{b}}}"),
            (rf"\frac{{x+{a}}}{{{b}}}", rf"\frac{{x}}{{{b}}}+\frac{{{a}}}{{{b}}}"),
        ]
    )


def honest(seed: int, count: int) -> list[tuple[Case, bool]]:
    """Responses with whether they are right: half are, and one in five compares expressions."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        right = bool(number % 2)
        if number % 5 == 0:
            answer, gold = equal_expressions(rng)
            answer = answer if right else f"{answer}+1"
        else:
            value = random_value(rng)
            gold = rng.choice(spellings(value)[:1])
            answer = rng.choice(spellings(value)) if right else rng.choice(near_misses(value, rng))
        found.append((Case("honest", "math", PROMPT + boxed(answer), gold), right))
    return found


def bare_math_verify(cases: Sequence[Case]) -> list[bool]:
    """What many trainers do: parse both sides, verify, without a limit on time."""
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    return [
        bool(
            verify(
                parse(f"${case.gold}$", parsing_timeout=None), parse(case.response, parsing_timeout=None),
                timeout_seconds=None,
            )
        )
        for case in cases
    ]  # fmt: skip


def in_process(cases: Sequence[Case]) -> list[bool]:
    """`slime.rewards.grade`, without workers."""
    return [grade(case.grader, case.response, case.gold).kind == "correct" for case in cases]


def pooled(cases: Sequence[Case], workers: int, time_limit: float) -> list[Verdict]:
    """The pool, its start included in no measurement."""
    requests = [GradeRequest(case.grader, case.response, case.gold, case.metadata or {}) for case in cases]
    with GraderPool(workers, time_limit) as pool:
        asyncio.run(pool.grade([GradeRequest("math", boxed(r"\sqrt{4}"), 2)] * 64 * workers))
        return asyncio.run(pool.grade(requests))


def throughput(count: int, repeats: int, workers: int) -> dict[str, Any]:
    """Medians over `repeats` runs of each way, by turns, so that a busy moment of the machine hits all of them."""
    pairs = honest(1, count)
    cases, right = [case for case, _ in pairs], [truth for _, truth in pairs]
    requests = [GradeRequest(case.grader, case.response, case.gold) for case in cases]
    with GraderPool(workers, 20.0) as pool:

        def through_pool(_: Sequence[Case]) -> list[bool]:
            return [verdict.kind == "correct" for verdict in asyncio.run(pool.grade(requests))]

        ways: dict[str, Callable[[Sequence[Case]], list[bool]]] = {
            "math-verify in process": bare_math_verify,
            "grade in process": in_process,
            f"pool of {workers}": through_pool,
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        wrong: dict[str, int] = {}
        for name, way in ways.items():
            way(cases[:50])  # imports
            wrong[name] = 0
        for _ in range(repeats):
            for name, way in ways.items():
                begin = time.perf_counter()
                verdicts = way(cases)
                seconds[name].append(time.perf_counter() - begin)
                wrong[name] = sum(one != other for one, other in zip(verdicts, right, strict=True))
    rates = {name: count / statistics.median(found) for name, found in seconds.items()}
    base = rates["math-verify in process"]
    return {
        "responses": count,
        "repeats": repeats,
        "ways": {
            name: {"per_second": round(rate, 1), "ratio": round(rate / base, 2), "misjudged": wrong[name]}
            for name, rate in rates.items()
        },
    }


def hostility(count: int, seed: int, workers: int, time_limit: float) -> dict[str, Any]:
    """Verdicts on `count` hostile answers."""
    cases = list(hostile(seed, count))
    begin = time.perf_counter()
    verdicts = pooled(cases, workers, time_limit)
    seconds = time.perf_counter() - begin
    replaced = [verdict for verdict in verdicts if verdict.kind == "grader-error"]
    crashed = [verdict.reason for verdict in replaced if "no verdict within" not in verdict.reason]
    return {
        "answers": count,
        "seed": seed,
        "time_limit": time_limit,
        "seconds": round(seconds, 1),
        "verdicts": dict(Counter(verdict.kind for verdict in verdicts)),
        "wrongly_correct": [
            {"family": case.family, "response": case.response[:200], "gold": str(case.gold)}
            for case, verdict in zip(cases, verdicts, strict=True)
            if verdict.kind == "correct"
        ],
        "over_the_time_limit": len(replaced) - len(crashed),
        "other_grader_errors": crashed,
        "slowest_milliseconds": round(max(verdict.milliseconds for verdict in verdicts), 1),
        "families": dict(Counter(case.family for case in cases)),
    }


def report(result: dict[str, Any]) -> str:
    """The measurement as Markdown."""
    host, speed, attack = result["host"], result["throughput"], result["hostile"]
    rows = [
        f"| {name} | {way['per_second']:.0f} | {way['ratio']:.2f} | {way['misjudged']} |"
        for name, way in speed["ways"].items()
    ]
    verdicts = ", ".join(f"{number} {kind}" for kind, number in sorted(attack["verdicts"].items()))
    return "\n".join(
        [
            "# Graders, measured",
            "",
            f"Python {host['python']}, math-verify {host['math-verify']}, {host['cpus']} CPUs ({host['machine']}), "
            f"other work on the machine: {host['load']} ready processes on average. `python bench/graders.py "
            f"--hostile {attack['answers']}`.",
            "",
            f"{speed['responses']} honest responses of 1.9 kB, median of {speed['repeats']} runs of each way by turns:",
            "",
            "| way | responses a second | ratio | misjudged |",
            "|---|---|---|---|",
            *rows,
            "",
            f"{attack['answers']} hostile answers (seed {attack['seed']}, {len(attack['families'])} families, time "
            f"limit {attack['time_limit']:g} s) in {attack['seconds']} s: {verdicts}. Wrongly correct: "
            f"{len(attack['wrongly_correct'])}. Workers replaced after the time limit: "
            f"{attack['over_the_time_limit']}. Other grader errors: "
            f"{len(attack['other_grader_errors'])}. Slowest verdict: {attack['slowest_milliseconds'] / 1000:.1f} s.",
            "",
        ]
    )


def main() -> int:
    """Exit status: 0 if no hostile answer was taken for correct and no worker crashed, else 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=2000, help="honest responses for the throughput (2000)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each way (5)")
    parser.add_argument("--hostile", type=int, default=10_000, help="hostile answers (10000)")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=5.0, help="seconds for one hostile answer (5)")
    parser.add_argument("--output", type=Path, help="writes OUTPUT.json and OUTPUT.md")
    args = parser.parse_args()
    result = {
        "host": {
            "python": platform.python_version(),
            "math-verify": version("math-verify"),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
        },
        "throughput": throughput(args.responses, args.repeats, args.workers),
        "hostile": hostility(args.hostile, args.seed, args.workers, args.timeout),
    }
    text = report(result)
    print(text)
    if args.output is not None:
        args.output.with_suffix(".json").write_text(
            json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        args.output.with_suffix(".md").write_text(text, encoding="utf-8")
    return 1 if result["hostile"]["wrongly_correct"] or result["hostile"]["other_grader_errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
