"""The checkpoint has the MTP layers that are to be trained."""

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
