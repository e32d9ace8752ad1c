"""``--dry-run`` for a terminal: what was set and by whom, who sits where, and the numbers that follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from slime.config.config import GROUP_TITLES, REGISTRY
from slime.config.flags import Flag, value_text

# Columns of the table of devices: heading, key of the entries.
_COLUMNS = (
    ("node", "node"), ("GPU", "gpu"), ("train rank", "train_rank"), ("TP", "tensor_rank"), ("CP", "context_rank"),
    ("DP", "data_rank"), ("PP", "pipeline_rank"), ("EP", "expert_rank"),
)  # fmt: skip


def render_dry_run(document: Mapping[str, Any]) -> str:
    """The document of :func:`slime.config.dry_run.dry_run` as text."""
    on_cpu = document["configuration"]["--device"]["value"] == "cpu"
    lines = ["resolved configuration (what is not listed keeps its default):"]
    for group, flags in REGISTRY.groups().items():
        shown = [one for one in flags if document["configuration"][one.name]["origin"] != "default"]
        if shown:
            lines.append(f"  {GROUP_TITLES[group].en}")
            lines.extend(f"    {_setting(one, document['configuration'][one.name])}" for one in shown)
    lines.append("processes:")
    lines.extend(f"    {_process(item, 'process slot' if on_cpu else 'GPU')}" for item in document["processes"])
    lines.append("process slots:" if on_cpu else "nodes and GPUs:")
    lines.extend(f"    {text}" for text in _device_table(document["devices"]))
    lines.append("derived:")
    for name, value in document["derived"].items():
        text = f"{value['least']} to {value['most']}" if isinstance(value, dict) else str(value)
        lines.append(f"    {name.replace('_', ' ')}: {text}")
    lines.extend(f"warning: {text}" for text in document["warnings"])
    return "\n".join([*lines, *_planned(document["planned"])])


def _planned(messages: Sequence[str]) -> Iterator[str]:
    if messages:
        noun = "setting" if len(messages) == 1 else "settings"
        yield f"not run yet: {len(messages)} {noun}, so this run would be refused"
        yield from (f"    {message.partition(': the runtime')[0]}" for message in messages)


def _setting(one: Flag, entry: Mapping[str, Any]) -> str:
    value = entry["value"]
    text = " ".join(value_text(item) for item in value) if isinstance(value, list) else value_text(value)
    return f"{one.name} {text}    ({entry['origin']})"


def _process(item: Mapping[str, Any], noun: str) -> str:
    share = f", {item['gpus']} {noun}{'s' if item['gpus'] > 1 else ''} each" if item["gpus"] else ""
    return f"{item['count']} x {item['process']}{share}"


def _device_table(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for neighbouring devices of one node with the same engine and the same stage of the pipeline."""
    rows = [
        [*(_span(run, key) for _, key in _COLUMNS), _engine(run)]
        for _, found in groupby(entries, key=lambda one: (one["node"], one["engine"], one["pipeline_rank"]))
        for run in [list(found)]
    ]
    heads = [*(head for head, _ in _COLUMNS), "engine"]
    kept = [index for index in range(len(heads)) if any(row[index] != "-" for row in rows)]
    widths = [max(len(line[index]) for line in [heads, *rows]) for index in kept]
    for line in [heads, *rows]:
        yield "  ".join(line[index].ljust(width) for index, width in zip(kept, widths, strict=True)).rstrip()


def _span(run: Sequence[Mapping[str, Any]], key: str) -> str:
    found = [one[key] for one in run if one[key] is not None]
    if not found:
        return "-"
    low, high = min(found), max(found)
    return str(low) if low == high else f"{low}-{high}"


def _engine(run: Sequence[Mapping[str, Any]]) -> str:
    first = run[0]
    if first["engine"] is None:
        return "-"
    kind = "" if first["engine_kind"] == "regular" else f" ({first['engine_kind']})"
    return f"{first['engine']}{kind}, rank {_span(run, 'engine_rank')}"
