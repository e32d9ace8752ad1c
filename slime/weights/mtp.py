"""Layers that predict one token further (multi-token prediction, DeepSeek-V3, arXiv:2412.19437, section 2.2).

A checkpoint has them behind its last layer (DeepSeek, GLM) or under ``mtp.`` (Qwen). They draft when an engine decodes
speculatively. A run that does not train them leaves them out of the model, and a conversion carries them unchanged.
"""

from __future__ import annotations

from dataclasses import replace

from slime.weights.dimensions import HFModelConfig
from slime.weights.hf_values import HFConfigError

BUILT = 1
"""MTP layers of a model; no published model has more."""


def with_mtp(config: HFModelConfig, count: int, where: str = "config.json") -> HFModelConfig:
    """`config` of a model that trains `count` MTP layers; 0 leaves it as it is.

    Raises:
        HFConfigError: the checkpoint has fewer, or more than are built.
    """
    if count == 0:
        return config
    if count > config.mtp_available:
        ways = f"give --mtp-num-layers {config.mtp_available}" if config.mtp_available else "train without MTP"
        raise HFConfigError(
            f"{where} describes {config.mtp_available} MTP layers, and --mtp-num-layers asks for {count}; {ways}."
        )
    if count > BUILT:
        raise HFConfigError(f"--mtp-num-layers {count}: no more than {BUILT} is built; give --mtp-num-layers {BUILT}.")
    trained = replace(config, mtp=count)
    own = "mtp." if under_mtp(config) else behind_last(config, 0)
    others = (prefix for prefix in config.untrained if prefix != own)
    return replace(trained, untrained=(*repeated_tensors(trained), *others))


def under_mtp(config: HFModelConfig) -> bool:
    """True where the tensors stand under ``mtp.``: the hybrid families of Qwen."""
    return config.linear is not None


def behind_last(config: HFModelConfig, layer: int) -> str:
    """Prefix of MTP layer `layer` where it is counted on behind the decoder's layers."""
    return f"{config.prefix}layers.{config.layers + layer}."


def mtp_prefix(config: HFModelConfig, layer: int = 0) -> str:
    """Prefix of the decoder layer inside MTP layer `layer`."""
    return f"mtp.layers.{layer}." if under_mtp(config) else behind_last(config, layer)


def mtp_layer(config: HFModelConfig, layer: int = 0) -> tuple[HFModelConfig, int]:
    """Dimensions and number of the decoder layer inside MTP layer `layer`.

    It attends as usual, with experts where the model has any, and runs its own indexer where attention is sparse. It is
    counted on behind the decoder's layers.
    """
    number = config.layers + layer
    return replace(
        config,
        linear=None,
        experts=None if config.experts is None else replace(config.experts, layers=(number,)),
        sparse=None if config.sparse is None else replace(config.sparse, computing=(number,)),
    ), number


def repeated_tensors(config: HFModelConfig) -> dict[str, str]:
    """What DeepSeek's and GLM's checkpoints store again beside a trained MTP layer: name -> what it repeats."""
    if under_mtp(config):
        return {}
    embedding = f"{config.prefix}embed_tokens.weight"
    head = embedding if config.tied_embeddings else "lm_head.weight"
    found = {}
    for layer in range(config.mtp):
        found[f"{behind_last(config, layer)}embed_tokens.weight"] = embedding
        found[f"{behind_last(config, layer)}shared_head.head.weight"] = head
    return found
