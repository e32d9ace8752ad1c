"""Functions of the user's inside the objective: advantage, correction, average and loss; each checked at every call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from slime.algorithms.objective import Corrected, CustomCorrection, PolicyTokens
from slime.algorithms.reduction import weights_of
from slime.config import Config
from slime.config.groups.algorithm import OWN_FUNCTIONS
from slime.config.import_paths import is_named
from slime.data.train_batch import TrainBatch, TrainSequence
from slime.rollout.hook_call import HookFunction
from slime.rollout.hook_results import ResultError, nothing
from slime.rollout.hooks import BY_NAME

Advantages = Callable[[TrainBatch, dict[str, list[Any]]], tuple[list[Tensor], list[Tensor]]]
Weights = Callable[[Sequence[TrainSequence], Sequence[Tensor], bool], Tensor]
Loss = Callable[[dict[str, Any], Tensor, Callable[[Tensor], Tensor]], tuple[Tensor, dict[str, Tensor]]]


@dataclass(frozen=True)
class CustomFunctions:
    """What replaces a part of the objective; None = the built-in part.

    Attributes:
        advantages: (batch, data by name) to advantages and returns [R_i] of each sequence.
        correction: see `slime.algorithms.objective.CustomCorrection`.
        weights: (sequences, masks, per_token) to the weight of each response token in the sum over sequences, [T].
        loss: (data by name, logits, sum of the sequences' means) to a sum over sequences and metrics.
    """

    advantages: Advantages | None = None
    correction: CustomCorrection | None = None
    weights: Weights | None = None
    loss: Loss | None = None


def load_custom(config: Config) -> CustomFunctions:
    """The functions that the flags name.

    Raises:
        HookError: one cannot be loaded; when called, it breaks its contract.
    """

    def load(name: str) -> HookFunction | None:
        hook = BY_NAME[name]
        path: str | None = getattr(config, hook.field)
        if path is None or is_named(path, OWN_FUNCTIONS.get(hook.field, ())):
            return None
        return HookFunction(hook, path, config.hook_timeout)

    advantage, correction, reducer = load("custom-advantage"), load("custom-tis"), load("custom-pg-loss-reducer")
    loss = load("custom-loss") if config.loss_type == "custom_loss" else None
    return CustomFunctions(
        None if advantage is None else _advantages(advantage, config),
        None if correction is None else _correction(correction, config),
        None if reducer is None else _weights(reducer),
        None if loss is None else _loss(loss, config),
    )


def _advantages(hook: HookFunction, config: Config) -> Advantages:
    def call(batch: TrainBatch, data: dict[str, list[Any]]) -> tuple[list[Tensor], list[Tensor]]:
        """One round: fill in advantages and returns."""
        lengths = [one.response_length for one in batch.sequences]

        def check(result: Any) -> tuple[list[Tensor], list[Tensor]]:
            nothing(result)
            missing = [key for key in ("advantages", "returns") if key not in data]
            if missing:
                raise ResultError(f"without setting rollout_data[{missing[0]!r}].")
            return _per_token(data["advantages"], lengths, "advantages"), _per_token(
                data["returns"], lengths, "returns"
            )

        found: tuple[list[Tensor], list[Tensor]] = hook.call(f"round {batch.round_id}", check, config, data)
        return found

    return call


def _correction(hook: HookFunction, config: Config) -> CustomCorrection:
    def call(loss: Tensor, train_log_probs: Tensor, tokens: PolicyTokens) -> Corrected:
        """One micro-batch: the corrected loss of its tokens."""
        lengths = tokens.lengths.tolist()

        def check(result: Any) -> Corrected:
            if not isinstance(result, tuple) or len(result) != 3:
                raise ResultError(f"a {type(result).__name__}; it must be (pg_loss, loss_masks, metrics).")
            corrected, masks, metrics = result
            if not isinstance(corrected, Tensor) or corrected.shape != loss.shape:
                raise ResultError(f"a pg_loss that is not a tensor of the {loss.numel()} tokens.")
            keep = torch.cat(_per_token(masks, lengths, "loss_masks", keep_graph=True)).to(loss)
            return corrected, keep, {name: _flat(value, lengths, name).to(loss) for name, value in metrics.items()}

        found: Corrected = hook.call(
            "a micro-batch",
            check,
            args=config,
            pg_loss=loss,
            train_log_probs=list(train_log_probs.split(lengths)),
            rollout_log_probs=list(tokens.rollout_log_probs.split(lengths)),
            loss_masks=list((tokens.weights != 0).to(loss).split(lengths)),
            total_lengths=list(tokens.total_lengths),
            response_lengths=lengths,
        )
        return found

    return call


def _weights(hook: HookFunction) -> Weights:
    def call(sequences: Sequence[TrainSequence], masks: Sequence[Tensor], per_token: bool) -> Tensor:
        """One batch: the weight of each response token."""
        total, response = [one.total_length for one in sequences], [one.response_length for one in sequences]

        def check(result: Any) -> Tensor:
            if not callable(result):
                raise ResultError(f"a {type(result).__name__}; it must be a function of the values of all tokens.")
            try:
                return weights_of(result, sum(response))
            except ValueError as error:
                raise ResultError(f"a reducer that cannot be used: {error}") from error

        found: Tensor = hook.call("a micro-batch", check, total, response, list(masks), per_token)
        return found

    return call


def _loss(hook: HookFunction, config: Config) -> Loss:
    def check(result: Any) -> tuple[Tensor, dict[str, Tensor]]:
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
            raise ResultError(f"a {type(result).__name__}; it must be (loss, metrics).")
        loss, metrics = result
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise ResultError("a loss that is not one number with a gradient; it must depend on the logits.")
        return loss.reshape(()), {name: torch.as_tensor(value).detach().float() for name, value in metrics.items()}

    def call(
        data: dict[str, Any], logits: Tensor, sum_of_sample_mean: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        found: tuple[Tensor, dict[str, Tensor]] = hook.call(
            "a micro-batch", check, config, data, logits, sum_of_sample_mean
        )
        return found

    return call


def _per_token(values: Any, lengths: Sequence[int], name: str, keep_graph: bool = False) -> list[Tensor]:
    if not isinstance(values, (list, tuple)) or len(values) != len(lengths):
        count = len(values) if isinstance(values, (list, tuple)) else type(values).__name__
        raise ResultError(f"{count} {name} for {len(lengths)} sequences.")
    for at, (value, length) in enumerate(zip(values, lengths, strict=True)):
        if not isinstance(value, Tensor) or value.shape != (length,):
            shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ResultError(f"{name}[{at}] of {shape}; it is a tensor of the {length} response tokens.")
    return list(values) if keep_graph else [value.detach().float().cpu() for value in values]


def _flat(value: Any, lengths: Sequence[int], name: str) -> Tensor:
    if isinstance(value, (list, tuple)):
        value = torch.cat(_per_token(value, lengths, name))
    if not isinstance(value, Tensor) or value.shape != (sum(lengths),):
        raise ResultError(f"a metric {name!r} that is not a tensor of the {sum(lengths)} tokens.")
    return value.detach()
