"""The processes of a conversion: what torchrun says of this one, and how they share a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from slime.weights.dimensions import HFModelConfig

if TYPE_CHECKING:
    from megatron.core.models.gpt import GPTModel

    from slime.megatron.parallel import ParallelSettings
    from slime.megatron.process import ProcessSpec

Device = Literal["cpu", "cuda"]
TIMEOUT_MINUTES = 12 * 60.0
"""How long a process that is done waits for one that still reads from a slow disk."""


class ConversionError(RuntimeError):
    """A conversion is refused; the message says why and what to do."""


@dataclass(frozen=True)
class Layout:
    """How processes share the model.

    Attributes:
        sizes: fields of `ParallelSettings` that were given; without any, the processes are the stages of a pipeline.
    """

    device: Device = "cpu"
    sizes: Mapping[str, int] = field(default_factory=dict)

    def process(self, config: HFModelConfig, environment: Mapping[str, str] = os.environ) -> ProcessSpec:
        """This process, from the variables that torchrun sets; alone without them.

        Raises:
            ConversionError: a variable is missing or no number, or the processes do not divide by the sizes.
        """
        from slime.megatron.process import ProcessSpec

        world = _number(environment, "WORLD_SIZE", "1")
        parallel = self.parallel(config, world)
        if world == 1:
            return ProcessSpec(device=self.device, parallel=parallel)
        return ProcessSpec(
            device=self.device,
            rank=_number(environment, "RANK"),
            world_size=world,
            master_addr=_text(environment, "MASTER_ADDR"),
            master_port=_number(environment, "MASTER_PORT"),
            local_rank=_number(environment, "LOCAL_RANK"),
            store_listens=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            timeout_minutes=TIMEOUT_MINUTES,
            parallel=parallel,
        )

    def parallel(self, config: HFModelConfig, world: int) -> ParallelSettings:
        """The parallel groups of `world` processes."""
        from slime.megatron.parallel import ParallelSettings

        if not self.sizes:
            stages = next(count for count in range(world, 0, -1) if world % count == 0 and _stages_fit(config, count))
            last = _last_stage(config.layers, stages)
            uneven = None if config.layers % stages == 0 else last
            return ParallelSettings(pipeline=stages, last_stage_layers=uneven)
        tensor = self.sizes.get("tensor", 1)
        # Nothing is computed; with experts Megatron asks for sequence parallelism beside tensor parallelism.
        settings = ParallelSettings(**self.sizes, sequence_parallel=tensor > 1, contiguous_context=False)
        inner = tensor if settings.expert_tensor is None else settings.expert_tensor
        for words, product in (
            ("tensor x pipeline", tensor * settings.pipeline),
            ("expert x expert tensor x pipeline", settings.expert * inner * settings.pipeline),
        ):
            if world % product:
                raise ConversionError(
                    f"{world} process(es) do not divide by {words} parallel size = {product}; start a multiple of "
                    f"{product} with torchrun, or leave the sizes out."
                )
        return settings


def _last_stage(layers: int, stages: int) -> int:
    return layers - -(-layers // stages) * (stages - 1)


def _stages_fit(config: HFModelConfig, stages: int) -> bool:
    """Every stage has a layer, and begins with one that chooses its own keys where attention is sparse."""
    each = -(-config.layers // stages)
    begins = range(0, each * stages, each)
    if _last_stage(config.layers, stages) < 1:
        return False
    return config.sparse is None or all(layer in config.sparse.computing for layer in begins)


def _text(environment: Mapping[str, str], name: str, default: str | None = None) -> str:
    value = environment.get(name, default)
    if not value:
        raise ConversionError(f"WORLD_SIZE is {environment.get('WORLD_SIZE')}, but {name} is not set; use torchrun.")
    return value


def _number(environment: Mapping[str, str], name: str, default: str | None = None) -> int:
    text = _text(environment, name, default)
    if not (text.isascii() and text.isdigit()):
        raise ConversionError(f"{name} is {text!r}, and must be a number; torchrun sets it.")
    return int(text)


@contextmanager
def empty_model(config: HFModelConfig, spec: ProcessSpec) -> Iterator[GPTModel]:
    """This process's part of a model whose weights were never set, in the process group of the conversion.

    On a CPU it takes no memory: what is never touched is not taken from the machine.
    """
    import torch

    from slime.megatron import process
    from slime.megatron.model import build_model
    from slime.megatron.model_settings import ComputeSettings

    process.start(spec)
    try:
        yield build_model(config, spec.torch_device, ComputeSettings(getattr(torch, config.dtype)), spec.parallel)
    finally:
        process.stop()
