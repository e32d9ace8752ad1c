"""Fixtures of the trainer's tests: random Hugging Face models as the independent reference."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .megatron_cases import make_config, make_hf_model

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

# torch's checkpoint code logs every tensor at level DEBUG, which pytest would print with each failure.
logging.getLogger("torch.distributed").setLevel(logging.WARNING)
logging.getLogger("c10d-NullHandler-dcp_logger").setLevel(logging.WARNING)


@pytest.fixture(scope="session")
def hf_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3 with peaked distributions, float32, saved as a Hugging Face checkpoint."""
    return make_hf_model(tmp_path_factory.mktemp("hf") / "qwen3")


@pytest.fixture(scope="module")
def own_groups() -> Iterator[None]:
    """Megatron's process groups, with this process alone in them."""
    from slime.megatron import process

    process.start(process.ProcessSpec(device="cpu"))
    yield
    process.stop()


@pytest.fixture
def make_trainer(hf_folder: Path) -> Iterator[Callable[..., MegatronTrainer]]:
    """``make_trainer(**flags)`` gives a MegatronTrainer of world size 1, unloaded; it closes the one before it."""
    from slime.megatron.trainer import MegatronTrainer

    made: list[MegatronTrainer] = []

    def make(hf: Path = hf_folder, **flags: object) -> MegatronTrainer:
        for earlier in made:
            earlier.close()
        made.append(MegatronTrainer(make_config(hf, **flags)))
        return made[-1]

    yield make
    for one in made:
        one.close()
