"""Samples from prompt to response: budget, request, retries, and what happens to a response that is cut off."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slime.data.routes import RoutesError, common_start, joined
from slime.data.sample import Sample, Status
from slime.rollout.client import GenerateClient, Generation, SamplingParams
from slime.rollout.errors import RolloutError
from slime.rollout.seeds import request_seed
from slime.rollout.text import TextTools

STATUS = {"stop": Status.COMPLETED, "length": Status.TRUNCATED, "abort": Status.ABORTED}
FINISHED = (Status.COMPLETED, Status.TRUNCATED)
# A log-probability so low that its token has no weight, and finite, so that a masked term stays a number.
NO_MASS = -50.0
REQUEST_NUMBERS = itertools.count()
# An abort that overtakes its request on the way to the engine is lost, so it is repeated.
ABORT_AGAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """How samples are asked for; names are the flags' where there is one.

    Attributes:
        sampling: for every request; `max_new_tokens` is the limit of a whole response, ``--rollout-max-response-len``.
        concurrency: requests in flight, ``--sglang-server-concurrency`` times engines.
        max_context_len: limit of prompt and response together, in tokens; None = none.
        rollout_seed: seed of all request seeds; None leaves the draw to the server.
        partial_rollout: keep what a stopped sample has, to go on from there in another round.
        mask_offpolicy_in_partial_rollout: then leave the part of the earlier round out of the loss.
        max_attempts: how often a sample is begun. An engine aborts on its own, for example while its weights change.
        name: what is sampled for; part of request names and seeds.
    """

    sampling: SamplingParams
    concurrency: int
    max_context_len: int | None = None
    rollout_seed: int | None = None
    partial_rollout: bool = False
    mask_offpolicy_in_partial_rollout: bool = False
    max_attempts: int = 3
    name: str = "rollout"


class SampleRunner:
    """Runs samples against a client, at most `concurrency` requests at a time.

    Attributes:
        generated_tokens: so far, those of responses that were thrown away included.
        stopping: no further request is made.
        replaced: `id` of samples whose trajectory lives on in other objects; these have no state to continue from.
    """

    def __init__(self, client: GenerateClient, text: TextTools, options: RunnerOptions) -> None:
        if options.concurrency < 1:
            raise ValueError(f"concurrency is {options.concurrency}; at least one request must be in flight.")
        if options.sampling.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {options.sampling.max_new_tokens}; a response has at least 1 token.")
        self.client = client
        self.text = text
        self.options = options
        self.generated_tokens = 0
        self.stopping = False
        self.replaced: set[int] = set()
        self._slots = asyncio.Semaphore(options.concurrency)
        self._in_flight: dict[int, str] = {}
        self._idle, self._open = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._open.set()
        self._holds = 0

    async def run(self, sample: Sample) -> list[Sample]:
        """Generate the response of `sample` in place; a sample that is finished already is left as it is.

        Returns:
            The sample, with the status completed, truncated or aborted. (A list, because a generation function of the
            user's may give back a trajectory in pieces.)

        Raises:
            RolloutError: the prompt leaves no room for a response, or the client's answer breaks its contract.
        """
        if sample.status in FINISHED:
            return [sample]
        self._resume(sample)
        attempts = 0
        while attempts < self.options.max_attempts and not self.stopping:
            holds = self._holds
            pieces = await self._trajectory(sample)
            if all(piece.status in FINISHED for piece in pieces):
                for piece in pieces:
                    _cover_likeliest(piece, piece.rollout_topk_token_ids)
                    self._check_routes(piece)
                if len(pieces) > 1 or pieces[0] is not sample:
                    self.replaced.add(id(sample))
                return pieces
            if self.stopping:
                break
            if not self.options.partial_rollout:
                reset(sample)
            elif self._holds > holds:
                self._resume(sample)
            attempts += self._holds == holds  # what `hold` cut off is no failed attempt
        self._suspend(sample)
        return [sample]

    async def _trajectory(self, sample: Sample) -> list[Sample]:
        """One attempt: the whole response in one request."""
        budget = self.budget(sample)
        if budget == 0:
            sample.status = Status.TRUNCATED
            return [sample]
        sampling = replace(self.options.sampling, max_new_tokens=budget)
        self.append(sample, await self.request(sample, sample.tokens, sampling))
        sample.response = self.text.response_text(sample.tokens[sample.prompt_length :])
        return [sample]

    async def request(self, sample: Sample, input_ids: list[int], sampling: SamplingParams) -> Generation:
        """Ask for tokens after `input_ids`, in the name of `sample`; an empty aborted answer once stopping.

        Raises:
            RolloutError: the answer breaks its contract.
        """
        options = self.options
        sampling = replace(sampling, session=sample.session_id or f"{options.name}-{sample.index}")
        if sampling.routes is not None:
            known = common_start(sample.tokens, sample.rollout_routed_experts, input_ids)
            sampling = replace(sampling, routes=replace(sampling.routes, start=known))
        if sampling.sampling_seed is None and options.rollout_seed is not None:
            seed = request_seed(options.rollout_seed, options.name, sample.index, len(input_ids))
            sampling = replace(sampling, sampling_seed=seed)
        async with self._slots:
            await self._open.wait()
            if self.stopping:
                return Generation([], [], "abort", "")
            # A server may still know the name of an attempt that was dropped, so no two attempts share one.
            number = next(REQUEST_NUMBERS)
            self._in_flight[number] = rid = f"{options.name}-{sample.index}-{number}"
            self._idle.clear()
            try:
                generation = await self.client.generate(list(input_ids), sampling, rid)
            finally:
                del self._in_flight[number]
                if not self._in_flight:
                    self._idle.set()
        self.generated_tokens += len(generation.output_ids)
        _check(sample, generation, sampling.max_new_tokens)
        return generation

    def append(self, sample: Sample, generation: Generation) -> Sample:
        """Add what was generated to the response: ids, log-probs, text, weight version and status."""
        if generation.output_ids:
            _cover_likeliest(sample, generation.top_token_ids)
            sample.append_response_tokens(
                generation.output_ids,
                generation.logprobs,
                text=self.text.response_text(generation.output_ids),
                weight_version=generation.weight_version,
            )
            _append_likeliest(sample, generation)
            _append_routes(sample, generation)
        _count(sample, generation)
        sample.status = STATUS[generation.finish_reason]
        return sample

    async def stop(self) -> None:
        """Start no further request and abort those in flight; the `run` calls then return soon."""
        self.stopping = True
        self._open.set()
        await self._abort()

    async def hold(self) -> None:
        """Send no request until `release`, and wait until none is in flight.

        With ``--partial-rollout`` those in flight are cut off and go on after `release` from what they have; without it
        they are waited for, so that nothing is generated twice.
        """
        self._open.clear()
        self._holds += 1
        while self._in_flight:
            if not self.options.partial_rollout:
                await self._idle.wait()
                continue
            await self._abort()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), ABORT_AGAIN_SECONDS)

    def release(self) -> None:
        """End what `hold` began."""
        self._open.set()

    async def _abort(self) -> None:
        await asyncio.gather(*(self.client.abort(rid) for rid in list(self._in_flight.values())))

    def budget(self, sample: Sample) -> int:
        """Tokens that may still be generated; 0 when the response is as long as it may be."""
        budget = self.options.sampling.max_new_tokens - sample.response_length
        limit = self.options.max_context_len
        if limit is not None:
            if len(sample.tokens) >= limit and sample.response_length == 0:
                raise RolloutError(
                    f"{sample.name()}: the prompt has {len(sample.tokens)} tokens and --rollout-max-context-len is "
                    f"{limit}, so no token is left for a response. Lower --rollout-max-prompt-len below it."
                )
            budget = min(budget, limit - len(sample.tokens))
        return max(budget, 0)

    def _check_routes(self, piece: Sample) -> None:
        if self.options.sampling.routes is not None and piece.rollout_routed_experts is None:
            raise RolloutError(
                f"{piece.name()} has no rollout_routed_experts, which --use-rollout-routing-replay trains with; a "
                "generation function adds what the engine returned with `current().append(sample, generation)`."
            )

    def _resume(self, sample: Sample) -> None:
        """Before a sample goes on with what earlier weights left of it."""
        if self.options.mask_offpolicy_in_partial_rollout and sample.response_length:
            sample.loss_mask = [0] * sample.response_length

    def _suspend(self, sample: Sample) -> None:
        if not self.options.partial_rollout:
            reset(sample)
        sample.status = Status.ABORTED


def _append_likeliest(sample: Sample, generation: Generation) -> None:
    """Add the likeliest ids of each generated position to those of the response, when they were asked for."""
    ids, log_probs = generation.top_token_ids, generation.top_log_probs
    if ids is None or log_probs is None:
        return
    earlier, values = sample.rollout_topk_token_ids, sample.rollout_topk_log_probs
    sample.rollout_topk_token_ids = ids if earlier is None else np.concatenate([earlier, ids])
    sample.rollout_topk_log_probs = log_probs if values is None else np.concatenate([values, log_probs])


def _append_routes(sample: Sample, generation: Generation) -> None:
    """Add the experts of the tokens that the sample had none for; those that it has were there when it was sampled."""
    new, start = generation.routed_experts, generation.routes_start
    if new is None:
        return
    if start + len(new) != len(sample.tokens) - 1:
        raise RolloutError(
            f"{sample.name()} now has {len(sample.tokens)} tokens, and its generation brings the experts of tokens "
            f"{start} to {start + len(new)}: --use-rollout-routing-replay needs generations that continue the sample's "
            "own tokens, all of them."
        )
    try:
        sample.rollout_routed_experts = joined(sample.rollout_routed_experts, start, new)
    except RoutesError as error:
        raise RolloutError(f"{sample.name()}: {error}.") from error


def _cover_likeliest(sample: Sample, like: npt.NDArray[np.int32] | None) -> None:
    """Give tokens that the model did not sample a row of likeliest ids as well, without weight: masked, never read."""
    have = 0 if sample.rollout_topk_token_ids is None else len(sample.rollout_topk_token_ids)
    missing = sample.response_length - have
    if like is None or missing <= 0:
        return
    ids = np.broadcast_to(np.arange(like.shape[1], dtype=np.int32), (missing, like.shape[1]))
    nothing = np.full(ids.shape, NO_MASS, dtype=np.float32)
    _append_likeliest(sample, Generation([], [], "stop", "", ids, nothing))


def _count(sample: Sample, generation: Generation) -> None:
    sample.prefix_cache_info.cached_tokens += generation.cached_tokens
    sample.prefix_cache_info.total_prompt_tokens += generation.prompt_tokens
    if generation.spec is not None:
        for name in ("spec_accept_token_num", "spec_draft_token_num", "spec_verify_ct", "completion_token_num"):
            setattr(sample.spec_info, name, getattr(sample.spec_info, name) + getattr(generation.spec, name))


def reset(sample: Sample) -> None:
    """Back to the bare prompt, as the data source made it. What hooks noted in `metadata` stays."""
    fresh = Sample()
    for name in GENERATED:
        setattr(sample, name, getattr(fresh, name))
    sample.tokens = sample.tokens[: sample.prompt_length]


GENERATED = (
    "response", "response_length", "reward", "verdict", "verdict_reason", "loss_mask", "weight_versions",
    "rollout_log_probs", "teacher_log_probs", "rollout_top_p_token_ids", "rollout_top_p_token_offsets",
    "rollout_topk_token_ids", "rollout_topk_log_probs", "rollout_routed_experts", "status", "remove_sample",
    "train_metadata", "non_generation_time", "spec_info", "prefix_cache_info",
)  # fmt: skip
"""Fields of a sample that generation, hooks and graders fill."""


def _check(sample: Sample, generation: Generation, limit: int) -> None:
    ids, log_probs = generation.output_ids, generation.logprobs
    if len(ids) != len(log_probs):
        raise RolloutError(
            f"{sample.name()}: the engine returned {len(ids)} tokens with {len(log_probs)} log-probs; "
            "training needs one for each token."
        )
    if len(ids) > limit:
        raise RolloutError(f"{sample.name()}: the engine returned {len(ids)} tokens, the request's limit was {limit}.")
