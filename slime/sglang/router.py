"""The router between clients and engines: SGLang's own, the package sglang-router, as a child of the driver.

Without one the client balances by itself, which is one hop less. A router is started when its policy is asked for, and
when prefill and decode engines have to be paired. Facts of sglang-router 0.3.2: workers are added and removed with
``POST`` and ``DELETE /workers``, which answer before it has happened; the policy ``manual`` keeps all requests with the
same header ``X-SMG-Routing-Key`` on one engine; ``/generate`` passes log-probs and the request's name on unchanged.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp

from slime.ports import free_ports
from slime.sglang.guarded import GuardedProcess
from slime.sglang.http import RequestError, request_json
from slime.sglang.launch import child_environment

SESSION_HEADER = "X-SMG-Routing-Key"
"""Header whose value names a session; the policy ``manual`` sends a session to one engine."""

START_SECONDS = 120.0
REGISTER_SECONDS = 120.0


class RouterError(RuntimeError):
    """A router did not start, died, or did not take an engine; the message says why."""


@dataclass(frozen=True)
class RouterSpec:
    """How a router is started; names are its own arguments'.

    Attributes:
        policy: how it chooses an engine; None = its default, cache_aware.
        balance_abs_threshold: difference in requests from which it rebalances.
        balance_rel_threshold: ratio of requests from which it rebalances.
        request_timeout_secs: limit of one request, in seconds.
        pd_disaggregation: it pairs prefill and decode engines.
    """

    policy: str | None = None
    balance_abs_threshold: int = 10
    balance_rel_threshold: float = 1.2
    request_timeout_secs: int = 14400
    pd_disaggregation: bool = False


@dataclass(frozen=True)
class Worker:
    """An engine as a router knows it.

    Attributes:
        url: its base URL.
        kind: "regular", "prefill" or "decode".
        bootstrap_port: where a prefill engine meets decode engines.
    """

    url: str
    kind: str = "regular"
    bootstrap_port: int | None = None


def router_command(spec: RouterSpec, host: str, port: int, metrics_port: int) -> list[str]:
    """The command that starts a router.

    Retries, circuit breaker and health checks are off: the client repeats what failed, and the run watches its engines
    itself; a router that did either as well would hide a dead engine, or send a request twice.
    """
    words = ["--host", host, "--port", str(port), "--prometheus-host", host, "--prometheus-port", str(metrics_port)]
    words += ["--balance-abs-threshold", str(spec.balance_abs_threshold)]
    words += ["--balance-rel-threshold", str(spec.balance_rel_threshold)]
    words += ["--request-timeout-secs", str(spec.request_timeout_secs), "--log-level", "warn"]
    words += ["--disable-retries", "--disable-circuit-breaker", "--disable-health-check"]
    if spec.policy is not None:
        words += ["--policy", spec.policy]
    if spec.pd_disaggregation:
        words.append("--pd-disaggregation")
    return [sys.executable, "-m", "sglang_router.launch_router", *words]


class RouterProcess:
    """A running router, on the loopback address."""

    def __init__(self, spec: RouterSpec, log_path: str | Path, host: str = "127.0.0.1") -> None:
        """
        Args:
            spec: what to start.
            log_path: file for its output.
            host: address to listen on.
        """
        self.spec = spec
        self.host = host
        self.port, self.metrics_port = free_ports(2, host)
        self._process = GuardedProcess(f"the router at {self.url}", log_path)

    @property
    def url(self) -> str:
        """Base URL of the router."""
        return f"http://{self.host}:{self.port}"

    async def start(self, session: aiohttp.ClientSession) -> None:
        """Start it and wait until it answers.

        Raises:
            RouterError: the package is not installed, or it ended or was silent too long.
        """
        if find_spec("sglang_router") is None:
            raise RouterError(
                "a router is asked for, and the package sglang-router is not installed: "
                "pip install 'sglang-router>=0.3.2,<0.4', or leave --router-policy out, and the client balances"
            )
        command = router_command(self.spec, self.host, self.port, self.metrics_port)
        self._process.start(command, child_environment())
        while True:
            try:
                await request_json(session, "GET", f"{self.url}/health", timeout=5.0)
                return
            except RequestError as error:
                reason = self.failure()
                if reason is None and self._process.age > START_SECONDS:
                    reason = self._process.explain(f"gave no answer within {START_SECONDS:.0f} s ({error})")
                if reason is not None:
                    raise RouterError(reason) from error
            await asyncio.sleep(0.1)

    def failure(self) -> str | None:
        """Why the router is not running, or None while it is."""
        return self._process.failure()

    def stop(self) -> None:
        """End it. Harmless when it has ended already."""
        self._process.stop()


async def add_workers(session: aiohttp.ClientSession, router: str, workers: Sequence[Worker]) -> None:
    """Make engines known to a router, and wait until it sends requests to them.

    Raises:
        RouterError: it refused one, or does not list it as healthy in time.
    """
    for worker in workers:
        body: dict[str, Any] = {"url": worker.url, "worker_type": worker.kind}
        if worker.bootstrap_port is not None:
            body["bootstrap_port"] = worker.bootstrap_port
        try:
            await request_json(session, "POST", f"{router}/workers", body)
        except RequestError as error:
            raise RouterError(f"the router at {router} did not take the engine {worker.url}: {error}") from error
    wanted = {worker.url for worker in workers}
    await _until_listed(session, router, lambda listed: wanted - listed, "does not list {} as healthy")


async def _until_listed(
    session: aiohttp.ClientSession, router: str, open_: Callable[[set[str]], set[str]], problem: str
) -> None:
    """Wait until `open_` of the healthy engines' URLs is empty: a router answers before it has acted.

    Raises:
        RouterError: it is not within the limit; `problem` with the URLs that are open.
    """
    deadline = time.monotonic() + REGISTER_SECONDS
    while rest := open_(set(await healthy_workers(session, router))):
        if time.monotonic() > deadline:
            what = problem.format(", ".join(sorted(rest)))
            raise RouterError(f"the router at {router} {what} after {REGISTER_SECONDS:.0f} s")
        await asyncio.sleep(0.2)


async def healthy_workers(session: aiohttp.ClientSession, router: str) -> dict[str, str]:
    """The engines that a router sends requests to: their ids there, by their URLs.

    Raises:
        RouterError: what answers is no router that lists its workers.
    """
    try:
        answer = await request_json(session, "GET", f"{router}/workers")
        return {one["url"]: one["id"] for one in answer["workers"] if one["is_healthy"]}
    except (RequestError, KeyError, TypeError) as error:
        raise RouterError(f"{router}/workers does not list workers as SGLang's router does: {error}") from error


async def remove_workers(session: aiohttp.ClientSession, router: str, urls: Sequence[str]) -> None:
    """Have a router forget engines, and wait until it sends them nothing more. Those it does not know are ignored.

    Raises:
        RouterError: it does not answer, or still lists one after the limit.
    """
    ids = await healthy_workers(session, router)
    for url in urls:
        if url in ids:
            try:
                await request_json(session, "DELETE", f"{router}/workers/{ids[url]}")
            except RequestError as error:
                raise RouterError(f"the router at {router} did not let go of {url}: {error}") from error
    await _until_listed(session, router, lambda listed: listed & set(urls), "still lists {}")
