"""Held-out sets and how each is answered: from ``--eval-prompt-data``, or the richer file of ``--eval-config``.

The file is YAML or JSON::

    eval:
      defaults: {n_samples_per_eval_prompt: 4, temperature: 0.6}
      datasets:
        - {name: aime, path: data/aime.jsonl, rm_type: math, max_response_len: 8192}
        - {name: gpqa, path: data/gpqa.jsonl, rm_type: gpqa}

A value is that of the data set, else that of `defaults`, else that of the flags.
"""

from __future__ import annotations

import difflib
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from slime.config import Config
from slime.data.prompts import PromptDataset
from slime.rollout.errors import SetupError

TOP_LEVEL = ("defaults", "datasets")


@dataclass(frozen=True)
class EvalSet:
    """One held-out set, with every value settled. Names are those of the file and of the flags ``--eval-...``.

    Attributes:
        name: its metrics are ``eval/<name>``.
        path: prompt file.
        n_samples_per_eval_prompt: responses to each prompt.
        temperature, top_p, top_k, max_response_len, min_new_tokens, repetition_penalty, stop, stop_token_ids: sampling.
        max_prompt_len, max_context_len: limits in tokens; None = none.
        skip_special_tokens: of the response's text.
        input_key, label_key, metadata_key, tool_key: columns.
        apply_chat_template, apply_chat_template_kwargs: how prompts are rendered.
        rm_type, custom_rm_path, reward_key: how responses are graded.
        custom_generate_function_path: how they are generated.
        metadata_overrides: entries put into the metadata of every sample.
    """

    name: str
    path: str
    n_samples_per_eval_prompt: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_response_len: int = 1
    max_prompt_len: int | None = None
    max_context_len: int | None = None
    min_new_tokens: int = 0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    skip_special_tokens: bool = False
    input_key: str = "input"
    label_key: str | None = None
    metadata_key: str = "metadata"
    tool_key: str = "tools"
    apply_chat_template: bool = False
    apply_chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    rm_type: str | None = None
    custom_rm_path: str | None = None
    reward_key: str | None = None
    custom_generate_function_path: str | None = None
    metadata_overrides: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A held-out set with its prompts.

    Attributes:
        options: how it is answered and graded.
        dataset: its prompts.
        stop_token_ids: what ends a response, the model's own end tokens included.
    """

    options: EvalSet
    dataset: PromptDataset
    stop_token_ids: tuple[int, ...] = ()


def eval_sets(config: Config) -> list[EvalSet]:
    """The held-out sets of a run, in their order.

    Raises:
        SetupError: the file cannot be read, or has an unknown key, a wrong type, a value out of range or a name twice.
    """
    base = _from_flags(config)
    if config.eval_config is None:
        return [EvalSet(name=one.name, path=one.path, **base) for one in config.eval_datasets]
    defaults, datasets = _read(config.eval_config)
    place = f"--eval-config {config.eval_config}"
    found = []
    for number, given in enumerate(datasets, start=1):
        where = f"{place}: data set {number}"
        if not isinstance(given, dict) or not {"name", "path"} <= given.keys():
            raise SetupError(f"{where}: it needs name and path, it has {_keys(given)}.")
        layers = (_checked(defaults, f"{place}: defaults"), _checked(given, f"{where} ({given['name']})"))
        found.append(EvalSet(**_layered(base, *layers)))
    names = [one.name for one in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SetupError(f"{place}: two data sets are called {twice!r}; their metrics would be mixed.")
    return found


def _from_flags(config: Config) -> dict[str, Any]:
    return {
        "n_samples_per_eval_prompt": config.n_samples_per_eval_prompt,
        "temperature": config.eval_temperature,
        "top_p": config.eval_top_p,
        "top_k": config.eval_top_k,
        "max_response_len": config.eval_max_response_len,
        "max_prompt_len": config.eval_max_prompt_len,
        "max_context_len": config.eval_max_context_len,
        "min_new_tokens": config.eval_min_new_tokens or 0,
        "stop": config.rollout_stop or (),
        "skip_special_tokens": config.rollout_skip_special_tokens,
        "input_key": config.eval_input_key,
        "label_key": config.eval_label_key,
        "metadata_key": config.metadata_key,
        "tool_key": config.eval_tool_key or config.tool_key,
        "apply_chat_template": config.apply_chat_template,
        "apply_chat_template_kwargs": dict(config.apply_chat_template_kwargs or {}),
        "rm_type": config.rm_type,
        "custom_rm_path": config.custom_rm_path,
        "reward_key": config.eval_reward_key or config.reward_key,
        "custom_generate_function_path": config.custom_generate_function_path,
    }


def _read(path: str) -> tuple[dict[str, Any], list[Any]]:
    try:
        data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(f"--eval-config {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SetupError(f"--eval-config {path} is no YAML: {error}") from error
    body = data.get("eval") if isinstance(data, dict) else None
    if not isinstance(body, dict):
        raise SetupError(f"--eval-config {path}: it needs the key 'eval' with 'datasets' in it, it has {_keys(data)}.")
    if unknown := next((key for key in body if key not in TOP_LEVEL), None):
        raise SetupError(f"--eval-config {path}: eval has no key {unknown!r}; it takes {' and '.join(TOP_LEVEL)}.")
    defaults, datasets = body.get("defaults") or {}, body.get("datasets")
    if not isinstance(defaults, dict) or not isinstance(datasets, list) or not datasets:
        raise SetupError(
            f"--eval-config {path}: eval needs 'datasets', a list of at least one, and 'defaults' a mapping."
        )
    return defaults, datasets


def _layered(*layers: dict[str, Any]) -> dict[str, Any]:
    """Later layers win. One that names a built-in grader means it: a function of an earlier layer then yields."""
    values: dict[str, Any] = {}
    for layer in layers:
        if layer.get("rm_type") is not None and "custom_rm_path" not in layer and values:
            values["custom_rm_path"] = values["reward_key"] = None
        values |= layer
    return values


def _checked(given: dict[str, Any], where: str) -> dict[str, Any]:
    """The values of one mapping, in the types of `EvalSet`."""
    hints = typing.get_type_hints(EvalSet)
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"the nearest is {near[0]!r}" if near else f"known: {', '.join(hints)}"
            raise SetupError(f"{where}: there is no key {key!r}; {hint}.")
        values[key] = _typed(value, hints[key], f"{where}: {key}")
    for key, (least, greatest) in LIMITS.items():
        value = values.get(key)
        if value is not None and not least <= value <= greatest:
            raise SetupError(f"{where}: {key} is {value}; it lies between {least} and {greatest}.")
    return values


LIMITS: dict[str, tuple[float, float]] = {
    "n_samples_per_eval_prompt": (1, 65_536),
    "temperature": (0, 100),
    "top_p": (1e-6, 1),
    "top_k": (-1, 2**31),
    "max_response_len": (1, 2**31),
    "max_prompt_len": (1, 2**31),
    "max_context_len": (2, 2**31),
    "min_new_tokens": (0, 2**31),
    "repetition_penalty": (1e-6, 2),
}
"""Inclusive limits of numbers; those of the flags, and SGLang's."""


def _typed(value: Any, hint: Any, where: str) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    kind = next(one for one in options if one is not type(None))
    origin = typing.get_origin(kind)
    if origin is tuple:
        items = value if isinstance(value, list) else [value]
        return tuple(_typed(item, typing.get_args(kind)[0], where) for item in items)
    plain = origin or kind
    if plain is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, plain) or (isinstance(value, bool) and plain is not bool):
        raise SetupError(f"{where} is {value!r}, a {type(value).__name__}; it must be a {plain.__name__}.")
    return value


def _keys(value: Any) -> str:
    return f"the keys {', '.join(map(str, value))}" if isinstance(value, dict) and value else repr(value)
