"""The prompt files: every row can be read, is not templated twice, and enough of them are short enough."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.template import TemplateProblem
from slime.config.preflight.vocabulary import INSTALL
from slime.config.rule import Finding, Rule
from slime.data.columns import CheckLabel, Columns, PromptOptions, read_columns
from slime.data.rows import PromptFileError, Row, read_rows

# Turn markers of the common chat templates.
_TEMPLATED = re.compile(r"<\|(im_start|im_end|user|assistant|system|start_header_id|eot_id)\|>|\[/?INST\]|<｜User｜>")
# So many prompts are counted in tokens; in a longer file they are taken evenly from all of it.
_COUNTED = 20_000


@dataclass
class PromptFile:
    """One prompt file with its rows.

    Attributes:
        spec: path, perhaps with a slice.
        flag: with which it was given, and for an evaluation set its name.
        rows: the rows before the first that is wrong.
        columns: what each of them holds.
        error: why the next row, or the file, cannot be used.
        error_flag: the flag whose value does not fit the file.
    """

    spec: str
    flag: str
    inputs: Inputs
    rows: list[Row] = field(default_factory=list)
    columns: list[Columns] = field(default_factory=list)
    error: str = ""
    error_flag: str | None = None

    @property
    def trains(self) -> bool:
        """Whether the run trains on it, rather than evaluates."""
        return self.flag == "--prompt-data"

    def rendered(self, columns: Columns) -> str:
        """The prompt as the model sees it. Raises TemplateProblem."""
        config, template = self.inputs.config, self.inputs.template
        if not config.apply_chat_template or template is None:
            return columns.prompt if isinstance(columns.prompt, str) else ""
        given = columns.prompt
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        arguments = dict(config.apply_chat_template_kwargs or {})
        return template.render(messages, generate=True, tools=columns.tools, **arguments)

    @cached_property
    def lengths(self) -> list[int] | None:
        """Tokens of the prompts, ascending; None when they cannot be counted."""
        vocabulary = self.inputs.vocabulary
        tokenizer = vocabulary.tokenizer if vocabulary is not None else None
        if tokenizer is None or not self.columns:
            return None
        chosen = self.columns[:: max(len(self.columns) // _COUNTED, 1)]
        try:
            texts = [self.rendered(one) for one in chosen]
        except TemplateProblem:
            return None
        return sorted(len(one) for one in tokenizer.encode_batch(texts, add_special_tokens=False))


def read_prompt_files(inputs: Inputs) -> list[PromptFile]:
    """Read the training prompts and each evaluation set, row by row, as the loader does."""
    config = inputs.config
    train = PromptFile(config.prompt_data, "--prompt-data", inputs)
    files = [_read(train, config.input_key, config.label_key, config.tool_key)]
    for dataset in config.eval_datasets:
        file = PromptFile(dataset.path, f"--eval-prompt-data {dataset.name}", inputs)
        tool_key = config.eval_tool_key or config.tool_key
        files.append(_read(file, config.eval_input_key, config.eval_label_key, tool_key))
    return files


def _read(file: PromptFile, input_key: str, label_key: str | None, tool_key: str) -> PromptFile:
    config = file.inputs.config
    # Messages may stay messages for a function of the user's, and supervised data are nothing else.
    keep = config.custom_generate_function_path is not None or config.loss_type == "sft_loss"
    options = PromptOptions(input_key, label_key, config.metadata_key, tool_key=tool_key, keep_messages=keep)
    check_label = _label_check(file.inputs)
    try:
        for row in read_rows(file.spec):
            file.columns.append(read_columns(row, options, config.apply_chat_template, check_label))
            file.rows.append(row)
    except PromptFileError as error:
        file.error, file.error_flag = str(error), error.flag
    return file


def _label_check(inputs: Inputs) -> CheckLabel | None:
    if inputs.config.rm_type is None or inputs.config.loss_type == "sft_loss":
        return None
    # Not at the top: the flags are read in many places, reference answers here alone.
    from slime.rewards.graders import label_checker

    return label_checker(inputs.config.rm_type)


def check_prompt_files(inputs: Inputs) -> Iterator[Finding]:
    """Every row of every file can be used; the first that is wrong is named."""
    for file in inputs.prompts:
        if file.error:
            yield Finding(f"{file.flag} {file.error}", flags=(file.error_flag or file.flag.split()[0],))


def check_templated(inputs: Inputs) -> Iterator[Finding]:
    """A prompt that is templated already is not templated again."""
    config, vocabulary = inputs.config, inputs.vocabulary
    special = sorted(vocabulary.special, key=len, reverse=True) if vocabulary is not None else []
    for file in inputs.prompts:
        marked = [
            (row, marker)
            for row, columns in zip(file.rows, file.columns, strict=True)
            if isinstance(columns.prompt, str) and (marker := _marker(columns.prompt, special))
        ]
        if marked and config.apply_chat_template:
            row, marker = marked[0]
            yield Finding(
                f"{row.place}: the prompt contains {marker} already ({len(marked)} of {len(file.rows)} rows do), and "
                "--apply-chat-template would wrap it again",
                "drop --apply-chat-template, or give the file without the template",
                ("--apply-chat-template",),
            )


def check_first_token(inputs: Inputs) -> Iterator[Finding]:
    """A model that begins with a token of its own finds it there, once."""
    config, vocabulary = inputs.config, inputs.vocabulary
    bos = vocabulary.named("bos_token") if vocabulary is not None else None
    if vocabulary is None or bos is None:
        return
    for file in inputs.prompts:
        if not file.columns:
            continue
        try:
            text = file.rendered(file.columns[0])
        except TemplateProblem:
            continue  # the rule about the template says so
        if text.startswith(bos + bos):
            yield Finding(
                f"{file.rows[0].place}: the rendered prompt begins with {bos} twice, once from the file and once from "
                "the "
                "chat template",
                "take it out of the file",
                ("--apply-chat-template",),
            )
        elif vocabulary.settings.get("add_bos_token") is True and not text.startswith(bos):
            yield Finding(
                f"{file.rows[0].place}: the prompt does not begin with {bos}, with which this model has seen every "
                "text; "
                "no special tokens are added to prompts",
                f"write {bos} in front of the prompts"
                + ("" if config.apply_chat_template else ", or add --apply-chat-template"),
                ("--apply-chat-template",),
            )


def _marker(prompt: str, special: Sequence[str]) -> str | None:
    found = _TEMPLATED.search(prompt)
    return found[0] if found else next((token for token in special if len(token) > 2 and token in prompt), None)


def check_enough_prompts(inputs: Inputs) -> Iterator[Finding]:
    """After the long ones are dropped, a round's prompts are left."""
    config = inputs.config
    for file in inputs.prompts:
        if file.error or not file.trains:
            continue
        rows, kept = len(file.rows), len(file.rows)
        limit, lengths = config.rollout_max_prompt_len, file.lengths
        numbers = ""
        if lengths is not None and limit is not None:
            share = sum(one <= limit for one in lengths) / len(lengths)
            kept = round(rows * share)
            excess = f"{rows - kept} prompts exceed --rollout-max-prompt-len {limit} and are dropped"
            dropped = excess if kept < rows else "none is too long"
            numbers = (
                f" ({dropped}; half have at most {lengths[len(lengths) // 2]}, 99% at most "
                f"{lengths[int(0.99 * (len(lengths) - 1))]})"
            )
        elif limit is not None and inputs.vocabulary is not None and inputs.vocabulary.tokenizer is None:
            yield Finding(
                "the prompts' tokens cannot be counted: the library tokenizers is not installed, or cannot read "
                f"{inputs.folder / 'tokenizer.json'}",
                INSTALL,
                severity="warning",
            )
        if kept < config.rollout_batch_size:
            yield Finding(
                f"{file.spec} has {rows} prompts{numbers}: {kept} are left, and a round takes "
                f"{config.rollout_batch_size}",
                f"give --rollout-batch-size of at most {kept}, or more prompts"
                if kept
                else "give a larger --rollout-max-prompt-len",
                ("--prompt-data", "--rollout-batch-size", "--rollout-max-prompt-len"),
            )


RULES = (
    Rule(
        id="prompt-files",
        title=Text("prompt 文件的每一行都能用", "Every row of the prompt files can be used"),
        why=Text(
            "缺列、空 prompt 或评分器不认的标准答案，要等轮到那一行时才会出错。",
            "A missing column, an empty prompt or a reference answer that the grader cannot read fails only when its "
            "turn "
            "comes.",
        ),
        data=check_prompt_files,
    ),
    Rule(
        id="enough-prompts",
        row=34,
        source="",
        title=Text("去掉过长的 prompt 后仍够一轮", "Without the long prompts a round is left"),
        why=Text(
            "按长度过滤之后不够一批时，数据加载器是空的，运行立即停下。",
            "When filtering by length leaves less than a batch, the loader is empty and the run stops at once.",
        ),
        data=check_enough_prompts,
    ),
    Rule(
        id="templated-prompts",
        row=51,
        source="",
        severity="warning",
        title=Text("prompt 没有套两次模板，开头的 token 也没有重复", "Prompts are templated once and begin once"),
        why=Text(
            "套了两次模板的 prompt 能训练，只是梯度范数很大，效果很差。",
            "Prompts that are templated twice do train, with large gradient norms and poor results.",
        ),
        data=lambda inputs: (*check_templated(inputs), *check_first_token(inputs)),
    ),
)
