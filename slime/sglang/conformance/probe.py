"""One engine under examination: requests in the form in which the loop sends them, and what a check concludes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import aiohttp

from slime.sglang.http import RequestError, request_json

State = Literal["ok", "lacks", "fails"]
PROMPT = tuple(range(10, 22))
"""Ids that every vocabulary has. What they mean does not matter."""


class Fails(Exception):
    """The engine does it wrong; the message says what was expected and what came."""


class Lacks(Exception):
    """The engine does not have it; the message says what is missing."""


@dataclass(frozen=True)
class Outcome:
    """What one check found.

    Attributes:
        name: of the check.
        state: "ok", "lacks" or "fails".
        needed: whether the loop cannot do without.
        detail: one line for a person.
        numbers: what was measured, by name.
    """

    name: str
    state: State
    needed: bool
    detail: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """What a check that went well says: a line, and numbers."""

    detail: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """One thing that an engine does.

    Attributes:
        name: short and stable.
        needed: whether the loop cannot do without.
        run: examines; raises `Fails` or `Lacks`.
    """

    name: str
    needed: bool
    run: Callable[[Probe], Awaitable[Found]]

    async def outcome(self, probe: Probe) -> Outcome:
        """Run it; an answer that cannot be read, or none, counts as a failure."""
        try:
            found = await self.run(probe)
        except Lacks as error:
            return Outcome(self.name, "lacks", self.needed, str(error))
        except (Fails, RequestError) as error:
            return Outcome(self.name, "fails", self.needed, str(error))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            return Outcome(self.name, "fails", self.needed, f"an answer is not understood: {error!r}")
        return Outcome(self.name, "ok", self.needed, found.detail, found.numbers)


class Probe:
    """Talks to one engine.

    Attributes:
        url: its base URL.
        timeout: seconds that a request may take.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, timeout: float = 60.0) -> None:
        self.session = session
        self.url = url
        self.timeout = timeout
        self._numbers = itertools.count()
        self._routes: frozenset[str] | None = None

    async def get(self, path: str) -> Any:
        """The answer to a GET. Raises RequestError."""
        return await request_json(self.session, "GET", self.url + path, timeout=self.timeout)

    async def post(self, path: str, **fields: Any) -> Any:
        """The answer to a POST of a JSON object. Raises RequestError."""
        return await request_json(self.session, "POST", self.url + path, fields, self.timeout)

    async def routes(self) -> frozenset[str]:
        """The paths that the engine has, by its own description."""
        if self._routes is None:
            self._routes = frozenset((await self.get("/openapi.json"))["paths"])
        return self._routes

    async def require(self, *paths: str) -> None:
        """Raise `Lacks` for the first path that the engine does not have."""
        for path in paths:
            if path not in await self.routes():
                raise Lacks(f"there is no {path}")

    async def model_info(self) -> Mapping[str, Any]:
        """What the engine serves."""
        newer = "/model_info" in await self.routes()
        info: Mapping[str, Any] = await self.get("/model_info" if newer else "/get_model_info")
        return info

    async def context_length(self) -> int:
        """Tokens of prompt and response together that the engine takes."""
        return int((await self.get("/v1/models"))["data"][0]["max_model_len"])

    def name(self) -> str:
        """A request's name that was not used before."""
        return f"slime-check-{id(self):x}-{next(self._numbers)}"

    async def generate(
        self,
        ids: Sequence[int] = PROMPT,
        rid: str | None = None,
        fields: Mapping[str, Any] | None = None,
        **sampling: Any,
    ) -> Mapping[str, Any]:
        """One response with log-probs.

        Args:
            ids: of the prompt.
            rid: name of the request; None = a new one.
            fields: of the request, besides.
            sampling: parameters; by default 8 greedy tokens that no end token cuts short.
        """
        parameters = {"max_new_tokens": 8, "temperature": 0.0, "ignore_eos": True, **sampling}
        body = {"input_ids": list(ids), "sampling_params": parameters, "return_logprob": True}
        answer: Mapping[str, Any] = await self.post("/generate", rid=rid or self.name(), **body, **(fields or {}))
        return answer

    async def start_long(self, count: int = 1) -> tuple[list[str], list[asyncio.Task[Mapping[str, Any]]]]:
        """Start requests that take as many tokens as the engine allows; their names and tasks, once they run."""
        longest = min(await self.context_length() - len(PROMPT) - 1, 32768)
        names = [self.name() for _ in range(count)]
        tasks = [asyncio.create_task(self.generate(rid=name, max_new_tokens=longest)) for name in names]
        await asyncio.sleep(0.05)
        return names, tasks


def ids_of(answer: Mapping[str, Any]) -> list[int]:
    """The generated ids of an answer, as its log-probs name them."""
    return [int(triple[1]) for triple in answer["meta_info"]["output_token_logprobs"]]


def log_probs_of(answer: Mapping[str, Any]) -> list[float]:
    """The log-probs of the generated ids."""
    return [float(triple[0]) for triple in answer["meta_info"]["output_token_logprobs"]]


def reason_of(answer: Mapping[str, Any]) -> str:
    """Why a response ended."""
    return str((answer["meta_info"]["finish_reason"] or {}).get("type"))


def expect(holds: bool, otherwise: str) -> None:
    """Raise `Fails` with the message unless the condition holds."""
    if not holds:
        raise Fails(otherwise)
