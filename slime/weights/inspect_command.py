"""`slime inspect PATH`: what a checkpoint is, and whether it is whole."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

SHOWN = 8


def add_parser(subparsers: Subparsers) -> None:
    """Register ``slime inspect``."""
    parser = subparsers.add_parser(
        "inspect",
        help="say what a checkpoint is, and whether it is whole",
        description="Describe a Hugging Face checkpoint, a folder of Megatron checkpoints, or one of them, from "
        "headers and indices alone. Status 0: whole; 1: something is missing or damaged; 2: no checkpoint.",
    )
    parser.add_argument("path", type=Path, metavar="PATH", help="folder of the checkpoint")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 whole, 1 something is missing or damaged, 2 no checkpoint."""
    from slime.weights.inspect_hf import describe_hf
    from slime.weights.inspect_megatron import describe_megatron, is_megatron

    folder: Path = args.path
    if folder.is_dir() and is_megatron(folder):
        facts = describe_megatron(folder)
    elif (folder / "config.json").is_file() or any(folder.glob("*.safetensors")):
        facts = describe_hf(folder)
    else:
        what = "holds no checkpoint" if folder.is_dir() else "is no folder"
        print(
            f"slime inspect: {folder} {what}; a Hugging Face checkpoint has config.json, a Megatron one "
            "latest_checkpointed_iteration.txt or .metadata.",
            file=sys.stderr,
        )
        return 2
    print(json.dumps(facts, indent=2) if args.json else "\n".join(_lines(facts)))
    return 1 if facts["problems"] else 0


def _lines(facts: dict[str, Any]) -> list[str]:
    rows = _hf_rows(facts) if facts["kind"] == "huggingface" else _megatron_rows(facts)
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    return [*lines, *(f"problem: {problem}" for problem in facts["problems"])]


def _hf_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = facts["dimensions"] or {}
    shown = ("layers", "hidden", "ffn", "heads", "groups", "head_dim", "vocab")
    shards = facts["shards"]
    rows = [
        ("Hugging Face", facts["path"]),
        ("family", str(facts["model_type"])),
        ("dimensions", ", ".join(f"{name} {sizes[name]}" for name in shown if name in sizes) or "unknown"),
        ("experts", _experts(sizes)),
        ("parameters", f"{facts['parameters']:,} in {facts['tensors']:,} tensors"),
        ("stored", _elements(facts["elements"])),
        ("quantisation", facts["quantisation"] or "none"),
        ("shards", f"{len(shards)}, {sum(one['bytes'] for one in shards):,} bytes"),
    ]
    rows += [(word, _listed(facts[word])) for word in ("missing", "surplus") if facts[word]]
    return [(name, value) for name, value in rows if value]


def _experts(sizes: dict[str, Any]) -> str:
    experts = sizes.get("experts")
    if not experts:
        return ""
    return f"{experts['chosen']} of {experts['count']}, {experts['ffn']} wide, in {len(experts['layers'])} layers"


def _megatron_rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("Megatron", facts["path"])]
    if facts["latest"] is not None:
        rows.append(("latest", str(facts["latest"])))
    for one in facts["checkpoints"]:
        what = "weights alone" if one["step"] is None else f"step {one['step']}"
        optimizer = ", with optimizer" if one["optimizer"] else ""
        ranks = f", written by {one['ranks']} rank(s)" if one["ranks"] else ""
        rows.append((one["name"], f"{one['format']}, {what}{optimizer}{ranks}"))
        if "parameters" in one:
            rows.append(("  parameters", f"{one['parameters']:,} in {one['tensors']:,} tensors"))
            rows.append(("  stored", f"{_elements(one['elements'])}; {one['files']} file(s), {one['bytes']:,} bytes"))
        if one["source"]:
            rows.append(("  converted", f"from {len(one['source']['shards'])} shard(s) of Hugging Face"))
    return rows


def _elements(elements: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {dtype}" for dtype, count in sorted(elements.items(), key=lambda one: -one[1]))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
