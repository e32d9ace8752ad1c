"""Names of `torchvision.transforms` that SGLang imports; none can run."""

from __future__ import annotations

from enum import Enum
from typing import Any


class InterpolationMode(Enum):
    """torchvision's interpolation modes; SGLang's image processors name them in signatures."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


# After InterpolationMode, which it uses, and before `__getattr__`, which would answer for it.
from . import functional  # noqa: E402

__all__ = ["InterpolationMode", "functional"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)

    class Absent:
        def __init__(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError(f"torchvision.transforms.{name} is not available: this environment serves text models")

    Absent.__name__ = name
    return Absent
