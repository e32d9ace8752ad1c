"""The rounds and evaluations of one run: the rollout function that the flags name, its result checked and measured."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from slime.config.serving_groups import DEFAULT_MODEL, generating_engines
from slime.data.sample import Sample, SampleError
from slime.data.source import saved_groups
from slime.observability.evaluation import EvalScores, eval_scores
from slime.observability.metrics import MetricOptions, Metrics, rollout_metrics, speed_metrics
from slime.rollout.client import GenerateClient
from slime.rollout.evaluate import evaluate_sets
from slime.rollout.grading import Grader
from slime.rollout.hook_results import ResultError, groups, shown, truth
from slime.rollout.machinery import Machinery
from slime.rollout.outputs import RolloutFnEvalOutput, RolloutFnTrainOutput
from slime.rollout.progress import Print
from slime.rollout.setup import RolloutSetup

UNFINISHED = "unfinished_groups"
"""Key beside those of the data source's state."""


class Rollouts:
    """Makes the rounds of a run. As an async context manager it ends what generates between them."""

    def __init__(
        self,
        setup: RolloutSetup,
        client: GenerateClient,
        grader: Grader,
        emit: Print | None = print,
        models: Mapping[str, GenerateClient] | None = None,
    ) -> None:
        """
        Args:
            setup: see `prepare`.
            client: samples token ids.
            grader: the built-in graders.
            emit: prints a line for a person; None = silent.
            models: clients of every served model by its name; None = `client` alone.
        """
        self.setup = setup
        self.config = setup.config
        self.tools = Machinery(
            setup.config, client, grader, setup.text, setup.hooks, setup.runner, setup.rewards, setup.held_out, emit,
            models or {DEFAULT_MODEL: client},
        )  # fmt: skip

    async def generate(self, round_id: int, weight_version: int) -> RolloutFnTrainOutput:
        """Generate one round.

        Args:
            round_id: number of the round.
            weight_version: version of the weights that the engines hold.

        Returns:
            Graded groups; the metrics are those of the function and those of the samples.

        Raises:
            RolloutError, HookError: see `slime.rollout.generate.generate_rollout`.
        """
        self.setup.round.value = round_id
        self.tools.background.weight_version = weight_version
        function = self.setup.hooks.one("rollout-function")
        assert function is not None  # the flag has a default
        begun = time.monotonic()
        with self.tools.bound():
            output: RolloutFnTrainOutput = await function(
                f"rollout {round_id}", self._train_output, self.config, round_id, self.setup.source, evaluation=False
            )
        seconds = time.monotonic() - begun
        if not self._logged(round_id, output, seconds):
            found = rollout_metrics(output.samples, weight_version, self._metric_options())
            output.metrics = {**found, **self._speed(output, output.seconds or seconds), **output.metrics}
        return output

    async def pause(self) -> None:
        """Before the weights change: stop what generates in the background, if there is anything."""
        if (producer := self.tools.background.producer) is not None:
            await producer.pause()

    def resume(self, weight_version: int) -> None:
        """The engines hold this version now: end what `pause` began."""
        self.tools.background.weight_version = weight_version
        if (producer := self.tools.background.producer) is not None:
            producer.resume(weight_version)

    async def close(self) -> None:
        """End what generates in the background."""
        if (producer := self.tools.background.producer) is not None:
            await producer.close()

    async def __aenter__(self) -> Rollouts:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def state_dict(self) -> dict[str, Any]:
        """The data source's state, and the groups that it gave away and that no round has trained."""
        state = self.setup.source.state_dict()
        producer = self.tools.background.producer
        waiting = producer.unfinished() if producer is not None else []
        return {**state, UNFINISHED: [[s.to_dict() for s in group] for group in waiting]} if waiting else state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where `state_dict` was taken; unfinished groups are generated before fresh ones.

        Raises:
            ResumeError: the state does not fit this run, or is damaged.
        """
        rest = {key: value for key, value in state.items() if key != UNFINISHED}
        waiting = saved_groups(state.get(UNFINISHED, []))
        self.setup.source.load_state_dict(rest)
        if waiting:
            self.setup.source.add_groups(waiting)

    async def evaluate(self, round_id: int) -> list[EvalScores]:
        """Evaluate on every held-out set; their scores, in order.

        Raises:
            RolloutError, HookError: see `evaluate_sets`.
        """
        function = self.setup.hooks.one("eval-function")
        subject = f"evaluation after round {round_id}"
        with self.tools.bound():
            if function is None:
                output = await evaluate_sets(self.tools, round_id)
            else:
                output = await function(
                    subject, _eval_output, self.config, round_id, self.setup.source, evaluation=True
                )
        hook = self.setup.hooks.one("eval-log")
        if hook is not None and hook.call(subject, truth, round_id, self.config, output.data, output.metrics):
            return []
        return [eval_scores(name, data, output.metrics) for name, data in output.data.items()]

    def _speed(self, output: RolloutFnTrainOutput, seconds: float) -> Metrics:
        generated = output.metrics.get("rollout/generated_tokens")
        if generated is None:
            return {}  # a function of the user's, or supervised data: nothing is known of the engines
        samples = [sample for group in output.samples for sample in group]
        return speed_metrics(
            samples, seconds, generated, self.config.rollout_num_gpus or generating_engines(self.config)
        )

    def _logged(self, round_id: int, output: RolloutFnTrainOutput, seconds: float) -> bool:
        hook = self.setup.hooks.one("rollout-log")
        if hook is None:
            return False
        samples = [sample for group in output.samples for sample in group]
        return bool(
            hook.call(f"rollout {round_id}", truth, round_id, self.config, samples, dict(output.metrics), seconds)
        )

    def _metric_options(self) -> MetricOptions:
        config = self.config
        return MetricOptions(
            reward_key=config.reward_key,
            passrate=config.log_passrate,
            multi_turn=config.log_multi_turn,
            correct_samples=config.log_correct_samples,
            reward_category=config.log_reward_category,
        )

    def _train_output(self, result: Any) -> RolloutFnTrainOutput:
        """Check what a rollout function returned; a bare list of groups is taken as well."""
        if isinstance(result, list):
            result = RolloutFnTrainOutput(result)
        if not isinstance(result, RolloutFnTrainOutput):
            raise ResultError(f"{shown(result)}; it must be a RolloutFnTrainOutput.")
        supervised = self.config.loss_type == "sft_loss"
        for sample in (sample for group in groups(result.samples) for sample in group):
            self._check(sample, supervised)
        if not any(result.samples):
            raise ResultError("no sample; there is nothing to train on.")
        return result

    def _check(self, sample: Sample, supervised: bool) -> None:
        try:
            key = self.config.reward_key if isinstance(sample.reward, dict) else None
            sample.check(graded=not supervised, generated=not supervised, reward_key=key)
        except SampleError as error:
            raise ResultError(f"a sample that breaks its contract: {error}") from error


def _eval_output(result: Any) -> RolloutFnEvalOutput:
    if isinstance(result, dict):
        result = RolloutFnEvalOutput(result)
    if not isinstance(result, RolloutFnEvalOutput):
        raise ResultError(f"{shown(result)}; it must be a RolloutFnEvalOutput.")
    for name, data in result.data.items():
        missing = [key for key in ("rewards", "truncated") if key not in data]
        if missing:
            raise ResultError(f"scores of {name!r} without {' and '.join(missing)}.")
        if len(data["rewards"]) != len(data["truncated"]) or not data["rewards"]:
            raise ResultError(
                f"{len(data['rewards'])} rewards and {len(data['truncated'])} entries of truncated for {name!r}; "
                "there is one of each for every sample, and at least one."
            )
    return result
