"""Stand-in for `triton`, the GPU kernel compiler: kernels can be declared, never launched.

SGLang declares its triton kernels at import time: decorators, annotations such as `tl.constexpr`, and helper
functions. Here a decorated kernel keeps its function and refuses to run; every submodule (`triton.language` and the
rest) exists and gives inert names.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

__version__ = "3.9.0"


class JITFunction:
    """A declared kernel. Launching it is an error."""

    def __init__(self, fn: Callable[..., Any] | None = None, **_: object) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "kernel")
        self.arg_names: list[str] = []
        self.params: list[object] = []

    def __getitem__(self, grid: object) -> JITFunction:
        return self

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(f"the triton kernel {self.__name__} cannot run: this CPU environment has a stand-in only")

    run = warmup = __call__


KernelInterface = Autotuner = JITFunction


def jit(fn: Callable[..., Any] | None = None, **_: object) -> Any:
    """Declare a kernel, as `@jit` or `@jit(...)`."""
    return JITFunction(fn) if callable(fn) else JITFunction


def autotune(*_: object, **__: object) -> Callable[[Any], Any]:
    """A decorator that leaves the kernel as it is: there is nothing to tune."""
    return lambda kernel: kernel


heuristics = autotune


class Config:
    """One candidate configuration of `autotune`; kept, never used."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.args, self.kwargs = args, kwargs


def cdiv(a: int, b: int) -> int:
    """Ceiling division."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least `n`; 0 for `n <= 0`, as triton has it."""
    return 1 << max(0, (n - 1).bit_length()) if n > 0 else 0


class _InertType(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert


class Inert(metaclass=_InertType):
    """Stands for any class, function, data type or decorator of a triton submodule."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __class_getitem__(cls, item: object) -> type[Inert]:
        return cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        used_as_decorator = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if used_as_decorator else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Inert()


class _NoDriver:
    @property
    def active(self) -> NoReturn:
        # triton's own words when it finds no GPU; torch and SGLang expect a RuntimeError here.
        raise RuntimeError("0 active drivers ([]). There should only be one.")


_NAMES: dict[str, Any] = {
    "JITFunction": JITFunction,
    "KernelInterface": JITFunction,
    "Autotuner": JITFunction,
    "jit": jit,
    "driver": _NoDriver(),
}


class _Submodule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _NAMES.get(name, Inert)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every `triton.x.y` as an inert module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.startswith("triton."):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = _Submodule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


sys.meta_path.insert(0, _Finder())


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return importlib.import_module(f"triton.{name}")
