"""A family's checkpoint with an MTP layer, and what that layer computes, by transformers' own decoder layer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from .families import FAMILIES, make_family, reference

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WITH_MTP = [name for name in FAMILIES if name.startswith(("glm4_moe", "deepseek", "glm_moe", "qwen3_next", "qwen3_5"))]
# One layer, of the kind that every MTP layer is.
ONE_LAYER: dict[str, Any] = {
    "num_hidden_layers": 1,
    "layer_types": ["full_attention"],
    "first_k_dense_replace": 0,
    "mlp_layer_types": ["sparse"],
    "indexer_types": ["full"],
}
OWN = {
    "behind": ("model.layers.{}.", "model.layers.{}.enorm", "model.layers.{}.hnorm", "model.layers.{}.eh_proj"),
    "under": ("mtp.layers.0.", "mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.fc"),
}


def make_with_mtp(name: str, folder: Path, **changes: Any) -> Path:
    """The random checkpoint of a family with an MTP layer; ``folder/drafter`` is that layer as a model of its own."""
    make_family(name, folder, **changes)
    kept = {key: value for key, value in ONE_LAYER.items() if _knows(name, key)}
    make_family(name, folder / "drafter", seed=7, **{**changes, **kept})
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    kind = "under" if name.startswith("qwen") else "behind"
    body, embedding, state, projection = (part.format(layers) for part in OWN[kind])
    tensors = load_file(folder / "model.safetensors")
    for key, tensor in load_file(folder / "drafter" / "model.safetensors").items():
        if key.startswith("model.layers.0."):
            tensors[body + key.removeprefix("model.layers.0.")] = tensor
        elif key == "model.norm.weight":
            tensors["mtp.norm.weight" if kind == "under" else f"{body}shared_head.norm.weight"] = tensor
    torch.manual_seed(11)
    tensors |= {f"{norm}.weight": 1 + 0.2 * torch.randn(hidden) for norm in (embedding, state)}
    tensors[f"{projection}.weight"] = 0.2 * torch.randn(hidden, 2 * hidden)
    if kind == "behind":  # what published checkpoints repeat
        tensors[f"{body}embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
        tensors[f"{body}shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    count = {"mtp_num_hidden_layers": 1} if "qwen3_5" in name else {"num_nextn_predict_layers": 1}
    (folder / "config.json").write_text(json.dumps(config | ({} if name == "qwen3_next" else count)), encoding="utf-8")
    return folder


def _knows(name: str, key: str) -> bool:
    """Whether the family's configuration has that key; transformers warns about others."""
    if key == "layer_types":
        return name.startswith(("qwen3_next", "qwen3_5"))
    if key == "indexer_types":
        return name == "glm_moe_dsa"
    if key == "mlp_layer_types":
        return name in ("glm_moe_dsa", "glm4_moe_lite")
    return key == "num_hidden_layers" or name in ("glm4_moe", "deepseek_v3", "glm_moe_dsa")


class Reference:
    """The trunk and the MTP layer in plain torch; parameters of the layer are leaves under their checkpoint's names."""

    def __init__(self, folder: Path) -> None:
        self.trunk: PreTrainedModel = reference(folder)
        self.drafter: PreTrainedModel = reference(folder / "drafter")
        tensors = load_file(folder / "model.safetensors")
        under = "mtp.fc.weight" in tensors
        layers = self.trunk.config.num_hidden_layers
        self.body, *names = (part.format(layers) for part in OWN["under" if under else "behind"])
        self.own = {f"{name}.weight": tensors[f"{name}.weight"].clone().requires_grad_() for name in names}
        self.norm_name = "mtp.norm.weight" if under else f"{self.body}shared_head.norm.weight"
        self.centred = 1.0 if under else 0.0  # Qwen's norms multiply by 1 + weight

    def log_probs(self, tokens: torch.Tensor) -> torch.Tensor:
        """[S - 1, vocabulary]: row t is of token t + 2, from the trunk's state at t and the embedding of token t + 1.

        The definition of DeepSeek-V3 (arXiv:2412.19437), equations 21 to 23. Nothing of the trunk gets a gradient.
        """
        embedding, state, projection = self.own.values()
        with torch.no_grad():
            states = self.trunk.model(tokens[None], use_cache=False).last_hidden_state[0, :-1]
            embedded = self.trunk.model.embed_tokens(tokens[1:])
        both = torch.cat([self._norm(embedded, embedding), self._norm(states, state)], dim=-1)
        joined = both @ projection.T
        out = self.drafter.model(inputs_embeds=joined[None], use_cache=False).last_hidden_state[0]
        return (out @ self.trunk.lm_head.weight.detach().T).log_softmax(-1)

    def _norm(self, values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(values, weight.shape, self.centred + weight, self.trunk.config.rms_norm_eps)

    def gradients(self) -> dict[str, torch.Tensor | None]:
        """By names of the checkpoint; transformers keeps all experts of a layer in one tensor."""
        found = {name: tensor.grad for name, tensor in self.own.items()}
        for name, parameter in self.drafter.named_parameters():
            if name.startswith("model.layers.0."):
                found[self.body + name.removeprefix("model.layers.0.")] = parameter.grad
        found[self.norm_name] = self.drafter.model.norm.weight.grad
        return found
