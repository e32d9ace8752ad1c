"""The run's processes as one object: started together, watched together, ended together."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import ray
from ray.actor import ActorHandle
from ray.exceptions import RayActorError, RayTaskError
from ray.util.placement_group import PlacementGroup, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from slime.cluster.engine_actor import EngineActor
from slime.cluster.engine_spec import engine_spec
from slime.cluster.errors import RunFailedError, cause_of
from slime.cluster.placement import ENGINE_SHARE, TRAINER_SHARE, place, plan_placement
from slime.cluster.session import actor_environment
from slime.cluster.supervision import Supervisor
from slime.cluster.trainer_actor import Loaded, TrainerActor
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
        client: generates with the engines.
        loaded: what the trainer loaded.
        weight_version: version of the weights that the engines hold.
    """

    client: SGLangClient
    loaded: Loaded

    def __init__(self, config: Config) -> None:
        self.config = config
        self.plan = plan_placement(
            config.device, config.train_gpus, config.num_engines, config.rollout_num_gpus_per_engine, config.colocate
        )
        self.log_folder = Path(config.save, "logs") if config.save else Path(tempfile.mkdtemp(prefix="slime-logs-"))
        self._supervisor = Supervisor()
        self._group: PlacementGroup | None = None
        self._engines: list[ActorHandle] = []
        self._trainers: list[ActorHandle] = []

    async def __aenter__(self) -> Cluster:
        try:
            self._group = place(
                self.plan, one_node=self.config.colocate and self.config.update_weight_transport != "disk"
            )
            self._engines = [self._engine(index) for index in range(len(self.plan.engines))]
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
        urls = await self._wait(_gather(self._engines, "start"))
        for index, actor in enumerate(self._engines):
            self._supervisor.watch_engine(actor, f"engine {index}")
        for rank, actor in enumerate(self._trainers):
            self._supervisor.watch_trainer(actor, f"trainer rank {rank}")
        address, port = await self.supervise(self._trainers[0].endpoint.remote())
        loaded, _ = await self.supervise(
            asyncio.gather(_gather(self._trainers, "start", address, port), _gather(self._engines, "wait_ready"))
        )
        self.loaded = loaded[0]
        self.client = SGLangClient(urls, self.config.sglang_server_concurrency)
        self._sync = WeightSync(self.config, *self._weight_ends(), self._endpoint, self.start_round)

    def _weight_ends(self) -> tuple[list[Call], list[EngineLink]]:
        """Both ends of a weight update: the trainer's ranks, and the engines with their hosts."""
        per_engine = self.config.rollout_num_gpus_per_engine
        engines = [
            EngineLink(control, tuple(range(bundle, bundle + per_engine)), _caller(actor))
            for control, bundle, actor in zip(self.client.controls, self.plan.engines, self._engines, strict=True)
        ]
        return [_caller(actor, "weights") for actor in self._trainers], engines

    async def _endpoint(self, rank: int) -> tuple[str, int]:
        """Address and a free port of a trainer's node."""
        address, port = await self._trainers[rank].endpoint.remote()
        return str(address), int(port)

    @property
    def start_round(self) -> int:
        """The first round to run: the one after the checkpoint that was resumed, else 0."""
        return 0 if self.loaded.step is None else self.loaded.step + 1

    def _options(self, bundle: int, share: float) -> dict[str, Any]:
        gpu = {} if self.config.device == "cpu" else {"num_gpus": share}
        return {
            "num_cpus": share,
            **gpu,
            "runtime_env": actor_environment(self.config.device),
            "scheduling_strategy": PlacementGroupSchedulingStrategy(self._group, placement_group_bundle_index=bundle),
        }

    def _engine(self, index: int) -> ActorHandle:
        options = self._options(self.plan.engines[index], ENGINE_SHARE) | {"max_concurrency": 2}
        log = str((self.log_folder / f"engine-{index}.log").resolve())
        return ray.remote(EngineActor).options(**options).remote(engine_spec(self.config, index), log)

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
        try:
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
        return str((await self.supervise(_gather(self._trainers, "save", round_id, dict(data_cursor))))[0])

    async def close(self) -> None:
        """End every process of the run, in a bounded time."""
        await self._supervisor.close()
        if hasattr(self, "client"):
            if hasattr(self, "_sync"):
                await self._sync.close()
            await self.client.close()
        if self._engines or self._trainers:
            ends = [actor.stop.remote() for actor in self._engines] + [a.close.remote() for a in self._trainers]
            # Those that do not end in time, or are dead, are killed below; the guard then ends the server.
            await asyncio.to_thread(ray.wait, ends, num_returns=len(ends), timeout=STOP_SECONDS)
        for actor in (*self._engines, *self._trainers):
            ray.kill(actor)
        if self._group is not None:
            remove_placement_group(self._group)
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
