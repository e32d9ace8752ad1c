"""The four paths of a weight update, from Megatron's trainer to a real SGLang server on a CPU; one server for all.

The trainer scores the tokens that the server sampled: in float32 both compute the same. Every rank's `WeightSource` is
called in this process, as its actor calls it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch

from slime.cluster.engine_actor import EngineActor
from slime.cluster.trainer_actor import TrainerActor
from slime.cluster.weight_paths import GroupPath
from slime.cluster.weight_sync import Call, EngineLink, Pushed, WeightSync
from slime.config import Config
from slime.data.sample import Sample
from slime.ports import free_port
from slime.rollout.client import Generation, SamplingParams
from slime.sglang.client import SGLangClient
from slime.sglang.launch import EngineSpec
from slime.weights.source import WeightSource
from slime.weights.transport import WeightUpdateError

from ..megatron.megatron_cases import make_config, make_hf_model

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

PROMPTS = [[10, 20, 30], [40, 2], [3, 13, 23, 33, 43]]
# Sums in another order differ in the last bits of float32; a stale weight differs by 0.01 and more.
FLOAT32_TOLERANCE = 2e-5


@dataclass
class Pair:
    """A trainer and a server of one model."""

    folder: Path
    trainer: TrainerActor
    engine: EngineActor
    url: str
    version: int = 0

    def config(self, **flags: Any) -> Config:
        return make_config(self.folder, **flags)

    def source(self, config: Config) -> WeightSource:
        trainer = self.trainer.trainer
        return WeightSource(
            config, 0, trainer.device, trainer.model_config, trainer.named_hf_tensors, trainer.named_stage_tensors
        )

    def sync(self, client: SGLangClient, config: Config, source: WeightSource | None = None) -> WeightSync:
        engine = EngineLink(client.controls[0], (0,), in_thread(self.engine_method))
        ranks = [in_thread((source or self.source(config)).call)]
        return WeightSync(config, ranks, [engine], in_thread(lambda rank: ("127.0.0.1", free_port())), self.version)

    def engine_method(self, method: str, *arguments: Any) -> Any:
        return getattr(self.engine, method)(*arguments)

    def move(self, seed: int, share: float = 1.0) -> None:
        """Change weights, as a training step would: all of them, or the first elements of each tensor."""
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in self.trainer.trainer._model.parameters():
                flat = parameter.view(-1)
                count = max(1, int(len(flat) * share))
                flat[:count] += torch.randn(count) * 0.05

    async def gap(self, client: SGLangClient, version: int) -> float:
        """The largest |engine - trainer| over all sampled tokens, all of which must be of `version`."""
        sampling = SamplingParams(max_new_tokens=8)
        found: list[Generation] = await asyncio.gather(
            *(client.generate(ids, sampling, f"{version}-{index}") for index, ids in enumerate(PROMPTS))
        )
        assert {one.weight_version for one in found} == {str(version)}
        samples = []
        for index, (ids, one) in enumerate(zip(PROMPTS, found, strict=True)):
            sample = Sample(index=index, prompt="", tokens=list(ids))
            sample.append_response_tokens(one.output_ids, one.logprobs, text="", weight_version=one.weight_version)
            assert sample.weight_versions == [str(version)]
            samples.append(sample)
        scores = self.trainer.log_probs(samples)
        return max(
            float(np.abs(ours - np.asarray(one.logprobs)).max()) for ours, one in zip(scores, found, strict=True)
        )


def in_thread(work: Callable[..., Any]) -> Call:
    async def call(*arguments: Any) -> Any:
        return await asyncio.to_thread(work, *arguments)

    return call


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = make_hf_model(tmp_path_factory.mktemp("hf") / "qwen3")
    spec = EngineSpec(str(folder), device="cpu", start_seconds=300, arguments={"skip-tokenizer-init": True})
    engine = EngineActor(spec, str(tmp_path_factory.mktemp("log") / "server.log"))
    engine.start()
    trainer = TrainerActor(make_config(folder), 0, 1)
    try:
        trainer.start("127.0.0.1", 0)
        engine.wait_ready()
        yield Pair(folder, trainer, engine, engine.engine.url)
    finally:
        trainer.close()
        engine.stop()


def run(pair: Pair, work: Callable[[SGLangClient], Awaitable[Any]]) -> Any:
    async def body() -> Any:
        async with SGLangClient([pair.url], retries=0) as client:
            return await work(client)

    return asyncio.run(body())


async def pushed(pair: Pair, sync: WeightSync) -> Pushed:
    done = await sync.push()
    pair.version = sync.version
    return done


def delta_flags(tmp_path: Path, **flags: Any) -> dict[str, Any]:
    return {
        "colocate": False,
        "rollout_num_gpus": 1,
        "update_weight_mode": "delta",
        "update_weight_transport": "disk",
        "update_weight_disk_dir": str(tmp_path / "versions"),
        "update_weight_local_checkpoint_dir": str(tmp_path / "local"),
        **flags,
    }


PATHS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "shared memory": lambda _: {},
    "shared memory, many buckets": lambda _: {"update_weight_buffer_size": 20_000},
    "group": lambda _: {"colocate": False, "rollout_num_gpus": 1},
    "group, many buckets": lambda _: {
        "colocate": False, "rollout_num_gpus": 1, "update_weight_buffer_size": 20_000
    },
    "disk": lambda folder: {"update_weight_transport": "disk", "update_weight_disk_dir": str(folder / "versions")},
    "disk, own copy": lambda folder: {
        "update_weight_transport": "disk", "update_weight_disk_dir": str(folder / "versions"),
        "update_weight_local_checkpoint_dir": str(folder / "local"), "update_weight_disk_keep_files": True,
    },
    "delta, xor": lambda folder: delta_flags(folder),
    "delta, overwrite": lambda folder: delta_flags(
        folder, update_weight_delta_encoding="overwrite", update_weight_delta_checksum="blake3"
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", list(PATHS))
def test_engine_and_trainer_agree_after_an_update(pair: Pair, path: str, tmp_path: Path) -> None:
    """Twice in a row, so that a path that keeps something from the first update shows whether it was right."""
    config = pair.config(**PATHS[path](tmp_path), check_weight_update_equal=path == "shared memory")

    async def update(client: SGLangClient) -> list[Pushed]:
        sync, done = pair.sync(client, config), []
        for step in range(2):
            pair.move(seed=step)
            done.append(await pushed(pair, sync))
            assert await pair.gap(client, sync.version) < FLOAT32_TOLERANCE
        if path == "group":  # an engine whose label is another one was started again: groups are formed anew
            (groups,) = sync.paths
            assert isinstance(groups, GroupPath)
            before, sync.version = groups._names, sync.version + 10
            done.append(await pushed(pair, sync))
            assert groups._names != before
            assert await pair.gap(client, sync.version) < FLOAT32_TOLERANCE
        await sync.close()
        return done

    done = run(pair, update)
    size = sum(tensor.nbytes for _, tensor in pair.trainer.trainer.named_hf_tensors())
    assert done[0].metrics["update_weights_bytes"] == pytest.approx(size, rel=0.05)
    versions = tmp_path / "versions"
    kept = sorted(one.name for one in versions.iterdir()) if versions.is_dir() else []
    assert len(kept) == (2 if path == "disk, own copy" else 0)


def test_a_delta_is_small_and_counted(pair: Pair, tmp_path: Path) -> None:
    """A hundredth of the numbers moves: the difference is a fraction of the whole, and both are reported."""
    config = pair.config(**delta_flags(tmp_path))

    async def update(client: SGLangClient) -> list[Pushed]:
        sync, done = pair.sync(client, config), []
        for step in range(2):
            pair.move(seed=step, share=0.01)
            done.append(await pushed(pair, sync))
        assert await pair.gap(client, sync.version) < FLOAT32_TOLERANCE
        return done

    first, second = (one.metrics for one in run(pair, update))
    assert first["update_weights_bytes"] > 0.9 * first["update_weights_full_bytes"]
    assert second["update_weights_bytes"] < 0.1 * second["update_weights_full_bytes"]
    assert second["update_weights_reseeded"] == 0


@pytest.mark.parametrize("broken", ["missed", "truncated", "changed"])
def test_a_host_that_cannot_follow_is_seeded_again(pair: Pair, broken: str, tmp_path: Path) -> None:
    """It missed a version, its difference is cut off, or its own copy was changed: the run goes on, and says so."""
    config = pair.config(**delta_flags(tmp_path, update_weight_disk_keep_files=True))
    source = pair.source(config)

    async def update(client: SGLangClient) -> dict[str, float]:
        sync = pair.sync(client, config, source)
        await pushed(pair, sync)
        pair.move(seed=1)
        if broken == "missed":
            source.write_delta(900, str(tmp_path / "versions"))
            pair.move(seed=2)
        if broken == "truncated":
            write = source.write_delta

            def cut(version: int, root: str) -> Any:
                written = write(version, root)
                shard = Path(written.folder) / "model.safetensors"
                os.truncate(shard, shard.stat().st_size // 2)
                return written

            source.write_delta = cut  # type: ignore[method-assign]
        if broken == "changed":
            (shard,) = (tmp_path / "local").glob("*.safetensors")
            data = bytearray(shard.read_bytes())
            data[-100] ^= 1
            shard.write_bytes(bytes(data))
        done = await pushed(pair, sync)
        assert await pair.gap(client, sync.version) < FLOAT32_TOLERANCE
        return done.metrics

    metrics = run(pair, update)
    assert metrics["update_weights_reseeded"] == 1
    assert metrics["update_weights_bytes"] > metrics["update_weights_full_bytes"]


def test_weights_that_are_not_finite_leave_the_engine_as_it_was(pair: Pair) -> None:
    config = pair.config()

    async def update(client: SGLangClient) -> str:
        pair.move(seed=3)
        sync = pair.sync(client, config)
        await pushed(pair, sync)
        _, last = list(pair.trainer.trainer._model.named_parameters())[-1]
        kept = last.detach().clone()
        with torch.no_grad():
            last.view(-1)[0] = float("nan")
        with pytest.raises(WeightUpdateError) as caught:
            await sync.push()
        with torch.no_grad():
            last.copy_(kept)
        return str(caught.value)

    text = run(pair, update)
    assert "holds values that are not finite" in text
    assert f"The version stays {pair.version}" in text

    async def again(client: SGLangClient) -> None:
        """Whatever a failed update left, the next one makes the engine whole."""
        sync = pair.sync(client, config)
        await pushed(pair, sync)
        assert await pair.gap(client, sync.version) < FLOAT32_TOLERANCE

    run(pair, again)


def test_a_refused_update_says_what_the_engine_holds(pair: Pair, tmp_path: Path) -> None:
    """The folder loses its weights between writer and engine, as on a file system that lags behind."""
    flags = {"update_weight_transport": "disk", "update_weight_disk_dir": str(tmp_path / "versions")}
    config = pair.config(**flags)
    source = pair.source(config)
    write = source.write_full

    def lost(version: int, root: str) -> Any:
        written = write(version, root)
        (Path(written.folder) / "model.safetensors").unlink()
        return written

    source.write_full = lost  # type: ignore[method-assign]

    async def update(client: SGLangClient) -> str:
        sync = pair.sync(client, config, source)
        with pytest.raises(WeightUpdateError) as caught:
            await sync.push()
        assert sync.version == pair.version
        sync = pair.sync(client, config)
        await pushed(pair, sync)
        assert await pair.gap(client, sync.version) < FLOAT32_TOLERANCE
        return str(caught.value)

    text = run(pair, update)
    assert f"weights of version {pair.version} were not loaded over disk" in text
    assert f"reports version '{pair.version - 1}'" in text


@pytest.mark.parametrize("wrong", ["shape", "value"])
def test_a_difference_between_trainer_and_engine_is_found(
    pair: Pair, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent is compared with the checkpoint before, and with the engine's tensors after the update."""
    config = pair.config(check_weight_update_equal=True)
    source = pair.source(config)
    whole = source._whole

    def changed() -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in whole():
            if name != "model.layers.1.mlp.up_proj.weight":
                yield name, tensor
            elif wrong == "shape":
                yield name, tensor[1:]
            else:
                yield name, tensor + 1e-6

    begin = source.begin

    def begin_with_changed(stage_alone: bool = False) -> None:
        source._whole = changed
        begin(stage_alone)
        source._whole = whole

    async def update(client: SGLangClient) -> str:
        sync = pair.sync(client, config, source)
        if wrong == "shape":
            source._whole = changed
        else:
            monkeypatch.setattr(source, "begin", begin_with_changed)
        with pytest.raises(WeightUpdateError) as caught:
            await sync.push()
        sync = pair.sync(client, pair.config())
        await pushed(pair, sync)
        assert await pair.gap(client, sync.version) < FLOAT32_TOLERANCE
        return str(caught.value)

    text = run(pair, update)
    if wrong == "shape":
        assert "up_proj.weight has shape [95, 64] instead of [96, 64]" in text
    else:
        assert "1 of" in text and "are not the trainer's: rank 0: model.layers.1.mlp.gate_up_proj.weight" in text


@pytest.mark.parametrize("path", ["group"])
def test_an_engine_that_dies_during_an_update_ends_it_with_the_reason(pair: Pair, path: str, tmp_path: Path) -> None:
    """Last in this file: it ends the shared server."""
    config = pair.config(**PATHS[path](tmp_path), update_weight_buffer_size=20_000)
    source = pair.source(config)
    send, calls = source.send, []

    def kill_at_the_third() -> None:
        calls.append(0)
        if len(calls) == 3:
            os.kill(pair.engine.engine.pids()[0], signal.SIGKILL)
        send()

    source.send = kill_at_the_third  # type: ignore[method-assign]

    async def update(client: SGLangClient) -> str:
        sync = pair.sync(client, config, source)
        with pytest.raises(WeightUpdateError) as caught:
            await asyncio.wait_for(sync.push(), timeout=60)
        assert sync.version == pair.version
        return str(caught.value)

    text = run(pair, update)
    assert f"The version stays {pair.version}; {pair.url} does not answer" in text
    assert "process group (gloo)" in text
