"""The runtime's flags: one registry, parsing, derivation, checks. No torch.

``parse_args(argv)`` gives a :class:`Config` or raises :class:`ConfigError`; ``REGISTRY["--lr"]`` is a :class:`Flag`.
"""

from __future__ import annotations

from slime.config.config import GROUP_TITLES, REGISTRY, Config, EvalDataset
from slime.config.dry_run import dry_run, write_dry_run
from slime.config.dry_run_text import render_dry_run
from slime.config.errors import ConfigError, HelpRequested, Problem
from slime.config.flags import Flag, Registry, Text, flag
from slime.config.preflight import preflight
from slime.config.resolve import NotYetRun, as_arguments, as_values, make_config, parse_args

__all__ = [
    "GROUP_TITLES",
    "REGISTRY",
    "Config",
    "ConfigError",
    "EvalDataset",
    "Flag",
    "HelpRequested",
    "NotYetRun",
    "Problem",
    "Registry",
    "Text",
    "as_arguments",
    "as_values",
    "dry_run",
    "flag",
    "make_config",
    "parse_args",
    "preflight",
    "render_dry_run",
    "write_dry_run",
]
