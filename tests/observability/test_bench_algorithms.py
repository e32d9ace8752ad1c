"""`bench/algorithms.py` sums up runs, draws them, and says which were not made."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("psutil")

from bench import algorithms as bench


def test_the_table_has_means_ranges_and_what_was_not_run() -> None:
    runs = [
        bench.Run("ppo", 0, [(0, 0.4), (10, 0.5), (20, 0.7)], [], [], 60.0),
        bench.Run("ppo", 1, [(0, 0.2), (10, 0.3), (20, 0.4)], [], [], 60.0),
        bench.Run("distillation", 0, [(0, 0.4), (10, 0.6)], [], [0.5, 0.2, 0.125], 60.0),
    ]
    table = bench.table(runs)
    assert "| ppo | 0, 1 | 0.300 | 0.550 | +0.250 (+0.200 to +0.300) |  |" in table
    assert "| distillation | 0 | 0.400 | 0.600 | +0.200 (+0.200 to +0.200) | 0.500 to 0.125 |" in table
    assert "| gspo | not measured | | | | |" in table
    assert "not run" not in table


def test_the_picture_has_a_panel_for_each_algorithm_with_seeds_mean_and_range() -> None:
    runs = [
        bench.Run("ppo", 0, [(0, 0.4), (10, 0.5), (20, 0.6)], [], [], 60.0),
        bench.Run("ppo", 1, [(0, 0.2), (10, 0.3), (20, 0.4)], [], [], 60.0),
    ]
    picture = ElementTree.fromstring(bench.curves(runs))
    panels = [one for one in picture if one.tag.endswith("}g")]
    texts = {panel[0].text: panel[1].text for panel in panels}
    assert list(texts) == list(bench.ALGORITHMS)
    assert texts["ppo"] == "+0.200"
    assert texts["gspo"] == "not measured"
    (ppo,) = [panel for panel in panels if panel[0].text == "ppo"]
    lines = {
        kind: [_points(one) for one in ppo if one.get("class") == kind and one.get("points")]
        for kind in ("seed", "mean", "band")
    }
    assert [len(lines[kind]) for kind in ("seed", "mean", "band")] == [2, 1, 1]
    first, second = lines["seed"]
    for (x, upper), (_, lower), (at, middle) in zip(first, second, lines["mean"][0], strict=True):
        assert at == x
        assert middle == pytest.approx((upper + lower) / 2, abs=0.1)  # pixels have one decimal
    assert lines["band"][0] == [*first, *reversed(second)]
    # The axis runs from 0.2 to 0.6: the least reading lies on its lower end, the largest on its upper one.
    ticks = {one.text: float(one.get("y", "")) - 4 for one in ppo if one.get("class") == "tick"}
    assert second[0][1] == ticks["0.2"]
    assert first[2][1] == ticks["0.6"]


def _points(element: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = [pair.split(",") for pair in element.get("points", "").split()]
    return [(float(x), float(y)) for x, y in pairs]


def test_results_of_other_settings_are_refused(tmp_path: Path) -> None:
    output = tmp_path / "algorithms"
    assert bench.stored_runs(output, 40) == ({}, [])
    run = bench.Run("ppo", 0, [(0, 0.4), (40, 0.5)], [0.4], [], 60.0)
    record = {"rounds": 40, "flags": bench.all_flags(), "runs": [asdict(run)]}
    file = output.with_suffix(".json")
    file.write_text(json.dumps(record), encoding="utf-8")
    assert [(one.algorithm, one.after) for one in bench.stored_runs(output, 40)[1]] == [("ppo", 0.5)]
    with pytest.raises(SystemExit, match=r"40 rounds, now 60.*another --output"):
        bench.stored_runs(output, 60)
    file.write_text(json.dumps(record | {"flags": bench.all_flags() | {"ppo": "--lr 1"}}), encoding="utf-8")
    with pytest.raises(SystemExit, match="flags of ppo"):
        bench.stored_runs(output, 40)
    # Flags of an algorithm without runs may change.
    file.write_text(json.dumps(record | {"flags": bench.all_flags() | {"sft": "--lr 1"}}), encoding="utf-8")
    assert len(bench.stored_runs(output, 40)[1]) == 1


def test_distillation_needs_a_teacher(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="run grpo for seed-0 first"):
        bench.flags_of("distillation", tmp_path / "seed-0")
    assert "--opd-teacher-load" not in bench.flags_of("grpo", tmp_path)
