"""Routes: which experts each token of a sequence goes through, and what they must be for a given model.

Made by the sampler, replayed by the trainer (--use-rollout-routing-replay). Both doors check them with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from slime.weights.dimensions import HFModelConfig

Routes = npt.NDArray[np.integer[Any]]
"""int [rows, layers, top-k]: row t has the experts of token t in every layer; layers without experts hold anything.

The last token has no row: nothing comes after it. Nor have tokens that a tool put behind the last sampled one, which no
engine ever saw; what trains does not depend on them.
"""


class RoutesError(ValueError):
    """Routes do not fit the model or the sequence; the text has the numbers, and names no sample."""


@dataclass(frozen=True)
class RouteShape:
    """What routes of one model look like.

    Attributes:
        layers: all decoder layers, those without experts included.
        with_experts: zero-based numbers of those that have experts.
        chosen: experts of a token in a layer.
        count: experts of a layer.
    """

    layers: int
    with_experts: tuple[int, ...]
    chosen: int
    count: int

    @property
    def dtype(self) -> type[np.uint8] | type[np.int16]:
        """The smallest integers that number the experts; a long response has millions of them."""
        return np.uint8 if self.count <= 256 else np.int16

    def check(self, routes: Routes, least: int, most: int) -> None:
        """Refuse routes of another shape, unknown experts, and an expert that is chosen twice for one token.

        A token's row of zeros is such a repetition: it is what an engine returns for a token that it never routed.

        Args:
            least, most: rows that there may be.

        Raises:
            RoutesError: with the first row, layer and numbers that are wrong.
        """
        rows = len(routes)
        if routes.shape[1:] != (self.layers, self.chosen) or not least <= rows <= most:
            span = most if least == most else f"{least} to {most}"
            raise RoutesError(
                f"routes have the shape {list(routes.shape)}; this model's are [tokens - 1, layers, experts a token] = "
                f"[{span}, {self.layers}, {self.chosen}]"
            )
        if not rows:
            return
        used = routes[:, list(self.with_experts)]
        if used.min() < 0 or used.max() >= self.count:
            row, layer, _ = np.argwhere((used < 0) | (used >= self.count))[0]
            raise RoutesError(
                f"token {row} goes to the experts {used[row, layer].tolist()} in layer {self.with_experts[layer]}, and "
                f"a layer has {self.count}"
            )
        columns = np.ascontiguousarray(np.moveaxis(used, -1, 0))
        for one, two in combinations(columns, 2):
            if (same := one == two).any():
                row, layer = np.argwhere(same)[0]
                raise RoutesError(
                    f"token {row} goes to the experts {used[row, layer].tolist()} in layer "
                    f"{self.with_experts[layer]}, one of them twice; a router chooses different ones"
                )


def route_shape(model: HFModelConfig) -> RouteShape:
    """Of the model of a checkpoint.

    Raises:
        RoutesError: it has no experts.
    """
    experts = model.experts
    if experts is None:
        raise RoutesError(f"a {model.family} model without experts has no routes; leave routing replay out")
    return RouteShape(model.layers, experts.layers, experts.chosen, experts.count)


def joined(earlier: Routes | None, start: int, later: Routes) -> Routes:
    """The first `start` rows of `earlier`, which were routed when those tokens were sampled, then `later`.

    Raises:
        RoutesError: there are fewer.
    """
    if start == 0:
        return later
    have = 0 if earlier is None else len(earlier)
    if earlier is None or have < start:
        raise RoutesError(f"routes begin at token {start}, and only {have} are there before them")
    return np.concatenate([earlier[:start], later])


def common_start(tokens: Sequence[int], routes: Routes | None, input_ids: Sequence[int]) -> int:
    """How many rows of `routes` a request for what follows `input_ids` need not ask for again.

    Args:
        tokens: of the sample that has `routes`.
    """
    if routes is None:
        return 0
    rows = min(len(routes), len(input_ids))
    return rows if list(tokens[:rows]) == list(input_ids[:rows]) else 0


def needed_rows(prompt_length: int, mask: Sequence[int] | npt.NDArray[np.float32]) -> int:
    """Rows without which a token that trains would be computed with experts that nobody chose.

    Args:
        mask: of the response, 1 = the token trains.
    """
    trained = np.flatnonzero(np.asarray(mask))
    return prompt_length + int(trained[-1]) if len(trained) else 0
