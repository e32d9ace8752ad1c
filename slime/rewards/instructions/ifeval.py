"""The 25 instructions of IFEval (arXiv 2311.07911), judged by the response alone.

Parameter names are the data set's. Each function says what its instruction asks.
"""

from __future__ import annotations

import json
import re

from slime.rewards.instructions.registry import (
    COUNT,
    LETTER,
    PLACE,
    RELATION,
    TEXT,
    TEXTS,
    compare_count,
    instruction,
)
from slime.rewards.instructions.text import occurrences, sentences, words

CONSTRAINED = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
DIVIDER = re.compile(r"\s?\*\*\*\s?")
SEPARATOR = "******"
QUOTES_AND_MARKS = "'\"*_(“‘’”).,?!:;"
FENCE = re.compile(r"^```(?:json)?\s*\n?|\n?```$", re.IGNORECASE)


@instruction("keywords:existence", keywords=TEXTS)
def has_keywords(response: str, *, keywords: list[str]) -> bool:
    """Each keyword appears, in any case, also inside a longer word."""
    return all(keyword.lower() in response.lower() for keyword in keywords)


@instruction("keywords:frequency", keyword=TEXT, frequency=COUNT, relation=RELATION)
def keyword_frequency(response: str, *, keyword: str, frequency: int, relation: str) -> bool:
    """The keyword appears at least, or less than, so many times."""
    return compare_count(response.lower().count(keyword.lower()), frequency, relation)


@instruction("keywords:forbidden_words", forbidden_words=TEXTS)
def no_forbidden_words(response: str, *, forbidden_words: list[str]) -> bool:
    """None of the words appears as a whole word."""
    return not any(occurrences(word, response) for word in forbidden_words)


@instruction("keywords:letter_frequency", letter=LETTER, let_frequency=COUNT, let_relation=RELATION)
def letter_frequency(response: str, *, letter: str, let_frequency: int, let_relation: str) -> bool:
    """The letter appears at least, or less than, so many times, in either case."""
    return compare_count(response.lower().count(letter.strip().lower()), let_frequency, let_relation)


@instruction("language:response_language", language=TEXT)
def is_in_language(response: str, *, language: str) -> bool:
    """The whole response is in the language of this ISO 639-1 code."""
    return _language(response) in (language, None)


@instruction("length_constraints:number_sentences", num_sentences=COUNT, relation=RELATION)
def number_of_sentences(response: str, *, num_sentences: int, relation: str) -> bool:
    """So many sentences."""
    return compare_count(len(sentences(response)), num_sentences, relation)


@instruction("length_constraints:number_words", num_words=COUNT, relation=RELATION)
def number_of_words(response: str, *, num_words: int, relation: str) -> bool:
    """So many words."""
    return compare_count(len(words(response)), num_words, relation)


@instruction("length_constraints:number_paragraphs", num_paragraphs=COUNT)
def number_of_paragraphs(response: str, *, num_paragraphs: int) -> bool:
    """Exactly so many paragraphs, divided by ``***``; only the first and the last may be empty, and do not count."""
    parts = [part.strip() for part in DIVIDER.split(response)]
    return all(parts[1:-1]) and len([part for part in parts if part]) == num_paragraphs


@instruction("length_constraints:nth_paragraph_first_word", num_paragraphs=COUNT, nth_paragraph=PLACE, first_word=TEXT)
def nth_paragraph_first_word(response: str, *, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Exactly so many paragraphs, divided by blank lines, and the n-th begins with the word."""
    paragraphs = [part.strip() for part in re.split(r"\n\n", response) if part.strip()]
    if len(paragraphs) != num_paragraphs or nth_paragraph > len(paragraphs):
        return False
    first = paragraphs[nth_paragraph - 1].split()[0].strip(QUOTES_AND_MARKS)
    return first.lower() == first_word.strip().lower()


@instruction("detectable_content:number_placeholders", num_placeholders=COUNT)
def number_of_placeholders(response: str, *, num_placeholders: int) -> bool:
    """At least so many placeholders in square brackets, such as ``[address]``."""
    return len(re.findall(r"\[[^\[\]]+\]", response)) >= num_placeholders


@instruction("detectable_content:postscript", postscript_marker=TEXT)
def has_postscript(response: str, *, postscript_marker: str) -> bool:
    """A postscript begins with the marker; ``P.S.`` and ``P.P.S`` may be spaced."""
    letters = [re.escape(letter) for letter in postscript_marker.lower() if letter.isalnum()]
    if re.fullmatch(r"(?:p\W*)+s\W*", postscript_marker.strip(), re.IGNORECASE):
        pattern = r"\.?\s?".join(letters) + r"\.?"
    else:
        pattern = re.escape(postscript_marker.strip().lower())
    return re.search(rf"(?<!\w){pattern}", response.lower()) is not None


@instruction("detectable_format:number_bullet_lists", num_bullets=COUNT)
def number_of_bullets(response: str, *, num_bullets: int) -> bool:
    """Exactly so many Markdown bullets (``*`` or ``-``)."""
    return len(re.findall(r"^[ \t]*(?:\*(?!\*)|-)", response, re.MULTILINE)) == num_bullets


@instruction("detectable_format:constrained_response")
def is_constrained(response: str) -> bool:
    """One of the three sentences 'My answer is yes.', '... no.', '... maybe.' is in the response."""
    return any(option in response for option in CONSTRAINED)


@instruction("detectable_format:number_highlighted_sections", num_highlights=COUNT)
def number_of_highlights(response: str, *, num_highlights: int) -> bool:
    """At least so many parts in ``*emphasis*`` or ``**strong emphasis**``."""
    strong = re.findall(r"\*\*([^\n*]+)\*\*", response)
    rest = re.sub(r"\*\*[^\n*]+\*\*", " ", response)
    parts = [*strong, *re.findall(r"\*([^\n*]+)\*", rest)]
    return len([part for part in parts if part.strip()]) >= num_highlights


@instruction("detectable_format:multiple_sections", section_spliter=TEXT, num_sections=COUNT)
def number_of_sections(response: str, *, section_spliter: str, num_sections: int) -> bool:
    """At least so many sections, each headed by the word and a number, such as ``SECTION 1``."""
    heads = re.findall(rf"\s?{re.escape(section_spliter.strip())}\s?\d+\s?", response)
    return len(heads) >= num_sections


@instruction("detectable_format:json_format")
def is_json(response: str) -> bool:
    """The whole response is JSON; a code fence around it is allowed."""
    try:
        json.loads(FENCE.sub("", response.strip()).strip())
    except (ValueError, RecursionError):
        return False
    return True


@instruction("detectable_format:title")
def has_title(response: str) -> bool:
    """A title in double angular brackets: ``<<title>>``."""
    return any(title.strip("<> ") for title in re.findall(r"<<[^\n<>]+>>", response))


@instruction("combination:two_responses")
def has_two_responses(response: str) -> bool:
    """Two different responses, separated by six asterisks."""
    parts = [part.strip() for part in response.split(SEPARATOR)]
    filled = [part for part in parts if part]
    return all(parts[1:-1]) and len(filled) == 2 and filled[0] != filled[1]


@instruction("combination:repeat_prompt", prompt_to_repeat=TEXT)
def repeats_prompt(response: str, *, prompt_to_repeat: str) -> bool:
    """The response begins with the prompt, word for word."""
    return response.strip().lower().startswith(prompt_to_repeat.strip().lower())


@instruction("startend:end_checker", end_phrase=TEXT)
def ends_with(response: str, *, end_phrase: str) -> bool:
    """The response ends with the phrase; quotation marks around it all do not count."""
    return response.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@instruction("startend:quotation")
def is_quoted(response: str) -> bool:
    """The whole response stands in double quotation marks."""
    text = response.strip()
    return len(text) > 1 and text[0] == '"' and text[-1] == '"'


@instruction("change_case:capital_word_frequency", capital_frequency=COUNT, capital_relation=RELATION)
def capital_words(response: str, *, capital_frequency: int, capital_relation: str) -> bool:
    """So many words are in capitals throughout."""
    capitals = [word for word in re.findall(r"[\w'’-]+", response) if word.isupper()]
    return compare_count(len(capitals), capital_frequency, capital_relation)


@instruction("change_case:english_capital")
def is_in_capitals(response: str) -> bool:
    """English, in capitals throughout."""
    return response.isupper() and _language(response) in ("en", None)


@instruction("change_case:english_lowercase")
def is_in_lower_case(response: str) -> bool:
    """English, without any capital."""
    return response.islower() and _language(response) in ("en", None)


@instruction("punctuation:no_comma")
def has_no_comma(response: str) -> bool:
    """No comma anywhere."""
    return "," not in response


def _language(text: str) -> str | None:
    """ISO 639-1 code of a text, the same each time; None where there is nothing to tell it by, such as digits alone."""
    from langdetect import DetectorFactory, LangDetectException, detect

    DetectorFactory.seed = 0
    try:
        return str(detect(text))
    except LangDetectException:
        return None
