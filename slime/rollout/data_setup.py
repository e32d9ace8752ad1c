"""From the flags to the data of a run: chat template, prompt files, the source, and how samples become batches."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from slime.config import Config
from slime.data.batch import BatchOptions, Convert, PostProcess
from slime.data.buffer import BufferFilter
from slime.data.chat_template import ChatTemplate, ChatTemplateError
from slime.data.flops import CostError, SequenceCost, read_sequence_cost
from slime.data.prompts import PromptDataset, PromptOptions, load_prompts
from slime.data.sample import Sample
from slime.data.schedule import ScheduleOptions
from slime.data.source import PromptSource
from slime.data.supervised import load_conversations
from slime.rewards.graders import label_checker
from slime.rollout import hook_results
from slime.rollout.errors import SetupError
from slime.rollout.eval_sets import EvalSet
from slime.rollout.hook_set import HookSet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def chat_template(
    config: Config,
    tokenizer: PreTrainedTokenizerBase,
    stop_token_ids: tuple[int, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
) -> ChatTemplate:
    """The tokenizer's template, with --apply-chat-template-kwargs or `kwargs`.

    Raises:
        SetupError: there is no template, or an argument is not for it.
    """
    try:
        own = config.apply_chat_template_kwargs if kwargs is None else kwargs
        return ChatTemplate(tokenizer, own, stop_token_ids)
    except ChatTemplateError as error:
        raise SetupError(str(error)) from error


def training_prompts(
    config: Config, tokenizer: PreTrainedTokenizerBase, stop_token_ids: tuple[int, ...]
) -> PromptDataset:
    """The prompts of --prompt-data, or with --loss-type sft_loss its conversations.

    Raises:
        PromptFileError: the file is unusable; see `load_prompts` and `load_conversations`.
        SetupError: see `chat_template`.
    """
    options = PromptOptions(
        config.input_key,
        config.label_key,
        config.metadata_key,
        config.rollout_max_prompt_len,
        config.tool_key,
        keep_messages=config.custom_generate_function_path is not None,
    )
    if config.loss_type == "sft_loss":
        template = chat_template(config, tokenizer, stop_token_ids)
        return load_conversations(config.prompt_data, template, options, config.rollout_max_context_len)
    template_or_none = chat_template(config, tokenizer, stop_token_ids) if config.apply_chat_template else None
    # A function of the user's makes of the label what it likes.
    rm_type = None if config.custom_rm_path else config.rm_type or ""
    return _read(config.prompt_data, tokenizer, options, template_or_none, rm_type)


def held_out_prompts(config: Config, tokenizer: PreTrainedTokenizerBase, one: EvalSet) -> PromptDataset:
    """The prompts of an evaluation set; raises as `training_prompts` does."""
    keep = one.custom_generate_function_path is not None
    options = PromptOptions(
        one.input_key, one.label_key, one.metadata_key, one.max_prompt_len, one.tool_key, keep_messages=keep
    )
    template = None
    if one.apply_chat_template:
        template = chat_template(config, tokenizer, kwargs=one.apply_chat_template_kwargs)
    return _read(one.path, tokenizer, options, template, None if one.custom_rm_path else one.rm_type or "")


def prompt_source(config: Config, dataset: PromptDataset, buffer_filter: BufferFilter) -> PromptSource:
    """The stream of groups over the prompts."""
    return PromptSource(
        dataset, config.n_samples_per_prompt, config.rollout_seed, config.rollout_shuffle, buffer_filter
    )


def batch_options(config: Config, hooks: HookSet) -> BatchOptions:
    """How graded groups become batches.

    Raises:
        SetupError: ranks are to be balanced by operations, and the checkpoint does not say the model's dimensions.
    """
    balanced = config.balance_data or config.balance_by_flops
    try:
        cost = read_sequence_cost(config.hf_checkpoint) if balanced else SequenceCost()
    except CostError as error:
        raise SetupError(str(error)) from error
    dynamic = config.use_dynamic_batch_size
    schedule = ScheduleOptions(
        dp_size=config.data_parallel_size,
        global_batch_size=config.global_batch_size,
        max_tokens_per_gpu=config.max_tokens_per_gpu if dynamic else None,
        context_parallel_size=config.context_parallel_size,
        micro_batch_size=config.micro_batch_size,
        log_probs_max_tokens_per_gpu=config.log_probs_max_tokens_per_gpu if dynamic else None,
        balance_data=config.balance_data,
        balance_by_flops=config.balance_by_flops,
        cost=cost,
        micro_batch_multiple=config.micro_batch_group,
    )
    supervised = config.loss_type == "sft_loss"
    return BatchOptions(
        schedule,
        normalize_std=not config.disable_grpo_std_normalization,
        estimator=config.advantage_estimator,
        normalize=not (config.disable_rewards_normalization or supervised),
        reward_key=config.reward_key,
        supervised=supervised,
        post_process=_post_process(config, hooks),
        convert=_convert(config, hooks),
    )


def _read(
    path: str,
    tokenizer: PreTrainedTokenizerBase,
    options: PromptOptions,
    template: ChatTemplate | None,
    rm_type: str | None,
) -> PromptDataset:
    def tokenize(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    render = None if template is None else partial(template.render, add_generation_prompt=True)
    check = None if rm_type is None else label_checker(rm_type)
    return load_prompts(path, tokenize, options, render, check, list(tokenizer.all_special_tokens))


def _post_process(config: Config, hooks: HookSet) -> PostProcess | None:
    hook = hooks.one("custom-reward-post-process")
    if hook is None:
        return None

    def call(samples: list[Sample]) -> tuple[list[float], list[float]]:
        check = hook_results.post_processed(len(samples))
        found: tuple[list[float], list[float]] = hook.call(_subject(samples), check, config, samples)
        return found

    return call


def _convert(config: Config, hooks: HookSet) -> Convert | None:
    hook = hooks.one("custom-convert-samples-to-train-data")
    if hook is None:
        return None

    def call(samples: list[Sample]) -> dict[str, Any]:
        found: dict[str, Any] = hook.call(_subject(samples), hook_results.train_data(len(samples)), config, samples)
        return found

    return call


def _subject(samples: list[Sample]) -> str:
    return f"all {len(samples)} samples of a round, from {samples[0].name()}"
