"""The weights of the checkpoint: every file whole, every tensor of the shape that config.json implies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from slime.config.flags import Text
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.model import Model
from slime.config.preflight.shards import INDEX, Shards
from slime.config.rule import Finding, Rule
from slime.config.validate.arithmetic import counted

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_AGAIN = "download this file again"
# Kinds of numbers whose tensors have the shape of the layer; packed INT4 has not.
_PLAIN = ("BF16", "F16", "F32", "F8_E4M3")


def check_weights(inputs: Inputs) -> Iterator[Finding]:
    """Every file that the index names exists, is complete and holds the tensors that it should."""
    if inputs.shards is not None:
        yield from check_files(inputs.folder, inputs.shards)


def check_files(folder: Path, shards: Shards) -> Iterator[Finding]:
    """`check_weights` of any folder."""
    if shards.index_error:
        yield Finding(shards.index_error, "the download is incomplete: run the stage prepare again")
        return
    missing = sorted(set(shards.expected) - set(shards.read) - set(shards.errors))
    if missing:
        listed = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        yield Finding(
            f"{folder}: {len(missing)} of the {len(shards.expected)} files that {INDEX} names are missing: {listed}",
            "resume the download (the stage prepare)",
        )
    for name, reason in shards.errors.items():
        yield Finding(f"{folder / name}: {reason}", _AGAIN)
    for name, shard in shards.read.items():
        size = (folder / name).stat().st_size
        if size != shard.size:
            yield Finding(f"{folder / name} has {size} bytes, its header announces {shard.size}", _AGAIN)
        lost = sorted(shards.expected[name] - set(shard.tensors))
        if lost:
            yield Finding(f"{folder / name} lacks {counted(len(lost), 'tensor')} of the index, e.g. {lost[0]}", _AGAIN)


def check_quantised_parts(inputs: Inputs) -> Iterator[Finding]:
    """Router and output layer are left out of the quantisation."""
    model = inputs.model
    quant = model.whole.get("quantization_config") if model is not None else None
    if model is None or not isinstance(quant, dict) or not isinstance(quant.get("ignore"), list):
        return
    ignored = [one for one in quant["ignore"] if isinstance(one, str)]
    wanted = {"the output layer": "lm_head"}
    if model.experts:
        wanted["the router"] = f"model.layers.{model.dense_layers}.mlp.gate"
    for noun, name in wanted.items():
        if not any(_matches(pattern, name) for pattern in ignored):
            yield Finding(
                f"the quantization_config of {model.path} does not ignore {name}: {noun} would be read from quantised "
                "weights that are not there, as zeros",
                f"add {name!r} (or a pattern re:...) to its list ignore and quantise again",
            )


def _matches(pattern: str, name: str) -> bool:
    """Whether an entry of ``ignore`` means a module: its name, a part of it, or ``re:`` and a regular expression."""
    if not pattern.startswith("re:"):
        return pattern == name or name.endswith(f".{pattern}")
    try:
        return re.match(pattern.removeprefix("re:"), name) is not None
    except re.error:
        return False


def check_tensor_shapes(inputs: Inputs) -> Iterator[Finding]:
    """The tensors are those of the layers, widths and heads of config.json."""
    model, shards = inputs.model, inputs.shards
    if model is None or shards is None or shards.index_error or len(shards.read) < len(shards.expected):
        return
    tensors = {_bare(name): entry for name, entry in shards.tensors.items() if "visual" not in name}
    layers = {int(match[1]) for name in tensors if (match := _LAYER.search(name))}
    extra = model.found.get("num_nextn_predict_layers", 0)
    if model.layers and len(layers) not in (model.layers, model.layers + (extra if isinstance(extra, int) else 0)):
        yield Finding(
            f"{inputs.folder} has the weights of {len(layers)} layers, and its config.json says {model.layers}",
            "weights and config.json belong to different models: download both again",
        )
    if not model.tied and "embed_tokens.weight" in tensors and "lm_head.weight" not in tensors:
        yield Finding(
            f"{inputs.folder} has no lm_head.weight, and its config.json does not say tie_word_embeddings: the output "
            "layer would start from random numbers",
            'set "tie_word_embeddings": true if the model shares its embedding, or download the weights again',
        )
    for name, axis, expected in _expected_sizes(model):
        entry = tensors.get(name)
        if entry is None or entry.kind not in _PLAIN or axis >= len(entry.shape) or entry.shape[axis] in expected:
            continue
        yield Finding(
            f"{name} of {inputs.folder} has the shape {list(entry.shape)}, and config.json implies "
            f"{' or '.join(map(str, sorted(expected)))} on axis {axis}",
            "weights and config.json belong to different models: download both again",
        )


def _expected_sizes(model: Model) -> Iterator[tuple[str, int, set[int]]]:
    """(tensor, axis, sizes that it may have) for tensors whose size follows from one or two dimensions."""
    if model.hidden:
        yield "embed_tokens.weight", 1, {model.hidden}
        yield "norm.weight", 0, {model.hidden}
    if model.vocab:
        yield "embed_tokens.weight", 0, {model.vocab}
    if model.ffn and model.dense_layers:
        yield "layers.0.mlp.down_proj.weight", 1, {model.ffn}
    if model.head_dim and not model.is_latent:
        if model.heads:
            rows = model.heads * model.head_dim
            yield "layers.0.self_attn.q_proj.weight", 0, {rows, 2 * rows}  # gated attention keeps the gate beside q
        if model.groups:
            yield "layers.0.self_attn.k_proj.weight", 0, {model.groups * model.head_dim}


def _bare(name: str) -> str:
    """The name without the prefixes under which models with vision keep their language model."""
    return re.sub(r"^(?:model\.|language_model\.)+", "", name)


RULES = (
    Rule(
        id="whole-weights",
        row=46,
        source="",
        title=Text("权重文件齐全，路由器没有被量化", "The weights are whole, the router is not quantised"),
        why=Text(
            "少一个分片或者量化了路由器，模型照样能加载，只是对应的权重全为 0。",
            "With a shard missing, or the router quantised, a model still loads, and those weights are zero.",
        ),
        hf=lambda inputs: (*check_weights(inputs), *check_quantised_parts(inputs)),
    ),
    Rule(
        id="tensor-shapes",
        row=39,
        source="slime#1059, slime#1240, slime#1258",
        title=Text("权重的形状与 config.json 一致", "The weights have the shapes that config.json implies"),
        why=Text(
            "用错参数也能完成转换，错误要到训练时才表现为说不清的差距。转换命令自己还会逐个核对名称和形状。",
            "A conversion with wrong numbers succeeds and shows itself in training as an unexplained gap. The "
            "conversion "
            "itself compares every name and shape as well.",
        ),
        hf=check_tensor_shapes,
    ),
)
