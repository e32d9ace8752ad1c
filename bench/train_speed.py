"""Tokens a second of a training step on one GPU: ``python bench/train_speed.py``.

A random model of a real model's shape trains in bfloat16 on packed sequences, with the trainer's own modules: forward
pass, policy loss over the whole vocabulary, backward pass, gradient norm, Adam with float32 weights. The share is of
the matrix rate that the same GPU reaches on one large bfloat16 product in the same run. Floating-point operations of a
step are 6 for each parameter of a matrix and token, and 12 for each layer, hidden channel of the heads, query and past
key (half of the square of each sequence). Work that is done twice (recomputation) counts once.

Each run adds its numbers to ``bench/results/train_speed.json`` and prints them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from slime.algorithms.objective import PolicyOptions, PolicyTokens
from slime.megatron import process
from slime.weights.dimensions import HFModelConfig, Rope

ROOT = Path(__file__).resolve().parents[1]
SHAPES = {
    # layers, hidden, ffn, heads, groups, head channels, vocabulary, tied
    "qwen3-0.6b": (28, 1024, 3072, 16, 8, 128, 151936, True),
    "qwen3-4b": (36, 2560, 9728, 32, 8, 128, 151936, True),
    "qwen3-8b": (36, 4096, 12288, 32, 8, 128, 151936, False),
    "test": (2, 64, 96, 4, 2, 24, 320, False),
}


def shape(name: str) -> HFModelConfig:
    """Dimensions of a Qwen3 model."""
    layers, hidden, ffn, heads, groups, channels, vocabulary, tied = SHAPES[name]
    return HFModelConfig(
        family="qwen3",
        layers=layers,
        hidden=hidden,
        ffn=ffn,
        heads=heads,
        groups=groups,
        head_dim=channels,
        vocab=vocabulary,
        max_positions=40960,
        rope=Rope(1e6),
        norm_eps=1e-6,
        tied_embeddings=tied,
        qkv_bias=False,
        qk_norm=True,
        dtype="bfloat16",
    )


def operations(config: HFModelConfig, lengths: list[int]) -> tuple[float, float]:
    """Floating-point operations of forward and backward pass: of matrix products with weights, and of attention."""
    heads = config.heads * config.head_dim
    layer = config.hidden * (2 * heads + 2 * config.groups * config.head_dim) + 3 * config.hidden * config.ffn
    weights = config.layers * layer + config.hidden * config.vocab
    return 6.0 * weights * sum(lengths), 12.0 * config.layers * heads * sum(n * n / 2 for n in lengths)


def seconds(work: Callable[[], Any], repeats: int, device: torch.device) -> float:
    """Median of `repeats` runs, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        _wait(device)
        begun = time.perf_counter()
        work()
        _wait(device)
        times.append(time.perf_counter() - begun)
    return sorted(times)[len(times) // 2]


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def matrix_rate(device: torch.device, size: int) -> float:
    """Operations a second of one bfloat16 product of two [size, size] matrices."""
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2.0 * size**3 / seconds(lambda: left @ right, 20, device)


def make_batch(config: HFModelConfig, lengths: list[int], settings: Any, device: torch.device) -> Any:
    """One packed micro-batch: a quarter of each sequence is its prompt."""
    from slime.megatron.objective import MicroBatch
    from slime.megatron.ranks import pack_for

    generator = torch.Generator().manual_seed(0)
    sequences = [torch.randint(0, config.vocab, (n,), generator=generator) for n in lengths]
    responses = [n - n // 4 for n in lengths]
    count = sum(responses)
    tokens = PolicyTokens(
        weights=torch.full((count,), 1.0 / count, device=device),
        lengths=torch.tensor(responses, device=device),
        advantages=torch.randn(count, generator=generator).to(device),
        rollout_log_probs=torch.full((count,), -11.0, device=device),
        total_lengths=tuple(lengths),
    )
    return MicroBatch([], pack_for(settings, sequences, responses, device), tokens, count, count)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Build, train and take the time of each part."""
    process.start(process.ProcessSpec(device=args.device))
    from slime.megatron.model import build_model
    from slime.megatron.model_settings import ComputeSettings, Recompute
    from slime.megatron.objective import ObjectiveSettings, evaluate_policy
    from slime.megatron.optimizer import OptimizerSettings, build_optimizer, wrap_model
    from slime.megatron.packing import run_model
    from slime.megatron.step import StepRunner

    device = process.ProcessSpec(device=args.device).torch_device
    config = shape(args.model)
    lengths = [args.length] * (args.tokens // args.length)
    # A CPU trains in float32; there the bench only shows that it runs.
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    recompute = Recompute(args.recompute_method, args.recompute_layers) if args.recompute_layers else None
    compute = ComputeSettings(dtype, recompute=recompute, fused=args.fused)
    model = build_model(config, device, compute)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0) if "norm" in name else parameter.normal_(0.0, 0.02)
    adam = OptimizerSettings(lr=1e-6)
    wrapped = wrap_model(model, adam)
    optimizer, scheduler = build_optimizer(wrapped, adam, dtype)
    settings = ObjectiveSettings(PolicyOptions())
    evaluate = partial(evaluate_policy, settings=settings)
    runner = StepRunner(wrapped, optimizer, scheduler, evaluate)
    batch = make_batch(config, lengths, model.config, device)

    def loss() -> torch.Tensor:
        result: torch.Tensor = evaluate(run_model(model, batch.packed), batch).loss
        return result

    def forward() -> None:
        with torch.no_grad():
            run_model(model, batch.packed)

    whole = seconds(lambda: runner.run([batch] * args.micro_batches), args.repeats, device)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else 0
    parts = {
        "forward": seconds(forward, args.repeats, device),
        "forward, loss and backward": seconds(lambda: loss().backward(), args.repeats, device),
        "optimizer": seconds(optimizer.step, args.repeats, device),
    }
    if args.trace:
        trace(lambda: runner.run([batch]), args.trace)
    rate = matrix_rate(device, args.matrix)
    products, attention = operations(config, lengths)
    done = (products + attention) * args.micro_batches
    tokens = args.tokens * args.micro_batches
    process.stop()
    return {
        "model": args.model,
        "tokens_a_micro_batch": args.tokens,
        "sequence_length": args.length,
        "micro_batches_a_step": args.micro_batches,
        "recompute_layers": args.recompute_layers,
        "recompute_method": args.recompute_method,
        "fused": args.fused,
        "step_seconds": whole,
        "tokens_a_second": tokens / whole,
        "operations_a_second": done / whole,
        "matrix_rate": rate,
        "share_of_matrix_rate": done / whole / rate,
        "share_of_attention_in_operations": attention / (products + attention),
        "peak_bytes": peak,
        "parts_seconds": parts,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }


def trace(work: Callable[[], Any], path: Path) -> None:
    """Where one step's time goes on the GPU: the kernels that take longest, summed by name."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        work()
        torch.cuda.synchronize()
    path.write_text(found.key_averages().table(sort_by="self_cuda_time_total", row_limit=40), encoding="utf-8")


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--model", choices=list(SHAPES), default="qwen3-4b")
    parser.add_argument("--tokens", type=int, default=16384, help="of a micro-batch")
    parser.add_argument("--length", type=int, default=4096, help="of each sequence")
    parser.add_argument("--micro-batches", type=int, default=4, help="of a step")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--matrix", type=int, default=8192, help="rows of the product that the rate is measured with")
    parser.add_argument("--recompute-layers", type=int, default=0, help="0 = keep all activations")
    parser.add_argument("--recompute-method", choices=("uniform", "block"), default="uniform")
    parser.add_argument("--fused", action="store_true", help="join small operations by torch.compile")
    parser.add_argument("--trace", type=Path, help="write the kernels that take longest to this file")
    parser.add_argument("--output", type=Path, default=ROOT / "bench" / "results" / "train_speed.json")
    args = parser.parse_args()
    found = run(args)
    rows = json.loads(args.output.read_text(encoding="utf-8")) if args.output.is_file() else []
    rows.append(found)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    print(
        f"{found['model']}: {found['tokens_a_second']:.0f} tokens a second, "
        f"{found['share_of_matrix_rate']:.1%} of the matrix rate, peak {found['peak_bytes'] / 2**30:.1f} GiB"
    )


if __name__ == "__main__":
    main()
