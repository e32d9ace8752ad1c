"""`slime train`: the whole loop. Read this first; everything else is in the modules that it names.

parse -> preflight -> read prompts -> place -> load -> sync weights
      -> for each round: generate, train, save, sync weights, evaluate
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slime.config import Config, ConfigError, HelpRequested, Problem
from slime.config.command import read_inputs, show_dry_run
from slime.config.paths import with_absolute_paths
from slime.config.preflight import examine
from slime.config.preflight.inputs import Inputs
from slime.config.serving_groups import serving_groups

if TYPE_CHECKING:
    from slime.rewards.service import GradingService
    from slime.rollout.setup import RolloutSetup


def main(words: Sequence[str]) -> int:
    """Run `slime train`; returns the exit status: 0 done, 1 failed while running, 2 refused before anything started."""
    try:
        inputs, planned = read_inputs(words, recipe_dimensions)
        if inputs.config.dry_run:
            return show_dry_run(inputs.config, planned, recipe_words)
        check(inputs, planned)
    except HelpRequested as request:
        print(request)
        return 0
    except ConfigError as error:
        print(f"slime train: {error}", file=sys.stderr)
        return 2
    return run(with_absolute_paths(inputs.config))


def check(inputs: Inputs, planned: Sequence[Problem] = ()) -> None:
    """Look at flags, checkpoints, data and machine before anything starts; prints warnings.

    Args:
        inputs: the run.
        planned: what it asks for that is not run yet; refused with everything else that is found.

    Raises:
        ConfigError: with every error that was found.
    """
    problems = [*planned, *examine(inputs)]
    for problem in problems:
        if problem.severity == "warning":
            print(f"warning: {problem}", file=sys.stderr)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise ConfigError(errors)


def recipe_words(recipe: str) -> Mapping[str, Sequence[str]]:
    """The flags that the shell of a recipe gives, with their words; a recipe that there is not has none."""
    from slime.experiment.argument_table import launcher_lines
    from slime.experiment.catalog import load_catalog

    catalog = load_catalog()
    if recipe not in catalog.facts.launch:
        return {}
    return {
        line.flag: line.values for line in launcher_lines(catalog.tables, catalog.sanitise({"model": recipe}).state)
    }


def recipe_dimensions(recipe: str) -> Mapping[str, Any]:
    """The dimensions in the model file of a recipe, which the checkpoint must have."""
    from slime.experiment.facts import load_facts
    from slime.experiment.texts import nearest

    facts = load_facts()
    if recipe not in facts.launch:
        near = nearest(recipe, tuple(facts.launch))
        hint = f"did you mean {near}?" if near else f"the recipes are {', '.join(facts.launch)}"
        raise ConfigError(Problem("cfg", f"--recipe {recipe}: there is no such recipe", hint, ("--recipe",)))
    return facts.models[facts.launch[recipe].model].model_dump()


def run(config: Config) -> int:
    """Read the prompts and train; turns what goes wrong into a message and an exit status."""
    from slime.cluster.address import settle_authentication

    settle_authentication()
    from slime.cluster.session import RaySession
    from slime.data.rows import PromptFileError
    from slime.rollout.errors import SetupError
    from slime.rollout.setup import prepare

    try:
        setup = prepare(config)
    except (PromptFileError, SetupError) as error:
        print(f"slime train: {error}", file=sys.stderr)
        return 2
    try:
        with RaySession():
            asyncio.run(_until_signal(train(config, setup)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("slime train: stopped; every process of the run has ended", file=sys.stderr)
        return 130
    except Exception as error:
        # Exceptions of this package carry a message for a person; anything else is a defect and shows its traceback.
        if not type(error).__module__.startswith("slime."):
            raise
        print(f"slime train: {error}", file=sys.stderr)
        return 1
    return 0


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Await `work`; SIGTERM, by which `ray job stop` ends a job, cancels it, so that its processes are ended.

    Ray installs a handler of its own when it connects; this one, which comes later, replaces it.
    """
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await task


def _graders(config: Config) -> GradingService:
    from slime.rewards.remote import RemoteOptions
    from slime.rewards.service import GradingService

    remote = RemoteOptions(config.rm_url, config.reward_key) if config.rm_url else None
    return GradingService(workers=1 if config.device == "cpu" else 4, remote=remote)


async def train(config: Config, setup: RolloutSetup) -> None:
    """The loop."""
    # Imported here, because torch and Ray take seconds, and --help and --dry-run need neither.
    from slime.cluster.cluster import Cluster
    from slime.data.batch import build_train_batches
    from slime.data.batch_report import report_batches
    from slime.observability.report import BEFORE_TRAINING, Report
    from slime.rollout.rounds import Rollouts

    with Report(config.num_rollout, config.metrics_file, config.tensorboard_dir) as report:
        for note in setup.notes:
            report.note(note)
        report.note(f"starting {sum(group.engines for group in serving_groups(config))} engine(s) and the trainer")
        async with (
            _graders(config) as grader,
            Cluster(config, report.note) as cluster,
            Rollouts(setup, cluster.client, grader, report.note, cluster.serving.clients) as rollouts,
        ):
            report.note(f"ready; weights from {cluster.loaded.source}; logs of the engines in {cluster.log_folder}")
            if cluster.loaded.data_cursor:
                rollouts.load_state_dict(cluster.loaded.data_cursor)

            async def held_out(round_id: int) -> None:
                for scores in await cluster.supervise(rollouts.evaluate(round_id)):
                    report.evaluation(round_id, scores)

            await cluster.sync_weights()
            if cluster.start_round == 0 and config.eval_interval and not config.skip_eval_before_train:
                await held_out(BEFORE_TRAINING)

            report.start(cluster.start_round)
            for round_id in range(cluster.start_round, config.num_rollout):
                with report.timed("rollout"):
                    rollout = await cluster.supervise(rollouts.generate(round_id, cluster.weight_version))
                report.add(rollout.metrics)
                with report.timed("train"):
                    batches = build_train_batches(rollout.samples, setup.batch, round_id)
                    described = report_batches(batches, setup.batch.schedule)
                    report.add(described.metrics, "batch/", described.notes)
                    report.add(await cluster.train(batches), "train/")
                if config.save and due(config.save_interval or config.num_rollout, round_id, config.num_rollout):
                    with report.timed("save_model"):
                        await cluster.save(round_id, rollouts.state_dict())
                with report.timed("update_weights"):
                    await cluster.supervise(rollouts.pause())
                    pushed = await cluster.sync_weights()
                    rollouts.resume(cluster.weight_version)
                report.add(pushed.metrics, "perf/")
                report.finish_round(round_id)
                if due(config.eval_interval, round_id, config.num_rollout):
                    await held_out(round_id)
        report.summary()


def due(interval: int | None, round_id: int, last: int) -> bool:
    """Whether something that happens every `interval` rounds happens after this one.

    Args:
        interval: None means never.
        round_id: from 0.
        last: number of rounds of the run; it also happens after the last of them.
    """
    if interval is None:
        return False
    return (round_id + 1) % interval == 0 or round_id + 1 == last
