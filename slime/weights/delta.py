"""The difference of two states of one tensor as bytes: how it is encoded, applied and proven.

``xor`` holds new XOR old for every byte, which is zero nearly everywhere after a step with a small learning rate;
``overwrite`` holds the number of changed bytes, their positions (both little-endian uint32) and their new values. Both
are compressed with Zstandard at level 1. A checksum of the tensor's new bytes proves that the difference was whole and
was applied to the state that it was made from.

NumPy alone, so that the process beside an engine need not load torch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import blake3
import numpy as np
import numpy.typing as npt
import xxhash
import zstandard

Encoding = Literal["xor", "overwrite"]
Checksum = Literal["xxh3-128", "blake3", "adler32"]
Bytes = npt.NDArray[np.uint8]

LEVEL = 1
# A frame of this many bytes and more is compressed by several threads.
_LARGE = 64 * 2**20
# Positions are uint32.
OVERWRITE_LIMIT = 2**32

CHECKSUMS: Mapping[str, Callable[[Bytes], str]] = {
    "xxh3-128": lambda data: xxhash.xxh3_128_hexdigest(data.data),
    "blake3": lambda data: blake3.blake3(data.data).hexdigest(),
    "adler32": lambda data: f"{zlib.adler32(data.data):08x}",
}


class DeltaError(RuntimeError):
    """A difference cannot be applied: it is damaged, or the state that it was made from is not there."""


class DeltaGapError(DeltaError):
    """The local state is not the one that a difference starts from; a full version mends that."""


@dataclass(frozen=True)
class VersionNote:
    """What a version's folder says of itself.

    Attributes:
        version: number of the weights that it brings.
        chain: name that one trainer gives to the sequence of its versions; numbers of other runs mean other weights.
        base: version that the difference starts from; None for a full version, which starts a chain afresh.
        checksums: of the new bytes of every changed tensor, by name.
    """

    version: int
    chain: str
    base: int | None = None
    encoding: Encoding = "xor"
    checksum: Checksum = "xxh3-128"
    checksums: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The content of the folder's note."""
        head = {"version": self.version, "chain": self.chain}
        if self.base is None:
            return head
        return head | {
            "base_version": self.base,
            "delta_encoding": self.encoding,
            "compression_format": "zstd",
            "checksum_format": self.checksum,
            "checksums": dict(self.checksums or {}),
        }

    @classmethod
    def from_json(cls, found: Any, where: str) -> VersionNote:
        """Read a note.

        Raises:
            DeltaError: it is not one, or of a kind that is not read here.
        """
        try:
            head = cls(int(found["version"]), str(found["chain"]))
            if "base_version" not in found:
                return head
            encoding, checksum = found["delta_encoding"], found["checksum_format"]
            if encoding not in ("xor", "overwrite") or checksum not in CHECKSUMS:
                raise DeltaError(
                    f"{where}: delta_encoding {encoding!r} with checksum_format {checksum!r}; read are xor and "
                    f"overwrite, with {', '.join(CHECKSUMS)}"
                )
            checksums = {str(name): str(value) for name, value in found["checksums"].items()}
            return cls(head.version, head.chain, int(found["base_version"]), encoding, checksum, checksums)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DeltaError(f"{where} does not describe a version of weights: {error!r}") from error


def encode(old: Bytes, new: Bytes, encoding: Encoding) -> Bytes | None:
    """The compressed difference of two states of a tensor's bytes; None when they are equal.

    Args:
        old, new: uint8 of one length.

    Raises:
        DeltaError: a tensor of 4 GiB and more, whose positions ``overwrite`` cannot hold.
    """
    changed = old ^ new
    if not changed.any():
        return None
    if encoding == "xor":
        return _compressed(changed)
    if new.size >= OVERWRITE_LIMIT:
        raise DeltaError(
            f"a tensor of {new.size} bytes: overwrite counts positions in 32 bits; give "
            "--update-weight-delta-encoding xor"
        )
    places = np.flatnonzero(changed).astype("<u4")
    count = np.array([places.size], "<u4")
    return _compressed(np.concatenate([count.view(np.uint8), places.view(np.uint8), new[places]]))


def apply(target: Bytes, difference: Bytes, encoding: Encoding) -> None:
    """Change `target`, uint8, in place into the new state.

    Raises:
        DeltaError: the difference is damaged or belongs to a tensor of another size.
    """
    try:
        content = np.frombuffer(zstandard.ZstdDecompressor().decompress(difference.data), np.uint8)
    except zstandard.ZstdError as error:
        raise DeltaError(f"the compressed difference is damaged: {error}") from error
    if encoding == "xor":
        if content.size != target.size:
            raise DeltaError(f"the difference is of {content.size} bytes, the tensor has {target.size}")
        np.bitwise_xor(target, content, out=target)
        return
    count = int(content[:4].view("<u4")[0]) if content.size >= 4 else -1
    if content.size != 4 + 5 * count:
        raise DeltaError(f"the difference lists {count} changed bytes in {content.size}")
    places = content[4 : 4 + 4 * count].view("<u4")
    if count and int(places.max()) >= target.size:
        raise DeltaError(f"the difference changes byte {int(places.max())} of a tensor of {target.size}")
    target[places] = content[4 + 4 * count :]


def _compressed(content: Bytes) -> Bytes:
    threads = -1 if content.size >= _LARGE else 0
    compressed = zstandard.ZstdCompressor(level=LEVEL, threads=threads).compress(content.data)
    return np.array(np.frombuffer(compressed, np.uint8))  # writable, as safetensors' writer wants it
