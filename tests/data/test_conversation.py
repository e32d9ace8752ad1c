"""Ids and masks of conversations against transformers' own, for templates in the style of four families."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slime.data.chat_template import ChatTemplate, ChatTemplateError, use_template
from slime.data.conversation import (
    ConversationError,
    EncodedConversation,
    encode_conversation,
    following_tokens,
    supervised_samples,
)
from slime.data.sample import Sample, Status

from .families import DEEPSEEK_R1, FAMILIES, stop_ids, tokenizer

pytestmark = pytest.mark.runtime
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"a": "int"}}}]
CALL = [{"type": "function", "function": {"name": "add", "arguments": {"a": 12}}}]

ONE: list[dict[str, Any]] = [
    {"role": "system", "content": "help"},
    {"role": "user", "content": "hello"},
    {"role": "assistant", "content": "12"},
]
TWO: list[dict[str, Any]] = [
    *ONE,
    {"role": "user", "content": "and 1 + 2?"},
    {"role": "assistant", "content": "3, that is all\n\nof it"},
]
AGENT: list[dict[str, Any]] = [
    {"role": "user", "content": "1 + 12, 1 + 1?"},
    {"role": "assistant", "content": "I call.", "tool_calls": CALL, "reasoning_content": "two calls"},
    {"role": "tool", "content": "13"},
    {"role": "tool", "content": "2"},
    {"role": "assistant", "content": "13 and 2", "reasoning_content": "both are there"},
]


def template_of(family: str, **options: Any) -> ChatTemplate:
    return ChatTemplate(tokenizer(family), stop_token_ids=stop_ids(family), **options)


def reference(family: str, messages: list[dict[str, Any]], tools: Any = None) -> tuple[list[int], list[int]]:
    """Ids and mask of transformers, with the token that the model ends a turn with where the template leaves it out."""
    own = tokenizer(family)
    found = own.apply_chat_template(
        messages, tools=tools, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    ids, mask = list(found["input_ids"]), list(found["assistant_masks"])
    if family == "glm4":
        stops = set(stop_ids(family))
        for at in range(1, len(ids)):
            mask[at] |= int(mask[at - 1] and ids[at] in stops)
    return ids, mask


def whole_mask(piece: EncodedConversation) -> list[int]:
    return [0] * piece.prompt_length + piece.loss_mask


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("messages", [ONE, TWO], ids=["one turn", "two turns"])
def test_ids_and_mask_are_those_of_transformers(family: str, messages: list[dict[str, Any]]) -> None:
    pieces = encode_conversation(template_of(family), messages)
    if family == "qwen3" and messages is TWO:
        pieces = pieces[1:]  # the template rewrites the first turn, see below
    (piece,) = pieces
    ids, mask = reference(family, messages)
    assert piece.tokens == ids
    if family == "qwen3" and messages is TWO:
        mask[: piece.prompt_length] = [0] * piece.prompt_length
    assert whole_mask(piece) == mask
    assert sum(mask) > 0


# transformers masks only the first of the bytes that a last character beyond ASCII is made of, so none is at the end.
TEXT = st.text(alphabet="hel 12\n\té<|▁", min_size=1, max_size=12).filter(lambda text: text[-1].isascii())


@settings(max_examples=120, deadline=None, derandomize=True)
@given(st.sampled_from(["llama3", "glm4", "deepseek"]), st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4))
def test_any_conversation_is_that_of_transformers_or_refused(family: str, turns: list[tuple[str, str]]) -> None:
    messages = [
        {"role": role, "content": content}
        for pair in turns
        for role, content in zip(("user", "assistant"), pair, strict=True)
    ]
    try:
        (piece,) = encode_conversation(template_of(family), messages)
    except ConversationError as error:
        # The line break before a turn of GLM-4 merges with one at its beginning.
        assert "in the middle of a token" in str(error)
        assert family == "glm4"
        assert any(answer.startswith("\n") for _, answer in turns)
        return
    assert (piece.tokens, whole_mask(piece)) == reference(family, messages)


def test_a_template_that_rewrites_history_gives_a_piece_for_each_text() -> None:
    first, second = encode_conversation(template_of("qwen3"), TWO)
    assert (first.turns, second.turns) == ((2,), (4,))
    assert (first.tokens, whole_mask(first)) == reference("qwen3", TWO[:3])
    decode = tokenizer("qwen3").decode
    assert decode(first.tokens[first.prompt_length :]) == "<think>\n\n</think>\n\n12<|im_end|>\n"
    assert "12<|im_end|>" in decode(second.tokens)
    assert decode(second.tokens).count("<think>") == 1


def test_a_chain_of_tools_is_one_piece_and_results_are_masked() -> None:
    (piece,) = encode_conversation(template_of("qwen3"), AGENT, TOOLS)
    assert (piece.tokens, whole_mask(piece)) == reference("qwen3", AGENT, TOOLS)
    trained = [token for token, on in zip(piece.tokens, whole_mask(piece), strict=True) if on]
    text = tokenizer("qwen3").decode(trained)
    assert text.count("<|im_end|>") == 2
    assert "<tool_call>" in text
    assert "<tool_response>" not in text


def test_a_turn_may_be_kept_out_of_the_loss() -> None:
    messages = [dict(message) for message in AGENT]
    messages[1]["step_loss_mask"] = 0
    (piece,) = encode_conversation(template_of("qwen3"), messages, TOOLS)
    ids, mask = reference("qwen3", AGENT, TOOLS)
    assert piece.tokens == ids
    first_turn_ends = mask.index(0, mask.index(1))
    assert whole_mask(piece) == [0] * first_turn_ends + mask[first_turn_ends:]
    assert piece.turns == (4,)


def test_the_arguments_of_the_template_reach_it() -> None:
    quiet = template_of("qwen3", kwargs={"enable_thinking": False})
    (piece,) = encode_conversation(quiet, ONE)
    assert tokenizer("qwen3").decode(piece.tokens[piece.prompt_length :]) == "12<|im_end|>\n"
    assert encode_conversation(template_of("qwen3"), ONE, kwargs={"enable_thinking": False}) == [piece]
    with pytest.raises(ChatTemplateError, match="'add_generation_prompt' is an argument of the tokenizer"):
        template_of("qwen3", kwargs={"add_generation_prompt": True})


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "user", "content": "a"}], "no message of 1 trains"),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "step_loss_mask": 0}],
            "no message of 2",
        ),
        (
            [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b<｜end▁of▁sentence｜>c"}],
            "message 1: <｜end▁of▁sentence｜> stands inside it",
        ),
    ],
)
def test_conversations_that_teach_nothing_or_the_wrong_thing(messages: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(ConversationError, match=words):
        encode_conversation(template_of("deepseek"), messages)


def test_a_turn_that_begins_inside_a_token_is_refused() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "\nb"}]
    with pytest.raises(ConversationError, match=r"message 1 begins in the middle of a token: .*share one"):
        encode_conversation(template_of("glm4"), messages)
    encode_conversation(template_of("llama3"), messages)  # which trims it


def test_a_template_that_shows_turns_otherwise_than_it_asks_for_them_is_refused() -> None:
    template = ChatTemplate(tokenizer("deepseek", DEEPSEEK_R1))
    with pytest.raises(ConversationError, match=r"message 2: the chat template asks .* '<think>\\n' first"):
        encode_conversation(template, ONE)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_agent_gets_what_the_template_puts_between_two_turns(family: str) -> None:
    """Ids of the turns one after another, as an agent collects them, are the ids of the whole."""
    template, own = template_of(family), tokenizer(family)
    answers = (
        [{"role": "tool", "content": "13"}] if family in ("qwen3", "glm4") else [{"role": "user", "content": "so?"}]
    )
    begin, middle, end = AGENT[:1], AGENT[:2], [*AGENT[:2], *answers]
    whole = own(template.render(end, add_generation_prompt=True), add_special_tokens=False)["input_ids"]
    if family == "qwen3":
        assert own.decode(whole).count("<think>") == 1
    prompt = own(template.render(begin, add_generation_prompt=True), add_special_tokens=False)["input_ids"]
    (piece,) = encode_conversation(template, middle)
    last = 1 + max(at for at, on in enumerate(whole_mask(piece)) if on)
    turn = piece.tokens[len(prompt) : last]
    if family == "glm4":  # the model writes the token of the next role
        turn = [*turn, own.convert_tokens_to_ids("<|observation|>")]
    assert prompt + turn + following_tokens(template, middle, answers, turn[-1]) == whole
    # A turn cut at the limit has no end: it is put there, masked like the rest.
    cut = turn[:-1]
    assert prompt + cut + following_tokens(template, middle, answers, cut[-1]) == whole


def test_an_agent_is_told_when_history_is_rewritten_or_a_turn_ends_wrongly() -> None:
    end = tokenizer("qwen3").convert_tokens_to_ids("<|im_end|>")
    with pytest.raises(ConversationError, match=r"rewrites what came before message 2 \(user\).*<think>"):
        following_tokens(template_of("qwen3"), AGENT[:2], [{"role": "user", "content": "so?"}], end)
    user = tokenizer("glm4").convert_tokens_to_ids("<|user|>")
    with pytest.raises(ConversationError, match=r"ended turn 1 with <\|user\|>.*ends it with <\|observation\|>"):
        following_tokens(template_of("glm4"), AGENT[:2], [{"role": "tool", "content": "13"}], user)


def test_supervised_samples_keep_the_contract() -> None:
    fresh = Sample(group_index=3, index=5, rollout_id=5, prompt=TWO, label=None)
    samples = supervised_samples(fresh, template_of("qwen3"))
    assert [sample.rollout_id for sample in samples] == [5, 5]
    for sample in samples:
        sample.check(generated=False)
        assert sample.status is Status.COMPLETED
        assert sample.rollout_log_probs is None
    assert samples[1].response == "<think>\n\n</think>\n\n3, that is all\n\nof it<|im_end|>\n"
    with pytest.raises(ConversationError, match=r"sample 5 \(group 3\): no message of 1 trains"):
        supervised_samples(Sample(group_index=3, index=5, prompt=TWO[:1]), template_of("qwen3"))
    with pytest.raises(ConversationError, match="the prompt is text"):
        supervised_samples(Sample(index=5, prompt="1+1="), template_of("qwen3"))


def test_what_the_template_refuses_names_the_roles() -> None:
    template = ChatTemplate(tokenizer("llama3", "{{ raise_exception('roles must alternate') }}"))
    with pytest.raises(ChatTemplateError, match="messages of user, user: roles must alternate"):
        template.render([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    with pytest.raises(ChatTemplateError, match="messages of user: "):
        template_of("glm4").render([{"role": "user"}])


def test_a_template_file(tmp_path: Path) -> None:
    path = tmp_path / "template.jinja"
    path.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}", encoding="utf-8")
    own = tokenizer("llama3", "replaced")
    use_template(own, str(path))
    assert ChatTemplate(own).render([{"role": "user", "content": "a"}]) == "[a]"
    for data, words in ((b"", "is empty"), (b"\xff", "not UTF-8 at byte 0"), (b" " * (1 << 21), "has 2097152 bytes")):
        path.write_bytes(data)
        with pytest.raises(ChatTemplateError, match=words):
            use_template(own, str(path))
    with pytest.raises(ChatTemplateError, match="cannot be read: No such file"):
        use_template(own, str(tmp_path / "none.jinja"))


def test_a_tokenizer_without_a_template_says_so() -> None:
    bare = tokenizer("llama3").__class__(tokenizer_object=tokenizer("llama3").backend_tokenizer)
    with pytest.raises(ChatTemplateError, match=r"has no chat template; add chat_template\.jinja"):
        ChatTemplate(bare)
