"""Services beside the run: over-sampling without an end."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import counted


def check_refills(config: Config) -> Iterator[Finding]:
    """A round that drops groups may refill often enough to replace them."""
    if config.dynamic_sampling_filter_path is None:
        return
    refill = config.over_sampling_batch_size or config.rollout_batch_size
    most = config.dynamic_sampling_max_rounds * refill
    if most < 2 * config.rollout_batch_size:
        yield Finding(
            f"--dynamic-sampling-max-rounds {config.dynamic_sampling_max_rounds}: that many refills of {refill} "
            "prompts are "
            f"{counted(most, 'group')} for a round of {config.rollout_batch_size}, so a filter that drops half of "
            "them ends "
            "the run",
            f"give --dynamic-sampling-max-rounds {-(-4 * config.rollout_batch_size // refill)} or more",
            ("--dynamic-sampling-max-rounds", "--over-sampling-batch-size"),
        )


RULES = (
    Rule(
        id="refills",
        row=35,
        source="DAPO#22, verl#953, miles#853",
        severity="warning",
        title=Text("过滤掉的组补得回来，补充次数有上限", "Filtered groups can be replaced, and refills have an end"),
        why=Text(
            "每组都全对或全错时，没有上限的补充永远不会停。这里总有上限，但上限太小也凑不齐一轮。",
            "When every group is all right or all wrong, refilling without a cap never ends. Here there always is a "
            "cap; one "
            "that is too small leaves a round short.",
        ),
        cfg=check_refills,
    ),
)
