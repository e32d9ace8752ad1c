"""`slime tiny`: make the tiny experiment's model and data on this machine."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]


def add_parser(subparsers: Subparsers) -> None:
    """Register ``slime tiny``."""
    parser = subparsers.add_parser(
        "tiny",
        help="make the tiny model, its tokenizer and its data",
        description=(
            "Make a Qwen3 of 0.4 million parameters that already solves about 40% of two-digit additions, its "
            "tokenizer, and the problems to train and evaluate it on. Everything follows from the seed. Parts that are "
            "complete are left as they are. About half a minute on one CPU core."
        ),
    )
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder that receives hf/ and data/")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of weights, data and training (0)")
    parser.add_argument("--force", action="store_true", help="make everything again, replacing what is there")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 complete, 2 refused or failed (the reason goes to stderr)."""
    # One thread: see slime.tiny.build. The variables count only before torch is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from slime.tiny.build import TinyError, build
    from slime.tiny.warm_start import WarmStartError
    from slime.weights.folders import FolderError

    begin = time.monotonic()
    try:
        build(args.output, args.seed, args.force, lambda line: print(line, flush=True))
    except (TinyError, WarmStartError, FolderError, OSError) as error:
        print(f"slime tiny: {error}", file=sys.stderr)
        return 2
    print(f"{args.output}: ready after {time.monotonic() - begin:.0f} s.", flush=True)
    return 0


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed; use an integer from 0 to {2**32 - 1}")
    return int(text)
