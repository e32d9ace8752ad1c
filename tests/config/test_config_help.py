"""`slime train --help`: an overview, a group, a flag, a word."""

from __future__ import annotations

import pytest

from slime.config import GROUP_TITLES, REGISTRY, ConfigError, HelpRequested, parse_args


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIME_LANG", "en")


def shown(*words: str) -> str:
    with pytest.raises(HelpRequested) as caught:
        parse_args(words)
    assert caught.value.exit_code == 0
    return str(caught.value)


def listed(text: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines() if line.startswith("  --")}


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--lr", "1", "--help"], ["--no-such-flag", "-h"]])
def test_the_overview_lists_what_runs_and_counts_what_is_planned(words: list[str]) -> None:
    text = shown(*words)
    assert text.startswith("usage: slime train")
    assert listed(text) == {name for name, one in REGISTRY.items() if one.runs}
    for group, flags in REGISTRY.groups().items():
        planned = sum(not one.runs for one in flags)
        assert (f"planned besides: {planned} (slime train --help {group})" in text) is (planned > 0)


def test_lines_fit_a_terminal() -> None:
    assert max(len(line) for line in shown("--help").splitlines()) <= 120


@pytest.mark.parametrize("group", GROUP_TITLES)
def test_a_group_lists_all_its_flags(group: str) -> None:
    text = shown("--help", group)
    assert listed(text) == {one.name for one in REGISTRY.groups()[group]}
    assert text.startswith(GROUP_TITLES[group].en)


def test_all_lists_everything() -> None:
    assert listed(shown("--help", "all")) == set(REGISTRY)


@pytest.mark.parametrize("words", [["--help", "--clip-grad"], ["--help", "clip_grad"], ["--help=clip-grad"]])
def test_one_flag_with_all_that_is_known_of_it(words: list[str]) -> None:
    text = " ".join(shown(*words).split())
    assert listed(shown(*words)) == {"--clip-grad"}
    for part in ("takes a number, at least 0", "default 1.0", "sets OptimizerConfig.clip_grad", "from megatron core"):
        assert part in text


def test_the_default_of_the_system_underneath_is_told() -> None:
    text = " ".join(shown("--help", "--sglang-schedule-policy").split())
    assert "without it fcfs; sets ServerArgs.schedule_policy; from sglang 0.5.23" in text


def test_a_word_finds_names_and_meanings() -> None:
    found = listed(shown("--help", "tensorboard"))
    assert {"--tensorboard-dir", "--use-tensorboard", "--tb-project-name"} <= found
    assert "--lr" not in found


@pytest.mark.parametrize(
    ("word", "nearest"), [("optimiser", "optimizer"), ("rollout-batchsize", "--rollout-batch-size")]
)
def test_a_word_that_nothing_has_is_answered_with_the_nearest(word: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"--help {word}: .*did you mean {nearest}") as caught:
        parse_args(["--help", word])
    assert caught.value.exit_code == 2


def test_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIME_LANG", "zh_CN.UTF-8")
    assert shown("--help").startswith("用法")
    assert "取值 数，不小于 0；默认 1.0" in shown("--help", "--clip-grad")
