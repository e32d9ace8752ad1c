"""What an engine must let the loop do to it: end requests, hold still, forget prefixes, take weights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from slime.sglang.conformance.probe import Check, Fails, Found, Lacks, Probe, expect, ids_of, log_probs_of, reason_of
from slime.sglang.http import RequestError

ABORT_SECONDS = 30.0
HELD_SECONDS = 1.0
FLUSH_ATTEMPTS = 20
# Path that an update of weights takes -> routes that it needs.
WEIGHT_PATHS: Mapping[str, tuple[str, ...]] = {
    "weights from memory": ("/update_weights_from_tensor", "/pause_generation", "/continue_generation"),
    "weights by broadcast": (
        "/init_weights_update_group", "/update_weights_from_distributed", "/destroy_weights_update_group",
    ),
    "weights from disk": ("/update_weights_from_disk",),
    "weight checksums": ("/weights_checker",),
    "memory release": ("/release_memory_occupation", "/resume_memory_occupation"),
}  # fmt: skip


async def abort_one(probe: Probe) -> Found:
    """A request that is aborted ends at once, with what it has; an unknown name is ignored."""
    await probe.post("/abort_request", rid="slime-check-unknown")
    (name,), (task,) = await probe.start_long()
    await probe.post("/abort_request", rid=name)
    (answer,) = await _ended([task], "an aborted request")
    return Found(f"an aborted request ends with its {len(ids_of(answer))} tokens")


async def abort_all(probe: Probe) -> Found:
    """All requests can be ended together."""
    _, tasks = await probe.start_long(3)
    await probe.post("/abort_request", rid="", abort_all=True)
    await _ended(tasks, "a request, after all were aborted,")
    return Found("3 requests end together")


async def pause(probe: Probe) -> Found:
    """Paused, it ends what runs and begins nothing; continued, it answers what waited."""
    await probe.require("/pause_generation", "/continue_generation")
    _, tasks = await probe.start_long()
    await probe.post("/pause_generation", mode="abort")
    try:
        await _ended(tasks, "a request, after a pause in the mode abort,")
        waiting = asyncio.create_task(probe.generate())
        done, _ = await asyncio.wait([waiting], timeout=HELD_SECONDS)
    finally:
        await probe.post("/continue_generation")
    answer = await waiting
    expect(not done, "it generates while it is paused")
    expect(len(ids_of(answer)) == 8, "a request that waited through a pause is not answered whole")
    return Found("a pause ends what runs, holds what comes, and is lifted")


async def flush(probe: Probe) -> Found:
    """Cached prefixes can be dropped: after an update of weights they are wrong."""
    prompt = [11 + number % 7 for number in range(64)]
    await _flush(probe)
    cached = [(await probe.generate(prompt, max_new_tokens=1))["meta_info"]["cached_tokens"] for _ in range(2)]
    await _flush(probe)
    after = (await probe.generate(prompt, max_new_tokens=1))["meta_info"]["cached_tokens"]
    expect(after == 0, f"{after} tokens come from the cache after a flush")
    if cached[1] == 0:
        return Found("nothing is cached, so nothing is left after a flush")
    return Found(f"{cached[1]} of 64 tokens were cached, none after a flush", {"cached": cached[1]})


async def weight_version(probe: Probe) -> Found:
    """Answers carry the label of the weights; a new label is on the next answer."""
    label = str((await probe.model_info())["weight_version"])
    found = str((await probe.generate())["meta_info"]["weight_version"])
    expect(found == label, f"it reports the weights {label!r} and answers with {found!r}")
    await probe.require("/update_weight_version")
    try:
        await probe.post("/update_weight_version", new_version="slime-check", abort_all_requests=False)
        found = str((await probe.generate())["meta_info"]["weight_version"])
    finally:
        await probe.post("/update_weight_version", new_version=label, abort_all_requests=False)
    expect(found == "slime-check", f"relabelled 'slime-check', it answers with {found!r}")
    return Found(f"answers carry the label, {label!r} now")


def _weight_path(name: str) -> Check:
    async def run(probe: Probe) -> Found:
        await probe.require(*WEIGHT_PATHS[name])
        return Found("the routes are there")

    return Check(name, False, run)


async def _flush(probe: Probe) -> None:
    for attempt in range(FLUSH_ATTEMPTS):
        try:
            await probe.post("/flush_cache")
            return
        except RequestError as error:
            if error.status == 404:
                raise Lacks("there is no /flush_cache") from error
            if error.status != 400 or attempt == FLUSH_ATTEMPTS - 1:
                raise
            await asyncio.sleep(0.25)  # requests are still being wound up


async def _ended(tasks: Sequence[asyncio.Task[Mapping[str, Any]]], what: str) -> list[Mapping[str, Any]]:
    """The answers of requests that were ended; each says so, and is whole in itself."""
    done, running = await asyncio.wait(tasks, timeout=ABORT_SECONDS)
    for task in running:
        task.cancel()
    if running:
        raise Fails(f"{what} still runs {ABORT_SECONDS:.0f} s later")
    answers = [task.result() for task in done]
    for answer in answers:
        expect(reason_of(answer) == "abort", f"{what} ends with the reason {reason_of(answer)!r}, not 'abort'")
        sizes = (len(answer["output_ids"]), len(log_probs_of(answer)))
        expect(sizes[0] == sizes[1], f"{what} has {sizes[0]} ids and {sizes[1]} log-probs")
    return answers


CHECKS = (
    Check("abort", True, abort_one),
    Check("abort all", False, abort_all),
    Check("pause and continue", True, pause),
    Check("flush", True, flush),
    Check("weight version", True, weight_version),
    *(_weight_path(name) for name in WEIGHT_PATHS),
)
