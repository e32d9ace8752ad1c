"""Weights of a model that are read from a Hugging Face checkpoint when they are written, tensor by tensor."""

from __future__ import annotations

from collections import OrderedDict

import torch
from megatron.core.models.gpt import GPTModel
from torch import Tensor

from slime.megatron.model import model_tensors, place_of
from slime.weights.dimensions import HFModelConfig
from slime.weights.hf_io import HFCheckpoint
from slime.weights.names import local_tensors


class HFWeights:
    """Gives the content of any part of a model whose own tensors were never set.

    Memory that a tensor never touches is not taken from the machine, so a model of any size can be built and described;
    here the values come in, one parameter at a time. The last two are kept: a gated MLP's two halves are asked for one
    after the other.

    Args:
        config: the model's; its vocabulary may be larger than the checkpoint's, and the rows behind are zeros then.
    """

    def __init__(self, model: GPTModel, config: HFModelConfig, checkpoint: HFCheckpoint) -> None:
        parameters = model_tensors(model)
        self._dtypes = {name: tensor.dtype for name, tensor in parameters.items()}
        self._name_of = {tensor.untyped_storage().data_ptr(): name for name, tensor in parameters.items()}
        self._checkpoint = checkpoint
        self._rows = dict.fromkeys((f"{config.prefix}embed_tokens.weight", "lm_head.weight"), config.vocab)
        self._make = dict(local_tensors(self._read, config, place_of(model.config)))
        self._recent: OrderedDict[str, Tensor] = OrderedDict()

    def __call__(self, part: Tensor) -> Tensor:
        """What `part`, a view of a parameter, must hold."""
        name = self._name_of[part.untyped_storage().data_ptr()]
        if name not in self._recent:
            while len(self._recent) > 1:
                self._recent.popitem(last=False)
            self._recent[name] = self._make[name]().to(self._dtypes[name]).contiguous()
        whole = self._recent[name]  # maybe a view itself, of a Hugging Face tensor
        return torch.as_strided(whole, part.size(), part.stride(), whole.storage_offset() + part.storage_offset())

    def _read(self, name: str) -> Tensor:
        tensor = self._checkpoint.read(name)
        surplus = self._rows.get(name, len(tensor)) - len(tensor) if tensor.dim() else 0
        return torch.cat([tensor, tensor.new_zeros(surplus, *tensor.shape[1:])]) if surplus else tensor
