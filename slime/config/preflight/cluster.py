"""The Ray cluster that a run would join, and the GPUs of this machine when there is none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slime.config.config import Config
from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.rule import Finding, Rule

_SECONDS = 90
# Exit status of `python -m slime.cluster.report` when no cluster runs.
NO_CLUSTER = 3


@dataclass(frozen=True)
class ClusterView:
    """What the cluster says of itself.

    Attributes:
        address: of the cluster.
        total: resources, used ones included, e.g. ``{"CPU": 64.0, "GPU": 8.0}``.
        available: what nobody holds now.
        gpus_per_node: GPUs of each node, largest first.
        files: node -> path -> its fingerprint, None where a node does not have it.
        error: why the cluster could not be asked; then the rest is empty.
    """

    address: str = ""
    total: Mapping[str, float] = field(default_factory=dict)
    available: Mapping[str, float] = field(default_factory=dict)
    gpus_per_node: tuple[int, ...] = ()
    files: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    error: str = ""


def view_cluster(config: Config) -> ClusterView | None:
    """Ask the running cluster, in a process of its own, because Ray is imported there; None when none runs."""
    paths = {
        "--hf-checkpoint": str(Path(config.hf_checkpoint, "config.json").absolute()),
        "--prompt-data": str(Path(config.prompt_data.partition("@[")[0]).absolute()),
    }
    command = [sys.executable, "-m", "slime.cluster.report", json.dumps(paths)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return ClusterView(error=f"it did not answer within {_SECONDS} s")
    if done.returncode == NO_CLUSTER:
        return None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return ClusterView(error=lines[-1])
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return ClusterView(
        found["address"], found["total"], found["available"], tuple(found["gpus_per_node"]), found["files"]
    )


def bundles(config: Config) -> int:
    """GPUs (on a CPU: process slots) that the run needs at once."""
    training = 0 if config.debug_rollout_only else config.train_gpus
    serving = 0 if config.debug_train_only else config.rollout_num_gpus
    return max(training, serving) if config.colocate else training + serving


def check_visible_gpus(inputs: Inputs) -> Iterator[Finding]:
    """This machine, or each node of the cluster, has the GPUs that the flags count on."""
    config, need = inputs.config, bundles(inputs.config)
    flags = ("--actor-num-gpus-per-node", "--rollout-num-gpus")
    if config.device != "cuda":
        return
    if inputs.cluster is not None:
        widest = max(inputs.cluster.gpus_per_node, default=0)
        if not inputs.cluster.error and config.actor_num_gpus_per_node > widest:
            yield Finding(
                f"--actor-num-gpus-per-node {config.actor_num_gpus_per_node}, and the largest node of the Ray cluster "
                "has "
                f"{widest} GPUs: was it started with ray start --num-gpus {widest}?",
                f"give --actor-num-gpus-per-node of at most {widest}, or start Ray with the GPUs that the node has",
                flags,
            )
        return
    gpus = inputs.machine.gpus
    if gpus is None:
        yield Finding(
            f"--device cuda, and {inputs.machine.name} has no NVIDIA driver",
            "give --device cpu, or start Ray on the machines with GPUs",
            ("--device",),
        )
    elif len(gpus) < need:
        visible = inputs.machine.environment.get("CUDA_VISIBLE_DEVICES")
        hidden = f" (CUDA_VISIBLE_DEVICES={visible})" if visible is not None else ""
        serving = "the same for serving" if config.colocate else f"{config.rollout_num_gpus} for serving"
        yield Finding(
            f"the run needs {need} GPUs ({config.train_gpus} for training, {serving}), and {inputs.machine.name} shows "
            f"{len(gpus)}{hidden}",
            f"use fewer{'' if config.colocate else ', add --colocate'}, or start Ray on more machines",
            flags,
        )


def check_cluster_resources(inputs: Inputs) -> Iterator[Finding]:
    """The Ray cluster is large enough, and not in use by others."""
    cluster, config = inputs.cluster, inputs.config
    if cluster is None:
        return
    if cluster.error:
        yield Finding(
            f"the Ray cluster cannot be asked for its resources: {cluster.error}",
            "`ray status` says more; RAY_ADDRESS=local starts a cluster for this run alone",
        )
        return
    unit, need = ("CPU" if config.device == "cpu" else "GPU"), bundles(config)
    total, free = cluster.total.get(unit, 0.0), cluster.available.get(unit, 0.0)
    flags = ("--actor-num-nodes", "--actor-num-gpus-per-node", "--rollout-num-gpus")
    if total < need:
        yield Finding(
            f"the Ray cluster at {cluster.address} is too small: it has {total:g} {unit}s in all, and the run needs "
            f"{need}",
            "add nodes, or use fewer training or serving GPUs"
            + ("" if config.colocate else "; --colocate shares them"),
            flags,
        )
    elif free < need:
        yield Finding(
            f"the Ray cluster at {cluster.address} is busy: it has {total:g} {unit}s, {free:g} of them free now, and "
            "the "
            f"run needs {need}; it would wait a minute and then end",
            "`ray job list` and `ray list actors` show who holds the others",
            flags,
            severity="warning",
        )


def check_files_on_nodes(inputs: Inputs) -> Iterator[Finding]:
    """Every node has the checkpoint and the prompts, and the same ones."""
    cluster = inputs.cluster
    if cluster is None or len(cluster.files) < 2:
        return
    flags = sorted({flag for files in cluster.files.values() for flag in files})
    for flag in flags:
        found = {node: files.get(flag) for node, files in cluster.files.items()}
        lacking = sorted(node for node, digest in found.items() if digest is None)
        if lacking:
            yield Finding(
                f"{flag} is not on {len(lacking)} of the {len(found)} nodes: {', '.join(lacking[:4])}",
                "put it on storage that every node mounts under the same name, or copy it there",
                (flag,),
            )
        elif len(set(found.values())) > 1:
            yield Finding(
                f"{flag} is not the same file on every node: "
                f"{', '.join(f'{node} {digest}' for node, digest in found.items())}",
                "copy it anew to every node",
                (flag,),
            )


RULES = (
    Rule(
        id="visible-gpus",
        row=9,
        source="slime#148",
        title=Text("机器上有参数所要的 GPU", "The machines have the GPUs that the flags ask for"),
        why=Text(
            "参数仍写着 8 张卡而机器只有 4 张时，失败会以无关的导入错误出现。",
            "With flags for 8 GPUs on a machine of 4, the failure shows as an import error that has nothing to do "
            "with it.",
        ),
        host=check_visible_gpus,
    ),
    Rule(
        id="cluster-resources",
        row=10,
        source="verl#2515, verl#539, verl#5954",
        title=Text("Ray 集群够大，而且空闲", "The Ray cluster is large enough, and free"),
        why=Text(
            "集群太小和正被占用是两回事：前者等多久都没用，后者只等有限的时间。",
            "Too small and busy are different: no wait helps the first, and the second is waited for within limits.",
        ),
        host=check_cluster_resources,
    ),
    Rule(
        id="files-on-nodes",
        row=71,
        source="",
        title=Text("每个节点上都有同样的 checkpoint 和数据", "Every node has the same checkpoint and data"),
        why=Text(
            "某个节点缺少文件，或者是旧的一份，要到那里的进程读取时才会失败。",
            "A node without the files, or with an older copy, fails only when its processes read them.",
        ),
        host=check_files_on_nodes,
    ),
)
