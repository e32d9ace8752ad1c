"""The version of the weights with which a run begins: that of its checkpoint, whatever its first round is."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.runtime

CURSOR: dict[str, Any] = {"epoch": 1, "offset": 16, "unfinished_groups": []}


def test_it_goes_on_from_the_version_that_was_saved() -> None:
    """A run that was begun at an earlier round has given more versions than it has finished rounds."""
    from slime.cluster.trainer_actor import Loaded, saved_with

    saved = json.loads(json.dumps(saved_with(CURSOR, 10)))
    assert Loaded.of("run", 2, saved) == Loaded("run", 2, CURSOR, 10)


@pytest.mark.parametrize(("step", "version"), [(6, 7), (None, 0)])
def test_without_one_it_follows_the_round_that_was_saved(step: int | None, version: int) -> None:
    from slime.cluster.trainer_actor import Loaded

    assert Loaded.of("run", step, {}).weight_version == version
