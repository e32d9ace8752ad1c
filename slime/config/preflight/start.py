"""Where the run starts: which weights, which step, which round, into which folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from slime.config.earlier_steps import endangered, refusal, saves_where_it_loads
from slime.config.flags import Text
from slime.config.preflight.folders import TRACKER, Folder, TrackerProblem, look_at, read_tracker, steps
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.json_files import read_optional
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
    if config.ckpt_step is not None and folder.kind != "hf":
        return  # the tracker is not read; whether the step is there, `check_steps` says
    if folder.kind == "megatron":
        yield from _check_tracker("--load", folder)
    elif folder.kind == "hf" and config.finetune:
        yield from _check_source("--load", folder)
    elif folder.kind == "hf":
        yield Finding(
            f"--load {config.load} is a Hugging Face folder, which holds no run to continue",
            "give --finetune to start at round 0 with its weights, or name it with --ref-load",
            ("--load", "--finetune"),
        )
    elif config.finetune:
        yield Finding(
            f"--load {config.load} {_without(folder)}, and --finetune takes the weights that are there",
            f"name a folder with weights; {_CONVERT}",
            ("--load", "--finetune"),
        )
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
        if step is None or not path:
            continue
        if look_at(path).kind == "hf":
            yield Finding(
                f"{flag} {step}: {path_flag} {path} is a Hugging Face folder, which has no steps",
                f"drop {flag}, or name a Megatron checkpoint with {path_flag}",
                (flag, path_flag),
            )
        elif not (Path(path) / f"iter_{step:07d}").is_dir():
            yield Finding(
                f"{flag} {step}: {path} has no iter_{step:07d}, and the run would start from other weights",
                f"steps that are there: {_present(Path(path))}",
                (flag, path_flag),
            )


def saved_round(inputs: Inputs) -> int | None:
    """The last round of the run that --load continues; None for a run that starts afresh, or cannot start."""
    config = inputs.config
    if not config.load or config.finetune:
        return None
    folder = look_at(config.load)
    if config.ckpt_step is not None:
        return config.ckpt_step if config.ckpt_step in steps(folder.path) else None
    step = _latest(folder.path)
    return step if isinstance(step, int) else None


def _latest(folder: Path) -> int | str | None:
    """What the tracker names; None without one that can be used."""
    try:
        return read_tracker(folder) if (folder / TRACKER).is_file() else None
    except TrackerProblem:
        return None


def initial_weights(inputs: Inputs) -> str | None:
    """The folder whose weights a run that continues none starts with; None when there are none, which is an error."""
    config = inputs.config
    if config.load and (config.finetune or config.ckpt_step is not None or look_at(config.load).kind == "megatron"):
        folder = look_at(config.load)
        if config.ckpt_step is not None:
            return config.load if config.ckpt_step in steps(folder.path) else None
        return config.load if folder.kind == "hf" or _latest(folder.path) is not None else None
    if config.load and look_at(config.load).kind == "hf":
        return None
    return config.ref_load


def check_rounds_left(inputs: Inputs) -> Iterator[Finding]:
    """A run that continues has rounds left."""
    config, saved = inputs.config, saved_round(inputs)
    if config.start_rollout_id is not None or saved is None or config.num_rollout is None:
        return
    if saved + 1 >= config.num_rollout:
        yield Finding(
            f"--load {config.load} has finished round {saved}, so none of the {config.num_rollout} rounds remains",
            f"give --num-rollout above {saved + 1}",
            ("--num-rollout", "--load"),
        )


def check_saved_optimizer(inputs: Inputs) -> Iterator[Finding]:
    """A run that continues finds the state of its optimizer."""
    config, saved = inputs.config, saved_round(inputs)
    if saved is None or config.no_load_optim:
        return
    folder = Path(config.load or "") / f"iter_{saved:07d}"
    if read_optional(folder / "slime.json").get("no_save_optim") is True:
        yield Finding(
            f"--load {config.load}: {folder.name} was saved with --no-save-optim, so it has no state of an optimizer",
            "give --no-load-optim to go on with a new one, or --finetune to start at round 0 with these weights",
            ("--load", "--no-load-optim"),
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
    folder, resumed = Path(config.save), saved_round(inputs)
    if (folder / TRACKER).is_file() and not saves_where_it_loads(config):
        step = (folder / TRACKER).read_text(encoding="utf-8", errors="replace").strip()[:40]
        yield Finding(
            f"--save {config.save} holds a run already (at {step}): this one would write over its checkpoints",
            f"give --load {config.save} to continue it, or another --save",
            ("--save", "--load"),
        )
        return
    if config.ckpt_step is not None and resumed is None and not config.finetune:
        return  # the step is missing, which `check_steps` says
    latest = _latest(folder)
    taken = endangered(config, resumed, latest if isinstance(latest, int) else None, steps(folder))
    if taken:
        start = "--finetune" if config.finetune else "--ckpt-step" if config.ckpt_step is not None else "--load"
        flag = start if config.start_rollout_id is None else "--start-rollout-id"
        yield Finding(*refusal(config, resumed, taken), (flag, "--save"))


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
        id="saved-optimizer",
        title=Text("恢复的 checkpoint 带有优化器状态", "The checkpoint that is resumed has an optimizer's state"),
        why=Text(
            "用 --no-save-optim 保存的 checkpoint 没有优化器状态，不加参数就无法恢复，而且要等引擎启动之后才会报错。",
            "A checkpoint saved with --no-save-optim has none, and cannot be resumed without a further flag; that "
            "would show only when the engines have started.",
        ),
        host=check_saved_optimizer,
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
