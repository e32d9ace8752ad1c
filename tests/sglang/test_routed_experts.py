"""The experts that an engine returns: read from its answers, and the real engine's on a CPU against transformers'."""

from __future__ import annotations

import asyncio
import base64
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from slime.data.routes import RoutesError, RouteShape
from slime.rollout.client import Generation, RouteRequest, SamplingParams
from slime.sglang.client import SGLangClient
from slime.sglang.engine import EngineProcess
from slime.sglang.launch import EngineSpec
from slime.sglang.routes import read_routes, request_fields

SHAPE = RouteShape(layers=3, with_experts=(0, 1, 2), chosen=2, count=8)


def encoded(routes: np.ndarray) -> str:
    return base64.b64encode(routes.astype("<i4").tobytes()).decode()


def test_an_answer_is_read_into_small_integers() -> None:
    routes = np.stack([np.arange(24).reshape(4, 3, 2) % 8] * 1)[0]
    asked = RouteRequest(SHAPE, start=2)
    assert request_fields(asked) == {"return_routed_experts": True, "routed_experts_start_len": 2}
    assert request_fields(None) == {}
    found = read_routes({"routed_experts": encoded(routes)}, asked, tokens=7)
    assert found.dtype == np.uint8 and np.array_equal(found, routes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "the answer has no routed_experts, .* needs --enable-return-routed-experts"),
        (
            "gASVKAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjA==",
            "31 bytes; 4 tokens of 3 layers with 2 experts each have 96",
        ),
        ("no base64", "routed_experts is no base64"),
        (encoded(np.zeros((4, 3, 2))), r"token 0 goes to the experts \[0, 0\] in layer 0, one of them twice"),
        (encoded(np.full((4, 3, 2), [0, 9])), r"token 0 goes to the experts \[0, 9\] in layer 0, and a layer has 8"),
        (encoded(np.full((4, 3, 2), [-1, 1])), r"token 0 goes to the experts \[-1, 1\] in layer 0, and a layer has 8"),
        (
            encoded(np.full((4, 4, 2), [0, 1])),
            "has 128 bytes; .* have 96, .*: engine and --hf-checkpoint are of",
        ),
    ],
)
def test_what_does_not_fit_is_refused(text: str | None, message: str) -> None:
    meta: dict[str, Any] = {} if text is None else {"routed_experts": text}
    with pytest.raises(RoutesError, match=message):
        read_routes(meta, RouteRequest(SHAPE), tokens=5)


@pytest.fixture(scope="module")
def moe_folder(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random mixture of experts of Qwen3's architecture, with the tokenizer of the other tests' model."""
    folder = tmp_path_factory.mktemp("moe")
    for path in model_folder.glob("tokenizer*"):
        shutil.copy(path, folder)
    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=320,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        initializer_range=0.2,
        moe_intermediate_size=48,
        num_experts_per_tok=2,
        num_experts=8,
        norm_topk_prob=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    Qwen3MoeForCausalLM(config).to(torch.float32).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def moe_engine(moe_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    spec = EngineSpec(
        str(moe_folder), device="cpu", start_seconds=150, arguments={"enable-return-routed-experts": True}
    )
    with EngineProcess(spec, tmp_path_factory.mktemp("moe-engine") / "server.log") as process:
        yield process


@pytest.mark.runtime
@pytest.mark.slow
def test_the_engine_returns_the_experts_of_every_token(moe_engine: EngineProcess, moe_folder: Path) -> None:
    """Prompt and response; many at once; a prefix that is in the cache; from a later token on; and after an abort."""
    reference = Qwen3MoeForCausalLM.from_pretrained(moe_folder, dtype=torch.float32).eval()
    prompts = [[10 + i, 20, 30 + i, 40][: 2 + i % 3] for i in range(9)]

    def sampling(tokens: int, start: int = 0) -> SamplingParams:
        return SamplingParams(tokens, banned_token_ids=(2,), routes=RouteRequest(SHAPE, start))

    async def run() -> list[tuple[list[int], Generation]]:
        async with SGLangClient([moe_engine.url], retries=0) as client:
            first = await asyncio.gather(*(client.generate(p, sampling(8), f"a{i}") for i, p in enumerate(prompts)))
            found = list(zip(prompts, first, strict=True))
            longer = [[*prompt, *one.output_ids, 7, 8] for prompt, one in found]  # as a tool's answer would make them
            starts = [len(one) - 3 for one in longer]
            second = await asyncio.gather(
                *(
                    client.generate(p, sampling(5, s), f"b{i}")
                    for i, (p, s) in enumerate(zip(longer, starts, strict=True))
                )
            )
            found += zip(longer, second, strict=True)
            long = asyncio.create_task(client.generate([5, 6], sampling(250), "long"))
            await asyncio.sleep(0.3)
            await client.abort("long")
            return [*found, ([5, 6], await long)]

    answers = asyncio.run(run())
    assert answers[-1][1].finish_reason == "abort" and 0 < len(answers[-1][1].output_ids) < 250
    for prompt, found in answers:
        tokens = [*prompt, *found.output_ids]
        routes, start = found.routed_experts, found.routes_start
        assert routes is not None and start == (len(prompt) - 3 if prompt[-2:] == [7, 8] else 0)
        assert len(routes) == len(tokens) - 1 - start
        for layer, expected in enumerate(chosen(reference, tokens)):
            assert np.array_equal(np.sort(routes[:, layer]), np.sort(expected[start:-1])), (prompt, layer)


def chosen(model: Any, tokens: list[int]) -> list[np.ndarray]:
    """The experts of every token by transformers, for each layer."""
    found: list[np.ndarray] = []

    def keep(*arguments: Any) -> None:
        found.append(arguments[2][2].numpy())

    hooks: list[Callable[[], None]] = [
        layer.mlp.gate.register_forward_hook(keep).remove for layer in model.model.layers
    ]
    with torch.no_grad():
        model(torch.tensor([tokens]))
    for remove in hooks:
        remove()
    return found
