"""The checkpoint that the engines loaded (--hf-checkpoint): what an update must bring them, and in which format.

When its ``config.json`` has a ``quantization_config``, the engines hold FP8 or INT4 weights. The trainer's weights are
then quantised on their way, by the same arithmetic as `slime convert`, so that an update leaves an engine with the
weights that a conversion of the trainer's checkpoint would have given it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

import torch

from slime.weights.dimensions import HFModelConfig
from slime.weights.hf_config import config_from_dict, read_values
from slime.weights.hf_io import HFCheckpoint
from slime.weights.names import untrained_names
from slime.weights.quantise.formats import Format, read_format
from slime.weights.transport import NamedTensor

FLOATS = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
"""Precisions of weights that are not quantised, as safetensors names them."""


def read_served_config(folder: Path) -> HFModelConfig:
    """Dimensions of the model, which do not depend on whether its weights are quantised.

    Raises:
        HFConfigError: see `config_from_dict`.
    """
    values = read_values(folder)
    values.pop("quantization_config", None)
    return config_from_dict(values, str(folder / "config.json"))


class ServedCheckpoint:
    """The folder's description; tensors are read when they are asked for.

    Attributes:
        folder: --hf-checkpoint.
        config: dimensions of the model that is trained.
        format: of the quantised weights; None when they are not quantised.
    """

    def __init__(self, folder: Path, config: HFModelConfig) -> None:
        """Read ``config.json``.

        Raises:
            QuantiseError: it is quantised in a format that is not written here.
        """
        self.folder = folder
        self.config = config
        described = read_values(folder).get("quantization_config")
        self.format: Format | None = None if not described else read_format(described)

    @cached_property
    def _tensors(self) -> HFCheckpoint:
        return HFCheckpoint(self.folder)

    @cached_property
    def _carried_names(self) -> list[str]:
        names = untrained_names(self._tensors.shapes, self.config)
        tied = self.config.tied_embeddings and "lm_head.weight" in self._tensors.shapes
        return [*names, "lm_head.weight"] if tied else names

    def sent_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape by name of the tensors that an update consists of.

        Not those of parts that are not trained, and not the copy of a tied embedding, which engines make themselves.
        """
        carried = set(self._carried_names)
        return {name: shape for name, shape in self._tensors.shapes.items() if name not in carried}

    def carried(self) -> Iterator[NamedTensor]:
        """The tensors that are not trained, as the checkpoint has them; a folder needs them to be complete."""
        trained = (name for name in self._carried_names if name != "lm_head.weight")
        return ((name, self._tensors.read(name)) for name in trained)

    def dtype_of(self, name: str) -> torch.dtype | None:
        """Precision of a tensor in the checkpoint; None for one that it does not have, or holds as integers."""
        return FLOATS.get(self._tensors.dtypes.get(name, ""))

    def as_served(self, named: Iterable[NamedTensor]) -> Iterator[NamedTensor]:
        """The trainer's tensors in the engines' format: quantised where the checkpoint has the parts of a weight.

        The checkpoint itself says which weights are quantised, so no list of names is kept twice.
        """
        for name, tensor in named:
            module = name.removesuffix(".weight")
            if self.format is None or module == name or not self._quantised(module):
                yield name, tensor
                continue
            for part, value in self.format.quantise(tensor.detach()).items():
                yield f"{module}.{part}", value

    def _quantised(self, module: str) -> bool:
        assert self.format is not None  # asked by the caller
        return all(f"{module}.{part}" in self._tensors.shapes for part in self.format.part_names)
