"""What is loaded and saved: which flags belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule

_PLACEHOLDERS = re.compile(r"\{[^}]*\}")


def check_saved_weights(config: Config) -> Iterator[Finding]:
    """Hugging Face weights are written with a checkpoint, to a path that can be filled in."""
    if config.save_hf is None:
        return
    if config.save is None:
        yield Finding(
            f"--save-hf {config.save_hf} without --save: the weights are written when a checkpoint is, and none is",
            "give --save",
            ("--save-hf", "--save"),
        )
    unknown = [found for found in _PLACEHOLDERS.findall(config.save_hf) if found != "{rollout_id}"]
    if unknown:
        yield Finding(
            f"--save-hf {config.save_hf}: {unknown[0]} stands for nothing",
            "the round is {rollout_id}",
            ("--save-hf",),
        )


def check_start(config: Config) -> Iterator[Finding]:
    """A first round that the run has, and weights that are there to start from."""
    start, rounds = config.start_rollout_id, config.num_rollout
    if start is not None and rounds is not None and start >= rounds:
        yield Finding(
            f"--start-rollout-id {start} and --num-rollout {rounds}: rounds count from 0, so none is left",
            f"give --start-rollout-id of at most {rounds - 1}, or --num-rollout above {start}",
            ("--start-rollout-id", "--num-rollout"),
        )
    if config.finetune and config.load is None:
        yield Finding(
            "--finetune takes the weights of --load, which is not given",
            "give --load, or drop --finetune: a run with --ref-load alone starts at round 0 anyway",
            ("--finetune", "--load"),
        )


RULES = (
    Rule(
        id="saved-weights",
        title=Text("--save-hf 与 --save 一起用", "--save-hf comes with --save"),
        why=Text(
            "权重随 checkpoint 一起写；没有 checkpoint，运行结束时什么也没有。",
            "The weights are written with a checkpoint; without one, the run ends with nothing.",
        ),
        cfg=check_saved_weights,
    ),
    Rule(
        id="first-round-exists",
        title=Text("起始的一轮确实存在", "The round to start at exists"),
        why=Text(
            "起点不在轮数之内时，运行一轮不做就结束；没有 --load 的 --finetune 什么也不取。",
            "A start beyond the last round ends the run without a round; --finetune without --load takes nothing.",
        ),
        cfg=check_start,
    ),
)
