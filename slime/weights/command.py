"""`slime convert`: between Hugging Face and Megatron, and between bfloat16 and quantised formats."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slime.weights.quantise import command as quantise_command

if TYPE_CHECKING:
    from slime.weights.launch import Layout

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

SHARD_GIB = 5
"""Largest file of an exported checkpoint; published models have such files."""
# Flag -> (field of ParallelSettings, help)
_SIZES = {
    "--tensor-model-parallel-size": ("tensor", "ranks that share each matrix (1)"),
    "--pipeline-model-parallel-size": ("pipeline", "stages of layers (with no sizes given: as many as processes)"),
    "--expert-model-parallel-size": ("expert", "ranks that share the experts (1)"),
    "--expert-tensor-parallel-size": ("expert_tensor", "ranks that share each expert (as for other matrices)"),
    "--decoder-first-pipeline-num-layers": ("first_stage_layers", "layers of the first stage (even)"),
    "--decoder-last-pipeline-num-layers": ("last_stage_layers", "layers of the last stage (even)"),
}


def add_parser(subparsers: Subparsers) -> None:
    """Register ``slime convert`` with its directions."""
    parser = subparsers.add_parser("convert", help="convert weights between formats")
    directions = parser.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    to_megatron = directions.add_parser(
        "hf-to-megatron",
        help="Hugging Face checkpoint -> Megatron torch_dist checkpoint",
        description="Write DIR/release, which --ref-load and --load of `slime train` read, whatever their layout. "
        "Weights are read while they are written, so memory holds a few tensors. Under torchrun the processes share "
        "the work.",
    )
    to_hf = directions.add_parser(
        "megatron-to-hf",
        help="Megatron torch_dist checkpoint -> Hugging Face checkpoint",
        description="Write the latest checkpoint of a training run as a Hugging Face checkpoint. Under torchrun the "
        "processes share the shards; each holds one in memory. Interrupted, it goes on where it was.",
    )
    origin = "the Hugging Face checkpoint that the run started from: its config.json and tokenizer"
    to_hf.add_argument("--load", type=Path, required=True, metavar="DIR", help="folder of the Megatron checkpoints")
    to_hf.add_argument(
        "--max-shard-gib",
        type=quantise_command.positive,
        default=SHARD_GIB,
        metavar="N",
        help=f"largest file ({SHARD_GIB})",
    )
    for one, text in ((to_megatron, "the Hugging Face checkpoint"), (to_hf, origin)):
        one.add_argument("--hf-checkpoint", type=Path, required=True, metavar="DIR", help=text)
        one.add_argument("--save", type=Path, required=True, metavar="DIR", help="folder that receives the result")
        one.add_argument("--force", action="store_true", help="replace an earlier result of this command")
    to_megatron.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the processes meet (cpu)")
    for flag, (field, text) in _SIZES.items():
        to_megatron.add_argument(flag, type=quantise_command.positive, dest=field, metavar="N", help=text)
    to_megatron.add_argument(
        "--mtp-num-layers",
        type=quantise_command.positive,
        default=0,
        metavar="N",
        help="MTP layers that a run with this flag trains (none; the other direction sees what a checkpoint has)",
    )
    quantise_command.add_directions(directions)


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 converted or complete already, 1 failed, 2 refused (the reason goes to stderr)."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from slime.weights.folders import FolderError
    from slime.weights.hf_config import HFConfigError
    from slime.weights.hf_io import HFCheckpointError
    from slime.weights.names import WeightNameError
    from slime.weights.quantise.formats import QuantiseError

    try:
        if args.direction in quantise_command.DIRECTIONS:
            quantise_command.convert(args, _report)
            return 0
        return _megatron(args)
    except (FolderError, HFCheckpointError, HFConfigError, QuantiseError, WeightNameError) as error:
        print(f"slime convert: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"slime convert: {error}", file=sys.stderr)
        return 1


def _megatron(args: argparse.Namespace) -> int:
    from slime.megatron.cpu_shim import CpuShimError
    from slime.megatron.parallel import LayoutError
    from slime.megatron.process import TrainerProcessError
    from slime.weights.convert import hf_to_megatron
    from slime.weights.export import megatron_to_hf
    from slime.weights.launch import ConversionError
    from slime.weights.tracker import CheckpointError

    try:
        if args.direction == "hf-to-megatron":
            hf_to_megatron(args.hf_checkpoint, args.save, _layout(args), args.force, _report, args.mtp_num_layers)
        else:
            shard_bytes = args.max_shard_gib * 2**30
            megatron_to_hf(args.hf_checkpoint, args.load, args.save, shard_bytes, args.force, _report)
    except (CheckpointError, ConversionError, CpuShimError, LayoutError, TrainerProcessError) as error:
        print(f"slime convert: {error}", file=sys.stderr)
        return 2
    return 0


def _layout(args: argparse.Namespace) -> Layout:
    from slime.weights.launch import Layout

    sizes = {field: getattr(args, field) for field, _ in _SIZES.values() if getattr(args, field) is not None}
    return Layout(args.device, sizes)


def _report(line: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        print(line, flush=True)
