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
    parser.add_argument(
        "--output", type=_folder, required=True, metavar="DIR", help="folder that receives hf/ and data/"
    )
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="seed of weights, data and training (0)")
    parser.add_argument("--force", action="store_true", help="make everything again, replacing what it made before")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 complete, 1 failed, 2 refused (the reason goes to stderr)."""
    # One thread: see slime.tiny.build. The variables count only before torch is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from slime.tiny.build import TinyError, build
    from slime.tiny.warm_start import WarmStartError
    from slime.weights.folders import FolderError

    begin = time.monotonic()
    try:
        build(args.output, args.seed, args.force, lambda line: print(line, flush=True))
    except (TinyError, FolderError) as error:
        print(f"slime tiny: {error}", file=sys.stderr)
        return 2
    except (WarmStartError, OSError) as error:
        print(f"slime tiny: {error}", file=sys.stderr)
        return 1
    print(f"{args.output}: ready after {time.monotonic() - begin:.0f} s.", flush=True)
    return 0


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("it is empty; name a folder, for example slime-tiny")
    if Path(text).exists() and not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a file; name a folder")
    return Path(text)


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a seed; use an integer from 0 to {2**32 - 1}")
    return int(text)
