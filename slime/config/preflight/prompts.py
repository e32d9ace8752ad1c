"""The prompt files: every row can be read, has the columns that training needs, and is not templated twice."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slime.config.config import Config
from slime.config.errors import Problem
from slime.data.columns import CheckLabel, PromptOptions, read_columns
from slime.data.rows import PromptFileError, Row, read_rows

# Turn markers of the common chat templates.
_TEMPLATED = re.compile(r"<\|(im_start|im_end|user|assistant|system|start_header_id|eot_id)\|>|\[/?INST\]|<｜User｜>")


def check_prompt_files(config: Config) -> Iterator[Problem]:
    """Check the training prompts and each evaluation set, row by row, as the loader does.

    The loader alone sees token ids: that no prompt is short enough is said when the run starts.
    """
    yield from check_prompt_file(config, config.prompt_data, "--prompt-data", config.input_key, config.label_key)
    for dataset in config.eval_datasets:
        flag = f"--eval-prompt-data {dataset.name}"
        yield from check_prompt_file(config, dataset.path, flag, config.eval_input_key, config.eval_label_key)


def check_prompt_file(config: Config, spec: str, flag: str, input_key: str, label_key: str | None) -> Iterator[Problem]:
    """Check one prompt file; the first row that is wrong ends the check."""
    options = PromptOptions(input_key, label_key, config.metadata_key)
    check_label = _label_check(config)
    marked: list[tuple[Row, str]] = []
    try:
        rows = read_rows(spec)
        for row in rows:
            prompt = read_columns(row, options, config.apply_chat_template, check_label).prompt
            if isinstance(prompt, str) and (found := _TEMPLATED.search(prompt)):
                marked.append((row, found[0]))
    except PromptFileError as error:
        yield Problem("data", f"{flag} {error}", flags=(error.flag or flag.split()[0],))
        return
    if marked and config.apply_chat_template:
        row, marker = marked[0]
        yield Problem(
            "data",
            f"{row.place}: the prompt contains {marker} already ({len(marked)} of {len(rows)} rows do), and "
            "--apply-chat-template would wrap it again",
            "drop --apply-chat-template, or give the file without the template",
            ("--apply-chat-template",),
            severity="warning",
        )


def _label_check(config: Config) -> CheckLabel | None:
    if config.rm_type is None:
        return None
    # Not at the top: the flags are read in many places, reference answers here alone.
    from slime.rewards.graders import label_checker

    return label_checker(config.rm_type)
