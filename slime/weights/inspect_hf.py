"""What a Hugging Face checkpoint is, from its headers alone; damage is described, not raised."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from slime.weights.hf_config import HFConfigError, HFModelConfig, config_from_dict, read_values
from slime.weights.hf_io import INDEX_NAME
from slime.weights.names import compare_hf_tensors
from slime.weights.quantise.formats import Fp8Format, QuantiseError, read_format

Shapes = dict[str, tuple[int, ...]]
SCALES = (".weight_scale", ".weight_scale_inv", ".weight_zero_point", ".weight_shape", ".input_scale")
PACKED = ".weight_packed"


def describe_hf(folder: Path) -> dict[str, Any]:
    """JSON values: family, dimensions, parameters, dtypes, quantisation, shards, missing and surplus tensors.

    ``problems`` lists all that keeps it from being used; empty = healthy.
    """
    problems: list[str] = []
    given: dict[str, Any] = {}
    quantised = None
    config: HFModelConfig | None = None
    try:
        given = read_values(folder)
        quantised = given.pop("quantization_config", None)
        config = config_from_dict(given, "config.json")
    except HFConfigError as error:
        problems.append(str(error))
    shards, shapes, dtypes = _shards(folder, problems)
    shapes = {_logical(name): _whole(name, shape) for name, shape in shapes.items() if not name.endswith(SCALES)}
    # What a damaged shard holds is not known: its tensors are then neither there nor missing.
    whole = all(shard["state"] == "healthy" for shard in shards)
    missing, surplus = _compared(shapes, config if whole else None, problems)
    return {
        "kind": "huggingface",
        "path": str(folder),
        "model_type": given.get("model_type"),
        "dimensions": asdict(config) if config else None,
        "parameters": sum(map(math.prod, shapes.values())),
        "tensors": len(shapes),
        "elements": dict(dtypes),
        "quantisation": _quantisation(quantised, problems),
        "shards": shards,
        "missing": missing,
        "surplus": surplus,
        "problems": problems,
    }


def _shards(folder: Path, problems: list[str]) -> tuple[list[dict[str, Any]], Shapes, Counter[str]]:
    """Every shard with its state, the shapes of all tensors, and the stored elements of each dtype."""
    shards, shapes, dtypes = [], {}, Counter[str]()
    present = {path.name: path for path in sorted(folder.glob("*.safetensors"))}
    for name in sorted(present.keys() | _indexed(folder, problems)):
        state, count = "healthy", 0
        path = present.get(name)
        if path is None:
            state = "missing"
        else:
            try:
                with safe_open(path, framework="pt") as found:
                    for tensor in found.keys():  # noqa: SIM118  # no mapping
                        part = found.get_slice(tensor)
                        shapes[tensor] = tuple(part.get_shape())
                        dtypes[str(part.get_dtype())] += math.prod(shapes[tensor])
                        count += 1
            except (SafetensorError, OSError) as error:
                state = f"damaged or cut off: {error}"
        if state != "healthy":
            problems.append(f"{name} is {state}")
        size = path.stat().st_size if path else 0
        shards.append({"name": name, "bytes": size, "tensors": count, "state": state})
    if not shards:
        problems.append("there are no safetensors files")
    return shards, shapes, dtypes


def _indexed(folder: Path, problems: list[str]) -> set[str]:
    path = folder / INDEX_NAME
    if not path.is_file():
        return set()
    try:
        return set(json.loads(path.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problems.append(f"{INDEX_NAME} is no index of shards: {error!r}")
        return set()


def _logical(name: str) -> str:
    """The weight that a packed tensor stands for."""
    return name.removesuffix(PACKED) + ".weight" if name.endswith(PACKED) else name


def _whole(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-1], shape[-1] * 8) if name.endswith(PACKED) else shape


def _compared(shapes: Shapes, config: HFModelConfig | None, problems: list[str]) -> tuple[list[str], list[str]]:
    if config is None:
        return [], []
    found = compare_hf_tensors(shapes, config)
    for word, names in (("missing", found.missing), ("surplus", found.surplus)):
        problems += [f"{len(names)} tensor(s) {word}"] if names else []
    problems += found.misshapen
    return found.missing, found.surplus


def _quantisation(described: Any, problems: list[str]) -> str | None:
    if not isinstance(described, dict):
        return None
    try:
        found = read_format(described)
    except QuantiseError as error:
        problems.append(str(error))
        return str(described.get("quant_method"))
    if isinstance(found, Fp8Format):
        unit = f"{found.block[0]} x {found.block[1]} block" if found.strategy == "block" else found.strategy
        return f"FP8 E4M3, one scale a {unit}"
    return f"INT4 in groups of {found.group}, {'symmetric' if found.symmetric else 'asymmetric'}"
