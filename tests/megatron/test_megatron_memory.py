"""The lab's estimate of memory against Megatron: parameters of every rank of a layout, bytes of a running trainer."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from slime.experiment import Catalog, load_catalog
from slime.experiment.memory import Phase, memory

from .megatron_cases import make_batch, make_hf_model, make_sequences

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]

DENSE: dict[str, Any] = {
    "layers": 4, "hidden": 64, "ffn": 96, "heads": 4, "kv_groups": 2, "head_dim": 24, "vocab": 128,
    "qk_norm": True, "qkv_bias": False, "tied": False, "dense_layers": 4, "experts": 0, "topk": 0,
    "expert_ffn": 0, "shared_ffn": 0, "moe": False, "first_stage_layers": None, "last_stage_layers": None,
    "tp": 1, "pp": 1, "cp": 1, "ep": 1, "etp": 1,
}  # fmt: skip
MOE = DENSE | {"moe": True, "layers": 7, "dense_layers": 1, "experts": 8, "topk": 2, "expert_ffn": 32, "shared_ffn": 48}
LAYOUTS: dict[str, tuple[int, dict[str, Any]]] = {
    "one rank": (1, DENSE),
    "tied": (2, DENSE | {"tied": True, "tp": 2}),
    "tp, pp, cp": (8, DENSE | {"tp": 2, "pp": 2, "cp": 2, "qkv_bias": True}),
    "three stages": (6, DENSE | {"layers": 8, "dense_layers": 8, "pp": 3, "tp": 2, "first_stage_layers": 3,
                                 "last_stage_layers": 1}),
    "experts": (8, MOE | {"tp": 2, "pp": 2, "ep": 4, "last_stage_layers": 3}),
    "experts, three stages": (6, MOE | {"pp": 3, "ep": 2, "first_stage_layers": 2, "last_stage_layers": 3}),
    "experts cut": (4, MOE | {"layers": 3, "tp": 2, "ep": 2, "etp": 2}),
}  # fmt: skip
"""Facts that differ from the tiny recipe's, each layout with the ranks that it needs."""


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def _training(catalog: Catalog, facts: dict[str, Any], world: int) -> Phase:
    """The estimate for the tiny recipe with other facts."""
    tables = catalog.tables
    own = {**tables.fact_values["tiny"], **facts, "attention_layers": facts["layers"], "gpus_per_node": world}
    changed = dataclasses.replace(tables, fact_values={**tables.fact_values, "tiny": own})
    return memory(changed, catalog.sanitise({"model": "tiny"}).state)[0]


def _case(world: int, facts: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {
        "num_layers": facts["layers"], "hidden_size": facts["hidden"], "ffn_hidden_size": facts["ffn"],
        "num_attention_heads": facts["heads"], "num_query_groups": facts["kv_groups"],
        "kv_channels": facts["head_dim"], "qk_layernorm": facts["qk_norm"], "add_qkv_bias": facts["qkv_bias"],
    }  # fmt: skip
    if facts["moe"]:
        sparse = facts["layers"] - facts["dense_layers"]
        config |= {
            "num_moe_experts": facts["experts"], "moe_router_topk": facts["topk"],
            "moe_ffn_hidden_size": facts["expert_ffn"], "moe_shared_expert_intermediate_size": facts["shared_ffn"],
            "moe_layer_freq": [0] * facts["dense_layers"] + [1] * sparse,
            "moe_router_score_function": "sigmoid", "moe_router_enable_expert_bias": True,
        }  # fmt: skip
    sizes = {name: facts[name] for name in ("tp", "pp", "cp", "ep", "etp", "vocab", "tied")}
    stages = {"first": facts["first_stage_layers"], "last": facts["last_stage_layers"]}
    return {"world": world, "config": config, **sizes, **stages}


def test_every_rank_has_the_parameters_that_megatron_gives_it(catalog: Catalog) -> None:
    program = Path(__file__).with_name("megatron_parameters.py")
    lines = "".join(json.dumps(_case(world, facts)) + "\n" for world, facts in LAYOUTS.values())
    done = subprocess.run(
        [sys.executable, str(program)], input=lines, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    built = dict(zip(LAYOUTS, map(json.loads, done.stdout.split("\n")[:-1]), strict=True))
    for name, (world, facts) in LAYOUTS.items():
        cells = _training(catalog, facts, world).rows[0].cells
        assert [[cell.amount] for cell in cells if cell is not None] == built[name], name


def test_a_running_trainer_takes_the_bytes_of_the_estimate(
    catalog: Catalog, make_trainer: Make, tmp_path: Path
) -> None:
    """Weights, gradients and Adam's moments of the tiny recipe's dimensions, after a real step: exactly."""
    model = catalog.facts.models["tiny"]
    folder = make_hf_model(
        tmp_path / "hf", vocab_size=model.vocab, hidden_size=model.hidden, intermediate_size=model.ffn,
        num_hidden_layers=model.layers, num_attention_heads=model.heads, num_key_value_heads=model.kv_groups,
        head_dim=model.head_dim, max_position_embeddings=model.max_positions,
    )  # fmt: skip
    trainer = make_trainer(folder)
    trainer.load()
    trainer.train(make_batch(make_sequences(16)))
    (wrapped,), optimizer = trainer._wrapped, trainer._state.optimizer
    measured = {
        "weights": sum(one.numel() * one.element_size() for one in wrapped.module.parameters()),
        "gradients": sum(one.grad_data.numel() * one.grad_data.element_size() for one in wrapped.buffers),
        "optimizer": _moments(optimizer.optimizer),
    }
    training = {row.id: row.cells[0] for row in _training(catalog, {"layers": model.layers}, 1).rows}
    for name, amount in measured.items():
        cell = training[name]
        assert cell is not None and cell.amount == amount, name


def _moments(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of Adam's two moments; the counters of steps, one number a tensor, are no state of a parameter."""
    states = [
        value for state in optimizer.state.values() for name, value in state.items() if name.startswith("exp_avg")
    ]
    return sum(value.numel() * value.element_size() for value in states)
