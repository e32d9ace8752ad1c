"""The configuration: every group in one frozen dataclass, and the registry read from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from slime.config.flags import Registry, Text, flags_of
from slime.config.groups.algorithm import ICEPOP_NAMES, AlgorithmFlags, CorrectionFlags
from slime.config.groups.checkpoint import CheckpointFlags
from slime.config.groups.cluster import ClusterFlags
from slime.config.groups.data import DataFlags, QueueFlags
from slime.config.groups.debug import DebugFlags
from slime.config.groups.engine import EngineFlags
from slime.config.groups.kernels import KernelFlags
from slime.config.groups.model import ModelFlags
from slime.config.groups.moe import MoeFlags
from slime.config.groups.observability import ObservabilityFlags
from slime.config.groups.rollout import EvaluationFlags, RolloutFlags
from slime.config.groups.serving import ServingFlags
from slime.config.groups.training import BatchFlags, NumericsFlags, OptimizerFlags, ParallelFlags
from slime.config.groups.weights import WeightFlags
from slime.config.import_paths import FULLY_ASYNC, is_named


class EvalDataset(NamedTuple):
    """One held-out set: the name its metrics carry, and its file."""

    name: str
    path: str


@dataclass(frozen=True)
class Config(
    ClusterFlags,
    CheckpointFlags,
    DataFlags,
    QueueFlags,
    RolloutFlags,
    EvaluationFlags,
    AlgorithmFlags,
    CorrectionFlags,
    BatchFlags,
    OptimizerFlags,
    ParallelFlags,
    MoeFlags,
    NumericsFlags,
    KernelFlags,
    ModelFlags,
    ServingFlags,
    EngineFlags,
    WeightFlags,
    ObservabilityFlags,
    DebugFlags,
):
    """A resolved run. Make one with :func:`slime.config.parse_args` or :func:`slime.config.make_config`.

    Both derive what was not given and refuse what cannot run; a Config built directly has neither done.
    ``origins`` says where each value came from: ``command line``, ``FILE:LINE`` or ``derived``; a field without an
    entry has its default.
    """

    origins: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    @property
    def train_gpus(self) -> int:
        """Training GPUs in all (processes on a CPU)."""
        return self.actor_num_nodes * self.actor_num_gpus_per_node

    @property
    def fully_async(self) -> bool:
        """Whether rounds are taken from a queue that fills while training goes on."""
        return is_named(self.rollout_function_path, (FULLY_ASYNC,))

    @property
    def model_parallel_size(self) -> int:
        """GPUs that hold one copy of the model: TP x PP x CP."""
        return self.tensor_model_parallel_size * self.pipeline_model_parallel_size * self.context_parallel_size

    @property
    def data_parallel_size(self) -> int:
        """Copies of the model that train on different samples."""
        return self.train_gpus // self.model_parallel_size

    @property
    def micro_batch_group(self) -> int:
        """Micro-batches that go through a pipeline together: more than one where ranks have several virtual stages."""
        if self.num_virtual_stages_per_pipeline_rank is None and self.num_layers_per_virtual_pipeline_stage is None:
            return 1
        return self.microbatch_group_size_per_virtual_pipeline_stage or self.pipeline_model_parallel_size

    @property
    def samples_per_rollout(self) -> int:
        """Samples of one round."""
        return self.rollout_batch_size * self.n_samples_per_prompt

    @property
    def steps_per_rollout(self) -> int:
        """Optimizer steps of one round."""
        return self.samples_per_rollout // self.global_batch_size

    @property
    def train_iters(self) -> int:
        """Optimizer steps of the whole run."""
        return self.num_rollout * self.samples_per_rollout // self.global_batch_size

    @property
    def num_engines(self) -> int:
        """Serving engines that this run starts itself."""
        return self.rollout_num_gpus // self.rollout_num_gpus_per_engine

    @property
    def correction(self) -> Literal["none", "tis", "icepop"]:
        """The train-inference correction that the flags ask for."""
        if not self.use_tis:
            return "none"
        return "icepop" if is_named(self.custom_tis_function_path, ICEPOP_NAMES) else "tis"

    @property
    def eval_datasets(self) -> tuple[EvalDataset, ...]:
        """The evaluation sets of ``--eval-prompt-data``."""
        given = self.eval_prompt_data or ()
        return tuple(EvalDataset(name, path) for name, path in zip(given[::2], given[1::2], strict=False))


# The groups in the order of the help text: class, id, title.
GROUPS: tuple[tuple[type, str, Text], ...] = (
    (ClusterFlags, "cluster", Text("集群与放置", "Cluster and placement")),
    (CheckpointFlags, "checkpoint", Text("模型与 checkpoint", "Model and checkpoints")),
    (DataFlags, "data", Text("数据与奖励", "Data and rewards")),
    (QueueFlags, "queue", Text("样本传递", "Sample transport")),
    (RolloutFlags, "rollout", Text("采样生成", "Rollout")),
    (EvaluationFlags, "evaluation", Text("独立评估", "Held-out evaluation")),
    (AlgorithmFlags, "algorithm", Text("算法", "Algorithm")),
    (CorrectionFlags, "correction", Text("训推差异修正", "Train-inference corrections")),
    (BatchFlags, "batch", Text("批与装箱", "Batch and packing")),
    (OptimizerFlags, "optimizer", Text("优化器", "Optimizer")),
    (ParallelFlags, "parallel", Text("并行", "Parallelism")),
    (MoeFlags, "moe", Text("专家（MoE）", "Experts (MoE)")),
    (NumericsFlags, "numerics", Text("精度与数值", "Precision and numerics")),
    (KernelFlags, "kernels", Text("算子、融合与重叠", "Kernels, fusions and overlap")),
    (ModelFlags, "model", Text("模型构造与可训练参数", "Model and trainable parameters")),
    (ServingFlags, "serving", Text("推理服务（SGLang）", "Serving (SGLang)")),
    (EngineFlags, "engine", Text("SGLang 的其他参数", "Further arguments of SGLang")),
    (WeightFlags, "weights", Text("权重同步", "Weight synchronisation")),
    (ObservabilityFlags, "observability", Text("指标", "Metrics")),
    (DebugFlags, "debug", Text("转储、调试与 CI", "Dumps, debugging and CI")),
)

GROUP_TITLES: Mapping[str, Text] = {name: title for _, name, title in GROUPS}

REGISTRY = Registry(one for group, name, _ in GROUPS for one in flags_of(group, name))
