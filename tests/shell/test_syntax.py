"""Every combination parses, and shellcheck finds nothing, not even a matter of style."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slime.experiment.catalog import Catalog

from .test_hostile import HOSTILE, TEXTS

LAYOUTS = ("colocate", "separate", "external")
SCHEDULES = ("sync", "async")
PRECISIONS = ("bf16", "fp8", "fp8train", "int4")
CORRECTIONS = ("none", "tis", "icepop")

# The other choices vary along, so that each of their lines stands in some script. Keys: precision, correction.
ALONG: dict[str, dict[str, Any]] = {
    "bf16": {},
    "fp8": {"pd": True, "hicache": True, "ib": "mlx5_0"},
    "fp8train": {"pd": True, "deterministic": True, "r3": True},
    "int4": {"speculative": True, "draftSource": "external", "draft": "org/it's $(here)"},
    "none": {"task": "custom", "generate": "my_agent.generate", "reward": "my_reward.reward"},
    "tis": {"straw": True, "queueDir": "/jfs/a b", "queueRun": "r-1", "declaration": "/jfs/d.json", "partial": True},
    "icepop": {"sc": True, "cpuAdam": False, "recompute": False},
}
TRANSPORT = {"colocate": "nccl", "separate": "delta", "external": "disk"}


def combinations(models: list[str]) -> list[dict[str, Any]]:
    found = []
    for model, layout, schedule, precision, correction in itertools.product(
        models, LAYOUTS, SCHEDULES, PRECISIONS, CORRECTIONS
    ):
        found.append(
            {
                "model": model,
                "layout": layout,
                "schedule": schedule,
                "precision": precision,
                "correction": correction,
                "transport": TRANSPORT[layout],
                "endpoints": "host1:30000 host2:30001",
                **ALONG[precision],
                **ALONG[correction],
            }
        )
    return found


@pytest.fixture(scope="module")
def scripts(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One file for each distinct script of model x layout x schedule x precision x correction."""
    folder = tmp_path_factory.mktemp("scripts")
    texts: dict[str, Path] = {}
    for number, choices in enumerate(combinations(list(catalog.tables.facts.launch))):
        for name, text in catalog.artifacts(catalog.sanitise(choices).state, None).items():
            if name.endswith(".sh") and text not in texts:
                texts[text] = folder / f"{number:03d}-{choices['model']}-{choices['layout']}-{name}"
                texts[text].write_text(text, encoding="utf-8")
    return list(texts.values())


def test_there_is_a_script_for_every_combination(scripts: list[Path]) -> None:
    # 7 models x 3 x 2 x 4 x 3 experiments, all different; external ones have a reference too.
    assert len([path for path in scripts if path.name.endswith("experiment.sh")]) == 504
    assert len([path for path in scripts if path.name.endswith("reference.sh")]) == 168


def test_every_script_parses(scripts: list[Path]) -> None:
    loop = 'status=0; for script in "$@"; do bash -n "$script" || status=1; done; exit $status'
    result = subprocess.run(
        ["bash", "-c", loop, "bash", *map(str, scripts)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_shellcheck_finds_nothing(scripts: list[Path]) -> None:
    for start in range(0, len(scripts), 60):
        batch = list(map(str, scripts[start : start + 60]))
        result = subprocess.run(["shellcheck", "-S", "style", *batch], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout


def test_no_script_touches_a_cluster_or_a_process(scripts: list[Path]) -> None:
    for path in scripts:
        lines = path.read_text(encoding="utf-8").splitlines()
        words = " ; ".join(line for line in lines if not line.strip().startswith(("die ", "say ", "#"))).split()
        pairs = set(itertools.pairwise(words))
        assert not pairs & {("ray", "start"), ("ray", "stop"), ("ray", "down"), ("ray", "up")}, path.name
        assert not {"kill", "pkill", "killall", "trap"} & set(words), path.name


def test_no_flag_stands_twice(catalog: Catalog) -> None:
    for choices in combinations(list(catalog.tables.facts.launch)):
        flags = [line.flag for line in catalog.arguments(catalog.sanitise(choices).state)]
        twice = {flag for flag in flags if flags.count(flag) > 1}
        assert not twice, (choices["model"], twice)


@pytest.mark.slow
def test_shellcheck_finds_nothing_in_what_a_reader_typed(catalog: Catalog, tmp_path: Path) -> None:
    """The files of an experiment with errors are shown nowhere, but their texts keep to the same rule."""
    paths = []
    for number, text in enumerate([*HOSTILE, "~", "~/m/hf", "~other/x", "a~b"]):
        for model, layout, transport in (("tiny", "colocate", "nccl"), ("qwen3.8-27b", "external", "delta")):
            choices = {
                **dict.fromkeys(TEXTS, text), "model": model, "layout": layout, "transport": transport, "straw": True,
                "task": "custom", "pd": True, "speculative": True, "draftSource": "external",
            }  # fmt: skip
            for name, content in catalog.artifacts(catalog.sanitise(choices).state, None).items():
                if name.endswith(".sh"):
                    paths.append(tmp_path / f"{number:02d}-{model}-{name}")
                    paths[-1].write_text(content, encoding="utf-8")
    result = subprocess.run(
        ["shellcheck", "-S", "style", *map(str, paths)], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
