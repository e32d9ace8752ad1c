"""The command line: exact names, typed values, every mistake named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slime.config import GROUP_TITLES, REGISTRY, Config, ConfigError, as_arguments, as_values, parse_args
from slime.config.flags import Flag
from slime.config.parsing import Assignment, read_arguments
from slime.config.refused import REFUSED

MINIMAL = [
    "--hf-checkpoint",
    "hf",
    "--ref-load",
    "torch_dist",
    "--prompt-data",
    "train.jsonl",
    "--label-key",
    "label",
    "--rm-type",
    "math",
    "--num-rollout",
    "4",
    "--rollout-batch-size",
    "8",
    "--n-samples-per-prompt",
    "4",
    "--rollout-max-response-len",
    "8",
    "--rollout-max-prompt-len",
    "16",
    "--actor-num-gpus-per-node",
    "1",
    "--colocate",
]


# A switch that the runtime will not run soon: nothing here trains adapters.
PLANNED = "--sglang-enable-lora"


def sample_value(one: Flag) -> Any:
    """A legal value that is not the default, wherever there is one."""
    if one.type is bool:
        return not one.default
    if one.choices is not None:
        legal = [choice for choice in one.choices if choice != one.default] or list(one.choices)
        return one.type(legal[0])
    if one.type is str:
        return "some/where"
    if one.type is dict:
        return {"key": [1, "a"]}
    low = one.minimum if one.minimum is not None else (one.above if one.above is not None else 0)
    high = one.maximum
    number = low + 1 if high is None else (low + high) / 2 if one.type is float else min(low + 1, high)
    return one.type(number)


def words_of(one: Flag, value: Any) -> list[str]:
    return [one.name] if one.switch else [one.name, json.dumps(value) if one.type is dict else str(value)]


@pytest.mark.parametrize("group", GROUP_TITLES)
def test_every_flag_round_trips(group: str) -> None:
    for one in REGISTRY.groups()[group]:
        value = sample_value(one)
        whole = (value,) if one.many else value
        text = json.dumps(value) if one.type in (dict, bool) else str(value)
        assert read_arguments([f"{one.name}={text}"]) == ([Assignment(one, whole, "command line")], [])
        apart = Assignment(one, True if one.switch else whole, "command line")
        assert read_arguments(words_of(one, value)) == ([apart], [])


def test_a_whole_configuration_round_trips() -> None:
    config = parse_args([*MINIMAL, "--lr", "4e-4", "--eval-prompt-data", "a", "b.jsonl", "--eval-interval", "2"])
    again = parse_args(as_arguments(config))
    assert again == config
    assert again.lr == 4e-4
    assert as_values(config)["--eval-prompt-data"] == ["a", "b.jsonl"]


def test_the_later_one_wins() -> None:
    assert parse_args([*MINIMAL, "--lr", "1", "--lr", "2"]).lr == 2.0
    assert parse_args([*MINIMAL, "--rollout-shuffle", "--no-rollout-shuffle"]).rollout_shuffle is False
    assert parse_args([*MINIMAL, "--rollout-shuffle=false", "--rollout-shuffle"]).rollout_shuffle is True


def test_a_negative_number_is_a_value() -> None:
    assert parse_args([*MINIMAL, "--rollout-top-k", "-1"]).rollout_top_k == -1


def test_a_value_may_begin_with_dashes_when_joined() -> None:
    assert parse_args([*MINIMAL, "--metrics-file=--odd name"]).metrics_file == "--odd name"


def test_values_are_taken_as_they_are() -> None:
    hostile = "$(touch x) `y` 'z' \"w\" 中文 \n -v"
    assert parse_args([*MINIMAL, "--metrics-file", hostile]).metrics_file == hostile


def message(*words: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_args([*MINIMAL, *words])
    assert caught.value.exit_code == 2
    return str(caught.value)


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--rollout-batchsize", "8"], ["unknown flag --rollout-batchsize", "did you mean --rollout-batch-size?"]),
        (["--rollout-batch", "8"], ["unknown flag --rollout-batch"]),  # no abbreviations
        (["--rollout_batch_size", "8"], ["unknown flag --rollout_batch_size", "--rollout-batch-size?"]),
        (["--num-rollout", "x"], ["--num-rollout 'x'", "an integer, at least 1"]),
        (["--num-rollout", "0"], ["--num-rollout 0", "at least 1"]),
        (["--num-rollout", "1.5"], ["--num-rollout '1.5'", "an integer"]),
        (["--num-rollout", "1_000"], ["--num-rollout '1_000'"]),
        (["--num-rollout", "８"], ["--num-rollout '８'"]),
        (["--lr", "0"], ["--lr 0.0", "above 0"]),
        (["--lr", "nan"], ["--lr nan"]),
        (["--lr", "inf"], ["--lr inf"]),
        (["--lr"], ["--lr needs a value", "a number, above 0"]),
        (["--lr", "1", "2"], ["--lr takes one value", "'2'"]),
        (["--rollout-top-p", "1.5"], ["--rollout-top-p 1.5", "at most 1"]),
        (["--advantage-estimator", "gpro"], ["--advantage-estimator gpro", "one of grpo, gspo"]),
        (["--colocate", "yes"], ["unexpected value 'yes' after --colocate", "switch"]),
        (["--colocate=yes"], ["--colocate=yes", "true or false"]),
        (["--eval-prompt-data"], ["--eval-prompt-data needs at least one value"]),
        (["--train-env-vars", "{"], ["--train-env-vars '{' is not JSON"]),
        (["--train-env-vars", "9" * 5000], ["is not JSON"]),
        (["--num-rollout", "9" * 5000], ["an integer"]),
        (["--train-env-vars", "[1]"], ["--train-env-vars [1]", "a JSON object"]),
        (["--"], ["a bare --"]),
        (["--metrics-file", "a\0b"], ["NUL"]),
        (["--sglang-tp-size", "8"], ["--sglang-tp-size is set by the runtime", "--rollout-num-gpus-per-engine"]),
        (["--num-layers", "8"], ["--num-layers is set by the runtime", "config.json"]),
        (["--custom-config-path", "x"], ["--config FILE"]),
        (["--config"], ["--config takes one file, not 0"]),
        (["--no-lr"], ["unknown flag --no-lr"]),
    ],
)
def test_a_mistake_is_named(words: list[str], parts: list[str]) -> None:
    text = message(*words)
    for part in parts:
        assert part in text


def test_a_value_before_any_flag() -> None:
    with pytest.raises(ConfigError, match="unexpected value 'train'"):
        parse_args(["train", *MINIMAL])


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_args(["--lr", "x", "--no-such-flag", PLANNED, *MINIMAL[2:]])
    problems = caught.value.problems
    assert [problem.flags for problem in problems] == [
        ("--lr",),
        ("--no-such-flag",),
        ("--hf-checkpoint",),
        (PLANNED,),
    ]
    assert str(caught.value).startswith("4 problems with the configuration:")


def test_required_flags_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_args([])
    assert {problem.flags[0] for problem in caught.value.problems} == {
        "--hf-checkpoint", "--prompt-data", "--num-rollout", "--rollout-batch-size", "--rollout-max-response-len",
    }  # fmt: skip


@pytest.mark.parametrize("group", GROUP_TITLES)
def test_a_planned_flag_is_refused_by_name(group: str) -> None:
    planned = [one for one in REGISTRY.groups()[group] if not one.runs]
    text = message(*[word for one in planned for word in words_of(one, sample_value(one))]) if planned else ""
    for one in planned:
        assert f"{one.name} is planned: the runtime does not run it yet" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (name, choice)
        for name, one in REGISTRY.items()
        for choice in one.choices or ()
        if one.planned(choice) and one.runs
    ],
)
def test_a_planned_value_is_refused_with_what_runs(name: str, value: str) -> None:
    text = message(name, value)
    assert f"{name} {value} is planned" in text
    assert REGISTRY[name].only is None or f"it runs {', '.join(REGISTRY[name].only or ())}" in text


def test_a_planned_switch_that_is_off_asks_for_nothing() -> None:
    assert as_values(parse_args([*MINIMAL, f"{PLANNED}=false"]))[PLANNED] is False


def test_planned_flags_and_broken_rules_come_together() -> None:
    text = message(PLANNED, "--eps-clip", "0.3", "--eps-clip-high", "0.2")
    assert f"{PLANNED} is planned" in text
    assert "--eps-clip 0.3 is above --eps-clip-high 0.2" in text


def test_origins_say_where_a_value_comes_from() -> None:
    config = parse_args(MINIMAL)
    assert config.origins["num_rollout"] == "command line"
    assert config.origins["global_batch_size"] == "derived"
    assert "lr" not in config.origins


@pytest.mark.parametrize(
    ("flag", "largest"), [("--seed", 2**31 - 1), ("--rollout-seed", 2**31 - 1), ("--lr-warmup-iters", 2**53)]
)
def test_integers_that_would_overflow_are_refused(flag: str, largest: int) -> None:
    assert getattr(parse_args([*MINIMAL, flag, str(largest)]), flag[2:].replace("-", "_")) == largest
    with pytest.raises(ConfigError, match=f"{flag} {largest + 1}: .*{largest}"):
        parse_args([*MINIMAL, flag, str(largest + 1)])


WORDS = st.one_of(
    st.sampled_from([*REGISTRY, *REFUSED]),
    st.sampled_from(["-1", "0", "1", "8", "grpo", "true", "{}", "--", "-h", "", "=", "--=", "--no-colocate", "1e400"]),
    st.text(max_size=12),
    st.builds(lambda name, text: f"{name}={text}", st.sampled_from(list(REGISTRY)), st.text(max_size=12)),
)


@given(st.lists(WORDS, max_size=12))
def test_random_words_give_a_configuration_or_a_configuration_error(words: list[str]) -> None:
    try:
        config = parse_args([*MINIMAL, *words])
    except ConfigError as error:
        assert str(error)
    else:
        assert isinstance(config, Config)
        assert parse_args(as_arguments(config)) == config
