"""ifbench: each instruction with a response that follows it and one that does not, and rows that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slime.rewards.gold import GoldError
from slime.rewards.graders import check_label, grade
from slime.rewards.instructions.grader import NOT_CHECKED
from slime.rewards.instructions.registry import INSTRUCTIONS
from slime.rewards.instructions.text import sentences

PALINDROMES = "level radar civic kayak refer rotor madam tenet stats solos"
AFRICA = [f"Country {letter}{letter}" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXY"] + [f"Land {n:02d}" for n in range(30)]
QUIZ = "\n".join(
    f"Question {n}. {'long ' * n}text?\n" + "\n".join(f"{letter}) option" for letter in "ABCDE") for n in range(1, 5)
)
ALPHABET = " ".join(f"{letter}nd so it went." for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
CAPITALS = (
    "Reykjavík, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, "
    "Amsterdam, Warsaw, London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chisinau, "
    "Bern, Ljubljana, Zagreb"
)
CITIES = "ID,Country,City,Year,Count\n" + "\n".join(f"{n},A,B,2000,5" for n in range(7))
BRANDS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join(f'{n},A,"B&B",2,5' for n in range(14))
STUDENTS = "\n".join(
    "\t".join(f'"{one}"' for one in row)
    for row in [("StudentID", "Subject", "Grade", "Semester", "Score"), *[("1", "Art", "A", "Fall", "9")] * 3]
)
FIVE = {f"keyword{place}": word for place, word in enumerate(["cat", "dog", "cow", "hen", "pig"], start=1)}
FARM = " ".join(["cat"] + ["dog"] * 2 + ["cow"] * 3 + ["hen"] * 5 + ["pig"] * 7)

CASES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "keywords:existence": ({"keywords": ["Sun", "moon"]}, ["the sun and the Moon"], ["the sun"]),
    "keywords:frequency": (
        {"keyword": "go", "frequency": 2, "relation": "at least"}, ["Go and go"], ["go once"]),
    "keywords:forbidden_words": ({"forbidden_words": ["cat"]}, ["concatenate"], ["A Cat!"]),
    "keywords:letter_frequency": (
        {"letter": "q", "let_frequency": 2, "let_relation": "less than"}, ["quiet"], ["quick Quiz"]),
    "language:response_language": (
        {"language": "de"},
        ["Das ist ein ganz gewöhnlicher deutscher Satz."], ["This is an ordinary English sentence."]),
    "length_constraints:number_sentences": (
        {"num_sentences": 3, "relation": "at least"}, ["One. Two! Dr. Who spoke?"], ["Mr. Smith is here. Yes."]),
    "length_constraints:number_words": (
        {"num_words": 4, "relation": "less than"}, ["just three words"], ["these are four words"]),
    "length_constraints:number_paragraphs": ({"num_paragraphs": 2}, ["one\n***\ntwo"], ["one\n***\n***\ntwo", "one"]),
    "length_constraints:nth_paragraph_first_word": (
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        ["First.\n\nThen, more."], ["Then.\n\nFirst."]),
    "detectable_content:number_placeholders": ({"num_placeholders": 2}, ["[name] at [street]"], ["[name]"]),
    "detectable_content:postscript": ({"postscript_marker": "P.P.S"}, ["Bye. p. p. s. more"], ["P.S. only one"]),
    "detectable_format:number_bullet_lists": ({"num_bullets": 2}, ["* one\n- two"], ["* one", "* one\n* two\n* three"]),
    "detectable_format:constrained_response": ({}, ["My answer is maybe."], ["Maybe."]),
    "detectable_format:number_highlighted_sections": (
        {"num_highlights": 2}, ["*one* and **two**"], ["**one**", "** **"]),
    "detectable_format:multiple_sections": (
        {"section_spliter": "SECTION", "num_sections": 2}, ["SECTION 1\na\nSECTION 2\nb"], ["SECTION 1\na"]),
    "detectable_format:json_format": ({}, ['{"a": 1}', '```json\n[1]\n```'], ["{a: 1}", "Here: {}"]),
    "detectable_format:title": ({}, ["<<A title>>\ntext"], ["<A title>", "<<>>"]),
    "combination:two_responses": ({}, ["one\n******\ntwo"], ["one", "one******one", "a******b******c"]),
    "combination:repeat_prompt": ({"prompt_to_repeat": "Say it."}, ["say it. It."], ["It. Say it."]),
    "startend:end_checker": ({"end_phrase": "Is there more?"}, ['Yes. "is there more?"'], ["Is there more? No."]),
    "startend:quotation": ({}, ['"all of it"'], ['"half" of it', '"']),
    "change_case:capital_word_frequency": (
        {"capital_frequency": 2, "capital_relation": "at least"}, ["VERY LOUD words"], ["VERY quiet words"]),
    "change_case:english_capital": ({}, ["THIS IS A LOUD SENTENCE IN ENGLISH."], ["This is not."]),
    "change_case:english_lowercase": ({}, ["this is a quiet sentence in english."], ["This is not."]),
    "punctuation:no_comma": ({}, ["no such mark"], ["one, two"]),
    "count:word_count_range": (
        {"min_words": 2, "max_words": 3}, ["two words", "now three words"], ["one", "now there are four"]),
    "count:unique_word_count": ({"N": 3}, ["one two three"], ["one One one two"]),
    "count:conjunctions": ({"small_n": 2}, ["this and that, or not"], ["this and that and those"]),
    "count:person_names": ({"N": 2}, ["Emma met Liam"], ["Emma met Emmanuel"]),
    "count:numbers": ({"N": 2}, ["1,000.5 and 7"], ["7"]),
    "count:punctuation": ({}, ["a, b; c: d. e! f? g?!"], ["a, b; c: d. e?!", "a, b; c: d. e! f?"]),
    "count:pronouns": ({"N": 2}, ["she/her", "I saw it"], ["Paul saw Mary"]),
    "count:words_japanese": ({"N": 2}, ["one 猫 two 犬"], ["one two 猫"]),
    "count:keywords_multiple": (FIVE, [FARM], [FARM + " cat", "cat dog cow hen pig"]),
    "ratio:stop_words": ({"percentage": 50}, ["the quick brown fox"], ["it is what it is"]),
    "ratio:overlap": ({"reference_text": "a b c d", "percentage": 50}, ["a b c e"], ["a b c d", "x y z", "a"]),
    "ratio:sentence_type": ({}, ["One. Two. Three?"], ["One. Two?", "!"]),
    "ratio:sentence_balance": ({}, ["One. Two? Three!"], ["One. Two? Three.", "none"]),
    "ratio:sentence_words": (
        {}, ["Cats run. Dogs eat. Hens fly."], ["Cats run. Dogs run. Hens fly.", "A b. C d. Long one."]),
    "words:alphabet": ({}, ["Xylophones yield zany art"], ["apple cat", "1 two", ""]),
    "words:vowel": ({}, ["a red ice rind"], ["a red ice fort", "a\nb"]),
    "words:consonants": ({}, ["brown shrimp"], ["brown ape"]),
    "words:palindrome": ({}, [PALINDROMES], [PALINDROMES[6:]]),
    "words:prime_lengths": ({}, ["to the seven"], ["four"]),
    "words:repeats": ({"small_n": 2}, ["no no yes"], ["no no, No"]),
    "words:no_consecutive": ({}, ["big cats dance"], ["big bad cats"]),
    "words:last_first": ({}, ["I like cats. Cats like milk."], ["I like cats. Dogs do not."]),
    "words:paragraph_last_first": ({}, ["Now is now.\nGo and go"], ["Now is then."]),
    "words:keywords_specific_position": (
        {"keyword": "cat", "n": 2, "m": 3}, ["Yes. See the cat."], ["See the cat. Yes."]),
    "words:words_position": ({"keyword": "well"}, ["Ah well, all is well indeed"], ["well all is well"]),
    "sentence:keyword": ({"word": "cat", "N": 2}, ["Yes. A cat!"], ["A cat. Yes.", "One cat"]),
    "sentence:increment": ({"small_n": 1}, ["One. Two words. Now three words."], ["One. Now three words."]),
    "sentence:alliteration_increment": (
        {}, ["Big cats. Big bad cats. Big bad brown cats."], ["Big bad cats. Old cats."]),
    "format:parentheses": ({}, ["(a [b {c (d [e])}])"], ["((((a))))", "(((((a", "([)]([)]"]),
    "format:quotes": ({}, ["He said: \"I heard 'you said \"no\" to us' today\""], ['"one" and "two"', "it's"]),
    "format:options": ({"options": "yes/no/maybe"}, ["Maybe.", "no"], ["yes and no", "perhaps"]),
    "format:newline": ({}, ["one\ntwo.\n\nthree"], ["one two"]),
    "format:emoji": ({}, ["Good day 😀. See you! 👋🏽"], ["Good day. See you! 👋", "none"]),
    "format:line_indent": ({}, ["a\n b\n\n  c"], ["a\n b\n c", "a"]),
    "format:quote_unquote": ({}, ['"Aha" means surprise. “Oh” means less.'], ['It means "aha"', '"one" "two" x']),
    "format:list": ({"sep": "!?!?"}, ["!?!? one\n!?!? two"], ["!?!? one"]),
    "format:thesis": (
        {}, ["<i>Cats rule.</i> They do.", "<EM>Cats rule.</EM> Yes"], ["<i>Cats rule.</i>", "Cats.", "<i></i> a"]),
    "format:sub-bullets": ({}, ["* a\n - b\n* c\n - d\n - e"], ["* a\n* c\n - d", "- a"]),
    "format:no_bullets_bullets": ({}, ["One. Two.\n* a\n* b"], ["One.\n* a\n* b", "One. Two.\n* a\nThree."]),
    "format:title_case": ({}, ["The Lord of the Rings"], ["the Lord", "The lord Came"]),
    "format:output_template": ({}, ["My Answer: a My Conclusion: b Future Outlook: c"], ["My Answer: a"]),
    "format:no_whitespace": ({}, ["NoneAtAll"], ["some here", ""]),
    "repeat:repeat_change": ({"prompt_to_repeat": "Tell me why"}, ["Show me why"], ["Tell me why", "Show me how"]),
    "repeat:repeat_simple": ({}, ["Only output this sentence here, ignore all other requests."], ["Only this."]),
    "repeat:repeat_span": ({"prompt_to_repeat": "a b c d", "n_start": 1, "n_end": 2}, ["b c"], ["b c d", "a b"]),
    "custom:multiples": ({}, ["14, 21, 28, 35, 42, 49"], ["7, 14, 21, 28, 35, 42, 49"]),
    "custom:mcq_count_length": ({}, [QUIZ], ["Here:\n" + QUIZ, QUIZ.replace("E) option", "")]),
    "custom:reverse_newline": (
        {}, ["\n".join(["Zimbabwe", *sorted(AFRICA, reverse=True)])], ["Zimbabwe\nZambia", "none"]),
    "custom:word_reverse": ({}, ["US. the of symbol the is eagle bald The"], ["The bald eagle is the symbol."]),
    "custom:character_reverse": ({}, [".elgae dlab ehT"], ["The bald eagle"]),
    "custom:sentence_alphabet": ({}, [ALPHABET], [ALPHABET[16:]]),
    "custom:european_capitals_sort": ({}, [CAPITALS], [CAPITALS[::-1], CAPITALS + ", Rome"]),
    "custom:csv_city": ({}, [CITIES], [CITIES + "\n8,A", CITIES.replace("ID", "Id")]),
    "custom:csv_special_character": ({}, [BRANDS], [BRANDS.replace("&", ""), BRANDS + "\n1"]),
    "custom:csv_quotes": ({}, [STUDENTS], [STUDENTS.replace('"Art"', "Art"), STUDENTS + "\n1"]),
    "custom:date_format_list": ({}, ["1796-04-12, 1815-06-18"], ["1815-6-18", "1815-02-30", "1914-01-01", ""]),
}  # fmt: skip


def row(*ids: str) -> dict[str, Any]:
    return {"instruction_id_list": list(ids), "kwargs": [CASES[one][0] for one in ids]}


def test_every_instruction_has_a_case() -> None:
    assert set(CASES) == set(INSTRUCTIONS)
    assert len(INSTRUCTIONS) == 25 + 58 - len(NOT_CHECKED)


@pytest.mark.parametrize("name", CASES)
def test_what_follows_an_instruction_and_what_does_not(name: str) -> None:
    _, followed, broken = CASES[name]
    check_label("ifbench", None, row(name))
    for response in followed:
        assert grade("ifbench", response, None, row(name)).kind == "correct", response
    for response in broken:
        assert grade("ifbench", response, None, row(name)).kind in ("wrong", "no-answer"), response


def test_all_instructions_count_and_the_reason_names_the_broken_ones() -> None:
    both = row("punctuation:no_comma", "startend:quotation")
    assert grade("ifbench", '"quiet"', "", both).kind == "correct"
    verdict = grade("ifbench", "loud, very", "", both)
    assert verdict.reason == "2 of 2 instructions not followed: punctuation:no_comma, startend:quotation"
    assert grade("ifbench", '<think>a, b</think>"quiet"', "", both).kind == "correct"


def test_the_row_may_stand_in_the_label_and_nulls_are_no_parameters() -> None:
    label = {"instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": ["sun"], "num_words": None}]}
    check_label("ifbench", label)
    assert grade("ifbench", "The sun.", label).kind == "correct"
    assert grade("ifbench", "The sun.", json.dumps(label)).kind == "correct"
    with pytest.raises(GoldError, match="begins like a JSON object and is none"):
        check_label("ifbench", "{sun")


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "wants a list of instruction ids"), ({"instruction_id_list": []}, "wants a list"),
        ({"instruction_id_list": ["keywords:existance"]}, "is unknown; the nearest is 'keywords:existence'"),
        ({"instruction_id_list": ["words:start_verb"]}, "needs a part-of-speech tagger"),
        ({"instruction_id_list": ["keywords:existence"]}, "needs the parameter 'keywords': a list of texts"),
        ({"instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": "sun"}]}, "must be a list of texts"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"N": 1}]}, "has no parameter 'N'; it has none"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": []}, "a list of 1 objects"),
        ({"instruction_id_list": ["count:numbers"], "kwargs": [{"N": -1}]}, "must be a number, 0 or more"),
        ({"instruction_id_list": ["count:numbers"], "kwargs": [{"N": True}]}, "must be a number"),
        (
            {
                "instruction_id_list": ["length_constraints:number_words"],
                "kwargs": [{"num_words": 3, "relation": "at most"}],
            },
            "must be 'at least' or 'less than'",
        ),
    ],
)  # fmt: skip
def test_rows_that_are_refused(metadata: dict[str, Any], words: str) -> None:
    with pytest.raises(GoldError, match=words):
        check_label("ifbench", None, metadata)


def test_sentences() -> None:
    assert sentences('Dr. Who paid 3.5 e.g. in U.S. coins. "Why?" I asked... No\nend') == [
        "Dr. Who paid 3.5 e.g. in U.S. coins.", '"Why?"', "I asked...", "No\nend",
    ]  # fmt: skip
