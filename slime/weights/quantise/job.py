"""A whole conversion between bfloat16 and a quantised format: planned, spread over processes."""

from __future__ import annotations

import json
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from slime.weights.fingerprint import fingerprint
from slime.weights.folders import refuse_overlap
from slime.weights.hf_config import COMPOSITE, SUPPORTED_FAMILIES, config_from_dict, read_values
from slime.weights.hf_io import HFCheckpoint, copy_companions
from slime.weights.names import check_hf_tensors
from slime.weights.quantise.formats import Format, Fp8Format, Int4Format, QuantiseError, read_format
from slime.weights.quantise.plan import Item, Plan, plan_dequantise, plan_quantise
from slime.weights.quantise.work import set_threads, write_shard
from slime.weights.shards import Shard, write_index
from slime.weights.staging import Report, Stage, unfinished

KIND = "quantise"


@dataclass(frozen=True)
class Job:
    """How to convert.

    Attributes:
        hf_checkpoint, save: folders that are read and written.
        workers: processes; each holds one shard of the result in memory.
        force: replace an earlier result.
    """

    hf_checkpoint: Path
    save: Path
    device: str = "cpu"
    workers: int = 1
    force: bool = False


def quantise(job: Job, target: Format, ignore: tuple[str, ...], report: Report) -> None:
    """Write the checkpoint in the format `target`.

    Raises:
        QuantiseError: it is quantised already, or a weight cannot be stored in that format.
        HFConfigError, WeightNameError: config.json is unusable, or describes other tensors.
        HFCheckpointError: shards are missing or damaged.
        FolderError: `job.save` holds something else.
    """
    config = read_values(job.hf_checkpoint)
    described = config.get("quantization_config")
    if described:
        method = described.get("quant_method") if isinstance(described, dict) else described
        raise QuantiseError(f"{job.hf_checkpoint} is quantised already ({method}); turn it into bfloat16 first.")
    checkpoint = HFCheckpoint(job.hf_checkpoint)
    if config.get("model_type") in (*SUPPORTED_FAMILIES, *COMPOSITE):  # of another family only the tensors are known
        check_hf_tensors(checkpoint.shapes, config_from_dict(config), str(job.hf_checkpoint))
    plan = plan_quantise(checkpoint, target, ignore)
    config["quantization_config"] = plan.config
    _run(job, plan, config, report)


def dequantise(job: Job, expected: type[Fp8Format] | type[Int4Format], report: Report) -> None:
    """Write the quantised checkpoint in bfloat16.

    Args:
        expected: the kind of format that the caller asked for.

    Raises:
        QuantiseError: it is not quantised, or in another format, or incomplete.
        HFCheckpointError, FolderError: see `quantise`.
    """
    config = read_values(job.hf_checkpoint)
    described = config.pop("quantization_config", None)
    if not isinstance(described, dict):
        raise QuantiseError(f"{job.hf_checkpoint} is not quantised: config.json has no quantization_config.")
    source = read_format(described)
    if not isinstance(source, expected):
        command = "fp8-to-bf16" if isinstance(source, Fp8Format) else "int4-to-bf16"
        raise QuantiseError(f"{job.hf_checkpoint} is in {source}; use `slime convert {command}`.")
    plan = plan_dequantise(HFCheckpoint(job.hf_checkpoint), source)
    config["dtype" if "dtype" in config else "torch_dtype"] = "bfloat16"
    _run(job, plan, config, report)


def _run(job: Job, plan: Plan, config: dict[str, Any], report: Report) -> None:
    refuse_overlap(job.save, "--hf-checkpoint", job.hf_checkpoint)
    if job.device == "cuda" and not torch.cuda.is_available():
        raise QuantiseError("--device cuda, but this process sees no GPU; without one, use --device cpu.")
    made = {"source": fingerprint(job.hf_checkpoint), "config": config, "format": repr(plan.target)}
    stage = Stage(job.save, KIND, made, job.force)
    if stage.done(plan.shards):
        report(f"{job.save}: complete, made from these files; left as it is.")
        return
    with stage.opened(report):
        left = unfinished(plan.shards, stage.folder)
        report(
            f"{plan.count('quantise') + plan.count('dequantise')} weights change, {plan.count('copy')} tensors stay; "
            f"{len(plan.shards)} shard(s), {len(plan.shards) - len(left)} of them finished before."
        )
        _write_all(job, plan, stage.folder, left, report)
        copy_companions(job.hf_checkpoint, stage.folder)
        text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
        (stage.folder / "config.json").write_text(text, encoding="utf-8")
        write_index(stage.folder, plan.shards)
    report(f"{job.save}: written.")


def _write_all(job: Job, plan: Plan, folder: Path, left: list[Shard[Item]], report: Report) -> None:
    devices = [job.device]
    if job.device == "cuda":
        devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    total, done = len(plan.shards), len(plan.shards) - len(left)
    if job.workers == 1 or len(left) < 2:
        for shard in left:
            done += 1
            report(f"{write_shard(shard, plan.target, folder, devices[0])}: {done} of {total}")
        return
    threads = max(1, len(os.sched_getaffinity(0)) // job.workers)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(job.workers, spawn, set_threads, (threads,)) as pool:
        futures = [
            pool.submit(write_shard, shard, plan.target, folder, devices[number % len(devices)])
            for number, shard in enumerate(left)
        ]
        try:
            for future in as_completed(futures):
                done += 1
                report(f"{future.result()}: {done} of {total}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
