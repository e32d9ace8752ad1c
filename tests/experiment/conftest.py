"""What the tests of the experiment package share."""

from __future__ import annotations

import pytest

from slime.experiment import Catalog, load_catalog


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    """The shipped catalogue."""
    return load_catalog()
