"""Megatron-Core on a CPU: every difference from a GPU build, each with its reason.

Megatron-Core 0.16.1 names CUDA in places where it only wants "this rank's device". `apply` gives Megatron's own modules
a view of `torch` in which that device is the CPU. The patch is confined to modules below ``megatron.core``: the rest of
the process, Hugging Face models included, keeps the `torch` that it had.

Applied with ``--device cpu`` alone. Nothing here changes arithmetic.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

TRIED_VERSIONS = ("0.16.1",)
"""Releases of megatron-core that this shim was tested with."""

CPU = torch.device("cpu")

# torch.<factory>(..., device="cuda") stands in the FP32 optimizer (loss scale), the schedules (token count) and the
# gradient norm; without the replacement: "PyTorch is not linked with support for cuda devices".
FACTORIES = ("tensor", "zeros", "ones", "empty", "full", "arange", "empty_like", "zeros_like", "ones_like", "as_tensor")


class CpuShimError(RuntimeError):
    """The installed Megatron-Core cannot run on a CPU with this shim."""


def _on_cpu(factory: Callable[..., Any]) -> Callable[..., Any]:
    """`factory` with CUDA devices replaced by the CPU, and without pinned memory (which only CUDA has)."""

    def create(*args: Any, **options: Any) -> Any:
        device = options.get("device")
        if isinstance(device, int) or str(device).startswith("cuda"):
            options["device"] = CPU
        options.pop("pin_memory", None)
        return factory(*args, **options)

    return create


class _View(types.ModuleType):
    """A module with some names replaced; every other name is looked up in the original."""

    def __init__(self, original: types.ModuleType, **replaced: Any) -> None:
        super().__init__(original.__name__, original.__doc__)
        self.__dict__.update(replaced, original=original)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["original"], name)


class _Stream:
    """The one queue of work of a device that finishes each operation before the next begins."""

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def wait_stream(self, other: Any) -> None:
        """Nothing is left to wait for."""

    def synchronize(self) -> None:
        """Nothing is left to wait for."""

    def record_event(self, event: Any = None) -> _Stream:
        """An event that has happened: it is waited for as a stream is."""
        return self


def _cuda_view() -> _View:
    """`torch.cuda` of a machine whose one device is the CPU."""
    return _View(
        torch.cuda,
        # Where Megatron puts a tensor that must be on "its" device: parameters' buffers, found_inf, rope frequencies.
        current_device=lambda: CPU,
        set_device=lambda device: None,
        # The checkpoint writer waits for copies from the device; CPU tensors are ready at once.
        synchronize=lambda device=None: None,
        empty_cache=lambda: None,
        # The random-state tracker (dropout, parameter initialisation) keeps one stream of numbers for each region; on a
        # CPU the streams are states of torch's one CPU generator.
        get_rng_state=lambda device=None: torch.get_rng_state(),
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
        manual_seed=torch.manual_seed,
        # The expert dispatcher copies its counts on a stream of its own.
        Stream=_Stream,
        current_stream=lambda device=None: _Stream(),
        stream=lambda stream: contextlib.nullcontext(),
    )


def _counts_as_numbers(tensor: Any, as_numpy: bool = False, record_stream: bool = False) -> Any:
    """The dispatcher's counts as a list of numbers; Megatron converts only those that come from a GPU."""
    return tensor.numpy() if as_numpy and torch.is_tensor(tensor) else tensor


def _clip_grad_by_total_norm(
    parameters: list[torch.nn.Parameter], max_norm: float, total_norm: float, use_decoupled_grad: bool = False
) -> None:
    """Megatron's clipping; its own asserts that gradients have the type name 'torch.cuda.FloatTensor'."""
    coefficient = max_norm / (total_norm + 1.0e-6)
    if coefficient < 1.0:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(coefficient)


def _named_as_cuda(build: Callable[..., Any]) -> Callable[..., Any]:
    """The distributed optimizer's sorting of parameters by dtype, which it reads from names of CUDA types alone."""

    @functools.wraps(build)
    def build_groups(cls: type, ranges: Any, buffers: Any, groups: list[dict[str, Any]], config: Any) -> Any:
        """As Megatron's; its parameters say for that long that they lie on a GPU."""
        parameters = [parameter for group in groups for parameter in group["params"]]
        for parameter in parameters:
            parameter.type = functools.partial(str, parameter.type().replace("torch.", "torch.cuda."))
        try:
            return build(cls, ranges, buffers, groups, config)
        finally:
            for parameter in parameters:
                del parameter.type

    return build_groups


def _own_angles(angles: Tensor, axis: int, group: Any) -> Tensor:
    """Rotary angles of this context-parallel rank; Megatron's sends the indices to a GPU."""
    size, rank = group.size(), group.rank()
    chunks = angles.chunk(2 * size, dim=axis)
    return torch.cat([chunks[rank], chunks[2 * size - 1 - rank]], dim=axis)


def _check_version() -> None:
    version = importlib.metadata.version("megatron-core")
    if version not in TRIED_VERSIONS:
        raise CpuShimError(
            f"megatron-core {version} is installed, and the CPU shim knows {', '.join(TRIED_VERSIONS)} alone; "
            f"another may use CUDA in new places. Install megatron-core=={TRIED_VERSIONS[-1]}, or train with "
            "--device cuda."
        )


def apply() -> None:
    """Patch every module of ``megatron.core`` imported so far; call it again after importing more of them.

    Raises:
        CpuShimError: a release of megatron-core that was not tried.
    """
    _check_version()
    from megatron.core.models.common.embeddings import yarn_rotary_pos_embedding as yarn_module
    from megatron.core.optimizer import optimizer as optimizer_module
    from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
    from megatron.core.tensor_parallel import random as random_module
    from megatron.core.transformer.moe import token_dispatcher

    view = _View(torch, cuda=_cuda_view(), **{name: _on_cpu(getattr(torch, name)) for name in FACTORIES})
    for name, module in list(sys.modules.items()):
        if name.startswith("megatron.core") and module.__dict__.get("torch") is torch:
            module.__dict__["torch"] = view
    # These two reach torch._C's CUDA generators. Without them the tracker's fork silently has no effect: dropout runs,
    # but draws other numbers than the region's.
    random_module.__dict__["_get_cuda_rng_state"] = lambda *args, **options: torch.get_rng_state()
    random_module.__dict__["_set_cuda_rng_state"] = lambda state, *args, **options: torch.set_rng_state(state)
    yarn_module.__dict__["get_pos_emb_on_this_cp_rank"] = _own_angles
    # gloo takes split sizes as numbers, not as tensors.
    token_dispatcher.__dict__["maybe_move_tensor_to_cpu"] = _counts_as_numbers
    optimizer_module.__dict__["clip_grad_by_total_norm_fp32"] = _clip_grad_by_total_norm
    name = "_build_model_and_main_param_groups"
    sort = inspect.unwrap(DistributedOptimizer.__dict__[name].__func__)  # not patched twice
    setattr(DistributedOptimizer, name, classmethod(_named_as_cuda(sort)))
