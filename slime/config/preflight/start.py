"""Where the run starts: which weights, which step, which round, into which folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slime.config.flags import Text
from slime.config.preflight.folders import TRACKER, Folder, TrackerProblem, look_at, read_tracker, steps
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.shards import read_shards
from slime.config.preflight.weights import check_files
from slime.config.rule import Finding, Rule

_CONVERT = "run the stage convert first: `slime convert hf-to-megatron`"


def check_checkpoints(inputs: Inputs) -> Iterator[Finding]:
    """Each checkpoint flag names a folder of a kind that it can start from."""
    config = inputs.config
    for flag, path in (("--ref-load", config.ref_load), ("--opd-teacher-load", config.opd_teacher_load)):
        if path:
            yield from _check_source(flag, look_at(path))
    if not config.load:
        return
    folder = look_at(config.load)
    if folder.kind == "megatron":
        yield from _check_tracker("--load", folder)
    elif folder.kind == "hf":
        yield from _check_source("--load", folder)
    elif config.ref_load is None:
        yield Finding(
            f"--load {config.load} {_without(folder)}, and there is no --ref-load to start from instead",
            _CONVERT,
            ("--load", "--ref-load"),
        )
    else:
        yield from _check_fresh_start(inputs, folder)


def _check_source(flag: str, folder: Folder) -> Iterator[Finding]:
    """Weights that the run reads and never writes."""
    if folder.kind == "megatron":
        yield from _check_tracker(flag, folder)
    elif folder.kind == "hf":
        shards = read_shards(folder.path)
        if shards is not None:
            yield from check_files(folder.path, shards)
    else:
        yield Finding(f"{flag} {folder.path} {_without(folder)}", _CONVERT, (flag,))


def _check_tracker(flag: str, folder: Folder) -> Iterator[Finding]:
    try:
        read_tracker(folder.path)
    except TrackerProblem as error:
        yield Finding(
            f"{flag}: {error}", f"the save was cut off; steps that are there: {_present(folder.path)}", (flag,)
        )


def _without(folder: Folder) -> str:
    return {
        "missing": "does not exist",
        "empty": "is empty",
    }.get(folder.kind, f"is neither a Megatron checkpoint ({TRACKER} is missing) nor a Hugging Face folder")


def _check_fresh_start(inputs: Inputs, folder: Folder) -> Iterator[Finding]:
    """Warn when --load was perhaps meant to resume a run: it is not where this run saves, or not empty."""
    config = inputs.config
    own = config.save is not None and folder.path.absolute() == Path(config.save).absolute()
    if folder.kind == "empty" or (folder.kind == "missing" and own):
        return
    yield Finding(
        f"--load {config.load} {_without(folder)}, so the run starts at round 0 with the weights of --ref-load "
        f"{config.ref_load}",
        "if it should continue an earlier run, name the --save folder of that run",
        ("--load",),
        severity="warning",
    )


def check_steps(inputs: Inputs) -> Iterator[Finding]:
    """A step that is asked for is there."""
    config = inputs.config
    for flag, path_flag, step, path in (
        ("--ckpt-step", "--load", config.ckpt_step, config.load),
        ("--ref-ckpt-step", "--ref-load", config.ref_ckpt_step, config.ref_load),
        ("--opd-teacher-ckpt-step", "--opd-teacher-load", config.opd_teacher_ckpt_step, config.opd_teacher_load),
    ):
        if step is None:
            continue
        if not path:
            yield Finding(f"{flag} {step} is a step of {path_flag}, which is not given", f"give {path_flag}", (flag,))
        elif not (Path(path) / f"iter_{step:07d}").is_dir():
            yield Finding(
                f"{flag} {step}: {path} has no iter_{step:07d}, and the run would start from other weights",
                f"steps that are there: {_present(Path(path))}",
                (flag, path_flag),
            )


def saved_round(inputs: Inputs) -> int | None:
    """The last round of the run that --load continues; None for a run that starts afresh."""
    config = inputs.config
    if not config.load or config.finetune:
        return None
    folder = look_at(config.load)
    if folder.kind != "megatron":
        return None
    if config.ckpt_step is not None:
        return config.ckpt_step
    try:
        step = read_tracker(folder.path)
    except TrackerProblem:
        return None
    return step if isinstance(step, int) else None


def check_rounds_left(inputs: Inputs) -> Iterator[Finding]:
    """A run that continues has rounds left."""
    saved, total = saved_round(inputs), inputs.config.num_rollout
    if saved is not None and total is not None and saved + 1 >= total:
        yield Finding(
            f"--load {inputs.config.load} has finished round {saved}, so none of the {total} rounds remains",
            f"give --num-rollout above {saved + 1}",
            ("--num-rollout", "--load"),
        )


def check_first_round(inputs: Inputs) -> Iterator[Finding]:
    """A run that continues goes on after the round that was saved."""
    saved, start = saved_round(inputs), inputs.config.start_rollout_id
    if saved is not None and start is not None and start != saved + 1:
        what = "repeated" if start <= saved else "left out"
        yield Finding(
            f"--start-rollout-id {start}, and --load {inputs.config.load} has finished round {saved}: rounds would be "
            f"{what}, with other prompts than the weights have seen",
            f"leave the flag out: the run goes on with round {saved + 1}",
            ("--start-rollout-id", "--load"),
        )


def check_save_folder(inputs: Inputs) -> Iterator[Finding]:
    """The save folder holds no other run, and nothing of a later round when the run goes back to an earlier one."""
    config = inputs.config
    if not config.save or not Path(config.save).is_dir():
        return
    folder = Path(config.save)
    same = config.load is not None and Path(config.load).resolve() == folder.resolve()
    if (folder / TRACKER).is_file() and not same:
        step = (folder / TRACKER).read_text(encoding="utf-8", errors="replace").strip()[:40]
        yield Finding(
            f"--save {config.save} holds a run already (at {step}): this one would write over its checkpoints",
            f"give --load {config.save} to continue it, or another --save",
            ("--save", "--load"),
        )
    later = [step for step in steps(folder) if same and config.ckpt_step is not None and step > config.ckpt_step]
    if later:
        yield Finding(
            f"--ckpt-step {config.ckpt_step} goes back, and --save {config.save} holds the later steps "
            f"{', '.join(map(str, later[:4]))}: a next start could take them for its own",
            "give another --save, or move the later steps away",
            ("--ckpt-step", "--save"),
        )


def _present(folder: Path) -> str:
    found = steps(folder)
    return ", ".join(map(str, found[-4:])) if found else "none"


RULES = (
    Rule(
        id="rounds-left",
        row=37,
        source="",
        title=Text("恢复的运行还有剩下的轮次", "A run that continues has rounds left"),
        why=Text(
            "已经完成的轮数达到总数时，运行一轮不做就报告成功。",
            "When the finished rounds reach the total, the run reports success without doing a round.",
        ),
        host=check_rounds_left,
    ),
    Rule(
        id="checkpoint-kinds",
        row=41,
        source="",
        title=Text("每个 checkpoint 参数都指向能用的目录", "Every checkpoint flag names a folder that can be used"),
        why=Text(
            "目录不对时，训练会悄悄换成别的权重开始，采样却照常，结果是乱码。",
            "With a wrong folder, training starts from other weights without a word, and what is sampled is garbage.",
        ),
        host=check_checkpoints,
    ),
    Rule(
        id="checkpoint-steps",
        row=42,
        source="torchtitan#1311",
        title=Text("指定的步确实存在", "A step that is asked for is there"),
        why=Text(
            "找不到指定的步时退回随机初始化，是最难发现的一种失败。",
            "Falling back to random weights when a step is missing is the failure that is noticed last.",
        ),
        host=check_steps,
    ),
    Rule(
        id="first-round",
        row=43,
        source="slime#1558",
        severity="warning",
        title=Text("恢复的运行接着上一轮", "A run that continues goes on after the saved round"),
        why=Text(
            "恢复了权重却从第 0 轮开始，会重复用过的 prompt，学习率也不对。",
            "Weights that are restored under round 0 see the same prompts again, at a wrong learning rate.",
        ),
        host=check_first_round,
    ),
    Rule(
        id="own-save-folder",
        row=45,
        source="prime-rl#1868, prime-rl#1872, prime-rl#2219",
        title=Text("保存目录里没有别的运行", "The save folder holds no other run"),
        why=Text(
            "写进别人的目录会覆盖 checkpoint；回到较早的一步时，后面的步会被误认为是自己的。",
            "Writing into another run's folder destroys its checkpoints; after going back, later steps pass for one's "
            "own.",
        ),
        host=check_save_folder,
    ),
)
