"""Whole checkpoints, Hugging Face <-> Megatron."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from slime.weights.fingerprint import fingerprint
from slime.weights.folders import MARKER_NAME, refuse_overlap, replaced_folder
from slime.weights.hf_config import HFModelConfig, read_config
from slime.weights.hf_io import HFCheckpoint, copy_companions, write_shards
from slime.weights.launch import ConversionError, Device, Layout
from slime.weights.names import check_hf_tensors, untrained_names
from slime.weights.tracker import RELEASE, CheckpointError, read_tracker

if TYPE_CHECKING:
    from megatron.core.models.gpt import GPTModel

    from slime.megatron.process import ProcessSpec

Report = Callable[[str], None]


def hf_to_megatron(hf_checkpoint: Path, save: Path, layout: Layout, force: bool, report: Report) -> None:
    """Write ``<save>/release`` and the tracker file from a Hugging Face checkpoint; the stored dtype is kept.

    Under torchrun every process calls it and writes its part. Tensors are read when they are written: memory holds a
    few of them, whatever the size of the model.

    Done already from the same files: says so and changes nothing.

    Args:
        force: replace weights that were converted from something else.

    Raises:
        HFConfigError: a family that is not supported (the message lists those that are), or a broken config.json.
        HFCheckpointError, WeightNameError: shards or tensors are missing, surplus, damaged or of the wrong shape.
        ConversionError: `save` is a Hugging Face checkpoint itself, holds a run's checkpoints, or other converted
            weights without `force`; or the processes do not divide by the sizes of `layout`.
        CheckpointError: `save` cannot be written.
    """
    if (save / "config.json").is_file():
        raise ConversionError(
            f"--save {save} is a Hugging Face checkpoint (it has config.json); Megatron's files need a folder of their "
            "own."
        )
    config = read_config(hf_checkpoint)
    checkpoint = HFCheckpoint(hf_checkpoint)
    check_hf_tensors(checkpoint.shapes, config, str(hf_checkpoint))
    source = fingerprint(hf_checkpoint)
    if _converted_already(save, source, force):
        report(f"{save / RELEASE}: complete, made from these files; left as it is.")
        return
    report(f"reading {len(checkpoint.shapes)} tensors of {config.family}, {config.layers} layers, {config.dtype} ...")
    spec = layout.process(config)
    # Training refuses a vocabulary that its ranks cannot share evenly; a checkpoint with rows of zeros behind it is
    # read by any number of ranks.
    padded = replace(config, vocab=config.vocab + -config.vocab % spec.parallel.tensor)
    with _model(padded, spec) as model:
        from slime.megatron.checkpoint import save_release
        from slime.megatron.streaming import HFWeights

        folder = save_release(save, model, source, HFWeights(model, padded, checkpoint))
    report(f"{folder}: written.")


def megatron_to_hf(hf_checkpoint: Path, load: Path, save: Path, device: Device, force: bool, report: Report) -> None:
    """Write the latest checkpoint of `load` as a Hugging Face checkpoint `save`.

    Args:
        hf_checkpoint: the original: its config.json gives dimensions and dtype, and its tokenizer and other small files
            are copied.
        force: replace what an earlier conversion wrote to `save`; nothing else is ever replaced.

    Raises:
        HFConfigError: see `hf_to_megatron`.
        CheckpointError: `load` holds no checkpoint, or one of another model.
        FolderError: `save` overlaps one of the folders that are read, or exists and is not empty, without `force`, or
            was not made by this command.
    """
    _refuse_several_processes()
    for name, source in (("--load", load), ("--hf-checkpoint", hf_checkpoint)):
        refuse_overlap(save, name, source)
    config = read_config(hf_checkpoint)
    with replaced_folder(save, MARKER_NAME, force) as folder, _model(config, Layout(device).process(config)) as model:
        from slime.megatron.checkpoint import load_checkpoint
        from slime.megatron.gather import gather_hf_tensors

        loaded = load_checkpoint(load, model, None)
        report(f"reading {loaded.source} ...")
        copied = copy_companions(hf_checkpoint, folder)
        original = HFCheckpoint(hf_checkpoint)
        carried = untrained_names(original.shapes, config)
        trained = ((name, tensor.cpu()) for name, tensor in gather_hf_tensors(model, config))
        files = write_shards(folder, chain(trained, ((name, original.read(name)) for name in carried)))
        check_hf_tensors(HFCheckpoint(folder).shapes, config, str(folder))
        marker = {"made_by": "slime convert megatron-to-hf", "from": str(loaded.source.resolve())}
        (folder / MARKER_NAME).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    report(f"{save}: written, {len(files)} file(s) of weights and {', '.join(copied)}.")


@contextmanager
def _model(config: HFModelConfig, spec: ProcessSpec) -> Iterator[GPTModel]:
    """This process's part of an empty model, in the process group of the conversion."""
    from slime.megatron import process
    from slime.megatron.model import build_model
    from slime.megatron.model_settings import ComputeSettings

    process.start(spec)
    try:
        yield build_model(config, spec.torch_device, ComputeSettings(getattr(torch, config.dtype)), spec.parallel)
    finally:
        process.stop()


def _converted_already(save: Path, source: dict[str, Any], force: bool) -> bool:
    """True when `save` holds exactly this conversion.

    Raises:
        ConversionError: it holds something else that would be lost.
    """
    latest = read_tracker(save)
    if latest is None:
        if (save / RELEASE).exists() and not (save / RELEASE / "slime.json").is_file():
            raise ConversionError(f"{save / RELEASE} exists, and `slime convert` did not make it; name another --save.")
        return False
    if latest != RELEASE:
        raise ConversionError(
            f"{save} holds the checkpoints of a run (the latest is step {latest}); name another folder with --save."
        )
    from slime.megatron.checkpoint import read_description

    if (save / RELEASE).is_dir() and read_description(save / RELEASE).get("source") == source:
        return True
    if not force:
        raise ConversionError(
            f"{save / RELEASE} was converted from other files than these; --force replaces it, or name another --save."
        )
    return False


def _refuse_several_processes() -> None:
    world = os.environ.get("WORLD_SIZE", "1")
    if world != "1":
        raise ConversionError(
            f"WORLD_SIZE is {world}, and this direction runs in one process; start it without torchrun."
        )


__all__ = ["CheckpointError", "ConversionError", "Layout", "hf_to_megatron", "megatron_to_hf"]
