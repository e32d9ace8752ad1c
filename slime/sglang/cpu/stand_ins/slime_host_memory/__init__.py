"""A plugin of SGLang for the CPU: buffers in host memory are not registered with CUDA, which is not there.

SGLang keeps the experts of every token in such a buffer (--enable-return-routed-experts). Registering it makes copies
from a GPU faster, and means nothing where there is none.
"""

from __future__ import annotations

from typing import Any

TARGET = "sglang.srt.mem_cache.pool_host.common._cuda_host_register"


def register() -> None:
    """Called by SGLang, which finds it as an entry point of the group `sglang.srt.plugins`."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    HookRegistry.register(TARGET, leave, HookType.REPLACE)


def leave(*_: Any, **__: Any) -> None:
    """Leave the buffer as it is."""
