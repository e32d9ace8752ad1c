"""Names that stand for the runtime's own functions: preflight takes none of them for a hook of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slime.cli import main
from slime.config.groups.algorithm import DR_GRPO, ICEPOP, MIS, OWN_FUNCTIONS
from slime.config.preflight import examine
from slime.config.preflight.hooks import has_hooks
from slime.rollout.hook_probe import given

from .bench import Bench

NAMES = [
    (field, written)
    for field, names in OWN_FUNCTIONS.items()
    for name in names
    for written in (name, ":".join(name.rsplit(".", 1)))
]
DR_GRPO_RUN = {"custom_pg_loss_reducer_function_path": DR_GRPO, "disable_grpo_std_normalization": True}


@pytest.mark.parametrize(("field", "name"), NAMES)
def test_a_name_of_the_runtimes_own_is_no_hook(tmp_path: Path, field: str, name: str) -> None:
    bench = Bench(tmp_path)
    bench.set(**{field: name})
    config = bench.inputs().config
    assert not has_hooks(config)
    assert given(config) == []


@pytest.mark.parametrize(
    "flags",
    [
        DR_GRPO_RUN,
        DR_GRPO_RUN | {"use_tis": True, "custom_tis_function_path": ICEPOP},
        {"use_tis": True, "custom_tis_function_path": MIS},
    ],
)
def test_they_pass_beside_a_hook_that_is_tried(tmp_path: Path, flags: dict[str, Any]) -> None:
    bench = Bench(tmp_path)
    bench.set(custom_rm_path="tests.preflight.user_hooks.reward", rm_type=None, **flags)
    assert has_hooks(bench.inputs().config)
    assert examine(bench.inputs(), ["data"]) == []


def test_hooks_check_says_that_there_is_nothing_to_try(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks", "check", "--custom-pg-loss-reducer-function-path", DR_GRPO]) == 0
    assert f"{DR_GRPO}: the runtime's own" in capfd.readouterr().out
