"""`bench/algorithms.py` sums up runs, and says which were not made."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("psutil")
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("bench_algorithms", BENCH / "algorithms.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_means_ranges_and_what_was_not_run(bench: ModuleType) -> None:
    runs = [
        bench.Run("ppo", 0, [(0, 0.4), (10, 0.5), (20, 0.7)], [], [], 60.0),
        bench.Run("ppo", 1, [(0, 0.2), (10, 0.3), (20, 0.4)], [], [], 60.0),
        bench.Run("distillation", 0, [(0, 0.4), (10, 0.6)], [], [0.5, 0.2, 0.125], 60.0),
    ]
    table = bench.table(runs)
    assert "| ppo | 0, 1 | 0.300 | 0.475 | +0.175 (+0.150 to +0.200) |  |" in table
    assert "| distillation | 0 | 0.400 | 0.500 | +0.100 (+0.100 to +0.100) | 0.500 to 0.125 |" in table
    assert "| gspo | not run | | | | |" in table
    picture = ElementTree.fromstring(bench.curves(runs))
    assert len([one for one in picture.iter() if one.tag.endswith("polyline")]) == 3


def test_distillation_needs_a_teacher(bench: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="run grpo for seed-0 first"):
        bench.flags_of("distillation", tmp_path / "seed-0")
    assert "--opd-teacher-load" not in bench.flags_of("grpo", tmp_path)
