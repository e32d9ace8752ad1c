"""A whole conversion: planned, resumed, spread over processes, published at once."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open

from slime.weights.fingerprint import fingerprint
from slime.weights.folders import MARKER_NAME, FolderError, refuse_overlap, replaced_folder
from slime.weights.hf_config import COMPOSITE, SUPPORTED_FAMILIES, config_from_dict, read_values
from slime.weights.hf_io import INDEX_NAME, HFCheckpoint, copy_companions
from slime.weights.names import check_hf_tensors
from slime.weights.quantise.formats import Format, Fp8Format, Int4Format, QuantiseError, read_format
from slime.weights.quantise.plan import Plan, plan_dequantise, plan_quantise
from slime.weights.quantise.work import finished, set_threads, write_shard

STAGE = "quantise"
PLAN_NAME = ".plan.json"
LOCK_NAME = ".lock"
Report = Callable[[str], None]


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
    if config.get("quantization_config"):
        raise QuantiseError(
            f"{job.hf_checkpoint} is quantised already ({config['quantization_config'].get('quant_method')}); turn it "
            "into bfloat16 first."
        )
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
    if _done_already(job.save, made):
        report(f"{job.save}: complete, made from these files; left as it is.")
        return
    with replaced_folder(job.save, MARKER_NAME, job.force, STAGE) as folder, _locked(folder):
        _resume_or_clear(folder, made, report)
        left = [shard for shard in plan.shards if not finished(shard, folder)]
        _check_space(folder, sum(item.size for shard in left for item in shard.items))
        report(
            f"{plan.count('quantise') + plan.count('dequantise')} weights change, {plan.count('copy')} tensors stay; "
            f"{len(plan.shards)} shard(s), {len(plan.shards) - len(left)} of them finished before."
        )
        _write_all(job, plan, folder, left, report)
        copy_companions(job.hf_checkpoint, folder)
        (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        _write_index(folder, plan)
        (folder / MARKER_NAME).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
        (folder / PLAN_NAME).unlink()
    report(f"{job.save}: written.")


def _write_all(job: Job, plan: Plan, folder: Path, left: list[Any], report: Report) -> None:
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


def _resume_or_clear(folder: Path, made: dict[str, Any], report: Report) -> None:
    """Keep the shards of an earlier attempt at the same conversion; remove those of another."""
    path = folder / PLAN_NAME
    text = json.dumps(made, indent=2) + "\n"
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    others = [one for one in folder.iterdir() if one.name != LOCK_NAME]
    if others:
        report(f"{folder}: left by another conversion; started afresh.")
    for one in others:
        one.unlink()
    path.write_text(text, encoding="utf-8")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One conversion writes into `folder` at a time; a killed one holds nothing."""
    path = folder / LOCK_NAME
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderError(f"another conversion is writing into {folder}; wait for it, or stop it.") from None
        yield
        path.unlink()


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise FolderError(f"{folder.parent} has {free / 2**30:.1f} GiB free; the shards need {needed / 2**30:.1f} GiB.")


def _write_index(folder: Path, plan: Plan) -> None:
    if len(plan.shards) == 1:
        return
    weight_map, total = {}, 0
    for shard in plan.shards:
        with safe_open(folder / shard.name, framework="pt") as found:
            weight_map.update(dict.fromkeys(found.keys(), shard.name))
        size = (folder / shard.name).stat().st_size
        with (folder / shard.name).open("rb") as file:  # the header's length comes first
            total += size - 8 - int.from_bytes(file.read(8), "little")
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def _done_already(save: Path, made: dict[str, Any]) -> bool:
    marker = save / MARKER_NAME
    if not marker.is_file():
        return False
    try:
        found = json.loads(marker.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return bool(found == json.loads(json.dumps(made)))
