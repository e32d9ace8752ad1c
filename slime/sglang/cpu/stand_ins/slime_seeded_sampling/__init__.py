"""A plugin of SGLang for the CPU: every request is sampled with its own seed, so that a rerun gives the same tokens.

SGLang honours `sampling_seed` under --enable-deterministic-inference, which needs kernels for GPUs. On a CPU they are
not needed: what is missing is that the seeds of a batch reach its sampler, which this adds as a plugin of SGLang's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

TARGET = "sglang.srt.sampling.sampling_batch_info.SamplingBatchInfo.from_schedule_batch"


def register() -> None:
    """Called by SGLang, which finds it as an entry point of the group `sglang.srt.plugins`."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(TARGET, with_seeds, HookType.AROUND)


def with_seeds(original: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """The sampling information of a batch, with a seed for each of its requests; one without a seed draws its own."""
    info = original(*arguments, **keywords)
    batch = keywords["batch"] if "batch" in keywords else arguments[-2]
    seeds = [request.sampling_params.sampling_seed for request in batch.reqs]
    drawn = [int(torch.randint(2**62, ())) if seed is None else seed for seed in seeds]
    info.sampling_seed = torch.tensor(drawn, dtype=torch.int64)
    return info
