"""What the model's dimensions are divided into: heads, layers, experts, FP8 blocks."""

from __future__ import annotations

from collections.abc import Iterator

from slime.config.engine_shape import EngineShape, engine_shape
from slime.config.layout import virtual_stages
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.model import Model
from slime.config.rule import Finding
from slime.config.validate.arithmetic import nearest_divisors

_TENSOR = "--tensor-model-parallel-size"
_PIPELINE = "--pipeline-model-parallel-size"
_ENGINE = "--rollout-num-gpus-per-engine"


def check_trainer_heads(inputs: Inputs) -> Iterator[Finding]:
    """Tensor parallelism of the trainer divides query heads and key-value heads."""
    if inputs.model is None:
        return
    size = inputs.config.tensor_model_parallel_size
    for noun, count in (
        ("attention heads", inputs.model.heads),
        ("key-value heads", None if inputs.model.is_latent else inputs.model.groups),
    ):
        if count and count % size:
            yield Finding(
                f"{_TENSOR} {size} does not divide the model's {count} {noun}: a rank would hold a part of a head",
                f"give {nearest_divisors(count, size)}",
                (_TENSOR,),
            )


def check_context_heads(inputs: Inputs) -> Iterator[Finding]:
    """Context parallelism that trades heads for parts of the sequence divides the heads of a tensor-parallel rank."""
    config, model = inputs.config, inputs.model
    ranks, tensor = config.context_parallel_size, config.tensor_model_parallel_size
    if model is None or ranks == 1 or config.cp_comm_type != "a2a":
        return
    for noun, count in (
        ("attention heads", model.heads),
        ("key-value heads", None if model.is_latent else model.groups),
    ):
        if count and count % tensor == 0 and (count // tensor) % ranks:
            yield Finding(
                f"--cp-comm-type a2a deals the {noun} of a rank, {count} / TP {tensor} = {count // tensor}, out over "
                f"--context-parallel-size {ranks}, which does not divide them",
                f"give --context-parallel-size {nearest_divisors(count // tensor, ranks)}, or --cp-comm-type p2p",
                ("--cp-comm-type", "--context-parallel-size"),
            )


def check_engine_heads(inputs: Inputs) -> Iterator[Finding]:
    """The engine's attention splits into whole heads."""
    model, config = inputs.model, inputs.config
    if model is None or config.rollout_external_engine_addrs:
        return
    shape = engine_shape(config)
    legal = [size for size in range(1, shape.gpus + 1) if not _broken_heads(model, size)]
    for noun, count in _broken_heads(model, shape.attention):
        copies = "" if shape.attention == shape.gpus else f" / --sglang-dp-size {config.sglang_dp_size}"
        yield Finding(
            f"the engine's attention is split over {shape.attention} GPUs ({_ENGINE} {shape.gpus}{copies}), which do "
            f"not divide the model's {count} {noun}",
            f"give engines of {_listed(legal)} GPUs, or copies of the attention: --sglang-enable-dp-attention "
            "--sglang-dp-size",
            (_ENGINE, "--sglang-dp-size"),
        )


def _broken_heads(model: Model, size: int) -> list[tuple[str, int]]:
    """Kinds of heads that ``size`` GPUs cannot share. Fewer key-value heads than GPUs are repeated, if evenly."""
    groups = None if model.is_latent else model.groups
    broken: list[tuple[str, int]] = []
    if model.heads and model.heads % size:
        broken.append(("attention heads", model.heads))
    if groups and groups % size and size % groups:
        broken.append(("key-value heads", groups))
    if model.vision_heads and model.vision_heads % size:
        broken.append(("attention heads of the vision tower", model.vision_heads))
    return broken


def check_fp8_blocks(inputs: Inputs) -> Iterator[Finding]:
    """The share of each MLP that a GPU of the engine holds is whole FP8 blocks."""
    model, config = inputs.model, inputs.config
    if model is None or model.fp8_block is None or config.rollout_external_engine_addrs:
        return
    shape = engine_shape(config)
    rows = model.fp8_block[0]
    for noun, width, size in _widths(model, shape):
        if not width or (width % size == 0 and (width // size) % rows == 0):
            continue
        legal = [one for one in _divisors(shape.gpus) if width % one == 0 and (width // one) % rows == 0]
        ways = f"split it over {_listed(legal)} GPUs" if legal else f"no split over {shape.gpus} GPUs fits"
        if noun == "each routed expert" and legal:
            ways += f": with {_ENGINE} {shape.gpus} that is --sglang-ep-size {shape.gpus // legal[-1]}"
        elif noun == "the shared expert":
            ways += "; with --sglang-moe-a2a-backend deepep each GPU keeps the whole of it"
        elif model.experts and noun == "the dense MLP":
            ways += ": --sglang-moe-dense-tp-size"
        yield Finding(
            f"{noun} is {width} wide, over {size} GPUs {width / size:g} each, which is not a multiple of the {rows} "
            "rows of "
            f"the FP8 blocks in {model.path.parent}: the engine would refuse the weights",
            ways,
            (_ENGINE, "--sglang-ep-size"),
        )


def _widths(model: Model, shape: EngineShape) -> Iterator[tuple[str, int | None, int]]:
    """(part, its width, the GPUs that share it) of every MLP that the model has."""
    if model.dense_layers:
        yield "the dense MLP", model.ffn, shape.dense
    if model.experts:
        yield "each routed expert", model.expert_ffn, shape.expert
        yield "the shared expert", model.shared_ffn, shape.shared


def check_pipeline_layers(inputs: Inputs) -> Iterator[Finding]:
    """Pipeline stages have whole layers, the same number in each stage of the middle."""
    if inputs.model is None or inputs.model.layers is None:
        return
    config, layers = inputs.config, inputs.model.layers
    size, first, last = (
        config.pipeline_model_parallel_size,
        config.decoder_first_pipeline_num_layers,
        config.decoder_last_pipeline_num_layers,
    )
    given = [one for one in (first, last) if one is not None]
    if given and size <= len(given):
        if size == 1 or sum(given) != layers:
            yield Finding(
                f"{_PIPELINE} {size} has no stage between the first and the last, and the layers given for them, "
                f"{' + '.join(map(str, given))}, are not the model's {layers}",
                "drop --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers",
                ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"),
            )
        return
    rest, stages = layers - sum(given), size - len(given)
    virtual = virtual_stages(config, layers)
    uneven = [one for one in given if one % virtual]
    if uneven:
        yield Finding(
            f"{uneven[0]} layers of the first or the last stage do not divide into the {virtual} virtual stages of a "
            "rank",
            f"give multiples of {virtual}",
            ("--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"),
        )
        return
    if rest <= 0 or rest % (stages * virtual):
        parts = f" x {virtual} virtual stages" if virtual > 1 else ""
        minus = f" - {' - '.join(map(str, given))} = {rest}" if given else ""
        ways = (
            f"give {_PIPELINE} {nearest_divisors(layers, size)}, or --decoder-last-pipeline-num-layers "
            f"{layers - layers // size * (size - 1)}"
            if not given and virtual == 1 and layers >= size
            else f"let these layers be a multiple of {stages * virtual}"
        )
        yield Finding(
            f"{_PIPELINE} {size} leaves {stages} stages{parts} that share {layers}{minus} layers, which do not divide "
            "evenly",
            ways,
            (_PIPELINE, "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers"),
        )


def check_experts(inputs: Inputs) -> Iterator[Finding]:
    """Expert parallelism of trainer and engine divides the experts."""
    model, config = inputs.model, inputs.config
    if model is None:
        return
    if model.experts is None:
        if config.expert_model_parallel_size > 1:
            yield Finding(
                f"--expert-model-parallel-size {config.expert_model_parallel_size}, and {model.path} states no experts",
                "give 1",
                ("--expert-model-parallel-size",),
            )
        return
    for flag, size in (
        ("--expert-model-parallel-size", config.expert_model_parallel_size),
        ("--sglang-ep-size", 1 if config.rollout_external_engine_addrs else engine_shape(config).expert_parallel),
    ):
        if model.experts % size:
            yield Finding(
                f"{flag} {size} does not divide the model's {model.experts} experts",
                f"give {nearest_divisors(model.experts, size)}",
                (flag,),
            )
    tensor = config.expert_tensor_parallel_size
    if model.expert_ffn and model.expert_ffn % tensor:
        yield Finding(
            f"--expert-tensor-parallel-size {tensor} does not divide the experts' width of {model.expert_ffn}",
            f"give {nearest_divisors(model.expert_ffn, tensor)}",
            ("--expert-tensor-parallel-size",),
        )


def check_load_balancing(inputs: Inputs) -> Iterator[Finding]:
    """Reinforcement learning of a mixture of experts has no auxiliary balancing loss."""
    config = inputs.config
    kind, weight = config.moe_router_load_balancing_type, config.moe_aux_loss_coeff
    if inputs.model is None or inputs.model.experts is None or kind in (None, "none") or weight in (None, 0):
        return
    yield Finding(
        f"--moe-router-load-balancing-type {kind} with --moe-aux-loss-coeff {weight} adds a loss that pulls the router "
        "away from the sampler's, and has ended runs in NaN gradients",
        "give --moe-router-load-balancing-type none",
        ("--moe-router-load-balancing-type", "--moe-aux-loss-coeff"),
    )


def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) if numbers else "none"
