"""The protocol between generation loops and whatever samples tokens: the SGLang client, or a small model in tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample one response; names are SGLang's.

    Attributes:
        max_new_tokens: limit in tokens, at least 1.
        temperature: 0 means greedy.
        top_p: kept probability mass, (0, 1].
        top_k: kept candidates, -1 for all.
        stop_token_ids: ids that end a response besides the tokenizer's own end token.
    """

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    stop_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Generation:
    """One response.

    Attributes:
        output_ids: generated token ids, the end token included.
        logprobs: natural-log probability of each output id under the sampler; same length.
        finish_reason: "stop" = end token, "length" = token limit, "abort" = cancelled, what came so far is kept.
        weight_version: version of the weights that generated it.
    """

    output_ids: list[int]
    logprobs: list[float]
    finish_reason: FinishReason
    weight_version: str


class GenerateClient(Protocol):
    """Samples token ids for token ids."""

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        """Sample one response to `input_ids`; `rid` is the request's unique name, by which `abort` finds it."""
        ...

    async def abort(self, rid: str) -> None:
        """Cancel the request `rid`. An unknown or finished `rid` is not an error."""
        ...
