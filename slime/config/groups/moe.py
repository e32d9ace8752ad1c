"""Experts in the trainer: routing losses, dispatch, kernels. None means what the model's family prescribes."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import planned


@dataclass(frozen=True)
class MoeFlags:
    """Mixture of experts in Megatron. The number and width of experts come from the checkpoint."""

    moe_router_load_balancing_type: str | None = planned(
        None,
        "专家负载均衡的方式",
        "how the load of experts is balanced",
        choices=("aux_loss", "seq_aux_loss", "global_aux_loss", "sinkhorn", "none"),
        source="megatron",
    )
    moe_aux_loss_coeff: float | None = planned(
        None, "负载均衡损失的系数", "coefficient of the balancing loss", minimum=0, source="megatron"
    )
    moe_z_loss_coeff: float | None = planned(
        None, "路由 z 损失的系数", "coefficient of the router's z loss", minimum=0, source="megatron"
    )
    moe_router_bias_update_rate: float | None = planned(
        None,
        "路由偏置的更新率；RL 中通常为 0",
        "update rate of the router's bias; usually 0 in RL",
        minimum=0,
        source="megatron",
    )
    moe_router_dtype: str | None = planned(
        None, "路由计算的精度", "precision of the router", choices=("fp32", "fp64"), source="megatron"
    )
    moe_grouped_gemm: bool | None = planned(
        None, "把各专家的矩阵乘合成一次", "multiply the matrices of all experts in one call", source="megatron"
    )
    moe_permute_fusion: bool | None = planned(
        None, "融合 token 的重排", "fuse the permutation of tokens", source="megatron"
    )
    moe_shared_expert_overlap: bool = planned(
        False, "共享专家的计算与分发重叠", "overlap shared experts with the dispatch", source="megatron"
    )
    moe_router_force_load_balancing: bool = planned(
        False, "强制均匀路由，只用于测速", "route evenly by force, for measuring speed alone", source="megatron"
    )
    moe_token_drop_policy: str | None = planned(
        None,
        "超出容量时丢弃 token 的方式",
        "which tokens are dropped above the capacity",
        choices=("probs", "position"),
        source="megatron",
    )
    moe_expert_capacity_factor: float | None = planned(
        None,
        "专家容量系数；不写则不丢弃",
        "capacity factor of experts; without it nothing is dropped",
        above=0,
        source="megatron",
    )
