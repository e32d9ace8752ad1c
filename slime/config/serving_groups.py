"""Groups of serving engines: all alike, prefill and decode, or as ``--sglang-config`` describes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from slime.config.config import Config
from slime.config.errors import ConfigError, Problem

Kind = Literal["regular", "prefill", "decode", "encoder", "placeholder"]

DEFAULT_MODEL = "default"
"""Name of the served model when nothing gives it another."""


@dataclass(frozen=True)
class ServingGroup:
    """Engines of one kind, one after the other on the serving GPUs.

    Attributes:
        model: name of the served model.
        kind: what the engines do; a placeholder keeps its GPUs free.
        gpus: of all engines of the group.
        gpus_per_engine: of one engine.
        model_path: folder that the engines serve; None = ``--hf-checkpoint``.
        update_weights: whether the engines take the trainer's weights.
        overrides: server arguments of this group alone, by their names without dashes.
    """

    model: str
    kind: Kind
    gpus: int
    gpus_per_engine: int
    model_path: str | None = None
    update_weights: bool = True
    overrides: Mapping[str, Any] = field(default_factory=dict)

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
        from slime.config.serving_file import read_groups  # it needs the class above

        return read_groups(config, config.sglang_config)
    if not config.num_engines:
        return ()
    each = config.rollout_num_gpus_per_engine
    prefill = config.prefill_num_servers
    if prefill is None:
        return (ServingGroup(DEFAULT_MODEL, "regular", config.num_engines * each, each),)
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
        ServingGroup(DEFAULT_MODEL, "prefill", prefill * each, each),
        ServingGroup(DEFAULT_MODEL, "decode", decode * each, each),
    )


def disaggregated(groups: Iterable[ServingGroup]) -> bool:
    """Whether prefill and decode run in engines of their own."""
    return any(group.kind in ("prefill", "decode") for group in groups)


def policy_model(groups: Iterable[ServingGroup]) -> str:
    """Name of the model that takes the trainer's weights and generates the samples."""
    return next((group.model for group in groups if group.update_weights and group.engines), DEFAULT_MODEL)


def generating_engines(config: Config) -> int:
    """Engines that generate samples: those of the trained model, or the external ones.

    With prefill and decode apart, a request occupies one of each, and the decode engines count.

    Raises:
        ConfigError: see `serving_groups`.
    """
    if config.rollout_external_engine_addrs:
        return len(config.rollout_external_engine_addrs)
    groups = serving_groups(config)
    own = [group for group in groups if group.model == policy_model(groups) and group.kind in ("regular", "decode")]
    return sum(group.engines for group in own)
