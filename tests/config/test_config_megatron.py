"""Flags with Megatron's names set fields that the installed Megatron-Core has."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from importlib.util import find_spec
from pathlib import Path

import pytest

from slime.config import REGISTRY
from slime.config.underneath import MEGATRON_FIELDS, NO_MEGATRON_FIELD

BACKEND = Path(__file__).parents[2] / "slime" / "megatron"
MEGATRON_FLAGS = {name for name, one in REGISTRY.items() if one.source == "megatron"}


def test_every_flag_of_megatron_has_its_field_or_is_the_runtimes_own() -> None:
    assert set(MEGATRON_FIELDS) | NO_MEGATRON_FIELD >= MEGATRON_FLAGS
    assert not set(MEGATRON_FIELDS) & NO_MEGATRON_FIELD
    assert set(MEGATRON_FIELDS) | NO_MEGATRON_FIELD <= set(REGISTRY)


def test_the_registry_carries_the_fields() -> None:
    assert REGISTRY["--lr"].sets == ("OptimizerConfig.lr",)
    assert REGISTRY["--sequence-parallel"].sets == ("TransformerConfig.sequence_parallel",)
    assert REGISTRY["--rollout-batch-size"].sets == ()


def test_the_trainer_sets_the_field_of_every_flag_that_runs() -> None:
    """By name, in a call or a mapping of the backend; a flag with one legal value may leave Megatron's default."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in BACKEND.rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    set_by_name = {node.arg for node in nodes if isinstance(node, ast.keyword)}
    set_by_name |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    missing = {
        name: field
        for name, fields in MEGATRON_FIELDS.items()
        for field in fields
        if REGISTRY[name].runs
        and len(REGISTRY[name].only or ("any", "value")) > 1
        and field.partition(".")[2] not in set_by_name
    }
    assert missing == {}


@pytest.mark.runtime
@pytest.mark.skipif(find_spec("megatron") is None, reason="the runtime is not installed: make runtime")
def test_the_installed_megatron_has_every_field() -> None:
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    from megatron.core.transformer import TransformerConfig

    legal = {
        f"{kind.__name__}.{field.name}"
        for kind in (TransformerConfig, OptimizerConfig, DistributedDataParallelConfig)
        for field in dataclasses.fields(kind)
    }
    legal |= {f"OptimizerParamScheduler.{name}" for name in inspect.signature(OptimizerParamScheduler).parameters}
    wanted = {field for fields in MEGATRON_FIELDS.values() for field in fields}
    assert wanted - legal == set()
