"""FP8 training: the products of linear layers from operands rounded to eight bits, forward and backward. Experimental.

Weights, gradients and the optimizer keep their precision; each product rounds its two operands anew, with scales from
the values at hand. For ``y = x W^T`` with ``g = dL/dy`` these are ``x W^T``, ``g W`` and ``g^T x``.

``tensorwise`` has one scale for an operand, and the product itself is the device's FP8 product (torch's
``scaled_mm``). ``blockwise`` is DeepSeek-V3's (arXiv:2412.19437, section 3.3.2): a scale for each 1 x 128 tile of
activations and gradients along the axis that is summed, and for each 128 x 128 block of a weight, which is thereby the
very number that an engine with ``hf-to-fp8 --strategy block`` multiplies by. Its products are computed in the dtype of
the model, so it shows what the rounding does and saves no time.

Which layers: those all of whose tensors ``hf-to-fp8`` quantises, see `slime.weights.quantise.scope`. Megatron's
gated delta net has one input projection, also for the tensors that stay as they are, so all of it stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
from megatron.core.tensor_parallel.mappings import (
    copy_to_tensor_model_parallel_region,
    gather_from_sequence_parallel_region,
)
from torch import Tensor, nn

from slime.weights.dimensions import HFModelConfig
from slime.weights.layouts import Rule
from slime.weights.names import Place
from slime.weights.quantise import fp8
from slime.weights.quantise.scope import KEPT
from slime.weights.tables import rules

BLOCK = 128
"""Columns of a tile, and rows and columns of a weight's block, of ``blockwise``."""

MULTIPLE = 16
"""What the axis that is summed has to be a multiple of in a device's FP8 product, and the columns of the result."""

Kind = Literal["activation", "weight"]
Recipe = Literal["blockwise", "tensorwise"]
Format = Literal["e4m3", "hybrid"]


@dataclass(frozen=True)
class Fp8Settings:
    """How operands are rounded.

    Attributes:
        recipe: --fp8-recipe, see the module.
        format: --fp8-format. ``e4m3``: every operand has 3 bits of mantissa and reaches 448; ``hybrid``: gradients are
            E5M2 instead, with 2 bits and 57,344 (Micikevicius et al., arXiv:2209.05433, section 3).
        first_last_bf16: --first-last-layers-bf16; the first and the last decoder layer are left out.
    """

    recipe: Recipe
    format: Format = "e4m3"
    first_last_bf16: bool = False

    @property
    def gradient(self) -> torch.dtype:
        """What gradients are rounded to."""
        return torch.float8_e5m2 if self.format == "hybrid" else torch.float8_e4m3fn


@dataclass(frozen=True)
class Operand:
    """One side of a product.

    Attributes:
        values: [rows, summed].
        kind: how ``blockwise`` cuts it.
        dtype: what it is rounded to.
    """

    values: Tensor
    kind: Kind = "activation"
    dtype: torch.dtype = torch.float8_e4m3fn


def product(left: Operand, right: Operand, recipe: Recipe) -> Tensor:
    """``left @ right^T`` of the rounded operands, [left's rows, right's rows], in the dtype of `left`'s values.

    Both are summed over their last axis, of one length. An empty axis gives zeros, as a plain product does.
    """
    if 0 in (*left.values.shape, *right.values.shape):
        return left.values @ right.values.t()
    if recipe == "blockwise":
        return _in_blocks(left) @ _in_blocks(right).t()
    rows, columns = left.values.shape[0], right.values.shape[0]
    (a, a_scale), (b, b_scale) = _whole(left, 1), _whole(right, MULTIPLE)
    kind = torch.nn.functional.ScalingType.TensorWise
    result = torch.nn.functional.scaled_mm(a, b.t(), a_scale, kind, b_scale, kind, output_dtype=left.values.dtype)
    return result[:rows, :columns]


def _in_blocks(operand: Operand) -> Tensor:
    """The operand's values after rounding with the scale of each block, in its own dtype."""
    rows = BLOCK if operand.kind == "weight" else 1
    stored, scales = fp8.quantise(operand.values, rows, BLOCK, dtype=operand.dtype)
    return fp8.dequantise(stored, scales, rows, BLOCK).to(operand.values.dtype)


def _whole(operand: Operand, row_multiple: int) -> tuple[Tensor, Tensor]:
    """(the operand in FP8, filled up with zeros to sizes that the product takes; its scale)."""
    rows, columns = operand.values.shape
    stored, scales = fp8.quantise(operand.values, rows, columns, dtype=operand.dtype)
    padding = (0, -columns % MULTIPLE, 0, -rows % row_multiple)
    if any(padding):
        # Only bytes can be padded on every device; a zero byte is zero in both formats.
        stored = torch.nn.functional.pad(stored.view(torch.uint8), padding).view(operand.dtype)
    return stored, scales.reshape(())


class _Linear(torch.autograd.Function):
    """``x W^T`` with the three products of `product`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, settings: Fp8Settings) -> Tensor:
        """[tokens, N] from x [tokens, K] and weight [N, K]."""
        ctx.save_for_backward(x, weight)
        ctx.settings = settings
        return product(Operand(x), Operand(weight, "weight"), settings.recipe)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Gradients of x and of the weight; of those that need one."""
        x, weight = ctx.saved_tensors
        settings: Fp8Settings = ctx.settings
        (gradient,) = gradients
        kind = settings.gradient
        to_x = to_weight = None
        if ctx.needs_input_grad[0]:
            to_x = product(Operand(gradient, dtype=kind), Operand(weight.t(), "weight"), settings.recipe)
        if ctx.needs_input_grad[1]:
            to_weight = product(Operand(gradient.t(), dtype=kind), Operand(x.t()), settings.recipe)
        return to_x, to_weight, None


def linear(x: Tensor, weight: Tensor, settings: Fp8Settings) -> Tensor:
    """[..., N]: x [..., K] times the transposed weight [N, K], rounded forward and backward."""
    flat: Tensor = _Linear.apply(x.reshape(-1, x.shape[-1]), weight, settings)
    return flat.view(*x.shape[:-1], weight.shape[0])


def round_products(
    model: nn.Module, tensors: Mapping[str, Tensor], config: HFModelConfig, place: Place, settings: Fp8Settings
) -> None:
    """Make the linear layers of a rank's model compute in FP8.

    Args:
        tensors: the model's own parameters, by canonical name.
        config: dimensions of the whole model.
        place: what the rank holds of it.
    """
    ends = (0, config.layers - 1) if settings.first_last_bf16 else ()
    held = (rule for rule in rules(config) if place.holds(rule, config))
    names = (place.local_name(rule, config) for rule in held if rule.layer not in ends and _is_quantised(rule))
    chosen = {id(tensors[name]) for name in names if name in tensors}
    for module in model.modules():
        if isinstance(module, ColumnParallelLinear | RowParallelLinear) and id(module.weight) in chosen:
            # Megatron calls this method for its product and the exchange between tensor-parallel ranks around it.
            module._forward_impl = _forward(settings)
        elif isinstance(module, nn.Linear) and id(module.weight) in chosen:  # of a sparse attention's indexer
            module.forward = partial(linear, weight=module.weight, settings=settings)


def _is_quantised(rule: Rule) -> bool:
    """Every tensor that the weight is made of would be quantised in a checkpoint."""
    return all(not KEPT.search(one.name.removesuffix(".weight")) for one in rule.hf)


def _forward(settings: Fp8Settings) -> Callable[..., Tensor]:
    def forward(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        allreduce_dgrad: bool,
        sequence_parallel: bool,
        tp_group: Any,
        **unused: Any,
    ) -> Tensor:
        """As Megatron's product of a parallel layer: the exchange before it, in both directions, then the product."""
        if sequence_parallel:
            input = gather_from_sequence_parallel_region(input, tensor_parallel_output_grad=True, group=tp_group)
        elif allreduce_dgrad:
            input = copy_to_tensor_model_parallel_region(input, group=tp_group)
        output = linear(input, weight, settings)
        return output if bias is None else output + bias

    return forward
