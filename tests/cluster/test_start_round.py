"""The first round of a run: after the one that was resumed, unless the flags say otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slime.config import Config

pytestmark = pytest.mark.runtime


@pytest.mark.parametrize(("asked", "resumed", "first"), [(None, None, 0), (None, 4, 5), (0, 4, 0), (7, None, 7)])
def test_the_flag_comes_before_the_checkpoint(asked: int | None, resumed: int | None, first: int) -> None:
    from slime.cluster.cluster import Cluster
    from slime.cluster.trainer_actor import Loaded

    run: Any = SimpleNamespace(config=Config(start_rollout_id=asked), loaded=Loaded("run", resumed, {}))
    start_round: Any = Cluster.start_round
    assert start_round.fget(run) == first
