"""The formats of quantised checkpoints: tensors of one weight, and their description in ``config.json``.

Block FP8 is the format of DeepSeek-V3 (``quant_method: fp8``); FP8 of rows and of tensors, and INT4, are formats of
compressed-tensors. SGLang and transformers load all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from slime.weights.quantise import fp8, int4

Strategy = Literal["block", "channel", "tensor"]
Parts = dict[str, Tensor]
"""What stands for one weight: suffix of the tensor's name, after the module's -> tensor."""


class QuantiseError(ValueError):
    """A checkpoint cannot be quantised or read back; the message names tensor or setting, and what is possible."""


@dataclass(frozen=True)
class Fp8Format:
    """FP8 E4M3.

    Attributes:
        block: rows and columns of a block, for strategy ``block``.
        power_of_two: scales are powers of two (UE8M0).
    """

    strategy: Strategy = "block"
    block: tuple[int, int] = (128, 128)
    power_of_two: bool = False

    @property
    def scale_name(self) -> str:
        """Suffix of the scales."""
        return "weight_scale_inv" if self.strategy == "block" else "weight_scale"

    @property
    def part_names(self) -> tuple[str, ...]:
        """Suffixes of all parts."""
        return ("weight", self.scale_name)

    def problem(self, shape: tuple[int, ...]) -> str | None:
        """Every matrix has blocks; the last ones may be cut off."""
        return None

    def size(self, shape: tuple[int, ...], element: int) -> int:
        """Bytes of the parts of a weight of `shape`, about."""
        rows, columns = self._region(shape)
        return shape[0] * shape[1] + 4 * -(-shape[0] // rows) * -(-shape[1] // columns)

    def quantise(self, weight: Tensor) -> Parts:
        """The parts of `weight` [N, K], on its device."""
        rows, columns = self._region(weight.shape)
        stored, scales = fp8.quantise(weight, rows, columns, self.power_of_two)
        return {"weight": stored, self.scale_name: scales[0] if self.strategy == "tensor" else scales}

    def dequantise(self, parts: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """The weight [N, K] in `dtype`.

        Raises:
            QuantiseError: the scales do not fit the weight.
        """
        stored, scales = parts["weight"], parts[self.scale_name]
        if stored.dim() != 2:
            raise QuantiseError(f"the weight has shape {list(stored.shape)}; a matrix is read")
        rows, columns = self._region(stored.shape)
        grid = (-(-stored.shape[0] // rows), -(-stored.shape[1] // columns))
        if scales.numel() != grid[0] * grid[1]:
            raise QuantiseError(
                f"scales of shape {list(scales.shape)}; {self} needs {list(grid)} for {list(stored.shape)}"
            )
        return fp8.dequantise(stored, scales.view(grid), rows, columns).to(dtype).contiguous()

    def config(self, kept: Sequence[str]) -> dict[str, Any]:
        """``quantization_config``; `kept` are the modules that stay as they are."""
        if self.strategy == "block":
            scale_format = {"scale_fmt": "ue8m0"} if self.power_of_two else {}
            return {
                "quant_method": "fp8",
                "fmt": "e4m3",
                "activation_scheme": "dynamic",
                "weight_block_size": list(self.block),
                **scale_format,
                "modules_to_not_convert": list(kept),
            }
        common = {"num_bits": 8, "type": "float", "symmetric": True}
        weights = {**common, "strategy": self.strategy, "dynamic": False, "observer": "minmax"}
        return _compressed("float-quantized", weights, {**common, "strategy": "token", "dynamic": True}, kept)

    def _region(self, shape: Sequence[int]) -> tuple[int, int]:
        """Rows and columns that share a scale."""
        if self.strategy == "block":
            return self.block
        return (1 if self.strategy == "channel" else max(1, shape[0])), max(1, shape[1])


@dataclass(frozen=True)
class Int4Format:
    """INT4 in groups of `group` input channels."""

    group: int = 32
    symmetric: bool = True

    @property
    def part_names(self) -> tuple[str, ...]:
        """Suffixes of all parts."""
        zeros = () if self.symmetric else ("weight_zero_point",)
        return ("weight_packed", "weight_scale", *zeros, "weight_shape")

    def problem(self, shape: tuple[int, ...]) -> str | None:
        """Why a weight of `shape` [N, K] cannot be stored; None when it can."""
        if shape[1] % self.group == 0:
            return None
        legal = [str(size) for size in (256, 128, 64, 32, 16, 8) if shape[1] % size == 0]
        nearest = f"possible: {', '.join(legal)}" if legal else "no group size fits; keep it with --ignore"
        return f"{shape[1]} input channels are {shape[1] / self.group:.2f} groups of {self.group}; {nearest}"

    def size(self, shape: tuple[int, ...], element: int) -> int:
        """Bytes of the parts of a weight of `shape`; `element` bytes a scale."""
        groups = shape[0] * -(-shape[1] // self.group)
        return shape[0] * shape[1] // 2 + groups * element + (0 if self.symmetric else groups // 2) + 16

    def quantise(self, weight: Tensor) -> Parts:
        """The parts of `weight` [N, K], on its device."""
        numbers, scales, zeros = int4.quantise(weight, self.group, self.symmetric)
        parts = {"weight_packed": int4.pack(numbers), "weight_scale": scales}
        if zeros is not None:  # packed along the output axis
            parts["weight_zero_point"] = int4.pack(zeros.t().contiguous()).t().contiguous()
        return {**parts, "weight_shape": torch.tensor(weight.shape)}

    def dequantise(self, parts: Mapping[str, Tensor], dtype: torch.dtype) -> Tensor:
        """The weight [N, K] in `dtype`.

        Raises:
            QuantiseError: packed numbers or scales do not fit the stored shape.
        """
        if parts["weight_shape"].shape != (2,):
            raise QuantiseError(f"weight_shape has shape {list(parts['weight_shape'].shape)}; it must be two numbers")
        rows, columns = (int(size) for size in parts["weight_shape"].tolist())
        packed, scales = parts["weight_packed"], parts["weight_scale"]
        if packed.shape != (rows, -(-columns // int4.PER_WORD)) or scales.shape != (rows, columns // self.group):
            raise QuantiseError(
                f"weight_packed {list(packed.shape)} and weight_scale {list(scales.shape)} do not fit "
                f"[{rows}, {columns}] in groups of {self.group}"
            )
        zeros = None
        if not self.symmetric:
            packed_zeros = parts["weight_zero_point"].shape
            if packed_zeros != (-(-rows // int4.PER_WORD), scales.shape[1]):
                raise QuantiseError(f"weight_zero_point {list(packed_zeros)} does not fit [{rows}, {columns}]")
            zeros = int4.unpack(parts["weight_zero_point"].t().contiguous(), rows).t().contiguous()
        return int4.dequantise(int4.unpack(packed, columns), scales, zeros).to(dtype)

    def config(self, kept: Sequence[str]) -> dict[str, Any]:
        """``quantization_config``; `kept` are the modules that stay as they are."""
        weights = {
            "num_bits": int4.BITS,
            "type": "int",
            "strategy": "group",
            "group_size": self.group,
            "symmetric": self.symmetric,
            "dynamic": False,
            "observer": "minmax",
        }
        return _compressed("pack-quantized", weights, None, kept)


Format = Fp8Format | Int4Format


def _compressed(
    name: str, weights: dict[str, Any], activations: dict[str, Any] | None, kept: Sequence[str]
) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations, "output_activations": None}
    return {
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "format": name,
        "config_groups": {"group_0": group},
        "ignore": list(kept),
    }


def read_format(config: Mapping[str, Any]) -> Format:
    """The format that ``quantization_config`` describes.

    Raises:
        QuantiseError: another format, or settings that are not written here.
    """
    method = config.get("quant_method")
    if method == "fp8":
        if config.get("fmt", "e4m3") != "e4m3":
            raise QuantiseError(f"quantization_config: fmt is {config['fmt']!r}; only 'e4m3' is read.")
        block = config.get("weight_block_size")
        if block is None:
            return Fp8Format("tensor")
        if not (isinstance(block, list) and len(block) == 2 and all(type(size) is int and size > 0 for size in block)):
            raise QuantiseError(f"quantization_config: weight_block_size is {block!r}; it must be two sizes.")
        return Fp8Format("block", (block[0], block[1]), config.get("scale_fmt") == "ue8m0")
    if method == "compressed-tensors":
        return _read_compressed(config)
    raise QuantiseError(f"quantization_config: quant_method is {method!r}; fp8 and compressed-tensors are read.")


def _read_compressed(config: Mapping[str, Any]) -> Format:
    groups = config.get("config_groups")
    only = next(iter(groups.values())) if isinstance(groups, dict) and len(groups) == 1 else None
    if not isinstance(only, dict) or not isinstance(only.get("weights"), dict):
        raise QuantiseError("quantization_config: config_groups must hold exactly one group, which describes weights.")
    weights = only["weights"]
    kind = tuple(weights.get(name) for name in ("num_bits", "type", "strategy"))
    if kind == (4, "int", "group") and config.get("format") == "pack-quantized" and not weights.get("actorder"):
        size = weights.get("group_size")
        if type(size) is not int or size < 1:
            raise QuantiseError(f"quantization_config: group_size is {size!r}; it must be a number of at least 1.")
        return Int4Format(size, bool(weights.get("symmetric", True)))
    if kind[:2] == (8, "float") and kind[2] in ("channel", "tensor"):
        return Fp8Format(kind[2])
    raise QuantiseError(
        f"quantization_config: {config.get('format')} with weights {weights}; read are pack-quantized INT4 in groups "
        "and float-quantized FP8 of channels or tensors."
    )
