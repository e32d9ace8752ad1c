"""The grader tried on the data's own reference answers, in processes that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.prompts import PromptFile
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import counted

if TYPE_CHECKING:
    from slime.rewards.pool import GradeRequest
    from slime.rewards.verdict import Verdict

# Rows that are tried: the first of each file, and the first of each grader that rows name.
_TRIED, _TRIED_OF_A_GRADER = 32, 4
_FEW = 0.1


def check_libraries(inputs: Inputs) -> Iterator[Finding]:
    """The algebra system of the graders is installed."""
    from slime.rewards.pool import MissingLibraryError, require_algebra

    used = {name for file in inputs.prompts for name in graders_of(file)}
    if not used:
        return
    try:
        require_algebra()
    except MissingLibraryError as error:
        yield Finding(f"the grader {', '.join(sorted(used))} cannot be started: {error}", flags=("--rm-type",))


def graders_of(file: PromptFile) -> list[str]:
    """The graders of a file's rows: what a row names goes before --rm-type."""
    config = file.inputs.config
    if config.custom_rm_path is not None or config.loss_type == "sft_loss":
        return []
    names = (str(one.metadata.get("rm_type", config.rm_type or "")) for one in file.columns)
    return list(dict.fromkeys(name.strip() for name in names if name.strip()))


def gold_response(grader: str, label: Any, metadata: Mapping[str, Any]) -> str | None:
    """A response that gives the reference answer in the grader's own form; None where there is no one form."""
    text = str(label).strip()
    boxed = text if "\\boxed" in text else f"\\boxed{{{text}}}"
    if grader.startswith("boxed_") or grader == "math":
        return boxed
    if grader == "deepscaler":
        return f"</think>\n\n{boxed}"
    if grader == "dapo":
        return f"Answer: {text}"
    if grader == "gsm8k":
        return text if "####" in text else f"#### {text}"
    if grader == "f1":
        return text
    if grader in ("gpqa", "multiple_choice"):
        letter = metadata.get("correct_letter", text)
        return f"The answer is {letter}" if isinstance(letter, str) and len(letter) == 1 else None
    return None


def check_gold(inputs: Inputs) -> Iterator[Finding]:
    """The grader takes each reference answer for correct, and no answer for wrong."""
    from slime.rewards.pool import MissingLibraryError, require_algebra

    try:
        require_algebra()
    except MissingLibraryError:
        return  # the rule about libraries says so
    for file in inputs.prompts:
        tried = _tried(file)
        if tried:
            yield from _judge(file, tried)


def _tried(file: PromptFile) -> list[tuple[str, str, GradeRequest]]:
    """(place, grader, request) of the rows that are tried."""
    from slime.rewards.pool import GradeRequest

    config, seen, tried = file.inputs.config, dict.fromkeys(graders_of(file), 0), []
    if not seen:
        return []
    for number, (row, one) in enumerate(zip(file.rows, file.columns, strict=True)):
        grader = str(one.metadata.get("rm_type", config.rm_type or "")).strip()
        if not grader or (number >= _TRIED and seen[grader] >= _TRIED_OF_A_GRADER):
            continue
        seen[grader] += 1
        response = gold_response(grader, one.label, one.metadata)
        if response is not None:
            tried.append((row.place, grader, GradeRequest(grader, response, one.label, dict(one.metadata))))
    return tried


def _grade(requests: list[GradeRequest]) -> list[Verdict]:
    from slime.rewards.pool import GraderPool

    with GraderPool(workers=1) as pool:
        return asyncio.run(pool.grade(requests))


def _judge(file: PromptFile, tried: list[tuple[str, str, GradeRequest]]) -> Iterator[Finding]:
    from slime.rewards.pool import GradeRequest

    requests = [request for _, _, request in tried]
    empty = {grader: GradeRequest(grader, "", request.label, request.metadata) for _, grader, request in tried}
    verdicts = _grade([*requests, *empty.values()])
    failed = [(one, verdict) for one, verdict in zip(tried, verdicts, strict=False) if verdict.kind != "correct"]
    if failed:
        (place, grader, request), verdict = failed[0]
        yield Finding(
            f"{place}: the grader {grader} does not accept the reference answer itself: {str(request.label)[:60]!r} is "
            f"{verdict.kind} ({verdict.reason}); of {counted(len(tried), 'row')} that were tried {len(failed)} fail so",
            "correct the answers, or give the grader of this data: --rm-type, or metadata.rm_type of the row",
            ("--rm-type", "--label-key"),
            severity="warning" if len(failed) <= _FEW * len(tried) else "error",
        )
    for grader, verdict in zip(empty, verdicts[len(requests) :], strict=True):
        if verdict.kind == "correct":
            yield Finding(
                f"{file.flag}: the grader {grader} takes an empty response for correct ({verdict.reason})",
                "give the reference answers: --label-key",
                ("--rm-type", "--label-key"),
            )


def check_thinking(inputs: Inputs) -> Iterator[Finding]:
    """A grader that reads what follows the thoughts has a model that ends its thoughts."""
    template, vocabulary, config = inputs.template, inputs.vocabulary, inputs.config
    if vocabulary is None or "</think>" in vocabulary.ids or (template is not None and "</think>" in template.text):
        return
    if not config.apply_chat_template or template is None:
        return  # a base model writes what its prompt asks for
    for file in inputs.prompts:
        if "deepscaler" in graders_of(file):
            yield Finding(
                f"--rm-type deepscaler reads what follows </think>, and neither tokenizer nor chat template of "
                f"{inputs.folder} has it: every answer would get reward 0",
                "give --rm-type math",
                ("--rm-type",),
            )
            return


RULES = (
    Rule(
        id="gold-answers",
        row=52,
        source="verl#3450, verl#5558",
        title=Text("评分器认可数据自己的标准答案", "The grader accepts the data's own reference answers"),
        why=Text(
            "找不到评分器，或者评分器读不懂标准答案，奖励就永远是 0；往往几分钟后的第一次评估才暴露。",
            "Without a grader for a row, or with one that cannot read its answer, rewards are 0 for ever; it used to "
            "show "
            "at the first evaluation, minutes in.",
        ),
        data=check_gold,
    ),
    Rule(
        id="thinking",
        row=56,
        source="",
        title=Text(
            "读取思考之后内容的评分器配有会思考的模型", "A grader of what follows the thoughts has a model that thinks"
        ),
        why=Text(
            "deepscaler 只看 </think> 之后的部分；从不写它的模型，每个回答都得 0 分。",
            "deepscaler reads what follows </think> alone; a model that never writes it gets 0 for every answer.",
        ),
        data=check_thinking,
    ),
    Rule(
        id="grader-libraries",
        row=76,
        source="verl#5635, verl#5839, trl#5281",
        title=Text("评分器依赖的库已安装", "The libraries of the graders are installed"),
        why=Text(
            "缺少库或者在错误的线程里计时，会让所有奖励悄悄变成 0。评分在可以终止的子进程里进行，出错单独计数，"
            "出错过多则停止运行。",
            "A missing library, or a timer in the wrong thread, turns all rewards into 0. Here grading runs in "
            "processes that can "
            "be killed, errors are counted apart from reward 0, and too many of them end the run.",
        ),
        data=check_libraries,
    ),
)
