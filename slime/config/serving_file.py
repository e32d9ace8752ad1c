"""The file of ``--sglang-config``: groups of servers, read strictly, every mistake with its line.

The keys are those of slime: a list ``sglang`` of models, each with ``server_groups``; an override is a field of
SGLang's ``ServerArgs``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from slime.config.config import REGISTRY, Config
from slime.config.errors import ConfigError, Problem
from slime.config.flags import Flag
from slime.config.refused import REFUSED
from slime.config.serving_groups import Kind, ServingGroup
from slime.config.sglang_table import server_arguments
from slime.config.underneath import SGLANG_PREFIX
from slime.config.values import ValueProblem, from_data
from slime.config.yaml_lines import Path as KeyPath
from slime.config.yaml_lines import YamlError, load_yaml_with_lines, nearest_line

ROOT_KEYS = ("sglang",)
GROUP_KEYS = ("worker_type", "num_gpus", "num_gpus_per_engine", "overrides")
LIST_KEYS = ("server_groups", "engine_groups")
MODEL_KEYS = ("name", "model_path", "num_gpus_per_engine", "update_weights", *LIST_KEYS)


def read_groups(config: Config, path: str) -> tuple[ServingGroup, ...]:
    """The groups of every model, in the order of the file.

    Raises:
        ConfigError: the file cannot be read, a key is unknown, a value has the wrong type, or the groups do not add up;
            the message has the file and the line.
    """
    reader = _Reader(config, path)
    models = [reader.model(model, ("sglang", index)) for index, model in enumerate(reader.models())]
    reader.check_models(models)
    groups = [group for model in models for group in model]
    total = sum(group.gpus for group in groups)
    if total != config.rollout_num_gpus:
        raise reader.wrong(
            ("sglang",), f"the groups have {total} GPUs, --rollout-num-gpus says {config.rollout_num_gpus}"
        )
    return tuple(groups)


class _Reader:
    def __init__(self, config: Config, path: str) -> None:
        self.config = config
        self.path = path
        self.lines: Mapping[KeyPath, int] = {}

    def models(self) -> Sequence[Mapping[str, Any]]:
        """The entries of the list ``sglang``. Raises ConfigError."""
        try:
            data, lines = load_yaml_with_lines(Path(self.path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if isinstance(error, YamlError):
                raise ConfigError(f"{self.path}:{error.line + 1}: {error.message}") from None
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(f"--sglang-config {self.path} cannot be read: {reason}") from None
        self.lines = lines
        if isinstance(data, dict):
            self._known(data, (), ROOT_KEYS)
        models = data.get("sglang") if isinstance(data, dict) else None
        if not isinstance(models, list) or not models or not all(isinstance(one, dict) for one in models):
            raise self.wrong((), "a key sglang with a list of models is expected")
        return models

    def model(self, entry: Mapping[str, Any], place: KeyPath) -> list[ServingGroup]:
        """The groups of one model. Raises ConfigError."""
        self._known(entry, place, MODEL_KEYS)
        name = self._text(entry, place, "name")
        keys = [key for key in LIST_KEYS if key in entry]
        if len(keys) != 1 or not isinstance(entry[keys[0]], list) or not entry[keys[0]]:
            raise self.wrong(place, f"the model {name} has no list server_groups")
        folder = self._folder(entry, place)
        update = entry.get("update_weights", folder is None)
        if not isinstance(update, bool):
            raise self.wrong((*place, "update_weights"), f"update_weights is true or false, not {update!r}")
        groups = [
            self._group(name, folder, update, entry, one, (*place, keys[0], number))
            for number, one in enumerate(entry[keys[0]])
        ]
        self._check_kinds(name, {group.kind for group in groups}, place)
        return groups

    def check_models(self, models: Sequence[Sequence[ServingGroup]]) -> None:
        """Names differ, and exactly one model takes the trainer's weights. Raises ConfigError."""
        names = [model[0].model for model in models]
        for index, name in enumerate(names):
            if name in names[:index]:
                raise self.wrong(("sglang", index, "name"), f"two models have the name {name}")
        trained = [index for index, model in enumerate(models) if model[0].update_weights and _engines(model)]
        if not trained:
            raise self.wrong(("sglang",), "no model takes the trainer's weights, so nothing would sample from it")
        if len(trained) > 1:
            first, second = (names[index] for index in trained[:2])
            raise self.wrong(
                ("sglang", trained[1]),
                f"{first} and {second} both take the trainer's weights, and one model is trained; "
                f"give {second} update_weights: false",
            )

    def _check_kinds(self, name: str, kinds: set[Kind], place: KeyPath) -> None:
        if "regular" in kinds and kinds & {"prefill", "decode"}:
            raise self.wrong(place, f"the model {name} mixes regular engines with prefill and decode engines")
        if len(kinds & {"prefill", "decode"}) == 1:
            (have,) = kinds & {"prefill", "decode"}
            lack = "decode" if have == "prefill" else "prefill"
            raise self.wrong(place, f"the model {name} has {have} engines and no {lack} engine to work with them")

    def _group(
        self, name: str, folder: str | None, update: bool, model: Mapping[str, Any], entry: Any, place: KeyPath
    ) -> ServingGroup:
        if not isinstance(entry, dict):
            raise self.wrong(place, "a group is a mapping with worker_type and num_gpus")
        self._known(entry, place, GROUP_KEYS)
        kind = self._text(entry, place, "worker_type")
        if kind not in get_args(Kind):
            raise self.wrong((*place, "worker_type"), f"worker_type {kind}: not one of {', '.join(get_args(Kind))}")
        gpus = self._number(entry, place, "num_gpus", None)
        usual = self._number(model, place[:2], "num_gpus_per_engine", self.config.rollout_num_gpus_per_engine)
        each = self._number(entry, place, "num_gpus_per_engine", usual)
        if gpus % each:
            raise self.wrong(place, f"num_gpus {gpus} does not divide into engines of {each}")
        overrides = self._overrides(entry.get("overrides"), (*place, "overrides"))
        return ServingGroup(name, kind, gpus, each, folder, update, overrides)  # type: ignore[arg-type]  # compared above

    def _overrides(self, given: Any, place: KeyPath) -> dict[str, Any]:
        if given is None:
            return {}
        if not isinstance(given, dict):
            raise self.wrong(place, f"overrides is a mapping of ServerArgs fields, not {given!r}")
        return dict(self._override(key, value, (*place, key)) for key, value in given.items())

    def _override(self, key: str, value: Any, place: KeyPath) -> tuple[str, Any]:
        fields = {one.field: one.name for one in server_arguments().values()}
        if key not in fields:
            raise self.wrong(place, f"SGLang has no server argument {key}{_nearest(key, fields)}")
        flag = SGLANG_PREFIX + fields[key]
        if flag in REFUSED:
            raise self.wrong(place, f"{key} is set by the runtime: {REFUSED[flag]}")
        one: Flag = REGISTRY[flag]
        try:
            return fields[key], from_data(one, value)
        except ValueProblem as error:
            raise self.wrong(place, str(error).replace(flag, key)) from None

    def _folder(self, entry: Mapping[str, Any], place: KeyPath) -> str | None:
        """The model's folder, or None for that of ``--hf-checkpoint``."""
        if entry.get("model_path") is None:
            return None
        folder = Path(self._text(entry, place, "model_path"))
        if folder.resolve() == Path(self.config.hf_checkpoint).resolve():
            return None
        if not (folder / "config.json").is_file():
            raise self.wrong((*place, "model_path"), f"model_path {folder}: there is no {folder / 'config.json'}")
        return str(folder.absolute())

    def _known(self, entry: Mapping[str, Any], place: KeyPath, keys: Sequence[str]) -> None:
        for key in entry:
            if key not in keys:
                raise self.wrong((*place, key), f"unknown key {key}{_nearest(key, keys)}")

    def _text(self, entry: Mapping[str, Any], place: KeyPath, key: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong((*place, key), f"{key} is text, not {value!r}")
        return value

    def _number(self, entry: Mapping[str, Any], place: KeyPath, key: str, usual: int | None) -> int:
        value = entry.get(key, usual)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong((*place, key), f"{key} is a number of GPUs, not {value!r}")
        return value

    def wrong(self, place: KeyPath, message: str) -> ConfigError:
        """An error with the line of `place`, or of the nearest thing around it."""
        line = nearest_line(dict(self.lines), place) + 1
        return ConfigError(Problem("cfg", f"{self.path}:{line}: {message}", flags=("--sglang-config",)))


def _engines(groups: Iterable[ServingGroup]) -> int:
    return sum(group.engines for group in groups)


def _nearest(key: str, known: Iterable[str]) -> str:
    known = list(known)
    close = difflib.get_close_matches(key, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(known)}" if len(known) < 12 else ""
