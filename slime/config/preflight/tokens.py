"""Tokenizer, stop tokens, and what the template ends a turn with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.json_files import read_json
from slime.config.preflight.template import TemplateProblem
from slime.config.preflight.vocabulary import Vocabulary
from slime.config.rule import Finding, Rule

_KINDS = {"tokenizer.json", "tokenizer.model", "tiktoken.model"}
# Below it a model writes no prose, so a short response is no sign of a mistake.
_PROSE_VOCABULARY = 10_000
_SHORT_RESPONSE = 512
_REASONING = ("math", "deepscaler", "dapo", "gsm8k", "gpqa")


def check_tokenizer(inputs: Inputs) -> Iterator[Finding]:
    """Tokenizer files are there, with a chat template when one is applied."""
    folder = inputs.folder
    if not folder.is_dir():
        return
    has = {path.name for path in folder.iterdir()}
    if not (_KINDS & has or {"vocab.json", "merges.txt"} <= has):
        yield Finding(f"{folder} has no tokenizer (tokenizer.json, tokenizer.model)", "the download is incomplete")
        return
    given = inputs.config.chat_template_path is not None or {"chat_template.jinja", "chat_template.json"} & has
    if given or not inputs.config.apply_chat_template:
        return
    try:
        settings = read_json(folder / "tokenizer_config.json")
    except ValueError as error:
        yield Finding(f"{folder / 'tokenizer_config.json'}: {error}", "the download is incomplete")
        return
    if not settings.get("chat_template"):
        yield Finding(
            f"--apply-chat-template, and the tokenizer of {folder} has no chat template",
            "drop the flag, or use an instruction-tuned model",
            ("--apply-chat-template",),
        )


def check_template(inputs: Inputs) -> Iterator[Finding]:
    """The template renders a question."""
    if not inputs.config.apply_chat_template or inputs.template is None:
        return
    arguments = dict(inputs.config.apply_chat_template_kwargs or {})
    try:
        text = inputs.template.render([{"role": "user", "content": "1 + 1 = ?"}], generate=True, **arguments)
    except TemplateProblem as error:
        yield Finding(
            f"the chat template of {inputs.folder} cannot render one question: {error}",
            "repair chat_template.jinja, or give what it asks for in --apply-chat-template-kwargs",
            ("--apply-chat-template", "--apply-chat-template-kwargs"),
        )
        return
    if "1 + 1 = ?" not in text:
        yield Finding(
            f"the chat template of {inputs.folder} leaves the question out: it renders {text[:80]!r}",
            "repair chat_template.jinja",
            ("--apply-chat-template",),
        )
    bos = inputs.vocabulary.named("bos_token") if inputs.vocabulary else None
    if bos and text.startswith(bos + bos):
        yield Finding(
            f"the chat template of {inputs.folder} begins a conversation with {bos} twice",
            "repair chat_template.jinja: it writes the token once",
            ("--apply-chat-template",),
        )


def check_vocabulary(inputs: Inputs) -> Iterator[Finding]:
    """Every id of the tokenizer has a row in the embedding."""
    model, vocabulary = inputs.model, inputs.vocabulary
    if model is None or model.vocab is None or vocabulary is None or vocabulary.largest < model.vocab:
        return
    token = max(vocabulary.ids, key=lambda one: vocabulary.ids[one])
    yield Finding(
        f"the tokenizer of {inputs.folder} gives {token!r} the id {vocabulary.largest}, and the embedding has "
        f"{model.vocab} rows: the token would read beyond them",
        "tokenizer and weights belong to different models: download both again",
        ("--hf-checkpoint",),
    )


def check_stop_tokens(inputs: Inputs) -> Iterator[Finding]:
    """Some token ends a response, and the checkpoint's files agree which."""
    vocabulary = inputs.vocabulary
    if vocabulary is None or inputs.model is None:
        return
    stops = _ids(inputs.generation.get("eos_token_id")) | _ids(inputs.model.found.get("eos_token_id"))
    named = vocabulary.named("eos_token")
    own = vocabulary.ids.get(named) if named else None
    turn = _turn_end(inputs, vocabulary)
    if not stops and own is None and turn is None and not inputs.config.rollout_stop_token_ids:
        yield Finding(
            f"no file of {inputs.folder} names an end token, neither does the chat template: every response would run "
            "to "
            "its limit",
            "give --rollout-stop-token-ids, or write eos_token_id into generation_config.json",
            ("--rollout-stop-token-ids",),
        )
        return
    for origin, token, number in (
        ("tokenizer_config.json", named, own),
        ("the chat template", turn, vocabulary.ids.get(turn) if turn else None),
    ):
        if stops and number is not None and number not in stops:
            listed = ", ".join(f"{_text(vocabulary, one)} ({one})" for one in sorted(stops))
            yield Finding(
                f"{origin} of {inputs.folder} ends a turn with {token} ({number}), and generation_config.json and "
                f"config.json name {listed}: whoever knows one of them alone takes ended responses for cut off",
                "the run stops at each of them; let the files agree for everything else",
                ("--rollout-stop-token-ids",),
            )


def check_response_cap(inputs: Inputs) -> Iterator[Finding]:
    """A model that reasons has room to come to its answer."""
    config, model = inputs.config, inputs.model
    length = config.rollout_max_response_len
    if model is None or model.vocab is None or model.vocab < _PROSE_VOCABULARY or config.rm_type not in _REASONING:
        return
    if length < _SHORT_RESPONSE:
        yield Finding(
            f"--rollout-max-response-len {length} with --rm-type {config.rm_type}: a language model that reasons needs "
            f"more, so all answers would be cut off and get reward 0",
            f"give at least {_SHORT_RESPONSE}; 4096 is usual",
            ("--rollout-max-response-len",),
        )


def check_positions(inputs: Inputs) -> Iterator[Finding]:
    """The model can tell the positions of the longest sample apart."""
    longest, model = inputs.config.rollout_max_context_len, inputs.model
    if model is not None and model.positions and longest is not None and longest > model.positions:
        yield Finding(
            f"prompt and response of up to {longest} tokens exceed the {model.positions} positions of {model.path}",
            f"give a context of at most {model.positions}",
            ("--rollout-max-context-len",),
        )


def _turn_end(inputs: Inputs, vocabulary: Vocabulary) -> str | None:
    """The special token with which the template ends the assistant's turn; None when it ends otherwise."""
    if not inputs.config.apply_chat_template or inputs.template is None:
        return None
    arguments = dict(inputs.config.apply_chat_template_kwargs or {})
    turns = [{"role": "user", "content": "1 + 1 = ?"}, {"role": "assistant", "content": "2"}]
    try:
        tail = inputs.template.render(turns, **arguments).rstrip()
    except TemplateProblem:
        return None
    ends = [token for token in vocabulary.special if tail.endswith(token)]
    return max(ends, key=len) if ends else None


def _ids(value: Any) -> set[int]:
    values = value if isinstance(value, list) else [value]
    return {one for one in values if isinstance(one, int) and not isinstance(one, bool)}


def _text(vocabulary: Vocabulary, number: int) -> str:
    return next((token for token, one in vocabulary.ids.items() if one == number), "an unknown token")


RULES = (
    Rule(
        id="tokenizer",
        title=Text("有 tokenizer；要用模板时也有模板", "There is a tokenizer, and a chat template when one is applied"),
        why=Text("没有它们，prompt 无法变成 token。", "Without them no prompt becomes tokens."),
        hf=check_tokenizer,
    ),
    Rule(
        id="template",
        title=Text("对话模板能渲染一个问题", "The chat template renders a question"),
        why=Text(
            "模板里的错误、丢失的内容或者重复的开头，会影响每一个 prompt。",
            "A broken template, lost content or a doubled beginning is in every prompt.",
        ),
        hf=check_template,
    ),
    Rule(
        id="vocabulary",
        title=Text("tokenizer 的 id 不超出词表", "The tokenizer's ids lie within the vocabulary"),
        why=Text(
            "超出嵌入行数的 id 会读到别处的内存，或者让 kernel 崩溃。",
            "An id beyond the embedding reads other memory or brings the kernel down.",
        ),
        hf=check_vocabulary,
    ),
    Rule(
        id="stop-tokens",
        row=47,
        source="trl#7039",
        severity="warning",
        title=Text("有结束 token，各个文件的说法一致", "There is an end token, and the files agree which"),
        why=Text(
            "说法不一时，正常结束的回答会被当作截断，或者永远不结束。运行时会在其中任何一个处停下。",
            "When they disagree, responses that ended count as cut off, or never end. The run itself stops at each of "
            "them.",
        ),
        hf=check_stop_tokens,
    ),
    Rule(
        id="response-cap",
        row=33,
        source="trl#5697, trl#6263",
        severity="warning",
        title=Text("推理模型的回答有足够的长度", "A model that reasons has room for its answer"),
        why=Text(
            "上限太短时每个回答都被截断，奖励永远是 0，梯度也是 0。",
            "With too short a cap every answer is cut off: reward 0 and gradient 0, for ever.",
        ),
        hf=check_response_cap,
    ),
)
