"""Where --save-hf writes: a folder that may be made or replaced, and holds nothing that the run reads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from slime.config.preflight.disk import existing
from slime.config.preflight.inputs import Inputs
from slime.config.rule import Finding
from slime.weights.folders import ROUND_MARKER_NAME, FolderError, check_replaceable, folder_of_round, refuse_overlap


def check_target(inputs: Inputs) -> Iterator[Finding]:
    """The folder of the first round can be written."""
    config = inputs.config
    if not config.save_hf or not config.save_hf.strip():
        return
    target = folder_of_round(config.save_hf, config.start_rollout_id or 0)
    others = {
        "--hf-checkpoint": config.hf_checkpoint, "--save": config.save, "--ref-load": config.ref_load,
        "--load": config.load, "--critic-load": config.critic_load, "--opd-teacher-load": config.opd_teacher_load,
    }  # fmt: skip
    try:
        for name, path in others.items():
            # A folder of its own beside checkpoints harms none of them.
            inside = (
                path
                and target.resolve() != Path(path).resolve()
                and target.resolve().is_relative_to(Path(path).resolve())
            )
            if path and not (inside and name != "--hf-checkpoint"):
                refuse_overlap(target, name, Path(path), "--save-hf")
        check_replaceable(target, ROUND_MARKER_NAME, force=True)
    except FolderError as error:
        yield Finding(f"--save-hf {config.save_hf}: {error}", flags=("--save-hf",))
        return
    base = existing(target.parent)
    # A file system of no size, such as /proc, says that it can be written.
    if not base.is_dir() or not os.access(base, os.W_OK | os.X_OK) or shutil.disk_usage(base).total == 0:
        yield Finding(
            f"--save-hf {config.save_hf}: {target} cannot be written, because {base} takes no folders",
            "name a folder that can be made",
            ("--save-hf",),
        )
