"""The trained weights as a Hugging Face checkpoint beside those of Megatron's form (--save-hf), while a run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import torch.distributed as dist
from safetensors import SafetensorError

from slime.weights.folders import ROUND_MARKER_NAME, FolderError, folder_of_round, replaced_folder
from slime.weights.hf_io import copy_companions, write_shards
from slime.weights.served import ServedCheckpoint
from slime.weights.tracker import CheckpointError
from slime.weights.transport import NamedTensor


def save_hf(path: str, round_id: int, named: Iterable[NamedTensor], served: ServedCheckpoint) -> Path:
    """Write the weights after `round_id`, in the form and precision of --hf-checkpoint; returns their folder.

    Every rank calls it, because the tensors are gathered together; the first writes. The folder appears whole. What is
    not trained, and the files around the weights, are those of --hf-checkpoint.

    Args:
        path: --save-hf.
        named: every trained tensor, whole.
        served: --hf-checkpoint.

    Raises:
        CheckpointError: on every rank, when the folder cannot be written; what was there is as it was.
    """
    folder, waiting, failure = folder_of_round(path, round_id), iter(named), [""]
    if dist.get_rank() == 0:
        try:
            _write(folder, round_id, waiting, served)
        except (OSError, FolderError, SafetensorError) as error:
            failure = [f"--save-hf {path}: the weights after round {round_id} cannot be written: {error}"]
    for _ in waiting:  # the other ranks, or what nobody writes any more
        pass
    dist.broadcast_object_list(failure, src=0)
    if failure[0]:
        raise CheckpointError(failure[0])
    return folder


def _write(folder: Path, round_id: int, named: Iterator[NamedTensor], served: ServedCheckpoint) -> None:
    with replaced_folder(folder, ROUND_MARKER_NAME, force=True) as partial:
        copy_companions(served.folder, partial)
        write_shards(partial, chain(_as_stored(named, served), served.carried()))
        (partial / ROUND_MARKER_NAME).write_text(json.dumps({"rollout_id": round_id}) + "\n", encoding="utf-8")


def _as_stored(named: Iterator[NamedTensor], served: ServedCheckpoint) -> Iterator[NamedTensor]:
    """On the CPU, quantised where the checkpoint is, and in its precision where it is not."""
    for name, tensor in served.as_served(named):
        dtype = served.dtype_of(name)
        yield name, tensor.detach().to("cpu", tensor.dtype if dtype is None else dtype).contiguous()
