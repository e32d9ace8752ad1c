"""The client's conduct with servers that misbehave: a small HTTP server of our own plays them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from aiohttp import web

from slime.data.sample import SpecInfo
from slime.rollout.client import Generation, SamplingParams
from slime.sglang.client import SGLangClient
from slime.sglang.control import EngineControl
from slime.sglang.http import KEEPALIVE_SECONDS, RequestError, open_session

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SAMPLING = SamplingParams(max_new_tokens=4)


def answer(ids: list[int], log_prob_ids: list[int] | None = None, reason: str = "stop") -> dict[str, Any]:
    triples = [[-0.5, token, None] for token in (ids if log_prob_ids is None else log_prob_ids)]
    meta = {"finish_reason": {"type": reason}, "output_token_logprobs": triples, "weight_version": "3"}
    return {"output_ids": ids, "meta_info": meta}


class Server:
    """An HTTP server on a free port of the loopback; counts the requests of each path."""

    def __init__(self, **routes: Handler) -> None:
        self.counts: Counter[str] = Counter()
        self.bodies: list[tuple[str, Any]] = []
        self.app = web.Application()
        for name, handler in routes.items():
            self.app.router.add_route("*", f"/{name.replace('__', '.')}", self._counted(handler))

    def _counted(self, handler: Handler) -> Handler:
        async def counted(request: web.Request) -> web.StreamResponse:
            self.counts[request.path] += 1
            self.bodies.append((request.path, await request.json() if request.can_read_body else None))
            return await handler(request)

        return counted

    async def __aenter__(self) -> Server:
        self.runner = web.AppRunner(self.app, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.cleanup()


def replies(*statuses: int, body: dict[str, Any] | None = None) -> Handler:
    """Answer with these statuses in turn, then with 200."""
    waiting = list(statuses)

    async def handle(_: web.Request) -> web.StreamResponse:
        status = waiting.pop(0) if waiting else 200
        return web.json_response(body or answer([7, 8]), status=status)

    return handle


async def ask(server: Server, **options: Any) -> Generation:
    async with SGLangClient([server.url], retry_seconds=0.01, **options) as client:
        return await client.generate([1, 2], SAMPLING, "r")


def test_the_likeliest_ids_of_each_position_come_along() -> None:
    rows = [[[-0.5, 7, None], [-1.5, 3, None]], [[-0.25, 9, None], [-0.5, 8, None]]]
    body = answer([7, 8])
    body["meta_info"]["output_top_logprobs"] = rows

    async def run() -> None:
        async with Server(generate=replies(body=body)) as server, SGLangClient([server.url]) as client:
            found = await client.generate([1], SamplingParams(max_new_tokens=4, top_logprobs_num=2), "r")
            assert server.bodies[0][1]["top_logprobs_num"] == 2
            assert found.top_token_ids is not None and found.top_log_probs is not None
            assert found.top_token_ids.tolist() == [[7, 3], [9, 8]]
            assert found.top_log_probs.tolist() == [[-0.5, -1.5], [-0.25, -0.5]]
            with pytest.raises(RequestError, match="asked for the 3 likeliest of 2 positions"):
                await client.generate([1], SamplingParams(max_new_tokens=4, top_logprobs_num=3), "r")

    asyncio.run(run())


def test_an_answer_becomes_a_generation() -> None:
    async def run() -> None:
        async with Server(generate=replies()) as server:
            assert await ask(server) == Generation([7, 8], [-0.5, -0.5], "stop", "3")
            (_, body) = server.bodies[0]
            assert body["input_ids"] == [1, 2]
            assert body["return_logprob"] is True
            assert body["rid"] == "r"
            assert body["sampling_params"] == {"max_new_tokens": 4, "temperature": 1.0, "top_p": 1.0, "top_k": -1}

    asyncio.run(run())


def test_what_the_answer_says_about_cache_and_speculation_is_kept() -> None:
    body = answer([7, 8])
    body["meta_info"] |= {"prompt_tokens": 9, "cached_tokens": 4, "completion_tokens": 2, "spec_verify_ct": 1}
    body["meta_info"] |= {"spec_num_correct_drafts": 1, "spec_num_proposed_drafts": 3}

    async def run() -> None:
        async with Server(generate=replies(body=body)) as server:
            found = await ask(server)
            assert (found.prompt_tokens, found.cached_tokens) == (9, 4)
            assert found.spec == SpecInfo(1, 3, 1, 2)

    asyncio.run(run())


def test_a_request_that_waits_for_its_turn_is_aborted_without_being_sent() -> None:
    release = asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.json_response(answer([7, 8]))

    async def run() -> None:
        async with Server(generate=slow) as server, SGLangClient([server.url], concurrency=1) as client:
            first = asyncio.create_task(client.generate([1], SAMPLING, "first"))
            second = asyncio.create_task(client.generate([1], SAMPLING, "second"))
            while not server.counts["/generate"]:
                await asyncio.sleep(0.01)
            await client.abort("second")
            release.set()
            assert (await first).finish_reason == "stop"
            assert await second == Generation([], [], "abort", "")
            assert server.counts["/generate"] == 1

    asyncio.run(run())


def test_a_busy_server_is_asked_again_under_another_name() -> None:
    async def run() -> None:
        async with Server(generate=replies(503, 429)) as server:
            assert (await ask(server)).output_ids == [7, 8]
            assert [body["rid"] for _, body in server.bodies] == ["r", "r.retry1", "r.retry2"]

    asyncio.run(run())


def test_control_survives_a_server_that_closes_idle_connections() -> None:
    """uvicorn closes a connection that idled for its keep-alive time; a request sent at that moment is lost."""

    async def one_request_a_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"}")  # the body
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        await writer.drain()
        await reader.read(64)  # keeps the connection open until a second request arrives, then hangs up on it
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(one_request_a_connection, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        async with server, SGLangClient([f"http://{host}:{port}"]) as client:
            for _ in range(3):
                await client.controls[0].pause()

    asyncio.run(run())


def test_idle_connections_are_dropped_before_the_server_drops_them() -> None:
    assert uvicorn.Config("unused:app").timeout_keep_alive > KEEPALIVE_SECONDS


def test_retries_end() -> None:
    async def run() -> None:
        async with Server(generate=replies(*[500] * 9)) as server:
            with pytest.raises(RequestError, match="status 500"):
                await ask(server, retries=2)
            assert server.counts["/generate"] == 3

    asyncio.run(run())


def test_a_refusal_is_not_repeated() -> None:
    async def run() -> None:
        async with Server(generate=replies(400, body={"error": "too long"})) as server:
            with pytest.raises(RequestError, match="too long"):
                await ask(server)
            assert server.counts["/generate"] == 1

    asyncio.run(run())


def test_a_silent_server_is_given_up() -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async def run() -> None:
        async with Server(generate=hang) as server:
            with pytest.raises(RequestError, match="no answer within"):
                await ask(server, retries=0, timeout=0.2)

    asyncio.run(run())


def test_an_absent_server_is_given_up() -> None:
    async def run() -> None:
        async with SGLangClient(["http://127.0.0.1:9"], retries=1, retry_seconds=0.01) as client:
            with pytest.raises(RequestError, match="Cannot connect"):
                await client.generate([1], SAMPLING, "r")

    asyncio.run(run())


@pytest.mark.parametrize(
    "broken",
    [
        answer([7, 8], log_prob_ids=[7]),
        answer([7, 8], log_prob_ids=[7, 9]),
        answer([7], reason="unheard of"),
        {"text": "no ids"},
    ],
    ids=["a log-prob short", "log-probs of other ids", "an unknown reason", "no fields"],
)
def test_an_answer_whose_parts_disagree_is_refused(broken: dict[str, Any]) -> None:
    async def run() -> None:
        async with Server(generate=replies(body=broken)) as server:
            with pytest.raises(RequestError):
                await ask(server)
            assert server.counts["/generate"] == 1

    asyncio.run(run())


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    most = now = 0

    async def slow(_: web.Request) -> web.StreamResponse:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        return web.json_response(answer([7]))

    async def run() -> None:
        async with Server(generate=slow) as server, SGLangClient([server.url], concurrency=3) as client:
            await asyncio.gather(*(client.generate([1], SAMPLING, f"r{i}") for i in range(20)))

    asyncio.run(run())
    assert most == 3


def test_engines_share_the_requests() -> None:
    async def slow(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.json_response(answer([7]))

    async def run() -> None:
        async with (
            Server(generate=slow) as one,
            Server(generate=slow) as two,
            SGLangClient([one.url, two.url]) as client,
        ):
            await asyncio.gather(*(client.generate([1], SAMPLING, f"r{i}") for i in range(10)))
            assert one.counts["/generate"] == two.counts["/generate"] == 5

    asyncio.run(run())


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def run() -> None:
        async with Server(generate=replies()) as server:
            assert (await ask(server, retries=0)).output_ids == [7, 8]

    asyncio.run(run())


def routes(*paths: str) -> Handler:
    return replies(body={"paths": {path: {} for path in paths}})


@pytest.mark.parametrize("newer", [True, False], ids=["newer server", "older server"])
def test_an_update_is_announced_to_servers_that_want_it(newer: bool) -> None:
    """Newer servers refuse an update that is not announced; older ones do not have the route."""
    paths = ["/update_weights_from_tensor"] + (["/begin_weight_update", "/end_weight_update"] if newer else [])

    async def run() -> list[str]:
        handlers: dict[str, Handler] = {path[1:]: replies(body={"success": True}) for path in paths}
        async with Server(openapi__json=routes(*paths), **handlers) as server, open_session(4) as session:
            control = EngineControl(session, server.url)
            await control.begin_update()
            await control.load_bucket(["one"], "flattened_bucket", None)
            await control.load_bucket(["two"], "flattened_bucket", "4")
            await control.end_update()
            bodies = [body for path, body in server.bodies if path == "/update_weights_from_tensor"]
            assert [body["flush_cache"] for body in bodies] == [False, True]
            assert "weight_version" not in bodies[0] and bodies[1]["weight_version"] == "4"
            assert server.counts["/openapi.json"] == 1
            return [path for path, _ in server.bodies if path != "/openapi.json"]

    seen = asyncio.run(run())
    update = ["/update_weights_from_tensor"] * 2
    assert seen == (["/begin_weight_update", *update, "/end_weight_update"] if newer else update)


def test_the_version_is_asked_where_the_server_has_it() -> None:
    async def run() -> None:
        model_info = replies(body={"weight_version": "12"})
        for name in ("model_info", "get_model_info"):
            server = Server(openapi__json=routes(f"/{name}"), **{name: model_info})
            async with server, open_session(2) as session:
                assert await EngineControl(session, server.url).weight_version() == "12"

    asyncio.run(run())


def test_the_client_can_be_closed_while_requests_wait() -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    async def run() -> float:
        async with Server(generate=hang) as server:
            begun = time.monotonic()
            async with SGLangClient([server.url], retries=0) as client:
                waiting = asyncio.create_task(client.generate([1], SAMPLING, "r"))
                await asyncio.sleep(0.1)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
            return time.monotonic() - begun

    assert asyncio.run(run()) < 30


def test_a_session_stays_on_its_engine_until_that_engine_leaves() -> None:
    async def run() -> None:
        async with (
            Server(generate=replies()) as one,
            Server(generate=replies()) as two,
            SGLangClient([one.url, two.url]) as client,
        ):

            async def ask_for(session: str, times: int) -> None:
                for number in range(times):
                    await client.generate([1], SamplingParams(max_new_tokens=4, session=session), f"{session}-{number}")

            def counts() -> tuple[int, int]:
                return one.counts["/generate"], two.counts["/generate"]

            await ask_for("a", 3)
            assert sorted(counts()) == [0, 3]
            first, second = (one, two) if one.counts["/generate"] else (two, one)
            assert client.leave(first.url)
            assert not client.leave(second.url), "there is no other engine"
            await ask_for("a", 2)
            assert (first.counts["/generate"], second.counts["/generate"]) == (3, 2)
            client.enter(first.url)
            await ask_for("a", 1)
            assert second.counts["/generate"] == 3, "its beginning is in that engine's cache now"

    asyncio.run(run())


def test_a_request_that_an_engine_loses_goes_to_another() -> None:
    async def run() -> None:
        async with Server(generate=replies()) as alive:
            urls = ["http://127.0.0.1:9", alive.url]  # nothing listens at the first
            async with SGLangClient(urls, retry_seconds=0.01) as client:
                answers = [await client.generate([1], SAMPLING, f"r{number}") for number in range(4)]
        assert [one.output_ids for one in answers] == [[7, 8]] * 4
        assert alive.counts["/generate"] == 4

    asyncio.run(run())


def test_a_router_gets_the_session_and_engines_get_the_aborts() -> None:
    headers: list[str | None] = []

    async def route(request: web.Request) -> web.StreamResponse:
        headers.append(request.headers.get("X-SMG-Routing-Key"))
        await asyncio.sleep(0.1)
        return web.json_response(answer([7]))

    async def run() -> None:
        async with (
            Server(generate=route) as router,
            Server(abort_request=replies()) as one,
            Server(abort_request=replies()) as two,
            SGLangClient([one.url, two.url], router=router.url) as client,
        ):
            work = asyncio.create_task(client.generate([1], SamplingParams(max_new_tokens=4, session="s"), "r"))
            await asyncio.sleep(0.05)
            await client.abort("r")
            await work
            assert headers == ["s"]
            assert [body for _, body in (*one.bodies, *two.bodies)] == [{"rid": "r"}] * 2

    asyncio.run(run())
