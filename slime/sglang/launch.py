"""What a server is started with: its command line and environment, as pure functions of an `EngineSpec`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slime.sglang import cpu

Value = str | int | float | bool | tuple[str | int | float, ...]
"""Value of one server argument; True stands for a switch that is given, False for one that is left out."""

# SGLang on a CPU: no CUDA graphs, no overlapped scheduling, attention written in torch. Without `sleep-on-idle` an idle
# scheduler spins on a whole core, which the trainer needs.
CPU_ARGUMENTS: Mapping[str, Value] = {
    "device": "cpu",
    "attention-backend": "torch_native",
    "dtype": "float32",
    "disable-overlap-schedule": True,
    "disable-cuda-graph": True,
    "mem-fraction-static": 0.1,
    "max-total-tokens": 65536,
    "sleep-on-idle": True,
}

# SGLang on a GPU computes in the trainer's precision. Left to itself it would take that of the checkpoint, and float16
# for one in float32. Nothing here asks for structured output, so its grammar compiler is not loaded.
CUDA_ARGUMENTS: Mapping[str, Value] = {"dtype": "bfloat16", "grammar-backend": "none"}

# Variables of the launching process that must not reach the server. Proxies would catch its calls to itself; Ray and
# the launcher's own PYTHONPATH concern other processes.
DROPPED_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "PYTHONPATH")


@dataclass(frozen=True)
class EngineSpec:
    """One engine as the user asked for it.

    Attributes:
        model_path: Hugging Face directory that the server loads.
        device: "cpu" or "cuda".
        tensor_parallel: GPUs (on a CPU: processes) of the engine.
        host: address to listen on; loopback unless told otherwise.
        port: port to listen on; None has a free one chosen.
        bootstrap: whether the engine also listens for decode engines, as a prefill engine does; on a free port.
        seed: `--random-seed` of the server.
        arguments: further `launch_server` arguments without their leading dashes; they override the defaults.
        environment: further variables for the server.
        start_seconds: limit on the time until the first answer.
    """

    model_path: str
    device: Literal["cpu", "cuda"] = "cuda"
    tensor_parallel: int = 1
    host: str = "127.0.0.1"
    port: int | None = None
    bootstrap: bool = False
    seed: int = 0
    arguments: Mapping[str, Value] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    start_seconds: float = 600.0


def server_arguments(spec: EngineSpec, port: int, bootstrap_port: int | None = None) -> dict[str, Value]:
    """All arguments of the server, defaults of the device first, the user's last.

    Args:
        spec: the engine.
        port: to listen on.
        bootstrap_port: on which a prefill engine listens for decode engines.
    """
    base: dict[str, Value] = {
        "model-path": spec.model_path,
        "host": spec.host,
        "port": port,
        "tp-size": spec.tensor_parallel,
        "random-seed": spec.seed,
        # Readiness is proven by a real generation, which warms up as well.
        "skip-server-warmup": True,
        "log-level": "info",
        "log-level-http": "warning",
    }
    base |= CPU_ARGUMENTS if spec.device == "cpu" else CUDA_ARGUMENTS
    if bootstrap_port is not None:
        base["disaggregation-bootstrap-port"] = bootstrap_port
    return base | dict(spec.arguments)


def server_command(spec: EngineSpec, port: int, bootstrap_port: int | None = None) -> list[str]:
    """The command that starts the server; an argument list, never a shell line. Arguments are those of above."""
    return [sys.executable, "-m", "sglang.launch_server", *words(server_arguments(spec, port, bootstrap_port))]


def words(arguments: Mapping[str, Value]) -> list[str]:
    """Arguments as words of a command line."""
    found = []
    for name, value in arguments.items():
        if value is True:
            found.append(f"--{name}")
        elif value is not False:
            found += [f"--{name}", *(map(str, value) if isinstance(value, tuple) else (str(value),))]
    return found


def child_environment(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a server that this run starts, whatever it is.

    Args:
        inherited: variables of the launching process; `os.environ` when None.
    """
    environment = dict(os.environ if inherited is None else inherited)
    for name in DROPPED_VARIABLES:
        environment.pop(name, None)
    environment["no_proxy"] = environment["NO_PROXY"] = "*"
    # Without this, `python -m` puts the current directory first on the path, where a folder named like one of
    # SGLang's packages would be taken for it.
    environment["PYTHONSAFEPATH"] = "1"
    environment["PYTHONUNBUFFERED"] = "1"
    # What the server needs lies in the model's folder. A name that it does not find is an error, never a download.
    environment["HF_HUB_OFFLINE"] = environment["TRANSFORMERS_OFFLINE"] = "1"
    return environment


def server_environment(spec: EngineSpec, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of an engine; see `child_environment`."""
    environment = child_environment(inherited)
    if spec.device == "cpu":
        environment |= cpu.environment()
    return environment | dict(spec.environment)
