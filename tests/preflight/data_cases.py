"""Rules of the data: what spoils prompts, grader or hooks for each, parts of what it says, and what it lets pass."""

from __future__ import annotations

from .bench import TEMPLATE, Bench
from .checkpoint_cases import Case, Change, both, nothing

GOOD = {"prompt": "1 + 1 =", "label": "2"}


def rows(*given: object) -> Change:
    """Other training prompts: objects, or lines of text."""

    def change(bench: Bench) -> None:
        if all(isinstance(row, str) for row in given):
            bench.text("train.jsonl", "\n".join(map(str, given)) + "\n")
        else:
            bench.rows("train.jsonl", given)

    return change


def plain(bench: Bench) -> None:
    """Without a chat template."""
    bench.set(apply_chat_template=False)


def hook(flag: str, path: str) -> Change:
    """A function of tests/preflight/user_hooks.py, or another path."""
    name = f"tests.preflight.user_hooks.{path}" if "." not in path else path
    return lambda bench: bench.set(**{flag: name})


def bos(bench: Bench) -> None:
    bench.change("hf/tokenizer_config.json", bos_token="<|endoftext|>", add_bos_token=True)


DATA_CASES: list[Case] = [
    ("prompt-files", "data", rows(GOOD, {"prompt": "x"}), ["train.jsonl:2: no key 'label' (--label-key)"], rows(GOOD)),
    ("prompt-files", "data", rows({"prompt": "x", "labels": "2"}), ["The nearest is 'labels': --label-key labels."],
     nothing),
    ("prompt-files", "data", rows({"question": "x", "label": "2"}), ["train.jsonl:1: no key 'prompt' (--input-key)"],
     lambda b: both(rows({"question": "x", "label": "2"}), lambda c: c.set(input_key="question"))(b)),
    ("prompt-files", "data", rows({"prompt": "x", "label": ""}), ["there is no reference answer"], nothing),
    ("prompt-files", "data", rows({"prompt": " ", "label": "2"}), ["the prompt in 'prompt' is empty"], nothing),
    ("prompt-files", "data", rows("", "{"), ["train.jsonl:2:2: not JSON"], nothing),
    ("prompt-files", "data", rows({"prompt": "x", "label": {"a": 1}}), ["train.jsonl:1: label: the gold answer is"],
     nothing),
    ("prompt-files", "data", rows({"prompt": "\ud800", "label": "2"}), ["half of a surrogate pair"], nothing),
    ("prompt-files", "data", rows('{"x": ' + "[" * 100_000 + "]" * 100_000 + "}"), ["nested too deeply"], nothing),
    ("prompt-files", "data", rows("[1]"), ["a row is a JSON object, this is a list"], nothing),
    ("prompt-files", "data", rows(""), ["no rows left; the file holds 0"], nothing),
    ("prompt-files", "data", both(plain, rows({"prompt": [{"role": "user", "content": "x"}], "label": "2"})),
     ["add --apply-chat-template"], rows({"prompt": [{"role": "user", "content": "x"}], "label": "2"})),
    ("prompt-files", "data", lambda b: b.set(prompt_data=str(b.folder / "trian.jsonl")),
     ["no such file. The folder holds: heldout.jsonl, train.jsonl."],
     lambda b: b.set(prompt_data=f"{b.folder}/train.jsonl@[2:-1]")),
    ("prompt-files", "data", lambda b: b.set(prompt_data=f"{b.folder}/train.jsonl@[5:1]"), ["no rows left"], nothing),
    ("prompt-files", "data",
     lambda b: b.set(eval_interval=1, eval_prompt_data=("held", str(b.folder / "none.jsonl"))),
     ["--eval-prompt-data held", "none.jsonl: no such file"],
     lambda b: b.set(eval_interval=1, eval_prompt_data=("held", str(b.folder / "heldout.jsonl")))),
    ("enough-prompts", "data", rows(*[GOOD] * 7), ["has 7 prompts", "7 are left, and a round takes 8", "at most 7"],
     rows(*[GOOD] * 8)),
    ("enough-prompts", "data", rows(*[{"prompt": "1 + " * 9 + "=", "label": "9"}] * 5, *[GOOD] * 7),
     ["has 12 prompts", "5 prompts exceed --rollout-max-prompt-len 16 and are dropped", "at most 9, 99% at most 24",
     "7 are left"],
     both(rows(*[{"prompt": "1 + " * 9 + "=", "label": "9"}] * 5, *[GOOD] * 7),
          lambda b: b.set(rollout_max_prompt_len=32))),
    ("enough-prompts", "data", both(rows(*[GOOD] * 9),
     lambda b: b.text("hf/tokenizer.json", '{"model": {"vocab": {}}}')),
     ["tokens cannot be counted", "pip install tokenizers"], nothing),
    ("templated-prompts", "data", rows({"prompt": "<|im_start|>user\n1 + 1<|im_end|>", "label": "2"}, GOOD),
     ["train.jsonl:1: the prompt contains <|im_start|> already (1 of 2 rows do)", "wrap it again"],
     both(plain, rows({"prompt": "<|im_start|>user\n1 + 1<|im_end|>", "label": "2"}, GOOD))),
    ("templated-prompts", "data",
     both(bos, plain, rows({"prompt": "<|endoftext|><|endoftext|>1 + 1 =", "label": "2"})),
     ["begins with <|endoftext|> twice"], both(bos, plain, rows({"prompt": "<|endoftext|>1 + 1 =", "label": "2"}))),
    ("templated-prompts", "data", both(bos, plain),
     ["does not begin with <|endoftext|>", "no special tokens are added", "add --apply-chat-template"],
     both(bos, lambda b: b.template("{{ bos_token }}" + TEMPLATE))),
    ("gold-answers", "data", rows(*[{**GOOD, "label": "\\frac{1}{2"}] * 3, GOOD),
     ["train.jsonl:1: the grader math does not accept the reference answer itself: '\\\\frac{1}{2' is no-answer",
      "of 4 rows that were tried 3 fail so", "--rm-type, or metadata.rm_type"],
     rows(*[{**GOOD, "label": "\\frac{1}{2}"}] * 4)),
    ("gold-answers", "data",
     rows({**GOOD, "label": "The sum is 2\n#### 2", "metadata": {"rm_type": "gsm8k"}},
          *[{**GOOD, "label": "1\n2", "metadata": {"rm_type": "dapo"}}] * 2),
     ["train.jsonl:2: the grader dapo", "of 3 rows that were tried 2 fail so"],
     rows({**GOOD, "label": "The sum is 2\n#### 2", "metadata": {"rm_type": "gsm8k"}},
          {**GOOD, "label": "A", "metadata": {"rm_type": "multiple_choice", "choices": ["one", "two"]}})),
    ("thinking", "data", lambda b: b.set(rm_type="deepscaler"), ["--rm-type deepscaler reads what follows </think>",
                                                                 "give --rm-type math"],
     both(lambda b: b.set(rm_type="deepscaler"), lambda b: b.template(TEMPLATE + "{# </think> #}"))),
    ("hooks", "data", hook("custom_rm_path", "no_such_function"),
     ["--custom-rm-path tests.preflight.user_hooks.no_such_function", "has no 'no_such_function'",
     "expected: async def"],
     hook("custom_rm_path", "reward")),
    ("hooks", "data", hook("custom_rm_path", "not_awaitable"), ["it must be `async def`"], hook("custom_rm_path",
     "reward")),
    ("hooks", "data", hook("custom_rm_path", "too_few"), ["called with (args, sample)"], hook("custom_rm_path",
     "reward")),
    ("hooks", "data", hook("custom_rm_path", "raises"), ["it raised", "service is down"], hook("custom_rm_path",
     "reward")),
    ("hooks", "data", hook("custom_rm_path", "tests.preflight.hook_that_exits.reward"),
     ["ended the process that tried it, with exit status 7"], hook("custom_rm_path", "reward")),
    ("hooks", "data", hook("custom_rm_path", "tests.preflight.hook_that_exits_well.reward"),
     ["ended the process that tried it, with exit status 0"], hook("custom_rm_path", "reward")),
    ("sample-contract", "data", hook("custom_generate_function_path", "short_mask"),
     ["--custom-generate-function-path", "loss_mask"], hook("custom_generate_function_path", "whole_sample")),
    ("reward-values", "data", hook("custom_rm_path", "mapping"), ["--reward-key"],
     both(hook("custom_rm_path", "mapping"), lambda b: b.set(reward_key="score"))),
    ("reward-values", "data", hook("custom_rm_path", "none"), ["None"], hook("custom_rm_path", "reward")),
    ("filters", "data", hook("dynamic_sampling_filter_path", "says_maybe"), ["'maybe'", "True or False"],
     hook("dynamic_sampling_filter_path", "keeps")),
]  # fmt: skip
