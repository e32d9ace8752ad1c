"""The experts that an engine routed tokens to, out of its answer: checked for the model, never unpickled."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from slime.data.routes import Routes, RoutesError
from slime.rollout.client import RouteRequest

FIELD = "routed_experts"


def request_fields(routes: RouteRequest | None) -> dict[str, Any]:
    """What a request for routes says besides; SGLang started with --enable-return-routed-experts answers it."""
    if routes is None:
        return {}
    return {"return_routed_experts": True, "routed_experts_start_len": routes.start}


def read_routes(meta: dict[str, Any], asked: RouteRequest, tokens: int) -> Routes:
    """Routes [tokens - 1 - start, layers, top-k] of an answer, in the smallest integers that hold them.

    Args:
        meta: `meta_info` of the answer; the field is base64 of little-endian int32 in C order.
        asked: what was asked for.
        tokens: of the prompt and the response together.

    Raises:
        RoutesError: they are missing, damaged, or do not fit the model.
    """
    text = meta.get(FIELD)
    if not isinstance(text, str):
        raise RoutesError(
            f"the answer has no {FIELD}, which --use-rollout-routing-replay asks for; an engine that was started "
            "elsewhere needs --enable-return-routed-experts"
        )
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise RoutesError(f"{FIELD} is no base64: {error}") from error
    shape, rows = asked.shape, tokens - 1 - asked.start
    row = 4 * shape.layers * shape.chosen
    if len(data) != rows * row:
        raise RoutesError(
            f"{FIELD} has {len(data)} bytes; {rows} tokens of {shape.layers} layers with {shape.chosen} experts each "
            f"have {rows * row}, 4 a number: engine and --hf-checkpoint are of different models, or the engine counts "
            "tokens otherwise"
        )
    routes = np.frombuffer(data, "<i4").reshape(rows, shape.layers, shape.chosen)
    shape.check(routes, rows, rows)
    return routes.astype(shape.dtype)
