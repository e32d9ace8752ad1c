"""A small builder around ``SphinxTestApp``: copy a root, build it, look at what came out."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sphinx.testing.util import SphinxTestApp

ROOTS = Path(__file__).parent / "roots"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Built:
    """One finished build."""

    source: Path
    output: Path
    warnings: list[str]
    app: SphinxTestApp = field(repr=False)

    def text(self, name: str) -> str:
        """An output file."""
        return (self.output / name).read_text(encoding="utf-8")


Build = Callable[..., Built]


@contextmanager
def site_builder(tmp_path: Path) -> Iterator[Build]:
    """Give ``build("basic", buildername="html", ...)``: warnings fail unless ``warnings=True``."""
    opened: list[SphinxTestApp] = []
    counter = iter(range(100))

    def run(root: str | Path, *, buildername: str = "html", warnings: bool = False, source: Path | None = None,
            output: Path | None = None, parallel: int = 0, **overrides: Any) -> Built:
        if source is None:
            source = tmp_path / f"src{next(counter)}"
            shutil.copytree(ROOTS / root, source)
        app = SphinxTestApp(buildername, srcdir=source, builddir=output or tmp_path / f"out{next(counter)}",
                            confoverrides=overrides, parallel=parallel)
        opened.append(app)
        app.build()
        said = [_COLOUR.sub("", line) for line in app.warning.getvalue().splitlines() if line.strip()]
        if not warnings:
            assert said == []
        return Built(source, Path(app.outdir), said, app)

    try:
        yield run
    finally:
        for app in opened:
            app.cleanup()


@pytest.fixture(name="build")
def build_fixture(tmp_path: Path) -> Iterator[Build]:
    """Build into the temporary folder of one test."""
    with site_builder(tmp_path) as build:
        yield build
