"""The argument parser of the small commands: it names the nearest flag when one is misspelt."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from typing import Any


class TeachingParser(argparse.ArgumentParser):
    """`argparse`, without abbreviations, that looks at unknown flags before it asks for missing ones.

    Plain argparse answers ``--hf-chekpoint X`` with "the following arguments are required: --hf-checkpoint". Parsers of
    subcommands are of the same class by themselves.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})

    def parse_known_args(  # type: ignore[override]  # argparse overloads it by the kind of namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Exit with status 2 and the nearest flag for an unknown one."""
        words = list(sys.argv[1:] if args is None else args)
        if self._subparsers is not None:
            return super().parse_known_args(words, namespace)
        for word in words:  # only the last parser knows all flags of its command, and its own usage
            self._refuse_unknown(word)
        known, surplus = super().parse_known_args(words, namespace)
        if surplus:
            self.error(f"unexpected: {' '.join(surplus)}")
        return known, surplus

    def _refuse_unknown(self, word: str) -> None:
        flag = word.partition("=")[0]
        known = list(self._option_string_actions)
        if not flag.startswith("--") or flag == "--" or flag in known:
            return
        near = difflib.get_close_matches(flag, [name for name in known if name.startswith("--")], n=1)
        hint = f"the nearest is {near[0]}" if near else f"known: {', '.join(sorted(known))}"
        self.error(f"unknown flag {flag}; {hint}")
