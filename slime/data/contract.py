"""The contract of a sample, checked at every door. Each refusal names the sample, the field and the numbers.

Nothing here is repaired: a mask that is one entry off would train the wrong tokens without any sign of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from slime.data.routes import needed_rows
from slime.data.sample_types import SampleError, Status

if TYPE_CHECKING:
    from slime.data.sample import Sample

# A sampler's float32 log-softmax may round a certain token to a hair above zero.
LOG_PROB_ROUNDING = 1e-4
# The float32 probabilities of the likeliest ids may add up to a hair above one.
PROBABILITY_ROUNDING = 1e-4


def check_sample(sample: Sample, graded: bool, generated: bool, reward_key: str | None) -> None:
    """See `Sample.check`."""
    _check_numbers(sample)
    _check_status(sample, generated)
    _check_lengths(sample)
    _check_tokens(sample)
    _check_mask(sample)
    _check_log_probs(sample, "rollout_log_probs", sample.rollout_log_probs)
    _check_log_probs(sample, "teacher_log_probs", sample.teacher_log_probs)
    _check_top_p(sample)
    _check_top_k(sample)
    _check_routes(sample)
    _check_mappings(sample)
    if graded and not math.isfinite(value := sample.reward_value(reward_key)):
        _refuse(sample, "reward", f"is {value}", "a graded sample carries a finite number; 0.0 means wrong")


def _refuse(sample: Sample, field: str, found: str, rule: str) -> NoReturn:
    raise SampleError(f"{sample.name()}: {field} {found}; {rule}.")


def _check_numbers(sample: Sample) -> None:
    for field in ("group_index", "index", "rollout_id"):
        value = getattr(sample, field)
        if value is not None and (type(value) is not int or value < 0):
            _refuse(sample, field, f"is {value!r}", "it is a number from 0, or None before the sample has one")
    seconds = sample.non_generation_time
    if not math.isfinite(seconds) or seconds < 0:
        _refuse(sample, "non_generation_time", f"is {seconds}", "it is in seconds, at least 0")


def _check_status(sample: Sample, generated: bool) -> None:
    if not isinstance(sample.status, Status):
        legal = ", ".join(status.value for status in Status)
        _refuse(sample, "status", f"is {sample.status!r}", f"it must be a Status ({legal})")
    if sample.status not in (Status.COMPLETED, Status.TRUNCATED):
        _refuse(sample, "status", f"is {sample.status.value}", "only completed and truncated samples may train")
    if generated and sample.response_length and not sample.weight_versions:
        _refuse(sample, "weight_versions", "is empty", "each generation call records its weight version")
    for version in sample.weight_versions:
        if not isinstance(version, str):
            _refuse(sample, "weight_versions", f"contains {version!r}", "each entry is text, as the engine reports it")


def _check_lengths(sample: Sample) -> None:
    if sample.prompt_length < 1:
        _refuse(sample, "prompt_length", f"is {sample.prompt_length}", "a response token needs a token before it")
    if sample.response_length < 1:
        _refuse(sample, "response_length", f"is {sample.response_length}", "nothing to train on")
    if len(sample.tokens) != sample.prompt_length + sample.response_length:
        _refuse(
            sample,
            "tokens",
            f"has {len(sample.tokens)} ids",
            f"prompt_length {sample.prompt_length} + response_length {sample.response_length} "
            f"= {sample.prompt_length + sample.response_length}",
        )


def _check_tokens(sample: Sample) -> None:
    if sample.tokens and not (set(map(type, sample.tokens)) == {int} and min(sample.tokens) >= 0):
        at, bad = next((i, t) for i, t in enumerate(sample.tokens) if type(t) is not int or t < 0)
        _refuse(sample, "tokens", f"contains {bad!r} at position {at}", "ids are non-negative integers")


def _check_mask(sample: Sample) -> None:
    mask = sample.loss_mask
    if mask is None:
        return
    _check_cover(sample, "loss_mask", mask)
    if not set(mask) <= {0, 1}:
        at, bad = next((i, value) for i, value in enumerate(mask) if value not in (0, 1))
        _refuse(sample, "loss_mask", f"contains {bad!r} at response token {at}", "each entry is 0 or 1")


def _check_cover(sample: Sample, field: str, values: Sized) -> None:
    if len(values) != sample.response_length:
        _refuse(
            sample,
            field,
            f"has {len(values)} entries for {sample.response_length} response tokens",
            "it covers the response alone, never the prompt",
        )


def _check_log_probs(sample: Sample, field: str, values: Sequence[float] | None) -> None:
    if values is None:
        return
    _check_cover(sample, field, values)
    for position, value in enumerate(values):
        if not math.isfinite(value) or value > LOG_PROB_ROUNDING:
            _refuse(sample, f"{field}[{position}]", f"is {value}", "a log-probability is finite and not above 0")


def _check_top_p(sample: Sample) -> None:
    ids, offsets = sample.rollout_top_p_token_ids, sample.rollout_top_p_token_offsets
    if ids is None and offsets is None:
        return
    if ids is None or offsets is None:
        missing = "rollout_top_p_token_ids" if ids is None else "rollout_top_p_token_offsets"
        _refuse(sample, missing, "is missing", "ids and offsets come together")
    field, spans = "rollout_top_p_token_offsets", sample.response_length + 1
    if offsets.shape != (spans,):
        _refuse(sample, field, f"has shape {list(offsets.shape)}", f"it has response_length + 1 = {spans} entries")
    if offsets[0] != 0 or offsets[-1] != len(ids) or bool((np.diff(offsets) < 0).any()):
        _refuse(
            sample,
            field,
            f"runs from {offsets[0]} to {offsets[-1]}",
            f"it rises from 0 to the {len(ids)} ids of rollout_top_p_token_ids",
        )
    response = sample.tokens[sample.prompt_length :]
    for at, (token, trains) in enumerate(zip(response, sample.loss_mask or [1] * len(response), strict=True)):
        if trains and token not in ids[offsets[at] : offsets[at + 1]]:
            _refuse(
                sample,
                "rollout_top_p_token_ids",
                f"lacks the sampled id {token} of response token {at}",
                "nucleus sampling always keeps the token that it samples",
            )


def _check_top_k(sample: Sample) -> None:
    ids, log_probs = sample.rollout_topk_token_ids, sample.rollout_topk_log_probs
    if ids is None and log_probs is None:
        return
    if ids is None or log_probs is None or ids.shape != log_probs.shape or ids.ndim != 2:
        shapes = [None if part is None else list(part.shape) for part in (ids, log_probs)]
        _refuse(sample, "rollout_topk_token_ids", f"and its log-probs have shapes {shapes}", "both are [response, k]")
    _check_cover(sample, "rollout_topk_token_ids", ids)
    ordered = np.sort(ids, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) | (ordered[:, :1] < 0).any(axis=1)
    if bool(repeated.any()):
        at = int(repeated.argmax())
        _refuse(sample, f"rollout_topk_token_ids[{at}]", "repeats an id or has a negative one", "ids are distinct")
    mass = np.exp(log_probs.astype(np.float64)).sum(axis=1)
    wrong = ~(mass <= 1 + PROBABILITY_ROUNDING)
    if bool(wrong.any()):
        at = int(wrong.argmax())
        _refuse(sample, f"rollout_topk_log_probs[{at}]", f"has mass {mass[at]}", "probabilities add up to at most 1")


def _check_routes(sample: Sample) -> None:
    routes = sample.rollout_routed_experts
    if routes is None:
        return
    most = len(sample.tokens) - 1
    if routes.ndim != 3 or len(routes) > most:
        _refuse(
            sample,
            "rollout_routed_experts",
            f"has shape {list(routes.shape)}",
            f"it is [tokens - 1 = {most}, layers, top-k]: the last token is routed nowhere",
        )
    least = needed_rows(sample.prompt_length, sample.mask())
    if len(routes) < least:
        _refuse(
            sample,
            "rollout_routed_experts",
            f"has {len(routes)} rows",
            f"there is one for each of the {least} tokens before the last one that trains",
        )


def _check_mappings(sample: Sample) -> None:
    for field in ("metadata", "apply_chat_template_kwargs", "train_metadata"):
        value = getattr(sample, field)
        if not isinstance(value, dict) and not (value is None and field == "train_metadata"):
            _refuse(sample, field, f"is a {type(value).__name__}", "it is a mapping")
