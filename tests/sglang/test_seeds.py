"""Seeds of single requests on a CPU: the hash against its definition, and the real server's samples."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

import pytest
import torch

from slime.sglang import cpu

pytestmark = pytest.mark.runtime


def murmur3(data: bytes, seed: int = 0) -> int:
    """MurmurHash3 x86_32 as Appleby published it, byte by byte."""
    mask = 0xFFFFFFFF

    def rotl(value: int, bits: int) -> int:
        return (value << bits | value >> (32 - bits)) & mask

    state = seed
    assert len(data) % 4 == 0
    for at in range(0, len(data), 4):
        block = int.from_bytes(data[at : at + 4], "little")
        block = rotl(block * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
        state = (rotl(state ^ block, 13) * 5 + 0xE6546B64) & mask
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & mask
    state = (state ^ state >> 13) * 0xC2B2AE35 & mask
    return state ^ state >> 16


@pytest.fixture(scope="module")
def kernel() -> ModuleType:
    path = Path(cpu.STAND_INS) / "sgl_kernel" / "__init__.py"
    spec = importlib.util.spec_from_file_location("stand_in_sgl_kernel", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_gives_the_published_values() -> None:
    assert murmur3(b"") == 0
    assert murmur3(b"test") == 0xBA6BD213
    assert murmur3(b"", 1) == 0x514E28B7


def test_the_hash_is_that_of_seed_position_and_column(kernel: ModuleType) -> None:
    draw = random.Random(0)
    seeds = [0, 1, 2**63 - 1, *(draw.getrandbits(63) for _ in range(20))]
    positions = [draw.randrange(100_000) for _ in seeds]
    columns = [0, 1, 127, 151_935]
    found = torch.ops.sgl_kernel.murmur_hash32_cpu.default(
        torch.tensor(seeds).view(torch.uint64), torch.tensor(positions), torch.tensor(columns)
    )
    for row, (seed, position) in enumerate(zip(seeds, positions, strict=True)):
        for place, column in enumerate(columns):
            data = seed.to_bytes(8, "little") + position.to_bytes(4, "little") + column.to_bytes(4, "little")
            assert int(found[row, place]) == murmur3(data)
