"""Which parameters train, how the model is built, and the hooks around the trainer's forward passes."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import planned


@dataclass(frozen=True)
class ModelFlags:
    """The model of the trainer: its provider, its trainable parameters, its hooks."""

    custom_model_provider_path: str | None = planned(
        None,
        "构造模型的函数 (pre_process, post_process, vp_stage) -> model",
        "import path of a function (pre_process, post_process, vp_stage) -> model",
    )
    megatron_config_path: str | None = planned(
        None,
        "按角色（actor、critic）覆盖 Megatron 参数的文件（YAML）",
        "file that overrides Megatron's flags by role, actor or critic (YAML)",
    )
    only_train_params_name_list: tuple[str, ...] | None = planned(
        None,
        "只训练名字匹配这些正则表达式的参数",
        "train only the parameters whose names match one of these regular expressions",
    )
    freeze_params_name_list: tuple[str, ...] | None = planned(
        None,
        "冻结名字匹配这些正则表达式的参数；不能与 --only-train-params-name-list 同用",
        "freeze the parameters whose names match; not together with --only-train-params-name-list",
    )
    custom_megatron_init_path: str | None = planned(
        None, "训练进程初始化后调用的函数 f(args)", "import path of f(args), which runs after the trainer initialises"
    )
    custom_megatron_before_log_prob_hook_path: str | None = planned(
        None,
        "计算对数概率前调用的函数 f(args, model, store_prefix)",
        "import path of f(args, model, store_prefix), which runs before log-probabilities are computed",
    )
    custom_megatron_before_train_step_hook_path: str | None = planned(
        None,
        "每次更新前调用的函数 f(args, rollout_id, step_id, model, optimizer, scheduler)",
        "import path of f(args, rollout_id, step_id, model, optimizer, scheduler), which runs before each step",
    )
    megatron_deepgemm_forward_layers: tuple[int, ...] | None = planned(
        None,
        "前向用 DeepGEMM 块 FP8 的层，与采样端一致",
        "layers whose forward pass uses block FP8 of DeepGEMM, as the sampler does",
        minimum=0,
    )
    megatron_deepgemm_forward_modules: tuple[str, ...] | None = planned(
        None, "这些层中用 DeepGEMM 的模块", "modules of those layers that use DeepGEMM"
    )
    megatron_deepgemm_moe_forward_layers: tuple[int, ...] | None = planned(
        None,
        "专家的前向用 DeepGEMM 块 FP8 的层",
        "layers whose experts use block FP8 of DeepGEMM in the forward pass",
        minimum=0,
    )
    megatron_deepgemm_moe_forward_modules: tuple[str, ...] | None = planned(
        None, "专家中用 DeepGEMM 的模块", "modules of the experts that use DeepGEMM"
    )
