"""Fixtures of the documentation tests: the small projects under ``roots``, built in temporary folders."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from slime.experiment.facts import default_root
from sphinx_slime_lab.testing import Build, Built, site_builder

ROOTS = Path(__file__).parent / "roots"


@pytest.fixture(scope="session", name="recipes")
def recipes_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the data outside any checkout, so that no commit made meanwhile changes a page."""
    return Path(shutil.copytree(default_root(), tmp_path_factory.mktemp("data") / "recipes"))


@pytest.fixture(name="build")
def build_fixture(tmp_path: Path) -> Iterator[Build]:
    """Build into the temporary folder of one test."""
    with site_builder(tmp_path, ROOTS) as build:
        yield build


@pytest.fixture(scope="session", name="broken")
def broken_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The project that is wrong on purpose."""
    with site_builder(tmp_path_factory.mktemp("broken"), ROOTS) as build:
        yield build("broken", warnings=True)


@pytest.fixture(scope="session", name="site")
def site_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Built]:
    """The clean project as HTML."""
    with site_builder(tmp_path_factory.mktemp("html"), ROOTS) as build:
        yield build("basic")
