"""Routing replay: experts of an earlier pass, or of the sampler, in every family of routers and at every layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slime.data.routes import RoutesError, RouteShape, route_shape
from slime.megatron.parallel import ParallelSettings
from slime.ports import free_port
from slime.weights.hf_config import read_config

from .families import gradient_of, make_family, reference
from .layout_cases import weights_of
from .rank_processes import run_ranks
from .replay_cases import (
    CPU,
    Job,
    Kind,
    Scored,
    force,
    measure_replay,
    move,
    record,
    reference_total,
    run_replays,
    samples,
)

pytestmark = pytest.mark.runtime
FAMILIES = ["qwen3_moe", "glm4_moe", "deepseek_v3", "qwen3_next"]
"""Softmax; sigmoid with bias and a shared expert; with groups as well; softmax with a gated shared expert."""
LOSS_TOLERANCE = 5e-4
"""Of a loss of several hundred, in float32."""
GRADIENT_TOLERANCE = 2e-3
"""Of each tensor, relative to its norm."""
Folders = dict[str, tuple[Path, Path]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Of each family a checkpoint, and one whose weights have moved since."""
    root = tmp_path_factory.mktemp("replay")
    before = {name: make_family(name, root / name) for name in FAMILIES}
    return {name: (one, move(reference(one), root / f"{name}-moved")) for name, one in before.items()}


def expected_of(before: Path, after: Path, chosen: list[Scored]) -> tuple[float, dict[str, Any], list[Any], int]:
    """Loss and gradients by transformers, with the experts of `before` or of the samples; those; how many moved."""
    old, moved = reference(before), reference(after)
    recorded = [record(old, one.tokens) for one in chosen]
    flips = sum(
        int((theirs.sort(-1).values != record(moved, one.tokens)[layer].sort(-1).values).any(-1).sum())
        for one, routes in zip(chosen, recorded, strict=True)
        for layer, theirs in routes.items()
    )
    total = torch.zeros(())
    for index, (one, routes) in enumerate(zip(chosen, recorded, strict=True)):
        if one.rollout_routed_experts is not None:
            # The last token has none, and nothing depends on it.
            rows = np.concatenate([one.rollout_routed_experts, one.rollout_routed_experts[-1:]])
            routes = {layer: torch.from_numpy(rows[:, layer].copy()) for layer in routes}
        force(moved, routes)
        total = total + reference_total(moved, one, weights_of(index, one.response_length))
    total.backward()
    return float(total.detach()), {n: p.grad for n, p in moved.named_parameters()}, recorded, flips


def compare(found: dict[str, Any], loss: float, gradients: dict[str, Any]) -> None:
    assert abs(found["loss"] - loss) < LOSS_TOLERANCE
    compared = 0
    for name, gradient in found["gradients"].items():
        if name.endswith("e_score_correction_bias"):  # no parameter
            continue
        expected = gradient_of(gradients, name)
        norm = float(expected.norm())
        assert float((gradient - expected).norm()) <= GRADIENT_TOLERANCE * norm + 1e-6, name
        compared += norm > 0
    assert compared > 30


@pytest.mark.parametrize("recompute", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_experts_are_kept_when_weights_move(
    family: str, recompute: bool, folders: Folders, own_groups: None
) -> None:
    loss, gradients, recorded, flips = expected_of(*folders[family], samples())
    found = measure_replay(*folders[family], ParallelSettings(), recompute, "recorded")
    assert flips > 50  # choices that a router of the moved weights would make otherwise
    for ours, theirs in zip(found["routes"], (recorded[i] for i in (0, 2, 1, 3)), strict=True):
        for column, layer in enumerate(found["layers"]):
            assert torch.equal(ours[:, column].long().sort(-1).values, theirs[layer].sort(-1).values)
    compare(found, loss, gradients)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_samplers_experts_are_taken(family: str, folders: Folders, own_groups: None) -> None:
    """At random, so that no router would choose them."""
    chosen = samples(route_shape(read_config(folders[family][0])))
    loss, gradients, _, _ = expected_of(*folders[family], chosen)
    found = measure_replay(*folders[family], ParallelSettings(), False, "sampled")
    compare(found, loss, gradients)


@pytest.mark.parametrize("family", FAMILIES)
def test_replay_of_an_unchanged_policy_is_equal_to_the_bit(family: str, folders: Folders, own_groups: None) -> None:
    from slime.megatron.model import build_model, load_hf_weights
    from slime.megatron.model_settings import ComputeSettings
    from slime.megatron.packing import run_model
    from slime.megatron.ranks import pack_for
    from slime.megatron.routing_replay import RoutingReplay

    config = read_config(folders[family][0])
    model = build_model(config, CPU, ComputeSettings())
    load_hf_weights(model, config, folders[family][0])
    chosen = samples()
    first, second, plain = (
        pack_for(model.config, [one.tokens for one in chosen], [one.response_length for one in chosen], CPU)
        for _ in range(3)
    )
    own = run_model(model, plain)
    replay = RoutingReplay(model, route_shape(config), "recorded")
    replay.start(chosen)
    with replay.old_pass() as mark, torch.no_grad():
        assert mark is not None
        mark(range(len(chosen)), first)
        before = run_model(model, first)
    replay.give(range(len(chosen)), second)
    assert torch.equal(before, run_model(model, second))
    assert torch.equal(before, own)
    assert torch.equal(before, run_model(model, plain))  # routers choose where nothing is said


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_replay_what_one_does(ranks: int, folders: Folders, own_groups: None, tmp_path: Path) -> None:
    layouts = {
        "tensor": ParallelSettings(tensor=2, sequence_parallel=True),
        "pipeline": ParallelSettings(pipeline=2),
        "context": ParallelSettings(context=2),
        "experts": ParallelSettings(expert=2),
    }
    if ranks == 4:
        layouts = {
            "tensor-context": ParallelSettings(tensor=2, context=2, sequence_parallel=True),
            "pipeline-experts": ParallelSettings(pipeline=2, expert=2),
        }
    else:
        layouts["virtual-pipeline"] = ParallelSettings(pipeline=2, virtual=2)
    cases: list[tuple[str, Kind]] = [("deepseek_v3", "recorded"), ("qwen3_moe", "sampled")]
    jobs: list[Job] = [
        (f"{layout} {family}", *folders[family], parallel, "pipeline" in layout, mode)
        for layout, parallel in layouts.items()
        for family, mode in cases
    ]
    expected = {family: measure_replay(*folders[family], ParallelSettings(), False, mode) for family, mode in cases}
    run_ranks(run_replays, ranks, free_port(), jobs, tmp_path)
    for rank in range(ranks):
        found = torch.load(tmp_path / f"rank{rank}.pt", weights_only=True)
        for name, *_ in jobs:
            layout, family = name.split()
            # Experts spread over data-parallel ranks, which have one micro-batch each.
            check_rank(found[name], expected[family], rank % 2 if "experts" in layout else 0)


def check_rank(found: dict[str, Any], alone: dict[str, Any], data_rank: int) -> None:
    """Losses, gradients, and the routes of this rank's layers and samples."""
    assert abs(found["loss"] - alone["loss"]) < LOSS_TOLERANCE
    for name, gradient in alone["gradients"].items():
        gap = float((found["gradients"][name] - gradient).norm())
        assert gap <= GRADIENT_TOLERANCE * float(gradient.norm()) + 1e-6, name
    columns = [alone["layers"].index(layer) for layer in found["layers"]]
    own = slice(2 * data_rank, 2 * data_rank + len(found["routes"]))
    for mine, whole in zip(found["routes"], alone["routes"][own], strict=True):
        assert torch.equal(mine, whole[:, columns])
    for mine, whole in zip(found["log_probs"], alone["log_probs"][own], strict=True):
        torch.testing.assert_close(mine, whole, atol=1e-4, rtol=0)


def test_routes_that_do_not_fit_are_refused() -> None:
    shape = RouteShape(layers=3, with_experts=(1, 2), chosen=2, count=300)
    good = np.zeros((4, 3, 2), np.int32)
    good[..., 1] = 299
    good[:, 0] = -7  # a dense layer's rows hold anything
    shape.check(good, 2, 4)
    assert shape.dtype is np.int16
    for change, message in (
        ((2, 1, 0, 300), r"token 2 goes to the experts \[300, 299\] in layer 1, and a layer has 300"),
        ((3, 2, 1, 0), r"token 3 goes to the experts \[0, 0\] in layer 2, one of them twice"),
    ):
        *at, value = change
        bad = good.copy()
        bad[tuple(at)] = value
        with pytest.raises(RoutesError, match=message):
            shape.check(bad, 4, 4)
    with pytest.raises(RoutesError, match=r"shape \[4, 3, 2\]; .* = \[5 to 7, 3, 2\]"):
        shape.check(good, 5, 7)
