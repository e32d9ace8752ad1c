"""The training step: batch, optimizer, parallel sizes, numerics."""

from __future__ import annotations

from dataclasses import dataclass

from slime.config.flags import flag, planned


@dataclass(frozen=True)
class BatchFlags:
    """How the samples of a round become optimizer steps and micro-batches. Sizes are samples or tokens."""

    global_batch_size: int = flag(
        None,
        "一次优化器更新的样本数，默认为整轮",
        "samples of one optimizer step, by default the whole round",
        minimum=1,
        source="megatron",
    )
    num_steps_per_rollout: int | None = flag(
        None,
        "每轮的更新次数，与 --global-batch-size 二选一",
        "optimizer steps per round, instead of --global-batch-size",
        minimum=1,
    )
    micro_batch_size: int = flag(
        1,
        "固定大小的 micro-batch 的样本数",
        "samples of a micro-batch of fixed size",
        minimum=1,
        source="megatron",
    )
    use_dynamic_batch_size: bool = flag(
        False, "按 token 数装箱 micro-batch", "pack micro-batches by their number of tokens"
    )
    max_tokens_per_gpu: int | None = flag(
        None, "每张 GPU 一个 micro-batch 的最大 token 数", "tokens of one micro-batch on one GPU", minimum=1
    )
    log_probs_max_tokens_per_gpu: int | None = flag(
        None,
        "计算对数概率时每张 GPU 的最大 token 数，默认同 --max-tokens-per-gpu",
        "tokens of one micro-batch on one GPU when log-probabilities are computed, by default --max-tokens-per-gpu",
        minimum=1,
    )
    log_probs_chunk_size: int = flag(
        -1,
        "分块计算对数概率时一块的行数；-1 或 0 为 FP32 logits 不超过 256 MiB 的行数",
        "rows per chunk of the log-probabilities; -1 or 0 means as many as have 256 MiB of FP32 logits",
        minimum=-1,
    )
    data_pad_size_multiplier: int = planned(
        128, "打包后长度补齐到 TP 的多少倍", "packed length is padded to this many times TP", minimum=1
    )
    balance_data: bool = flag(
        False,
        "在数据并行组之间按 FLOPs 平衡计算量，micro-batch 数仍相同",
        "balance the FLOPs of data-parallel ranks, which still have as many micro-batches",
    )
    balance_by_flops: bool = flag(
        False,
        "装箱时也让各 micro-batch 的 FLOPs 相近；包含 --balance-data",
        "also pack micro-batches of similar FLOPs; implies --balance-data",
    )
    recompute_loss_function: bool = flag(
        False,
        "反向时重算词表上的 softmax，只保留模型精度的 logits；分成多块或词表被切分时本来就重算",
        "compute the softmax over the vocabulary again in the backward pass and keep the logits alone, in the model's "
        "precision, as several chunks and a cut vocabulary always do",
    )
    allgather_cp: bool = flag(
        False,
        "上下文并行时每张卡取打包后连续的一段，适合稀疏注意力；默认每条序列首尾两段",
        "with context parallelism each rank has one piece of the packed row, which suits sparse attention; by default "
        "two of each sequence",
    )


@dataclass(frozen=True)
class OptimizerFlags:
    """Adam and its schedule."""

    optimizer: str = flag("adam", "优化器", "optimizer", choices=("adam", "sgd"), only=("adam",), source="megatron")
    lr: float = flag(1e-6, "学习率", "learning rate", above=0, source="megatron")
    min_lr: float = flag(0.0, "学习率下限", "lower limit of the learning rate", minimum=0, source="megatron")
    lr_warmup_iters: int = flag(
        0,
        "学习率线性升高的更新次数",
        "optimizer steps over which the learning rate rises",
        minimum=0,
        source="megatron",
    )
    lr_warmup_fraction: float | None = flag(
        None,
        "学习率线性升高占全部更新的比例，与 --lr-warmup-iters 二选一",
        "fraction of all steps over which the learning rate rises, instead of --lr-warmup-iters",
        minimum=0,
        maximum=1,
        source="megatron",
    )
    lr_warmup_init: float = flag(
        0.0, "学习率升高的起点", "learning rate at which the rise starts", minimum=0, source="megatron"
    )
    lr_decay_iters: int | None = flag(
        None, "学习率衰减的更新次数，默认为全部", "steps of the decay, by default all", minimum=1, source="megatron"
    )
    lr_decay_style: str = flag(
        "constant",
        "学习率的衰减方式",
        "how the learning rate decays",
        choices=("constant", "linear", "cosine", "inverse-square-root", "WSD"),
        not_yet=("WSD",),
        source="megatron",
    )
    weight_decay: float = flag(0.01, "权重衰减", "weight decay", minimum=0, source="megatron")
    start_weight_decay: float | None = flag(
        None, "权重衰减的起点", "weight decay at the first step", minimum=0, source="megatron"
    )
    end_weight_decay: float | None = flag(
        None, "权重衰减的终点", "weight decay at the last step", minimum=0, source="megatron"
    )
    weight_decay_incr_style: str = flag(
        "constant",
        "权重衰减的变化方式",
        "how the weight decay changes",
        choices=("constant", "linear", "cosine"),
        source="megatron",
    )
    adam_beta1: float = flag(0.9, "Adam 的 beta1", "beta1 of Adam", minimum=0, maximum=0.999999, source="megatron")
    adam_beta2: float = flag(0.999, "Adam 的 beta2", "beta2 of Adam", minimum=0, maximum=0.999999, source="megatron")
    adam_eps: float = flag(1e-8, "Adam 的 eps", "eps of Adam", above=0, source="megatron")
    clip_grad: float = flag(
        1.0, "梯度范数上限；0 为不裁剪", "limit of the gradient norm; 0 means none", minimum=0, source="megatron"
    )
    optimizer_cpu_offload: bool = flag(
        False,
        "Adam 的 FP32 权重和矩放在主机内存，由 CPU 更新；在 CPU 上结果逐位不变，尚未在 GPU 上测量",
        "keep Adam's FP32 weights and moments in host memory, where the CPU updates them; the same bits on a CPU, not "
        "measured on a GPU",
        source="megatron",
    )
    optimizer_offload_fraction: float = flag(
        1.0,
        "这样存放的参数的比例，其余留在 GPU 上",
        "fraction of the parameters that are kept so; the others stay on the GPU",
        minimum=0,
        maximum=1,
        source="megatron",
    )
    overlap_cpu_optimizer_d2h_h2d: bool = flag(
        False,
        "CPU 更新一些权重时，传输另一些的梯度和权重",
        "gradients and weights travel while the CPU updates others",
        source="megatron",
    )
    use_precision_aware_optimizer: bool | None = flag(
        None,
        "优化器自己保管主权重和矩，目前都是 FP32；--optimizer-cpu-offload 总是如此，没有它则不支持",
        "the optimizer itself keeps main weights and moments, today in FP32; --optimizer-cpu-offload always does that, "
        "and nothing else can",
        only=(True,),
        source="megatron",
    )
    main_grads_dtype: str = planned(
        "fp32", "主梯度的精度", "precision of the main gradients", choices=("fp32", "bf16"), source="megatron"
    )
    main_params_dtype: str = planned(
        "fp32", "主参数的精度", "precision of the main parameters", choices=("fp32", "fp16"), source="megatron"
    )
    exp_avg_dtype: str = planned(
        "fp32",
        "一阶矩的精度",
        "precision of the first moment",
        choices=("fp32", "fp16", "bf16", "fp8"),
        source="megatron",
    )
    exp_avg_sq_dtype: str = planned(
        "fp32",
        "二阶矩的精度",
        "precision of the second moment",
        choices=("fp32", "fp16", "bf16", "fp8"),
        source="megatron",
    )
    use_distributed_optimizer: bool = flag(
        False,
        "数据并行的各进程分摊优化器状态",
        "data-parallel ranks share the optimizer's state among themselves",
        source="megatron",
    )
    use_stateless_adam: bool = planned(False, "不保存矩的 Adam", "Adam that keeps no moments")
    reset_optimizer_states: bool = planned(False, "每轮清空优化器状态", "clear the optimizer after each round")


@dataclass(frozen=True)
class ParallelFlags:
    """Parallel sizes of the trainer, in GPUs."""

    tensor_model_parallel_size: int = flag(1, "张量并行", "tensor parallelism", minimum=1, source="megatron")
    pipeline_model_parallel_size: int = flag(1, "流水线并行", "pipeline parallelism", minimum=1, source="megatron")
    num_layers_per_virtual_pipeline_stage: int | None = flag(
        None, "每个虚拟流水线阶段的层数", "layers of one virtual pipeline stage", minimum=1, source="megatron"
    )
    num_virtual_stages_per_pipeline_rank: int | None = flag(
        None, "每张卡的虚拟流水线阶段数", "virtual pipeline stages of one rank", minimum=1, source="megatron"
    )
    microbatch_group_size_per_virtual_pipeline_stage: int | None = flag(
        None,
        "虚拟流水线一组的 micro-batch 数",
        "micro-batches that one virtual pipeline stage takes at once",
        minimum=1,
        source="megatron",
    )
    context_parallel_size: int = flag(1, "上下文并行", "context parallelism", minimum=1, source="megatron")
    expert_model_parallel_size: int = flag(1, "专家并行", "expert parallelism", minimum=1, source="megatron")
    expert_tensor_parallel_size: int = flag(
        1, "专家内的张量并行", "tensor parallelism inside experts", minimum=1, source="megatron"
    )
    sequence_parallel: bool = flag(
        False, "序列并行，与张量并行一起用", "sequence parallelism, together with tensor parallelism", source="megatron"
    )
    decoder_first_pipeline_num_layers: int | None = flag(
        None, "第一个流水线阶段的层数", "layers of the first pipeline stage", minimum=1, source="megatron"
    )
    decoder_last_pipeline_num_layers: int | None = flag(
        None, "最后一个流水线阶段的层数", "layers of the last pipeline stage", minimum=1, source="megatron"
    )
    moe_token_dispatcher_type: str | None = planned(
        None,
        "专家之间分发 token 的方式",
        "how tokens travel between experts",
        choices=("allgather", "alltoall", "flex"),
        source="megatron",
    )
    moe_enable_deepep: bool = planned(False, "用 DeepEP 分发 token", "dispatch tokens with DeepEP", source="megatron")


@dataclass(frozen=True)
class NumericsFlags:
    """Precision, dropout, recomputation, attention kernels."""

    attention_dropout: float = flag(
        0.0,
        "注意力 dropout；RL 中必须为 0",
        "dropout of the attention; RL needs 0",
        minimum=0,
        maximum=1,
        only=(0,),
        source="megatron",
    )
    hidden_dropout: float = flag(
        0.0,
        "隐藏层 dropout；RL 中必须为 0",
        "dropout of the hidden states; RL needs 0",
        minimum=0,
        maximum=1,
        only=(0,),
        source="megatron",
    )
    attention_softmax_in_fp32: bool = flag(
        False,
        "softmax 用 FP32；CPU 上本来就是",
        "compute the attention's softmax in FP32, as a CPU does anyway",
        source="megatron",
    )
    accumulate_allreduce_grads_in_fp32: bool = flag(
        True,
        "梯度用 FP32 累加；目前总是如此",
        "accumulate gradients in FP32, which today's trainer always does",
        only=(True,),
        source="megatron",
    )
    attention_backend: str = flag(
        "auto",
        "训练端的注意力实现；目前用 PyTorch 的实现",
        "attention of the trainer; today PyTorch's own",
        choices=("auto", "flash", "fused", "unfused", "local"),
        only=("auto",),
        source="megatron",
    )
    bf16: bool | None = planned(
        None, "训练用 BF16；CPU 上为 FP32", "train in BF16; a CPU trains in FP32", source="megatron"
    )
    fp16: bool = planned(False, "训练用 FP16", "train in FP16", source="megatron")
    fp8_format: str | None = flag(
        None,
        "实验性：线性层的乘法用舍入到 FP8 的操作数；hybrid 的梯度为 E5M2",
        "experimental: linear layers multiply operands rounded to FP8; hybrid has gradients in E5M2",
        choices=("e4m3", "hybrid"),
        source="megatron",
    )
    fp8_recipe: str | None = flag(
        None,
        "FP8 训练的缩放方式：blockwise 按 128 分块，tensorwise 每个操作数一个",
        "scales of FP8 training: blockwise of 128, tensorwise one for an operand",
        choices=("blockwise", "tensorwise", "delayed", "mxfp8"),
        only=("blockwise", "tensorwise"),
        source="megatron",
    )
    fp8_param_gather: bool = planned(False, "参数以 FP8 收集", "gather parameters in FP8", source="megatron")
    first_last_layers_bf16: bool = flag(
        False,
        "FP8 训练时首尾层不舍入",
        "the first and the last layer do not round under FP8 training",
        source="megatron",
    )
    loss_scale: float | None = planned(
        None,
        "FP16 的固定损失缩放；不写则动态",
        "fixed loss scale of FP16; dynamic without it",
        above=0,
        source="megatron",
    )
    initial_loss_scale: float = planned(
        2.0**32, "FP16 动态损失缩放的起点", "first dynamic loss scale of FP16", above=0, source="megatron"
    )
    min_loss_scale: float = planned(
        1.0, "FP16 动态损失缩放的下限", "lower limit of the dynamic loss scale of FP16", above=0, source="megatron"
    )
    loss_scale_window: float = planned(
        1000.0,
        "FP16 损失缩放上调的间隔",
        "steps without overflow after which the loss scale grows",
        above=0,
        source="megatron",
    )
    hysteresis: int = planned(
        2, "FP16 损失缩放下调前容忍的溢出数", "overflows before the loss scale shrinks", minimum=1, source="megatron"
    )
    fp32_residual_connection: bool = planned(False, "残差用 FP32", "residual connections in FP32", source="megatron")
    recompute_granularity: str | None = flag(
        None,
        "激活重计算的范围",
        "what activation recomputation covers",
        choices=("full", "selective"),
        only=("full",),
        source="megatron",
    )
    recompute_method: str | None = flag(
        None,
        "激活重计算的方法",
        "how activations are recomputed",
        choices=("uniform", "block"),
        source="megatron",
    )
    recompute_num_layers: int | None = flag(
        None, "每段重计算的层数", "layers per recomputed block", minimum=1, source="megatron"
    )
    mtp_num_layers: int | None = flag(None, "训练的 MTP 层数", "MTP layers to train", minimum=1, source="megatron")
    enable_mtp_training: bool = flag(False, "训练 MTP 层", "train the MTP layers")
    mtp_loss_scaling_factor: float = flag(
        0.2, "MTP 损失系数", "coefficient of the MTP loss", minimum=0, source="megatron"
    )
    qwen_gdn_backend: str = planned(
        "fla", "Gated DeltaNet 的实现", "kernel of the gated delta net", choices=("fla", "flashqla")
    )
    freeze_indexer: bool = planned(False, "冻结 DSA 的 indexer", "freeze the indexer of DSA")
