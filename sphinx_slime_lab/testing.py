"""Build a small documentation project in a test and look at what came out.

with site_builder(tmp_path, roots=Path("tests/roots")) as build:
    built = build("basic", buildername="html")
    assert "experiment.sh" in built.text("index.html")
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from sphinx.testing.util import SphinxTestApp

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Built:
    """One finished build: its sources, its output, and what it warned of."""

    source: Path
    output: Path
    warnings: list[str]
    app: SphinxTestApp = field(repr=False)

    def text(self, name: str) -> str:
        """Return an output file."""
        return (self.output / name).read_text(encoding="utf-8")


class Build(Protocol):
    """The function that ``site_builder`` gives."""

    def __call__(
        self, root: str, *, buildername: str = "html", warnings: bool = False, source: Path | None = None,
        output: Path | None = None, parallel: int = 0, **overrides: Any,
    ) -> Built:  # fmt: skip
        """Build a copy of ``root``, or ``source`` as it is; a warning fails unless ``warnings`` is true."""


@contextmanager
def site_builder(folder: Path, roots: Path) -> Iterator[Build]:
    """Give a function that builds projects inside ``folder``; Sphinx's global state is put back after each build."""
    numbers = count()

    def build(
        root: str, *, buildername: str = "html", warnings: bool = False, source: Path | None = None,
        output: Path | None = None, parallel: int = 0, **overrides: Any,
    ) -> Built:  # fmt: skip
        number = next(numbers)
        if source is None:
            source = folder / f"source{number}"
            shutil.copytree(roots / root, source)
        app = SphinxTestApp(
            buildername,
            srcdir=source,
            builddir=output or folder / f"output{number}",
            confoverrides=overrides,
            parallel=parallel,
        )
        try:
            app.build()
        finally:
            app.cleanup()
        said = [_COLOUR.sub("", line) for line in app.warning.getvalue().splitlines() if line.strip()]
        if said and not warnings:
            raise AssertionError("the build has warnings:\n" + "\n".join(said))
        return Built(source, Path(app.outdir), said, app)

    yield build
