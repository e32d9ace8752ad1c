"""Virtual pipeline stages: which flags belong together."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule

_STAGES, _LAYERS = "--num-virtual-stages-per-pipeline-rank", "--num-layers-per-virtual-pipeline-stage"
_GROUP, _PIPELINE = "--microbatch-group-size-per-virtual-pipeline-stage", "--pipeline-model-parallel-size"


def check_virtual_stages(config: Config) -> Iterator[Finding]:
    """Virtual stages are said once, belong to a pipeline, and take groups that fill it."""
    stages, layers = config.num_virtual_stages_per_pipeline_rank, config.num_layers_per_virtual_pipeline_stage
    group, size = config.microbatch_group_size_per_virtual_pipeline_stage, config.pipeline_model_parallel_size
    flag = _LAYERS if stages is None else _STAGES
    if stages is None and layers is None:
        if group is not None:
            yield Finding(f"{_GROUP} {group} without virtual stages: there are no groups", f"add {_STAGES}", (_GROUP,))
        return
    if stages is not None and layers is not None:
        yield Finding(
            f"{_STAGES} {stages} and {_LAYERS} {layers} say the same thing in two ways",
            "keep one of them",
            (_STAGES, _LAYERS),
        )
    if size == 1:
        yield Finding(f"{flag} with {_PIPELINE} 1: there is no pipeline", f"drop {flag}", (flag, _PIPELINE))
    if size == 2 and config.device == "cuda":
        yield Finding(
            f"{flag} with {_PIPELINE} 2: the stage before and the stage after are one rank, and Megatron-Core would "
            "take the gradients that it sends over NCCL for activations",
            f"give {_PIPELINE} of at least 3, or drop {flag}",
            (flag, _PIPELINE),
        )
    if group is not None and size > 1 and group < size:
        yield Finding(
            f"{_GROUP} {group} is below {_PIPELINE} {size}: a group would not fill the pipeline",
            f"give at least {size}",
            (_GROUP, _PIPELINE),
        )


RULES = (
    Rule(
        id="virtual-stages",
        title=Text("虚拟流水线阶段与流水线相符", "Virtual stages fit the pipeline"),
        why=Text(
            "每张卡上有几段模型时，micro-batch 成组地轮流经过各段；一组少于流水线的级数，就会有卡空等。"
            "两级流水线里，前一级与后一级是同一张卡，NCCL 只按先后配对消息，会把梯度当成激活。",
            "With several parts of the model on each rank, micro-batches pass them in groups; a group below the number "
            "of stages leaves ranks idle. In a pipeline of two, the stage before and the stage after are one rank, and "
            "NCCL, which pairs messages by their order alone, would take gradients for activations.",
        ),
        cfg=check_virtual_stages,
    ),
)
