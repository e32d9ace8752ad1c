"""What an answer must hold: ids, log-probs and their values, reasons, and requests side by side."""

from __future__ import annotations

import asyncio
import math
from typing import Any

from slime.sglang.conformance.probe import (
    PROMPT,
    Check,
    Fails,
    Found,
    Lacks,
    Probe,
    expect,
    ids_of,
    log_probs_of,
    reason_of,
)
from slime.sglang.http import RequestError

# Between generating a token and scoring it again: sums in bfloat16 differ in their order. Other weights, a wrong
# position or a wrong temperature differ by far more.
LARGEST_DIFFERENCE = 0.25
MEAN_DIFFERENCE = 0.05


async def health(probe: Probe) -> Found:
    """It says that it is well, and that it generates."""
    await probe.get("/health")
    await probe.require("/health_generate")
    await probe.get("/health_generate")
    return Found("/health and /health_generate answer")


async def identity(probe: Probe) -> Found:
    """It says what it serves."""
    info = await probe.model_info()
    newer = "/server_info" in await probe.routes()
    server = await probe.get("/server_info" if newer else "/get_server_info")
    expect(bool(info["is_generation"]), "it embeds text and generates none")
    gpus = server["tp_size"] * server.get("pp_size", 1)
    return Found(
        f"SGLang {server.get('version', '?')}, {info.get('model_type', '?')} from {info['model_path']}, on {gpus} "
        f"device(s), {await probe.context_length()} tokens, weights {info['weight_version']!r}",
        {"gpus": gpus},
    )


async def token_ids(probe: Probe) -> Found:
    """Ids in, ids out: as many as asked for, the same in both places of the answer, counted right."""
    answer = await probe.generate()
    meta = answer["meta_info"]
    expect(answer["output_ids"] == ids_of(answer), "output_ids are not the ids that the log-probs name")
    expect(len(answer["output_ids"]) == 8, f"8 tokens were asked for, {len(answer['output_ids'])} came")
    counts = (meta["prompt_tokens"], meta["completion_tokens"])
    expect(counts == (len(PROMPT), 8), f"it counts {counts} tokens of prompt and response, not {(len(PROMPT), 8)}")
    return Found("8 ids for 12, named twice and counted right")


async def repeats(probe: Probe) -> Found:
    """Greedy decoding gives the same response again."""
    first, second = [ids_of(await probe.generate()) for _ in range(2)]
    if first != second:
        raise Lacks("two greedy responses to one prompt differ")
    return Found("the same greedy response twice")


async def log_probs(probe: Probe) -> Found:
    """Every sampled token has a log-prob, and scoring the same tokens again gives the same values."""
    answer = await probe.generate(temperature=1.0, max_new_tokens=16)
    ids, values = ids_of(answer), log_probs_of(answer)
    expect(len(values) == 16, f"16 tokens and {len(values)} log-probs")
    expect(all(math.isfinite(one) and one <= 1e-6 for one in values), f"log-probs are at most 0: {values}")
    scored = await probe.generate([*PROMPT, *ids], fields={"logprob_start_len": 0}, max_new_tokens=1)
    triples = scored["meta_info"]["input_token_logprobs"][-16:]
    expect([int(one[1]) for one in triples] == ids, "scoring names other ids than those that were sent")
    gaps = [abs(float(one[0]) - value) for one, value in zip(triples, values, strict=True)]
    largest, mean = max(gaps), sum(gaps) / len(gaps)
    expect(
        largest <= LARGEST_DIFFERENCE and mean <= MEAN_DIFFERENCE,
        f"log-probs of sampled tokens differ from those of the same tokens scored again by {largest:.3g} at most and "
        f"{mean:.3g} in the mean; {LARGEST_DIFFERENCE} and {MEAN_DIFFERENCE} are the limits",
    )
    return Found(f"16 values; scored again they differ by {largest:.2g} at most", {"largest": largest, "mean": mean})


async def top_log_probs(probe: Probe) -> Found:
    """The likeliest ids of each position come sorted, and the greedy one is the first."""
    answer = await probe.generate(fields={"top_logprobs_num": 4})
    for row, value in zip(answer["meta_info"]["output_top_logprobs"], log_probs_of(answer), strict=True):
        found = [float(pair[0]) for pair in row]
        expect(len(found) == 4, f"4 likeliest ids were asked for, {len(found)} came")
        expect(found == sorted(found, reverse=True), f"the likeliest ids are not sorted: {found}")
        expect(abs(found[0] - value) < 1e-3, f"the greedy token has {value}, the likeliest {found[0]}")
        expect(sum(map(math.exp, found)) < 1.001, f"probabilities above 1: {found}")
    return Found("4 likeliest ids at each position")


async def temperature(probe: Probe) -> Found:
    """Log-probs are those of the distribution that is sampled: the temperature divides the difference of two."""
    gaps = {}
    for heat in (1.0, 2.0):
        answer = await probe.generate(temperature=heat, max_new_tokens=1, fields={"top_logprobs_num": 4})
        row = answer["meta_info"]["output_top_logprobs"][0]
        gaps[heat] = float(row[0][0]) - float(row[3][0])
    if abs(gaps[2.0] - gaps[1.0] / 2) > 0.02 + 0.05 * gaps[1.0]:
        raise Lacks(
            f"log-probs at temperature 2 are those of the unchanged model (a gap of {gaps[2.0]:.3f}, at temperature 1 "
            f"{gaps[1.0]:.3f}); sample at temperature 1, or unset SGLANG_RETURN_ORIGINAL_LOGPROB"
        )
    return Found("log-probs follow the temperature")


async def length_reason(probe: Probe) -> Found:
    """A response that reaches its limit says so."""
    answer = await probe.generate(max_new_tokens=5)
    found = (reason_of(answer), len(ids_of(answer)))
    expect(found == ("length", 5), f"a limit of 5 tokens gave {found[1]} and the reason {found[0]!r}, not 'length'")
    return Found("the limit is kept and named")


async def stop_reason(probe: Probe) -> Found:
    """A token that ends a response is part of it, and is named as the reason."""
    # With `ignore_eos` SGLang ignores these ids as well, so the model's own end token may come first.
    ids = ids_of(await probe.generate(ignore_eos=False))
    end = ids[min(3, len(ids) - 1)]
    expected = ids[: ids.index(end) + 1]
    answer = await probe.generate(stop_token_ids=[end], ignore_eos=False)
    expect(ids_of(answer) == expected, f"stopped at {end}, the response is {ids_of(answer)}, not {expected}")
    expect(reason_of(answer) == "stop", f"the reason is {reason_of(answer)!r}, not 'stop'")
    return Found("the end token is kept, the reason is stop")


async def seeds(probe: Probe) -> Found:
    """A request with a seed draws the same again, whatever else the engine does."""
    try:
        draws = [
            ids_of(await probe.generate(temperature=1.0, max_new_tokens=16, sampling_seed=seed))
            for seed in (1, 1, 2, 3)
        ]
    except RequestError as error:
        raise Lacks(f"sampling_seed is refused: {error}") from error
    if draws[0] != draws[1]:
        raise Lacks("two requests with one sampling_seed differ; without --enable-deterministic-inference they may")
    expect(len({tuple(one) for one in draws[1:]}) > 1, "requests with different seeds draw the same")
    return Found("a seed fixes the draw")


async def concurrency(probe: Probe) -> Found:
    """Requests side by side get their own answers."""
    names = [probe.name() for _ in range(16)]
    answers = await asyncio.gather(
        *(probe.generate(PROMPT[: 2 + number % 8], rid=name) for number, name in enumerate(names))
    )
    for number, (name, answer) in enumerate(zip(names, answers, strict=True)):
        meta = answer["meta_info"]
        expect(meta["id"] == name, f"the request {name} got the answer of {meta['id']}")
        expect(meta["prompt_tokens"] == 2 + number % 8, f"{name} was answered for a prompt of {meta['prompt_tokens']}")
    return Found("16 requests at once, each with its own answer")


async def malformed(probe: Probe) -> Found:
    """What cannot be served is refused with a status of 400 and words, and nothing else suffers."""
    limit = await probe.context_length()
    broken: dict[str, dict[str, Any]] = {
        "no prompt": {"sampling_params": {}},
        "an empty prompt": {"input_ids": []},
        "a prompt of text where ids belong": {"input_ids": "text"},
        "a negative limit": {"input_ids": [10], "sampling_params": {"max_new_tokens": -1}},
        "an impossible top_p": {"input_ids": [10], "sampling_params": {"top_p": 3.0}},
        "an unknown parameter": {"input_ids": [10], "sampling_params": {"no_such_parameter": 1}},
        "a prompt above the context length": {"input_ids": [10] * (limit + 1)},
    }
    for what, body in broken.items():
        try:
            await probe.post("/generate", **body)
        except RequestError as error:
            expect(error.status is not None and 400 <= error.status < 500, f"{what} is answered with: {error}")
        else:
            raise Fails(f"{what} is served")
    await probe.generate()
    return Found(f"{len(broken)} kinds are refused, and it generates on")


CHECKS = (
    Check("health", False, health),
    Check("identity", True, identity),
    Check("token ids", True, token_ids),
    Check("greedy repeats", False, repeats),
    Check("log-probs", True, log_probs),
    Check("likeliest ids", False, top_log_probs),
    Check("temperature", False, temperature),
    Check("reason length", True, length_reason),
    Check("reason stop", True, stop_reason),
    Check("seeds", False, seeds),
    Check("concurrency", True, concurrency),
    Check("malformed requests", True, malformed),
)
