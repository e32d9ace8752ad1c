"""The documentation as readers get it: both trees, over http and from disk, in Chromium."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from sphinx_slime_lab import site

REPOSITORY = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:"


Builder = Callable[[Path, Path, str], Path]


@pytest.fixture(scope="session", name="snapshot")
def snapshot_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that the site is made from, so that what is edited during the tests changes no page."""
    folder = tmp_path_factory.mktemp("snapshot")
    skipped = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("bench", "docs", "examples", "recipes", "slime", "sphinx_slime_lab"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=skipped)
    shutil.copy(REPOSITORY / "conf.py", folder)
    return folder


@pytest.fixture(scope="session", name="build")
def build_fixture(snapshot: Path) -> Builder:
    """A function that builds a copy of the snapshot: where the copy goes, where the site goes, how many jobs."""

    def build(source: Path, output: Path, jobs: str) -> Path:
        shutil.copytree(snapshot, source)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
            site.build(source, output, jobs)
        return output

    return build


@pytest.fixture(scope="session", name="documentation")
def documentation_fixture(tmp_path_factory: pytest.TempPathFactory, build: Builder) -> Path:
    """The built site, by one job."""
    folder = tmp_path_factory.mktemp("documentation")
    return build(folder / "source", folder / "site", "1")


class _Handler(http.server.SimpleHTTPRequestHandler):
    """Serves quietly, under a strict policy when the server has one."""

    policy: str | None = None

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""

    def end_headers(self) -> None:
        if self.policy:
            self.send_header("Content-Security-Policy", self.policy)
        super().end_headers()


@contextmanager
def serving(folder: Path, policy: str | None = None) -> Iterator[str]:
    """Serve a folder on a free port of this machine; give its address."""
    handler = type("Handler", (_Handler,), {"policy": policy})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(handler, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session", name="address", params=["http", "file"])
def address_fixture(request: pytest.FixtureRequest, documentation: Path) -> Iterator[str]:
    """Both kinds of address of the site."""
    if request.param == "file":
        yield documentation.as_uri()
        return
    with serving(documentation) as address:
        yield address


@pytest.fixture(scope="session", name="strict_address")
def strict_address_fixture(documentation: Path) -> Iterator[str]:
    """The site under a strict content security policy."""
    with serving(documentation, POLICY) as address:
        yield address


@pytest.fixture(scope="module", name="browser")
def browser_fixture() -> Iterator[Browser]:
    """The system's Chromium.

    It ends with the module: while Playwright runs, its event loop keeps `asyncio.run` of other tests from starting.
    """
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.fail("no Chromium on PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(name="context")
def context_fixture(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """A function that makes fresh profiles, closed at the end of the test."""
    made: list[BrowserContext] = []

    def make(**options: Any) -> BrowserContext:
        made.append(browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture(scope="session", name="axe")
def axe_fixture() -> str:
    """The source of axe-core; absent without npm, and then said so."""
    path = REPOSITORY / "node_modules/axe-core/axe.min.js"
    if not path.is_file():
        pytest.skip("axe-core is not here: npm install --no-package-lock in the repository (needs npm)")
    return path.read_text(encoding="utf-8")
