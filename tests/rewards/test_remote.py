"""remote_rm against a real HTTP server on loopback: retries, limits, replies, and the door to all graders."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from slime.data.sample import Sample
from slime.rewards.pool import GradeRequest
from slime.rewards.remote import MAX_REPLY, RemoteAddressError, RemoteGrader, RemoteOptions, read_reply
from slime.rewards.service import GradingService
from slime.rewards.verdict import RewardKeyError, Verdict
from slime.rollout.grading import Rewarder, RewardOptions
from slime.rollout.hook_set import HookSet


class Handler(BaseHTTPRequestHandler):
    """Replies as the path says; keeps what it was asked."""

    asked: list[dict[str, Any]] = []  # noqa: RUF012 (reset by the fixture)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body)
        status, reply = 200, b"1.0"
        if self.path == "/echo":
            reply = json.dumps(
                {"score": float(body["response"] == body["label"]), "length": len(body["response"])}
            ).encode()
        elif self.path == "/flaky":
            status = 503 if len(self.asked) < 3 else 200
        elif self.path == "/down":
            status = 500
        elif self.path == "/refuse":
            status = 404
        elif self.path == "/flood":
            reply = b" " * (MAX_REPLY + 1000)
        elif self.path == "/redirect":
            status = 302
        elif self.path == "/silent":
            threading.Event().wait(2.0)
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(reply)))
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()
            self.wfile.write(reply)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client has given up

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Handler.asked = []
    # A proxy of the environment must not be asked for a grader.
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def ask(url: str, *requests: GradeRequest, **options: Any) -> list[Verdict]:
    async def work() -> list[Verdict]:
        async with RemoteGrader(RemoteOptions(url, first_wait=0.01, **options)) as grader:
            return await grader.grade(requests or (GradeRequest("remote_rm", "a", "a", prompt="p"),))

    return asyncio.run(work())


def test_it_sends_prompt_response_and_label_and_keeps_the_order(address: str) -> None:
    requests = [GradeRequest("remote_rm", f"r{n}", f"r{n - n % 2}", prompt=f"p{n}") for n in range(100)]
    verdicts = ask(f"{address}/echo", *requests)
    assert [verdict.kind for verdict in verdicts] == ["correct", "wrong"] * 50
    assert verdicts[0].extra == {"score": 1.0, "length": 2.0}
    assert verdicts[0].value("length") == 2.0
    assert {"prompt": "p7", "response": "r7", "label": "r6"} in Handler.asked
    assert len(Handler.asked) == 100


def test_the_reward_key_names_the_score(address: str) -> None:
    assert ask(f"{address}/echo", reward_key="length")[0].score == 1.0
    (verdict,) = ask(f"{address}/echo", reward_key="quality")
    assert verdict.kind == "grader-error"
    assert "no number 'quality'; it has score, length" in verdict.reason


def test_it_asks_again_where_that_may_help(address: str) -> None:
    assert ask(f"{address}/flaky")[0].kind == "correct"
    assert len(Handler.asked) == 3


@pytest.mark.parametrize(
    ("path", "options", "words", "asked"),
    [
        ("down", {"attempts": 3}, "asked 3 times without a reply; the last: HTTP status 500", 3),
        ("refuse", {"attempts": 3}, "HTTP status 404", 1),
        ("redirect", {"attempts": 3}, "HTTP status 302", 1),
        ("flood", {}, "longer than 1048576 bytes", 1),
        ("silent", {"attempts": 1, "timeout": 0.3}, "asked once without a reply; the last: TimeoutError", 1),
    ],
)
def test_failures_are_grader_errors(address: str, path: str, options: dict[str, Any], words: str, asked: int) -> None:
    (verdict,) = ask(f"{address}/{path}", **options)
    assert verdict.kind == "grader-error"
    assert words in verdict.reason
    assert len(Handler.asked) == asked


def test_a_server_that_is_not_there() -> None:
    (verdict,) = ask("http://127.0.0.1:9/", attempts=2)
    assert verdict.kind == "grader-error"
    assert "asked 2 times without a reply" in verdict.reason


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"", "no JSON"), (b"[" * 100_000, "no JSON"), (b"<html>", "no JSON"), (b"NaN", "not a finite number"),
        (b"null", "not a finite"), (b"[1]", "not a finite"), (b'"1"', "not a finite"),
        (b'{"score": "1"}', "no number 'score'; it has none"), (b"1e999", "not a finite"), (b"9" * 400, "not a finite"),
    ],
)  # fmt: skip
def test_replies_that_are_no_reward(reply: bytes, words: str) -> None:
    verdict = read_reply(reply, None)
    assert verdict.kind == "grader-error"
    assert words in verdict.reason


@pytest.mark.parametrize(
    ("reply", "kind", "score"),
    [(b"true", "correct", 1.0), (b"0.25", "correct", 0.25), (b"0", "wrong", 0.0), (b"-1", "wrong", -1.0)],
)
def test_replies_that_are(reply: bytes, kind: str, score: float) -> None:
    verdict = read_reply(reply, None)
    assert (verdict.kind, verdict.score) == (kind, score)


@pytest.mark.parametrize("url", ["", "localhost:80", "ftp://host/x", "http://", "/path", "file:///etc/passwd"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(RemoteAddressError, match="write http://HOST:PORT/PATH"):
        RemoteOptions(url)


def test_one_door_to_all_graders(address: str) -> None:
    requests = [
        GradeRequest("remote_rm", "a", "b"), GradeRequest("math", "5", "5"), GradeRequest("remote_rm", "c", "c"),
        GradeRequest("gpqa", "The answer is B", "C"),
    ]  # fmt: skip

    async def work(remote: RemoteOptions | None) -> list[str]:
        async with GradingService(1, remote=remote) as service:
            return [verdict.kind for verdict in await service.grade(requests)]

    assert asyncio.run(work(RemoteOptions(f"{address}/echo"))) == ["wrong", "correct", "correct", "wrong"]
    assert asyncio.run(work(None)) == ["grader-error", "correct", "grader-error", "wrong"]


def test_samples_of_a_run_get_rewards_from_every_grader_by_key(address: str) -> None:
    rows = [
        ("remote_rm", "abc", "abc", 1.0, 3.0), ("dapo", "Answer: 4", "4", 1.0, 1.0),
        ("dapo", "Answer: 5", "4", -1.0, 0.0), ("gsm8k", "#### 4", "4", 1.0, 1.0),
        ("f1", "blue whale", "whale", 2 / 3, 0.0),
    ]  # fmt: skip

    async def work(key: str | None, remote_key: str | None) -> list[Any]:
        samples = [
            Sample(index=place, group_index=0, response=response, label=label, metadata={"rm_type": name})
            for place, (name, response, label, _, _) in enumerate(rows)
        ]
        async with GradingService(1, remote=RemoteOptions(f"{address}/echo", remote_key)) as service:
            hooks = HookSet(SimpleNamespace(hook_timeout=60.0, group_rm=False), ())
            for sample in samples:
                options = RewardOptions("math", "length" if sample.index == 0 and remote_key else key)
                await Rewarder(service, options, hooks, None).reward([sample])
        return [sample.reward for sample in samples]

    assert asyncio.run(work(None, None)) == pytest.approx([row[3] for row in rows])
    assert asyncio.run(work("acc", "length")) == pytest.approx([row[4] for row in rows])
    with pytest.raises(
        RewardKeyError, match="--reward-key quality names no number of this grader; it gives score, acc"
    ):
        asyncio.run(work("quality", "length"))
