"""A folder in which every check passes, to be spoilt one thing at a time."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from slime.config import Config
from slime.config.derive import derive
from slime.config.preflight.cluster import ClusterView
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.machine import Machine

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "user", "assistant", "system", "tool", "+", "=", "?", "and")
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
    "vocab_size": 64,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": False,
    "max_position_embeddings": 512,
    "eos_token_id": 2,
}
# The keys of a model file; decimals are text there.
DIMENSIONS: dict[str, Any] = {
    "hf_model_type": "qwen3", "layers": 2, "hidden": 16, "ffn": 32, "heads": 4, "kv_groups": 2, "head_dim": 4,
    "vocab": 64, "rope_base": 10000, "rotary_percent": "1", "norm_eps": "1e-6", "tied_embeddings": False,
    "qk_norm": True, "moe": None, "mla": None, "mtp_layers": 0,
}  # fmt: skip
MACHINE: dict[str, Any] = {
    "name": "node-0", "addresses": ("10.0.0.1",), "interfaces": ("lo", "eth0"), "memory": 64 * 2**30,
    "shared_memory": 2**30, "open_files": 65536, "gpus": tuple(range(8)), "mounts": (("/", "ext4"),),
    "libraries": {"torch": "2.13.0+cpu", "ray": "2.60.0", "megatron-core": "0.16.1", "sglang": "0.5.23",
                  "transformers": "5.19.0", "math-verify": "0.9.0"},
}  # fmt: skip


def tensors(
    layers: int = 2, hidden: int = 16, ffn: int = 32, heads: int = 4, groups: int = 2, vocab: int = 64
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a Qwen3 with heads of width 4."""
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocab, hidden), "lm_head.weight": (vocab, hidden), "model.norm.weight": (hidden,),
    }  # fmt: skip
    for layer in range(layers):
        name = f"model.layers.{layer}"
        found |= {
            f"{name}.self_attn.q_proj.weight": (4 * heads, hidden),
            f"{name}.self_attn.k_proj.weight": (4 * groups, hidden),
            f"{name}.mlp.down_proj.weight": (hidden, ffn),
        }
    return found


def write_safetensors(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write the safetensors format by hand, in BF16, all zero."""
    header: dict[str, object] = {}
    position = 0
    for name, shape in shapes.items():
        size = 2
        for one in shape:
            size *= one
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    with path.open("r+b") as file:
        file.truncate(8 + len(text) + position)


def tokenizer_json(words: Iterable[str] = WORDS, special: Iterable[str] = SPECIAL) -> str:
    """A tokenizer of whole words, as the library `tokenizers` writes it."""
    vocab = {word: number for number, word in enumerate([*words, *map(str, range(30))])}
    vocab["[UNK]"] = len(vocab)
    added = [
        {"id": vocab[one], "content": one, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
         "special": True}
        for one in special
    ]  # fmt: skip
    return json.dumps(
        {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
         "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
         "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}}
    )  # fmt: skip


class Bench:
    """hf/, torch_dist/, train.jsonl and heldout.jsonl in a folder, and the flags, machine and cluster beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flags: dict[str, Any] = {
            "hf_checkpoint": str(folder / "hf"), "ref_load": str(folder / "torch_dist"), "save": str(folder / "run"),
            "prompt_data": str(folder / "train.jsonl"), "input_key": "prompt", "label_key": "label", "rm_type": "math",
            "num_rollout": 4, "rollout_batch_size": 8, "n_samples_per_prompt": 4, "rollout_max_response_len": 8,
            "rollout_max_prompt_len": 16, "actor_num_gpus_per_node": 1, "colocate": True, "apply_chat_template": True,
        }  # fmt: skip
        self.machine = dict(MACHINE)
        self.cluster: ClusterView | None = None
        self.taken: list[socket.socket] = []
        self.dimensions: dict[str, Any] = dict(DIMENSIONS)
        (folder / "hf").mkdir()
        self.write("hf/config.json", QWEN3)
        self.write("hf/generation_config.json", {"eos_token_id": [2, 0]})
        self.text("hf/tokenizer.json", tokenizer_json())
        self.write("hf/tokenizer_config.json", {"chat_template": TEMPLATE, "eos_token": "<|im_end|>"})
        write_safetensors(folder / "hf" / "model.safetensors", tensors())
        (folder / "torch_dist" / "iter_0000000").mkdir(parents=True)
        self.text("torch_dist/latest_checkpointed_iteration.txt", "0")
        for name in ("train.jsonl", "heldout.jsonl"):
            self.rows(name, [{"prompt": f"{one} + 1 =", "label": str(one + 1)} for one in range(20)])

    def write(self, name: str, data: object) -> None:
        self.text(name, json.dumps(data))

    def text(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def rows(self, name: str, rows: Iterable[object]) -> None:
        self.text(name, "".join(json.dumps(row) + "\n" for row in rows))

    def change(self, name: str, **changes: object) -> None:
        """Change keys of a JSON file; None removes a key."""
        data = json.loads((self.folder / name).read_text())
        data.update(changes)
        self.write(name, {key: value for key, value in data.items() if value is not None})

    def config(self, **changes: object) -> None:
        """Change config.json."""
        self.change("hf/config.json", **changes)

    def set(self, **flags: object) -> None:
        """Change flags; planned ones too, as a Config is not parsed."""
        self.flags.update(flags)

    def host(self, **facts: object) -> None:
        """Change what the machine looks like."""
        self.machine.update(facts)

    def template(self, text: str) -> None:
        """Change the chat template."""
        self.change("hf/tokenizer_config.json", chat_template=text)

    def inputs(self) -> Inputs:
        """What the checks get."""
        inputs = Inputs(derive(Config(**self.flags)), self.dimensions)
        # Both are read once and then kept; here they are what the case says.
        inputs.__dict__["machine"] = Machine(**self.machine)
        inputs.__dict__["cluster"] = self.cluster
        return inputs
