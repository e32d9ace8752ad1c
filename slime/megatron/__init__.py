"""The training backend on Megatron-Core: model, packing, log-probs, optimizer, checkpoints. `MegatronTrainer` joins them."""

from __future__ import annotations

import warnings

# Megatron warns once for every optional accelerator library that is absent; the local spec uses none of them.
warnings.filterwarnings("ignore", message="(Transformer Engine and )?Apex (is|are) not installed")
warnings.filterwarnings("ignore", message="Transformer Engine and Apex are not installed")
# torch's checkpoint reader and writer warn about their own internals, which a user cannot change.
warnings.filterwarnings("ignore", category=FutureWarning, module=r"(torch\.distributed|megatron\.core)\b.*")
