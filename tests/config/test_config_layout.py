"""Who sits where: nodes, GPUs, ranks and engines, before anything starts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from slime.config import Config, ConfigError
from slime.config.layout import devices, processes, train_rank
from slime.config.serving_groups import ServingGroup, generating_engines, policy_model, serving_groups


def cuda(**changes: Any) -> Config:
    """A configuration for GPUs that nothing has checked: the layout is arithmetic on the flags."""
    values = {"device": "cuda", "actor_num_gpus_per_node": 8, "rollout_num_gpus": 8, "colocate": True, **changes}
    return Config(**values)


def test_colocated_engines_share_the_training_devices(small: Callable[..., Config]) -> None:
    placed = devices(small(actor_num_gpus_per_node=2))
    assert [(item.node, item.gpu, item.train and item.train.rank, item.engine) for item in placed] == [
        (0, 0, 0, 0),
        (0, 1, 1, 1),
    ]


def test_separate_engines_follow_the_training_devices(small: Callable[..., Config]) -> None:
    placed = devices(small(colocate=False, actor_num_gpus_per_node=2, rollout_num_gpus=3))
    assert [(item.train and item.train.rank, item.engine) for item in placed] == [
        (0, None), (1, None), (None, 0), (None, 1), (None, 2),
    ]  # fmt: skip


def test_engines_of_several_gpus() -> None:
    placed = devices(cuda(rollout_num_gpus_per_engine=2))
    assert [(item.engine, item.engine_rank) for item in placed[:4]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_an_engine_may_span_nodes() -> None:
    placed = devices(cuda(actor_num_nodes=2, rollout_num_gpus=16, rollout_num_gpus_per_engine=16))
    assert [(item.node, item.gpu, item.engine, item.engine_rank) for item in placed[7:9]] == [
        (0, 7, 0, 7),
        (1, 0, 0, 8),
    ]


def test_more_serving_than_training_gpus_are_serving_alone() -> None:
    placed = devices(cuda(actor_num_gpus_per_node=4))
    assert [item.train is None for item in placed] == [False] * 4 + [True] * 4


def test_external_engines_take_no_gpu() -> None:
    config = cuda(colocate=False, rollout_num_gpus=0, rollout_external_engine_addrs=("host1:30000", "host2:30000"))
    assert len(devices(config)) == 8
    assert [(item.process, item.count) for item in processes(config)] == [
        ("driver", 1), ("trainer", 8), ("external engine", 2),
    ]  # fmt: skip


def test_a_critic_has_as_many_processes_as_the_trainer() -> None:
    found = {item.process: item.count for item in processes(cuda(advantage_estimator="ppo"))}
    assert found == {"driver": 1, "trainer": 8, "critic": 8, "engine": 8}


@pytest.mark.runtime
@pytest.mark.skipif(find_spec("megatron") is None, reason="the runtime is not installed: make runtime")
@pytest.mark.parametrize(
    ("tensor", "context", "data", "pipeline", "expert", "expert_tensor"),
    [(1, 1, 4, 1, 4, 1), (2, 1, 4, 2, 4, 2), (2, 2, 2, 2, 4, 1), (4, 2, 1, 3, 8, 1), (2, 3, 2, 1, 3, 2)],
)
def test_ranks_are_megatrons(
    tensor: int, context: int, data: int, pipeline: int, expert: int, expert_tensor: int
) -> None:
    from megatron.core.parallel_state import RankGenerator

    stage = tensor * context * data
    config = cuda(
        actor_num_gpus_per_node=stage * pipeline,
        tensor_model_parallel_size=tensor,
        context_parallel_size=context,
        pipeline_model_parallel_size=pipeline,
        expert_model_parallel_size=expert,
        expert_tensor_parallel_size=expert_tensor,
    )
    ranks = [train_rank(config, rank) for rank in range(stage * pipeline)]
    order = "tp-cp-ep-dp-pp"
    dense = RankGenerator(tp=tensor, ep=1, dp=data, pp=pipeline, cp=context, order=order)
    copies = stage // (expert * expert_tensor)
    sparse = RankGenerator(tp=expert_tensor, ep=expert, dp=copies, pp=pipeline, cp=1, order=order)
    for generator, token, name in (
        (dense, "tp", "tensor"), (dense, "cp", "context"), (dense, "dp", "data"), (dense, "pp", "pipeline"),
        (sparse, "ep", "expert"),
    ):  # fmt: skip
        for group in generator.get_ranks(token):
            assert [getattr(ranks[rank], name) for rank in group] == list(range(len(group))), name


def test_prefill_engines_come_first() -> None:
    config = cuda(rollout_num_gpus_per_engine=2, prefill_num_servers=1)
    assert serving_groups(config) == (
        ServingGroup("default", "prefill", 2, 2),
        ServingGroup("default", "decode", 6, 2),
    )
    kinds = [kind for kind, _ in itertools.groupby(item.kind for item in devices(config))]
    assert kinds == ["prefill", "decode"]
    assert [(item.process, item.count) for item in processes(config)][2:] == [
        ("prefill engine", 1),
        ("decode engine", 3),
    ]


@pytest.mark.parametrize("number", [4, 5, 9])
def test_prefill_leaves_room_for_decode(number: int) -> None:
    with pytest.raises(ConfigError, match="leaves no decode engine"):
        serving_groups(cuda(rollout_num_gpus_per_engine=2, prefill_num_servers=number))


GROUPS = """\
sglang:
  - name: actor
    num_gpus_per_engine: 2
    server_groups:
      - worker_type: placeholder
        num_gpus: 2
      - worker_type: prefill
        num_gpus: 2
      - {worker_type: decode, num_gpus: 4, num_gpus_per_engine: 4}
"""


def test_groups_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "sglang.yaml"
    path.write_text(GROUPS)
    config = cuda(sglang_config=str(path))
    assert [item.engine for item in devices(config)] == [None, None, 0, 0, 1, 1, 1, 1]
    assert [item.kind for item in devices(config)] == [None, None, "prefill", "prefill", *["decode"] * 4]
    assert {item.process: item.count for item in processes(config)} == {
        "driver": 1, "trainer": 8, "prefill engine": 1, "decode engine": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "line", "part"),
    [
        ("num_gpus: 4, num", "num_gpus: 8, num", 1, "the groups have 12 GPUs, --rollout-num-gpus says 8"),
        ("worker_type: prefill", "worker_type: prefil", 7, "worker_type prefil: not one of regular, prefill, decode"),
        ("worker_type: placeholder", "worker_type: regular", 2, "mixes regular engines with prefill"),
        ("num_gpus: 2\n      - {", "num_gpus: 3\n      - {", 7, "num_gpus 3 does not divide into engines of 2"),
        ("num_gpus: 2\n      - {", "num_gpus: two\n      - {", 8, "num_gpus is a number of GPUs, not 'two'"),
        ("server_groups", "groups", 4, "unknown key groups; did you mean server_groups?"),
        ("num_gpus_per_engine: 2\n", "num_gpus_per_engin: 2\n", 3, "did you mean num_gpus_per_engine?"),
        ("worker_type: decode,", "worker_type: prefill,", 2, "has prefill engines and no decode engine"),
        ("name: actor", "name: 3", 2, "name is text, not 3"),
        ("sglang:", "models:", 1, "unknown key models; known: sglang"),
        ("sglang:", "sglang: 3\nsglangs:", 2, "unknown key sglangs; did you mean sglang?"),
        ("  - name", "  - - name", 3, "not valid YAML"),
    ],
)
def test_a_mistake_in_the_file_has_its_line(tmp_path: Path, old: str, new: str, line: int, part: str) -> None:
    path = tmp_path / "sglang.yaml"
    assert old in GROUPS
    path.write_text(GROUPS.replace(old, new))
    with pytest.raises(ConfigError) as caught:
        serving_groups(cuda(sglang_config=str(path)))
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert part in str(caught.value)


MODELS = """\
sglang:
  - name: policy
    server_groups:
      - worker_type: regular
        num_gpus: 2
        overrides: {schedule_policy: lpm, mem_fraction_static: 0.5, enable_metrics: true, cuda_graph_bs_decode: [1, 2]}
      - worker_type: regular
        num_gpus: 4
        num_gpus_per_engine: 2
  - name: judge
    model_path: JUDGE
    server_groups:
      - {worker_type: regular, num_gpus: 2}
"""


@pytest.fixture
def judge(tmp_path: Path) -> Path:
    """A folder that counts as a model."""
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "config.json").write_text("{}")
    return tmp_path / "judge"


def read(tmp_path: Path, text: str, **changes: Any) -> tuple[ServingGroup, ...]:
    (tmp_path / "sglang.yaml").write_text(text)
    return serving_groups(cuda(sglang_config=str(tmp_path / "sglang.yaml"), hf_checkpoint="/models/actor", **changes))


def test_models_and_their_overrides(tmp_path: Path, judge: Path) -> None:
    first, second, third = read(tmp_path, MODELS.replace("JUDGE", str(judge)))
    assert first.overrides == {
        "schedule-policy": "lpm", "mem-fraction-static": 0.5, "enable-metrics": True, "cuda-graph-bs-decode": (1, 2),
    }  # fmt: skip
    assert (first.engines, second.engines, third.engines) == (2, 2, 2)
    assert (first.model_path, third.model_path) == (None, str(judge))
    assert [group.update_weights for group in (first, second, third)] == [True, True, False]
    assert policy_model((first, second, third)) == "policy"
    config = cuda(sglang_config=str(tmp_path / "sglang.yaml"), hf_checkpoint="/models/actor")
    assert generating_engines(config) == 4, "those of the judge do not sample"


@pytest.mark.parametrize(
    ("old", "new", "line", "part"),
    [
        ("schedule_policy: lpm", "schedule_polic: lpm", 6, "no server argument schedule_polic; did you mean"),
        ("schedule_policy: lpm", "schedule_policy: best", 6, "schedule_policy best: "),
        ("enable_metrics: true", "enable_metrics: 1", 6, "enable_metrics 1: "),
        ("enable_metrics: true", "model_path: x", 6, "model_path is set by the runtime: the engine serves"),
        ("enable_metrics: true", "tp_size: 2", 6, "tp_size is set by the runtime: derived from"),
        ("overrides: {", "overrides: 3  # {", 6, "overrides is a mapping of ServerArgs fields, not 3"),
        ("name: judge", "name: policy", 10, "two models have the name policy"),
        ("    model_path: JUDGE\n", "", 10, "policy and judge both take the trainer's weights"),
        ("model_path: JUDGE", "model_path: nowhere", 11, "there is no nowhere/config.json"),
        (
            "    server_groups:\n      - {",
            "    update_weights: 1\n    server_groups:\n      - {",
            12,
            "is true or false",
        ),
        ("name: policy", "name: policy\n    update_weights: false", 1, "no model takes the trainer's weights"),
    ],
)
def test_a_mistake_in_a_model_has_its_line(
    tmp_path: Path, judge: Path, old: str, new: str, line: int, part: str
) -> None:
    assert old in MODELS
    text = MODELS.replace(old, new, 1).replace("JUDGE", str(judge))
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'sglang.yaml'}:{line}: ")
    assert part in str(caught.value)


def test_a_file_that_is_absent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        serving_groups(cuda(sglang_config=str(tmp_path / "absent.yaml")))
