"""One real engine, started with many arguments that are passed on: examined, discovered, and reached through a router.

To show that the examination finds what is wrong, a proxy stands before the engine and spoils one thing at a time.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from slime.cli import main
from slime.cluster.engine_spec import server_arguments
from slime.config import REGISTRY, Config
from slime.config.sglang_table import server_arguments as known_arguments
from slime.ports import free_port
from slime.rollout.client import Generation, SamplingParams
from slime.sglang.client import SGLangClient
from slime.sglang.conformance.command import CHECKS, examine
from slime.sglang.conformance.probe import Outcome, Probe
from slime.sglang.engine import EngineProcess
from slime.sglang.external import ExternalEngine, ExternalEngineError, discover, require_fit
from slime.sglang.http import open_session
from slime.sglang.launch import EngineSpec
from slime.sglang.router import RouterError, RouterProcess, RouterSpec, Worker, add_workers, remove_workers

pytestmark = [pytest.mark.runtime, pytest.mark.slow]

# A value that is not the server's own default, for arguments that the runtime passes on without looking at them.
PASSED_ON: dict[str, Any] = {
    "schedule-policy": "lpm",
    "schedule-conservativeness": 0.8,
    "max-prefill-tokens": 4096,
    "prefill-max-requests": 8,
    "max-queued-requests": 64,
    "num-continuous-decode-steps": 2,
    "scheduler-recv-interval": 2,
    "stream-interval": 4,
    "sampling-backend": "pytorch",
    "grammar-backend": "none",
    "sampling-defaults": "openai",
    "log-requests": True,
    "log-requests-level": 1,
    "decode-log-interval": 10,
    "enable-metrics": True,
    "bucket-e2e-request-latency": (0.5, 1.0, 2.0),
    "enable-cache-report": True,
    "enable-request-time-stats-logging": True,
    "gc-warning-threshold-secs": 5.0,
    "soft-watchdog-timeout": 200.0,
    "weight-loader-disable-mmap": True,
    "served-model-name": "policy",
    "enable-dsa-fused-indexer": False,
}
SAMPLING = SamplingParams(max_new_tokens=4, temperature=0.0, session="a trajectory")


@pytest.fixture(scope="module")
def engine(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    given = {f"sglang_{name.replace('-', '_')}": value for name, value in PASSED_ON.items()}
    log = tmp_path_factory.mktemp("engine") / "server.log"
    arguments = server_arguments(Config(**given))
    with EngineProcess(EngineSpec(str(model_folder), device="cpu", start_seconds=200, arguments=arguments), log) as one:
        yield one


def with_session(work: Callable[[aiohttp.ClientSession], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with open_session(32, reuse=False) as session:
            return await work(session)

    return asyncio.run(run())


def test_the_server_has_taken_the_arguments(engine: EngineProcess) -> None:
    async def ask(session: aiohttp.ClientSession) -> Any:
        async with session.get(f"{engine.url}/server_info") as answer:
            return await answer.json()

    info = with_session(ask)
    for name, value in PASSED_ON.items():
        flag, argument = REGISTRY[f"--sglang-{name}"], known_arguments()[name]
        assert flag.runs and flag.group == "engine", name
        assert value != argument.default, name
        assert info[argument.field] == (list(value) if argument.many else value), name


def test_sglang_on_a_cpu_has_what_the_loop_needs(engine: EngineProcess, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["engine", "check", engine.url, "--json"])
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)["checks"]}
    assert list(found) == [check.name for check in CHECKS]
    assert {name: one["detail"] for name, one in found.items() if one["state"] != "ok"} == {}
    assert status == 0
    assert found["log-probs"]["numbers"]["largest"] < 5e-6, "float32: sums in another order"
    assert found["flush"]["numbers"]["cached"] >= 32
    assert f"SGLang {version('sglang')}, qwen3" in found["identity"]["detail"]


def test_an_address_without_an_engine_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert main(["engine", "check", f"127.0.0.1:{port}"]) == 2
    assert f"no engine answers at http://127.0.0.1:{port}" in capsys.readouterr().err


Spoil = Callable[[str, Any], Any]


def through_proxy(engine: EngineProcess, name: str, spoil: Spoil) -> Outcome:
    """The outcome of one check when every JSON answer of the engine goes through `spoil`; None answers 404."""

    async def run(session: aiohttp.ClientSession) -> Outcome:
        async def forward(request: web.Request) -> web.Response:
            body = await request.read()
            url = f"{engine.url}{request.path_qs}"
            async with session.request(
                request.method, url, data=body, headers={"Content-Type": "application/json"}
            ) as a:
                text, status, kind = await a.text(), a.status, a.content_type
            if status == 200 and text[:1] in ("{", "["):
                spoilt = spoil(request.path, json.loads(text))
                text, status = ("", 404) if spoilt is None else (json.dumps(spoilt), 200)
            return web.Response(text=text, status=status, content_type=kind)

        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", forward)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        (check,) = [one for one in CHECKS if one.name == name]
        try:
            return await check.outcome(Probe(session, f"http://127.0.0.1:{port}"))
        finally:
            await runner.cleanup()

    found: Outcome = with_session(run)
    return found


def meta(**changes: Callable[[Any], Any]) -> Spoil:
    """Changes of `meta_info` in answers of /generate."""

    def spoil(path: str, answer: Any) -> Any:
        if path == "/generate":
            for name, change in changes.items():
                answer["meta_info"][name] = change(answer["meta_info"][name])
        return answer

    return spoil


def without_route(*routes: str) -> Spoil:
    def spoil(path: str, answer: Any) -> Any:
        if path == "/openapi.json":
            for route in routes:
                del answer["paths"][route]
        return answer

    return spoil


def shifted(triples: Any) -> Any:
    return [[value - 0.3, *rest] for value, *rest in triples]


@pytest.mark.parametrize(
    ("name", "spoil", "state", "says"),
    [
        ("log-probs", meta(output_token_logprobs=shifted), "fails", "scored again by 0.3 at most"),
        ("log-probs", meta(output_token_logprobs=lambda found: found[1:]), "fails", "tokens and"),
        ("token ids", meta(completion_tokens=lambda found: found + 1), "fails", "it counts (12, 9) tokens"),
        ("reason length", meta(finish_reason=lambda _: {"type": "stop"}), "fails", "reason 'stop', not 'length'"),
        ("weight version", meta(weight_version=lambda _: "old"), "fails", "answers with 'old'"),
        ("abort", meta(finish_reason=lambda _: {"type": "stop"}), "fails", "reason 'stop', not 'abort'"),
        ("concurrency", meta(id=lambda _: "another"), "fails", "got the answer of another"),
        ("flush", meta(cached_tokens=lambda _: 7), "fails", "7 tokens come from the cache after a flush"),
        ("likeliest ids", meta(output_top_logprobs=lambda rows: [row[::-1] for row in rows]), "fails", "not sorted"),
        ("identity", meta(), "ok", "qwen3"),
        ("pause and continue", without_route("/pause_generation"), "lacks", "there is no /pause_generation"),
        ("weights from disk", without_route("/update_weights_from_disk"), "lacks", "no /update_weights_from_disk"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 30 else "",
)
def test_what_an_engine_does_wrong_is_found(
    engine: EngineProcess, name: str, spoil: Spoil, state: str, says: str
) -> None:
    outcome = through_proxy(engine, name, spoil)
    assert (outcome.state, says in outcome.detail) == (state, True), outcome


def test_an_engine_is_discovered(engine: EngineProcess, model_folder: Path) -> None:
    (found,) = with_session(lambda session: discover(session, [engine.url.removeprefix("http://")]))
    assert found == ExternalEngine(
        engine.url, "regular", str(model_folder), "qwen3", 1, version("sglang"), "default", 256, None
    )
    require_fit([found], model_folder, 256)


def test_an_engine_that_does_not_fit_is_refused(engine: EngineProcess, model_folder: Path, tmp_path: Path) -> None:
    (found,) = with_session(lambda session: discover(session, [engine.url]))
    shutil.copytree(model_folder, tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, "vocab_size": 999, "hidden_size": 32}))
    with pytest.raises(ExternalEngineError) as caught:
        require_fit([found], tmp_path / "other", None)
    assert f"the engine at {engine.url} serves {model_folder}" in str(caught.value)
    assert "vocab_size 320 instead of 999, hidden_size 64 instead of 32" in str(caught.value)
    with pytest.raises(ExternalEngineError, match=r"takes 256 tokens of prompt and response, .* asks for up to 257"):
        require_fit([found], model_folder, 257)


def test_an_engine_that_is_not_there_is_refused_with_its_address() -> None:
    port = free_port()
    with pytest.raises(ExternalEngineError, match=f"no engine answers at http://127.0.0.1:{port}"):
        with_session(lambda session: discover(session, [f"127.0.0.1:{port}"]))


def test_requests_go_through_a_router(engine: EngineProcess, tmp_path: Path) -> None:
    spec = RouterSpec(policy="manual")
    router = RouterProcess(spec, tmp_path / "router.log")

    async def run(session: aiohttp.ClientSession) -> tuple[Generation, Generation, Generation, str]:
        await router.start(session)
        await add_workers(session, router.url, [Worker(engine.url)])
        async with SGLangClient([engine.url], retries=0) as client:
            direct = await client.generate([10, 11], SAMPLING, "direct")
        async with SGLangClient([engine.url], retries=0, router=router.url) as client:
            routed = await client.generate([10, 11], SAMPLING, "routed")
            long = asyncio.create_task(client.generate([10, 11], SamplingParams(max_new_tokens=250), "long"))
            await asyncio.sleep(0.1)
            await client.abort("long")
            cut = await long
            await remove_workers(session, router.url, [engine.url, "http://unknown:1"])
            with pytest.raises(Exception, match="503"):
                await client.generate([10, 11], SAMPLING, "nowhere")
        router.stop()
        return direct, routed, cut, router.failure() or ""

    direct, routed, cut, failure = with_session(run)
    assert (routed.output_ids, routed.logprobs) == (direct.output_ids, pytest.approx(direct.logprobs, abs=5e-6))
    assert len(cut.output_ids) == len(cut.logprobs)
    assert cut.finish_reason in ("abort", "stop")
    assert f"the router at {router.url}" in failure and "router.log" in failure


def test_a_router_that_is_none_is_refused(engine: EngineProcess) -> None:
    with pytest.raises(RouterError, match=f"the router at {engine.url} did not take the engine http://127.0.0.1:9"):
        with_session(lambda session: add_workers(session, engine.url, [Worker("http://127.0.0.1:9")]))


def test_the_examination_can_be_repeated(engine: EngineProcess) -> None:
    """It leaves the engine as it found it."""
    outcomes = asyncio.run(examine(engine.url))
    assert [one for one in outcomes if one.state != "ok"] == []
