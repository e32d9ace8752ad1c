"""The checkpoint has the layers that flags speak of: MTP layers to train, layers between the first and the last."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.preflight.inputs import Inputs
from slime.config.rule import Finding

BUILT = 1
"""Of a model; none that is published has more."""


def check_mtp_layers(inputs: Inputs) -> Iterator[Finding]:
    """As many as the trainer would load; see `slime.weights.mtp.with_mtp`."""
    count, model = inputs.config.mtp_num_layers, inputs.model
    if count is None or model is None:
        return
    flags = ("--mtp-num-layers",)
    if count > model.mtp_layers:
        yield Finding(
            f"{model.path} describes {model.mtp_layers} MTP layers, and --mtp-num-layers asks for {count}",
            f"give --mtp-num-layers {BUILT}" if model.mtp_layers else "train without MTP",
            flags,
        )
    elif count > BUILT:
        yield Finding(
            f"--mtp-num-layers {count}: no more than {BUILT} is built", f"give --mtp-num-layers {BUILT}", flags
        )


def check_fp8_layers(inputs: Inputs) -> Iterator[Finding]:
    """Some layer is left that computes in FP8."""
    layers = None if inputs.model is None else inputs.model.layers
    if inputs.config.first_last_layers_bf16 and layers is not None and layers <= 2:
        yield Finding(
            f"--first-last-layers-bf16 leaves out both ends of a model of {layers} layers, and no layer is left to "
            "compute in FP8",
            "drop --first-last-layers-bf16, or train without --fp8-format",
            ("--first-last-layers-bf16", "--fp8-format"),
        )
