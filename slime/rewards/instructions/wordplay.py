"""Instructions of IFBench (arXiv 2507.02833) about letters, the places of words, and what a sentence begins with."""

from __future__ import annotations

import itertools
import re
import string
from collections import Counter

from slime.rewards.instructions.registry import COUNT, PLACE, TEXT, instruction
from slime.rewards.instructions.text import bare_words, lines, sentences, tokens, trimmed_words, words

CLUSTER = re.compile(r"[bcdfghjklmnpqrstvwxyz]{2}")
PALINDROMES, PALINDROME_LENGTH = 10, 5
LETTERS = string.ascii_lowercase


@instruction("words:alphabet")
def alphabet_loop(response: str) -> bool:
    """Each word begins with the letter after the last word's, and a follows z."""
    initials = [word[0] for word in bare_words(response)]
    if not initials or not set(initials) <= set(LETTERS):
        return False
    start = LETTERS.index(initials[0])
    return all(initial == LETTERS[(start + place) % 26] for place, initial in enumerate(initials))


@instruction("words:vowel")
def three_vowels(response: str) -> bool:
    """One paragraph with at most three of the five vowels."""
    return len(lines(response)) == 1 and len(set("aeiou") & set(response.lower())) <= 3


@instruction("words:consonants")
def consonant_clusters(response: str) -> bool:
    """Two consonants stand together in every word; y is one."""
    found = words(response.lower())
    return bool(found) and all(CLUSTER.search(word) for word in found)


@instruction("words:palindrome")
def palindromes(response: str) -> bool:
    """At least ten words of five letters or more read the same backwards."""
    return sum(len(word) >= PALINDROME_LENGTH and word == word[::-1] for word in bare_words(response)) >= PALINDROMES


@instruction("words:prime_lengths")
def prime_lengths(response: str) -> bool:
    """The length of every word is a prime number."""
    found = bare_words(response)
    return bool(found) and all(_is_prime(len(word)) for word in found)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


@instruction("words:repeats", small_n=COUNT)
def few_repeats(response: str, *, small_n: int) -> bool:
    """No word more often than this."""
    return max(Counter(bare_words(response)).values(), default=0) <= small_n


@instruction("words:no_consecutive")
def no_shared_initials(response: str) -> bool:
    """No two words in a row begin alike."""
    found = bare_words(response)
    return all(one[0] != other[0] for one, other in itertools.pairwise(found))


@instruction("words:last_first")
def chained_sentences(response: str) -> bool:
    """The last word of each sentence begins the next one."""
    found = [trimmed_words(sentence) for sentence in sentences(response)]
    pairs = itertools.pairwise(found)
    return all(found) and all(one[-1] == other[0] for one, other in pairs)


@instruction("words:paragraph_last_first")
def framed_paragraphs(response: str) -> bool:
    """Each line ends with the word that it began with."""
    found = [trimmed_words(line) for line in lines(response)]
    return any(found) and all(one[0] == one[-1] for one in found if one)


@instruction("words:keywords_specific_position", keyword=TEXT, n=PLACE, m=PLACE)
def keyword_at(response: str, *, keyword: str, n: int, m: int) -> bool:
    """The m-th word of the n-th sentence is the keyword."""
    found = sentences(response)
    inside = _spoken(found[n - 1]) if len(found) >= n else []
    return len(inside) >= m and inside[m - 1] == keyword.strip().lower()


@instruction("words:words_position", keyword=TEXT)
def second_and_last_but_one(response: str, *, keyword: str) -> bool:
    """The second word and the last but one are the keyword."""
    found = _spoken(response)
    return len(found) > 1 and found[1] == found[-2] == keyword.strip().lower()


def _spoken(text: str) -> list[str]:
    return [token.lower() for token in tokens(text) if token[0].isalnum()]


@instruction("sentence:keyword", word=TEXT, N=PLACE)
def keyword_in_sentence(response: str, *, word: str, N: int) -> bool:
    """The N-th sentence has the keyword."""
    found = sentences(response)
    return (
        len(found) >= N
        and re.search(rf"(?<!\w){re.escape(word.strip())}(?!\w)", found[N - 1], re.IGNORECASE) is not None
    )


@instruction("sentence:increment", small_n=COUNT)
def growing_sentences(response: str, *, small_n: int) -> bool:
    """Each sentence has exactly so many words more than the one before."""
    lengths = [len(bare_words(sentence)) for sentence in sentences(response)]
    return bool(lengths) and all(two - one == small_n for one, two in itertools.pairwise(lengths))


@instruction("sentence:alliteration_increment")
def growing_alliteration(response: str) -> bool:
    """In each sentence more words stand next to one with the same initial than in the sentence before."""
    counts = [_alliterating(trimmed_words(sentence)) for sentence in sentences(response)]
    return bool(counts) and all(one < two for one, two in itertools.pairwise(counts))


def _alliterating(found: list[str]) -> int:
    alike = [one[0] == two[0] for one, two in itertools.pairwise(found)]
    return sum(left or right for left, right in zip([False, *alike], [*alike, False], strict=True))
