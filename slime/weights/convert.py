"""A Hugging Face checkpoint as the Megatron checkpoint that training starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from slime.weights.fingerprint import fingerprint
from slime.weights.hf_config import read_config
from slime.weights.hf_io import HFCheckpoint
from slime.weights.launch import ConversionError, Layout, empty_model
from slime.weights.mtp import with_mtp
from slime.weights.names import check_hf_tensors
from slime.weights.tracker import RELEASE, read_tracker

Report = Callable[[str], None]


def hf_to_megatron(
    hf_checkpoint: Path, save: Path, layout: Layout, force: bool, report: Report, mtp_layers: int = 0
) -> None:
    """Write ``<save>/release`` and the tracker file from a Hugging Face checkpoint; the stored dtype is kept.

    Under torchrun every process calls it and writes its part. Tensors are read when they are written: memory holds a
    few of them, whatever the size of the model.

    Done already from the same files: says so and changes nothing.

    Args:
        force: replace weights that were converted from something else.
        mtp_layers: that a run is to train; without them the checkpoint's are left out.

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
    config = with_mtp(read_config(hf_checkpoint), mtp_layers, str(hf_checkpoint / "config.json"))
    checkpoint = HFCheckpoint(hf_checkpoint)
    check_hf_tensors(checkpoint.shapes, config, str(hf_checkpoint))
    source = fingerprint(hf_checkpoint) | ({"mtp_num_layers": mtp_layers} if mtp_layers else {})
    if _converted_already(save, source, force):
        report(f"{save / RELEASE}: complete, made from these files; left as it is.")
        return
    report(f"reading {len(checkpoint.shapes)} tensors of {config.family}, {config.layers} layers, {config.dtype} ...")
    spec = layout.process(config)
    # Training refuses a vocabulary that its ranks cannot share evenly; a checkpoint with rows of zeros behind it is
    # read by any number of ranks.
    padded = replace(config, vocab=config.vocab + -config.vocab % spec.parallel.tensor)
    with empty_model(padded, spec) as model:
        from slime.megatron.checkpoint import save_release
        from slime.megatron.streaming import HFWeights

        folder = save_release(save, model, source, provide=HFWeights(model, padded, checkpoint))
    report(f"{folder}: written.")


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
