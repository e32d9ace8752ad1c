"""`slime convert hf-to-fp8 | hf-to-int4 | fp8-to-bf16 | int4-to-bf16`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DIRECTIONS = ("hf-to-fp8", "hf-to-int4", "fp8-to-bf16", "int4-to-bf16")
_KEPT = (
    "Embeddings, the output layer, norms, routers, indexer weights, convolutions, decay projections and vision towers "
    "stay as they are."
)


def add_directions(directions: Subparsers) -> None:
    """Register the four directions."""
    to_fp8 = directions.add_parser(
        "hf-to-fp8",
        help="Hugging Face checkpoint -> FP8 E4M3",
        description=f"Quantise the matrices of linear layers to FP8 E4M3. {_KEPT}",
    )
    to_fp8.add_argument(
        "--strategy", choices=("block", "channel", "tensor"), default="block", help="what shares a scale (block)"
    )
    to_fp8.add_argument(
        "--block-size", type=positive, nargs=2, metavar=("ROWS", "COLUMNS"), help="size of a block (128 128)"
    )
    to_fp8.add_argument(
        "--scale-fmt",
        choices=("ue8m0",),
        help="round scales of blocks up to powers of two, as DeepGEMM has them",
    )
    to_int4 = directions.add_parser(
        "hf-to-int4",
        help="Hugging Face checkpoint -> INT4 in groups",
        description="Quantise to INT4: the routed experts of a mixture of experts, the linear layers of a dense model. "
        f"{_KEPT}",
    )
    to_int4.add_argument("--group-size", type=positive, default=32, metavar="N", help="input channels of a scale (32)")
    to_int4.add_argument("--asymmetric", action="store_true", help="store a zero point for each group too")
    for one in (to_fp8, to_int4):
        one.add_argument(
            "--ignore",
            nargs="+",
            default=[],
            metavar="MODULE",
            help="keep these too: a module with all below it, or re:REGEX from the start of its name",
        )
    from_fp8 = directions.add_parser("fp8-to-bf16", help="FP8 checkpoint -> bfloat16")
    from_int4 = directions.add_parser("int4-to-bf16", help="INT4 checkpoint -> bfloat16")
    for one in (to_fp8, to_int4, from_fp8, from_int4):
        one.add_argument("--hf-checkpoint", type=Path, required=True, metavar="DIR", help="the checkpoint to convert")
        one.add_argument("--save", type=Path, required=True, metavar="DIR", help="folder that receives the result")
        one.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="what computes (cpu)")
        one.add_argument(
            "--workers", type=positive, default=1, metavar="N", help="processes; each holds a shard of 1 GiB (1)"
        )
        one.add_argument("--force", action="store_true", help="replace an earlier result of this command")


def convert(args: argparse.Namespace, report: Callable[[str], None]) -> None:
    """Do it; see `slime.weights.quantise.job` for the errors."""
    from slime.weights.quantise.formats import Fp8Format, Int4Format, QuantiseError
    from slime.weights.quantise.job import Job, dequantise, quantise

    job = Job(args.hf_checkpoint, args.save, args.device, args.workers, args.force)
    if args.direction == "hf-to-fp8":
        if args.strategy != "block" and (args.block_size or args.scale_fmt):
            flag = "--block-size" if args.block_size else "--scale-fmt"
            raise QuantiseError(f"{flag} belongs to --strategy block, not to --strategy {args.strategy}.")
        rows, columns = args.block_size or (128, 128)
        quantise(job, Fp8Format(args.strategy, (rows, columns), bool(args.scale_fmt)), tuple(args.ignore), report)
    elif args.direction == "hf-to-int4":
        quantise(job, Int4Format(args.group_size, not args.asymmetric), tuple(args.ignore), report)
    else:
        dequantise(job, Fp8Format if args.direction == "fp8-to-bf16" else Int4Format, report)


def positive(text: str) -> int:
    """A number of at least 1, for argparse."""
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return value
