"""`slime convert hf-to-megatron | megatron-to-hf`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Register ``slime convert`` with its two directions."""
    parser = subparsers.add_parser("convert", help="convert weights between Hugging Face and Megatron")
    directions = parser.add_subparsers(dest="direction", required=True, metavar="DIRECTION")
    to_megatron = directions.add_parser(
        "hf-to-megatron",
        help="Hugging Face checkpoint -> Megatron torch_dist checkpoint",
        description="Write DIR/release, which --ref-load and --load of `slime train` read.",
    )
    to_hf = directions.add_parser(
        "megatron-to-hf",
        help="Megatron torch_dist checkpoint -> Hugging Face checkpoint",
        description="Write the latest checkpoint of a training run as a Hugging Face checkpoint.",
    )
    origin = "the Hugging Face checkpoint that the run started from: its config.json and tokenizer"
    to_hf.add_argument("--load", type=Path, required=True, metavar="DIR", help="folder of the Megatron checkpoints")
    for one, text in ((to_megatron, "the Hugging Face checkpoint"), (to_hf, origin)):
        one.add_argument("--hf-checkpoint", type=Path, required=True, metavar="DIR", help=text)
        one.add_argument("--save", type=Path, required=True, metavar="DIR", help="folder that receives the result")
        one.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where weights pass through (cpu)")
        one.add_argument("--force", action="store_true", help="replace an earlier result of this command")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 converted or complete already, 1 failed, 2 refused (the reason goes to stderr)."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from slime.megatron.cpu_shim import CpuShimError
    from slime.megatron.process import TrainerProcessError
    from slime.weights.convert import CheckpointError, ConversionError, hf_to_megatron, megatron_to_hf
    from slime.weights.folders import FolderError
    from slime.weights.hf_config import HFConfigError
    from slime.weights.hf_io import HFCheckpointError
    from slime.weights.names import WeightNameError

    try:
        if args.direction == "hf-to-megatron":
            hf_to_megatron(args.hf_checkpoint, args.save, args.device, args.force, _report)
        else:
            megatron_to_hf(args.hf_checkpoint, args.load, args.save, args.device, args.force, _report)
    except (
        CheckpointError,
        ConversionError,
        CpuShimError,
        FolderError,
        HFCheckpointError,
        HFConfigError,
        TrainerProcessError,
        WeightNameError,
    ) as error:
        print(f"slime convert: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"slime convert: {error}", file=sys.stderr)
        return 1
    return 0


def _report(line: str) -> None:
    print(line, flush=True)
