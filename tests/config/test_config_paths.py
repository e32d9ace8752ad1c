"""Every process of a run opens the same files, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slime.config import REGISTRY, Config
from slime.config.paths import OWN_PATHS, SHARED_FOLDERS, prompt_path, with_absolute_paths


def test_folders_of_other_processes_become_absolute(
    small: Callable[..., Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = with_absolute_paths(small(hf_checkpoint="slime-tiny/hf", save="/elsewhere/run"))
    assert config.hf_checkpoint == str(tmp_path / "slime-tiny" / "hf")
    assert config.ref_load == str(tmp_path / "torch_dist")
    assert (config.save, config.load) == ("/elsewhere/run", None)
    assert config.origins == small(hf_checkpoint="slime-tiny/hf", save="/elsewhere/run").origins


def test_every_path_is_known() -> None:
    """A flag whose help speaks of a folder, a file or a checkpoint is in one of the lists, or names something else."""
    words = ("folder", "file that", "FILE", "checkpoint")
    found = {
        one.field
        for one in REGISTRY.values()
        if one.runs and one.type is str and not one.many and any(word in one.help.en for word in words)
    }
    assert found - set(SHARED_FOLDERS) - set(OWN_PATHS) <= {"recipe"}
    assert set(SHARED_FOLDERS) | set(OWN_PATHS) <= {one.field for one in REGISTRY.values()}


@pytest.mark.parametrize(
    ("spec", "path"), [("a.jsonl", "a.jsonl"), ("a.jsonl@[0:9]", "a.jsonl"), ("x@[1:2]/a.jsonl", "x@[1:2]/a.jsonl")]
)
def test_the_file_of_a_slice(spec: str, path: str) -> None:
    assert prompt_path(spec) == path
