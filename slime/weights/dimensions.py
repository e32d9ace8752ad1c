"""Dimensions of the decoders that the trainer can build: one dataclass a part. Sizes are in elements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Yarn:
    """YaRN scaling of rotary frequencies (Peng et al., arXiv:2309.00071), as DeepSeek-V3 writes it."""

    factor: float
    original_positions: int
    beta_fast: float
    beta_slow: float
    mscale: float
    mscale_all_dim: float


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding.

    Attributes:
        fraction: share of a head's channels that rotates, from its start.
        interleaved: channel 2i rotates with 2i + 1 (GLM-4); otherwise i with i + half.
        yarn: scaling of a latent-attention model.
        llama3_factor: Llama 3.1's scaling, with its own band limits 1 and 4 and 8192 original positions.
    """

    theta: float
    fraction: float = 1.0
    interleaved: bool = False
    yarn: Yarn | None = None
    llama3_factor: float | None = None


@dataclass(frozen=True)
class Experts:
    """Mixture of experts.

    Attributes:
        ffn, shared_ffn: width of one routed expert, and of the shared expert (0 = none).
        layers: zero-based indices of the layers that have experts; the others have a dense MLP.
        sigmoid: the router scores with a sigmoid and adds a correction bias for the choice; otherwise a softmax.
        normalised: the chosen experts' weights add up to 1 (times `scaling`).
        groups, chosen_groups: experts are chosen within the best `chosen_groups` of `groups` groups.
        gated_shared: a sigmoid gate scales the shared expert (Qwen3-Next, Qwen3.5).
    """

    count: int
    chosen: int
    ffn: int
    shared_ffn: int
    layers: tuple[int, ...]
    sigmoid: bool
    normalised: bool
    scaling: float = 1.0
    groups: int = 1
    chosen_groups: int = 1
    gated_shared: bool = False


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): ranks, and channels of a head by their role."""

    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int


@dataclass(frozen=True)
class Sparse:
    """DeepSeek sparse attention: an indexer chooses `topk` keys for each query.

    Attributes:
        computing: zero-based layers that run their own indexer; every other one uses the choice of the latest before.
    """

    topk: int
    heads: int
    head_dim: int
    computing: tuple[int, ...]


@dataclass(frozen=True)
class Linear:
    """Gated delta net (arXiv:2412.06464) in the layers `layers`; the others attend as usual."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    layers: tuple[int, ...]


@dataclass(frozen=True)
class HFModelConfig:
    """A decoder with SwiGLU and RMSNorm, as ``config.json`` of a Hugging Face checkpoint describes it.

    Attributes:
        family: `model_type`, one of `slime.weights.hf_config.SUPPORTED_FAMILIES`.
        prefix: what the names of the decoder's tensors begin with.
        untrained: prefixes of tensors that belong to no part of the decoder (vision tower, next-token heads). They are
            carried through a conversion unchanged.
        ffn: width of a dense MLP.
        groups: key-value heads; each serves ``heads / groups`` query heads.
        qkv_bias: the q, k and v projections have biases (Qwen2, GLM-4).
        qk_norm: RMSNorm over each head of q and k (Qwen3).
        sandwich_norms: RMSNorm also after attention and after the MLP (GLM-4).
        output_gate: a sigmoid gate, projected beside the query, scales attention's output (Qwen3-Next).
        zero_centred_norms: norms multiply by 1 + weight (Qwen3-Next).
        fused_gate_up: the checkpoint stores one tensor ``gate_up_proj`` (GLM-4).
        latent_norm_eps: of the norms inside latent attention; transformers leaves it at 1e-6 whatever `rms_norm_eps`.
        mtp_available: layers of multi-token prediction that the checkpoint has.
        mtp: how many of them the model has, and trains; see `slime.weights.mtp`.
        dtype: of the stored weights, one of `slime.weights.hf_config.DTYPES`.
    """

    family: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    groups: int
    head_dim: int
    vocab: int
    max_positions: int
    rope: Rope
    norm_eps: float
    tied_embeddings: bool
    qkv_bias: bool
    qk_norm: bool
    dtype: str
    prefix: str = "model."
    untrained: tuple[str, ...] = ()
    sandwich_norms: bool = False
    output_gate: bool = False
    zero_centred_norms: bool = False
    fused_gate_up: bool = False
    latent_norm_eps: float = 1e-6
    experts: Experts | None = None
    latent: Latent | None = None
    sparse: Sparse | None = None
    linear: Linear | None = None
    mtp_available: int = 0
    mtp: int = 0
