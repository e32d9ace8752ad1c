"""Ports, proxies, interfaces, RDMA, and servers that run already."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterator, Mapping

from slime.config.preflight.inputs import Inputs
from slime.config.preflight.machine import LOOPBACK, UNLIMITED
from slime.config.rule import Finding
from slime.config.validate.algorithm import ratio_flag

_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_INTERFACES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
_RAW_LOGPROB = "SGLANG_RETURN_ORIGINAL_LOGPROB"
_CONNECT_SECONDS = 3.0


def check_ports(inputs: Inputs) -> Iterator[Finding]:
    """The engines' ports are free when they were chosen by hand, and the loopback address works."""
    config = inputs.config
    ports = [] if config.sglang_port is None else range(config.sglang_port, config.sglang_port + config.num_engines)
    for port in (0, *ports):
        if port > 65535:
            yield Finding(
                f"--sglang-port {config.sglang_port} leaves no room for {config.num_engines} engines below 65536",
                f"give at most {65536 - config.num_engines}",
                ("--sglang-port",),
            )
            return
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free
            try:
                probe.bind((LOOPBACK, port))
            except OSError as error:
                what = f"port {port}" if port else "any port"
                hint = (
                    "stop what listens there, or give another --sglang-port" if port else "bring up the loopback device"
                )
                yield Finding(f"cannot bind {what} on {LOOPBACK}: {error.strerror}", hint, ("--sglang-port",))


def check_proxies(inputs: Inputs) -> Iterator[Finding]:
    """A proxy is not asked for the addresses of this run."""
    environment = inputs.machine.environment
    proxies = [name for name in environment if name.lower() in _PROXIES and environment[name]]
    if not proxies:
        return
    excluded = _excluded(environment)
    own = [LOOPBACK, "localhost", *(inputs.machine.addresses if inputs.config.actor_num_nodes > 1 else ())]
    uncovered = [address for address in own if not _covers(excluded, address)]
    if uncovered:
        yield Finding(
            f"{', '.join(proxies)} is set, and no_proxy leaves out {', '.join(uncovered)}: requests between the parts "
            "of "
            "the run would go through the proxy, which cannot reach them",
            f"export no_proxy={','.join([*excluded, *uncovered])}",
        )


def _excluded(environment: Mapping[str, str]) -> list[str]:
    value = environment.get("no_proxy", environment.get("NO_PROXY", ""))
    return [one.strip() for one in value.split(",") if one.strip()]


def _covers(excluded: list[str], address: str) -> bool:
    for one in excluded:
        if one in ("*", address) or (one.startswith(".") and address.endswith(one)):
            return True
        try:
            if ipaddress.ip_address(address) in ipaddress.ip_network(one, strict=False):
                return True
        except ValueError:
            continue
    return False


def check_interfaces(inputs: Inputs) -> Iterator[Finding]:
    """A network interface that a variable names is there."""
    machine = inputs.machine
    given = {**machine.environment, **(inputs.config.train_env_vars or {})}
    for name in _INTERFACES:
        value = str(given.get(name, "")).strip()
        if not value:
            continue
        if value.startswith("^"):  # NCCL: every interface but these
            banned = value[1:].split(",")
            if all(any(one.startswith(prefix) for prefix in banned) for one in machine.interfaces):
                yield Finding(
                    f"{name}={value} excludes every interface of {machine.name}: {', '.join(machine.interfaces)}",
                    f"unset {name}",
                )
            continue
        exact = value.startswith("=") or name != "NCCL_SOCKET_IFNAME"
        for wanted in value.lstrip("=").split(","):
            if not any(one == wanted if exact else one.startswith(wanted) for one in machine.interfaces):
                yield Finding(
                    f"{name} names the interface {wanted}, and {machine.name} has {', '.join(machine.interfaces)}: "
                    "process groups would find no socket",
                    f"give one of them, or unset {name}",
                )


def check_rdma(inputs: Inputs) -> Iterator[Finding]:
    """Prefill and decode engines can hand their KV cache over."""
    config, machine = inputs.config, inputs.machine
    backend = config.sglang_disaggregation_transfer_backend or "mooncake"
    if config.prefill_num_servers is None or config.device != "cuda" or backend == "fake":
        return
    flags = ("--sglang-disaggregation-ib-device", "--prefill-num-servers")
    wanted = [one for one in (config.sglang_disaggregation_ib_device or "").split(",") if one]
    present = ", ".join(machine.rdma) or "none"
    if not wanted and not machine.rdma:
        yield Finding(
            f"prefill and decode engines hand their KV cache over by RDMA, and {machine.name} has no RDMA device",
            "run without --prefill-num-servers, or set MC_FORCE_TCP=1 to use TCP on purpose",
            flags,
            severity="warning" if machine.environment.get("MC_FORCE_TCP") == "1" else "error",
        )
    for device in wanted or machine.rdma:
        states = machine.rdma.get(device)
        if states is None:
            yield Finding(f"there is no RDMA device {device} on {machine.name}", f"name one of: {present}", flags)
        elif "ACTIVE" not in states and wanted:
            yield Finding(
                f"no port of the RDMA device {device} is active ({', '.join(states) or 'it has no port'}): requests "
                "would "
                "hang with idle GPUs",
                "bring the link up, or name another device",
                flags,
            )
    if machine.locked_memory != UNLIMITED:
        yield Finding(
            f"a process may pin {machine.locked_memory} bytes (ulimit -l), and RDMA pins the whole KV cache",
            "run with ulimit -l unlimited (docker run --ulimit memlock=-1)",
            flags,
        )
    yield from _check_own_name(inputs, flags)


def check_external_engines(inputs: Inputs) -> Iterator[Finding]:
    """Engines that run already can be reached, and can reach this machine."""
    config = inputs.config
    addresses = config.rollout_external_engine_addrs or ()
    far = False
    for address in addresses:
        host, port = split_address(address)
        if port is None:
            yield Finding(
                f"--rollout-external-engine-addrs {address!r} is no address",
                "write HOST:PORT",
                ("--rollout-external-engine-addrs",),
            )
            continue
        far = far or host not in (LOOPBACK, "localhost")
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except OSError as error:
            yield Finding(
                f"no engine answers at {address}: {error.strerror or error}",
                "start it, wait until it has loaded its weights, or correct the address",
                ("--rollout-external-engine-addrs",),
            )
    if far and config.update_weight_transport == "nccl":
        yield from _check_own_name(inputs, ("--rollout-external-engine-addrs",))


def _check_own_name(inputs: Inputs, flags: tuple[str, ...]) -> Iterator[Finding]:
    """Other machines are told this one's address, so its name must not mean the loopback device."""
    machine = inputs.machine
    far = [one for one in machine.addresses if not ipaddress.ip_address(one.partition("%")[0]).is_loopback]
    if machine.addresses and not far:
        yield Finding(
            f"the host name {machine.name} resolves to {', '.join(machine.addresses)} alone: other machines that are "
            "told "
            "to connect there would find themselves",
            f"give {machine.name} its network address in /etc/hosts",
            flags,
        )


def split_address(address: str) -> tuple[str, int | None]:
    """``http://host:30000`` -> ``("host", 30000)``; the port is None when there is none."""
    host, _, port = address.partition("://")[2].rpartition(":") if "://" in address else address.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 0 < int(port) < 65536
    return (host.strip("[]"), int(port)) if host and is_port else (address, None)


def check_shared_gpus(inputs: Inputs) -> Iterator[Finding]:
    """Engines that run already on this machine leave the trainer its GPUs."""
    config, machine = inputs.config, inputs.machine
    if config.device != "cuda" or machine.gpus is None:
        return
    own = {LOOPBACK, "localhost", machine.name, *machine.addresses}
    here = [one for one in config.rollout_external_engine_addrs or () if split_address(one)[0] in own]
    if here and config.actor_num_gpus_per_node >= len(machine.gpus):
        yield Finding(
            f"the engine at {here[0]} runs on {machine.name}, and the trainer takes all {len(machine.gpus)} GPUs of "
            "it: "
            "both would be on one GPU, which NCCL refuses as a duplicate",
            "leave the engine's GPUs out: CUDA_VISIBLE_DEVICES and --actor-num-gpus-per-node below "
            f"{len(machine.gpus)}",
            ("--actor-num-gpus-per-node", "--rollout-external-engine-addrs"),
        )


def check_raw_logprobs(inputs: Inputs) -> Iterator[Finding]:
    """The engine reports log-probabilities of the distribution that it samples from."""
    config = inputs.config
    ratio, value = ratio_flag(config), inputs.machine.environment.get(_RAW_LOGPROB, "")
    if ratio and config.rollout_temperature != 1 and value.lower() in ("1", "true"):
        yield Finding(
            f"{ratio} divides by the sampler's probability at --rollout-temperature {config.rollout_temperature}, and "
            f"{_RAW_LOGPROB}={value} makes the engine report the one before the temperature",
            f"unset {_RAW_LOGPROB}",
            ("--rollout-temperature", ratio),
        )
