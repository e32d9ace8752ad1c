"""The training backend on Megatron-Core: model, packing, log-probs, optimizer, checkpoints, and the trainer."""

from __future__ import annotations

import warnings

# Megatron warns once for every optional accelerator library that is absent; the local spec uses none of them.
warnings.filterwarnings("ignore", message=".*(Apex|Transformer Engine).* not installed")
# torch's checkpoint reader and writer warn about their own internals, which a user cannot change.
warnings.filterwarnings("ignore", category=FutureWarning, module=r"(torch\.distributed|megatron\.core)\b.*")
