"""From an import path to a function that fits its hook, or a message that says what does not."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from slime.rollout.errors import SetupError
from slime.rollout.hook import Hook

Function = Callable[..., Any]


class HookError(SetupError):
    """A hook cannot be loaded, or did not do what its signature says; the message names flag, path and signature."""


def refuse(hook: Hook, path: str, found: str, subject: str = "") -> HookError:
    """The error of a hook: what is wrong, about which sample or round, and the signature that it should have."""
    about = f" ({subject})" if subject else ""
    name = path.replace(":", ".").rpartition(".")[2] or "f"
    return HookError(f"{hook.flag} {path}{about}: {found}\n  expected: {hook.signature(name)}")


def load_hook(hook: Hook, path: str) -> Function:
    """Import the object at `path` and check that it can be called as `hook` is.

    Args:
        hook: the kind of hook.
        path: ``package.module.function`` or ``package.module:function``; after the colon dots are attributes.

    Raises:
        HookError: nothing is there, the module does not import, or the object is of the wrong kind or signature.
    """
    module_name, names = _split(hook, path)
    if str(Path.cwd()) not in sys.path:  # as for `python -m`: what lies in the working directory is found
        sys.path.insert(0, str(Path.cwd()))
    found: Any = _import(hook, path, module_name)
    for name in names:
        if not hasattr(found, name):
            public = [one for one in vars(found) if not one.startswith("_")] if hasattr(found, "__dict__") else []
            near = difflib.get_close_matches(name, public, n=1)
            hint = f"; the nearest is {near[0]!r}" if near else ""
            raise refuse(hook, path, f"{module_name} has no {name!r}{hint}.")
        found = getattr(found, name)
    _check_kind(hook, path, found)
    _check_parameters(hook, path, found)
    function: Function = found
    return function


def accepted(hook: Hook, function: Function) -> frozenset[str]:
    """Which of the hook's optional arguments `function` takes by name."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in parameters):
        return frozenset(hook.optional)
    named = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return frozenset(named & set(hook.optional))


def is_async(function: Function) -> bool:
    """Whether calling `function` gives a coroutine, as far as can be told without calling it."""
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(inspect.unwrap(function)) or inspect.iscoroutinefunction(called)


def _split(hook: Hook, path: str) -> tuple[str, list[str]]:
    module_name, _, name = path.partition(":") if ":" in path else path.rpartition(".")
    names = name.split(".")
    if not module_name or not all(part.isidentifier() for part in [*module_name.split("."), *names]):
        raise refuse(
            hook, path, "this is no import path; write package.module.function or package.module:function, not a file."
        )
    return module_name, names


def _import(hook: Hook, path: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(missing + "."):
            raise refuse(hook, path, _absent(module_name, missing)) from error
        raise refuse(hook, path, f"{module_name} imports {missing!r}, which is not installed.") from error
    except SyntaxError as error:
        raise refuse(hook, path, f"{error.filename}:{error.lineno} is not Python: {error.msg}.") from error
    except (Exception, SystemExit) as error:  # whatever a user's module does while it is imported
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise refuse(
            hook, path, f"importing {module_name} raised {error!r} at {place.filename}:{place.lineno}."
        ) from error


def _absent(module_name: str, missing: str) -> str:
    parent, _, last = missing.rpartition(".")
    spec = importlib.util.find_spec(parent) if parent else None
    places = list(spec.submodule_search_locations or []) if spec is not None else None
    near = difflib.get_close_matches(last, [one.name for one in pkgutil.iter_modules(places)], n=1)
    nearest = f" The nearest is {parent + '.' if parent else ''}{near[0]}." if near else ""
    return f"there is no module {missing!r}.{nearest} Its folder must be the working directory or on PYTHONPATH."


def _check_kind(hook: Hook, path: str, found: Any) -> None:
    if not callable(found):
        raise refuse(hook, path, f"this is {_kind(found)}, which cannot be called.")
    if hook.form == "class":
        if not inspect.isclass(found):
            raise refuse(hook, path, f"this is {_kind(found)}; a class is needed.")
        return
    if inspect.isclass(found):
        raise refuse(hook, path, "this is a class; a function is needed.")
    if inspect.isasyncgenfunction(found) or inspect.isgeneratorfunction(found):
        raise refuse(hook, path, "this is a generator; it must return its result, not yield it.")
    if hook.form == "async" and not is_async(found):
        raise refuse(hook, path, "this is a plain function; it must be `async def`, since it is awaited.")
    if hook.form == "sync" and is_async(found):
        raise refuse(hook, path, "this is `async def`; it must be a plain function, since its result is used at once.")


def _check_parameters(hook: Hook, path: str, found: Function) -> None:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return  # a builtin that does not say
    try:
        signature.bind(*[None] * len(hook.parameters), **dict.fromkeys(accepted(hook, found)))
    except TypeError as error:
        called = ", ".join(hook.parameters) or "keywords alone"
        raise refuse(hook, path, f"it takes {signature} and is called with ({called}): {error}.") from error


def _kind(found: Any) -> str:
    kind = type(found).__name__
    return f"a {kind}" if kind[0] not in "aeiou" else f"an {kind}"
