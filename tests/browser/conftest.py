"""A site built from a clean checkout, served over http and opened from disk, in a real Chromium."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright

from sphinx_slime_lab.locale import Language, word
from sphinx_slime_lab.site import open_server

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = Path(__file__).parent / "site"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@dataclass
class Site:
    """Both languages of the small site, its data folder, and an address."""

    folder: Path
    checkout: Path
    address: str = ""

    def url(self, page: str) -> str:
        return f"{self.address}/{page}"


@dataclass
class Visit:
    """One tab, and what must stay empty in it."""

    page: Page
    site: Site
    language: Language = "en"
    problems: list[str] = field(default_factory=list)

    def open(self, path: str = "", fragment: str = "") -> Page:
        """Open a page, by default the lab in the language of the visit."""
        self.page.goto(self.site.url(path or f"{self.language}/index.html") + fragment)
        return self.page

    def word(self, key: str, **slots: object) -> str:
        """A text of the extension in the language of the visit."""
        return word(self.language, key, **slots)

    def button(self, key: str) -> Locator:
        """The button with a text of the extension."""
        return self.page.get_by_role("button", name=self.word(key), exact=True)

    def field(self, name: str) -> Locator:
        """The control of a choice; its step is opened first."""
        control = self.page.locator(f'[data-field="{name}"]')
        step = control.locator("xpath=ancestor::*[@data-step]").get_attribute("data-step")
        names = self.page.evaluate("SlimeLabData.catalog.steps.map((step) => step.id)")
        self.page.locator(".slime-lab__step").nth(names.index(step)).click()
        return control

    def choose(self, name: str, value: str) -> None:
        """Choose one of the cards of a choice, by its value or by its text."""
        control = self.field(name)
        by_value = control.locator(f'label:has(input[value="{value}"])')
        (by_value if by_value.count() else control.locator("label", has_text=value)).first.click()

    def type(self, name: str, value: object) -> None:
        """Type a number or a text and commit it."""
        box = self.field(name).locator("input")
        box.fill(str(value))
        box.press("Enter")

    def file(self, name: str = "experiment.sh") -> str:
        """The text of a generated file."""
        text: str = self.page.locator(f'[data-file="{name}"] pre').evaluate("(pre) => pre.textContent")
        return text

    def choices(self) -> dict[str, Any]:
        """The choices of the experiment, out of the generated record."""
        found: dict[str, Any] = json.loads(self.file("experiment.json"))["choices"]
        return found

    def kept(self, side: str = "b") -> dict[str, Any] | None:
        """What the browser keeps of a side."""
        script = """(side) => Object.entries(localStorage)
          .filter(([key]) => key.endsWith(`:lab:${side}`)).map(([, text]) => text)"""
        found = self.page.evaluate(script, side)
        return json.loads(found[0])["choices"] if found else None


@pytest.fixture(scope="session", name="checkout")
def checkout_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of the engine and its data with one commit, so that provenance is a real, clean commit."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("recipes", "slime/experiment", "slime/config"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "slime/__init__.py", folder / "slime/__init__.py")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "data"]):
        subprocess.run([*git, *command], check=True)
    return folder


@pytest.fixture(scope="session", name="built")
def built_fixture(tmp_path_factory: pytest.TempPathFactory, checkout: Path) -> Site:
    """The site in both languages."""
    folder = tmp_path_factory.mktemp("site")
    for language in ("en", "zh"):
        command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "-q", "-D", f"language={language}",
                   "-D", f"slime_lab_recipes={checkout / 'recipes'}", "-d", str(folder / ".doctrees" / language),
                   str(ROOT), str(folder / language)]  # fmt: skip
        subprocess.run(command, check=True, cwd=REPOSITORY)
    (folder / "index.html").write_text("<!doctype html><title>site</title>")
    return Site(folder, checkout)


@pytest.fixture(scope="session", params=["http", "file"], name="site")
def site_fixture(request: pytest.FixtureRequest, built: Site) -> Iterator[Site]:
    """The site at both kinds of address."""
    if request.param == "file":
        yield Site(built.folder, built.checkout, built.folder.as_uri())
        return
    with open_server(built.folder, 18400) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Site(built.folder, built.checkout, f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
        thread.join()


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


def watch(context: BrowserContext, site: Site) -> Visit:
    """Open a tab that records console errors, exceptions and requests to anywhere else."""
    visit = Visit(context.new_page(), site)
    own = (site.address, "data:", "blob:")
    visit.page.on("pageerror", lambda error: visit.problems.append(f"exception: {error}"))
    visit.page.on(
        "console", lambda message: visit.problems.append(message.text) if message.type in ("error", "warning") else None
    )
    visit.page.on(
        "request",
        lambda request: None if request.url.startswith(own) else visit.problems.append(f"request: {request.url}"),
    )
    return visit


@pytest.fixture(name="visit")
def visit_fixture(browser: Browser, site: Site) -> Iterator[Visit]:
    """A fresh profile; nothing may be complained of or fetched from elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visit = watch(context, site)
    yield visit
    context.close()
    assert visit.problems == []


@pytest.fixture(name="reader", params=["en", "zh"])
def reader_fixture(request: pytest.FixtureRequest, browser: Browser, site: Site) -> Iterator[Visit]:
    """A fresh profile in each language; nothing may be complained of or fetched from elsewhere."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visit = watch(context, site)
    visit.language = request.param
    yield visit
    context.close()
    assert visit.problems == []
