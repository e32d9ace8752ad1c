"""Experiments as data: facts, choices, checks and the files that they become. No torch here."""
