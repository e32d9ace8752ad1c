"""Graders: extraction, equivalence, verdicts, and the killable worker pool that runs them. Imports no torch."""
