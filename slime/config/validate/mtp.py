"""Training of MTP layers: which flags belong together."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule

_LAYERS, _TRAIN = "--mtp-num-layers", "--enable-mtp-training"


def check_mtp(config: Config) -> Iterator[Finding]:
    """MTP layers are built to be trained."""
    if config.enable_mtp_training and config.mtp_num_layers is None:
        yield Finding(f"{_TRAIN} without {_LAYERS}: there is nothing to train", f"add {_LAYERS} 1", (_TRAIN, _LAYERS))
    if config.mtp_num_layers is not None and not config.enable_mtp_training:
        yield Finding(
            f"{_LAYERS} {config.mtp_num_layers} without {_TRAIN}: layers that nothing trains would only take memory; a "
            "run without them leaves the checkpoint's as they are",
            f"add {_TRAIN}, or drop {_LAYERS}",
            (_LAYERS, _TRAIN),
        )


RULES = (
    Rule(
        id="mtp-layers",
        title=Text("要训练的 MTP 层，checkpoint 里都有", "The MTP layers to train are in the checkpoint"),
        why=Text(
            "MTP 层从 checkpoint 加载，不会从头初始化；不训练时不放进模型，转换时原样带过。",
            "MTP layers are loaded from the checkpoint and never start from scratch; without training they are left "
            "out of the model, and a conversion carries them unchanged.",
        ),
        cfg=check_mtp,
    ),
)
