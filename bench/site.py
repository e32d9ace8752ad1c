"""The documentation's cost: bytes that a page loads, one edit to its finished redraw, build time against recipes.

    python bench/site.py --recipes 1 10 100 1000 --output bench/results/site

prints a table and writes OUTPUT.json (every reading) and OUTPUT.md (the table). Needs Chromium on the path.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
FILES = ("slime-lab.js", "slime-lab-data.js", "slime-lab.css")
MODELS = ("glm-4.7-flash", "glm-4-9b", "glm-4.7", "glm-5.3", "qwen3.8-27b", "deepseek-r1", "tiny")
CONF = 'extensions = ["sphinx_slime_lab"]\nhtml_theme = "furo"\nproject = "bench"\nauthor = copyright = "bench"\n'
CHROMIUM = ["--no-sandbox", "--disable-gpu", "--disable-frame-rate-limit", "--disable-gpu-vsync"]
EDITS = {
    "another model": ("model", "glm-4-9b", "glm-4.7-flash"),
    "another layout": ("layout", "separate", "colocate"),
    "another correction": ("correction", "icepop", "tis"),
}
MEASURE = """async ([field, first, second, count]) => {
  const option = (value) => document.querySelector(`[data-field="${field}"] input[value="${value}"]`);
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const painted = () => frame().then(() => new Promise((done) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(0);
  }));
  const readings = [];
  for (let at = 0; at < count; at += 1) {
    await frame();
    const start = performance.now();
    option(at % 2 ? second : first).click();
    const edited = performance.now();
    document.body.getBoundingClientRect();
    const laidOut = performance.now();
    await painted();
    readings.push([edited - start, laidOut - start, performance.now() - start]);
  }
  return readings;
}"""
"""Milliseconds from a click: to the end of the scripts, to the finished layout, to the frame that shows it."""


def project(folder: Path, recipes: int) -> Path:
    """Write a project with a lab and as many pages with a recipe, each of another size; returns its folder."""
    folder.mkdir(parents=True)
    (folder / "conf.py").write_text(CONF)
    pages = "".join(f"   recipe{number}\n" for number in range(recipes))
    (folder / "index.rst").write_text(f"Lab\n===\n\n.. lab::\n   :name: lab\n\n.. toctree::\n\n{pages}")
    for number in range(recipes):
        model = MODELS[number % len(MODELS)]
        body = f".. recipe:: {model}\n   :name: r{number}\n\n   rounds: {number + 1}\n"
        (folder / f"recipe{number}.rst").write_text(f"Recipe {number}\n{'=' * 12}\n\n{body}")
    return folder


def build(source: Path, output: Path) -> dict[str, float]:
    """Build a project from nothing, one job; returns its seconds by the clock and of the processor."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "-j", "1", str(source), str(output)]
    subprocess.run(command, check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"clock": round(time.monotonic() - start, 2), "processor": round(processor, 2)}


def sizes(output: Path) -> dict[str, dict[str, int]]:
    """Bytes of the files that a page with a lab loads, as they are and compressed."""
    found = {}
    for name in FILES:
        data = (output / "_static" / name).read_bytes()
        found[name] = {"bytes": len(data), "gzip": len(gzip.compress(data, 9, mtime=0))}
    return found


def edits(output: Path, count: int) -> tuple[str, dict[str, list[list[float]]]]:
    """Chromium's version, and for each kind of edit its readings."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        raise SystemExit("no Chromium on PATH: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto((output / "index.html").as_uri())
        page.locator(".slime-lab--ready").wait_for()
        readings = {}
        for name, edit in EDITS.items():
            page.evaluate(MEASURE, [*edit, 6])
            readings[name] = page.evaluate(MEASURE, [*edit, count])
        found = browser.version
        browser.close()
    return found, readings


def table(record: dict[str, Any]) -> str:
    """The result as Markdown tables."""
    lines = ["| file | bytes | gzip |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {one['bytes']} | {one['gzip']} |" for name, one in record["sizes"].items()]
    lines += ["", "| edit | scripts | with layout | to the painted frame |", "| --- | --- | --- | --- |"]
    for name, readings in record["edits_ms"].items():
        medians = [statistics.median(column) for column in zip(*readings, strict=True)]
        lines.append(f"| {name} | " + " | ".join(f"{one:.1f} ms" for one in medians) + " |")
    lines += ["", "| recipes | build | processor | for each more |", "| --- | --- | --- | --- |"]
    before: tuple[int, float] | None = None
    for count in sorted(map(int, record["build_seconds"])):
        seconds = record["build_seconds"][str(count)]
        used = seconds["processor"]
        each = "" if before is None else f"{1000 * (used - before[1]) / (count - before[0]):.0f} ms"
        lines.append(f"| {count} | {seconds['clock']:.1f} s | {used:.1f} s | {each} |")
        before = (count, used)
    return "\n".join(lines)


def main() -> None:
    """Measure, print the tables, write the two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=int, nargs="+", default=[1, 10, 100, 1000], help="pages to build")
    parser.add_argument("--edits", type=int, default=60, help="readings for each kind of edit")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/site", help="without a suffix")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slime-bench-") as name:
        folder, seconds = Path(name), dict[str, dict[str, float]]()
        for count in sorted(options.recipes):
            seconds[str(count)] = build(project(folder / f"p{count}", count), folder / f"o{count}")
            print(f"{count} recipes: {seconds[str(count)]}", file=sys.stderr, flush=True)
        smallest = folder / f"o{min(options.recipes)}"
        browser, readings = edits(smallest, options.edits)
        record: dict[str, Any] = {
            "command": " ".join(["python", "bench/site.py", *sys.argv[1:]]),
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "device": f"{os.cpu_count()} CPU cores, {platform.machine()}",
            "load_average": [round(one, 1) for one in os.getloadavg()],
            "python": platform.python_version(),
            "versions": {"chromium": browser, **{one: version(one) for one in ("sphinx", "docutils", "furo")}},
            "sizes": sizes(smallest),
            "edits_ms": {one: [[round(x, 2) for x in row] for row in rows] for one, rows in readings.items()},
            "build_seconds": seconds,
        }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".json").write_text(json.dumps(record) + "\n", encoding="utf-8")
    versions = ", ".join(f"{one} {number}" for one, number in record["versions"].items())
    load = ", ".join(map(str, record["load_average"]))
    head = f"`{record['command']}`\n\n{record['date']}, {record['device']}, Python {record['python']}, {versions}.\n"
    note = (
        f"Load average of the machine at the end: {load}. Edits: medians of {options.edits} clicks each, in a window\n"
        "of 1440 px, without the limit of the frame rate. Builds: from nothing, one job, a page for each recipe, in\n"
        "seconds by the clock and of the processor; the last column is of the processor.\n"
    )
    options.output.with_suffix(".md").write_text(f"{head}\n{note}\n{table(record)}\n", encoding="utf-8")
    print(table(record))


if __name__ == "__main__":
    main()
