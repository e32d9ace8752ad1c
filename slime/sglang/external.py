"""Engines that somebody else runs: found at their addresses, asked what they are, and refused when they do not fit.

They are never started, restarted, offloaded or stopped here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from slime.sglang.http import RequestError, request_json

# Of config.json: what must be the same for the trainer's weights to fit, and for its token ids to mean the same.
DIMENSIONS = (
    "model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
    "head_dim", "intermediate_size", "moe_intermediate_size", "n_routed_experts", "num_experts", "num_local_experts",
    "tie_word_embeddings",
)  # fmt: skip


class ExternalEngineError(RuntimeError):
    """An engine at an address of ``--rollout-external-engine-addrs`` does not answer, or does not fit the run."""


@dataclass(frozen=True)
class ExternalEngine:
    """What an engine says of itself.

    Attributes:
        url: its base URL.
        kind: "regular", "prefill" or "decode".
        model_path: the folder that it loaded, on its own host.
        model_type: the family in that folder's config.json.
        gpus: of one copy of the model: tensor parallel times pipeline parallel.
        version: of SGLang.
        weight_version: label of the weights that it holds.
        context_length: tokens of prompt and response together; None when it does not say.
        bootstrap_port: where a prefill engine meets decode engines.
    """

    url: str
    kind: str
    model_path: str
    model_type: str
    gpus: int
    version: str
    weight_version: str
    context_length: int | None
    bootstrap_port: int | None


def base_url(address: str) -> str:
    """``host:port``, with or without ``http://``, as a base URL."""
    return address.rstrip("/") if "://" in address else f"http://{address}"


async def discover(session: aiohttp.ClientSession, addresses: Sequence[str]) -> list[ExternalEngine]:
    """Ask every address what runs there, all at once.

    Raises:
        ExternalEngineError: one does not answer, or what answers is not an SGLang server that generates.
    """
    return list(await asyncio.gather(*(_ask(session, base_url(address)) for address in addresses)))


async def _ask(session: aiohttp.ClientSession, url: str) -> ExternalEngine:
    server = await _first(session, url, ("/server_info", "/get_server_info"))
    model = await _first(session, url, ("/model_info", "/get_model_info"))
    listed = await _first(session, url, ("/v1/models",))
    try:
        if not model["is_generation"]:
            raise ExternalEngineError(f"the engine at {url} embeds text and generates none")
        mode = server.get("disaggregation_mode") or "null"
        return ExternalEngine(
            url=url,
            kind="regular" if mode == "null" else mode,
            model_path=model["model_path"],
            model_type=model.get("model_type") or "",
            gpus=server["tp_size"] * server.get("pp_size", 1),
            version=server.get("version") or "",
            weight_version=str(model["weight_version"]),
            context_length=next((one.get("max_model_len") for one in listed.get("data", ())), None),
            bootstrap_port=server.get("disaggregation_bootstrap_port") if mode == "prefill" else None,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ExternalEngineError(f"what answers at {url} is no SGLang server: it does not say {error}") from error


async def _first(session: aiohttp.ClientSession, url: str, paths: Sequence[str]) -> Mapping[str, Any]:
    """The answer of the first path that the server has: their names differ by generation."""
    for path in paths:
        try:
            answer = await request_json(session, "GET", url + path, timeout=30.0)
        except RequestError as error:
            if error.status != 404:
                raise ExternalEngineError(
                    f"no engine answers at {url} of --rollout-external-engine-addrs: {error}"
                ) from error
            continue
        if isinstance(answer, dict):
            return answer
    raise ExternalEngineError(f"what answers at {url} is no SGLang server: it has no {' or '.join(paths)}")


def require_fit(engines: Sequence[ExternalEngine], checkpoint: Path, context_length: int | None) -> None:
    """Refuse engines that cannot take the trainer's weights or its requests.

    What an engine tells is compared; its dimensions and vocabulary are, where its folder can be read from here.

    Args:
        engines: what was discovered.
        checkpoint: the folder ``--hf-checkpoint``.
        context_length: of the run, in tokens; None = not limited.

    Raises:
        ExternalEngineError: with what differs, and the two values.
    """
    ours = _dimensions(checkpoint) or {}
    for engine in engines:
        theirs = _dimensions(Path(engine.model_path)) or {"model_type": engine.model_type}
        wrong = [
            f"{name} {theirs[name]} instead of {ours[name]}"
            for name in DIMENSIONS
            if name in ours and theirs.get(name) not in (None, "", ours[name])
        ]
        if wrong:
            raise ExternalEngineError(
                f"the engine at {engine.url} serves {engine.model_path}, which is not the model of --hf-checkpoint "
                f"{checkpoint}: {', '.join(wrong)}"
            )
        if context_length is not None and engine.context_length is not None and engine.context_length < context_length:
            raise ExternalEngineError(
                f"the engine at {engine.url} takes {engine.context_length} tokens of prompt and response, and the run "
                f"asks for up to {context_length} (--rollout-max-context-len)"
            )
    kinds = {engine.kind for engine in engines}
    if len(kinds & {"prefill", "decode"}) == 1:
        (have,) = kinds & {"prefill", "decode"}
        raise ExternalEngineError(f"the addresses are those of {have} engines alone; they work in pairs")


def _dimensions(folder: Path) -> dict[str, Any] | None:
    """What config.json says; a model of several parts has them under ``text_config``."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return {**config, **(config.get("text_config") or {}), "model_type": config.get("model_type")}
