"""Paths and names: what needs what. Whether a file exists is preflight's question, not this one's."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from pathlib import Path

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.paths import prompt_path
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import counted

# Graders that look at the response alone, or leave the comparison to a server.
UNLABELLED = ("ifbench", "random", "remote_rm")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_initial_weights(config: Config) -> Iterator[Finding]:
    """Training starts from a checkpoint."""
    if not config.load and not config.ref_load:
        yield Finding(
            "neither --load nor --ref-load is given: training has no weights to start from",
            "give --ref-load FOLDER, as made by `slime convert hf-to-megatron`",
            ("--ref-load", "--load"),
        )


def check_save(config: Config) -> Iterator[Finding]:
    """Saves have a folder of their own."""
    if config.save_interval is not None and not config.save:
        yield Finding(
            f"--save-interval {config.save_interval} has no folder to save to", "give --save FOLDER", ("--save",)
        )
    if not config.save:
        return
    target = os.path.realpath(config.save)
    for name, path in (("--ref-load", config.ref_load), ("--hf-checkpoint", config.hf_checkpoint)):
        if path and os.path.realpath(path) == target:
            yield Finding(
                f"--save {config.save} is the folder of {name}: the run would write over what it starts from",
                "give --save a folder of its own",
                ("--save", name),
            )


def check_outputs(config: Config) -> Iterator[Finding]:
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


def _overwrites(output: str, path: str, what: str, name: str) -> Finding:
    return Finding(
        f"{output} {path} {what}: the run would write into it",
        f"give {output} a path of its own",
        (output, name.split()[0]),
    )


def check_reward(config: Config) -> Iterator[Finding]:
    """There is a grader, and a grader that compares has an answer to compare with."""
    if config.loss_type == "sft_loss":
        return  # demonstrations are not graded
    if config.rm_type is None and config.custom_rm_path is None:
        yield Finding(
            "nothing grades the answers", "give --rm-type, or --custom-rm-path", ("--rm-type", "--custom-rm-path")
        )
    if config.rm_type == "remote_rm" and not config.rm_url:
        yield Finding(
            "--rm-type remote_rm asks a server, and --rm-url does not name it", "give --rm-url", ("--rm-url",)
        )
    if config.rm_type not in (None, *UNLABELLED) and not config.label_key:
        yield Finding(
            f"--rm-type {config.rm_type} compares with the reference answer, and --label-key does not name its column",
            "give --label-key, usually label",
            ("--label-key",),
        )


def check_evaluation(config: Config) -> Iterator[Finding]:
    """Evaluation sets are pairs of name and path, and come with an interval."""
    given = config.eval_prompt_data or ()
    flags = ("--eval-prompt-data",)
    if len(given) % 2:
        yield Finding(
            f"--eval-prompt-data takes pairs of name and path; {counted(len(given), 'value')} cannot be paired",
            "give: --eval-prompt-data NAME PATH",
            flags,
        )
        return
    names = given[::2]
    for name in names:
        if not _NAME.fullmatch(name):
            yield Finding(
                f"--eval-prompt-data {name!r} is no name: it becomes part of the metric eval/NAME",
                "letters, digits, dot, underscore and hyphen; the path comes second",
                flags,
            )
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Finding(f"--eval-prompt-data names {name!r} twice: their metrics would mix", "rename one", flags)
    if config.eval_interval is not None and not given and not config.eval_config:
        yield Finding(
            f"--eval-interval {config.eval_interval} has nothing to evaluate",
            "give --eval-prompt-data NAME PATH",
            flags,
        )
    if given and config.eval_interval is None:
        yield Finding(
            f"--eval-prompt-data {' '.join(given)} is never evaluated without --eval-interval",
            "give --eval-interval",
            ("--eval-interval",),
            severity="warning",
        )


def check_dry_run(config: Config) -> Iterator[Finding]:
    """The dry run's file is written by a dry run."""
    if config.dry_run_json and not config.dry_run:
        yield Finding("--dry-run-json names the file of a dry run", "add --dry-run", ("--dry-run-json", "--dry-run"))


def check_rounds(config: Config) -> Iterator[Finding]:
    """An interval that never comes happens once, after the last round; that is worth a word."""
    for name, interval in (("--eval-interval", config.eval_interval), ("--save-interval", config.save_interval)):
        if interval is not None and interval > config.num_rollout:
            yield Finding(
                f"{name} {interval} is longer than the {counted(config.num_rollout, 'round')} of the run: it happens "
                "once, at "
                "the end",
                f"give at most {config.num_rollout}",
                (name,),
                severity="warning",
            )


RULES = (
    Rule(
        id="initial-weights",
        title=Text("训练有起始权重", "Training has weights to start from"),
        why=Text(
            "--load 和 --ref-load 都没有时，没有什么可以训练。",
            "Without --load and --ref-load there is nothing to train.",
        ),
        cfg=check_initial_weights,
    ),
    Rule(
        id="save-folder",
        title=Text("保存目录只属于这次运行", "The save folder belongs to this run alone"),
        why=Text(
            "保存到读取权重的目录，会覆盖这次运行的起点。",
            "Saving into a folder from which weights are read writes over what the run starts from.",
        ),
        cfg=check_save,
    ),
    Rule(
        id="output-paths",
        title=Text("输出不会写进输入", "Outputs are not written into inputs"),
        why=Text(
            "指标、事件和权重文件不能是 prompt 文件，也不能落在 checkpoint 目录里。",
            "Metrics, events and weights must not be the prompt file, nor lie in a checkpoint's folder.",
        ),
        cfg=check_outputs,
    ),
    Rule(
        id="reward",
        title=Text("有评分器，也有它要比较的答案", "There is a grader, and what it compares with"),
        why=Text(
            "没有评分器就没有奖励；内置评分器要与标准答案比较。",
            "Without a grader there is no reward; a built-in grader compares with a reference answer.",
        ),
        cfg=check_reward,
    ),
    Rule(
        id="evaluation-sets",
        title=Text(
            "评估集是成对的名称与路径，并且会被用到", "Evaluation sets are pairs of name and path, and are used"
        ),
        why=Text(
            "名称会成为指标的一部分；没有间隔的评估集不会被评估。",
            "The name becomes part of a metric; a set without an interval is never evaluated.",
        ),
        cfg=check_evaluation,
    ),
    Rule(
        id="intervals",
        severity="warning",
        title=Text("间隔不长于整个运行", "Intervals are not longer than the run"),
        why=Text(
            "比总轮数还长的间隔只会在最后一轮发生一次。",
            "An interval that is longer than the run happens once, after the last round.",
        ),
        cfg=check_rounds,
    ),
    Rule(
        id="dry-run-file",
        title=Text("dry run 的文件需要 dry run", "The file of a dry run needs a dry run"),
        why=Text("只有 --dry-run 会写这个文件。", "Only --dry-run writes it."),
        cfg=check_dry_run,
    ),
)
