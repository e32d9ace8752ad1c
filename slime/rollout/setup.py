"""From the flags to what generation needs: the tokenizer, the prompts, the hooks, and how to sample and grade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slime.config import Config
from slime.data.batch import BatchOptions
from slime.data.buffer import Group, oldest_first, stalest_first
from slime.data.prompts import PromptDataset, PromptOptions, load_prompts
from slime.data.sample import Sample
from slime.data.schedule import ScheduleOptions
from slime.data.source import DataSource, PromptSource
from slime.rewards.graders import label_checker
from slime.rollout import hook_results
from slime.rollout.client import SamplingParams
from slime.rollout.errors import SetupError
from slime.rollout.eval_sets import EvalSet, HeldOut, eval_sets
from slime.rollout.grading import RewardOptions
from slime.rollout.hook_call import HookFunction
from slime.rollout.hook_set import HookSet
from slime.rollout.runner import RunnerOptions
from slime.rollout.stops import stop_set
from slime.rollout.text import TextTools, text_tools

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class TokenizerError(SetupError):
    """The tokenizer of --hf-checkpoint cannot be used; the message says why."""


@dataclass(slots=True)
class RoundNumber:
    """Number of the round that is generated, for hooks that the data source calls."""

    value: int = 0


@dataclass(frozen=True)
class RolloutSetup:
    """What the loop generates from.

    Attributes:
        config: the run's configuration.
        source: prompts to train on, endless.
        held_out: sets to evaluate on.
        text: ids to text and back.
        hooks: the user's functions.
        runner: how a response is sampled.
        rewards: how it is graded.
        batch: how graded groups become training batches.
        notes: what a person should read about the data.
        round: number of the round that is generated.
    """

    config: Config
    source: DataSource
    held_out: tuple[HeldOut, ...]
    text: TextTools
    hooks: HookSet
    runner: RunnerOptions
    rewards: RewardOptions
    batch: BatchOptions
    notes: list[str]
    round: RoundNumber


def prepare(config: Config) -> RolloutSetup:
    """Load tokenizer, prompts and hooks.

    Raises:
        SetupError: --hf-checkpoint has no usable tokenizer, or no chat template when one is asked for; --eval-config or
            a hook is unusable.
        PromptFileError: a prompt file is unusable; see `load_prompts`.
    """
    hooks = HookSet(config)
    sets = eval_sets(config)
    tokenizer = load_tokenizer(config)
    stops = stop_set(tokenizer, config.hf_checkpoint, config.apply_chat_template, config.rollout_stop_token_ids or ())
    number = RoundNumber()
    source, notes = _source(config, tokenizer, hooks, number)
    held_out = tuple(
        HeldOut(one, _read_held_out(config, tokenizer, one), tuple(sorted({*stops.token_ids, *one.stop_token_ids})))
        for one in sets
    )
    return RolloutSetup(
        config=config,
        source=source,
        held_out=held_out,
        text=text_tools(tokenizer, config.rollout_skip_special_tokens, stops.token_ids),
        hooks=hooks,
        runner=_runner_options(config, stops.token_ids),
        rewards=_reward_options(config),
        batch=_batch_options(config, hooks),
        notes=[*notes, *(note for one in held_out for note in one.dataset.notes), stops.note(tokenizer)],
        round=number,
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


def _source(
    config: Config, tokenizer: PreTrainedTokenizerBase, hooks: HookSet, number: RoundNumber
) -> tuple[DataSource, list[str]]:
    """The prompts to train on, and what to say about them."""
    if (own := hooks.one("data-source")) is not None:
        source: DataSource = own.call("before the first round", hook_results.data_source, config)
        return source, [f"prompts come from --data-source-path {own.path}"]
    options = PromptOptions(config.input_key, config.label_key, config.metadata_key, config.rollout_max_prompt_len)
    kwargs = dict(config.apply_chat_template_kwargs or {})
    template = _template(tokenizer, kwargs) if config.apply_chat_template else None
    # A function of the user's makes of the label what it likes.
    rm_type = None if config.custom_rm_path else config.rm_type or ""
    dataset = _read(config.prompt_data, tokenizer, options, template, rm_type)
    prompts = PromptSource(
        dataset,
        config.n_samples_per_prompt,
        config.rollout_seed,
        config.rollout_shuffle,
        _buffer_filter(config, hooks.one("buffer-filter"), number),
    )
    return prompts, [*dataset.notes, f"{len(dataset)} prompts"]


def _read_held_out(config: Config, tokenizer: PreTrainedTokenizerBase, one: EvalSet) -> PromptDataset:
    options = PromptOptions(one.input_key, one.label_key, one.metadata_key, one.max_prompt_len)
    template = _template(tokenizer, one.apply_chat_template_kwargs) if one.apply_chat_template else None
    return _read(one.path, tokenizer, options, template, None if one.custom_rm_path else one.rm_type or "")


def _read(
    path: str,
    tokenizer: PreTrainedTokenizerBase,
    options: PromptOptions,
    template: Callable[[list[dict[str, Any]]], str] | None,
    rm_type: str | None,
) -> PromptDataset:
    def tokenize(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    check = None if rm_type is None else label_checker(rm_type)
    return load_prompts(path, tokenize, options, template, check, list(tokenizer.all_special_tokens))


def _template(tokenizer: PreTrainedTokenizerBase, kwargs: dict[str, Any]) -> Callable[[list[dict[str, Any]]], str]:
    def template(messages: list[dict[str, Any]]) -> str:
        return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **kwargs))

    return template


def _buffer_filter(
    config: Config, hook: HookFunction | None, number: RoundNumber
) -> Callable[[list[Group], int], list[Group]]:
    if hook is None:
        return stalest_first if config.buffer_sort_by_staleness else oldest_first

    def choose(buffer: list[Group], count: int) -> list[Group]:
        subject = f"rollout {number.value}"
        found: list[Group] = hook.call(subject, hook_results.taken(count), config, number.value, buffer, count)
        return found

    return choose


def _runner_options(config: Config, stop_token_ids: tuple[int, ...]) -> RunnerOptions:
    return RunnerOptions(
        sampling=SamplingParams(
            max_new_tokens=config.rollout_max_response_len,
            temperature=config.rollout_temperature,
            top_p=config.rollout_top_p,
            top_k=config.rollout_top_k,
            stop=config.rollout_stop or (),
            stop_token_ids=stop_token_ids,
            skip_special_tokens=config.rollout_skip_special_tokens,
            banned_token_ids=config.rollout_banned_token_ids or (),
        ),
        concurrency=config.sglang_server_concurrency * config.num_engines,
        max_context_len=config.rollout_max_context_len,
        rollout_seed=config.rollout_seed,
        partial_rollout=config.partial_rollout,
        mask_offpolicy_in_partial_rollout=config.mask_offpolicy_in_partial_rollout,
    )


def _reward_options(config: Config) -> RewardOptions:
    return RewardOptions(
        rm_type=config.rm_type or "",
        reward_key=config.reward_key,
        group_rm=config.group_rm,
        truncated_samples=config.truncated_samples,
        custom_rm_path=config.custom_rm_path,
    )


def _batch_options(config: Config, hooks: HookSet) -> BatchOptions:
    post_process, convert = hooks.one("custom-reward-post-process"), hooks.one("custom-convert-samples-to-train-data")

    def post_processed(samples: list[Sample]) -> tuple[list[float], list[float]]:
        assert post_process is not None
        check = hook_results.post_processed(len(samples))
        found: tuple[list[float], list[float]] = post_process.call(_subject(samples), check, config, samples)
        return found

    def converted(samples: list[Sample]) -> dict[str, Any]:
        assert convert is not None
        check = hook_results.train_data(len(samples))
        found: dict[str, Any] = convert.call(_subject(samples), check, config, samples)
        return found

    return BatchOptions(
        ScheduleOptions(
            dp_size=config.data_parallel_size,
            global_batch_size=config.global_batch_size,
            max_tokens_per_gpu=config.max_tokens_per_gpu if config.use_dynamic_batch_size else None,
            context_parallel_size=config.context_parallel_size,
            micro_batch_size=config.micro_batch_size,
        ),
        normalize_std=not config.disable_grpo_std_normalization,
        estimator=config.advantage_estimator,
        normalize=not config.disable_rewards_normalization,
        reward_key=config.reward_key,
        supervised=config.loss_type == "sft_loss",
        post_process=None if post_process is None else post_processed,
        convert=None if convert is None else converted,
    )


def _subject(samples: list[Sample]) -> str:
    return f"all {len(samples)} samples of a round, from {samples[0].name()}"
