"""The checkpoint has experts to replay."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.preflight.inputs import Inputs
from slime.config.rule import Finding


def check_experts(inputs: Inputs) -> Iterator[Finding]:
    """Its layers have routed experts."""
    config, model = inputs.config, inputs.model
    if model is None or model.experts or not (config.use_routing_replay or config.use_rollout_routing_replay):
        return
    flag = "--use-rollout-routing-replay" if config.use_rollout_routing_replay else "--use-routing-replay"
    yield Finding(
        f"{flag} replays the experts that tokens went through, and {model.path} describes a model without experts",
        f"drop {flag}, or train a mixture of experts",
        (flag, "--hf-checkpoint"),
    )
