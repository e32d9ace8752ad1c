"""Checkpoints: exact resumption, atomic writes, and refusal of what does not belong."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from slime.weights.tracker import TRACKER_NAME, CheckpointError

from .megatron_cases import load_hf_model, make_batch, make_hf_model, make_sequences

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]


def round_of(trainer: MegatronTrainer, seed: int) -> dict[str, float]:
    return trainer.train(make_batch(make_sequences(8, seed)))


def test_a_resumed_run_continues_exactly(make_trainer: Make, tmp_path: Path) -> None:
    save = str(tmp_path / "run")
    first = make_trainer(save=save, load=save, save_interval=1)
    assert first.load().step is None
    for seed in range(2):
        round_of(first, seed)
    first.save(1, {"epoch": 0, "offset": 16})
    random_before = torch.rand(4)
    uninterrupted = [round_of(first, seed) for seed in (2, 3)]
    weights = {name: tensor.clone() for name, tensor in first.named_hf_tensors()}

    second = make_trainer(save=save, load=save, save_interval=1)
    loaded = second.load()
    assert (loaded.step, loaded.data_cursor, loaded.rng_restored) == (1, {"epoch": 0, "offset": 16}, True)
    assert torch.equal(torch.rand(4), random_before)
    assert [round_of(second, seed) for seed in (2, 3)] == uninterrupted
    assert uninterrupted[0]["lr"] == pytest.approx(1e-3 * 3 / 4), "the schedule goes on inside its warm-up"
    for name, tensor in second.named_hf_tensors():
        assert torch.equal(tensor, weights[name]), name


def test_the_latest_of_several_is_loaded_and_the_others_stay(make_trainer: Make, tmp_path: Path) -> None:
    root = tmp_path / "run"
    trainer = make_trainer(save=str(root), load=str(root), save_interval=1)
    trainer.load()
    for step in (0, 7):
        round_of(trainer, step)
        assert trainer.save(step) == root / f"iter_{step:07d}"
    assert (root / TRACKER_NAME).read_text() == "7"
    assert sorted(path.name for path in root.iterdir()) == ["iter_0000000", "iter_0000007", TRACKER_NAME]
    (root / TRACKER_NAME).write_text("0")
    assert trainer.load().step == 0


def test_megatron_reads_it_with_its_own_defaults(make_trainer: Make, tmp_path: Path, hf_folder: Path) -> None:
    from megatron.core import dist_checkpointing

    trainer = make_trainer(save=str(tmp_path), save_interval=1)
    trainer.load()
    folder = trainer.save(0)
    assert json.loads((folder / "metadata.json").read_text())["sharded_backend"] == "torch_dist"
    plain = dist_checkpointing.load_plain_tensors(str(folder))
    expected = load_hf_model(hf_folder).get_input_embeddings().weight
    assert torch.equal(plain["embedding.word_embeddings.weight"], expected)


KILLED_SAVE = """
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from tests.megatron.megatron_cases import make_config, make_batch, make_sequences
from slime.megatron import checkpoint_files, checkpoint_writer
from slime.megatron.trainer import MegatronTrainer
trainer = MegatronTrainer(make_config(Path({hf!r}), save={save!r}, load={save!r}, save_interval=1))
trainer.load()
trainer.train(make_batch(make_sequences(8, 0)))
trainer.save(0, {{"offset": 8}})
trainer.train(make_batch(make_sequences(8, 1)))
{victim} = lambda *args, **options: os._exit(9)
trainer.save(1, {{"offset": 16}})
"""


@pytest.mark.parametrize(
    "victim",
    ["checkpoint_writer.dist_checkpointing.save", "checkpoint_writer.publish", "checkpoint_files._write_tracker"],
)
def test_a_kill_leaves_the_previous_checkpoint_valid(
    make_trainer: Make, tmp_path: Path, hf_folder: Path, victim: str
) -> None:
    root = str(tmp_path / "run")
    script = KILLED_SAVE.format(path=sys.path, hf=str(hf_folder), save=root, victim=victim)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=False, capture_output=True, timeout=120)
    assert done.returncode == 9, done.stderr.decode()[-2000:]
    trainer = make_trainer(save=root, load=root, save_interval=1)
    loaded = trainer.load()
    assert (loaded.step, loaded.data_cursor) == (0, {"offset": 8})
    round_of(trainer, 1)
    trainer.save(1, {"offset": 16})
    assert trainer.load().data_cursor == {"offset": 16}
    assert not list((tmp_path / "run").glob(".*")), "what the killed save left is cleared"


def test_a_cursor_that_is_not_json_writes_nothing(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer(save=str(tmp_path / "run"), save_interval=1)
    trainer.load()
    with pytest.raises(CheckpointError, match="not JSON"):
        trainer.save(0, {"offset": {1, 2}})
    assert not (tmp_path / "run").exists()


def test_another_model_is_refused_by_name(make_trainer: Make, tmp_path: Path) -> None:
    root = str(tmp_path / "run")
    trainer = make_trainer(save=root, save_interval=1)
    trainer.load()
    trainer.save(0)
    deeper = make_hf_model(tmp_path / "deeper", num_hidden_layers=3)
    with pytest.raises(
        CheckpointError, match=r"cannot be loaded into this model: Global shape mismatch .* for key decoder\.layers"
    ):
        make_trainer(deeper, load=root).load()
    wider = make_hf_model(tmp_path / "wider", intermediate_size=128)
    with pytest.raises(CheckpointError, match=r"shape mismatch .* decoder\.layers\.mlp\.linear_fc"):
        make_trainer(wider, load=root).load()


def test_missing_and_damaged_checkpoints_are_explained(make_trainer: Make, tmp_path: Path) -> None:
    root = tmp_path / "run"
    trainer = make_trainer(save=str(root), load=str(root), save_interval=1)
    trainer.load()
    trainer.save(3)
    (root / TRACKER_NAME).write_text("4")
    with pytest.raises(CheckpointError, match="names iter_0000004, which is missing; present: iter_0000003"):
        trainer.load()
    (root / TRACKER_NAME).write_text("four")
    with pytest.raises(CheckpointError, match="holds 'four'"):
        trainer.load()
    (root / TRACKER_NAME).write_text("3")
    for content in (
        b"{", b"\xff", b"[]", b"3", b"[" * 100_000, b'{"format": 1, "step": 0}', b'{"format": 1, "step": "3"}',
        b'{"format": 1, "step": true, "data_cursor": {}}', b'{"format": 1, "step": 3, "data_cursor": []}',
    ):  # fmt: skip
        (root / "iter_0000003" / "slime.json").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"slime\.json is damaged"):
            trainer.load()


def test_nothing_to_load_is_said(make_trainer: Make, tmp_path: Path) -> None:
    trainer = make_trainer(load=str(tmp_path / "run"), ref_load=None)
    with pytest.raises(CheckpointError, match=r"run holds no checkpoint, and there is no --ref-load"):
        trainer.load()


class Attack:
    """Unpickling an instance creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_pickled_index_that_runs_code_is_refused(make_trainer: Make, tmp_path: Path, protocol: int) -> None:
    root = tmp_path / "run"
    trainer = make_trainer(save=str(root), load=str(root), save_interval=1)
    trainer.load()
    folder = trainer.save(0)
    (folder / ".metadata").write_bytes(pickle.dumps(Attack(tmp_path / "owned"), protocol))
    with pytest.raises(CheckpointError, match=r"refers to (posix|nt|os)\.mkdir"):
        trainer.load()
    assert not (tmp_path / "owned").exists()


def test_a_reference_hidden_behind_stack_tricks_is_refused(tmp_path: Path) -> None:
    from slime.megatron.checkpoint_index import read_index

    # Pushes os, system, then two harmless strings, pops these two, and asks for the global that is left.
    harmless = b"\x8c\x05torch\x8c\x04Size"
    trick = b"\x80\x04\x8c\x02os\x8c\x06system" + harmless + b"00\x93."
    (tmp_path / ".metadata").write_bytes(trick)
    with pytest.raises(CheckpointError, match=r"refers to os\.system"):
        read_index(tmp_path)
    (tmp_path / ".metadata").write_bytes(b"\x80\x04" + harmless + b"\x93.")
    with pytest.raises(CheckpointError, match="damaged: it holds a type, not an index"):
        read_index(tmp_path)
