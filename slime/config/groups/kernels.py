"""Kernels, fusions and overlap of the trainer. None means what the backend chooses for the device."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import planned


@dataclass(frozen=True)
class KernelFlags:
    """How Megatron computes and communicates; none of these changes the mathematics."""

    transformer_impl: str | None = planned(
        None,
        "Transformer 层的实现",
        "implementation of the transformer layers",
        choices=("local", "transformer_engine"),
        source="megatron",
    )
    overlap_grad_reduce: bool = planned(
        False, "梯度归约与反向传播重叠", "overlap the reduction of gradients with the backward pass", source="megatron"
    )
    overlap_param_gather: bool = planned(
        False, "参数收集与前向传播重叠", "overlap the gathering of parameters with the forward pass", source="megatron"
    )
    tp_comm_overlap: bool = planned(
        False, "张量并行的通信与计算重叠", "overlap the communication of tensor parallelism", source="megatron"
    )
    cp_comm_type: str | None = planned(
        None,
        "上下文并行的通信方式",
        "communication of context parallelism",
        choices=("p2p", "a2a", "allgather", "a2a+p2p"),
        source="megatron",
    )
    gradient_accumulation_fusion: bool | None = planned(
        None, "融合权重梯度的累加", "fuse the accumulation of weight gradients", source="megatron"
    )
    masked_softmax_fusion: bool | None = planned(
        None, "融合掩码与 softmax", "fuse the mask with the softmax", source="megatron"
    )
    rope_fusion: bool | None = planned(None, "融合旋转位置编码", "fuse the rotary embedding", source="megatron")
    check_for_nan_in_loss_and_grad: bool | None = planned(
        None, "损失或梯度出现 NaN 时停止", "stop at NaN in the loss or the gradient", source="megatron"
    )
    recompute_modules: tuple[str, ...] | None = planned(
        None,
        "选择性重计算的模块",
        "modules of selective recomputation",
        choices=("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"),
        source="megatron",
    )
    distribute_saved_activations: bool = planned(
        False, "把保存的激活分散到张量并行各卡", "spread saved activations over tensor-parallel GPUs", source="megatron"
    )
    disable_bf16_reduced_precision_matmul: bool = planned(
        False, "BF16 矩阵乘不用降精度累加", "do not accumulate BF16 products in reduced precision", source="megatron"
    )
    batch_invariant_mode: bool = planned(
        False, "结果与批的组成无关的算子", "kernels whose results do not depend on the batch", source="megatron"
    )
