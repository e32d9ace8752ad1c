"""The flags `--sglang-*` are those of the installed SGLang, and no other."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from slime.config import REGISTRY, ConfigError, parse_args
from slime.config.refused import REFUSED
from slime.config.sglang_table import EARLIER_NAMES, other_names, server_arguments

SGLANG_FLAGS = [name for name, one in REGISTRY.items() if one.source == "sglang"]

# What the runtime sets itself: no flag of the command line may change it. From the description of the earlier wrapper.
RUNTIME_OWNED = (
    "model-path", "trust-remote-code", "random-seed", "enable-memory-saver", "tp-size", "nnodes", "node-rank",
    "dist-init-addr", "gpu-id-step", "base-gpu-id", "nccl-port", "skip-server-warmup", "enable-return-routed-experts",
)  # fmt: skip


@pytest.mark.runtime
@pytest.mark.skipif(find_spec("sglang") is None, reason="the runtime is not installed: make runtime")
def test_the_table_is_that_of_the_installed_parser() -> None:
    from slime.sglang.argument_table import TABLE, document, read_installed

    assert document(read_installed()) == TABLE.read_text(), "run python -m slime.sglang.argument_table --write"


def test_every_server_argument_is_a_flag_or_refused_with_a_reason() -> None:
    names = {f"--sglang-{name}" for name in server_arguments()}
    # The runtime's own: the port of the first engine, and the file that describes groups of servers.
    own = {"--sglang-port", "--sglang-config"}
    assert names - set(SGLANG_FLAGS) - set(REFUSED) == own
    assert set(SGLANG_FLAGS) <= names


def test_types_and_choices_are_sglangs() -> None:
    for name in SGLANG_FLAGS:
        one, argument = REGISTRY[name], server_arguments()[name.removeprefix("--sglang-")]
        assert (one.type, one.many, one.choices) == (argument.type, argument.many, argument.choices), name
        assert one.sets == (f"ServerArgs.{argument.field}",)
        assert one.system_default == argument.default
        assert one.default is None or (one.type is bool and one.default is argument.default), name


@pytest.mark.parametrize("name", RUNTIME_OWNED)
def test_what_the_runtime_owns_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_args([f"--sglang-{name}", "1"])
    (found,) = [one for one in caught.value.problems if f"--sglang-{name}" in one.flags]
    assert found.message == f"--sglang-{name} is set by the runtime"
    assert found.hint


@pytest.mark.parametrize(
    ("given", "registered"),
    [("expert-parallel-size", "ep-size"), ("data-parallel-size", "dp-size"), *EARLIER_NAMES.items()],
)
def test_another_name_of_an_argument_is_answered_with_the_registered_one(given: str, registered: str) -> None:
    with pytest.raises(ConfigError, match=f"--sglang-{given} is called --sglang-{registered} here"):
        parse_args([f"--sglang-{given}", "1"])


def test_other_names_lead_to_arguments() -> None:
    assert set(other_names().values()) <= set(server_arguments())
    assert set(EARLIER_NAMES.values()) <= set(server_arguments())
    assert not (set(EARLIER_NAMES) | set(other_names())) & set(server_arguments())


def test_a_misspelt_argument_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean --sglang-schedule-policy"):
        parse_args(["--sglang-schedul-policy", "fcfs"])


def test_a_choice_that_the_server_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="--sglang-schedule-policy newest: must be one of lpm, random, fcfs"):
        parse_args(["--sglang-schedule-policy", "newest"])
