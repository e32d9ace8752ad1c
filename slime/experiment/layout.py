"""The picture of where the GPUs go: an integer drawing list, and the same facts in words and as a table.

Both languages and both hosts draw from this list, so the picture of the build and the live one are the same. Samples
flow left to right, weights flow back underneath. GPUs stand one by one up to ``SINGLE_GPUS``, above that node by node
with the count, above ``SINGLE_NODES`` nodes as one box. Class names carry the meaning; shapes repeat it:

=============  ==========================================================
class          meaning
=============  ==========================================================
``pool``       the frame of a pool (``external``: not ours, dotted)
``train``      training, squares
``rollout``    rollout, rounded squares
``prefill``    prefill engines of the rollout pool
``decode``     decode engines of the rollout pool
``shared``     the same GPU trains and generates in turn
``samples``    arrow of samples and queues
``weights``    arrow of weights, labelled with its path
=============  ==========================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slime.experiment.expression import Value
from slime.experiment.tables import State, Tables
from slime.experiment.texts import Text, fill
from slime.experiment.validation import Accounting, accounting

SINGLE_GPUS = 16
SINGLE_NODES = 32
COLUMNS = 8
CELL = 24
GAP = 4
PAD = 12
HEAD = 26
ARROW = 76


@dataclass(frozen=True)
class Shape:
    """One mark: ``rect``, ``round`` (rounded rectangle), ``text`` (baseline start) or ``arrow`` (from x,y by w,h)."""

    shape: Literal["rect", "round", "text", "arrow"]
    cls: str
    x: int
    y: int
    w: int
    h: int
    label: Text | None


@dataclass(frozen=True)
class Row:
    """One line of the table: what, how many GPUs, in which form."""

    what: Text
    gpus: int
    detail: Text


@dataclass(frozen=True)
class Layout:
    """The drawing list with its size in px, a title, a description and the same facts as rows."""

    width: int
    height: int
    title: Text
    description: Text
    shapes: list[Shape]
    table: list[Row]


@dataclass(frozen=True)
class _Section:
    """GPUs of one kind inside a pool."""

    cls: str
    name: Text
    gpus: int


@dataclass
class _Pool:
    cls: str
    name: Text
    sections: list[_Section]
    shapes: list[Shape] = field(default_factory=list)
    width: int = 0
    height: int = 0


LAYOUT_TEXTS: dict[str, Text] = {
    "train": Text("训练", "Training"),
    "rollout": Text("rollout", "Rollout"),
    "shared": Text("训练与 rollout 轮流使用", "Training and rollout take turns"),
    "prefill": Text("prefill", "Prefill"),
    "decode": Text("decode", "Decode"),
    "external": Text("外部引擎", "External engines"),
    "gpu_one": Text("{n} 张 GPU", "{n} GPU"),
    "gpu_many": Text("{n} 张 GPU", "{n} GPUs"),
    "cpu_one": Text("{n} 个 CPU 进程", "{n} CPU process"),
    "cpu_many": Text("{n} 个 CPU 进程", "{n} CPU processes"),
    "engine_one": Text("{n} 个引擎", "{n} engine"),
    "engine_many": Text("{n} 个引擎", "{n} engines"),
    "node_one": Text("{n} 个节点", "{n} node"),
    "node_many": Text("{n} 个节点", "{n} nodes"),
    "pool": Text("{name}：{gpus}", "{name}: {gpus}"),
    "nodes": Text("{nodes} × {size}", "{nodes} × {size}"),
    "nodes_rest": Text("{nodes} × {size}，另加 {rest}", "{nodes} × {size}, plus {rest}"),
    "samples": Text("样本", "samples"),
    "ipc": Text("权重：IPC", "weights: IPC"),
    "memory": Text("权重：共享内存", "weights: shared memory"),
    "nccl": Text("权重：NCCL", "weights: NCCL"),
    "disk": Text("权重：磁盘", "weights: disk"),
    "delta": Text("权重：磁盘增量", "weights: disk, delta"),
    "engines": Text("{engines}，每个用 {size}", "{engines}, {size} each"),
    "parallel": Text("TP {tp} × PP {pp} × CP {cp}，DP {dp}", "TP {tp} × PP {pp} × CP {cp}, DP {dp}"),
    "ray": Text("Ray 预留", "Reserved in Ray"),
    "ray_detail": Text("本作业占用的总数", "what this job takes in all"),
    "title": Text("{display} 的 GPU 布局", "Where the GPUs of {display} go"),
    "colocate": Text(
        "训练与采样轮流使用 {train}，共 {engines}；{path}。Ray 需要 {ray}。",
        "Training and rollout take turns on {train}, with {engines}; {path}. Ray needs {ray}.",
    ),
    "separate": Text(
        "训练用 {train}，采样另用 {rollout}，共 {engines}；{path}。Ray 需要 {ray}。",
        "Training has {train}, rollout has {rollout} of its own, with {engines}; {path}. Ray needs {ray}.",
    ),
    "external_text": Text(
        "训练用 {train}；采样由外部引擎完成，计划 {rollout}，不计入 Ray；{path}。Ray 需要 {ray}。",
        "Training has {train}; engines that someone else runs generate, {rollout} planned, outside Ray; {path}. "
        "Ray needs {ray}.",
    ),
    "pd_text": Text(
        "rollout 池分为 prefill {prefill} 与 decode {decode}。",
        "The rollout pool is split into {prefill} for prefill and {decode} for decode.",
    ),
}
"""Words of the picture, sent to the browser as they are."""


def count_text(number: int, kind: str) -> Text:
    """``8 GPUs``, ``1 engine``: a number with its word; ``kind`` is gpu, cpu, engine or node."""
    return fill(LAYOUT_TEXTS[f"{kind}_one" if number == 1 else f"{kind}_many"], {"n": number})


def layout(tables: Tables, state: State) -> Layout:
    """The picture of ``state``; every state has one, a wrong one too (negative parts count as empty)."""
    names = tables.names(state)
    totals = accounting(names)
    unit = "cpu" if names["device"] == "cpu" else "gpu"
    size = int(str(names["gpus_per_node"]))
    pools = _pools(state, totals)
    for pool in pools:
        _draw_pool(pool, size, unit)
    path = LAYOUT_TEXTS[_weight_path(state, names)]
    width, height, shapes = _place(pools, path)
    return Layout(
        width,
        height,
        fill(LAYOUT_TEXTS["title"], names),
        _describe(state, totals, names, unit, path),
        shapes,
        _table(pools, totals, names, unit, size),
    )


def _weight_path(state: State, names: Mapping[str, Value]) -> str:
    if state["layout"] == "colocate" and state["transport"] == "nccl":
        return "memory" if names["device"] == "cpu" else "ipc"
    return str(state["transport"])


def _pools(state: State, totals: Accounting) -> list[_Pool]:
    """Left to right: who generates, then who trains; one pool when they share."""
    train = _Section("train", LAYOUT_TEXTS["train"], max(totals.train_gpus, 0))
    if state["layout"] == "colocate":
        parts = _parts(totals, "shared", totals.rollout_gpus)
        return [_Pool("pool shared", LAYOUT_TEXTS["shared"], parts)]
    parts = _parts(totals, "rollout", totals.rollout_gpus)
    external = state["layout"] == "external"
    name = LAYOUT_TEXTS["external" if external else "rollout"]
    if external:
        parts = [_Section(f"{part.cls} external", part.name, part.gpus) for part in parts]
    return [
        _Pool("pool external" if external else "pool rollout", name, parts),
        _Pool("pool train", LAYOUT_TEXTS["train"], [train]),
    ]


def _parts(totals: Accounting, cls: str, gpus: int) -> list[_Section]:
    if totals.prefill_gpus <= 0 and totals.decode_gpus <= 0:
        return [_Section(cls, LAYOUT_TEXTS[cls], max(gpus, 0))]
    suffix = " shared" if cls == "shared" else ""
    return [
        _Section(f"prefill{suffix}", LAYOUT_TEXTS["prefill"], max(totals.prefill_gpus, 0)),
        _Section(f"decode{suffix}", LAYOUT_TEXTS["decode"], max(totals.decode_gpus, 0)),
    ]


def _counts(gpus: int, size: int) -> list[int]:
    """GPUs per drawn box: ones, whole nodes (the last may be smaller), or one box for all."""
    if gpus <= SINGLE_GPUS:
        return [1] * gpus
    nodes = (gpus + size - 1) // size
    if nodes > SINGLE_NODES:
        return [gpus]
    return [min(size, gpus - start * size) for start in range(nodes)]


def _draw_pool(pool: _Pool, size: int, unit: str) -> None:
    """Lay the sections under each other, from (0, 0); sets the pool's shapes and size."""
    y = HEAD
    width = COLUMNS * (CELL + GAP) - GAP
    for section in pool.sections:
        label = count_text(section.gpus, unit)
        if len(pool.sections) > 1:
            label = fill(LAYOUT_TEXTS["pool"], {"name": section.name, "gpus": label})
        y += HEAD - GAP
        pool.shapes.append(Shape("text", "section", PAD, y - 2 * GAP, 0, 0, label))
        counts = _counts(section.gpus, size)
        if len(counts) == 1 and counts[0] > SINGLE_GPUS:
            pool.shapes.append(_box(section, PAD, y, width, _node_text(section.gpus, size, unit)))
            y += CELL + GAP
            continue
        for index, count in enumerate(counts):
            x = PAD + index % COLUMNS * (CELL + GAP)
            number = None if section.gpus <= SINGLE_GPUS else Text(str(count), str(count))
            pool.shapes.append(_box(section, x, y + index // COLUMNS * (CELL + GAP), CELL, number))
        y += (len(counts) + COLUMNS - 1) // COLUMNS * (CELL + GAP)
    pool.width = width + 2 * PAD
    pool.height = y + PAD - GAP
    head = [
        Shape("rect", pool.cls, 0, 0, pool.width, pool.height, None),
        Shape("text", "pool-name", PAD, HEAD - GAP, 0, 0, pool.name),
    ]
    pool.shapes = head + pool.shapes


def _box(section: _Section, x: int, y: int, width: int, label: Text | None) -> Shape:
    kind: Literal["rect", "round"] = "rect" if section.cls == "train" else "round"
    return Shape(kind, f"gpu {section.cls}" if label is None else f"node {section.cls}", x, y, width, CELL, label)


def _node_text(gpus: int, size: int, unit: str) -> Text:
    if gpus < size:
        return count_text(gpus, unit)
    key = "nodes" if gpus % size == 0 else "nodes_rest"
    return fill(LAYOUT_TEXTS[key], {"nodes": count_text(gpus // size, "node"), "size": size, "rest": gpus % size})


def _place(pools: list[_Pool], path: Text) -> tuple[int, int, list[Shape]]:
    """Put the pools side by side with the arrows between and underneath; width, height and all shapes."""
    tallest = max(pool.height for pool in pools)
    shapes: list[Shape] = []
    x = PAD
    for index, pool in enumerate(pools):
        shapes += [Shape(s.shape, s.cls, s.x + x, s.y + PAD, s.w, s.h, s.label) for s in pool.shapes]
        x += pool.width
        if index + 1 < len(pools):
            middle = PAD + HEAD + CELL // 2
            shapes.append(Shape("arrow", "arrow samples", x + GAP, middle, ARROW - 2 * GAP, 0, LAYOUT_TEXTS["samples"]))
            x += ARROW
    width = x + PAD
    under = PAD + tallest + HEAD
    first = PAD + pools[0].width // 2
    last = x - pools[-1].width // 2
    if len(pools) == 1:
        first, last = PAD + PAD, x - PAD
    shapes.append(Shape("arrow", "arrow weights", last, under, first - last, 0, path))
    return width, under + PAD, shapes


def _describe(state: State, totals: Accounting, names: Mapping[str, Value], unit: str, path: Text) -> Text:
    key = "external_text" if state["layout"] == "external" else str(state["layout"])
    slots: dict[str, Value | Text] = {
        "train": count_text(totals.train_gpus, unit),
        "rollout": count_text(totals.rollout_gpus, unit),
        "engines": count_text(totals.engines, "engine"),
        "ray": count_text(totals.ray_gpus, unit),
        "prefill": totals.prefill_gpus,
        "decode": totals.decode_gpus,
        "path": path,
    }
    said = fill(LAYOUT_TEXTS[key], slots)
    if totals.prefill_gpus <= 0 and totals.decode_gpus <= 0:
        return said
    split = fill(LAYOUT_TEXTS["pd_text"], slots)
    return Text(said.zh + split.zh, f"{said.en} {split.en}")


def _table(pools: list[_Pool], totals: Accounting, names: Mapping[str, Value], unit: str, size: int) -> list[Row]:
    parallel = fill(LAYOUT_TEXTS["parallel"], names)
    size_text = count_text(int(str(names["engine"])), unit)
    engines = fill(LAYOUT_TEXTS["engines"], {"engines": count_text(totals.engines, "engine"), "size": size_text})
    rows = [Row(LAYOUT_TEXTS["train"], totals.train_gpus, parallel)]
    rows.append(Row(LAYOUT_TEXTS["rollout"], totals.rollout_gpus, engines))
    for pool in pools:
        for section in pool.sections:
            if section.cls.startswith(("prefill", "decode")):
                rows += [Row(section.name, section.gpus, _node_text(section.gpus, size, unit))]
    rows.append(Row(LAYOUT_TEXTS["ray"], totals.ray_gpus, LAYOUT_TEXTS["ray_detail"]))
    return rows
