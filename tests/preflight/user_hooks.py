"""Hooks as users write them, right and wrong."""

from __future__ import annotations

from typing import Any

from slime.rollout.context import current


async def reward(args: Any, sample: Any) -> float:
    return 1.0


def not_awaitable(args: Any, sample: Any) -> float:
    return 1.0


async def too_few(args: Any) -> float:
    return 1.0


async def raises(args: Any, sample: Any) -> float:
    raise ConnectionError("the service is down")


async def mapping(args: Any, sample: Any) -> dict[str, float]:
    return {"score": 1.0}


async def none(args: Any, sample: Any) -> None:
    return None


async def whole_sample(args: Any, sample: Any, sampling_params: Any) -> Any:
    answer = await current().generate(sample, sample.tokens, sampling_params)
    return current().append(sample, answer)


async def short_mask(args: Any, sample: Any, sampling_params: Any) -> Any:
    sample = await whole_sample(args, sample, sampling_params)
    sample.loss_mask = [1] * (sample.response_length + 1)
    return sample


def keeps(args: Any, samples: Any) -> bool:
    return True


def says_maybe(args: Any, samples: Any) -> str:
    return "maybe"
