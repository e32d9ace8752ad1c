"""Facts about one machine: environment, network, memory, limits, GPUs. Looks, changes nothing."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import resource
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
LOOPBACK = "127.0.0.1"
UNLIMITED = resource.RLIM_INFINITY
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_INFINIBAND = Path("/sys/class/infiniband")
_GPUS = Path("/proc/driver/nvidia/gpus")
# What a run stands on, by the names that pip knows.
LIBRARIES = ("torch", "ray", "megatron-core", "sglang", "transformers", "math-verify")
# The file systems that several machines can see. What is not named here is taken for a disk of this machine.
SHARED_FILE_SYSTEMS = (
    "nfs", "nfs4", "lustre", "gpfs", "ceph", "cifs", "beegfs", "9p", "afs", "glusterfs", "virtiofs", "fuse",
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """What `look` found on one machine. Sizes are bytes; None means that it cannot be told.

    Attributes:
        name: host name.
        addresses: what the host name resolves to.
        environment: environment variables.
        interfaces: network interfaces.
        memory: what programs may use, the limit of the container included.
        shared_memory: free in /dev/shm; None without one.
        open_files: most files that one process may have open.
        locked_memory: most memory that may be pinned; -1 = unlimited.
        gpus: numbers of the GPUs that may be used; None without NVIDIA's driver.
        rdma: state of each port of each RDMA device, e.g. ``{"mlx5_0": ("ACTIVE",)}``.
        mounts: (folder, kind of file system) of each mount, e.g. ``("/data", "nfs4")``.
        libraries: installed version of each library that a run stands on; None = not installed.
    """

    name: str = "localhost"
    addresses: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    interfaces: tuple[str, ...] = ("lo",)
    memory: int | None = None
    shared_memory: int | None = None
    open_files: int = UNLIMITED
    locked_memory: int = UNLIMITED
    gpus: tuple[int, ...] | None = None
    rdma: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    mounts: tuple[tuple[str, str], ...] = ()
    libraries: Mapping[str, str | None] = field(default_factory=dict)

    def file_system(self, path: Path) -> str | None:
        """The kind of the file system that holds a path; None when it cannot be told."""
        target = path.absolute()
        holding = [(len(Path(point).parts), kind) for point, kind in self.mounts if target.is_relative_to(point)]
        # A later mount on the same folder hides an earlier one.
        return max(enumerate(holding), key=lambda one: (one[1][0], one[0]))[1][1] if holding else None


def look() -> Machine:
    """Look at this machine."""
    name = socket.gethostname()
    return Machine(
        name=name,
        addresses=_addresses(name),
        environment=dict(os.environ),
        interfaces=tuple(sorted(interface for _, interface in socket.if_nameindex())),
        memory=_memory(),
        shared_memory=shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None,
        open_files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        locked_memory=resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
        gpus=_gpus(os.environ),
        rdma=_rdma(),
        mounts=_mounts(),
        libraries={name: _version(name) for name in LIBRARIES},
    )


def _addresses(name: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(name, None, proto=socket.IPPROTO_TCP)
    except OSError:
        return ()
    return tuple(sorted({str(one[4][0]) for one in found}))


def _memory() -> int | None:
    """The smaller of the machine's memory and the limit of its container."""
    sizes = []
    with contextlib.suppress(ValueError, OSError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            sizes.append(int(text))
    return min(sizes, default=None)


def _gpus(environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """GPUs of the driver, of which CUDA_VISIBLE_DEVICES leaves some."""
    if not _GPUS.is_dir():
        return None
    count = len(list(_GPUS.iterdir()))
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return tuple(range(count))
    names = [one.strip() for one in visible.split(",") if one.strip()]
    return tuple(range(len(names))) if not all(one.isdigit() for one in names) else tuple(int(one) for one in names)


def _rdma() -> dict[str, tuple[str, ...]]:
    if not _INFINIBAND.is_dir():
        return {}
    states: dict[str, tuple[str, ...]] = {}
    for device in sorted(_INFINIBAND.iterdir()):
        ports = sorted((device / "ports").glob("*/state"))
        # The file reads "4: ACTIVE".
        states[device.name] = tuple(_text(port).rpartition(":")[2].strip() for port in ports)
    return states


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return "UNREADABLE"


def _mounts() -> tuple[tuple[str, str], ...]:
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    parts = [line.split(" ") for line in lines]
    # Blanks in a folder's name are written as octal numbers.
    return tuple((one[1].encode().decode("unicode_escape"), one[2]) for one in parts if len(one) > 2)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_shared(kind: str | None) -> bool:
    """Whether several machines can see a file system of this kind."""
    return kind is not None and kind.split(".")[0] in SHARED_FILE_SYSTEMS
