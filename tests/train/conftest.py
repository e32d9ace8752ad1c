"""The tiny experiment, made once for all runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .tiny_run import Experiment, processes_naming, slime


@pytest.fixture(scope="session")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Model, tokenizer, data and Megatron checkpoint, made by the commands that a user would give."""
    root = tmp_path_factory.mktemp("tiny")
    for words in (
        ["tiny", "--output", str(root), "--seed", "0"],
        ["convert", "hf-to-megatron", "--hf-checkpoint", str(root / "hf"), "--save", str(root / "torch_dist")],
    ):
        done = slime(*words)
        assert done.returncode == 0, done.stderr
    return Experiment(root)


@pytest.fixture
def nothing_left(experiment: Experiment) -> Callable[[], list[int]]:
    """A function that lists processes which serve or train the experiment."""
    return lambda: processes_naming(str(experiment.root))
