"""A small real language model in NumPy, and a client that samples from it in this process."""

from __future__ import annotations

import asyncio

import numpy as np

from slime.rollout.client import FinishReason, Generation, SamplingParams

CHARACTERS = "0123456789+="
EOS = len(CHARACTERS)
VOCABULARY = EOS + 1


def tokenize(text: str) -> list[int]:
    return [CHARACTERS.index(character) for character in text]


def decode(ids: list[int]) -> str:
    return "".join(CHARACTERS[i] for i in ids if i != EOS)


class Bigram:
    """Next-token logits from a table that a seed fills."""

    def __init__(self, seed: int = 0) -> None:
        self.table = np.random.default_rng(seed).normal(size=(VOCABULARY, VOCABULARY)) * 1.5

    def log_probs(self, last: int, temperature: float, banned: tuple[int, ...] = ()) -> np.ndarray:
        scores = self.table[last] / temperature
        scores[list(banned)] = -np.inf
        shifted = scores - scores.max()
        return shifted - np.log(np.exp(shifted).sum())


class BigramClient:
    """`GenerateClient` over a `Bigram`; the draw depends on the prompt and on how often it was asked, not on timing."""

    def __init__(self, model: Bigram, version: str = "0") -> None:
        self.model = model
        self.version = version
        self.asked: dict[tuple[int, ...], int] = {}
        self.aborted: set[str] = set()
        self.in_flight = self.most_in_flight = 0

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            count = self.asked[tuple(input_ids)] = self.asked.get(tuple(input_ids), -1) + 1
            seed = [count, *input_ids] if sampling.sampling_seed is None else [sampling.sampling_seed]
            return await self._sample(input_ids, sampling, rid, np.random.default_rng(seed))
        finally:
            self.in_flight -= 1

    async def _sample(
        self, prompt: list[int], sampling: SamplingParams, rid: str, draw: np.random.Generator
    ) -> Generation:
        ids: list[int] = []
        log_probs: list[float] = []
        reason: FinishReason = "length"
        last = prompt[-1]
        while len(ids) < sampling.max_new_tokens:
            await asyncio.sleep(0)
            if rid in self.aborted:
                reason = "abort"
                break
            row = self.model.log_probs(last, sampling.temperature, sampling.banned_token_ids)
            last = int(draw.choice(VOCABULARY, p=np.exp(row)))
            ids.append(last)
            log_probs.append(float(row[last]))
            if last == EOS or last in sampling.stop_token_ids:
                reason = "stop"
                break
        return Generation(ids, log_probs, reason, self.version)

    async def abort(self, rid: str) -> None:
        self.aborted.add(rid)
