"""The run's processes as one object: started together, watched together, ended together."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayTaskError
from ray.util.placement_group import remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from slime.cluster.engine_spec import Engine
from slime.cluster.errors import RunFailedError, cause_of
from slime.cluster.placement import ENGINE_SHARE, TRAINER_SHARE, Placed, place, plan_placement
from slime.cluster.serving import Serving
from slime.cluster.session import actor_environment
from slime.cluster.supervision import Supervisor
from slime.cluster.trainer_actor import Loaded, TrainerActor, saved_with
from slime.cluster.weight_sync import Call, EngineLink, Pushed, WeightSync
from slime.config import Config
from slime.config.layout import train_rank
from slime.data.sample import Sample
from slime.data.train_batch import TrainBatch
from slime.sglang.client import SGLangClient
from slime.weights.transport import WeightUpdateError

T = TypeVar("T")
STOP_SECONDS = 30.0


class Cluster:
    """Trainer ranks and engines. An async context manager: inside it everything runs, after it nothing does.

    Needs an open `RaySession`.

    Attributes:
        serving: the engines, and what generates with them.
        loaded: what the trainer loaded.
        weight_version: version of the weights that the engines hold.
    """

    loaded: Loaded

    def __init__(self, config: Config, emit: Callable[[str], None] = print) -> None:
        """
        Args:
            config: the resolved configuration.
            emit: says a line to a person.
        """
        self.config = config
        self.log_folder = Path(config.save, "logs") if config.save else Path(tempfile.mkdtemp(prefix="slime-logs-"))
        self.serving = Serving(config, self.log_folder, emit)
        self.plan = plan_placement(
            config.device, config.train_gpus, self.serving.bundles, self.serving.first_bundles, config.colocate
        )
        self._supervisor = Supervisor()
        self._placed: Placed | None = None
        self._trainers: list[ActorHandle] = []

    async def __aenter__(self) -> Cluster:
        try:
            self._placed = place(
                self.plan,
                one_node=self.config.colocate and self.config.update_weight_transport != "disk",
                environment=actor_environment(self.config.device),
            )
            self._trainers = [self._trainer(rank) for rank in range(len(self.plan.trainers))]
            await self._start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _start(self) -> None:
        """Bring engines and trainers up side by side; both take seconds, most of them imports."""
        await self.serving.start(self._engine_place, self._supervisor, self._wait)
        for rank, actor in enumerate(self._trainers):
            self._supervisor.watch_trainer(actor, f"trainer rank {rank}")
        address, port = await self.supervise(self._trainers[0].endpoint.remote())
        loaded, _ = await self.supervise(
            asyncio.gather(_gather(self._trainers, "start", address, port), self.serving.wait_ready())
        )
        self.loaded = loaded[0]
        await self.supervise(self.serving.connect())
        self._sync = WeightSync(self.config, *self._weight_ends(), self._endpoint, self.loaded.weight_version)

    def _weight_ends(self) -> tuple[list[Call], list[EngineLink]]:
        """Both ends of a weight update: the trainer's ranks, and the engines with their hosts."""
        ends = [
            EngineLink(control, slots, None if actor is None else _caller(actor))
            for control, slots, actor in self.serving.policy_engines(self.plan.offset)
        ]
        return [_caller(actor, "weights") for actor in self._trainers], ends

    @property
    def client(self) -> SGLangClient:
        """Generates with the engines of the trained model."""
        return self.serving.client

    async def _endpoint(self, rank: int) -> tuple[str, int]:
        """Address and a free port of a trainer's node."""
        address, port = await self._trainers[rank].endpoint.remote()
        return str(address), int(port)

    @property
    def start_round(self) -> int:
        """The first round to run: --start-rollout-id, else the one after the checkpoint that was resumed, else 0."""
        if self.config.start_rollout_id is not None:
            return self.config.start_rollout_id
        return 0 if self.loaded.step is None else self.loaded.step + 1

    def _options(self, bundle: int, share: float) -> dict[str, Any]:
        gpu = {} if self.config.device == "cpu" else {"num_gpus": share}
        return {
            "num_cpus": share,
            **gpu,
            "runtime_env": actor_environment(self.config.device),
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                self._reserved.group, placement_group_bundle_index=self._reserved.slots[bundle].bundle
            ),
        }

    @property
    def _reserved(self) -> Placed:
        if self._placed is None:
            raise RuntimeError("nothing was placed yet")
        return self._placed

    def _engine_place(self, engine: Engine) -> tuple[dict[str, Any], dict[str, str]]:
        """Ray's options of an engine's actor, and variables of its server: an actor sees its first GPU alone."""
        first, count = self.plan.offset + engine.bundle, engine.group.gpus_per_engine
        options = self._options(first, ENGINE_SHARE) | {"max_concurrency": 2}
        if self.config.device == "cpu" or count == 1:
            return options, {}
        return options, {"CUDA_VISIBLE_DEVICES": ",".join(map(str, self._reserved.gpus(first, count)))}

    def _trainer(self, rank: int) -> ActorHandle:
        options = self._options(self.plan.trainers[rank], TRAINER_SHARE)
        return ray.remote(TrainerActor).options(**options).remote(self.config, rank, len(self.plan.trainers))

    @property
    def weight_version(self) -> int:
        """Version of the weights that the engines hold."""
        return self._sync.version

    async def supervise(self, work: Awaitable[T]) -> T:
        """Await `work`; fails with the reason as soon as a process of the run ends.

        Raises:
            RunFailedError: a process ended.
        """
        return await self._wait(self._supervisor.run(work))

    async def _wait(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except RayTaskError as error:
            raise cause_of(error) from error
        except RayActorError as error:
            raise RunFailedError(f"a process of the run could not be started or ended: {error}") from error

    async def sync_weights(self) -> Pushed:
        """Push the trainer's weights to the engines. See `WeightSync.push`.

        Raises:
            RunFailedError: a process ended; when that broke the update off, the message says which engine holds what.
            WeightUpdateError: the update failed otherwise.
        """
        await self.supervise(self.serving.replace_lost())
        try:
            return await self.supervise(self._sync.push())
        except WeightUpdateError as error:
            if not await self.serving.lost_one():
                raise
            self.serving.emit(f"{error}\nthe update is repeated")
            await self.supervise(self.serving.replace_lost())
            return await self.supervise(self._sync.push())
        except RunFailedError as error:
            if isinstance(error.__cause__, WeightUpdateError):
                raise RunFailedError(f"{error}\n{error.__cause__}") from error
            raise

    async def train(self, batches: Sequence[TrainBatch]) -> dict[str, float]:
        """Train one round, one batch per data-parallel rank; the metrics of rank 0, which speak for all ranks."""
        shares = [batches[train_rank(self.config, rank).data] for rank in range(len(self._trainers))]
        pairs = zip(self._trainers, shares, strict=True)
        answers = await self.supervise(asyncio.gather(*(actor.train.remote(batch) for actor, batch in pairs)))
        return dict(answers[0])

    async def log_probs(self, samples: Sequence[Sample]) -> list[npt.NDArray[np.float32]]:
        """The trainer's log-probs of the samples' response tokens."""
        return list(await self.supervise(self._trainers[0].log_probs.remote(list(samples))))

    async def save(self, round_id: int, data_cursor: Mapping[str, Any]) -> str:
        """Save a checkpoint on all ranks, with the data source's position; returns its folder."""
        cursor = saved_with(data_cursor, self.weight_version)
        return str((await self.supervise(_gather(self._trainers, "save", round_id, cursor)))[0])

    async def close(self) -> None:
        """End every process of the run, in a bounded time."""
        await self._supervisor.close()
        if hasattr(self, "_sync"):
            await self._sync.close()
        await self.serving.close()
        engines = self.serving.actors
        if engines or self._trainers:
            ends = [actor.stop.remote() for actor in engines] + [a.close.remote() for a in self._trainers]
            # Those that do not end in time, or are dead, are killed below; the guard then ends the server.
            await asyncio.to_thread(ray.wait, ends, num_returns=len(ends), timeout=STOP_SECONDS)
        for actor in (*engines, *self._trainers):
            ray.kill(actor)
        if self._placed is not None:
            remove_placement_group(self._placed.group)
        if not self.config.save:
            _remove_if_empty(self.log_folder)


def _caller(actor: ActorHandle, *before: str) -> Call:
    """Calls a method of an actor by name: of the actor itself, or through its method `before`."""

    async def call(method: str, *arguments: Any) -> Any:
        name, *rest = (*before, method)
        try:
            return await getattr(actor, name).remote(*rest, *arguments)
        except RayTaskError as error:
            raise cause_of(error) from error

    return call


async def _gather(actors: Sequence[ActorHandle], method: str, *arguments: Any) -> list[Any]:
    """Call a method of every actor and wait for all answers, in order."""
    return list(await asyncio.gather(*(getattr(actor, method).remote(*arguments) for actor in actors)))


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
