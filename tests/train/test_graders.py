"""Every grader that the tiny model can please, in one run of the whole loop: each row names its own.

`deepscaler` is left out: it reads what follows ``</think>``, which the tiny model never writes; the launcher says so.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slime.config.groups.algorithm import DR_GRPO, MIS
from slime.ports import free_port

from .tiny_run import Experiment, slime

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

ROUNDS, SAMPLES = 2, 8
RECORDER = """
import json

def record(args, groups, data_source):
    with open("graded.jsonl", "a", encoding="utf-8") as file:
        for sample in (sample for group in groups for sample in group):
            row = {"grader": sample.metadata.get("rm_type", args.rm_type), "response": sample.response,
                   "label": sample.label, "reward": sample.reward}
            file.write(json.dumps(row) + chr(10))
"""
ANSWER = re.compile(r"\\boxed\{(0|[1-9]\d?)\}")
"""Answers that need no judgement. What else the model writes is the graders' own tests' business."""

EXPECTED: dict[str, Callable[[str, str], float]] = {
    "math": lambda answer, gold: float(answer == gold),
    "boxed_f1": lambda answer, gold: float(answer == gold),
    "gsm8k": lambda answer, gold: float(answer == gold),
    "dapo": lambda answer, gold: 1.0 if answer == gold else -1.0,
    "boxed_gpqa": lambda answer, gold: float(answer == gold),
    "boxed_multiple_choice": lambda answer, gold: float(answer == gold),
    "ifbench": lambda answer, gold: float(answer[-1] == gold[-1]),
    "remote_rm": lambda answer, gold: int(answer) / 100,
}
"""The reward of an answer, as the grader's definition gives it for plain numbers."""


class Remote(BaseHTTPRequestHandler):
    """A remote grader: a hundredth of the answer."""

    def do_POST(self) -> None:
        """Answer one response."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = ANSWER.search(asked["response"])
        reply = json.dumps(int(found[1]) / 100 if found else 0.0).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *values: Any) -> None:
        """Nothing."""


@pytest.fixture
def remote() -> Iterator[str]:
    """The address of a running remote grader."""
    server = ThreadingHTTPServer(("127.0.0.1", free_port()), Remote)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/grade"
    server.shutdown()
    server.server_close()
    thread.join()


def metadata_of(grader: str, label: str) -> dict[str, Any]:
    """What the grader needs of a row beside its label."""
    if grader == "ifbench":
        return {"instruction_id_list": ["startend:end_checker"], "kwargs": [{"end_phrase": label[-1] + "}"}]}
    if grader in ("boxed_gpqa", "boxed_multiple_choice"):
        return {"choices": [str(int(label) + step) for step in (10, 0, 1, 20)]}
    return {}


def test_each_row_is_graded_by_the_grader_that_it_names(experiment: Experiment, tmp_path: Path, remote: str) -> None:
    problems = [json.loads(line) for line in (experiment.root / "data/train.jsonl").read_text().splitlines()]
    rows = []
    for at, problem in enumerate(problems[: ROUNDS * len(EXPECTED)]):
        grader = list(EXPECTED)[at % len(EXPECTED)]
        # The first grader is that of the run: its rows name none.
        named = {} if at % len(EXPECTED) == 0 else {"rm_type": grader}
        rows.append(problem | {"metadata": named | metadata_of(grader, problem["label"])})
    (tmp_path / "mixed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "recorder.py").write_text(RECORDER, encoding="utf-8")
    save = tmp_path / "save"
    done = slime(
        *experiment.words(
            save,
            load=None,
            prompt_data=tmp_path / "mixed.jsonl",
            rollout_shuffle=None,
            metadata_key="metadata",
            rm_type="math",
            rm_url=remote,
            num_rollout=ROUNDS,
            rollout_batch_size=len(EXPECTED),
            n_samples_per_prompt=SAMPLES,
            rollout_all_samples_process_path="recorder.record",
            # Functions of the runtime's own, by the names that a user gives: Dr.GRPO's average, and MIS.
            custom_pg_loss_reducer_function_path=DR_GRPO,
            use_tis=True,
            custom_tis_function_path=MIS,
        ),
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    graded = [json.loads(line) for line in (tmp_path / "graded.jsonl").read_text(encoding="utf-8").splitlines()]
    graded = graded[-ROUNDS * len(EXPECTED) * SAMPLES :]  # before them, the launcher tried the function
    for grader, expected in EXPECTED.items():
        own = [row for row in graded if row["grader"] == grader]
        assert len(own) == ROUNDS * SAMPLES
        plain = [(found[1], row) for row in own if (found := ANSWER.fullmatch(row["response"]))]
        assert len(plain) > len(own) / 2
        for answer, row in plain:
            assert row["reward"] == pytest.approx(expected(answer, row["label"])), (grader, row)
        assert len({row["reward"] for _, row in plain}) > 1, f"{grader} gave every answer the same"
    rounds = [json.loads(line) for line in (save / "metrics.jsonl").read_text().splitlines()]
    assert len(rounds) == ROUNDS
    for record in rounds:
        assert record.get("rollout/verdict/grader-error", 0.0) == 0
        assert record["train/grad_norm"] > 0
        assert record["train/tis"] == pytest.approx(1, abs=1e-3)  # engine and trainer are both exact here
        assert record["train/rs_reject"] == 0
