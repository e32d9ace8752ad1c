"""Stand-in for `torchvision`: SGLang imports its image transforms at start-up, also for text models.

PyPI's torchvision is built against one exact torch with CUDA and does not load beside a CPU build of torch.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NoReturn

__version__ = "0.29.1"


def refuse(name: str) -> Any:
    """A function that stands for `torchvision`'s `name` and refuses to run."""

    def absent(*args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(f"torchvision's {name} is not available: this CPU environment serves text models only")

    absent.__name__ = name
    return absent


# After `refuse`, which it uses, and before `__getattr__`, which would answer for it.
from . import transforms  # noqa: E402

__all__ = ["refuse", "transforms"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return SimpleNamespace()
