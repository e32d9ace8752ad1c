"""Which server arguments are merely passed on, and which ask something of the runtime as well.

An argument that SGLang alone acts on is passed on as it was given. One whose effect the runtime has to take part in
(it counts GPUs, it replaces weights, it reads answers, it starts the other half) stays planned until it does.
"""

from __future__ import annotations

from collections.abc import Mapping

from slime.config.flags import Text

# Part of the run that has to take part -> beginnings of names. A name counts when it is one, or begins with one and a
# dash follows.
_TAKES_PART: Mapping[Text, tuple[str, ...]] = {
    Text("放置引擎时要按它计算 GPU 数", "placement counts an engine's GPUs by it"): (
        "pp", "dcp", "attn-dp-size", "attn-cp-size", "moe-dp-size", "dwdp-size", "enable-prefill-cp", "cp-strategy",
        "shared-experts-tp-size", "gated-launch-port", "numa-node",
    ),
    Text("权重同步要知道引擎把权重放在哪里、以何种格式存放",
         "a weight update has to know where an engine keeps its weights, and as what"): (
        "quantization", "modelopt", "quantize-and-serve", "rl-quant-profile", "lora", "enable-lora", "max-lora-rank",
        "max-loaded-loras", "max-loras-per-batch", "max-lora-chunk-size", "experts-shared-outer-loras", "uno-lora-path",
        "cpu-offload-gb", "offload", "ple-offload", "kt", "ep-num-redundant-experts", "ep-dispatch-algorithm",
        "init-expert-location", "enable-eplb", "eplb", "elastic-ep", "enable-elastic-expert-backup", "max-ep-size",
        "enable-paged-experts", "paged-experts", "startup-weight-load-mode", "custom-weight-loader",
        "remote-instance-weight-loader", "checkpoint-engine", "weight-cache", "modelexpress-config", "model-checksum",
        "decrypted-config-file", "decrypted-draft-config-file", "model-loader-extra-config", "enable-fp32-lm-head",
    ),
    Text("请求与应答会随之改变", "requests and answers change with it"): (
        "skip-tokenizer-init", "ssl", "enable-ssl-refresh", "fastapi-root-path", "enable-http2", "http2", "grpc",
        "sidecar", "smg-grpc-mode", "smg-http-sidecar-port", "enable-http-worker-reuseport",
        "incremental-streaming-output", "enable-priority-scheduling", "enable-watermark", "watermark-config",
        "enable-return-indexer-topk", "enable-return-hidden-states", "return-hidden-states-mode",
        "enable-return-aux-hidden-states", "return-aux-hidden-state-layer-ids", "rl-on-policy-target",
    ),
    Text("投机采样的草稿模型也要启动和更新", "speculative decoding has a draft to start and to update"): (
        "speculative", "decoupled-spec", "spec-trace-dir", "enable-multi-layer-eagle", "dllm",
    ),
    Text("prefill 与 decode 引擎要成对启动", "prefill and decode engines are started as a pair"): (
        "disaggregation", "num-reserved-decode-tokens", "optimistic-prefill-attempts", "enable-pdmux", "pdmux",
        "enable-pd-role-switch", "mooncake-ib-device",
    ),
    Text("编码器是另一种引擎", "an encoder is an engine of its own"): (
        "encoder", "language-only", "language-model-only", "enable-adaptive-dispatch-to-encoder",
    ),
    Text("引擎之外的前缀缓存不会随权重更新失效", "cached prefixes outside the engine outlive a weight update"): (
        "hicache", "radix-cache-backend", "enable-unified-cache-external-linker", "unified-cache-external-linker",
        "enable-lmcache", "lmcache-config-file", "enable-flexkv", "flexkv-config-file", "enable-linker-mla-dedup",
        "enable-hisparse", "hisparse-config", "enable-session-radix-cache", "enable-streaming-session",
    ),
}  # fmt: skip


def takes_part(name: str) -> Text | None:
    """What of the runtime has to take part when an argument is given; None when it is merely passed on.

    Args:
        name: of the argument, without dashes in front.
    """
    for part, beginnings in _TAKES_PART.items():
        if any(name == one or name.startswith(one + "-") for one in beginnings):
            return part
    return None
