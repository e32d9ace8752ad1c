"""What is loaded and saved: which flags belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.rule import Finding, Rule

_BRACES = re.compile(r"\{[^{}]*\}|[{}]")
# Flags that speak of what another one names: they do nothing without it.
_COMPANIONS = {
    "--ckpt-step": "--load", "--no-load-optim": "--load", "--no-load-rng": "--load", "--ref-ckpt-step": "--ref-load",
    "--opd-teacher-ckpt-step": "--opd-teacher-load", "--no-save-optim": "--save",
}  # fmt: skip


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
    if not config.save_hf.strip():
        yield Finding("--save-hf is empty: it names no folder", "give --save-hf FOLDER, or drop it", ("--save-hf",))
    unknown = [found for found in _BRACES.findall(config.save_hf) if found != "{rollout_id}"]
    if unknown:
        yield Finding(
            f"--save-hf {config.save_hf}: {unknown[0]} stands for nothing",
            "the round is {rollout_id}",
            ("--save-hf",),
        )


def check_companions(config: Config) -> Iterator[Finding]:
    """What is said of a checkpoint comes with the checkpoint."""
    for flag, owner in _COMPANIONS.items():
        value = getattr(config, flag.removeprefix("--").replace("-", "_"))
        if value is None or value is False or getattr(config, owner.removeprefix("--").replace("-", "_")):
            continue
        given = flag if value is True else f"{flag} {value}"
        yield Finding(
            f"{given} says something of {owner}, which is not given", f"give {owner}, or drop {flag}", (flag, owner)
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
        id="checkpoint-companions",
        title=Text("说明 checkpoint 的参数要有 checkpoint", "What is said of a checkpoint comes with it"),
        why=Text(
            "没有对应的目录时，这些参数不起任何作用，运行却照常开始，像是已经照做。",
            "Without the folder these flags do nothing, and the run starts as if they had been followed.",
        ),
        cfg=check_companions,
    ),
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
