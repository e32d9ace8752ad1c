from __future__ import annotations

from collections.abc import Iterator

import pytest

from slime.rewards.pool import GraderPool


@pytest.fixture(scope="session")
def grader() -> Iterator[GraderPool]:
    with GraderPool(workers=1) as pool:
        yield pool
