"""A Megatron checkpoint as a Hugging Face checkpoint, shard by shard."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from slime.weights.fingerprint import fingerprint, megatron_fingerprint
from slime.weights.folders import refuse_overlap
from slime.weights.hf_config import HFModelConfig, read_config
from slime.weights.hf_io import HFCheckpoint, copy_companions
from slime.weights.launch import Layout, empty_model
from slime.weights.layouts import Rule, split
from slime.weights.mtp import repeated_tensors, with_mtp
from slime.weights.names import check_hf_tensors, untrained_names
from slime.weights.shards import Shard, split_shards, write_index
from slime.weights.staging import Report, Stage, unfinished
from slime.weights.tables import rules
from slime.weights.tracker import checkpoint_folder

if TYPE_CHECKING:
    from slime.megatron.stored_weights import StoredWeights

KIND = "megatron-to-hf"


@dataclass(frozen=True)
class Weight:
    """What is written together: the Hugging Face tensors of one parameter, or one that training leaves as it was.

    Attributes:
        rule: of the parameter; None for a tensor of the original checkpoint.
        outputs: names of the tensors.
        size: their bytes.
    """

    rule: Rule | None
    outputs: tuple[str, ...]
    size: int


def megatron_to_hf(hf_checkpoint: Path, load: Path, save: Path, shard_bytes: int, force: bool, report: Report) -> None:
    """Write the latest checkpoint of `load` as a Hugging Face checkpoint `save`.

    Under torchrun the processes share the shards. Parameters are read when they are written: the memory of a process
    holds one shard and two copies of a parameter, whatever the size of the model. Interrupted, it goes on with the
    shards that are missing; done already from the same files, it says so and changes nothing.

    Args:
        hf_checkpoint: the original: its config.json gives dimensions and dtype, and its tokenizer and other small files
            are copied.
        shard_bytes: largest shard.
        force: replace what an earlier conversion wrote to `save`; nothing else is ever replaced.

    Raises:
        HFConfigError, HFCheckpointError: the original is unusable.
        CheckpointError: `load` holds no checkpoint, a damaged one, or one of another model.
        FolderError: `save` overlaps one of the folders that are read, or exists and is not empty, without `force`, or
            was not made by this command.
    """
    for name, source in (("--load", load), ("--hf-checkpoint", hf_checkpoint)):
        refuse_overlap(save, name, source)
    original = HFCheckpoint(hf_checkpoint)
    folder = checkpoint_folder(load)
    config = with_mtp(read_config(hf_checkpoint), _stored_mtp(folder), str(hf_checkpoint / "config.json"))
    # Nothing is computed: a GPU would only have to hold the model.
    with empty_model(config, Layout("cpu", {"tensor": 1}).process(config)) as model:
        from slime.megatron.stored_weights import StoredWeights

        stored = StoredWeights(folder, model)
        shards = split_shards(_weights(config, stored, original), shard_bytes)
        made = {
            "made_by": f"slime convert {KIND}",
            "from": str(folder.resolve()),
            "source": megatron_fingerprint(folder),
            "original": fingerprint(hf_checkpoint),
            "shard_bytes": shard_bytes,
        }
        stage = Stage(save, KIND, made, force)
        if stage.done(shards):
            report(f"{save}: complete, made from these files; left as it is.")
            return
        _write(stage, shards, _Reader(config, stored, original), report)
    report(f"{save}: written.")


def _write(stage: Stage, shards: Sequence[Shard[Weight]], reader: _Reader, report: Report) -> None:
    """This process's shards; the first process opens the folder before, and gives it its name after all are written."""
    rank, world = dist.get_rank(), dist.get_world_size()
    with ExitStack() as stack:
        if rank == 0:
            stack.enter_context(stage.opened(report))
        _wait_for_all()
        left = unfinished(shards, stage.folder)
        report(f"{len(shards)} shard(s), {len(shards) - len(left)} of them finished before.")
        _wait_for_all()  # all have looked before one writes, so they share the same list
        for shard in left[rank::world]:
            shard.write(stage.folder, {name: tensor for item in shard.items for name, tensor in reader.read(item)})
            report(f"{shard.name}: written.")
        _wait_for_all()
        if rank == 0:
            copy_companions(reader.original.folder, stage.folder)
            write_index(stage.folder, shards)
            check_hf_tensors(HFCheckpoint(stage.folder).shapes, reader.config, str(stage.folder))
    _wait_for_all()


def _wait_for_all() -> None:
    if dist.get_world_size() > 1:
        dist.barrier()


@dataclass(frozen=True)
class _Reader:
    config: HFModelConfig
    stored: StoredWeights
    original: HFCheckpoint

    def read(self, item: Weight) -> list[tuple[str, Tensor]]:
        if item.rule is None:
            return [(item.outputs[0], self.original.read(item.outputs[0]))]
        tensors = split(item.rule, self.stored.read(item.rule.megatron), self.config)
        return list(zip(item.outputs, tensors, strict=True))


def _weights(config: HFModelConfig, stored: StoredWeights, original: HFCheckpoint) -> list[Weight]:
    table = rules(config)
    trained = [Weight(rule, rule.names, stored.size(rule.megatron)) for rule in table]
    rule_of = {rule.names[0]: rule for rule in table}
    for name in untrained_names(original.shapes, config):
        source = repeated_tensors(config).get(name)
        # A copy follows what it copies; what only has the name of one stays as it was.
        follows = source is not None and torch.equal(original.read(name), original.read(source))
        trained.append(Weight(rule_of[source] if follows and source else None, (name,), original.size(name)))
    return trained


def _stored_mtp(folder: Path) -> int:
    """MTP layers that the run trained."""
    from slime.megatron.checkpoint_index import read_index

    names = read_index(folder).state_dict_metadata
    return len({name.split(".")[2] for name in names if name.startswith("mtp.layers.")})
