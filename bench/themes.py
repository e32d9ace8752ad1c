"""The extension's wheel in empty projects of four themes, by the commands of the documentation.

    python bench/themes.py --output bench/results/themes --pictures /tmp/pictures

builds the wheel; for each theme makes a fresh environment, runs the commands of `docs/en/developer/elsewhere.md` in it
with that theme's name, and opens the pages in Chromium, light and dark, wide and narrow. Writes OUTPUT.json and
OUTPUT.md, and pictures of the pages to look at. Needs a package index, Chromium, and axe-core, which
`make node_modules/.installed` fetches. Exits with 1 when a page has a fault.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/en/developer/elsewhere.md"
AXE = ROOT / "node_modules/axe-core/axe.min.js"
THEMES = {
    "alabaster": "alabaster",
    "furo": "furo",
    "pydata-sphinx-theme": "pydata_sphinx_theme",
    "sphinx-book-theme": "sphinx_book_theme",
}
"""Package -> its name in ``conf.py``."""
WIDTHS = (1440, 390)
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
# The colours of code are the theme's.
RUN_AXE = """async () => {
  const found = await axe.run({ include: [".slime-lab"], exclude: [".highlight"] }, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"], preload: false });
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html.slice(0, 120)}`));
}"""
BACKGROUND = "getComputedStyle(document.querySelector('.slime-lab')).getPropertyValue('--sl-page').trim()"


def commands(theme: str) -> list[str]:
    """Return the blocks of the documentation's page that run, with another theme in the configuration."""
    text = PAGE.read_text(encoding="utf-8")
    return [
        match[1].replace('html_theme = "alabaster"', f'html_theme = "{theme}"')
        for match in re.finditer(r"^```bash\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        if not text[: match.start()].splitlines()[-1].startswith("% not run")
    ]


def project(folder: Path, wheel: Path, package: str) -> dict[str, str]:
    """Make the environment, unless it is there, and the project in ``folder``; return the versions used."""
    binary = folder / "env/bin"
    pip = [str(binary / "python"), "-m", "pip", "--disable-pip-version-check"]
    if not binary.is_dir():
        venv.create(folder / "env", with_pip=True)
        subprocess.run([*pip, "install", "-q", str(wheel), package], check=True)
    subprocess.run([*pip, "install", "-q", "--force-reinstall", "--no-deps", str(wheel)], check=True)
    for made in ("acme-docs", "acme-site"):
        shutil.rmtree(folder / made, ignore_errors=True)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**kept, "PATH": f"{binary}{os.pathsep}{os.environ['PATH']}"}
    for block in commands(THEMES[package]):
        subprocess.run(["bash", "-euo", "pipefail", "-c", block], check=True, cwd=folder, env=environment)
    listed = subprocess.run([*pip, "list", "--format=json"], check=True, capture_output=True, text=True).stdout
    return {one["name"].lower(): one["version"] for one in json.loads(listed)}


def watched(browser: Browser, scheme: Scheme) -> tuple[Page, list[str]]:
    """A tab under a colour scheme, and the list of what it complains of."""
    page, problems = browser.new_page(color_scheme=scheme, viewport={"width": WIDTHS[0], "height": 900}), []
    page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
    page.on("console", lambda said: problems.append(said.text) if _ours(said) else None)
    own = ("file:", "data:", "blob:")
    page.on("request", lambda one: None if one.url.startswith(own) else problems.append(f"request: {one.url}"))
    return page, problems


def _ours(said: ConsoleMessage) -> bool:
    """Tell whether a message is an error, or a warning of the lab; what else themes say is theirs."""
    return said.type == "error" or (said.type == "warning" and "slime-lab" in said.location["url"])


def faults(page: Page, site: Path, pictures: Path, name: str) -> list[str]:
    """Open both pages at both widths, use the lab, return what is wrong; writes pictures."""
    found: list[str] = []
    for path in ("index.html", "recipe.html"):
        page.goto((site / path).as_uri())
        page.emulate_media(reduced_motion="reduce")
        if path == "index.html":
            page.locator(".slime-lab--ready").wait_for()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            page.screenshot(path=pictures / f"{name}-{path.removesuffix('.html')}-{width}.png", full_page=True)
            wide = page.evaluate("document.documentElement.scrollWidth")
            found += [f"{path} is {wide} px wide at {width}"] if wide > width else []
            found += [f"{path} at {width}: {one}" for one in page.evaluate(RUN_AXE)]
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    page.goto((site / "index.html").as_uri())
    nodes = page.locator('[data-field="nodes"] input').first
    for step in page.locator(".slime-lab__step").all():
        step.click()
        if nodes.is_visible():
            break
    nodes.fill("5")
    page.keyboard.press("Tab")
    if "The cluster has 4 nodes" not in page.locator(".slime-lab__findings").first.inner_text():
        found.append("the project's own rule does not speak")
    page.screenshot(path=pictures / f"{name}-rule.png")
    return found


def look(browser: Browser, site: Path, pictures: Path, package: str) -> dict[str, Any]:
    """Return, for each colour scheme, the ground of the lab and the faults."""
    seen: dict[str, Any] = {}
    for scheme in SCHEMES:
        page, problems = watched(browser, scheme)
        found = faults(page, site, pictures, f"{package}-{scheme}")
        seen[scheme] = {"ground": page.evaluate(BACKGROUND), "faults": [*found, *problems]}
        page.close()
    return seen


def table(record: dict[str, Any]) -> str:
    """The result as a Markdown table."""
    lines = ["| theme | Sphinx | ground, light | ground, dark | faults |", "| --- | --- | --- | --- | --- |"]
    for package, one in record["themes"].items():
        count = sum(len(one["seen"][scheme]["faults"]) for scheme in SCHEMES)
        grounds = " | ".join(f"`{one['seen'][scheme]['ground']}`" for scheme in SCHEMES)
        lines.append(f"| {package} {one['versions'][package]} | {one['versions']['sphinx']} | {grounds} | {count} |")
    return "\n".join(lines)


def main() -> int:
    """Build, look, write the two files and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--themes", nargs="+", default=list(THEMES), choices=THEMES, help="packages")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/themes", help="without a suffix")
    parser.add_argument("--pictures", type=Path, default=ROOT / "_site/themes", help="folder of the pictures")
    parser.add_argument("--environments", type=Path, help="folder that keeps them for the next run (default: none)")
    options = parser.parse_args()
    if not AXE.is_file():
        raise SystemExit("axe-core is not here: make node_modules/.installed")
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise SystemExit("no Chromium on PATH: apt-get install chromium")
    options.pictures.mkdir(parents=True, exist_ok=True)
    themes: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="slime-themes-") as name:
        folder = (options.environments or Path(name)).resolve()
        source = shutil.copytree(ROOT, Path(name) / "source", ignore=_only_sources)
        wheel_command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", name, str(source)]
        subprocess.run(wheel_command, check=True)
        wheel = next(Path(name).glob("slime_rl-*.whl"))
        versions = {package: project(folder / package, wheel, package) for package in options.themes}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            for package in options.themes:
                seen = look(browser, folder / package / "acme-site", options.pictures, package)
                themes[package] = {
                    "versions": {one: versions[package][one] for one in ("sphinx", package)},
                    "seen": seen,
                }
            chromium = browser.version
            browser.close()
    record = {
        "command": "python bench/themes.py",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "python": platform.python_version(),
        "chromium": chromium,
        "playwright": version("playwright"),
        "themes": themes,
    }
    return _write(record, options.output)


def _only_sources(folder: str, names: list[str]) -> set[str]:
    """What a wheel is made from, and nothing that another program is writing meanwhile."""
    if Path(folder) == ROOT:
        return set(names) - {
            "slime",
            "sphinx_slime_lab",
            "recipes",
            "pyproject.toml",
            "setup.py",
            "README.md",
            "LICENSE",
        }
    return {name for name in names if name == "__pycache__"}


def _write(record: dict[str, Any], output: Path) -> int:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    head = (
        f"`python bench/themes.py`\n\n{record['date']}, Python {record['python']}, Chromium {record['chromium']}.\n\n"
        "The wheel in a fresh environment of each theme; the project of `docs/en/developer/elsewhere.md` with its own\n"
        "model and rule; two pages, light and dark, 1440 and 390 px wide. A fault is a message of the console, a\n"
        "request to another host, a page wider than its window, a finding of axe-core (WCAG A and AA) in the lab,\n"
        "or the project's rule not speaking.\n"
    )
    output.with_suffix(".md").write_text(f"{head}\n{table(record)}\n", encoding="utf-8")
    print(table(record))
    found = [
        f"{package}, {scheme}: {fault}"
        for package, one in record["themes"].items()
        for scheme, seen in one["seen"].items()
        for fault in seen["faults"]
    ]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
