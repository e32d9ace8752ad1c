"""Paths and names: what needs what. Whether a file exists is preflight's question, not this one's."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from pathlib import Path

from slime.config.config import Config
from slime.config.errors import Problem
from slime.config.paths import prompt_path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def validate_initial_weights(config: Config) -> Iterator[Problem]:
    """Training starts from a checkpoint."""
    if not config.load and not config.ref_load:
        yield Problem(
            "cfg",
            "neither --load nor --ref-load is given: training has no weights to start from",
            "give --ref-load FOLDER, as made by `slime convert hf-to-megatron`",
            ("--ref-load", "--load"),
        )


def validate_save(config: Config) -> Iterator[Problem]:
    """Saves have a folder of their own."""
    if config.save_interval is not None and not config.save:
        yield Problem(
            "cfg", f"--save-interval {config.save_interval} has no folder to save to", "give --save FOLDER", ("--save",)
        )
    if not config.save:
        return
    target = os.path.realpath(config.save)
    for name, path in (("--ref-load", config.ref_load), ("--hf-checkpoint", config.hf_checkpoint)):
        if path and os.path.realpath(path) == target:
            yield Problem(
                "cfg",
                f"--save {config.save} is the folder of {name}: the run would write over what it starts from",
                "give --save a folder of its own",
                ("--save", name),
            )


def validate_outputs(config: Config) -> Iterator[Problem]:
    """What the run writes is none of the files that it reads, and lies in none of the folders that it starts from."""
    files = {"--prompt-data": prompt_path(config.prompt_data)} if config.prompt_data else {}
    files |= {f"--eval-prompt-data {one.name}": prompt_path(one.path) for one in config.eval_datasets}
    folders = {"--hf-checkpoint": config.hf_checkpoint, "--ref-load": config.ref_load}
    outputs = {
        name: path
        for name in ("--metrics-file", "--tensorboard-dir", "--dry-run-json", "--update-weight-disk-dir")
        if (path := getattr(config, name.removeprefix("--").replace("-", "_")))
    }
    for output, path in outputs.items():
        target = os.path.realpath(path)
        for name, given in files.items():
            if os.path.realpath(given) == target:
                yield _overwrites(output, path, f"is the file of {name}", name)
        for name, folder in folders.items():
            if folder and Path(target).is_relative_to(os.path.realpath(folder)):
                yield _overwrites(output, path, f"lies in the folder of {name}", name)
        for name, other in outputs.items():
            if name > output and os.path.realpath(other) == target:
                yield _overwrites(output, path, f"is the path of {name} too", name)


def _overwrites(output: str, path: str, what: str, name: str) -> Problem:
    return Problem(
        "cfg",
        f"{output} {path} {what}: the run would write into it",
        f"give {output} a path of its own",
        (output, name.split()[0]),
    )


def validate_reward(config: Config) -> Iterator[Problem]:
    """There is a grader, and a built-in grader has an answer to compare with."""
    if config.rm_type is None and config.custom_rm_path is None:
        yield Problem("cfg", "nothing grades the answers", "give --rm-type math or deepscaler", ("--rm-type",))
    if config.rm_type is not None and not config.label_key:
        yield Problem(
            "cfg",
            f"--rm-type {config.rm_type} compares with the reference answer, and --label-key does not name its column",
            "give --label-key, usually label",
            ("--label-key",),
        )


def validate_evaluation(config: Config) -> Iterator[Problem]:
    """Evaluation sets are pairs of name and path, and come with an interval."""
    given = config.eval_prompt_data or ()
    flags = ("--eval-prompt-data",)
    if len(given) % 2:
        yield Problem(
            "cfg", f"--eval-prompt-data takes pairs of name and path; {len(given)} values are not pairs",
            "give: --eval-prompt-data NAME PATH", flags,
        )  # fmt: skip
        return
    names = given[::2]
    for name in names:
        if not _NAME.fullmatch(name):
            yield Problem(
                "cfg",
                f"--eval-prompt-data {name!r} is no name: it becomes part of the metric eval/NAME",
                "letters, digits, dot, underscore and hyphen; the path comes second",
                flags,
            )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem("cfg", f"--eval-prompt-data names {name!r} twice: their metrics would mix", "rename one", flags)
    if config.eval_interval is not None and not given and not config.eval_config:
        yield Problem(
            "cfg",
            f"--eval-interval {config.eval_interval} has nothing to evaluate",
            "give --eval-prompt-data NAME PATH",
            flags,
        )
    if given and config.eval_interval is None:
        yield Problem(
            "cfg",
            f"--eval-prompt-data {' '.join(given)} is never evaluated without --eval-interval",
            "give --eval-interval",
            ("--eval-interval",),
            severity="warning",
        )


def validate_dry_run(config: Config) -> Iterator[Problem]:
    """The dry run's file is written by a dry run."""
    if config.dry_run_json and not config.dry_run:
        yield Problem(
            "cfg", "--dry-run-json names the file of a dry run", "add --dry-run", ("--dry-run-json", "--dry-run")
        )


def validate_rounds(config: Config) -> Iterator[Problem]:
    """An interval that never comes happens once, after the last round; that is worth a word."""
    for name, interval in (("--eval-interval", config.eval_interval), ("--save-interval", config.save_interval)):
        if interval is not None and interval > config.num_rollout:
            yield Problem(
                "cfg",
                f"{name} {interval} is longer than the {config.num_rollout} rounds of the run: once, at the end",
                f"give at most {config.num_rollout}",
                (name,),
                severity="warning",
            )
