"""What a person should know of a run that is about to start: sizes, lengths, where it starts, one prompt as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slime.config.config import Config
from slime.config.earlier_steps import first_round
from slime.config.preflight.inputs import Inputs
from slime.config.preflight.start import initial_weights, saved_round
from slime.config.preflight.template import TemplateProblem
from slime.config.validate.arithmetic import counted

_SHOWN = 300


def notes(inputs: Inputs, levels: Sequence[str]) -> list[str]:
    """One line each, for the levels that were looked at."""
    found: list[str] = []
    if "cfg" in levels:
        found.extend(_sizes(inputs.config))
    if "data" in levels:
        found.extend(_prompts(inputs))
    if "host" in levels:
        found.extend(_start(inputs))
    return found


def _sizes(config: Config) -> Iterator[str]:
    expert = (
        config.expert_tensor_parallel_size * config.expert_model_parallel_size * config.pipeline_model_parallel_size
    )
    experts = f", expert DP {config.train_gpus // expert}" if config.expert_model_parallel_size > 1 else ""
    yield (
        f"{counted(config.train_gpus, 'training GPU')} / {config.model_parallel_size} per copy = "
        f"DP {config.data_parallel_size}{experts}; {counted(config.num_engines, 'engine')} of "
        f"{counted(config.rollout_num_gpus_per_engine, 'GPU')}"
    )


def _prompts(inputs: Inputs) -> Iterator[str]:
    for file in inputs.prompts:
        if not file.columns:
            continue
        lengths = file.lengths
        counted = ""
        if lengths:
            half, most = lengths[len(lengths) // 2], lengths[int(0.99 * (len(lengths) - 1))]
            counted = f", half of them up to {half} tokens, 99% up to {most}, the longest {lengths[-1]}"
        yield f"{file.flag}: {len(file.rows)} prompts{counted}"
    first = inputs.prompts[0]
    if first.columns:
        try:
            text = first.rendered(first.columns[0])
        except TemplateProblem:
            return
        yield f"the first prompt as the model sees it: {text[:_SHOWN]!r}" + ("..." if len(text) > _SHOWN else "")


def _start(inputs: Inputs) -> Iterator[str]:
    config, saved = inputs.config, saved_round(inputs)
    first, source = first_round(config, saved), initial_weights(inputs)
    if saved is not None:
        left = max(config.num_rollout - first, 0)
        at = f" at round {first}" if first != saved + 1 else ""
        yield f"continues {config.load} after round {saved}{at}: {left} of {config.num_rollout} rounds are left"
    elif source is not None:
        yield f"starts at round {first} from {source}"
