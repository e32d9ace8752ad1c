"""``slime lab link`` and ``compare``, and links where a file of choices is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slime.experiment import Catalog
from slime.experiment.command import main


def _write(tmp_path: Path, name: str, text: str) -> str:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_link_leaves_private_choices_out_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path, "b.yaml", "layout: separate\nsave: /secret/run\n")
    assert main(["link", path]) == 0
    captured = capsys.readouterr()
    assert captured.out == "#lab=1;first;layout=separate\n"
    assert captured.err == "not in the link: save\n"
    assert main(["link", path, "--a", _write(tmp_path, "a.yaml", "model: tiny\n"), "--json"]) == 0
    shared = json.loads(capsys.readouterr().out)
    assert shared == {
        "fragment": "lab=1;first;layout=separate&lab-a=1;laptop",
        "withheld": ["save"],
        "withheld_a": [],
    }


def test_a_link_is_read_wherever_a_file_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], catalog: Catalog
) -> None:
    link = "https://slime.example/index.html#lab=1;laptop"
    assert main(["check", link, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["choices"] == catalog.preset("laptop")
    assert main(["render", link, "-o", str(tmp_path)]) == 0
    assert capsys.readouterr().out.split() == [str(tmp_path / name) for name in ("experiment.sh", "experiment.json")]
    every = (Path(__file__).parents[1] / "corpus" / "links" / "v1-every-choice.yaml").read_text(encoding="utf-8")
    longest = every.split('link: "')[1].split('"')[0]
    assert main(["link", longest]) == 0
    shortest = capsys.readouterr().out.strip()
    assert shortest.startswith("#lab=1;agent;")
    assert catalog.receive(shortest) == catalog.receive(longest)


@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("#lab=1;first;layut=separate", "link: There is no choice named layut. Nearest: layout."),
        ("#lab=1;first;hf=/etc", "hf belongs to one machine"),
        ("lab=9;first", "The link has version 9"),
        ("https://slime.example/#top", "cannot be read: No such file"),
    ],
)
def test_a_link_that_loses_something_is_exit_2(capsys: pytest.CaptureFixture[str], link: str, says: str) -> None:
    assert main(["check", link]) == 2
    captured = capsys.readouterr()
    assert says in captured.err and captured.out == ""


def test_refusals_speak_both_languages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "lab=9;first", "--lang", "zh"]) == 2
    assert "这个链接的版本是 9" in capsys.readouterr().err


def test_a_comparison_shows_what_follows_from_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (
        _write(tmp_path, "a.yaml", "model: glm-4.7-flash\n"),
        _write(tmp_path, "b.yaml", "layout: separate\nschedule: async\n"),
    )
    assert main(["compare", a, b]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[:3] == [
        "Placement:",
        "  layout: Colocated => Disaggregated (follows schedule)",
        "  schedule: Synchronous => Fully async",
    ]
    assert "  - --colocate" in lines
    assert any(line.startswith("only B: note N05: ") for line in lines)
    assert lines[-2] == "Ray: 8 => 16 GPUs"
    assert main(["compare", a, b, "--lang", "zh"]) == 0
    assert "  layout: 同卡 => 分离（随 schedule）" in capsys.readouterr().out.split("\n")
    assert main(["compare", a, a]) == 0
    assert capsys.readouterr().out == "Ray: 8 => 8 GPUs\n"
    assert main(["compare", a, b, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["b"]["ray_gpus"] == 16
