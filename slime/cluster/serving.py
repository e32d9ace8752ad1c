"""The serving half of a run: its engines, what routes between them, and the clients that generate with them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import ray
from ray.actor import ActorHandle

from slime.cluster.engine_actor import EngineActor
from slime.cluster.engine_spec import Engine, engines
from slime.cluster.supervision import Supervisor
from slime.config import Config
from slime.config.serving_groups import policy_model, serving_groups
from slime.sglang.client import SGLangClient
from slime.sglang.control import EngineControl
from slime.sglang.external import base_url, discover, require_fit
from slime.sglang.http import open_session
from slime.sglang.router import RouterError, RouterProcess, RouterSpec, Worker, add_workers, remove_workers

# After a connection is lost, the end of the server at its other end is known this much later at most.
NOTICE_SECONDS = 2.0
Place = Callable[[Engine], tuple[dict[str, Any], dict[str, str]]]
Wait = Callable[[Awaitable[Any]], Awaitable[Any]]


class Serving:
    """Engines of this run, or external ones.

    Attributes:
        policy: name of the model that takes the trainer's weights.
        clients: one for each served model, by its name; `client` is that of the policy.
        plan: what is started where; empty with external engines.
    """

    def __init__(self, config: Config, log_folder: Path, emit: Callable[[str], None] = print) -> None:
        """
        Args:
            config: the resolved configuration.
            log_folder: where engines and routers write their output.
            emit: says a line to a person.
        """
        self.config = config
        self.emit = emit
        self.log_folder = log_folder
        self.groups = serving_groups(config)
        self.policy = policy_model(self.groups)
        self.plan: list[Engine] = list(engines(config, self.groups, self.policy))
        self.clients: dict[str, SGLangClient] = {}
        self._actors: list[ActorHandle] = []
        self._workers: list[Worker] = []
        self._routers: list[RouterProcess] = []
        self._known_at: dict[str, str] = {}  # model -> its router
        self._external_gpus: list[int] = []
        self._lost: dict[int, asyncio.Event] = {}  # engines that ended -> set when they run again

    @property
    def bundles(self) -> int:
        """GPUs (on a CPU: process slots) that the engines take, placeholders included."""
        return sum(group.gpus for group in self.groups)

    @property
    def first_bundles(self) -> list[int]:
        """The first of each engine's own, in the order of `plan`, from 0."""
        return [engine.bundle for engine in self.plan]

    @property
    def client(self) -> SGLangClient:
        """Generates with the engines of the trained model."""
        return self.clients[self.policy]

    @property
    def actors(self) -> Sequence[ActorHandle]:
        """The actors of all engines, in the order of `plan`."""
        return self._actors

    async def start(self, place: Place, supervisor: Supervisor, wait: Wait) -> None:
        """Start every engine; they do not answer yet. External engines are asked what they are instead.

        Args:
            place: gives the Ray options of an engine's actor, and variables for its server.
            supervisor: watches the engines from here on.
            wait: awaits actors' answers and turns their failures into reasons.

        Raises:
            ExternalEngineError: an external engine does not answer, or does not fit.
        """
        self._supervisor = supervisor
        self._session = open_session(64, reuse=False)
        if self.config.rollout_external_engine_addrs:
            await self._discover(self.config.rollout_external_engine_addrs)
            return
        for engine in self.plan:
            log = str((self.log_folder / engine.log_name).resolve())
            options, environment = place(engine)
            spec = replace(engine.spec, environment={**engine.spec.environment, **environment})
            self._actors.append(ray.remote(EngineActor).options(**options).remote(spec, log))
        answers = await wait(_gather(self._actors, "start"))
        self._workers = [
            Worker(url, engine.group.kind, bootstrap)
            for engine, (url, bootstrap) in zip(self.plan, answers, strict=True)
        ]
        for index, (engine, actor) in enumerate(zip(self.plan, self._actors, strict=True)):
            survives = partial(self._without, index) if self.config.use_fault_tolerance else None
            supervisor.watch_engine(actor, engine.name, survives)

    async def _discover(self, addresses: Sequence[str]) -> None:
        found = await discover(self._session, addresses)
        require_fit(found, Path(self.config.hf_checkpoint), self.config.rollout_max_context_len)
        self._workers = [Worker(one.url, one.kind, one.bootstrap_port) for one in found]
        self._external_gpus = [one.gpus for one in found]
        for one in found:
            self.emit(
                f"external {one.kind} engine {one.url}: {one.model_path} on {one.gpus} device(s), "
                f"SGLang {one.version}, weights {one.weight_version!r}"
            )

    async def wait_ready(self) -> None:
        """Wait until every engine of this run has generated a token."""
        await _gather(self._actors, "wait_ready")

    async def connect(self) -> None:
        """Start the routers that are asked for, and open the clients.

        Raises:
            RouterError: a router did not start, or did not take an engine.
        """
        for model in {engine.group.model: None for engine in self.plan} or {self.policy: None}:
            workers = self._workers_of(model)
            router = await self._router(model, workers)
            urls = [worker.url for worker in workers]
            self.clients[model] = SGLangClient(urls, self.config.sglang_server_concurrency, router=router)

    def policy_engines(self, offset: int) -> list[tuple[EngineControl, tuple[int, ...], ActorHandle | None]]:
        """The engines that take the trainer's weights: control, bundles and actor of each; external ones lack the last.

        Args:
            offset: first bundle of the part that serves.
        """
        controls = self.client.controls
        if not self.plan:
            places = iter(range(offset, offset + sum(self._external_gpus)))
            slots = [tuple(islice(places, gpus)) for gpus in self._external_gpus]
            return [(control, one, None) for control, one in zip(controls, slots, strict=True)]
        own = [
            (one, actor) for one, actor in zip(self.plan, self._actors, strict=True) if one.group.model == self.policy
        ]
        return [
            (control, tuple(range(first := offset + one.bundle, first + one.group.gpus_per_engine)), actor)
            for control, (one, actor) in zip(controls, own, strict=True)
        ]

    def _workers_of(self, model: str) -> list[Worker]:
        if not self.plan:
            return self._workers
        pairs = zip(self.plan, self._workers, strict=True)
        return [worker for engine, worker in pairs if engine.group.model == model]

    async def _router(self, model: str, workers: Sequence[Worker]) -> str | None:
        """URL of the router of a model, with its engines known there; None when the client balances by itself."""
        config = self.config
        pairs = any(worker.kind != "regular" for worker in workers)
        if config.sglang_router_ip is not None:
            url = base_url(f"{config.sglang_router_ip}:{config.sglang_router_port}")
        elif config.router_policy is None and not pairs:
            return None
        else:
            spec = RouterSpec(
                policy=config.router_policy,
                balance_abs_threshold=config.router_balance_abs_threshold,
                balance_rel_threshold=config.router_balance_rel_threshold,
                request_timeout_secs=config.sglang_router_request_timeout_secs,
                pd_disaggregation=pairs,
            )
            name = "router.log" if model == self.policy else f"{model}-router.log"
            router = RouterProcess(spec, self.log_folder / name)
            self._routers.append(router)
            await router.start(self._session)
            self._supervisor.watch_program(router.failure)
            url = router.url
        await add_workers(self._session, url, workers)
        self._known_at[model] = url
        return url

    async def _without(self, index: int, reason: str) -> bool:
        """Go on without an engine that ended, and wait until it has been replaced.

        Args:
            index: of the engine in `plan`.
            reason: why it ended.

        Returns:
            False when there is no other engine of its model, so that the run cannot go on.
        """
        model, url = self.plan[index].group.model, self._workers[index].url
        client = self.clients.get(model)
        if client is None or not client.leave(url):
            return False
        self.emit(f"{reason}\n{self.plan[index].name} is replaced before the next weight update; others take its work")
        self._lost[index] = asyncio.Event()
        if model in self._known_at:
            await remove_workers(self._session, self._known_at[model], [url])
        await self._lost[index].wait()
        return True

    async def lost_one(self) -> bool:
        """Whether an engine ended that has not been replaced yet; its end is noticed a moment after it."""
        if self.config.use_fault_tolerance and not self._lost:
            await asyncio.sleep(NOTICE_SECONDS)
        return bool(self._lost)

    async def replace_lost(self) -> None:
        """Start every engine again that ended; it needs the trainer's weights before it generates.

        Raises:
            EngineError: an engine does not start a second time.
        """
        for index in list(self._lost):
            actor, worker, model = self._actors[index], self._workers[index], self.plan[index].group.model
            await actor.start.remote()
            await actor.wait_ready.remote()
            if model in self._known_at:
                await add_workers(self._session, self._known_at[model], [worker])
            self.clients[model].enter(worker.url)
            self._lost.pop(index).set()
            self.emit(f"{self.plan[index].name} runs again")

    async def close(self) -> None:
        """Leave a router that runs on, and end what was started here; the engines' actors are ended by the cluster."""
        own = {router.url for router in self._routers}
        for client in self.clients.values():
            await client.close()
        for model, url in self._known_at.items():
            if url not in own:
                with suppress(RouterError):  # it may have ended before the run
                    await remove_workers(self._session, url, [worker.url for worker in self._workers_of(model)])
        for router in self._routers:
            await asyncio.to_thread(router.stop)
        if hasattr(self, "_session"):
            await self._session.close()


async def _gather(actors: Sequence[ActorHandle], method: str, *arguments: Any) -> list[Any]:
    """Call a method of every actor and wait for all answers, in order."""
    return list(await asyncio.gather(*(getattr(actor, method).remote(*arguments) for actor in actors)))
