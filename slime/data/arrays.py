"""NumPy arrays as JSON values, so that a saved state holds them without a pickle."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np
import numpy.typing as npt

# Numbers alone: a dtype read from a file must never be able to name objects.
KINDS = "iuf"


def to_json_array(values: npt.NDArray[Any]) -> dict[str, Any]:
    """``{"dtype", "shape", "base64"}`` with little-endian bytes in C order.

    Raises:
        ValueError: the array holds no numbers.
    """
    if values.dtype.kind not in KINDS:
        raise ValueError(f"an array of {values.dtype} cannot be saved; integers and floats can")
    little = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("<"))
    return {
        "dtype": little.dtype.str,
        "shape": list(values.shape),
        "base64": base64.b64encode(little.tobytes()).decode("ascii"),
    }


def from_json_array(saved: Any) -> npt.NDArray[Any]:
    """Inverse of `to_json_array`. Raises ValueError for anything else."""
    if not isinstance(saved, dict) or saved.keys() != {"dtype", "shape", "base64"}:
        raise ValueError("an array is saved as an object of dtype, shape and base64")
    try:
        kind = np.dtype(saved["dtype"])
        data = base64.b64decode(saved["base64"], validate=True)
    except (TypeError, binascii.Error) as error:
        raise ValueError(f"a saved array cannot be read: {error}") from error
    shape = saved["shape"]
    if kind.kind not in KINDS or not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"a saved array has dtype {saved['dtype']!r} and shape {shape!r}; it holds numbers")
    if len(data) != kind.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise ValueError(f"a saved array of {kind} and shape {shape} has {len(data)} bytes")
    return np.frombuffer(data, dtype=kind).reshape(shape).astype(kind.newbyteorder("="))
