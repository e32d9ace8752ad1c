"""The registry: complete, consistent, and honest about what runs."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from dataclasses import dataclass

import pytest

from slime.config import GROUP_TITLES, REGISTRY, Config
from slime.config.flags import Registry, flag, flags_of, planned, value_text
from slime.config.refused import REFUSED

# Every flag that a generated shell can contain, by hand from the description of the earlier lab's exporter.
EXPORTED = [
    "actor-num-nodes",
    "actor-num-gpus-per-node",
    "colocate",
    "rollout-external-engine-addrs",
    "rollout-num-gpus",
    "hf-checkpoint",
    "ref-load",
    "save",
    "save-interval",
    "prompt-data",
    "input-key",
    "label-key",
    "apply-chat-template",
    "rollout-shuffle",
    "rm-type",
    "custom-generate-function-path",
    "custom-rm-path",
    "num-rollout",
    "rollout-batch-size",
    "n-samples-per-prompt",
    "global-batch-size",
    "rollout-max-response-len",
    "rollout-temperature",
    "rollout-top-p",
    "rollout-top-k",
    "rollout-function-path",
    "skip-eval-before-train",
    "rollout-data-transport",
    "rollout-data-dir",
    "rollout-queue-run-id",
    "rollout-storage-profile",
    "rollout-storage-declaration",
    "partial-rollout",
    "over-sampling-batch-size",
    "mask-offpolicy-in-partial-rollout",
    "sglang-server-concurrency",
    "advantage-estimator",
    "kl-coef",
    "entropy-coef",
    "use-score-centering",
    "score-centering-top-k",
    "pg-loss-type",
    "disable-grpo-std-normalization",
    "calculate-per-token-loss",
    "eps-clip",
    "eps-clip-high",
    "use-tis",
    "tis-clip-low",
    "tis-clip",
    "custom-tis-function-path",
    "use-rollout-routing-replay",
    "deterministic-mode",
    "tensor-model-parallel-size",
    "sequence-parallel",
    "pipeline-model-parallel-size",
    "context-parallel-size",
    "expert-model-parallel-size",
    "expert-tensor-parallel-size",
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "data-pad-size-multiplier",
    "log-probs-chunk-size",
    "recompute-granularity",
    "recompute-method",
    "recompute-num-layers",
    "use-dynamic-batch-size",
    "max-tokens-per-gpu",
    "optimizer",
    "lr",
    "lr-decay-style",
    "weight-decay",
    "adam-beta1",
    "adam-beta2",
    "optimizer-cpu-offload",
    "overlap-cpu-optimizer-d2h-h2d",
    "use-precision-aware-optimizer",
    "fp8-format",
    "fp8-recipe",
    "attention-dropout",
    "hidden-dropout",
    "accumulate-allreduce-grads-in-fp32",
    "attention-softmax-in-fp32",
    "attention-backend",
    "moe-token-dispatcher-type",
    "moe-enable-deepep",
    "sglang-config",
    "update-weight-mode",
    "update-weight-transport",
    "update-weight-disk-dir",
    "update-weight-local-checkpoint-dir",
    "rollout-num-gpus-per-engine",
    "sglang-mem-fraction-static",
    "sglang-enable-dp-attention",
    "sglang-dp-size",
    "sglang-enable-dp-lm-head",
    "sglang-moe-dense-tp-size",
    "sglang-ep-size",
    "sglang-mamba-radix-cache-strategy",
    "sglang-mamba-ssm-dtype",
    "sglang-mamba-full-memory-ratio",
    "sglang-moe-a2a-backend",
    "sglang-deepep-mode",
    "sglang-page-size",
    "sglang-dsa-decode-backend",
    "sglang-dsa-prefill-backend",
    "sglang-attention-backend",
    "sglang-disable-overlap-schedule",
    "sglang-kv-cache-dtype",
    "sglang-speculative-algorithm",
    "sglang-speculative-num-steps",
    "sglang-speculative-eagle-topk",
    "sglang-speculative-num-draft-tokens",
    "sglang-speculative-draft-model-path",
    "sglang-speculative-draft-attention-backend",
    "sglang-enable-deterministic-inference",
    "sglang-enable-hierarchical-cache",
    "sglang-hicache-ratio",
    "sglang-disaggregation-transfer-backend",
    "sglang-disaggregation-ib-device",
]


@pytest.mark.parametrize("name", EXPORTED)
def test_a_flag_of_a_generated_shell_is_registered(name: str) -> None:
    assert "--" + name in REGISTRY


def test_every_field_is_a_flag_and_every_flag_a_field() -> None:
    fields = {field.name for field in dataclasses.fields(Config)} - {"origins"}
    assert fields == {one.field for one in REGISTRY.values()}
    assert all(REGISTRY.by_field(one.field) is one for one in REGISTRY.values())


@pytest.mark.parametrize("group", GROUP_TITLES)
def test_every_flag_describes_itself(group: str) -> None:
    for one in REGISTRY.groups()[group]:
        assert any("一" <= letter <= "鿿" for letter in one.help.zh), one.name
        assert one.help.en.isascii(), one.name
        assert one.help["zh"] == one.help.zh
        assert one.since, one.name
        if one.default is not None:
            assert isinstance(one.default, tuple if one.many else one.type), f"{one.name}: the default has its type"
            if one.runs:
                assert not one.planned(value_text(one.default)), f"{one.name}: what runs includes the default"
        if one.choices is not None and one.only is not None:
            assert set(one.only) <= set(one.choices), one.name


def test_no_flag_is_registered_and_refused() -> None:
    assert not set(REGISTRY) & set(REFUSED)


@dataclass(frozen=True)
class Example:
    """Flags in every state, because those of the registry change as the runtime grows."""

    free: float = flag(1.0, "任意值", "any value")
    limited: float = flag(1.0, "一个值", "one value", only=(1,))
    named: str = flag("a", "两个值之一", "one of two", choices=("a", "b", "c"), only=("a", "b"))
    on: bool = flag(True, "只能打开", "on alone", only=(True,))
    switch: bool = flag(False, "开关", "a switch")
    later: bool = planned(False, "计划中", "planned")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("--free", "2", False),
        ("--limited", "1", False),
        ("--limited", "1.0", False),
        ("--limited", "1e0", False),
        ("--limited", "0.9", True),
        ("--limited", "one", True),
        ("--named", "b", False),
        ("--named", "c", True),
        ("--on", None, False),
        ("--on", "false", True),
        ("--switch", None, False),
        ("--switch", "false", False),
        ("--later", None, True),
        ("--later", "false", True),
    ],
)
def test_planned(name: str, value: str | None, expected: bool) -> None:
    assert Registry(flags_of(Example, "example")).planned(name, value) is expected


def test_planned_of_an_unknown_flag_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        REGISTRY.planned("--no-such-flag")


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("--rollout-batchsize", "--rollout-batch-size"),
        ("--n-sample-per-prompt", "--n-samples-per-prompt"),
        ("rollout_batch_size", "--rollout-batch-size"),
        ("--sglang-mem-fraction", "--sglang-mem-fraction-static"),
        ("--tensor-parallel-size", "--tensor-model-parallel-size"),
        ("--zzzzzzzzzz", None),
    ],
)
def test_nearest(wrong: str, nearest: str | None) -> None:
    assert REGISTRY.nearest(wrong) == nearest


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, slime.config, slime.config.command; "
        "print([name for name in ('torch', 'ray', 'megatron', 'sglang', 'transformers', 'sphinx', 'numpy', "
        "'slime.experiment') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
