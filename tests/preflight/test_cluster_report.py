"""Preflight asks a real Ray cluster of two nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slime.config.preflight import cluster, examine
from slime.config.preflight.cluster import NO_CLUSTER, view_cluster

from .bench import Bench

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

# Two nodes of one machine, in a process of their own, until its standard input closes.
NODES = """
import sys
from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "num_gpus": 2})
cluster.add_node(num_cpus=1, num_gpus=1)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture(scope="module", name="address")
def address_fixture() -> Iterator[str]:
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", NODES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None and process.stdin is not None
    yield process.stdout.readline().strip()
    process.stdin.close()
    process.wait(timeout=60)


def test_two_nodes(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    bench = Bench(tmp_path)
    bench.set(device="cuda", actor_num_gpus_per_node=2, rollout_num_gpus=2, colocate=False)
    inputs = bench.inputs()
    view = view_cluster(inputs.config)
    assert view is not None and view.error == ""
    assert (view.address, view.total["GPU"], view.gpus_per_node) == (address, 3, (2, 1))
    assert len(view.files) == 2
    assert all(set(files) == {"--hf-checkpoint", "--prompt-data"} for files in view.files.values())
    assert all(digest is not None for files in view.files.values() for digest in files.values())
    bench.cluster = view
    (problem,) = [one for one in examine(bench.inputs(), ["host"]) if one.rule == "cluster-resources"]
    assert "is too small: it has 3 GPUs in all, and the run needs 4" in problem.message


def test_no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert view_cluster(Bench(tmp_path).inputs().config) is None
    done = subprocess.run([sys.executable, "-m", "slime.cluster.report"], check=False, timeout=60)
    assert done.returncode == NO_CLUSTER


def test_a_cluster_that_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setattr(cluster, "_SECONDS", 5)
    view = view_cluster(Bench(tmp_path).inputs().config)
    assert view is not None
    assert view.error
