"""The shape of the fact files: what a model is, what a recipe is, which container images exist.

One class per YAML mapping. Unknown keys are refused, types are strict (a number in quotes is text, `true` is not 1),
and every object is frozen. Numbers that must not be rounded (learning rates, betas) are decimal text from end to end.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, Strict, StringConstraints

FORMS = {
    r"^[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$": 'a decimal number of at least 0 in quotes, such as "1e-6" or "0.95"',
    r"^--[a-z0-9]+(-[a-z0-9]+)*$": "a flag: two dashes, then lower-case words joined by dashes",
    r"^[a-z0-9]+([.-][a-z0-9]+)*$": "lower-case letters and digits, joined by single dots or dashes",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a variable name: letters, digits and underscores, no digit first",
    r"^[0-9a-f]{7,40}$": "a commit: 7 to 40 hexadecimal digits",
}
"""Every pattern of this module and what to say when a value does not match it."""
_DECIMAL, _FLAG, _IDENTIFIER, _VARIABLE, _COMMIT = FORMS

Decimal = Annotated[str, StringConstraints(pattern=_DECIMAL)]
"""A non-negative decimal number kept as text, for example "1e-6"."""
FlagName = Annotated[str, StringConstraints(pattern=_FLAG)]
Identifier = Annotated[str, StringConstraints(pattern=_IDENTIFIER)]
EnvironmentName = Annotated[str, StringConstraints(pattern=_VARIABLE)]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Text = Annotated[str, StringConstraints(min_length=1)]


class FactModel(BaseModel):
    """Base of all fact classes: closed, strict and immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, serialize_by_alias=True)


class Words(FactModel):
    """The same sentence in both languages of the site."""

    zh: Text
    en: Text


class Source(FactModel):
    """Where a number comes from: a page, or a file of a repository at a commit."""

    title: Text
    url: Text
    path: Text | None = None
    commit: Annotated[str, StringConstraints(pattern=_COMMIT)] | None = None


class Moe(FactModel):
    """The mixture-of-experts part. `dense_layers` come first, `moe_layers` follow."""

    dense_layers: Natural
    moe_layers: Positive
    experts: Positive
    topk: Positive
    expert_ffn: Positive
    shared_ffn: Natural
    groups: Positive | None
    topk_groups: Positive | None
    router_scale: Decimal
    router_score: Literal["sigmoid", "softmax"]
    expert_bias: bool


class Mla(FactModel):
    """Multi-head latent attention: low-rank sizes and the widths of one head."""

    q_lora: Positive
    kv_lora: Positive
    qk_nope: Positive
    qk_rope: Positive
    v_head: Positive
    rope_scaling: Positive | None


class Dsa(FactModel):
    """DeepSeek sparse attention with an index shared across layers.

    Layers 1 to `index_offset` compute their own index; after them every `index_frequency`-th layer does, and the
    layers between reuse it. A pipeline stage must therefore begin on a layer that computes.
    """

    index_frequency: Positive
    index_offset: Positive
    index_heads: Positive
    index_dim: Positive


class Hybrid(FactModel):
    """Linear-attention layers next to full-attention layers.

    A linear layer keeps one matrix of `key_dim` x `value_dim` for each of its `value_heads`, and the last
    `conv_kernel` - 1 inputs of its convolution. `gated` says that full attention has an output gate as wide as its
    queries.
    """

    linear_kind: Text
    linear_layers: Positive
    attention_layers: Positive
    key_heads: Positive
    value_heads: Positive
    key_dim: Positive
    value_dim: Positive
    conv_kernel: Positive
    gated: bool
    state_dtype: Literal["float32", "bfloat16"]


class ModelFile(FactModel):
    """One architecture: `recipes/models/<id>.yaml`. Sizes are counts of elements.

    `max_positions` is the context that the checkpoint states; null where its file was not read. `vocab_divisor` is what
    the trainer pads the vocabulary to a multiple of, times TP; 1 is no padding. `sandwich_norm`: norms after attention
    and MLP too.
    """

    id: Identifier
    display: Text
    hf_repo: Text | None
    hf_model_type: Text
    layers: Positive
    hidden: Positive
    ffn: Positive
    heads: Positive
    kv_groups: Positive | None
    head_dim: Positive
    vocab: Positive
    vocab_divisor: Positive
    max_positions: Positive | None
    rope_base: Positive
    rotary_percent: Decimal
    norm_eps: Decimal
    tied_embeddings: bool
    qk_norm: bool
    qkv_bias: bool
    sandwich_norm: bool
    parameters_billion: Positive | Decimal
    attention: Literal["gqa", "mla", "mla-dsa", "hybrid"]
    moe: Moe | None
    mla: Mla | None
    dsa: Dsa | None
    hybrid: Hybrid | None
    mtp_layers: Natural
    sources: Annotated[tuple[Source, ...], Strict(False), Field(min_length=1)]


class Parallel(FactModel):
    """Training parallelism. The stage lengths are null when the layers divide evenly."""

    tp: Positive
    pp: Positive
    cp: Positive
    ep: Positive
    etp: Positive
    sequence_parallel: bool
    first_stage_layers: Positive | None
    last_stage_layers: Positive | None


class Engine(FactModel):
    """One serving engine: its GPUs, its data-parallel ranks, its expert parallelism (0: the flag is not given)."""

    gpus: Positive
    dp: Positive
    ep: Natural


class Batch(FactModel):
    """One rollout: `prompts` x `samples` answers, trained in steps of `global`."""

    prompts: Positive
    samples: Positive
    global_: Positive = Field(alias="global")


class Optimizer(FactModel):
    """Adam. Decimal values are text, so that no host rounds them."""

    lr: Decimal
    warmup_steps: Natural
    weight_decay: Decimal
    beta1: Decimal
    beta2: Decimal


class Defaults(FactModel):
    """Choices that choosing this recipe sets. `precision: null` leaves the precision as it was."""

    cpuAdam: bool
    recompute: bool
    precision: Literal["bf16", "fp8", "fp8train", "int4"] | None
    kv: Literal["auto", "fp8"]
    specSteps: Annotated[int, Field(ge=1, le=8)]
    rounds: Annotated[int, Field(ge=1, le=100_000)]
    response: Annotated[int, Field(ge=8, le=131_072)]
    concurrency: Annotated[int, Field(ge=1, le=8192)]
    hf: Text
    train: Text
    data: Text
    save: Text


class Evaluation(FactModel):
    """Held-out evaluation during training. `interval` counts rollouts; 0 is none."""

    interval: Natural
    data: Text | None
    samples: Natural


class ExtraFlag(FactModel):
    """A flag that only this recipe needs. `value: null` is a switch."""

    flag: FlagName
    value: Text | None
    why: Words


class Conversion(FactModel):
    """Parallelism of the checkpoint conversion. All null: the conversion tool decides by itself."""

    nodes: Positive
    tp: Positive | None
    pp: Positive | None
    ep: Positive | None
    etp: Positive | None
    first_stage_layers: Positive | None
    last_stage_layers: Positive | None


class EnvironmentValue(FactModel):
    """A variable that the job's processes get."""

    value: str
    why: Words


class Dataset(FactModel):
    """The training prompts on the Hugging Face Hub; null: made locally."""

    hf_repo: Text | None


class Deviation(FactModel):
    """A value of this file that differs from its source recipe, and why.

    `key` is a dotted key of the file, a flag (`--name`) that the source gives and this recipe leaves out or gives
    otherwise, or `environment` for the source's variables that it leaves out.
    """

    key: Text
    source_value: str | int | bool | None
    reason: Words


class LaunchFile(FactModel):
    """One recipe: `recipes/launch/<id>.yaml`.

    The pipeline split is stated once, in `parallel`, and becomes `--decoder-first/last-pipeline-num-layers`;
    `training_flags` and `serving_flags` hold what no other key of this file says.
    """

    id: Identifier
    position: Positive
    legacy: Identifier | None
    model: Identifier
    display: Text
    size: Text
    device: Literal["cuda", "cpu"]
    hf_repo: Text | None
    nodes: Annotated[int, Field(ge=1, le=512)]
    gpus_per_node: Positive
    parallel: Parallel
    engine: Engine
    max_tokens_per_gpu: Positive
    batch: Batch
    optimizer: Optimizer
    reward: Literal["deepscaler", "math"]
    defaults: Defaults
    evaluation: Evaluation
    training_flags: Annotated[tuple[ExtraFlag, ...], Strict(False)]
    serving_flags: Annotated[tuple[ExtraFlag, ...], Strict(False)]
    conversion: Conversion
    environment: dict[EnvironmentName, EnvironmentValue]
    published_precision: Literal["bf16", "fp8", "fp32"]
    dataset: Dataset
    deviations: Annotated[tuple[Deviation, ...], Strict(False)]
    sources: Annotated[tuple[Source, ...], Strict(False), Field(min_length=1)]


class Image(FactModel):
    """One container image and the hardware that it is built for; `devices` is how docker hands the GPUs over."""

    id: Identifier
    reference: Text | None
    toolkit: Text
    architecture: Literal["x86_64", "aarch64"]
    gpus: Annotated[tuple[Text, ...], Strict(False), Field(min_length=1)]
    devices: Text
    rolling: bool
    note: Words


class Component(FactModel):
    """A library that the images pin."""

    name: Text
    version: Text | None
    commit: Text | None


class ImagesFile(FactModel):
    """Container images: `recipes/images.yaml`."""

    run_options: Annotated[tuple[Text, ...], Strict(False)]
    images: Annotated[tuple[Image, ...], Strict(False), Field(min_length=1)]
    components: Annotated[tuple[Component, ...], Strict(False)]
    sources: Annotated[tuple[Source, ...], Strict(False), Field(min_length=1)]
