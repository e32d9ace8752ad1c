"""GPUs: training copies, engines, and who stands where."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.errors import ConfigError
from slime.config.flags import Text
from slime.config.rule import Finding, Rule
from slime.config.serving_groups import serving_groups
from slime.config.validate.arithmetic import nearest_divisors, nearest_multiples


def check_world(config: Config) -> Iterator[Finding]:
    """Training GPUs divide into whole copies of the dense model and into whole copies of the experts."""
    world = config.train_gpus
    dense = config.model_parallel_size
    expert = (
        config.expert_tensor_parallel_size * config.expert_model_parallel_size * config.pipeline_model_parallel_size
    )
    for size, product, values in (
        (dense, "TP x PP x CP", _sizes(config, "tensor", "pipeline", "context")),
        (expert, "ETP x EP x PP", _sizes(config, "expert_tensor", "expert", "pipeline")),
    ):
        if world % size:
            yield Finding(
                f"{world} training GPUs do not divide into copies of {product} = {values} = {size} GPUs",
                f"give {nearest_multiples(world, size)} training GPUs, or smaller parallel sizes",
                ("--actor-num-nodes", "--actor-num-gpus-per-node"),
            )


def check_serving_pool(config: Config) -> Iterator[Finding]:
    """Serving GPUs divide into whole engines, and there is at least one of each kind."""
    total, each = config.rollout_num_gpus, config.rollout_num_gpus_per_engine
    flags = ("--rollout-num-gpus", "--rollout-num-gpus-per-engine")
    if config.debug_train_only:
        return
    if total == 0 and not config.rollout_external_engine_addrs:
        yield Finding(
            "--rollout-num-gpus 0 starts no engine, so nothing would generate", f"give at least {each}", flags
        )
    elif total % each:
        yield Finding(
            f"{total} serving GPUs do not divide into engines of {each} GPUs: the last engine would reach beyond the "
            "placement group",
            f"give {nearest_multiples(total, each)} serving GPUs",
            flags,
        )
    if config.prefill_num_servers is not None or config.sglang_config is not None:
        try:
            serving_groups(config)
        except ConfigError as error:
            for problem in error.problems:
                hint = problem.hint or "give the path of a YAML file that describes the groups under the key sglang"
                yield Finding(problem.message, hint, problem.flags or ("--sglang-config",))


def check_split_node(config: Config) -> Iterator[Finding]:
    """Trainer and engines that share a node get different GPUs of it."""
    per_node, width = config.actor_num_gpus_per_node, config.num_gpus_per_node
    if config.device != "cuda":
        return
    if per_node > width:
        yield Finding(
            f"--actor-num-gpus-per-node {per_node} is more than the {width} GPUs that --num-gpus-per-node gives a node",
            f"give --num-gpus-per-node {per_node} if the nodes have that many",
            ("--actor-num-gpus-per-node", "--num-gpus-per-node"),
        )
    both = per_node + config.rollout_num_gpus
    if not config.colocate and config.actor_num_nodes == 1 and per_node < width < both:
        yield Finding(
            f"the trainer takes {per_node} GPUs and the engines {config.rollout_num_gpus}, {both} together, and "
            f"--num-gpus-per-node says that a node has {width}: on one node they would meet on the same GPUs",
            f"give --rollout-num-gpus {width - per_node} to stay on one node; with a second node this is fine",
            ("--num-gpus-per-node", "--rollout-num-gpus"),
            severity="warning",
        )


def check_colocated_engines(config: Config) -> Iterator[Finding]:
    """Colocated engines tile the training GPUs, each inside one node or over whole nodes."""
    each, world, width = config.rollout_num_gpus_per_engine, config.train_gpus, config.actor_num_gpus_per_node
    if not config.colocate:
        return
    flags = ("--colocate", "--rollout-num-gpus-per-engine")
    if world % each:
        yield Finding(
            f"--colocate: engines of {each} GPUs do not tile the {world} training GPUs that they share",
            f"give {nearest_multiples(world, each)} training GPUs, or engines of {nearest_divisors(world, each)}",
            flags,
        )
    elif each % width and width % each:
        yield Finding(
            f"--colocate: an engine of {each} GPUs would lie across the border between two nodes of {width} GPUs",
            f"give {nearest_divisors(width, each)} GPUs an engine, or a multiple of {width}",
            flags,
        )


def check_engine_data_parallel(config: Config) -> Iterator[Finding]:
    """Data parallelism inside an engine is that of its attention, and divides the engine."""
    size, each = config.sglang_dp_size, config.rollout_num_gpus_per_engine
    if size is None or size == 1:
        return
    if not config.sglang_enable_dp_attention:
        yield Finding(
            f"--sglang-dp-size {size} inside one engine means data-parallel attention, which is off",
            "add --sglang-enable-dp-attention; for more copies of the whole model start more engines",
            ("--sglang-dp-size", "--sglang-enable-dp-attention"),
        )
    if each % size:
        yield Finding(
            f"--sglang-dp-size {size} does not divide the {each} GPUs of an engine",
            f"give {nearest_divisors(each, size)}",
            ("--sglang-dp-size", "--rollout-num-gpus-per-engine"),
        )


def _sizes(config: Config, *names: str) -> str:
    endings = {"context": "_parallel_size", "expert_tensor": "_parallel_size"}
    return " x ".join(str(getattr(config, name + endings.get(name, "_model_parallel_size"))) for name in names)


RULES = (
    Rule(
        id="train-world",
        row=1,
        source="slime#1818",
        title=Text("训练 GPU 能分成整份的模型", "Training GPUs divide into whole copies of the model"),
        why=Text(
            "训练 GPU 数必须同时是 TP×PP×CP 和 ETP×EP×PP 的倍数，否则 Megatron 要到 Ray 和镜像都启动之后才会停下。",
            "The training GPUs must be a multiple of TP x PP x CP and of ETP x EP x PP; otherwise Megatron stops, but "
            "only "
            "after Ray and the image are up.",
        ),
        cfg=check_world,
    ),
    Rule(
        id="serving-pool",
        row=8,
        source="slime#1896, slime#1931",
        title=Text("推理 GPU 能分成整个的引擎", "Serving GPUs divide into whole engines"),
        why=Text(
            "引擎要的 GPU 超出 placement group 时，启动引擎只会报一个没有说明的 IndexError。",
            "An engine that reaches beyond the placement group fails at its start with a bare IndexError.",
        ),
        cfg=check_serving_pool,
    ),
    Rule(
        id="split-node",
        row=11,
        source="slime#180",
        title=Text(
            "分用同一节点时，训练与推理的 GPU 不重叠", "On a shared node, trainer and engines have different GPUs"
        ),
        why=Text(
            "--num-gpus-per-node 与实际划分不符时，训练和推理会落到同一批 GPU 上，而另一些 GPU 空着。",
            "When --num-gpus-per-node does not fit the split, trainer and engines meet on some GPUs while others idle.",
        ),
        cfg=check_split_node,
    ),
    Rule(
        id="colocated-engines",
        row=13,
        source="OpenRLHF#760",
        title=Text("同卡的引擎铺满训练 GPU", "Colocated engines tile the training GPUs"),
        why=Text(
            "同卡的引擎与训练进程共用 GPU；除不尽，或者跨越节点边界，就没有合法的摆放。",
            "Colocated engines share the trainer's GPUs; with a remainder, or across a node's border, they have no "
            "place.",
        ),
        cfg=check_colocated_engines,
    ),
    Rule(
        id="engine-data-parallel",
        row=16,
        source="",
        title=Text("引擎内的数据并行需要 DP 注意力", "Data parallelism inside an engine needs DP attention"),
        why=Text(
            "缺少这个开关时，引擎以没有文字的 AssertionError 退出。",
            "Without the switch the engine ends with an AssertionError that has no text.",
        ),
        cfg=check_engine_data_parallel,
    ),
)
