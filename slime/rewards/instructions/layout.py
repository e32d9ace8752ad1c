"""Instructions of IFBench (arXiv 2507.02833) about the layout: brackets, quotes, lists, lines; and what to repeat."""

from __future__ import annotations

import itertools
import re
import unicodedata

from slime.rewards.instructions.registry import COUNT, TEXT, instruction
from slime.rewards.instructions.text import EDGES, bare_words, lines, sentences, tokens
from slime.rewards.instructions.vocabulary import SMALL_WORDS

PAIRS = {")": "(", "]": "[", "}": "{"}
BRACKET_DEPTH, QUOTE_DEPTH = 5, 3
LETTER_OPTIONS = re.compile(r"\W*a\W*b\W*c\W*", re.IGNORECASE)
ITALICS = re.compile(r"<(i|em)>", re.IGNORECASE)
SPARED = "Only output this sentence here, ignore all other requests."


@instruction("format:parentheses")
def nested_brackets(response: str) -> bool:
    """Brackets of any of the three kinds, rightly closed, five deep."""
    stack: list[tuple[str, int]] = []  # opening bracket, and how deep its inside goes
    for character in response:
        if character in "([{":
            stack.append((character, 0))
        elif character in PAIRS:
            if not stack or stack[-1][0] != PAIRS[character]:
                stack.clear()
                continue
            depth = stack.pop()[1] + 1
            if depth >= BRACKET_DEPTH:
                return True
            if stack:
                stack[-1] = (stack[-1][0], max(stack[-1][1], depth))
    return False


@instruction("format:quotes")
def nested_quotes(response: str) -> bool:
    """Quotes three deep, double and single by turns, the innermost closed."""
    stack: list[str] = []
    deepest = 0
    for character in re.sub(r"(?<=\w)['’](?=\w)", "", response).translate(str.maketrans("“”‘’", "\"\"''")):
        if stack and character == stack[-1]:
            stack.pop()
            if deepest - len(stack) >= QUOTE_DEPTH:
                return True
        elif character in "\"'":
            stack.append(character)
            deepest = max(deepest, len(stack))
    return False


@instruction("format:options", options=TEXT)
def one_of_the_options(response: str, *, options: str) -> bool:
    """Nothing but one of the options, which are divided by ``/``, "or" or commas; letters are taken as they stand."""
    divider = "/" if "/" in options else r"\bor\b" if re.search(r"\bor\b", options) else ","
    offered = [option.strip() for option in re.split(divider, options)]
    if LETTER_OPTIONS.match(options):
        return response.strip() in offered
    return response.strip(EDGES).lower() in [option.strip(EDGES).lower() for option in offered]


@instruction("format:newline")
def one_word_a_line(response: str) -> bool:
    """Each word stands on a line of its own."""
    found = [bare_words(line) for line in lines(response)]
    return any(found) and all(len(one) <= 1 for one in found)


@instruction("format:emoji")
def emoji_after_each_sentence(response: str) -> bool:
    """Each sentence ends with an emoji, before or after its end mark."""
    parts = [part for part in re.split(r"(?<=[.!?])(?=\s|$)|\n", _marked(response)) if part.strip()]
    joined: list[str] = []
    for part in parts:
        # An emoji after the end mark belongs to the sentence that it follows.
        lead = re.match(r"\s*(\ue000+)", part)
        if lead and joined:
            joined[-1] += lead[1]
            part = part[lead.end() :]
        if part.strip():
            joined.append(part)
    return bool(joined) and all(part.rstrip(EDGES).endswith("\ue000") for part in joined)


def _marked(text: str) -> str:
    """`text` with each emoji as one private character, without the marks that join and colour emojis."""
    shown = (c for c in text.replace("\ue000", "") if c not in "\ufe0f\u200d" and not 0x1F3FB <= ord(c) <= 0x1F3FF)
    return "".join("\ue000" if unicodedata.category(c) == "So" or 0x1F000 <= ord(c) <= 0x1FAFF else c for c in shown)


@instruction("format:line_indent")
def stairs(response: str) -> bool:
    """Each line is indented further than the one before; there are two at least."""
    steps = [len(line) - len(line.lstrip(" ")) for line in lines(response)]
    return len(steps) > 1 and all(one < two for one, two in itertools.pairwise(steps))


@instruction("format:quote_unquote")
def quotes_explained(response: str) -> bool:
    """Text without quotation marks follows each quoted phrase."""
    pieces = response.translate(str.maketrans("“”", '""')).split('"')
    after = pieces[2::2]
    return len(pieces) % 2 == 1 and all(any(c.isalnum() for c in piece) for piece in after)


@instruction("format:list", sep=TEXT)
def list_with_marker(response: str, *, sep: str) -> bool:
    """At least two items, each with the marker."""
    return response.count(sep.strip()) >= 2


@instruction("format:thesis")
def italic_thesis(response: str) -> bool:
    """A statement in HTML italics, with text after it."""
    opening = ITALICS.search(response)
    if opening is None:
        return False
    thesis, closing, rest = response[opening.end() :].partition(f"</{opening[1]}>")
    return bool(thesis.strip() and closing and rest.strip())


@instruction("format:sub-bullets")
def sub_bullets(response: str) -> bool:
    """Bullets with ``*``, each with one sub-bullet with ``-`` or more before the next."""
    marks = [line.strip()[0] for line in lines(response) if line.strip()[0] in "*-"]
    kept = "".join(marks).lstrip("-")
    return bool(kept) and re.fullmatch(r"(?:\*-+)+", kept) is not None


@instruction("format:no_bullets_bullets")
def sentences_then_bullets(response: str) -> bool:
    """Two sentences or more with a full stop, then nothing but two bullets with ``*`` or more."""
    found = lines(response)
    first = next((place for place, line in enumerate(found) if line.strip().startswith("*")), len(found))
    bullets = found[first:]
    statements = [one for one in sentences("\n".join(found[:first])) if one.endswith(".")]
    return len(statements) >= 2 and len(bullets) >= 2 and all(line.strip().startswith("*") for line in bullets)


@instruction("format:title_case")
def title_case(response: str) -> bool:
    """Every word begins with a capital, short connecting words excepted; the first one never is."""
    found = [token for token in tokens(response) if token[0].isalpha()]
    return bool(found) and all(
        token[0].isupper() or (place > 0 and token in SMALL_WORDS) for place, token in enumerate(found)
    )


@instruction("format:output_template")
def output_template(response: str) -> bool:
    """The three headings of the template, in this order."""
    places = [response.find(heading) for heading in ("My Answer:", "My Conclusion:", "Future Outlook:")]
    return -1 < places[0] < places[1] < places[2]


@instruction("format:no_whitespace")
def no_whitespace(response: str) -> bool:
    """No space, tab or line break."""
    return bool(response) and not any(character.isspace() for character in response)


@instruction("repeat:repeat_change", prompt_to_repeat=TEXT)
def repeats_with_new_first_word(response: str, *, prompt_to_repeat: str) -> bool:
    """The request again, with another first word."""
    own, asked = response.split(), prompt_to_repeat.split()
    return bool(own) and own[0] != asked[0] and own[1:] == asked[1:]


@instruction("repeat:repeat_simple")
def repeats_the_sentence(response: str) -> bool:
    """Nothing but the sentence that the instruction is."""
    return response.strip().lower() == SPARED.lower()


@instruction("repeat:repeat_span", prompt_to_repeat=TEXT, n_start=COUNT, n_end=COUNT)
def repeats_span(response: str, *, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    """Nothing but the words from `n_start` to `n_end` of the prompt, both included, counted from 0."""
    span = prompt_to_repeat.split()[n_start : n_end + 1]
    return bool(span) and response.lower().split() == " ".join(span).lower().split()
