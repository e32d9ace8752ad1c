"""The generation client: spreads requests over the engines, bounded in number, time and retries.

It sends a request to the engine with the fewest in flight, and a further request of a session to the engine of the one
before, which holds the session's beginning in its prefix cache. Where a router stands between, the router chooses, and
is told the session.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import aiohttp
import numpy as np

from slime.data.routes import RoutesError
from slime.data.sample_types import SpecInfo
from slime.rollout.client import Generation, SamplingParams
from slime.sglang.control import EngineControl
from slime.sglang.http import RequestError, open_session, request_json
from slime.sglang.router import SESSION_HEADER
from slime.sglang.routes import read_routes, request_fields

FINISH_REASONS = {"stop": "stop", "length": "length", "abort": "abort"}
# Sessions whose engine is remembered; the oldest are forgotten first. More than any round has samples.
SESSIONS = 1 << 17


class SGLangClient:
    """Generates over HTTP with one or more SGLang servers; implements `slime.rollout.client.GenerateClient`.

    Make it inside the event loop that uses it, and close it there.
    """

    def __init__(
        self,
        urls: Sequence[str],
        concurrency: int = 512,
        timeout: float = 1800.0,
        retries: int = 3,
        retry_seconds: float = 1.0,
        router: str | None = None,
    ) -> None:
        """
        Args:
            urls: base URLs of the engines.
            concurrency: requests in flight per engine; further ones wait here, not in the server.
            timeout: seconds that one request may take in the server.
            retries: how often a request is sent again after a lost connection or a busy answer.
            retry_seconds: pause before the first retry; it doubles each time.
            router: base URL of a router that knows these engines; requests to generate go there, all others to the
                engines themselves.
        """
        if not urls:
            raise ValueError("a client needs at least one engine")
        self.urls = list(urls)
        self.router = router
        self.timeout = timeout
        self.retries = retries
        self.retry_seconds = retry_seconds
        # Control requests must not queue behind generation, so they get connections beyond the limit.
        self.session: aiohttp.ClientSession = open_session(concurrency * len(urls) + len(urls))
        targets = urls if router is None else [router]
        self._slots = {url: asyncio.Semaphore(concurrency * len(urls) // len(targets)) for url in targets}
        self._in_flight = dict.fromkeys(targets, 0)
        self._engine_of: OrderedDict[str, str] = OrderedDict()
        self._left: set[str] = set()
        self._sent: dict[str, tuple[str, str]] = {}
        self._waiting: set[str] = set()
        self._cancelled: set[str] = set()
        self._control_session = open_session(2 * len(urls), reuse=False)
        self.controls = [EngineControl(self._control_session, url) for url in urls]

    async def generate(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        """Sample one response.

        Args:
            input_ids: prompt ids, and the ids generated so far when a response is continued.
            sampling: how to sample.
            rid: name of the request, unique among those in flight.

        Raises:
            RequestError: the server refused the request, or did not answer in time or after all retries.
        """
        self._waiting.add(rid)
        try:
            return await self._until_answered(input_ids, sampling, rid)
        finally:
            self._waiting.discard(rid)
            self._cancelled.discard(rid)

    async def _until_answered(self, input_ids: list[int], sampling: SamplingParams, rid: str) -> Generation:
        attempt = 0
        url = ""
        while True:
            url = self._choose(sampling.session, failed=url)
            # A server refuses a name that it still knows from an attempt whose connection was lost.
            name = rid if attempt == 0 else f"{rid}.retry{attempt}"
            try:
                return await self._attempt(url, name, input_ids, sampling, rid)
            except RequestError as error:
                if not error.retryable or attempt == self.retries:
                    raise
                await asyncio.sleep(self.retry_seconds * 2**attempt)
                attempt += 1

    def _choose(self, session: str | None, failed: str) -> str:
        """Where to send a request: the session's engine, else the one with the fewest; not where it just failed."""
        last = self._engine_of.pop(session, None) if session is not None else None
        here = [url for url in self._in_flight if url not in self._left]
        free = [url for url in here if url != failed] or here
        url = last if last is not None and last in free else min(free, key=lambda one: self._in_flight[one])
        if session is not None:
            self._engine_of[session] = url
            if len(self._engine_of) > SESSIONS:
                self._engine_of.popitem(last=False)
        return url

    async def _attempt(
        self, url: str, name: str, input_ids: list[int], sampling: SamplingParams, rid: str
    ) -> Generation:
        self._in_flight[url] += 1
        try:
            async with self._slots[url]:
                if rid in self._cancelled:
                    return Generation([], [], "abort", "")
                self._sent[rid] = (url, name)
                named = self.router is not None and sampling.session is not None
                headers = {SESSION_HEADER: str(sampling.session)} if named else None
                body = _body(input_ids, sampling, name)
                answer = await request_json(self.session, "POST", f"{url}/generate", body, self.timeout, headers)
                found = _parse(answer, url, sampling.top_logprobs_num)
                return _with_routes(found, answer, url, sampling, len(input_ids))
        finally:
            self._in_flight[url] -= 1
            self._sent.pop(rid, None)

    def leave(self, url: str) -> bool:
        """Send nothing more to an engine that ended; False, and nothing changes, when there is no other one."""
        if len(self._left) + 1 == len(self.urls):
            return False
        self._left.add(url)
        return True

    def enter(self, url: str) -> None:
        """Send requests again to an engine that left."""
        self._left.discard(url)

    async def abort(self, rid: str) -> None:
        """Cancel the request `rid`; its `generate` returns what came so far. Unknown names are ignored.

        So is an engine that does not answer: its requests fail by themselves.
        """
        if rid in self._sent:
            url, name = self._sent[rid]
            # Only a router knows where it sent a request, and an engine ignores a name that it does not know.
            urls = [url] if self.router is None else self.urls
            posts = (request_json(self.session, "POST", f"{one}/abort_request", {"rid": name}) for one in urls)
            answers = await asyncio.gather(*posts, return_exceptions=True)
            failed = [one for one in answers if isinstance(one, BaseException) and not isinstance(one, RequestError)]
            if failed:
                raise failed[0]
        elif rid in self._waiting:  # for a free slot, or before it is sent again: then it is not sent at all
            self._cancelled.add(rid)

    async def abort_all(self) -> None:
        """Cancel every request of every engine."""
        await asyncio.gather(*(control.abort_all() for control in self.controls))

    async def close(self) -> None:
        """Close all connections."""
        await self.session.close()
        await self._control_session.close()

    async def __aenter__(self) -> SGLangClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _body(input_ids: list[int], sampling: SamplingParams, name: str) -> dict[str, Any]:
    body = {"input_ids": input_ids, "sampling_params": sampling.to_dict(), "return_logprob": True, "rid": name}
    body |= {"top_logprobs_num": sampling.top_logprobs_num} if sampling.top_logprobs_num else {}
    return body | request_fields(sampling.routes)


def _parse(answer: Any, url: str, top: int) -> Generation:
    """Read an answer of `/generate`, and refuse one whose parts disagree."""
    try:
        meta = answer["meta_info"]
        triples = meta["output_token_logprobs"]
        ids = [int(triple[1]) for triple in triples]
        logprobs = [float(triple[0]) for triple in triples]
        kind = (meta["finish_reason"] or {}).get("type", "")
        reason = FINISH_REASONS[kind]
        version = str(meta["weight_version"])
        output_ids = [int(token) for token in answer["output_ids"]]
        likeliest = np.array([[pair[:2] for pair in row] for row in meta["output_top_logprobs"]] if top else [])
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise RequestError(
            f"{url}/generate gave an answer that is not understood ({error!r}): {str(answer)[:400]}", None, False
        ) from error
    if ids != output_ids:
        raise RequestError(
            f"{url}/generate returned {len(output_ids)} output ids and log-probs of {len(ids)} other ids; "
            "training on them would pair tokens with wrong log-probs",
            None,
            False,
        )
    plain = Generation(output_ids, logprobs, reason, version, **_counters(meta))  # type: ignore[arg-type]
    if not top or not output_ids:
        return plain
    if likeliest.shape != (len(output_ids), top, 2):
        raise RequestError(
            f"{url}/generate was asked for the {top} likeliest of {len(output_ids)} positions, and the answer has the "
            f"shape {list(likeliest.shape)}; a vocabulary smaller than --score-centering-top-k gives fewer",
            None,
            False,
        )
    top_ids, values = likeliest[..., 1].astype(np.int32), likeliest[..., 0].astype(np.float32)
    return replace(plain, top_token_ids=top_ids, top_log_probs=values)


def _with_routes(found: Generation, answer: Any, url: str, sampling: SamplingParams, prompt: int) -> Generation:
    """With the experts of its tokens, when they were asked for; one without tokens needs none."""
    if sampling.routes is None or not found.output_ids:
        return found
    try:
        routes = read_routes(answer["meta_info"], sampling.routes, prompt + len(found.output_ids))
    except RoutesError as error:
        raise RequestError(f"{url}/generate: {error}", None, False) from error
    return replace(found, routed_experts=routes, routes_start=sampling.routes.start)


def _counters(meta: dict[str, Any]) -> dict[str, Any]:
    """What an answer says about the prefix cache and about speculative decoding; servers without them say nothing."""
    found: dict[str, Any] = {name: int(meta.get(name) or 0) for name in ("prompt_tokens", "cached_tokens")}
    if meta.get("spec_verify_ct"):
        found["spec"] = SpecInfo(
            spec_accept_token_num=int(meta.get("spec_num_correct_drafts") or 0),
            spec_draft_token_num=int(meta.get("spec_num_proposed_drafts") or 0),
            spec_verify_ct=int(meta["spec_verify_ct"]),
            completion_token_num=int(meta.get("completion_tokens") or 0),
        )
    return found
