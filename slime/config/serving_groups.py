"""Groups of serving engines: all alike, prefill and decode, or as ``--sglang-config`` describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from slime.config.config import Config
from slime.config.errors import ConfigError, Problem
from slime.config.yaml_lines import Path as KeyPath
from slime.config.yaml_lines import YamlError, load_yaml_with_lines, nearest_line

Kind = Literal["regular", "prefill", "decode", "encoder", "placeholder"]


@dataclass(frozen=True)
class ServingGroup:
    """Engines of one kind, one after the other on the serving GPUs.

    Attributes:
        model: name of the served model.
        kind: what the engines do; a placeholder keeps its GPUs free.
        gpus: of all engines of the group.
        gpus_per_engine: of one engine.
    """

    model: str
    kind: Kind
    gpus: int
    gpus_per_engine: int

    @property
    def engines(self) -> int:
        """How many engines the group starts."""
        return 0 if self.kind == "placeholder" else self.gpus // self.gpus_per_engine


def serving_groups(config: Config) -> tuple[ServingGroup, ...]:
    """The groups in the order of their GPUs; none when the run starts no engine itself.

    Raises:
        ConfigError: ``--sglang-config`` cannot be read, or does not add up; the message has the file and the line.
    """
    if config.sglang_config is not None:
        return tuple(_Reader(config, config.sglang_config).groups())
    if not config.num_engines:
        return ()
    each = config.rollout_num_gpus_per_engine
    prefill = config.prefill_num_servers
    if prefill is None:
        return (ServingGroup("default", "regular", config.num_engines * each, each),)
    if not 0 < prefill < config.num_engines:
        raise ConfigError(
            Problem(
                "cfg",
                f"--prefill-num-servers {prefill} of {config.num_engines} engines leaves no decode engine",
                f"give 1 to {max(config.num_engines - 1, 1)}",
                ("--prefill-num-servers",),
            )
        )
    decode = config.num_engines - prefill
    return (
        ServingGroup("default", "prefill", prefill * each, each),
        ServingGroup("default", "decode", decode * each, each),
    )


class _Reader:
    """Reads the file of ``--sglang-config``; the keys are those of slime."""

    def __init__(self, config: Config, path: str) -> None:
        self.config = config
        self.path = path
        self.lines: Mapping[KeyPath, int] = {}

    def groups(self) -> Iterator[ServingGroup]:
        """Yield the groups of every model, in the order of the file. Raises ConfigError."""
        models = self._load()
        total = 0
        for index, model in enumerate(models):
            place: KeyPath = ("sglang", index)
            name = self._text(model, place, "name")
            key = next((one for one in ("server_groups", "engine_groups") if one in model), None)
            if key is None or not isinstance(model[key], list):
                raise self._wrong(place, f"the model {name} has no list server_groups")
            kinds = set()
            for number, entry in enumerate(model[key]):
                group = self._group(name, model, entry, (*place, key, number))
                kinds.add(group.kind)
                total += group.gpus
                yield group
            if "regular" in kinds and kinds & {"prefill", "decode"}:
                raise self._wrong(place, f"the model {name} mixes regular engines with prefill and decode engines")
        if total != self.config.rollout_num_gpus:
            raise self._wrong(
                ("sglang",), f"the groups have {total} GPUs, --rollout-num-gpus says {self.config.rollout_num_gpus}"
            )

    def _load(self) -> list[Mapping[str, Any]]:
        try:
            data, lines = load_yaml_with_lines(Path(self.path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            if isinstance(error, YamlError):
                raise ConfigError(f"{self.path}:{error.line + 1}: {error.message}") from None
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise ConfigError(f"--sglang-config {self.path} cannot be read: {reason}") from None
        self.lines = lines
        models = data.get("sglang") if isinstance(data, dict) else None
        if not isinstance(models, list) or not models or not all(isinstance(one, dict) for one in models):
            raise self._wrong((), "a key sglang with a list of models is expected")
        return models

    def _group(self, model: str, settings: Mapping[str, Any], entry: Any, place: KeyPath) -> ServingGroup:
        if not isinstance(entry, dict):
            raise self._wrong(place, "a group is a mapping with worker_type and num_gpus")
        kind = self._text(entry, place, "worker_type")
        if kind not in get_args(Kind):
            raise self._wrong((*place, "worker_type"), f"worker_type {kind}: not one of {', '.join(get_args(Kind))}")
        gpus = self._number(entry, place, "num_gpus", None)
        usual = settings.get("num_gpus_per_engine", self.config.rollout_num_gpus_per_engine)
        each = self._number(entry, place, "num_gpus_per_engine", usual)
        if gpus % each:
            raise self._wrong(place, f"num_gpus {gpus} does not divide into engines of {each}")
        return ServingGroup(model, kind, gpus, each)  # type: ignore[arg-type]  # compared with the kinds above

    def _text(self, entry: Mapping[str, Any], place: KeyPath, key: str) -> str:
        value = entry.get(key)
        if not isinstance(value, str) or not value:
            raise self._wrong((*place, key), f"{key} is text, not {value!r}")
        return value

    def _number(self, entry: Mapping[str, Any], place: KeyPath, key: str, usual: Any) -> int:
        value = entry.get(key, usual)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._wrong((*place, key), f"{key} is a number of GPUs, not {value!r}")
        return value

    def _wrong(self, place: KeyPath, message: str) -> ConfigError:
        line = nearest_line(dict(self.lines), place) + 1
        return ConfigError(Problem("cfg", f"{self.path}:{line}: {message}", flags=("--sglang-config",)))
