"""Flags of the systems underneath that the runtime sets itself: refused by name, with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_SERVER = {
    "model-path": "the engine serves --hf-checkpoint",
    "tokenizer-path": "the tokenizer is the one of --hf-checkpoint",
    "trust-remote-code": "code of a checkpoint is never run",
    "random-seed": "derived from --rollout-seed and the engine's rank",
    "enable-memory-saver": "derived from the placement",
    "tp-size": "derived from --rollout-num-gpus-per-engine",
    "tensor-parallel-size": "derived from --rollout-num-gpus-per-engine",
    "host": "the engine listens where the runtime can reach it, on the loopback address on one machine",
    "nnodes": "derived from the placement",
    "node-rank": "derived from the placement",
    "dist-init-addr": "derived from the placement",
    "gpu-id-step": "derived from the placement",
    "base-gpu-id": "derived from the placement",
    "nccl-port": "a free port is chosen",
    "device": "give --device",
    "skip-server-warmup": "always set",
    "enable-return-routed-experts": "derived from --use-rollout-routing-replay",
    "disaggregation-mode": "derived from --prefill-num-servers or --sglang-config",
    "load-format": "weights come from --hf-checkpoint, then from the trainer",
    "disaggregation-bootstrap-port": "a free port is chosen",
    "engine-info-bootstrap-port": "a free port is chosen",
    "encoder-bootstrap-port": "a free port is chosen",
    "enable-draft-weights-cpu-backup": "derived from the placement",
    "enable-weights-cpu-backup": "derived from the placement",
    "use-ray": "the runtime places the engines itself",
    "weight-version": "set at every weight update",
    "api-key": "a secret on a command line is visible to everybody, and the engine listens for the runtime alone",
    "admin-api-key": "a secret on a command line is visible to everybody, and the engine listens for the runtime alone",
    "ssl-keyfile-password": "a secret on a command line is visible to everybody",
    "disable-cuda-graph": "SGLang deprecates it: give --sglang-cuda-graph-backend-decode disabled and "
    "--sglang-cuda-graph-backend-prefill disabled",
    "is-embedding": "an engine that embeds text generates none",
    "prefill-only-disable-kv-cache": "an engine without a KV cache generates nothing",
    "allow-auto-truncate": "a prompt that the engine cuts would be trained whole",
    "preferred-sampling-params": "every request carries its own; others would change what is sampled unnoticed",
    "delete-ckpt-after-loading": "--hf-checkpoint is read again: by the trainer, and by every engine that starts",
    "revision": "the checkpoint is the folder --hf-checkpoint",
    "json-model-override-args": "model dimensions come from config.json of --hf-checkpoint",
    "download-dir": "nothing is downloaded; the engine serves --hf-checkpoint",
    "monokernel-backend": "SGLang deprecates it: give --sglang-enable-amd-monokernel",
}

_DIMENSION = "model dimensions come from config.json of --hf-checkpoint, so they cannot disagree with it"

_DIMENSIONS = (
    "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "group-query-attention",
    "num-query-groups", "kv-channels", "vocab-size", "padded-vocab-size",
    "rotary-base", "rotary-percent", "norm-epsilon",
    "layernorm-epsilon", "normalization", "swiglu", "disable-bias-linear", "add-qkv-bias", "qk-layernorm",
    "untie-embeddings-and-output-weights", "position-embedding-type", "use-rotary-position-embeddings",
    "max-position-embeddings", "seq-length", "num-experts", "moe-router-topk", "moe-ffn-hidden-size",
    "moe-shared-expert-intermediate-size", "moe-layer-freq", "multi-latent-attention", "q-lora-rank", "kv-lora-rank",
    "make-vocab-size-divisible-by", "apply-layernorm-1p", "attention-output-gate", "use-gated-attention",
    "post-self-attn-layernorm", "post-mlp-layernorm", "qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim",
    "rotary-interleaved", "rotary-scaling-factor", "use-rope-scaling", "mscale", "mscale-all-dim",
    "no-position-embedding", "moe-router-score-function", "moe-router-pre-softmax", "moe-router-topk-scaling-factor",
    "moe-router-num-groups", "moe-router-group-topk", "moe-router-enable-expert-bias", "moe-shared-expert-gate",
)  # fmt: skip

_OTHERS = {
    "--custom-config-path": "give --config FILE: it is merged before anything is derived, and its keys are checked",
    "--tokenizer-type": "the tokenizer is the one of --hf-checkpoint",
    "--tokenizer-model": "the tokenizer is the one of --hf-checkpoint",
    "--spec": "the layers follow from the model's family, or from --custom-model-provider-path",
    "--enable-experimental": "Megatron's experimental switch is set where a model needs it",
    "--http-proxy": "nothing reads it: requests between the processes of a run never go through a proxy",
    "--min-batch-collection-ratio": "nothing reads it",
    "--train-iters": "derived from --num-rollout and the batch sizes",
    "--distributed-backend": "derived from --device: gloo on a CPU, NCCL on GPUs",
    "--wandb-key": "a secret on a command line is visible to everybody; export WANDB_API_KEY",
    "--trust-remote-code": "code of a checkpoint is never run",
}

REFUSED: Mapping[str, str] = {
    **{f"--sglang-{name}": reason for name, reason in _SERVER.items()},
    **{f"--{name}": _DIMENSION for name in _DIMENSIONS},
    **_OTHERS,
}
