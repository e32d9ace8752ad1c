"""From the flags to what generation needs: the tokenizer, the prompts, and how to sample and grade."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slime.config import Config
from slime.data.batch import BatchOptions
from slime.data.prompts import PromptDataset, PromptOptions, load_prompts
from slime.data.schedule import ScheduleOptions
from slime.data.source import PromptSource
from slime.rewards.graders import label_checker
from slime.rollout.client import SamplingParams
from slime.rollout.evaluate import EvalOptions
from slime.rollout.generate import RolloutOptions
from slime.rollout.runner import Decode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class TokenizerError(ValueError):
    """The tokenizer of --hf-checkpoint cannot be used; the message says why."""


@dataclass(frozen=True)
class RolloutSetup:
    """What the loop generates from.

    Attributes:
        source: prompts to train on, endless.
        evaluations: held-out prompts by the name that their metrics carry.
        decode: response ids to text.
        rollout: how a training round is generated.
        evaluation: how held-out prompts are answered.
        batch: how graded groups become training batches.
        notes: what a person should read about the data.
    """

    source: PromptSource
    evaluations: dict[str, PromptDataset]
    decode: Decode
    rollout: RolloutOptions
    evaluation: EvalOptions
    batch: BatchOptions
    notes: list[str]


def prepare(config: Config) -> RolloutSetup:
    """Load tokenizer and prompts.

    Raises:
        TokenizerError: --hf-checkpoint has no usable tokenizer, or no chat template when one is asked for.
        PromptFileError: a prompt file is unusable; see `load_prompts`.
    """
    tokenizer = load_tokenizer(config)
    read = functools.partial(_read, config, tokenizer)
    dataset = read(config.prompt_data, config.input_key, config.label_key)
    evaluations = {
        one.name: read(one.path, config.eval_input_key, config.eval_label_key) for one in config.eval_datasets
    }
    return RolloutSetup(
        source=PromptSource(dataset, config.n_samples_per_prompt, config.rollout_seed, config.rollout_shuffle),
        evaluations=evaluations,
        decode=functools.partial(tokenizer.decode, skip_special_tokens=True),
        rollout=_rollout_options(config),
        evaluation=_eval_options(config),
        batch=_batch_options(config),
        notes=[note for one in (dataset, *evaluations.values()) for note in one.notes],
    )


def load_tokenizer(config: Config) -> PreTrainedTokenizerBase:
    """The tokenizer in --hf-checkpoint; read from the folder alone, nothing is fetched and no code of it is run."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(config.hf_checkpoint, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise TokenizerError(f"--hf-checkpoint {config.hf_checkpoint} has no usable tokenizer: {error}") from error
    if config.apply_chat_template and not tokenizer.chat_template:
        raise TokenizerError(
            f"--apply-chat-template: the tokenizer in {config.hf_checkpoint} has no chat template; leave the flag out, "
            "or add chat_template.jinja to the folder"
        )
    return tokenizer


def _read(
    config: Config, tokenizer: PreTrainedTokenizerBase, path: str, input_key: str, label_key: str | None
) -> PromptDataset:
    def tokenize(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    def template(messages: list[dict[str, Any]]) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    chat_template: Callable[[list[dict[str, Any]]], str] | None = template if config.apply_chat_template else None
    return load_prompts(
        path,
        tokenize,
        PromptOptions(input_key, label_key, config.metadata_key, config.rollout_max_prompt_len),
        chat_template,
        label_checker(config.rm_type or ""),
        list(tokenizer.all_special_tokens),
    )


def _rollout_options(config: Config) -> RolloutOptions:
    return RolloutOptions(
        rollout_batch_size=config.rollout_batch_size,
        sampling=SamplingParams(
            max_new_tokens=config.rollout_max_response_len,
            temperature=config.rollout_temperature,
            top_p=config.rollout_top_p,
            top_k=config.rollout_top_k,
        ),
        rm_type=config.rm_type or "",
        concurrency=config.sglang_server_concurrency * config.num_engines,
        max_context_len=config.rollout_max_context_len,
    )


def _eval_options(config: Config) -> EvalOptions:
    return EvalOptions(
        sampling=SamplingParams(
            max_new_tokens=config.eval_max_response_len,
            temperature=config.eval_temperature,
            top_p=config.eval_top_p,
            top_k=config.eval_top_k,
        ),
        rm_type=config.rm_type or "",
        concurrency=config.sglang_server_concurrency * config.num_engines,
        n_samples=config.n_samples_per_eval_prompt,
    )


def _batch_options(config: Config) -> BatchOptions:
    return BatchOptions(
        ScheduleOptions(
            dp_size=config.data_parallel_size,
            global_batch_size=config.global_batch_size,
            max_tokens_per_gpu=config.max_tokens_per_gpu if config.use_dynamic_batch_size else None,
            context_parallel_size=config.context_parallel_size,
            micro_batch_size=config.micro_batch_size,
        ),
        normalize_std=not config.disable_grpo_std_normalization,
    )
