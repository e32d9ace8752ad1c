"""``slime lab``: exit codes, lines, languages, and files written whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slime.experiment import Catalog
from slime.experiment.command import main

ROOT = Path(__file__).parents[2]


def _write(tmp_path: Path, text: str, name: str = "choices.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_clean_experiment_is_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(_write(tmp_path, "model: tiny\n"))]) == 0
    assert "CPU processes: 1 for training" in capsys.readouterr().out


def test_an_error_is_exit_1_with_the_line_of_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, "# my run\nmodel: flash\nlayout: separate\nrollout: 12\n")
    assert main(["check", str(path)]) == 1
    assert f"{path}:4: error E02: " in capsys.readouterr().out
    assert main(["check", str(path), "--lang", "zh"]) == 1
    assert "一个引擎" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: flash\n\nlayot: separate\n", ":3: There is no choice named layot. Nearest: layout."),
        ("model: flash\nnodes: '2'\n", ":2: nodes takes an integer, not text"),
        ("model: glm-5\n", ":1: model has no value glm-5;"),
        ("model: flash\nmodel: tiny\n", ":2: the key model stands twice"),
        ("- a\n- b\n", "this is a list"),
        ("a: [\n", "not valid YAML"),
        ('{"schema": 7, "choices": {}}', ":1: The schema of this experiment.json is 7"),
        ('{"nodes": 1, "nodes": 2}', "the key nodes stands twice"),
        (
            '{\n\t"schema": 2,\n\t"choices": {\n\t\t"node": 3\n\t}\n}',
            ":4: There is no choice named node. Nearest: nodes.",
        ),
        ("x: " + "y" * 300_000, "larger than 262144 bytes"),
    ],
)
def test_unusable_input_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    assert main(["check", str(_write(tmp_path, text))]) == 2
    captured = capsys.readouterr()
    assert says in captured.err and captured.out == ""


def test_an_absent_or_binary_file_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.yaml")]) == 2
    assert "cannot be read: No such file" in capsys.readouterr().err
    binary = tmp_path / "b.yaml"
    binary.write_bytes(b"model: \xff\xfe")
    assert main(["check", str(binary)]) == 2
    assert "byte 7 is not UTF-8" in capsys.readouterr().err


def test_old_exports_are_read_and_retired_keys_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = {"schema": 1, "choices": {"model": "dense", "step": 3}, "model": "GLM-4-9B", "validation": {}}
    path = _write(tmp_path, json.dumps(old, indent=2), "experiment.json")
    assert main(["check", str(path)]) == 0
    assert "experiment.json:5: " in capsys.readouterr().err


def test_an_empty_file_is_the_default_experiment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(_write(tmp_path, "")), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["choices"]["model"] == "glm-4.7-flash"


def test_json_output_carries_findings_lines_and_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--json", str(_write(tmp_path, "pd: true\nprefill: 8\n"))]) == 1
    record = json.loads(capsys.readouterr().out)
    finding = next(one for one in record["findings"] if one["id"] == "E03")
    assert finding["lines"] == {"prefill": 2} and finding["severity"] == "error" and finding["repairs"]
    assert record["accounting"]["prefill_gpus"] == 8
    assert {"flag", "why", "status"} <= set(record["arguments"][0])


def test_render_writes_what_the_engine_gives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], catalog: Catalog
) -> None:
    out = tmp_path / "out"
    assert main(["render", str(_write(tmp_path, "model: tiny\n")), "-o", str(out)]) == 0
    files = catalog.artifacts(catalog.preset("laptop"), catalog.provenance())
    assert sorted(path.name for path in out.iterdir()) == sorted(files)
    for name, text in files.items():
        assert (out / name).read_bytes() == text.encode()
    assert os.access(out / "experiment.sh", os.X_OK)
    capsys.readouterr()
    assert main(["check", str(out / "experiment.json")]) == 0


def test_render_with_errors_keeps_older_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "experiment.sh").write_text("older", encoding="utf-8")
    assert main(["render", str(_write(tmp_path, "pd: true\n")), "-o", str(out), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["written"] == [str(out / "experiment.json")]
    assert (out / "experiment.sh").read_text(encoding="utf-8") == "older"


def test_render_into_a_file_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, "model: tiny\n")
    assert main(["render", str(path), "-o", str(path)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_models_and_schema(capsys: pytest.CaptureFixture[str], catalog: Catalog) -> None:
    assert main(["models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == list(catalog.facts.launch)
    assert {row["id"]: row["planned"] for row in rows}["tiny"] is False
    assert main(["models"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(rows)
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == catalog.schema()


def test_the_module_runs_by_itself(tmp_path: Path) -> None:
    """In its own process, from another folder, without torch."""
    path = _write(tmp_path, "layot: x\n")
    program = (
        "import sys, runpy; sys.modules['torch'] = None; runpy.run_module('slime.experiment', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "check", str(path)],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 2 and f"{path}:1: There is no choice named layot" in done.stderr
