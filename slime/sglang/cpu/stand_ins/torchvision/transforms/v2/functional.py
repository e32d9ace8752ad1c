"""Names of `torchvision.transforms.v2.functional` that SGLang imports; none can run."""

from __future__ import annotations

from typing import Any

from torchvision import refuse
from torchvision.transforms import InterpolationMode

__all__ = ["InterpolationMode"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return refuse(name)
