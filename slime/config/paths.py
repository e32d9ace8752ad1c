"""Paths of a run: which flags have one, and making them absolute."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from slime.config.config import Config
from slime.config.flags import Flag

# Folders that the trainer, the engine or another host opens. Their current directory is not that of the launcher, and
# an engine takes a relative name that it does not find for a model on the Hugging Face Hub.
SHARED_FOLDERS = (
    "hf_checkpoint", "ref_load", "load", "save", "save_hf", "update_weight_disk_dir", "critic_load", "opd_teacher_load",
    "update_weight_local_checkpoint_dir",
    "sglang_file_storage_path", "sglang_crash_dump_folder", "sglang_export_metrics_to_file_dir",
    "sglang_debug_tensor_dump_output_folder", "sglang_debug_tensor_dump_input_file", "sglang_msprobe_dump_config",
)  # fmt: skip
# Files and folders that the launcher alone opens.
OWN_PATHS = ("metrics_file", "tensorboard_dir", "dry_run_json", "chat_template_path", "eval_config", "sglang_config")
# Other flags that take the name of a file or folder; `*_path` flags are import paths of functions.
FURTHER_PATHS = (
    "prompt_data", "eval_prompt_data", "megatron_config_path", "rollout_data_dir",
    "rollout_storage_declaration", "wandb_dir", "save_debug_rollout_data", "load_debug_rollout_data",
    "load_forge_rollout_data", "save_debug_train_data", "dump_details", "memory_snapshot_dir", "ci_save_grad_norm",
    "ci_load_grad_norm",
)  # fmt: skip


def takes_path(one: Flag) -> bool:
    """Whether the values of a flag are names of files or folders."""
    return one.field in (*SHARED_FOLDERS, *OWN_PATHS, *FURTHER_PATHS)


def with_absolute_paths(config: Config) -> Config:
    """The configuration for other processes: every path in it means the same file wherever it is opened."""
    given = {name: getattr(config, name) for name in SHARED_FOLDERS}
    values: dict[str, Any] = {name: str(Path(path).absolute()) for name, path in given.items() if path}
    return dataclasses.replace(config, **values)


def prompt_path(spec: str) -> str:
    """The file of ``path@[a:b]``."""
    return spec.rsplit("@[", 1)[0] if spec.endswith("]") else spec
