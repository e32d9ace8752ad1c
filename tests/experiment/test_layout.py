"""The picture: every GPU is drawn once, inside the canvas, and the words give the same numbers."""

from __future__ import annotations

from typing import Any

import pytest

from slime.experiment import Catalog
from slime.experiment.layout import Layout

STATES: list[dict[str, Any]] = [
    {},
    {"model": "tiny"},
    {"model": "glm-4-9b", "layout": "separate", "rollout": 12},
    {"model": "glm-4.7", "layout": "separate", "rollout": 72},
    {"model": "glm-5.3", "layout": "external", "rollout": 1000},
    {"model": "glm-5.3", "pd": True},
    {"pd": True},
    {"layout": "separate", "rollout": 20, "prefill": 16, "pd": True, "transport": "delta"},
    {"model": "deepseek-r1", "nodes": 512, "layout": "separate", "rollout": 8192},
]


def _gpus(drawing: Layout) -> int:
    """GPUs in the drawing: one per ``gpu`` mark, the number in each ``node`` mark, the sum in a mark for all."""
    total = 0
    for shape in drawing.shapes:
        kind = shape.cls.split()[0]
        if kind == "gpu":
            total += 1
        elif kind == "node" and shape.label is not None:
            text = shape.label.en
            if text.isdigit():
                total += int(text)
            else:  # "1024 nodes × 8, plus 4"
                nodes, _, rest = text.partition(", plus ")
                count, _, size = nodes.partition(" × ")
                total += int(count.split()[0]) * int(size) + int(rest or 0)
    return total


@pytest.mark.parametrize("choices", STATES, ids=str)
def test_every_gpu_is_drawn_once(catalog: Catalog, choices: dict[str, Any]) -> None:
    state = catalog.sanitise(choices).state
    drawing, totals = catalog.layout(state), catalog.validate(state).accounting
    rollout = max(totals.rollout_gpus, totals.prefill_gpus + totals.decode_gpus)
    own = 0 if state["layout"] == "colocate" else totals.train_gpus
    assert _gpus(drawing) == own + rollout
    for shape in drawing.shapes:
        for low, size, limit in ((shape.x, shape.w, drawing.width), (shape.y, shape.h, drawing.height)):
            assert all(type(value) is int for value in (low, size)) and min(low, low + size) >= 0
            assert max(low, low + size) <= limit
        assert len(shape.cls.split()) >= 1 and shape.shape in ("rect", "round", "text", "arrow")


@pytest.mark.parametrize("choices", STATES, ids=str)
def test_the_table_says_what_the_accounting_says(catalog: Catalog, choices: dict[str, Any]) -> None:
    state = catalog.sanitise(choices).state
    drawing, totals = catalog.layout(state), catalog.validate(state).accounting
    rows = {row.what.en: row.gpus for row in drawing.table}
    assert rows["Training"] == totals.train_gpus and rows["Rollout"] == totals.rollout_gpus
    assert rows["Reserved in Ray"] == totals.ray_gpus
    for text in (drawing.title, drawing.description, *(row.detail for row in drawing.table)):
        assert text.zh and text.en and "{" not in text.zh + text.en
    assert str(totals.ray_gpus) in drawing.description.en


def test_classes_tell_the_pools_apart(catalog: Catalog) -> None:
    def classes(choices: dict[str, Any]) -> set[str]:
        return {name for shape in catalog.layout(catalog.sanitise(choices).state).shapes for name in shape.cls.split()}

    assert {"train", "rollout", "samples", "weights"} <= classes({"layout": "separate"})
    assert "external" in classes({"layout": "external"}) and "external" not in classes({})
    assert {"prefill", "decode"} <= classes({"layout": "separate", "rollout": 16, "pd": True})
    assert "shared" in classes({})


def test_the_weight_path_is_named(catalog: Catalog) -> None:
    def path(choices: dict[str, Any]) -> str:
        shapes = catalog.layout(catalog.sanitise(choices).state).shapes
        (arrow,) = [shape for shape in shapes if shape.cls == "arrow weights"]
        return arrow.label.en if arrow.label else ""

    assert path({}) == "weights: IPC" and path({"model": "tiny"}) == "weights: shared memory"
    assert path({"layout": "separate"}) == "weights: NCCL"
    assert path({"layout": "external", "transport": "delta"}) == "weights: disk, delta"
