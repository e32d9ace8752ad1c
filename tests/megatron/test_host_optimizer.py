"""Adam in host memory: the bits are those of a run without it, and either resumes the other's checkpoints."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from slime.ports import free_ports

from .families import make_family
from .megatron_cases import make_batch, make_sequences, train_one_rank
from .rank_processes import run_ranks

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]
OFFLOAD = {"optimizer_cpu_offload": True}
OVERLAPPED = {**OFFLOAD, "optimizer_offload_fraction": 0.5, "overlap_cpu_optimizer_d2h_h2d": True}


def rounds(trainer: MegatronTrainer, seeds: tuple[int, ...]) -> tuple[list[dict[str, float]], dict[str, torch.Tensor]]:
    """Metrics of these rounds, and the weights after them."""
    found = [trainer.train(make_batch(make_sequences(8, seed))) for seed in seeds]
    return found, {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}


def same_bits(found: Any, expected: Any) -> None:
    """Of two results of `rounds`."""
    assert found[0] == expected[0]
    assert all(torch.equal(found[1][name], tensor) for name, tensor in expected[1].items())


@pytest.mark.parametrize("shared", [False, True])
def test_either_resumes_the_other_to_the_bit(make_trainer: Make, tmp_path: Path, shared: bool) -> None:
    kinds: dict[str, dict[str, Any]] = {"plain": {}, "host": OVERLAPPED}
    results: dict[str, tuple[Any, ...]] = {}
    for name, flags in kinds.items():
        trainer = make_trainer(save=str(tmp_path / name), use_distributed_optimizer=shared, clip_grad=0.5, **flags)
        trainer.load()
        results[name] = rounds(trainer, (0, 1))
        assert results[name][0][0]["grad_norm"] > 0.5, "clipping has work to do"
        trainer.save(1)
        results[name] += rounds(trainer, (2, 3))
    for part in (slice(0, 2), slice(2, 4)):
        same_bits(results["host"][part], results["plain"][part])
    for source, target in (("plain", "host"), ("host", "plain")):
        trainer = make_trainer(
            load=str(tmp_path / source), use_distributed_optimizer=shared, clip_grad=0.5, **kinds[target]
        )
        assert trainer.load().step == 1
        same_bits(rounds(trainer, (2, 3)), results["plain"][2:])


def test_experts_and_dense_weights_count_once(make_trainer: Make, tmp_path: Path) -> None:
    """Megatron gives experts an optimizer of their own; clipping sees the norm of both."""
    folder = make_family("qwen3_moe", tmp_path)
    results = []
    for flags in ({}, OFFLOAD):
        trainer = make_trainer(folder, clip_grad=0.5, **flags)
        trainer.load()
        results.append(rounds(trainer, (0, 1)))
    same_bits(*results)


Job = tuple[Path, dict[str, Any], int]
"""Folder of the results, flags, port."""


def train_jobs(rank: int, ranks: int, hf: Path, jobs: Sequence[Job]) -> None:
    """One of the processes: every job in turn."""
    for out, flags, port in jobs:
        train_one_rank(rank, ranks, port, hf, out, flags)


def test_two_ranks_to_the_bit(hf_folder: Path, tmp_path: Path) -> None:
    """Tensor parallel, where replicas count once; data parallel, where ranks share the state."""
    layouts: dict[str, dict[str, Any]] = {
        "tensor": {"tensor_model_parallel_size": 2, "sequence_parallel": True},
        "data": {"use_distributed_optimizer": True},
    }
    kinds: dict[str, dict[str, Any]] = {"plain": {}, "host": OFFLOAD}
    jobs = [
        (tmp_path / layout / kind, {**layouts[layout], **kinds[kind]}, port)
        for (layout, kind), port in zip(product(layouts, kinds), free_ports(4), strict=True)
    ]
    for out, _, _ in jobs:
        out.mkdir(parents=True)
    run_ranks(train_jobs, 2, hf_folder, jobs)
    for layout in layouts:
        plain, host = (torch.load(tmp_path / layout / kind / "rank1-of-2.pt", weights_only=True) for kind in kinds)
        same_bits((host["metrics"], host["weights"]), (plain["metrics"], plain["weights"]))
        assert "sample 101" in host["error"] and host["error"] == plain["error"]


@contextmanager
def named_as_on_a_gpu(model: torch.nn.Module) -> Iterator[None]:
    """Megatron's optimizer of bfloat16 weights knows them by the names of CUDA types alone; a CPU has float32."""
    parameters = list(model.parameters())
    for one in parameters:
        one.type = functools.partial(str, one.type().replace("torch.", "torch.cuda."))
    try:
        yield
    finally:
        for one in parameters:
            del one.type


@pytest.mark.usefixtures("own_groups")
@pytest.mark.parametrize("shared", [False, True])
def test_bfloat16_weights_follow_their_float32_originals(hf_folder: Path, shared: bool) -> None:
    from slime.megatron.host_optimizer import HostOptimizer
    from slime.megatron.model import build_model, load_hf_weights
    from slime.megatron.model_settings import ComputeSettings
    from slime.megatron.optimizer import OptimizerSettings, build_optimizer, wrap_model
    from slime.weights.hf_config import read_config

    config = read_config(hf_folder)
    plain = OptimizerSettings(lr=1e-3, clip_grad=1.0, use_distributed_optimizer=shared)
    weights = []
    for settings in (plain, replace(plain, optimizer_cpu_offload=True, optimizer_offload_fraction=0.7)):
        model = build_model(config, torch.device("cpu"), ComputeSettings(torch.bfloat16))
        load_hf_weights(model, config, hf_folder)
        wrapped = wrap_model(model, settings)
        with nullcontext() if shared else named_as_on_a_gpu(model):
            optimizer, _ = build_optimizer(wrapped, settings, torch.bfloat16)
        assert isinstance(optimizer, HostOptimizer) == settings.optimizer_cpu_offload
        generator = torch.Generator().manual_seed(0)
        for _ in range(3):
            for parameter in model.parameters():
                parameter.main_grad.copy_(torch.randn(parameter.shape, generator=generator))
            optimizer.prepare_grads()
            optimizer.get_grad_norm()
            optimizer.step()
        weights.append({name: parameter.detach().clone() for name, parameter in model.named_parameters()})
    assert all(one.dtype is torch.bfloat16 for one in weights[0].values())
    assert all(torch.equal(weights[1][name], one) for name, one in weights[0].items())


def test_the_fused_update_is_the_same_adam() -> None:
    """On the host of a GPU torch's fused kernel updates; it rounds in another order."""
    from slime.megatron.host_optimizer import _adam, _Share

    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1000, generator=generator)
    group = {"betas": (0.9, 0.99), "lr": 1e-2, "weight_decay": 0.1, "eps": 1e-8}
    mains = [start.clone(), start.clone(), start.clone().requires_grad_()]
    states: dict[torch.Tensor, dict[str, torch.Tensor]] = {}
    reference = torch.optim.AdamW([mains[2]], **group)
    for _ in range(5):
        gradient = torch.randn(1000, generator=generator)
        for main, fused in zip(mains, (False, True), strict=False):
            _adam(_Share(main, gradient, None, group, states), gradient, fused)
        mains[2].grad = gradient
        reference.step()
    assert torch.equal(mains[0], mains[2])
    torch.testing.assert_close(mains[1], mains[0], rtol=0, atol=1e-6)


@pytest.mark.usefixtures("own_groups")
def test_converted_weights_reach_the_float32_originals(hf_folder: Path, tmp_path: Path) -> None:
    """A checkpoint of weights alone, loaded behind a built optimizer: a step without gradients leaves them there."""
    from slime.megatron.checkpoint import TrainState, load_checkpoint, save_release
    from slime.megatron.model import build_model, load_hf_weights
    from slime.megatron.model_settings import ComputeSettings
    from slime.megatron.optimizer import OptimizerSettings, build_optimizer, wrap_model
    from slime.weights.hf_config import read_config

    config = read_config(hf_folder)
    settings = OptimizerSettings(lr=1e-3, weight_decay=0.0, use_distributed_optimizer=True)
    model = build_model(config, torch.device("cpu"), ComputeSettings(torch.bfloat16))
    load_hf_weights(model, config, hf_folder)
    save_release(tmp_path / "run", model, {})
    expected = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    state = TrainState(*build_optimizer(wrap_model(model, settings), settings, torch.bfloat16))
    assert load_checkpoint(tmp_path / "run", model, state).step is None
    for parameter in model.parameters():
        parameter.main_grad.zero_()
    state.optimizer.prepare_grads()
    state.optimizer.step_with_ready_grads()
    assert all(torch.equal(parameter, expected[name]) for name, parameter in model.named_parameters())
