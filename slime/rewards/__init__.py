"""Graders: extraction, equivalence, verdicts, and the killable worker pool that runs them. Imports no torch."""

from slime.rewards.gold import GoldError
from slime.rewards.graders import check_label, grade
from slime.rewards.verdict import Verdict

__all__ = ["GoldError", "Verdict", "check_label", "grade"]
