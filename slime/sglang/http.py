"""One JSON request to a server, with a timeout and an error that says what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import aiohttp

MAX_TEXT = 400
"""Characters of a server's answer that an error quotes."""


KEEPALIVE_SECONDS = 2.0
"""How long an idle connection is used again. SGLang's server closes one after 5 s (uvicorn's default), and a request
that meets the closing is lost; so ours go first."""


class RequestError(RuntimeError):
    """A request failed.

    Attributes:
        status: the HTTP status, or None when no answer came.
        retryable: whether the same request may succeed later: no answer, or the server said that it is busy.
    """

    def __init__(self, message: str, status: int | None, retryable: bool) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable


def open_session(connections: int, reuse: bool = True) -> aiohttp.ClientSession:
    """A session for servers of this run. Proxies of the environment are ignored: engines are reached directly.

    Args:
        connections: how many requests may be in flight at a time; further ones wait.
        reuse: whether a connection may carry a second request. Without, no request can meet a connection that the
            server is just closing; for requests that are rare and must not be sent twice.
    """
    if reuse:
        connector = aiohttp.TCPConnector(limit=connections, limit_per_host=0, keepalive_timeout=KEEPALIVE_SECONDS)
    else:
        connector = aiohttp.TCPConnector(limit=connections, limit_per_host=0, force_close=True)
    return aiohttp.ClientSession(connector=connector, trust_env=False)


async def request_json(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    body: Any = None,
    timeout: float = 60.0,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """Send one request and return the JSON of its answer; None for an empty answer, text when it is not JSON.

    Args:
        session: an open session.
        method: "GET", "POST" or "DELETE".
        url: full URL.
        body: what to send as JSON with a POST.
        timeout: seconds for the whole exchange, the wait for a free connection included.
        headers: to send besides.

    Raises:
        RequestError: no answer in time, a lost connection, or a status other than 2xx (with the server's own words).
    """
    try:
        async with session.request(
            method,
            url,
            json=body if method == "POST" else None,
            timeout=aiohttp.ClientTimeout(total=timeout),
            headers=headers,
        ) as response:
            text = await response.text()
            if not 200 <= response.status < 300:
                retryable = response.status == 429 or response.status >= 500
                raise RequestError(
                    f"{method} {url} was refused with status {response.status}: {text[:MAX_TEXT]}",
                    response.status,
                    retryable,
                )
    except TimeoutError as error:
        raise RequestError(f"{method} {url} had no answer within {timeout:.0f} s", None, True) from error
    except aiohttp.ClientError as error:
        raise RequestError(f"{method} {url} failed: {error or type(error).__name__}", None, True) from error
    if not text:
        return None
    if "json" not in response.headers.get("Content-Type", ""):
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise RequestError(f"{method} {url} answered with broken JSON: {text[:MAX_TEXT]}", None, False) from error
