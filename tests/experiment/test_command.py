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
from slime.experiment.reading import EXPORT_KEYS

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
        ("model: flash\npd: true\nib: mlx5_0\n", ":2: error E03: "),
        ("straw: true\nmodel: flash\n", ":1: error E17: "),
        ("model: flash\ntask: custom\n", ":2: error E09: "),
    ],
)
def test_a_field_that_is_not_written_points_at_the_choice_that_asks_for_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    path = _write(tmp_path, text)
    assert main(["check", str(path)]) == 1
    assert f"{path}{says}" in capsys.readouterr().out


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
        ('{"nodes": 1, "nodes": 2}', "The key nodes stands twice, again in line 1"),
        (
            '{\n\t"schema": 2,\n\t"choices": {\n\t\t"node": 3\n\t}\n}',
            ":4: There is no choice named node. Nearest: nodes.",
        ),
        ("x: " + "y" * 300_000, "larger than 262144 bytes"),
        ('{"model": "tiny",\n"nodes": 1,\n"nodes": 2}', "The key nodes stands twice, again in line 3"),
        ('{"schema": 2,\n"choises": {"nodes": 2}}', ":2: It has schema and no choices; is choises a misspelling?"),
        ('{"generator": "x",\n"schema": 2}', ":2: It has schema and no choices"),
    ],
)
def test_unusable_input_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str) -> None:
    assert main(["check", str(_write(tmp_path, text))]) == 2
    captured = capsys.readouterr()
    assert says in captured.err and captured.out == ""


@pytest.mark.parametrize(
    ("content", "en", "zh"),
    [
        (None, ": cannot be read: No such file or directory", "：读不到"),
        (b"model: \xff\xfe", ": byte 7 is not UTF-8", "第 7 个字节不是 UTF-8"),
        (b"x" * 300_000, ": larger than 262144 bytes", "超过 262144 字节"),
        (b"model: tiny\nmodel: tiny\n", ":2: the key model stands twice", ":2: 键 model 出现了两次，第一次在第 1 行"),
        (b"a: [", "not valid YAML", "不是合法的 YAML"),
        (b'{"nodes": 1, "nodes": 2}', "stands twice", "第 1 行的键 nodes 出现了两次"),
        (b"nods: 1", "no choice named nods. Nearest: nodes.", "没有名为 nods 的选项。 最接近的是 nodes。"),
    ],
)
def test_unusable_input_speaks_both_languages_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, en: str, zh: str
) -> None:
    path = tmp_path / "choices.yaml"
    if content is not None:
        path.write_bytes(content)
    assert main(["check", str(path)]) == 2
    english = capsys.readouterr()
    assert en in english.err and english.err.startswith(str(path)) and english.out == ""
    assert main(["check", str(path), "--lang", "zh", "--json"]) == 2
    chinese = capsys.readouterr()
    (message,) = json.loads(chinese.out)["unusable"]
    assert zh.removeprefix("：") in message and chinese.err == ""


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_thousands_of_keys_are_refused_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    keys = {f"key{number}": 1 for number in range(12_000 if form == "json" else 300)}
    text = json.dumps(keys) if form == "json" else "".join(f"{key}: 1\n" for key in keys)
    path = _write(tmp_path, text)
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"There are {len(keys)} keys and at most 256 are read" in said


def test_foreign_keys_of_an_export_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, '{"schema": 2,\n "choices": {"model": "tiny"},\n "validaton": {}}')
    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().err == f"{path}:3: validaton is no part of an experiment.json and was not read.\n"


def test_the_format_of_the_export_is_what_the_reader_knows(catalog: Catalog) -> None:
    assert list(catalog.schema()["properties"]) == list(EXPORT_KEYS)


@pytest.mark.parametrize("words", [["check", "a", "b"], ["models", "x"]])
def test_surplus_words_get_the_usage_of_their_command(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"usage: slime lab {words[0]} ")
    assert f"slime lab {words[0]}: error: unexpected: {words[-1]}" in said


def test_the_module_takes_no_abbreviations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", str(_write(tmp_path, "")), "--lan", "zh"])
    assert "unknown flag --lan; the nearest is --lang" in capsys.readouterr().err


def test_old_exports_are_read_and_retired_keys_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = {"schema": 1, "choices": {"model": "dense", "step": 3}, "model": "GLM-4-9B", "validation": {}}
    path = _write(tmp_path, json.dumps(old, indent=2), "experiment.json")
    assert main(["check", str(path)]) == 0
    assert "experiment.json:5: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "", "holds no choices; name at least a model"),
        ("a.yaml", "# later\n", "holds no choices; name at least a model"),
        ("a.json", "{}", "holds no choices; name at least a model"),
        ("a.json", '{"model": "tiny",}', "Line 1 is no JSON"),  # YAML would take it
    ],
)
def test_a_file_without_choices_or_of_bad_json_is_refused(
    name: str, text: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty file is a mistake, not the default experiment."""
    assert main(["check", str(_write(tmp_path, text, name))]) == 2
    assert says in capsys.readouterr().err


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
    assert sorted(path.name for path in out.iterdir()) == sorted([".slime-lab.json", *files])
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
    captured = capsys.readouterr()
    record = json.loads(captured.out)
    assert record["written"] == [str(out / "experiment.json")]
    assert record["stale"] == [str(out / "experiment.sh")]
    assert f"{out / 'experiment.sh'}: is left from an earlier experiment" in captured.err
    assert (out / "experiment.sh").read_text(encoding="utf-8") == "older"


def test_render_names_what_an_earlier_experiment_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    external = "layout: external\ntransport: disk\nendpoints: host:30000\n"
    assert main(["render", str(_write(tmp_path, external)), "-o", str(out)]) == 0
    assert "earlier experiment" not in capsys.readouterr().err
    assert main(["render", str(_write(tmp_path, "model: tiny\n")), "-o", str(out), "--lang", "zh"]) == 0
    said = capsys.readouterr().err
    assert f"{out / 'serving-reference.sh'}: 是更早的一次实验留下的" in said
    assert "experiment.sh: 是更早" not in said


def test_render_into_a_file_is_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, "model: tiny\n")
    assert main(["render", str(path), "-o", str(path)]) == 2
    assert "is a file; name a folder" in capsys.readouterr().err


def test_render_keeps_what_somebody_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own files it replaces; one that was edited, or that another program wrote, only when told to."""
    out = tmp_path / "out"
    first, second = (_write(tmp_path, f"model: tiny\nrounds: {n}\n", f"{n}.yaml") for n in (10, 20))
    assert main(["render", str(first), "-o", str(out)]) == 0
    assert main(["render", str(second), "-o", str(out)]) == 0
    script = out / "experiment.sh"
    assert "--num-rollout 20" in script.read_text(encoding="utf-8")
    edited = script.read_text(encoding="utf-8") + "# mine\n"
    script.write_text(edited, encoding="utf-8")
    for language, words in (("en", "was changed since it was written"), ("zh", "在写出之后被改过")):
        capsys.readouterr()
        assert main(["render", str(first), "-o", str(out), "--lang", language]) == 2
        assert f"{script}: {words}" in capsys.readouterr().err
    assert script.read_text(encoding="utf-8") == edited
    assert json.loads((out / "experiment.json").read_text(encoding="utf-8"))["choices"]["rounds"] == 20
    assert main(["render", str(first), "-o", str(out), "--force"]) == 0
    assert "--num-rollout 10" in script.read_text(encoding="utf-8")
    # A damaged record makes no file ours: the safe side.
    (out / ".slime-lab.json").write_text("{", encoding="utf-8")
    assert main(["render", str(first), "-o", str(out)]) == 0  # what would be written is there already
    (out / ".slime-lab.json").write_text("{", encoding="utf-8")
    assert main(["render", str(second), "-o", str(out)]) == 2


def test_models_and_schema(capsys: pytest.CaptureFixture[str], catalog: Catalog) -> None:
    assert main(["models", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in rows] == list(catalog.facts.launch)
    assert {row["id"]: row["planned"] for row in rows}["tiny"] is False
    for language, runs, planned in (("en", "runs", "planned"), ("zh", "可运行", "计划中")):
        assert main(["models", "--lang", language]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[-1] for line in lines] == [planned if row["planned"] else runs for row in rows]
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


def test_memory_says_what_each_rank_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(_write(tmp_path, "model: tiny\n"))
    assert main(["memory", path]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0].startswith("For planning, not a promise")
    assert "  weights: 1.7 MB  [4 B × parameters]" in lines and "  total: 149.4 MB" in lines
    assert main(["memory", path, "--lang", "zh"]) == 0
    assert "  权重：1.7 MB  [4 B × 参数]" in capsys.readouterr().out
    assert main(["memory", path, "--json"]) == 0
    training = json.loads(capsys.readouterr().out)[0]
    assert training["id"] == "training" and training["rows"][1]["cells"][0]["amount"] == 4 * 426_752
    assert main(["memory", str(_write(tmp_path, "modle: tiny\n"))]) == 2


def test_share_is_another_name_of_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["share", str(_write(tmp_path, "model: tiny\n"))]) == 0
    assert capsys.readouterr().out == "#lab=1;laptop\n"
