"""The checkpoint has the MTP layers that are to be trained."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.preflight.inputs import Inputs
from slime.config.rule import Finding
from slime.weights.hf_config import HFConfigError, config_from_dict
from slime.weights.mtp import with_mtp


def check_mtp_layers(inputs: Inputs) -> Iterator[Finding]:
    """As many as the trainer would load."""
    count, model = inputs.config.mtp_num_layers, inputs.model
    if count is None or model is None:
        return
    try:
        given = {key: value for key, value in model.whole.items() if key != "quantization_config"}
        whole = config_from_dict(given, str(model.path))
    except HFConfigError:
        return  # another rule's
    try:
        with_mtp(whole, count, str(model.path))
    except HFConfigError as error:
        problem, _, ways = str(error).rstrip(".").partition("; ")
        yield Finding(problem, ways, ("--mtp-num-layers",))
