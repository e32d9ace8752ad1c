"""`slime grade`: rows in, one JSON line a row out, in order; unusable rows named by line; nothing kept in memory."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slime.rewards import rows
from slime.rewards.rows import read_batches

CASES = json.loads((Path(__file__).parent / "grader-cases.json").read_text(encoding="utf-8"))


def slime_grade(*words: str, text: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "slime", "grade", *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        env=env,
    )


def lines(found: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in found)


def test_the_golden_cases(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(lines(CASES), encoding="utf-8")
    done = slime_grade(str(file), "--workers", "2", "--timeout", "20")
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["id"], one["verdict"]) for one in verdicts] == [(case["id"], case["verdict"]) for case in CASES]
    assert all(set(one) == {"id", "verdict", "score", "reason", "milliseconds"} for one in verdicts)
    assert all(one["reason"] and one["milliseconds"] >= 0 for one in verdicts)
    assert any(case["verdict"] == "refused-at-load" for case in CASES)
    assert done.returncode == 1  # some could not be judged
    assert f"done: {len(CASES)} rows" in done.stderr
    file.write_text(lines([case for case in CASES if case["verdict"] in ("correct", "wrong", "no-answer")]))
    assert slime_grade(str(file), "--workers", "2", "--timeout", "20").returncode == 0


def test_rows_that_are_unusable_are_named_by_line_and_the_others_are_graded() -> None:
    good = {"id": "a", "grader": "math", "response": r"\boxed{5}", "gold": "5"}
    text = "\n".join(
        [
            json.dumps(good), "", "{not json", "[1, 2]", json.dumps({"id": "b", "grader": "math", "response": "5"}),
            json.dumps(good | {"id": "c", "grader": "maths"}), json.dumps(good | {"id": "d", "response": 5}),
            json.dumps(good | {"id": "e", "metadata": [1]}), json.dumps({"grader": "math", "response": "5", "gold": 5}),
            json.dumps(good)[:-1] + ', "gold": "6"}', json.dumps(good).replace('"5"', "9" * 5000),
        ]
    )  # fmt: skip
    done = slime_grade("-", "--workers", "1", text=text)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["id"] for one in found] == ["a", 3, 4, "b", "c", "d", "e", 9, 10, 11]
    assert [one["verdict"] for one in found] == ["correct", *["grader-error"] * 6, "correct", *["grader-error"] * 2]
    assert done.returncode == 1
    for words in (
        "standard input:3: no JSON", "input:4: a list, not an object; write one object a line",
        "input:5: no key 'gold'", "input:6: 'maths' names no grader; the nearest is 'math'",
        "input:7: 'response' is 5, not a text", "input:8: 'metadata' is [1], not a mapping",
        "input:10: the key 'gold' stands twice", "input:11: no JSON that can be read: a number has too many digits",
    ):  # fmt: skip
        assert words in done.stderr


def test_golds_are_refused_before_anything_is_compared() -> None:
    row = {"id": 1, "grader": "math", "response": r"\boxed{5}", "gold": "x", "metadata": {"answer_type": "int"}}
    done = slime_grade("-", text=lines([row, row | {"gold": None}, row | {"grader": "ifbench", "gold": ""}]))
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["verdict"] for one in found] == ["refused-at-load"] * 3
    assert "is no integer" in found[0]["reason"]
    assert done.returncode == 2  # nothing was judged


def test_what_cannot_be_used_ends_with_status_2(tmp_path: Path) -> None:
    for words, message in (
        ([str(tmp_path / "none.jsonl")], "No such file"), (["-", "--rm-url", "nowhere"], "is no address"),
        (["-", "--workers", "0"], "use 1 to 1024"), (["-", "--timeout", "x"], "above 0, at most 3600"),
        (["-", "--worker", "1"], "--workers"), (["-"], "done: 0 rows"),
    ):  # fmt: skip
        done = slime_grade(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr


def test_a_missing_algebra_system_is_said_at_once(tmp_path: Path) -> None:
    # A package of this name that Python does not find: None in sys.modules is what an import statement trips over.
    code = "import sys; sys.modules['math_verify'] = None; from slime.cli import main\nsys.exit(main(['grade', '-']))"
    done = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("slime grade: math-verify is not installed")
    assert "pip install" in done.stderr


def test_rows_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    row = lines([{"id": 1, "grader": "math", "response": "5", "gold": 5}]).encode()
    stream = io.BytesIO(row * 1000)
    batch = next(read_batches(stream))
    assert len(batch) == rows.BATCH_ROWS
    assert stream.tell() == rows.BATCH_ROWS * len(row)
    monkeypatch.setattr(rows, "MAX_LINE", 100)
    long = row[:-2] + b', "x": "' + b"y" * 500 + b'"}\n'
    found = [one for batch in read_batches(io.BytesIO(row + long + row)) for one in batch]
    assert [one.line for one in found] == [1, 2, 3]
    assert [one.request is None for one in found] == [False, True, False]
    assert "longer than" in found[1].problem


def test_ctrl_c_ends_it_although_input_is_open() -> None:
    words = [sys.executable, "-m", "slime", "grade", "-", "--workers", "1"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"no row\n" * (rows.BATCH_ROWS + 1))
        process.stdin.flush()
        assert b"input:1: no JSON" in process.stderr.readline()  # it is running, and waits for more
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
