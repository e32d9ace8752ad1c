"""The grader ``ifbench``: correct if every instruction of the row is followed to the letter."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from slime.rewards.gold import GoldError

# Imported for what they register.
from slime.rewards.instructions import counts, fixed, ifeval, layout, wordplay  # noqa: F401
from slime.rewards.instructions.registry import INSTRUCTIONS, read_instructions
from slime.rewards.verdict import Verdict

NOT_CHECKED = {
    "words:start_verb": "it needs a part-of-speech tagger, whose models this package does not bring",
    "words:odd_even_syllables": "it needs a pronouncing dictionary, which this package does not bring",
}
MAX_RESPONSE = 1_000_000


class InstructionGrader:
    """Reads `instruction_id_list` and `kwargs` of the metadata, or of a label that is an object (or one as JSON).

    The whole text after the thinking part counts, with nothing cut off (strict accuracy).
    """

    def check(self, label: Any, metadata: Mapping[str, Any]) -> None:
        """Refuse a row with an instruction that is unknown, not checked here, or without its parameters.

        Raises:
            GoldError: with the instruction and the reason.
        """
        _instructions(label, metadata)

    def grade(
        self, response: str, label: Any, metadata: Mapping[str, Any], on_symbolic: Callable[[], None] | None
    ) -> Verdict:
        """Verdict on one response; the reason names what was not followed.

        Raises:
            GoldError: if the row is unusable.
        """
        wanted = _instructions(label, metadata)
        text = response.rsplit("</think>", maxsplit=1)[-1]
        if not text.strip():
            return Verdict.no_answer("the response is empty")
        if len(text) > MAX_RESPONSE:
            return Verdict.wrong(f"the response has {len(text)} characters, the limit is {MAX_RESPONSE}")
        broken = [name for name, values in wanted if not INSTRUCTIONS[name].check(text, **values)]
        if broken:
            return Verdict.wrong(f"{len(broken)} of {len(wanted)} instructions not followed: {', '.join(broken)}")
        return Verdict.correct(f"{len(wanted)} instructions followed")


def _instructions(label: Any, metadata: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(label, str) and label.lstrip().startswith("{"):
        try:
            label = json.loads(label)
        except ValueError as error:
            raise GoldError(f"the label begins like a JSON object and is none: {error}.") from error
    source = metadata if "instruction_id_list" in metadata or not isinstance(label, Mapping) else label
    return read_instructions(source.get("instruction_id_list"), source.get("kwargs"), NOT_CHECKED)
