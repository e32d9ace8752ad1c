"""Values that follow from others. Every ``derive_*`` fills what was not given and changes nothing that was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from slime.config.config import Config

Values = dict[str, Any]


def derive(config: Config) -> Config:
    """Fill every derived value, in the order of ``DERIVATIONS``; what was given stays."""
    for rule in DERIVATIONS:
        values = {key: value for key, value in rule(config).items() if getattr(config, key) is None}
        if values:
            origins = {**config.origins, **dict.fromkeys(values, "derived")}
            config = dataclasses.replace(config, origins=origins, **values)
    return config


def derive_train_gpus(config: Config) -> Values:
    """A node has 8 GPUs; a CPU trains in one process unless told otherwise."""
    return {"actor_num_gpus_per_node": 1 if config.device == "cpu" else 8}


def derive_rollout_gpus(config: Config) -> Values:
    """Colocated engines use the training GPUs; without --colocate one engine is the least that can generate."""
    if config.rollout_external_engine_addrs:
        return {"rollout_num_gpus": 0}
    return {"rollout_num_gpus": config.train_gpus if config.colocate else config.rollout_num_gpus_per_engine}


def derive_global_batch(config: Config) -> Values:
    """One optimizer step takes the whole round, or the round divided by --num-steps-per-rollout."""
    if config.rollout_batch_size is None:
        return {}
    steps = config.num_steps_per_rollout or 1
    return {"global_batch_size": config.samples_per_rollout // steps}


def derive_lengths(config: Config) -> Values:
    """With a context length a prompt leaves room for one token; without one the context is prompt plus response."""
    context, prompt, response = (
        config.rollout_max_context_len,
        config.rollout_max_prompt_len,
        config.rollout_max_response_len,
    )
    if context is not None:
        return {"rollout_max_prompt_len": context - 1}
    if prompt is not None and response is not None:
        return {"rollout_max_context_len": prompt + max(response, config.eval_max_response_len or 0)}
    return {}


def derive_clip(config: Config) -> Values:
    """The clip is symmetric unless --eps-clip-high says otherwise."""
    return {"eps_clip_high": config.eps_clip}


def derive_evaluation(config: Config) -> Values:
    """Evaluation draws as the rollout does, from the same columns, unless told otherwise."""
    return {
        "eval_temperature": config.rollout_temperature,
        "eval_top_p": config.rollout_top_p,
        "eval_top_k": config.rollout_top_k,
        "eval_max_response_len": config.rollout_max_response_len,
        "eval_input_key": config.input_key,
        "eval_label_key": config.label_key,
    }


def derive_serving(config: Config) -> Values:
    """The engine computes in the trainer's precision; on a CPU that is float32, with PyTorch's attention."""
    if config.device != "cpu":
        return {"sglang_dtype": "bfloat16"}
    return {"sglang_dtype": "float32", "sglang_attention_backend": "torch_native"}


DERIVATIONS: tuple[Callable[[Config], Values], ...] = (
    derive_train_gpus,
    derive_rollout_gpus,
    derive_global_batch,
    derive_lengths,
    derive_clip,
    derive_evaluation,
    derive_serving,
)
