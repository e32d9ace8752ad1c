"""``python -m slime.cluster.report``: what the running Ray cluster says of itself, as one line of JSON.

Preflight runs it as a process of its own, because it imports no Ray itself. Exit status 3: no cluster runs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from slime.cluster.address import running_cluster, settle_authentication
from slime.config.preflight.cluster import NO_CLUSTER

NODE_SECONDS = 30.0
_HEAD = 1 << 20


def fingerprint(path: str) -> str | None:
    """Size and hash of the first MiB of a file; None when it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(_HEAD)
        return f"{Path(path).stat().st_size}-{hashlib.sha256(head).hexdigest()[:12]}"
    except OSError:
        return None


def fingerprints(paths: dict[str, str]) -> dict[str, str | None]:
    """The fingerprint of each path, by its key."""
    return {key: fingerprint(path) for key, path in paths.items()}


def report(address: str, paths: dict[str, str]) -> dict[str, Any]:
    """Connect and ask.

    Args:
        address: of the cluster.
        paths: key -> path to look for on every node.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    ray.init(address=address, log_to_driver=False, logging_level="error")
    nodes = [node for node in ray.nodes() if node["Alive"]]
    ask = ray.remote(num_cpus=0, max_retries=0)(fingerprints)
    answers = {
        f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {node['NodeID'][:6]})": ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(paths)
        for node in nodes
    }
    found = {
        "address": address,
        "total": ray.cluster_resources(),
        "available": ray.available_resources(),
        "gpus_per_node": sorted((int(node["Resources"].get("GPU", 0)) for node in nodes), reverse=True),
        "files": {name: ray.get(answer, timeout=NODE_SECONDS) for name, answer in answers.items()},
    }
    ray.shutdown()
    return found


def main(words: list[str]) -> int:
    """Print the report; returns the exit status."""
    address = running_cluster()
    if address is None:
        return NO_CLUSTER
    settle_authentication()
    print(json.dumps(report(address, json.loads(words[0]) if words else {})))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
