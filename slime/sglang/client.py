"""The generation client: spreads requests over the engines, bounded in number, time and retries."""

from __future__ import annotations

import asyncio
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
from slime.sglang.routes import read_routes, request_fields

FINISH_REASONS = {"stop": "stop", "length": "length", "abort": "abort"}


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
    ) -> None:
        """
        Args:
            urls: base URLs of the engines.
            concurrency: requests in flight per engine; further ones wait here, not in the server.
            timeout: seconds that one request may take in the server.
            retries: how often a request is sent again after a lost connection or a busy answer.
            retry_seconds: pause before the first retry; it doubles each time.
        """
        if not urls:
            raise ValueError("a client needs at least one engine")
        self.urls = list(urls)
        self.timeout = timeout
        self.retries = retries
        self.retry_seconds = retry_seconds
        # Control requests must not queue behind generation, so they get connections beyond the limit.
        self.session: aiohttp.ClientSession = open_session(concurrency * len(urls) + len(urls))
        self._slots = {url: asyncio.Semaphore(concurrency) for url in urls}
        self._in_flight = dict.fromkeys(urls, 0)
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
        while True:
            url = min(self.urls, key=lambda u: self._in_flight[u])
            # A server refuses a name that it still knows from an attempt whose connection was lost.
            name = rid if attempt == 0 else f"{rid}.retry{attempt}"
            try:
                return await self._attempt(url, name, input_ids, sampling, rid)
            except RequestError as error:
                if not error.retryable or attempt == self.retries:
                    raise
                await asyncio.sleep(self.retry_seconds * 2**attempt)
                attempt += 1

    async def _attempt(
        self, url: str, name: str, input_ids: list[int], sampling: SamplingParams, rid: str
    ) -> Generation:
        self._in_flight[url] += 1
        try:
            async with self._slots[url]:
                if rid in self._cancelled:
                    return Generation([], [], "abort", "")
                self._sent[rid] = (url, name)
                answer = await request_json(
                    self.session, "POST", f"{url}/generate", _body(input_ids, sampling, name), self.timeout
                )
                found = _parse(answer, url, sampling.top_logprobs_num)
                return _with_routes(found, answer, url, sampling, len(input_ids))
        finally:
            self._in_flight[url] -= 1
            self._sent.pop(rid, None)

    async def abort(self, rid: str) -> None:
        """Cancel the request `rid`; its `generate` returns what came so far. Unknown names are ignored."""
        if rid in self._sent:
            url, name = self._sent[rid]
            await request_json(self.session, "POST", f"{url}/abort_request", {"rid": name})
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
