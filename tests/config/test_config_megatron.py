"""Flags with Megatron's names set fields that the installed Megatron-Core has."""

from __future__ import annotations

import dataclasses
import inspect
from importlib.util import find_spec

import pytest

from slime.config import REGISTRY
from slime.config.underneath import MEGATRON_FIELDS, NO_MEGATRON_FIELD

MEGATRON_FLAGS = {name for name, one in REGISTRY.items() if one.source == "megatron"}


def test_every_flag_of_megatron_has_its_field_or_is_the_runtimes_own() -> None:
    assert set(MEGATRON_FIELDS) | NO_MEGATRON_FIELD >= MEGATRON_FLAGS
    assert not set(MEGATRON_FIELDS) & NO_MEGATRON_FIELD
    assert set(MEGATRON_FIELDS) | NO_MEGATRON_FIELD <= set(REGISTRY)


def test_the_registry_carries_the_fields() -> None:
    assert REGISTRY["--lr"].sets == ("OptimizerConfig.lr",)
    assert REGISTRY["--fp8-format"].sets == ("TransformerConfig.fp8",)
    assert REGISTRY["--rollout-batch-size"].sets == ()


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
