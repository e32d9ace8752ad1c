"""RMSNorm for Megatron's layer specs, and the layer that also norms what attention and the MLP return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import TransformerLayer
from torch import Tensor, nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """Root mean square norm over the last axis (Zhang & Sennrich, arXiv:1910.07467), computed in float32.

    Megatron's torch fallback refuses sequence parallelism: gradients of a norm's weight are partial sums then, and must
    be added over the tensor-parallel ranks. The attribute `sequence_parallel` on the weight asks Megatron to do so.
    """

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(hidden_size, dtype=config.params_dtype))
        self.weight.sequence_parallel = config.sequence_parallel

    def forward(self, values: Tensor) -> Tensor:
        """Normed `values`, in their dtype."""
        return functional.rms_norm(values, self.weight.shape, self.weight, self.eps)


class ZeroCentredRMSNorm(RMSNorm):
    """Multiplies by 1 + weight, so that weight decay pulls the scale towards 1 (Qwen3-Next)."""

    def forward(self, values: Tensor) -> Tensor:
        """Normed `values`, in their dtype."""
        normed = functional.rms_norm(values.float(), self.weight.shape, 1.0 + self.weight.float(), self.eps)
        return normed.to(values.dtype)


class LatentRMSNorm(RMSNorm):
    """The norms inside latent attention; transformers leaves their epsilon at 1e-6, whatever the model's is."""

    def __init__(self, config: TransformerConfig, hidden_size: int, eps: float) -> None:
        super().__init__(config, hidden_size, min(eps, 1e-6))


class SandwichLayer(TransformerLayer):
    """A layer that also norms what attention and the MLP return, before the residual is added (GLM-4)."""

    def __init__(self, config: TransformerConfig, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self.post_self_attn_layernorm = RMSNorm(config, config.hidden_size, config.layernorm_epsilon)
        self.post_mlp_layernorm = RMSNorm(config, config.hidden_size, config.layernorm_epsilon)
        self.self_attn_bda = self._normed_add(self.post_self_attn_layernorm)
        self.mlp_bda = self._normed_add(self.post_mlp_layernorm)

    @staticmethod
    def _normed_add(norm: nn.Module) -> Callable[..., Callable[..., Tensor]]:
        """In the place of Megatron's bias-dropout-add; there is no dropout in these models."""

        def add(output_with_bias: tuple[Tensor, Tensor | None], residual: Tensor, probability: float) -> Tensor:
            output, bias = output_with_bias
            normed: Tensor = norm(output if bias is None else output + bias)
            return residual + normed

        return lambda training, fused: add
