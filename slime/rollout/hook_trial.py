"""Tries a hook on a small made-up round, without engine, trainer or data: the contract test of `slime hooks check`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from slime.config import Config
from slime.data.prompts import Prompt, PromptDataset
from slime.data.sample import Sample, Status
from slime.data.source import PromptSource
from slime.rollout import hook_results
from slime.rollout.client import GenerateClient, Generation, SamplingParams
from slime.rollout.context import CustomRunner
from slime.rollout.filters import decision
from slime.rollout.hook_call import HookFunction
from slime.rollout.hook_results import shown
from slime.rollout.hook_set import HookSet
from slime.rollout.runner import RunnerOptions
from slime.rollout.served import serve
from slime.rollout.text import TextTools

LOG_PROB = -0.5


@dataclass(frozen=True)
class Trial:
    """What hooks are tried on.

    Attributes:
        config: what they get as `args`.
        text: ids to text and back.
        prompt, label: of the samples.
        response: what the engine answers to every request.
    """

    config: Config
    text: TextTools
    prompt: str = "1+1="
    label: str = "2"
    response: str = "2"

    def run(self, hook: HookFunction) -> str:
        """Call `hook` as a run would, and check what it returns.

        Returns:
            What was seen, one line.

        Raises:
            HookError: it does not meet its contract.
        """
        attempt = ATTEMPTS.get(hook.hook.name)
        if attempt is None:
            return "signature fits; it is called in the trainer, so it is not tried here"
        with serve(EveryModel(self)):
            return asyncio.run(attempt(self, hook))

    def source(self) -> PromptSource:
        """An endless source of the prompt."""
        prompt = Prompt(self.prompt, self.text.encode(self.prompt), self.label, {})
        return PromptSource(PromptDataset([prompt], "trial"), self.config.n_samples_per_prompt)

    def group(self, reward: float | None = 1.0) -> list[Sample]:
        """A finished group; the last sample has reward 0, so that it teaches something."""
        (group,) = self.source().get_groups(1)
        ids = self.text.encode(self.response)
        for sample in group:
            sample.append_response_tokens(ids, [LOG_PROB] * len(ids), text=self.response, weight_version="1")
            sample.status, sample.reward, sample.verdict = Status.COMPLETED, reward, None if reward is None else "trial"
        if reward is not None:
            group[-1].reward = 0.0
        return group

    def runner(self, hooks: HookSet, path: str) -> CustomRunner:
        """A runner whose engine always gives `response`."""
        sampling = SamplingParams(max_new_tokens=self.config.rollout_max_response_len or 256)
        options = RunnerOptions(sampling, concurrency=8, rollout_seed=self.config.rollout_seed, max_attempts=1)
        return CustomRunner(ScriptedClient(self), self.text, options).bind(self.config, hooks, False, path)


@dataclass(frozen=True)
class ScriptedClient:
    """An engine that answers every request with the trial's response, cut at the request's limit."""

    trial: Trial

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        """The response; "length" if it is cut."""
        whole = self.trial.text.encode(self.trial.response)
        ids = whole[: sampling.max_new_tokens]
        return Generation(ids, [LOG_PROB] * len(ids), "stop" if len(ids) == len(whole) else "length", "1")

    async def abort(self, rid: str) -> None:
        """Nothing is ever in flight."""


class EveryModel(dict[str, GenerateClient]):
    """Served models of any name; each answers as the engine does."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self.trial = trial

    def __missing__(self, name: str) -> GenerateClient:
        return ScriptedClient(self.trial)


async def _generate(trial: Trial, hook: HookFunction) -> str:
    hooks = HookSet(replace(trial.config, custom_generate_function_path=hook.path))
    (group,) = trial.source().get_groups(1)
    pieces = await trial.runner(hooks, hook.path).run(group[0])
    if pieces[0].status is Status.ABORTED:
        raise hook.refuse("it gave up: no sample came back completed or truncated.", group[0].name())
    total = sum(piece.response_length for piece in pieces)
    trained = sum(piece.effective_response_length() for piece in pieces)
    return f"{group[0].name()}: {len(pieces)} piece(s), {total} response tokens, {trained} of them train"


async def _sample_hook(trial: Trial, hook: HookFunction) -> str:
    sample = trial.group(None)[0]
    found = await hook(
        sample.name(), hook_results.same_or_sample(sample), trial.config, sample, rollout_id=0, evaluation=False
    )
    found.check(graded=False)
    return f"{sample.name()}: response {shown(found.response)}"


async def _reward(trial: Trial, hook: HookFunction) -> str:
    sample = trial.group(None)[0]
    reward = await hook(sample.name(), hook_results.reward(trial.config.reward_key), trial.config, sample)
    return f"{sample.name()}: response {shown(sample.response)}, label {shown(sample.label)}: reward {reward}"


async def _group_reward(trial: Trial, hook: HookFunction) -> str:
    group = trial.group(None)
    check = hook_results.rewards(len(group), trial.config.reward_key)
    return f"{len(group)} samples: rewards {shown(await hook('group 0', check, trial.config, group))}"


async def _filter(trial: Trial, hook: HookFunction) -> str:
    found = hook.call("group 0", decision, trial.config, trial.group())
    return f"a group with rewards 1 and 0: {'kept' if found.keep else f'dropped ({found.reason})'}"


async def _buffer_filter(trial: Trial, hook: HookFunction) -> str:
    source = trial.source()
    source.add_groups(source.get_groups(3))
    buffer = list(source.buffer.groups)
    found = hook.call("rollout 0", hook_results.taken(2), trial.config, 0, buffer, 2)
    left = {id(group) for group in buffer}
    if any(id(group) in left for group in found):
        raise hook.refuse("it left a group that it returned in the buffer, which would be trained twice.", "rollout 0")
    return f"3 groups waiting, 2 asked for: {len(found)} taken, {len(buffer)} left"


async def _sample_filter(trial: Trial, hook: HookFunction) -> str:
    groups = [trial.group(), trial.group()]
    hook.call("rollout 0", hook_results.nothing, trial.config, groups)
    removed = sum(sample.remove_sample for group in groups for sample in group)
    return f"{removed} of {sum(map(len, groups))} samples are kept out of the loss"


async def _all_samples(trial: Trial, hook: HookFunction) -> str:
    hook.call("rollout 0", hook_results.nothing, trial.config, [trial.group()], trial.source())
    return "called with one group"


async def _post_process(trial: Trial, hook: HookFunction) -> str:
    samples = trial.group()
    raw, processed = hook.call("rollout 0", hook_results.post_processed(len(samples)), trial.config, samples)
    return f"raw rewards {shown(raw)}, advantages {shown(processed)}"


async def _convert(trial: Trial, hook: HookFunction) -> str:
    samples = trial.group()
    found = hook.call("rollout 0", hook_results.train_data(len(samples)), trial.config, samples)
    return f"{len(found['tokens'])} samples with {', '.join(found)}"


async def _data_source(trial: Trial, hook: HookFunction) -> str:
    source = hook.call("before the first round", hook_results.data_source, trial.config)
    groups = hook_results.groups(source.get_groups(2))
    size = trial.config.n_samples_per_prompt
    if len(groups) != 2 or any(len(group) != size for group in groups):
        sizes = [len(group) for group in groups]
        raise hook.refuse(f"get_groups(2) gave groups of {sizes}; 2 of {size} were due (--n-samples-per-prompt).")
    source.load_state_dict(source.state_dict())
    source.add_groups(groups)
    return f"2 groups of {size}, state saved and restored"


async def _rollout(trial: Trial, hook: HookFunction) -> str:
    return "signature fits; it needs engines, so it is not tried here"


async def _log(trial: Trial, hook: HookFunction) -> str:
    skip = hook.call("rollout 0", hook_results.truth, 0, trial.config, trial.group(), {"rollout/refills": 1.0}, 1.5)
    return f"the usual metrics are {'left out' if skip else 'made as well'}"


async def _eval_log(trial: Trial, hook: HookFunction) -> str:
    data = {"set": {"rewards": [1.0, 0.0], "truncated": [False, True], "samples": trial.group()[:2]}}
    skip = hook.call("rollout 0", hook_results.truth, 0, trial.config, data, {})
    return f"the usual metrics are {'left out' if skip else 'made as well'}"


ATTEMPTS: dict[str, Callable[[Trial, HookFunction], Coroutine[Any, Any, str]]] = {
    "custom-generate": _generate,
    "rollout-sample-hook": _sample_hook,
    "custom-rm": _reward,
    "custom-rm-group": _group_reward,
    "dynamic-filter": _filter,
    "buffer-filter": _buffer_filter,
    "rollout-sample-filter": _sample_filter,
    "rollout-all-samples-process": _all_samples,
    "custom-reward-post-process": _post_process,
    "custom-convert-samples-to-train-data": _convert,
    "data-source": _data_source,
    "rollout-log": _log,
    "eval-log": _eval_log,
    "rollout-function": _rollout,
    "eval-function": _rollout,
}
"""How each hook is tried."""
