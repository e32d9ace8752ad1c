"""The protocol between generation loops and whatever samples tokens: the SGLang client, or a small model in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from slime.data.routes import Routes, RouteShape
from slime.data.sample_types import SpecInfo

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class RouteRequest:
    """Asks for the experts that tokens go through (--use-rollout-routing-replay).

    Attributes:
        shape: what they must look like.
        start: number of the first token whose experts are wanted; those before are known.
    """

    shape: RouteShape
    start: int = 0


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample one response; names are SGLang's.

    Attributes:
        max_new_tokens: limit in tokens, at least 1.
        temperature: 0 means greedy.
        top_p: kept probability mass, (0, 1].
        top_k: kept candidates, -1 for all.
        stop: strings that end a response; the response keeps the string (``no_stop_trim``).
        stop_token_ids: ids that end a response besides the tokenizer's own end token; the response keeps the id.
        min_new_tokens: tokens before an end token may be sampled.
        repetition_penalty: 1.0 = none.
        skip_special_tokens: of the text that a server decodes, which stop strings are compared with.
        sampling_seed: fixes the draw of this request on servers that sample per request; None = the server's own.
        banned_token_ids: ids that are never sampled.
        top_logprobs_num: likeliest ids whose log-probs come back at each position; 0 = none. A field of the request,
            not of its sampling parameters.
        routes: the experts of every token come back as well; likewise a field of the request. None = not asked for.
        session: requests of one session, such as the turns of a trajectory, go to one engine where possible, which has
            their beginning in its cache. Not a sampling parameter either; None = any engine.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    min_new_tokens: int = 0
    repetition_penalty: float = 1.0
    skip_special_tokens: bool = False
    sampling_seed: int | None = None
    banned_token_ids: tuple[int, ...] = ()
    top_logprobs_num: int = 0
    routes: RouteRequest | None = None
    session: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The parameters as SGLang's ``/generate`` takes them, JSON-ready; what is at SGLang's default is left out."""
        values: dict[str, Any] = {
            "max_new_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
        }
        optional: dict[str, Any] = {
            "stop": list(self.stop),
            "stop_token_ids": list(self.stop_token_ids),
            "min_new_tokens": self.min_new_tokens,
            "logit_bias": {str(token): BAN for token in self.banned_token_ids},
        }
        values |= {name: value for name, value in optional.items() if value}
        if self.stop:
            # Text decides where to stop, so the server must decode as the loop does, and keep what it stopped at.
            values |= {
                "skip_special_tokens": self.skip_special_tokens,
                "spaces_between_special_tokens": False,
                "no_stop_trim": True,
            }
        if self.repetition_penalty != 1.0:
            values["repetition_penalty"] = self.repetition_penalty
        if self.sampling_seed is not None:
            values["sampling_seed"] = self.sampling_seed
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SamplingParams:
        """Inverse of `to_dict`, for hooks that change the mapping before they ask for tokens.

        Raises:
            ValueError: for a key that this class does not know, or a missing ``max_new_tokens``.
        """
        given = dict(values)
        for name in ("spaces_between_special_tokens", "no_stop_trim"):
            given.pop(name, None)
        bias = given.pop("logit_bias", {})
        if any(value != BAN for value in bias.values()):
            raise ValueError(f"logit_bias {bias}: only {BAN}, which bans a token, keeps log-probs usable for training.")
        known = set(cls.__dataclass_fields__)
        unknown = sorted(given.keys() - known)
        if unknown:
            raise ValueError(f"sampling parameter {unknown[0]!r} is not known; known: {', '.join(sorted(known))}.")
        if "max_new_tokens" not in given:
            raise ValueError("sampling parameters need max_new_tokens, the limit of the response in tokens.")
        stop = given.pop("stop", ())
        return cls(
            **{name: value for name, value in given.items() if name != "stop_token_ids"},
            stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
            stop_token_ids=tuple(given.get("stop_token_ids") or ()),
            banned_token_ids=tuple(int(token) for token in bias),
        )


BAN = -1000.0
"""A bias under which no float32 softmax leaves any probability."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One response.

    Attributes:
        output_ids: generated token ids, the end token included.
        logprobs: natural-log probability of each output id under the sampler; same length.
        finish_reason: "stop" = end token, "length" = token limit, "abort" = cancelled, what came so far is kept.
        weight_version: version of the weights that generated it.
        top_token_ids: int32 [len(output_ids), k] the likeliest ids at each position, when they were asked for.
        top_log_probs: float32, their natural-log probabilities.
        prompt_tokens: tokens of the request.
        cached_tokens: those of them that the engine's prefix cache held.
        spec: counters of speculative decoding, where there was any.
        routed_experts: int [tokens - 1 - start, layers, top-k], when they were asked for: the experts of every token of
            prompt and response from `routes_start` on, but for the last, which was routed nowhere yet.
    """

    output_ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    weight_version: str
    top_token_ids: npt.NDArray[np.int32] | None = None
    top_log_probs: npt.NDArray[np.float32] | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    spec: SpecInfo | None = None
    routed_experts: Routes | None = None
    routes_start: int = 0


class GenerateClient(Protocol):
    """Samples token ids for token ids."""

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        """Sample one response to `input_ids`; `rid` is the request's unique name, by which `abort` finds it."""
        ...

    async def abort(self, rid: str) -> None:
        """Cancel the request `rid`. An unknown or finished `rid` is not an error."""
        ...
