"""Instructions of IFBench (arXiv 2507.02833) that count: words, sentences, numbers, names, shares of the text."""

from __future__ import annotations

import re
import string
from collections import Counter

from slime.rewards.instructions.registry import COUNT, PLACE, TEXT, instruction
from slime.rewards.instructions.text import bare_words, occurrences, sentences, tokens, trimmed_words, words
from slime.rewards.instructions.vocabulary import CONJUNCTIONS, NAMES, PRONOUNS, STOP_WORDS

JAPANESE = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
ENDINGS = ".?!"
REPEATED = (1, 2, 3, 5, 7)


@instruction("count:word_count_range", min_words=COUNT, max_words=COUNT)
def word_count_range(response: str, *, min_words: int, max_words: int) -> bool:
    """Between so many words, both ends included."""
    return min_words <= len(words(response)) <= max_words


@instruction("count:unique_word_count", N=COUNT)
def unique_words(response: str, *, N: int) -> bool:
    """At least so many different words."""
    return len(set(trimmed_words(response))) >= N


@instruction("count:conjunctions", small_n=COUNT)
def conjunctions(response: str, *, small_n: int) -> bool:
    """At least so many different coordinating conjunctions."""
    return len(CONJUNCTIONS & set(trimmed_words(response))) >= small_n


@instruction("count:person_names", N=COUNT)
def person_names(response: str, *, N: int) -> bool:
    """At least so many different names of the instruction's list."""
    return len(NAMES & set(words(response))) >= N


@instruction("count:numbers", N=COUNT)
def numbers(response: str, *, N: int) -> bool:
    """Exactly so many numbers; ``1,000.5`` is one."""
    return len(re.findall(r"\d+", response.translate(str.maketrans("", "", string.punctuation)))) == N


@instruction("count:punctuation")
def every_punctuation_mark(response: str) -> bool:
    """Each of ``. , ! ? ; :`` and the interrobang; its two marks do not count for themselves as well."""
    rest, found = re.subn(r"\?!|!\?|‽", "", response, count=1)
    return found > 0 and set(".,!?;:") <= set(rest)


@instruction("count:pronouns", N=COUNT)
def pronouns(response: str, *, N: int) -> bool:
    """At least so many pronouns; ``she/her`` are two."""
    return sum(word in PRONOUNS for word in words(response.lower())) >= N


@instruction("count:words_japanese", N=PLACE)
def japanese_words(response: str, *, N: int) -> bool:
    """Every N-th word is Japanese; numbers and lone punctuation in its place do not break it."""
    places = [word.strip(string.punctuation) for word in response.split()[N - 1 :: N]]
    return all(JAPANESE.search(word) for word in places if word and not word.isdigit())


@instruction("count:keywords_multiple", keyword1=TEXT, keyword2=TEXT, keyword3=TEXT, keyword4=TEXT, keyword5=TEXT)
def keywords_multiple(response: str, **keywords: str) -> bool:
    """The five keywords appear once, twice, three, five and seven times."""
    return all(
        occurrences(keywords[f"keyword{place}"].strip(), response) == count
        for place, count in enumerate(REPEATED, start=1)
    )


@instruction("ratio:stop_words", percentage=COUNT)
def share_of_stop_words(response: str, *, percentage: int) -> bool:
    """At most so many percent of the words are function words."""
    found = [token.lower().replace("’", "'") for token in tokens(response) if token[0].isalnum()]
    return bool(found) and 100 * sum(word in STOP_WORDS for word in found) <= percentage * len(found)


@instruction("ratio:overlap", reference_text=TEXT, percentage=COUNT)
def trigram_overlap(response: str, *, reference_text: str, percentage: int) -> bool:
    """The share of different trigrams that the reference has too is within 2 points of the percentage."""
    own, reference = _trigrams(response), _trigrams(reference_text)
    return bool(own) and abs(100 * len(own & reference) / len(own) - percentage) <= 2


def _trigrams(text: str) -> set[tuple[str, ...]]:
    found = tokens(text)
    return set(zip(found, found[1:], found[2:], strict=False))


def _endings(response: str) -> Counter[str]:
    marks = (sentence.rstrip("\"'”’)*_")[-1:] for sentence in sentences(response))
    return Counter(mark for mark in marks if mark in ENDINGS)


@instruction("ratio:sentence_type")
def twice_as_many_statements(response: str) -> bool:
    """Two sentences end with a full stop for each that ends with a question mark."""
    ends = _endings(response)
    return ends["."] == 2 * ends["?"] and ends["?"] > 0


@instruction("ratio:sentence_balance")
def balanced_sentences(response: str) -> bool:
    """As many sentences end with a full stop as with a question mark and with an exclamation mark."""
    ends = _endings(response)
    return ends["."] == ends["?"] == ends["!"] > 0


@instruction("ratio:sentence_words")
def three_equal_sentences(response: str) -> bool:
    """Three sentences of the same number of characters, in which no word comes twice."""
    found = sentences(response)
    used = bare_words(response)
    return len(found) == 3 and len({len(one) for one in found}) == 1 and len(set(used)) == len(used)
