"""Seconds and bytes of each way that weights take to an engine: ``python bench/weight_sync.py``.

A random model of a real model's shape lies in Megatron's modules, as in a run; a real SGLang server loads every update.
The engine of the paths memory, disk and delta shares the trainer's GPU; that of the group (NCCL) has the second GPU and
is left out when there is one. The fixed overhead is the same update of one small tensor. Before each update of the path
delta the weights take a step of Adam's size: every float32 master moves by the learning rate, and bfloat16 shows what
crosses its rounding. ``--formats`` also pushes to engines that loaded a quantised checkpoint, and compares what the
push leaves with what the load left.

Each run adds its numbers to ``weight_sync.json`` in the folder of ``--output`` and prints a table.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("NCCL_CUMEM_ENABLE", "0")  # as SGLang's own processes have it; otherwise their broadcasts fail

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.train_speed import shape  # noqa: E402
from slime.cluster.engine_actor import EngineActor  # noqa: E402
from slime.cluster.weight_sync import EngineLink, WeightSync  # noqa: E402
from slime.config import Config, make_config  # noqa: E402
from slime.config.resolve import NotYetRun  # noqa: E402
from slime.megatron import process  # noqa: E402
from slime.ports import free_port  # noqa: E402
from slime.sglang.client import SGLangClient  # noqa: E402
from slime.sglang.launch import EngineSpec  # noqa: E402
from slime.weights.dimensions import HFModelConfig  # noqa: E402
from slime.weights.source import WeightSource  # noqa: E402
from slime.weights.tables import rules  # noqa: E402

PATHS = ("memory", "disk", "delta", "group")
Row = dict[str, Any]


def config_json(model: HFModelConfig) -> dict[str, Any]:
    """What transformers writes for a Qwen3 model of these dimensions."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": model.vocab,
        "hidden_size": model.hidden,
        "intermediate_size": model.ffn,
        "num_hidden_layers": model.layers,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.groups,
        "head_dim": model.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": model.max_positions,
        "rms_norm_eps": model.norm_eps,
        "rope_theta": model.rope.theta,
        "tie_word_embeddings": model.tied_embeddings,
        "torch_dtype": model.dtype,
        "eos_token_id": 1,
        "bos_token_id": 1,
    }


def write_hollow(folder: Path, model: HFModelConfig) -> None:
    """A checkpoint whose tensors take no space: a header, and a file of the right length with nothing written to it."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config_json(model)), encoding="utf-8")
    header: dict[str, Any] = {}
    end = 0
    for rule in rules(model):
        for tensor in rule.hf:
            start, end = end, end + 2 * math.prod(tensor.shape)
            header[tensor.name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)


def run_config(folder: Path, device: str, work: Path, **flags: Any) -> Config:
    """A configuration with the flags of one path."""
    values: dict[str, Any] = {
        "hf_checkpoint": str(folder),
        "ref_load": str(folder),
        "device": device,
        "recipe": "tiny",
        "prompt_data": "none.jsonl",
        "input_key": "prompt",
        "label_key": "label",
        "rm_type": "math",
        "num_rollout": 1,
        "rollout_batch_size": 8,
        "n_samples_per_prompt": 8,
        "rollout_max_response_len": 8,
        "actor_num_gpus_per_node": 1,
        "rollout_num_gpus": 1,
        "update_weight_disk_dir": str(work / "versions"),
        "update_weight_local_checkpoint_dir": str(work / "local"),
        **flags,
    }
    try:
        return make_config(**values)
    except NotYetRun as planned:  # whole runs of an arrangement may wait for what is measured here
        return planned.config


FLAGS: dict[str, dict[str, Any]] = {
    "memory": {"colocate": True},
    "group": {"colocate": False},
    "disk": {"colocate": True, "update_weight_transport": "disk", "update_weight_local_checkpoint_dir": None},
    "delta": {"colocate": False, "update_weight_transport": "disk", "update_weight_mode": "delta"},
}


class Trainer:
    """Weights in Megatron's modules, without optimizer: what an update needs of a trainer."""

    def __init__(self, model: HFModelConfig, device: str) -> None:
        """`device`: "cpu" or "cuda"; starts the process's group."""
        spec = process.ProcessSpec(device="cpu" if device == "cpu" else "cuda")
        process.start(spec)
        from slime.megatron.gather import gather_hf_tensors, gather_stage_tensors
        from slime.megatron.model import build_model
        from slime.megatron.model_settings import ComputeSettings

        self.device = spec.torch_device
        # A CPU trains and serves in float32.
        dtype = torch.float32 if device == "cpu" else torch.bfloat16
        self.model = model
        self.module = build_model(model, self.device, ComputeSettings(dtype))
        self.whole: Callable[[], Iterator[Any]] = partial(gather_hf_tensors, self.module, model)
        self.stage: Callable[[], Iterator[Any]] = partial(gather_stage_tensors, self.module, model)
        torch.manual_seed(0)
        with torch.no_grad():
            for name, parameter in self.module.named_parameters():
                parameter.normal_(0.0, 0.02) if "norm" not in name else parameter.fill_(1.0)

    def source(self, config: Config, small: bool) -> WeightSource:
        """As a rank has it; `small`: of the final norm alone."""

        def one(stream: Callable[[], Iterator[Any]]) -> Iterator[Any]:
            return (pair for pair in stream() if pair[0] == "model.norm.weight")

        whole, stage = (partial(one, self.whole), partial(one, self.stage)) if small else (self.whole, self.stage)
        return WeightSource(config, 0, self.device, self.model, whole, stage)

    @torch.no_grad()
    def step(self, lr: float) -> None:
        """Move the float32 master of every weight by `lr`; a master lies anywhere within its weight's rounding."""
        for parameter in self.module.parameters():
            _, exponent = torch.frexp(parameter.float())
            bits = 8 if parameter.dtype is torch.bfloat16 else 24
            spacing = torch.ldexp(torch.ones_like(parameter, dtype=torch.float32), exponent - bits)
            master = parameter.float() + (torch.rand_like(spacing) - 0.5) * spacing
            parameter.copy_(master + lr * torch.sign(torch.randn_like(spacing)))


def in_thread(work: Callable[..., Any]) -> Callable[..., Any]:
    """As another process would be called."""

    async def call(*arguments: Any) -> Any:
        return await asyncio.to_thread(work, *arguments)

    return call


def engine(folder: Path, device: str, gpu: int, load: str, log: Path, stack: ExitStack) -> EngineActor:
    """Start a server on one GPU; it is ended with `stack`."""
    arguments: dict[str, Any] = {"skip-tokenizer-init": True, "load-format": load}
    environment = {}
    if device == "cuda":
        arguments |= {
            "attention-backend": "triton",
            "sampling-backend": "pytorch",
            "disable-cuda-graph": True,
            "mem-fraction-static": 0.5,
            "max-total-tokens": 16384,
        }
        environment["CUDA_VISIBLE_DEVICES"] = str(gpu)
    spec = EngineSpec(str(folder), "cpu" if device == "cpu" else "cuda", arguments=arguments, environment=environment)
    actor = EngineActor(spec, str(log))
    actor.start()
    stack.callback(actor.stop)
    return actor


def link(client: SGLangClient, actor: EngineActor, slot: int) -> EngineLink:
    """The engine as an update sees it."""
    return EngineLink(client.controls[0], (slot,), in_thread(lambda method, *rest: getattr(actor, method)(*rest)))


async def push(
    trainer: Trainer, config: Config, actor: EngineActor, slot: int, repeats: int, lr: float | None, small: bool
) -> list[Row]:
    """The updates of one path: the first, which also opens it, and `repeats` more."""
    rows: list[Row] = []
    async with SGLangClient([actor.engine.url], retries=0) as client:
        source = trainer.source(config, small)
        sync = WeightSync(
            config,
            [in_thread(source.call)],
            [link(client, actor, slot)],
            in_thread(lambda rank: ("127.0.0.1", free_port())),
            0,
        )
        if small:
            sync._size = sum(tensor.nbytes for _, tensor in source._whole())
        for _ in range(repeats + 1):
            if lr is not None:
                trainer.step(lr)
            if trainer.device.type == "cuda":
                torch.cuda.synchronize()
            done = await sync.push()
            rows.append({"seconds": done.seconds, "paused": done.paused_seconds, **done.metrics})
        for path in sync.paths:
            await path.close()
    return rows


def measure(trainer: Trainer, folder: Path, args: argparse.Namespace, actors: dict[str, EngineActor]) -> Iterator[Row]:
    """Every path that has an engine."""
    size = sum(tensor.nbytes for _, tensor in trainer.whole())
    for path in args.paths:
        actor = actors["second" if path == "group" else "first"] if path != "group" or "second" in actors else None
        if actor is None:
            continue
        slot = 1 if path == "group" else 0
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            config = run_config(folder, args.device, Path(work), **FLAGS[path])
            lr = args.lr if path == "delta" else None
            fixed = asyncio.run(push(trainer, config, actor, slot, args.repeats, None, small=True))
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            config = run_config(folder, args.device, Path(work), **FLAGS[path])
            repeats = min(args.repeats, args.disk_repeats) if path in ("disk", "delta") else args.repeats
            whole = asyncio.run(push(trainer, config, actor, slot, repeats, lr, small=False))
        yield summary(path, size, whole, fixed)


def summary(path: str, size: int, whole: list[Row], fixed: list[Row]) -> Row:
    """Medians of the updates after the first."""

    def median(rows: list[Row], name: str) -> float:
        values = sorted(float(row[name]) for row in rows[1:])
        return values[len(values) // 2]

    return {
        "path": path,
        "bytes": size,
        "sent": median(whole, "update_weights_bytes"),
        "seconds": median(whole, "seconds"),
        "paused": median(whole, "paused"),
        "fixed": median(fixed, "seconds"),
        "first": float(whole[0]["seconds"]),
        "updates": whole,
    }


def line(row: Row) -> str:
    """One row of the table."""
    moving = row["seconds"] - row["fixed"]
    # Below a tenth of the fixed part, the difference is noise.
    rate = f"{row['bytes'] / moving / 1e9:7.1f}" if moving > 0.1 * row["fixed"] else "   n. a."
    return (
        f"{row['path']:8} {row['bytes'] / 1e9:8.3f} GB, sent {row['sent'] / 1e9:8.4f} GB: {row['seconds']:7.3f} s "
        f"(engine paused {row['paused']:7.3f} s, fixed {row['fixed']:6.3f} s, first {row['first']:7.3f} s), "
        f"{rate} GB/s without the fixed part"
    )


async def compare(trainer: Trainer, folder: Path, device: str, work: Path, actor: EngineActor) -> Row:
    """Push to an engine that loaded a quantised checkpoint of the same weights, after noise: is all as it was?"""
    config = run_config(folder, device, work, colocate=True)
    async with SGLangClient([actor.engine.url], retries=0) as client:
        control = client.controls[0]
        source = trainer.source(config, small=False)
        one = EngineLink(control, (0,), in_thread(lambda method, *rest: getattr(actor, method)(*rest)))
        sync = WeightSync(config, [in_thread(source.call)], [one], in_thread(lambda rank: ("", 0)), 0)
        loaded = await control.checksums()
        await control.scramble()
        noise = await control.checksums()
        times = [(await sync.push()).seconds for _ in range(4)]
        after = await control.checksums()
    differing = sorted(name for name in loaded if after.get(name) != loaded[name])
    return {
        "format": str(source.served.format),
        "seconds": sorted(times[1:])[1],
        "tensors": len(loaded),
        "scrambled": sum(noise[name] != loaded[name] for name in loaded),
        "differing": len(differing),
        "first differing": differing[:5],
    }


def measure_format(trainer: Trainer, name: str, args: argparse.Namespace, work: Path) -> Row:
    """Convert the trainer's weights, serve them, push them."""
    from slime.weights.hf_io import write_shards
    from slime.weights.quantise.formats import Fp8Format, Int4Format
    from slime.weights.quantise.job import Job, quantise

    plain, folder = work / "plain", work / name
    plain.mkdir()
    (plain / "config.json").write_text(json.dumps(config_json(trainer.model)), encoding="utf-8")
    write_shards(plain, ((key, tensor.cpu().to(torch.bfloat16)) for key, tensor in trainer.whole()))
    target = Fp8Format() if name == "fp8" else Int4Format(group=128 if trainer.model.hidden % 128 == 0 else 32)
    quantise(Job(plain, folder, device=args.device), target, (), lambda text: None)
    with ExitStack() as stack:
        actor = engine(folder, args.device, 0, "auto", work / "engine.log", stack)
        actor.wait_ready()
        return asyncio.run(compare(trainer, folder, args.device, work, actor))


def keep(row: Row, output: Path, begun: float) -> None:
    """Add the row of this run to the results, or replace it: what is cut off has then left what it had."""
    output.mkdir(parents=True, exist_ok=True)
    results = output / "weight_sync.json"
    rows = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else []
    others = [one for one in rows if one["begun"] != begun]
    results.write_text(json.dumps([*others, {**row, "begun": begun}], indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="qwen3-0.6b", help="a shape of bench/train_speed.py")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--paths", nargs="*", default=list(PATHS), choices=PATHS)
    parser.add_argument("--formats", nargs="*", default=[], choices=("fp8", "int4"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--disk-repeats", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-6)
    parser.add_argument("--work", type=Path, default=None, help="folder for versions and local copies")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results")
    args = parser.parse_args()
    begun, stamp = time.monotonic(), time.time()
    trainer = Trainer(shape(args.model), args.device)
    second = args.device == "cpu" or torch.cuda.device_count() > 1
    with tempfile.TemporaryDirectory(dir=args.work) as name, ExitStack() as stack:
        work = Path(name)
        row: Row = {"model": args.model, "device": args.device, "lr": args.lr}
        if args.paths:
            write_hollow(work / "hf", trainer.model)
            actors: dict[str, EngineActor] = {}
            if args.device == "cpu" or args.paths != ["group"]:
                actors["first"] = engine(work / "hf", args.device, 0, "dummy", work / "first.log", stack)
            if args.device == "cpu":
                actors["second"] = actors["first"]
            elif second and "group" in args.paths:
                actors["second"] = engine(work / "hf", args.device, 1, "dummy", work / "second.log", stack)
            for actor in set(actors.values()):
                actor.wait_ready()
            print(f"{args.model} on {args.device}: ready after {time.monotonic() - begun:.1f} s", flush=True)
            row["paths"] = []
            for found in measure(trainer, work / "hf", args, actors):
                row["paths"].append(found)
                print(line(found), flush=True)
                keep(row, args.output, stamp)
            stack.close()
        for each in args.formats:
            (work / f"format-{each}").mkdir()
            found = measure_format(trainer, each, args, work / f"format-{each}")
            row.setdefault("formats", []).append(found)
            print(found, flush=True)
            keep(row, args.output, stamp)
    process.stop()


if __name__ == "__main__":
    main()
