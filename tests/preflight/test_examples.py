"""The examples of the reference page are what the rules say."""

from __future__ import annotations

from slime.config.preflight import RULES
from slime.config.preflight.registry import load_examples

from .write_examples import examples


def test_the_examples_are_what_the_rules_say() -> None:
    """After a change of a message: ``python -m tests.preflight.write_examples``."""
    assert examples() == load_examples()


def test_every_rule_with_a_check_has_an_example() -> None:
    known = {rule.id for rule in RULES if rule.levels}
    assert known - set(load_examples()) == {"grader-libraries"}  # it needs a library that is missing


def test_texts_are_in_both_languages() -> None:
    for rule in RULES:
        texts = (rule.title, rule.why, *(one for one in (rule.prevented, rule.absent) if one is not None))
        for text in texts:
            assert any("\u4e00" <= letter <= "\u9fff" for letter in text.zh), rule.id
            assert text.zh != text.en
            assert not any("\u4e00" <= letter <= "\u9fff" for letter in text.en), rule.id
