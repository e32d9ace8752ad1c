"""One sample from prompt to response: budget, request, retry after an abort, and the fields that follow from it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace

from slime.data.sample import Sample, Status
from slime.rollout.client import GenerateClient, Generation, SamplingParams
from slime.rollout.errors import RolloutError

Decode = Callable[[list[int]], str]
STATUS = {"stop": Status.COMPLETED, "length": Status.TRUNCATED, "abort": Status.ABORTED}
# An engine aborts on its own, for example while its weights change; then the sample is asked for again.
MAX_ATTEMPTS = 3
REQUEST_NUMBERS = itertools.count()


class SampleRunner:
    """Runs samples against a client, at most `concurrency` at a time."""

    def __init__(
        self,
        client: GenerateClient,
        decode: Decode,
        sampling: SamplingParams,
        concurrency: int,
        max_context_len: int | None = None,
        name: str = "rollout",
    ) -> None:
        """
        Args:
            client: samples token ids.
            decode: ids of a response to text, without special tokens.
            sampling: for every request; `max_new_tokens` is the limit of a response.
            concurrency: requests in flight.
            max_context_len: limit of prompt and response together, in tokens; None = none.
            name: beginning of every request name, for the server's log.
        """
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; at least one request must be in flight.")
        if sampling.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {sampling.max_new_tokens}; a response has at least 1 token.")
        self.client = client
        self.decode = decode
        self.sampling = sampling
        self.max_context_len = max_context_len
        self.name = name
        self.generated_tokens = 0
        self._slots = asyncio.Semaphore(concurrency)
        self._in_flight: dict[int, str] = {}
        self._stopping = False

    async def run(self, sample: Sample) -> None:
        """Generate the response of `sample` in place. Afterwards its status is completed, truncated or aborted.

        Raises:
            RolloutError: if the prompt leaves no room for a response, or the client's answer breaks its contract.
        """
        budget = self._budget(sample)
        for _ in range(MAX_ATTEMPTS):
            async with self._slots:
                if self._stopping:
                    break
                generation = await self._request(sample, budget)
            _append(sample, generation, budget, self.decode)
            self.generated_tokens += len(generation.output_ids)
            if sample.status is not Status.ABORTED:
                return
            reset(sample)
        sample.status = Status.ABORTED

    async def stop(self) -> None:
        """Start no further request and abort those in flight; the `run` calls then return soon."""
        self._stopping = True
        await asyncio.gather(*(self.client.abort(rid) for rid in list(self._in_flight.values())))

    async def _request(self, sample: Sample, budget: int) -> Generation:
        # A server may still know the name of an attempt that was dropped, so no two attempts share one.
        rid = f"{self.name}-{sample.index}-{next(REQUEST_NUMBERS)}"
        self._in_flight[id(sample)] = rid
        try:
            sampling = replace(self.sampling, max_new_tokens=budget)
            return await self.client.generate(list(sample.tokens), sampling, rid)
        finally:
            del self._in_flight[id(sample)]

    def _budget(self, sample: Sample) -> int:
        budget = self.sampling.max_new_tokens
        if self.max_context_len is not None:
            budget = min(budget, self.max_context_len - len(sample.tokens))
        if budget < 1:
            raise RolloutError(
                f"{sample.name()}: the prompt has {len(sample.tokens)} tokens and --rollout-max-context-len is "
                f"{self.max_context_len}, so no token is left for a response. Lower --rollout-max-prompt-len below it."
            )
        return budget


def reset(sample: Sample) -> None:
    """Back to the bare prompt, as the data source made it."""
    sample.tokens = sample.tokens[: sample.prompt_length]
    sample.response, sample.response_length = "", 0
    sample.rollout_log_probs, sample.weight_versions = None, []
    sample.reward, sample.verdict, sample.verdict_reason = None, None, ""
    sample.status = Status.PENDING


def _append(sample: Sample, generation: Generation, budget: int, decode: Decode) -> None:
    ids, log_probs = generation.output_ids, generation.logprobs
    if len(ids) != len(log_probs):
        raise RolloutError(
            f"{sample.name()}: the engine returned {len(ids)} tokens with {len(log_probs)} log-probs; "
            "training needs one for each token."
        )
    if len(ids) > budget:
        raise RolloutError(f"{sample.name()}: the engine returned {len(ids)} tokens, the request's limit was {budget}.")
    sample.tokens = sample.tokens + list(ids)
    sample.response = decode(list(ids))
    sample.response_length = len(ids)
    sample.rollout_log_probs = list(log_probs)
    sample.weight_versions = [generation.weight_version]
    sample.status = STATUS[generation.finish_reason]
