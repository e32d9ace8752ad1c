"""What a run loads and saves: steps by number, weights alone, parts of the state, and weights for Transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from slime.weights.tracker import CheckpointError

from .megatron_cases import load_hf_model, make_batch, make_hf_model, make_sequences

if TYPE_CHECKING:
    from slime.megatron.trainer import MegatronTrainer

pytestmark = pytest.mark.runtime
Make = Callable[..., "MegatronTrainer"]
CURSOR = {"offset": 8}


def weights(trainer: MegatronTrainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.named_hf_tensors()}


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def run(trainer: MegatronTrainer, rounds: int) -> list[dict[str, torch.Tensor]]:
    """Train and save so many rounds; the weights after each."""
    found = []
    for step in range(rounds):
        trainer.train(make_batch(make_sequences(8, step)))
        trainer.save(step, CURSOR)
        found.append(weights(trainer))
    return found


def test_a_step_by_its_number(make_trainer: Make, tmp_path: Path) -> None:
    root = str(tmp_path / "run")
    trainer = make_trainer(save=root)
    trainer.load()
    start = weights(trainer)
    saved = run(trainer, 3)

    trainer = make_trainer(load=root, ckpt_step=1)
    assert trainer.load().step == 1 and same(weights(trainer), saved[1])
    trainer.train(make_batch(make_sequences(8, 2)))
    assert same(weights(trainer), saved[2]), "optimizer and schedule are those of the step"

    trainer = make_trainer(ref_load=root, ref_ckpt_step=0, use_kl_loss=True, kl_loss_coef=0.1)
    assert trainer.load().step is None and same(weights(trainer), saved[0])
    with trainer._copies.swapped_in("ref"):
        assert same(weights(trainer), saved[0])
    trainer = make_trainer(use_opd=True, opd_type="megatron", opd_teacher_load=root, opd_teacher_ckpt_step=1)
    trainer.load()
    with trainer._copies.swapped_in("teacher"):
        assert same(weights(trainer), saved[1])
    assert same(weights(trainer), start)

    for flags in ({"load": root, "ckpt_step": 7}, {"ref_load": root, "ref_ckpt_step": 7}):
        with pytest.raises(CheckpointError, match=r"no checkpoint of step 7; steps that are there: 0, 1, 2"):
            make_trainer(**flags).load()
    with pytest.raises(CheckpointError, match="is a Hugging Face checkpoint, which has no step 1"):
        make_trainer(ref_ckpt_step=1).load()


def test_weights_alone_and_parts_of_the_state(make_trainer: Make, tmp_path: Path) -> None:
    root = str(tmp_path / "run")
    trainer = make_trainer(save=root)
    trainer.load()
    torch.manual_seed(7)
    saved = run(trainer, 2)[-1]
    numbers = torch.rand(3)

    trainer = make_trainer(load=root, finetune=True)
    loaded = trainer.load()
    assert (loaded.step, loaded.data_cursor, loaded.rng_restored) == (None, {}, False)
    assert same(weights(trainer), saved)
    assert trainer.train(make_batch(make_sequences(8, 2)))["lr"] == pytest.approx(1e-3 / 4), "the schedule begins anew"
    fresh = weights(trainer)

    trainer = make_trainer(load=root, no_load_optim=True)
    loaded = trainer.load()
    assert (loaded.step, loaded.data_cursor, loaded.rng_restored) == (1, CURSOR, True)
    assert torch.equal(torch.rand(3), numbers)
    assert trainer.train(make_batch(make_sequences(8, 2)))["lr"] == pytest.approx(1e-3 / 4)
    assert same(weights(trainer), fresh), "a new optimizer, as in a run from these weights"

    trainer = make_trainer(load=root, no_load_rng=True)
    torch.manual_seed(8)
    expected = torch.rand(3)
    torch.manual_seed(8)
    assert trainer.load().rng_restored is False
    assert torch.equal(torch.rand(3), expected), "loading drew and set nothing"
    assert trainer.train(make_batch(make_sequences(8, 2)))["lr"] == pytest.approx(1e-3 * 3 / 4)


def test_without_the_optimizer_a_checkpoint_is_smaller_and_says_so(make_trainer: Make, tmp_path: Path) -> None:
    def size(folder: Path) -> int:
        return sum(path.stat().st_size for path in folder.iterdir())

    sizes = {}
    for alone in (False, True):
        root = tmp_path / str(alone)
        trainer = make_trainer(save=str(root), no_save_optim=alone, advantage_estimator="ppo")
        trainer.load()
        trainer.train(make_batch(make_sequences(8, 0)))
        sizes[alone] = size(trainer.save(0)), size(root / "critic" / "iter_0000000")
        saved = weights(trainer)
    # Weights, and two moments of the same size, in float32.
    assert sizes[False] == pytest.approx([3 * one for one in sizes[True]], rel=0.2)
    alone_root = str(tmp_path / "True")
    with pytest.raises(CheckpointError, match=r"saved with --no-save-optim.*give --no-load-optim .* or --finetune"):
        make_trainer(load=alone_root, advantage_estimator="ppo").load()
    trainer = make_trainer(load=alone_root, no_load_optim=True, advantage_estimator="ppo")
    assert trainer.load().step == 0 and same(weights(trainer), saved)


def test_checkpoints_of_an_earlier_run_stay(make_trainer: Make, hf_folder: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "run")
    trainer = make_trainer(save=root)
    trainer.load()
    saved = run(trainer, 2)
    for flags in ({"finetune": True}, {"start_rollout_id": 1}, {"ckpt_step": 0}):
        with pytest.raises(CheckpointError, match=r"--save .*run holds the (later )?steps? .*1.*give another --save"):
            make_trainer(load=root, save=root, **flags).load()
    with pytest.raises(CheckpointError, match="holds the steps 0, 1 of an earlier run"):
        make_trainer(save=root).load()
    trainer = make_trainer(load=root, save=root)
    assert trainer.load().step == 1 and same(weights(trainer), saved[1])
    # A kill between the rename and the tracker: step 1 is done again.
    (tmp_path / "run" / "latest_checkpointed_iteration.txt").write_text("0")
    assert make_trainer(load=root, save=root).load().step == 0


def test_finetune_takes_what_load_names_or_fails(make_trainer: Make, hf_folder: Path, tmp_path: Path) -> None:
    root = str(tmp_path / "run")
    trainer = make_trainer(save=root)
    trainer.load()
    start = weights(trainer)
    run(trainer, 1)
    trainer = make_trainer(load=str(hf_folder), finetune=True, ref_load=root)
    loaded = trainer.load()
    assert (loaded.source, loaded.step) == (hf_folder, None) and same(weights(trainer), start)
    with pytest.raises(CheckpointError, match=r"none holds no checkpoint, and --finetune takes"):
        make_trainer(load=str(tmp_path / "none"), finetune=True).load()
    with pytest.raises(CheckpointError, match=r"is a Hugging Face folder, .* give --finetune"):
        make_trainer(load=str(hf_folder)).load()


def test_weights_for_transformers_appear_whole(make_trainer: Make, tmp_path: Path) -> None:
    folder = make_hf_model(tmp_path / "bf16", tie_word_embeddings=True)
    model = load_hf_model(folder).to(torch.bfloat16)
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    path = tmp_path / "out" / "round-{rollout_id}"
    flags: dict[str, Any] = {"save": str(tmp_path / "run"), "save_hf": str(path)}
    trainer = make_trainer(folder, **flags)
    trainer.load()
    saved = run(trainer, 2)
    for number, expected in enumerate(saved):
        out = Path(str(path).format(rollout_id=number))
        assert json.loads((out / "config.json").read_text()) == json.loads((folder / "config.json").read_text())
        assert (out / "tokenizer.json").is_file()
        found = load_hf_model(out).to(torch.bfloat16).state_dict()
        assert all(torch.equal(found[name], tensor.to(torch.bfloat16)) for name, tensor in expected.items())
    assert not list(path.parent.glob(".*")), "nothing half written is left"
    assert not torch.equal(saved[0]["model.norm.weight"], saved[1]["model.norm.weight"])

    foreign = path.parent / "round-3"
    foreign.mkdir()
    (foreign / "mine.txt").write_text("keep")
    with pytest.raises(CheckpointError, match=r"--save-hf .* after round 3 cannot be written: .*was not made by this"):
        trainer.save(3)
    assert [one.name for one in foreign.iterdir()] == ["mine.txt"]
    assert (tmp_path / "run" / "iter_0000003").is_dir(), "the checkpoint is there"
