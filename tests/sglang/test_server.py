"""The real SGLang server on a CPU, against Hugging Face's own computation on the same weights. One server for all."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import torch
from transformers import Qwen3ForCausalLM

from slime.ports import PortBusyError
from slime.rollout.client import Generation, SamplingParams
from slime.sglang.client import SGLangClient
from slime.sglang.control import EngineControl
from slime.sglang.engine import EngineError, EngineProcess
from slime.sglang.http import RequestError
from slime.sglang.launch import EngineSpec
from slime.weights.delta import VersionNote
from slime.weights.hf_config import read_config
from slime.weights.hf_io import HFCheckpoint
from slime.weights.served import ServedCheckpoint
from slime.weights.transport import LOAD_FORMAT, SharedBuffer, check_same_tensors, pack, split_buckets
from slime.weights.transport_disk import write_version

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

Answer = TypeVar("Answer")
PROMPTS = [[10, 20, 30], [40, 50], [60, 70, 80, 90, 100]]
# Sums in another order differ in the last bits of float32; a stale weight differs by 0.01 and more.
FLOAT32_TOLERANCE = 5e-6


def with_client(engine: EngineProcess, work: Callable[[SGLangClient], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        async with SGLangClient([engine.url], retries=0) as client:
            return await work(client)

    return asyncio.run(run())


async def sample(client: SGLangClient, tag: str) -> list[Generation]:
    sampling = SamplingParams(max_new_tokens=8)
    return list(await asyncio.gather(*(client.generate(ids, sampling, f"{tag}-{i}") for i, ids in enumerate(PROMPTS))))


@torch.no_grad()
def largest_gap(model: Qwen3ForCausalLM, generations: list[Generation]) -> float:
    """The largest |engine - Hugging Face| over all sampled tokens."""
    gap = 0.0
    for prompt, generation in zip(PROMPTS, generations, strict=True):
        ids = torch.tensor([prompt + generation.output_ids])
        log_probs = model(ids).logits[0].log_softmax(-1)
        places = torch.arange(len(prompt) - 1, len(prompt) - 1 + len(generation.output_ids))
        expected = log_probs[places, torch.tensor(generation.output_ids)]
        gap = max(gap, (expected - torch.tensor(generation.logprobs)).abs().max().item())
    return gap


@pytest.fixture
def reference(model_folder: Path) -> Qwen3ForCausalLM:
    return Qwen3ForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()


def moved(model: Qwen3ForCausalLM, seed: int) -> list[tuple[str, torch.Tensor]]:
    """Change every weight, as a training step would, and return them by name."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return list(model.named_parameters())


async def push(control: EngineControl, named: list[tuple[str, torch.Tensor]], version: str, limit: int) -> int:
    """Send weights through shared memory; returns the number of buckets."""
    buffer = SharedBuffer()
    buckets = list(split_buckets(named, limit))
    await control.pause()
    await control.begin_update()
    for number, bucket in enumerate(buckets, start=1):
        await control.load_bucket(pack(bucket, buffer), LOAD_FORMAT, version if number == len(buckets) else None)
    await control.end_update()
    await control.resume()
    return len(buckets)


def test_sampled_log_probs_are_those_of_the_model(engine: EngineProcess, reference: Qwen3ForCausalLM) -> None:
    generations = with_client(engine, lambda client: sample(client, "plain"))
    assert [len(one.output_ids) for one in generations] == [8, 8, 8] or all(
        one.finish_reason == "stop" for one in generations if len(one.output_ids) < 8
    )
    assert largest_gap(reference, generations) < FLOAT32_TOLERANCE


def test_greedy_generation_is_the_most_likely_token(engine: EngineProcess, reference: Qwen3ForCausalLM) -> None:
    greedy = SamplingParams(max_new_tokens=6, temperature=0.0)
    answer = with_client(engine, lambda client: client.generate(PROMPTS[0], greedy, "greedy"))
    ids = list(PROMPTS[0])
    with torch.no_grad():
        for token in answer.output_ids:
            assert token == reference(torch.tensor([ids])).logits[0, -1].argmax().item()
            ids.append(token)


def test_a_seed_fixes_the_tokens_of_its_request(engine: EngineProcess) -> None:
    """Whatever runs beside it, and whatever was sampled before: order, concurrency and repetition do not matter."""

    async def all_of(client: SGLangClient, seeds: list[int], tag: str) -> dict[int, list[int]]:
        works = [
            client.generate(PROMPTS[0], SamplingParams(max_new_tokens=12, sampling_seed=seed), f"{tag}-{seed}")
            for seed in seeds
        ]
        return {seed: one.output_ids for seed, one in zip(seeds, await asyncio.gather(*works), strict=True)}

    async def run(client: SGLangClient) -> tuple[dict[int, list[int]], dict[int, list[int]], dict[int, list[int]]]:
        seeds = [2**62 + number for number in range(12)]
        together = await all_of(client, seeds, "together")
        backwards = await all_of(client, seeds[::-1], "backwards")
        alone: dict[int, list[int]] = {}
        for seed in seeds[:4]:
            alone |= await all_of(client, [seed], "alone")
        return together, backwards, alone

    together, backwards, alone = with_client(engine, run)
    assert together == backwards
    assert alone == {seed: together[seed] for seed in alone}
    assert len({tuple(ids) for ids in together.values()}) == 12


@pytest.mark.parametrize("limit", [2**30, 20_000], ids=["one bucket", "many buckets"])
def test_an_update_through_shared_memory_replaces_the_weights(
    engine: EngineProcess, reference: Qwen3ForCausalLM, limit: int
) -> None:
    version = f"memory-{limit}"
    named = moved(reference, seed=limit % 97)

    async def update(client: SGLangClient) -> tuple[float, float, str, int]:
        before = largest_gap(reference, await sample(client, "stale"))
        buckets = await push(client.controls[0], named, version, limit)
        after = await sample(client, "fresh")
        assert {one.weight_version for one in after} == {version}
        return before, largest_gap(reference, after), await client.controls[0].weight_version(), buckets

    before, after, reported, buckets = with_client(engine, update)
    assert before > 0.01
    assert after < FLOAT32_TOLERANCE
    assert reported == version
    assert (buckets == 1) == (limit == 2**30)


def test_noise_is_gone_after_an_update(engine: EngineProcess, reference: Qwen3ForCausalLM) -> None:
    """Every tensor that the server holds is replaced: its checksums return to what they were."""

    async def prove(client: SGLangClient) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        control = client.controls[0]
        named = moved(reference, seed=5)
        await push(control, named, "first", 2**30)
        first = await control.checksums()
        await control.scramble()
        noise = await control.checksums()
        await push(control, named, "second", 2**30)
        return first, noise, await control.checksums()

    first, noise, second = with_client(engine, prove)
    assert first == second
    assert len(first) > 10
    assert all(first[name] != noise[name] for name in first)


def test_an_update_from_disk_replaces_the_weights(
    engine: EngineProcess, reference: Qwen3ForCausalLM, model_folder: Path, tmp_path: Path
) -> None:
    served = ServedCheckpoint(model_folder, read_config(model_folder))
    folder = write_version(tmp_path, VersionNote(7, "full"), moved(reference, seed=11), served)

    async def update(client: SGLangClient) -> list[Generation]:
        control = client.controls[0]
        await control.pause()
        await control.update_from_disk(str(folder), "disk-7")
        await control.resume()
        return await sample(client, "disk")

    generations = with_client(engine, update)
    assert {one.weight_version for one in generations} == {"disk-7"}
    assert largest_gap(reference, generations) < FLOAT32_TOLERANCE


def test_a_failed_update_leaves_the_old_version(engine: EngineProcess, tmp_path: Path) -> None:
    async def fail(client: SGLangClient) -> tuple[str, str, RequestError]:
        control = client.controls[0]
        before = await control.weight_version()
        with pytest.raises(RequestError) as caught:
            await control.update_from_disk(str(tmp_path), "never")
        return before, await control.weight_version(), caught.value

    before, after, error = with_client(engine, fail)
    assert before == after != "never"
    assert error.status == 400


def test_the_names_and_shapes_of_the_checkpoint_are_the_engine_s(
    reference: Qwen3ForCausalLM, model_folder: Path
) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in reference.named_parameters()}
    check_same_tensors(shapes, HFCheckpoint(model_folder).shapes, str(model_folder))


def test_an_aborted_request_returns_what_it_has(engine: EngineProcess) -> None:
    async def cut(client: SGLangClient) -> Generation:
        work = asyncio.create_task(client.generate([5, 6], SamplingParams(max_new_tokens=240), "long"))
        while "long" not in client._sent:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        await client.abort("long")
        await client.abort("unknown")
        return await work

    for _ in range(5):  # a random model may end a response by itself
        answer = with_client(engine, cut)
        if answer.finish_reason != "stop":
            break
    assert answer.finish_reason == "abort"
    assert len(answer.output_ids) == len(answer.logprobs) < 240


@pytest.mark.parametrize(
    ("ids", "sampling", "words"),
    [
        ([5] * 400, SamplingParams(max_new_tokens=4), "longer than the model's context length"),
        ([5], SamplingParams(max_new_tokens=4, top_p=3.0), "top_p"),
    ],
    ids=["too long", "bad value"],
)
def test_a_refusal_carries_the_server_s_words(
    engine: EngineProcess, ids: list[int], sampling: SamplingParams, words: str
) -> None:
    with pytest.raises(RequestError, match=words) as caught:
        with_client(engine, lambda client: client.generate(ids, sampling, "refused"))
    assert caught.value.status == 400
    assert not caught.value.retryable


def test_a_busy_port_is_refused_before_anything_starts(model_folder: Path, tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        spec = EngineSpec(str(model_folder), device="cpu", port=listener.getsockname()[1])
        process = EngineProcess(spec, tmp_path / "log")
        with pytest.raises(PortBusyError, match="--sglang-port"):
            process.start()
    assert process.pids() == []


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    process = EngineProcess(EngineSpec(str(tmp_path), device="cpu", start_seconds=120), tmp_path / "log")
    process.start()
    with pytest.raises(EngineError) as caught:
        process.wait_ready()
    assert "ended with exit code" in str(caught.value) or "was killed" in str(caught.value)
    assert str(tmp_path / "log") in str(caught.value)
    assert "config.json" in str(caught.value) or "Unrecognized model" in str(caught.value)
    assert process.pids() == []


def test_a_server_that_takes_too_long_is_ended(model_folder: Path, tmp_path: Path) -> None:
    process = EngineProcess(EngineSpec(str(model_folder), device="cpu", start_seconds=0.5), tmp_path / "log")
    process.start()
    with pytest.raises(EngineError, match=r"no answer within 0 s|no answer within 1 s"):
        process.wait_ready()
    assert process.pids() == []


def test_a_killed_server_is_noticed_and_leaves_nothing(engine: EngineProcess) -> None:
    """Last in this file: it ends the shared server."""
    pids = engine.pids()
    assert len(pids) >= 3
    os.kill(pids[0], signal.SIGKILL)
    deadline = time.monotonic() + 30
    while engine.failure() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "was killed by signal 9" in str(engine.failure())
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()
