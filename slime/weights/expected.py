"""What SGLang's `weights_checker` must report of an engine that holds exactly the trainer's weights.

Its hash on a CPU is the first 16 hexadecimal digits of SHA-256 over a tensor's bytes, and its names are those of
SGLang's modules, which stack q, k and v, and gate and up. That is known here for dense decoders that are served
unquantised by one process; everything else is left to the comparison of an engine with itself.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

import torch

from slime.weights.served import ServedCheckpoint
from slime.weights.transport import NamedTensor

FAMILIES = ("llama", "qwen2", "qwen3")
# SGLang fills the vocabulary up to a multiple of this with rows of zeros.
VOCABULARY_MULTIPLE = 64
_STACKED = re.compile(r"\.(q_proj|k_proj|v_proj|gate_proj|up_proj)\.")
_STACK = {
    "q_proj": ("qkv_proj", 0), "k_proj": ("qkv_proj", 1), "v_proj": ("qkv_proj", 2),
    "gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1),
}  # fmt: skip
_PARTS = {"qkv_proj": 3, "gate_up_proj": 2}


def checksums(named: Iterable[NamedTensor], served: ServedCheckpoint) -> dict[str, str]:
    """Hash by SGLang's name of each tensor; nothing for models whose tensors SGLang rearranges otherwise.

    Args:
        named: the trainer's tensors in the dtype that the engine computes in.
        served: what the engine loaded.
    """
    known = served.format is None and served.config.family in FAMILIES
    found: dict[str, str] = {}
    stacks: dict[str, dict[int, torch.Tensor]] = {}
    for name, tensor in named:  # to the end in any case: gathering is collective
        if not known:
            continue
        host = tensor.detach().cpu()
        match = _STACKED.search(name)
        if match is None:
            found[name] = _hash(_padded(host) if name.endswith(("embed_tokens.weight", "lm_head.weight")) else host)
            continue
        module, place = _STACK[match[1]]
        whole = name.replace(match[1], module)
        parts = stacks.setdefault(whole, {})
        parts[place] = host
        if len(parts) == _PARTS[module]:
            found[whole] = _hash(torch.cat([parts[index] for index in range(len(parts))]))
            del stacks[whole]
    return found


def _padded(tensor: torch.Tensor) -> torch.Tensor:
    missing = -tensor.shape[0] % VOCABULARY_MULTIPLE
    return torch.nn.functional.pad(tensor, (0, 0, 0, missing))


def _hash(tensor: torch.Tensor) -> str:
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(data).hexdigest()[:16]
