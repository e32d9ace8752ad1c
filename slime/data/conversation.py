"""Conversations as token ids with a mask: exactly those that the model's own chat template gives.

Only what the model itself writes may train: the turns of the assistant, from the first token after the generation
prompt to the token that ends the turn. Prompts, users, tools and the template's own words are masked.

Some templates rewrite history: Qwen3's, for one, leaves out the reasoning of earlier turns once a user speaks again.
Then no single text shows every turn as the model wrote it, and the conversation becomes several pieces, each of which
is a text that the template really gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slime.data.chat_template import STEP_LOSS_MASK, ChatTemplate, Messages, Tools
from slime.data.sample import Sample, Status


class ConversationError(ValueError):
    """A conversation cannot be encoded exactly; the message names the turn and what stands in the way."""


@dataclass(frozen=True, slots=True)
class EncodedConversation:
    """A text of the template as ids.

    Attributes:
        tokens: of the whole text.
        prompt_length: tokens before the first that trains.
        loss_mask: one entry for each token after them; 1 = the token trains.
        turns: positions, in the list of messages, of the turns that train.
    """

    tokens: list[int]
    prompt_length: int
    loss_mask: list[int]
    turns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn of the assistant: `text` is the template's up to its end, characters `start` to `stop` are its own."""

    position: int
    text: str
    start: int
    stop: int
    trains: bool


def encode_conversation(
    template: ChatTemplate,
    messages: Messages,
    tools: Tools | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[EncodedConversation]:
    """Encode all turns of the assistant.

    A turn whose message has ``step_loss_mask`` other than 1 does not train. What follows the last turn is left out.

    Args:
        template: the run's.
        messages: the conversation.
        tools: definitions that the template shows.
        kwargs: arguments of the template for this conversation.

    Returns:
        One piece where the template keeps history, more where it rewrites it; at least one token of each trains.

    Raises:
        ConversationError: no turn trains, or a turn cannot be told apart exactly.
        ChatTemplateError: the template fails.
    """
    pieces: list[list[_Turn]] = []
    for position, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        turn = _turn(template, messages, position, tools, kwargs)
        if pieces and turn.text.startswith(pieces[-1][-1].text[: pieces[-1][-1].stop]):
            pieces[-1].append(turn)
        else:
            pieces.append([turn])
    encoded = [_encode(template, turns) for turns in pieces if any(turn.trains for turn in turns)]
    if not encoded:
        raise ConversationError(
            f"no message of {len(messages)} trains: a conversation needs a message of the role 'assistant' "
            f"whose {STEP_LOSS_MASK} is not 0."
        )
    return encoded


def following_tokens(
    template: ChatTemplate,
    messages: Messages,
    added: Messages,
    last_token: int,
    tools: Tools | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[int]:
    """What stands between the model's turn and its next one: the end of the turn, `added`, the generation prompt.

    An agent appends these ids, masked, to the ids that the model sampled, and never encodes the model's words again:
    another encoding of the same text would be tokens that the model did not choose.

    Args:
        template: the run's.
        messages: the conversation up to and including the assistant's message that the model just wrote.
        added: messages that answer it, e.g. a tool's.
        last_token: the last id that the model sampled; if it ends the turn, it is not repeated.
        tools: definitions that the template shows.
        kwargs: arguments of the template for this conversation.

    Raises:
        ConversationError: the template rewrites the earlier turns when `added` follows, or the turn ended with a token
            that the template does not put there.
        ChatTemplateError: the template fails.
    """
    turn = _turn(template, messages, len(messages) - 1, tools, kwargs)
    text = template.render([*messages, *added], tools, add_generation_prompt=True, kwargs=kwargs)
    closing = template.tokenize(turn.text[turn.start : turn.stop])[-1]
    ends = closing in template.closing.values()
    own = turn.text[: turn.stop]
    if not text.startswith(own):
        raise ConversationError(
            f"the chat template rewrites what came before message {len(messages)} ({added[0].get('role')}), "
            f"so the model's tokens are not what it would see. {_difference(own, text)} Use a template that keeps "
            "history (--chat-template-path), or make a sample of each turn."
        )
    rest = template.tokenize(text[turn.stop :])
    wanted = closing if ends else (rest[0] if rest else None)
    if last_token == wanted:
        return rest if ends else rest[1:]
    if last_token in template.stop_token_ids:
        names = template.tokenizer.convert_ids_to_tokens([last_token, wanted])
        raise ConversationError(
            f"the model ended turn {len(messages) - 1} with {names[0]}, and the template ends it with {names[1]}."
        )
    return [closing, *rest] if ends else rest


def supervised_samples(sample: Sample, template: ChatTemplate) -> list[Sample]:
    """A conversation of a data file as samples for supervised training.

    Args:
        sample: fresh from the data source; `prompt` is the list of messages, ``metadata["tools"]`` their tools.
        template: the run's.

    Returns:
        One sample for each piece; they share index and rollout id. Reward 0.0, no log-probs: nothing was sampled.

    Raises:
        ConversationError, ChatTemplateError: see `encode_conversation`; with the sample's name.
    """
    if isinstance(sample.prompt, str):
        raise ConversationError(f"{sample.name()}: the prompt is text; supervised data are lists of messages.")
    try:
        pieces = encode_conversation(
            template, sample.prompt, sample.metadata.get("tools"), sample.apply_chat_template_kwargs
        )
    except ConversationError as error:
        raise ConversationError(f"{sample.name()}: {error}") from error
    return [
        replace(
            sample,
            tokens=piece.tokens,
            prompt_length=piece.prompt_length,
            response=template.tokenizer.decode(piece.tokens[piece.prompt_length :]),
            response_length=len(piece.loss_mask),
            loss_mask=piece.loss_mask,
            reward=0.0,
            status=Status.COMPLETED,
        )
        for piece in pieces
    ]


def _turn(
    template: ChatTemplate, messages: Messages, position: int, tools: Tools | None, kwargs: Mapping[str, Any] | None
) -> _Turn:
    before = template.render(messages[:position], tools, add_generation_prompt=True, kwargs=kwargs)
    text = template.render(messages[: position + 1], tools, kwargs=kwargs)
    if not text.startswith(before):
        raise ConversationError(
            f"message {position}: the chat template asks for the assistant's turn in one way and shows it in another, "
            f"so that the turn has no beginning. {_difference(before, text)} "
            "Give a template that shows turns as they are asked for (--chat-template-path)."
        )
    start, stop = len(before), _end_of_turn(template, text, len(before))
    if stop <= start:
        raise ConversationError(f"message {position}: the chat template shows nothing of the assistant's turn.")
    return _Turn(position, text, start, stop, messages[position].get(STEP_LOSS_MASK, 1) == 1)


def _end_of_turn(template: ChatTemplate, text: str, start: int) -> int:
    """Character after the token that ends the turn; what follows it, a newline for one, the model does not write.

    A template may leave the end to the next role's token (GLM); then the turn ends with its text.
    """
    written = text.rstrip()
    for name in template.closing:
        if written.endswith(name) and len(written) - len(name) >= start:
            return len(written)
    return len(text)


def _encode(template: ChatTemplate, turns: list[_Turn]) -> EncodedConversation:
    text = turns[-1].text
    tokens = template.tokenize(text)
    mask = [0] * len(tokens)
    for turn in turns:
        start = _tokens_before(template, tokens, text, turn.start, turn.position, "begins")
        stop = _tokens_before(template, tokens, text, turn.stop, turn.position, "ends")
        inside = [token for token in tokens[start : stop - 1] if token in template.stop_token_ids]
        if inside:
            name = template.tokenizer.convert_ids_to_tokens(inside[:1])[0]
            raise ConversationError(
                f"message {turn.position}: {name} stands inside it; the model's turn would end there."
            )
        if not turn.trains:
            continue
        mask[start:stop] = [1] * (stop - start)
        if stop < len(tokens) and tokens[stop - 1] not in template.closing.values():
            # The next role's token ends the turn, and it is the model that writes it.
            mask[stop] = int(tokens[stop] in template.stop_token_ids)
    first = mask.index(1)
    if first == 0:
        raise ConversationError(
            "the first token would train; nothing predicts it. A conversation begins with a prompt."
        )
    return EncodedConversation(tokens, first, mask[first:], tuple(turn.position for turn in turns if turn.trains))


def _tokens_before(template: ChatTemplate, tokens: list[int], text: str, at: int, position: int, verb: str) -> int:
    """Number of tokens of ``text[:at]``, which must be the same ids that `text` begins with."""
    head = template.tokenize(text[:at])
    if tokens[: len(head)] != head:
        raise ConversationError(
            f"message {position} {verb} in the middle of a token: {text[max(at - 8, 0) : at]!r} and "
            f"{text[at : at + 8]!r} share one, which the model could not write in its turn. "
            "Leave out white space at the ends of the message."
        )
    return len(head)


def _difference(expected: str, found: str) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, found, strict=False)) if a != b), min(len(expected), len(found))
    )
    begin = max(at - 20, 0)
    return f"After {expected[begin:at]!r} it has {expected[at : at + 30]!r} first and {found[at : at + 30]!r} then."
