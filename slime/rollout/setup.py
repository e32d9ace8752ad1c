"""From the flags to what generation needs: the tokenizer, the prompts, the hooks, and how to sample and grade."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slime.config import Config
from slime.config.serving_groups import generating_engines
from slime.data.batch import BatchOptions
from slime.data.buffer import BufferFilter, Group, oldest_first, stalest_first
from slime.data.chat_template import ChatTemplateError, use_template
from slime.data.routes import route_shape
from slime.data.source import DataSource
from slime.rollout import hook_results
from slime.rollout.client import RouteRequest, SamplingParams
from slime.rollout.data_setup import batch_options, held_out_prompts, prompt_source, training_prompts
from slime.rollout.errors import SetupError
from slime.rollout.eval_sets import HeldOut, eval_sets
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
    source, notes = _source(config, tokenizer, hooks, number, stops.token_ids)
    held_out = tuple(
        HeldOut(one, held_out_prompts(config, tokenizer, one), tuple(sorted({*stops.token_ids, *one.stop_token_ids})))
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
        batch=batch_options(config, hooks),
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
    if config.chat_template_path is not None:
        try:
            use_template(tokenizer, config.chat_template_path)
        except ChatTemplateError as error:
            raise TokenizerError(str(error)) from error
    return tokenizer


def _source(
    config: Config,
    tokenizer: PreTrainedTokenizerBase,
    hooks: HookSet,
    number: RoundNumber,
    stop_token_ids: tuple[int, ...],
) -> tuple[DataSource, list[str]]:
    """The prompts to train on, and what to say about them."""
    if (own := hooks.one("data-source")) is not None:
        source: DataSource = own.call("before the first round", hook_results.data_source, config)
        return source, [f"prompts come from --data-source-path {own.path}"]
    dataset = training_prompts(config, tokenizer, stop_token_ids)
    prompts = prompt_source(config, dataset, _buffer_filter(config, hooks.one("buffer-filter"), number))
    return prompts, [*dataset.notes, f"{len(dataset)} prompts"]


def _buffer_filter(config: Config, hook: HookFunction | None, number: RoundNumber) -> BufferFilter:
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
            top_logprobs_num=config.score_centering_top_k if config.use_score_centering else 0,
            routes=_route_request(config),
        ),
        concurrency=config.sglang_server_concurrency * generating_engines(config),
        max_context_len=config.rollout_max_context_len,
        rollout_seed=config.rollout_seed,
        partial_rollout=config.partial_rollout,
        mask_offpolicy_in_partial_rollout=config.mask_offpolicy_in_partial_rollout,
    )


def _route_request(config: Config) -> RouteRequest | None:
    """--use-rollout-routing-replay: the engine says which experts it chose.

    Raises:
        HFConfigError: --hf-checkpoint has no config.json that can be read.
        RoutesError: its model has no experts.
    """
    if not config.use_rollout_routing_replay:
        return None
    from slime.weights.hf_config import read_config  # the one thing here that looks into a model

    return RouteRequest(route_shape(read_config(Path(config.hf_checkpoint))))


def _reward_options(config: Config) -> RewardOptions:
    if config.custom_rm_path and config.truncated_samples == "wrong":
        raise SetupError(
            f"--truncated-samples wrong is for built-in graders; {config.custom_rm_path} decides itself what a "
            "response that was cut is worth: sample.status is Status.TRUNCATED. Give grade or mask."
        )
    return RewardOptions(
        rm_type=config.rm_type or "",
        reward_key=config.reward_key,
        group_rm=config.group_rm,
        truncated_samples=config.truncated_samples,
        custom_rm_path=config.custom_rm_path,
    )
