"""`bench/rounds.py` reads a metrics file and prints what it measured."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "rounds.py"


@pytest.fixture
def rounds() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rounds", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def record(number: int, seconds: float) -> dict[str, Any]:
    return {
        "round": number,
        "rollout/raw_reward": 0.5 + number / 100,
        "rollout/truncated_ratio": 0.25,
        "train/train_rollout_logprob_abs_diff": 0.00234,
        "train/train_rollout_logprob_abs_diff_max": 0.1,
        "train/grad_norm": 1.5,
        "perf/rollout_time": seconds,
        "perf/train_time": seconds / 10,
        "perf/update_weights_time": 0.02,
    }


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def test_medians_leave_out_the_first_round(
    rounds: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = [{"round": -1, "eval/heldout": 0.4}, {"round": 3, "eval/heldout": 0.6}]
    metrics = write(
        tmp_path / "m.jsonl", [scores[0], *(record(i, s) for i, s in enumerate([9.0, 1.0, 2.0, 3.0])), scores[1]]
    )
    assert rounds.main([str(metrics), "--json", str(tmp_path / "out.json")]) == 0
    summary = json.loads((tmp_path / "out.json").read_text())
    assert [one["round"] for one in summary["rounds"]] == [1, 2, 3, 4]
    assert (summary["median"]["generate s"], summary["max"]["generate s"]) == (2.0, 3.0)
    assert summary["held_out"] == [{"after round": 0, "heldout": 0.4}, {"after round": 4, "heldout": 0.6}]
    lines = capsys.readouterr().out.splitlines()
    titles = ["reward", "mean gap", "max gap", "cut", "grad", "generate s", "train s", "sync s"]
    assert " ".join(lines[0].split()) == " ".join(["round", *titles])
    assert lines[2].split() == ["2", "0.510", "0.00234", "0.1000", "0.250", "1.500", "1.000", "0.100", "0.020"]
    assert lines[-1] == "held-out after round 4: heldout 0.6000"


@pytest.mark.parametrize(("text", "says"), [("", "0 trained round(s)"), ("{broken", "Expecting property name")])
def test_a_useless_file_is_explained(
    rounds: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    metrics = tmp_path / "m.jsonl"
    metrics.write_text(text)
    assert rounds.main([str(metrics)]) == 2
    assert says in capsys.readouterr().err
