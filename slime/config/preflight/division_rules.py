"""The rules about what dimensions are divided into. Their checks are in `divisions`."""

from __future__ import annotations

from slime.config.flags import Text
from slime.config.preflight import divisions
from slime.config.rule import Rule

RULES = (
    Rule(
        id="trainer-heads",
        row=2,
        source="slime#1662",
        title=Text("训练端的张量并行整除注意力头", "The trainer's tensor parallelism divides the heads"),
        why=Text(
            "一个 KV 头不会被拆到两张卡上；Megatron 会在建模型时断言失败，那时集群早已启动。",
            "A key-value head is never split over two GPUs; Megatron asserts that while it builds the model, long "
            "after "
            "the cluster is up.",
        ),
        hf=divisions.check_trainer_heads,
    ),
    Rule(
        id="engine-heads",
        row=3,
        source="sglang#3436, vllm#414, vllm#24004",
        title=Text("引擎的注意力分成整个的头", "The engine's attention splits into whole heads"),
        why=Text(
            "引擎按「每个引擎的 GPU 数 ÷ 引擎内的数据并行」切分注意力；视觉塔的头也要能整除。",
            "An engine splits its attention over its GPUs divided by its data parallelism; the vision tower's heads "
            "have "
            "to divide as well.",
        ),
        hf=divisions.check_engine_heads,
    ),
    Rule(
        id="fp8-blocks",
        row=4,
        source="vllm#48173, vllm#44763, vllm#54178, sglang#3345",
        title=Text("切分后的 MLP 仍是整块的 FP8", "A split MLP is still whole FP8 blocks"),
        why=Text(
            "块量化的权重每 128 行共用一个缩放因子；切分后不是整块，引擎会拒绝加载。",
            "Block-quantised weights share a scale over 128 rows; a share that is no whole block cannot be loaded.",
        ),
        hf=divisions.check_fp8_blocks,
    ),
    Rule(
        id="context-heads",
        row=5,
        source="verl#1226, verl#674",
        title=Text(
            "按头交换的上下文并行整除注意力头", "Context parallelism that trades heads divides the attention heads"
        ),
        why=Text(
            "Ulysses 式的并行（--cp-comm-type a2a）用注意力头换序列片段，除不尽就断言失败或者挂起。"
            "其余方式只切分序列。",
            "Parallelism of the Ulysses kind (--cp-comm-type a2a) trades heads for parts of the sequence, and fails or "
            "hangs when they do not divide. The other kinds split the sequence alone.",
        ),
        hf=divisions.check_context_heads,
    ),
    Rule(
        id="pipeline-layers",
        row=17,
        source="",
        title=Text("流水线的各个阶段层数为整数", "Pipeline stages have whole layers"),
        why=Text(
            "除去单独给出的首尾阶段，其余层要平均分给其余阶段。",
            "Besides a first and last stage that are given, the layers divide evenly among the stages that are left.",
        ),
        hf=divisions.check_pipeline_layers,
    ),
    Rule(
        id="experts",
        row=18,
        source="vllm#52435",
        title=Text("专家并行整除专家数", "Expert parallelism divides the experts"),
        why=Text(
            "训练端和引擎都给每个专家并行的组分配同样多的专家。",
            "Trainer and engine both give each rank of expert parallelism the same number of experts.",
        ),
        hf=divisions.check_experts,
    ),
    Rule(
        id="load-balancing",
        row=61,
        source="slime#795, ROLL#398",
        severity="warning",
        title=Text("MoE 的强化学习不加负载均衡损失", "RL of an MoE model has no load-balancing loss"),
        why=Text(
            "辅助损失让路由偏离采样端的路由，也有运行因此出现 NaN 梯度。",
            "The auxiliary loss moves the router away from the sampler's, and runs have ended in NaN gradients.",
        ),
        hf=divisions.check_load_balancing,
    ),
)
