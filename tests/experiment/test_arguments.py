"""The argument table against the runtime's own registry and parser."""

from __future__ import annotations

import itertools
import shlex
from typing import Any

import pytest

from slime.config import REGISTRY, ConfigError, parse_args
from slime.experiment import Catalog

GRID = list(
    itertools.product(["colocate", "separate", "external"], ["sync", "async"], ["bf16", "fp8", "fp8train", "int4"])
)


def _states(catalog: Catalog) -> list[dict[str, Any]]:
    extras: list[dict[str, Any]] = [
        {},
        {
            "pd": True,
            "ib": "mlx5_0",
            "hicache": True,
            "speculative": True,
            "r3": True,
            "sc": True,
            "deterministic": True,
        },
        {"task": "custom", "generate": "a.b", "reward": "a.c", "straw": True, "partial": True, "maskPartial": True},
    ]
    common = {"endpoints": "host:30000 [::1]:30001"}
    return [
        catalog.sanitise(
            {**common, "model": model, "layout": layout, "schedule": schedule, "precision": precision, **extra}
        ).state
        for model in catalog.facts.launch
        for layout, schedule, precision in GRID
        for extra in extras
    ]


def test_every_line_agrees_with_the_registry(catalog: Catalog) -> None:
    for state in _states(catalog):
        lines = catalog.arguments(state)
        flags = [line.flag for line in lines]
        assert len(flags) == len(set(flags)), [flag for flag in flags if flags.count(flag) > 1]
        for line in lines:
            plain: list[str | None] = [None if word.startswith('"$') else shlex.split(word)[0] for word in line.values]
            planned = any(REGISTRY.planned(line.flag, value) for value in plain or [None])
            assert line.status == ("planned" if planned else "runs"), line
            assert line.text == " ".join([line.flag, *line.values])
            assert line.why.zh and line.why.en and set(line.fields) <= set(state)
            assert REGISTRY[line.flag].switch == (not line.values), line


def _argv(catalog: Catalog, state: dict[str, Any]) -> list[str]:
    """The words that the script's array holds, with its shell variables as plain paths."""
    text = " ".join(line.text for line in catalog.arguments(state))
    return [word.replace("$", "/") for word in shlex.split(text)]


def test_the_launcher_accepts_what_the_laptop_shell_says(catalog: Catalog) -> None:
    config = parse_args(_argv(catalog, catalog.preset("laptop")))
    assert (config.rollout_batch_size, config.n_samples_per_prompt, config.num_rollout) == (64, 8, 150)
    assert config.lr == pytest.approx(4e-4)


def test_the_launcher_refuses_by_name_what_a_planned_finding_names(catalog: Catalog) -> None:
    state = catalog.defaults()
    planned = [line.flag for line in catalog.arguments(state) if line.status == "planned"]
    assert planned
    with pytest.raises(ConfigError) as caught:
        parse_args(_argv(catalog, state))
    for flag in planned:
        assert flag in str(caught.value)


def test_a_users_text_is_always_a_single_quoted_literal(catalog: Catalog) -> None:
    hostile = 'x\'y $(id) `id` "z"'
    state = catalog.sanitise({"task": "custom", "generate": hostile, "reward": hostile, "pd": True, "ib": "safe"}).state
    lines = {line.flag: line for line in catalog.arguments(state)}
    assert shlex.split(lines["--custom-generate-function-path"].text)[1] == hostile
    assert lines["--sglang-disaggregation-ib-device"].values == ["'safe'"]
