"""Lighthouse on ten pages of the site, as a phone: performance, accessibility, best practices, search engines.

    python bench/lighthouse.py --site _site --output bench/results/lighthouse

serves the built site on this machine, compressed as hosts of static sites do it, runs Lighthouse by `npx` on each page
and writes OUTPUT.json and OUTPUT.md. Needs Node 18 or newer and Chromium. Exits with 1 when a category is below
`--least`.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import http.server
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "en/index.html",
    "zh/index.html",
    "en/get_started/tutorial.html",
    "zh/get_started/quick_start.html",
    "en/recipes/glm-5.3.html",
    "zh/advanced/policy_mismatch.html",
    "en/advanced/parallelism_memory.html",
    "en/reference/flags.html",
    "zh/reference/rules.html",
    "en/developer/architecture.html",
)
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
COMPRESSED = (".html", ".css", ".js", ".svg", ".json", ".xml")


class _Host(http.server.SimpleHTTPRequestHandler):
    """Serves files as a host of static sites does: texts compressed, what has a checksum kept."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        body = path.read_bytes()
        squeezed = path.suffix in COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", "")
        body = gzip.compress(body, 6) if squeezed else body
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=31536000" if "?v=" in self.path else "max-age=600")
        if squeezed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)


def report(command: list[str], address: str, chromium: str) -> dict[str, Any]:
    """Run Lighthouse on one address and return its report."""
    with tempfile.TemporaryDirectory(prefix="slime-lighthouse-") as name:
        target = Path(name) / "report.json"
        flags = "--headless=new --no-sandbox --disable-gpu"
        options = ["--quiet", "--output=json", f"--output-path={target}", f"--chrome-flags={flags}"]
        environment = {**os.environ, "CHROME_PATH": chromium}
        only = f"--only-categories={','.join(CATEGORIES)}"
        subprocess.run([*command, address, only, *options], check=True, env=environment)
        return dict(json.loads(target.read_text(encoding="utf-8")))


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of a report in percent, what it measured, and the audits that cost points."""
    audits = found["audits"]
    lost = {
        one["id"]: audits[one["id"]]["title"]
        for category in CATEGORIES
        for one in found["categories"][category]["auditRefs"]
        if one["weight"] and audits[one["id"]]["score"] is not None and audits[one["id"]]["score"] < 0.9
    }
    return {
        "scores": {one: round(100 * found["categories"][one]["score"]) for one in CATEGORIES},
        "first_paint_ms": round(audits["first-contentful-paint"]["numericValue"]),
        "largest_paint_ms": round(audits["largest-contentful-paint"]["numericValue"]),
        "blocking_ms": round(audits["total-blocking-time"]["numericValue"]),
        "shift": round(audits["cumulative-layout-shift"]["numericValue"], 3),
        "kilobytes": round(audits["total-byte-weight"]["numericValue"] / 1000),
        "lost": lost,
    }


def table(record: dict[str, Any]) -> str:
    """The result as a Markdown table."""
    lines = [
        "| page | " + " | ".join(CATEGORIES) + " | first paint | largest paint | blocking | shift | kB |",
        "| --- |" + " --- |" * (len(CATEGORIES) + 5),
    ]
    for name, one in record["pages"].items():
        scores = " | ".join(str(one["scores"][category]) for category in CATEGORIES)
        times = f"{one['first_paint_ms']} ms | {one['largest_paint_ms']} ms | {one['blocking_ms']} ms"
        lines.append(f"| {name} | {scores} | {times} | {one['shift']} | {one['kilobytes']} |")
    return "\n".join(lines)


def main() -> int:
    """Serve, measure, write the two files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--site", type=Path, default=ROOT / "_site", help="built site (default: %(default)s)")
    parser.add_argument("--pages", nargs="+", default=PAGES, help="addresses inside the site")
    parser.add_argument("--lighthouse", default="npx --yes lighthouse@12", help="command (default: %(default)s)")
    parser.add_argument("--least", type=int, default=95, help="lowest score that passes (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/lighthouse", help="without a suffix")
    options = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None or shutil.which("node") is None:
        raise SystemExit("needs Node and Chromium on PATH: apt-get install nodejs npm chromium")
    handler = functools.partial(_Host, directory=str(options.site))
    found: dict[str, Any] = {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in options.pages:
            address = f"http://127.0.0.1:{server.server_address[1]}/{name}"
            one = report(shlex.split(options.lighthouse), address, chromium)
            found[name] = summary(one)
            print(f"{name}: {found[name]['scores']} {found[name]['lost']}", file=sys.stderr, flush=True)
        server.shutdown()
    agent = one["environment"]["hostUserAgent"]
    record = {
        "command": "python bench/lighthouse.py",
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": f"{os.cpu_count()} CPU cores, {platform.machine()}",
        "load_average": [round(load, 1) for load in os.getloadavg()],
        "versions": {"lighthouse": one["lighthouseVersion"], "chromium": agent.split("Chrome/")[1].split()[0]},
        "form_factor": one["configSettings"]["formFactor"],
        "throttling": one["configSettings"]["throttlingMethod"],
        "pages": found,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    versions = ", ".join(f"{key} {number}" for key, number in record["versions"].items())
    load = ", ".join(map(str, record["load_average"]))
    head = (
        f"`{record['command']}`\n\n{record['date']}, {record['device']}, {versions}.\n\n"
        "Lighthouse's own settings for a phone (slow 4G and a slow processor, simulated); the site served on this\n"
        f"machine, texts compressed. Load average of the machine at the end: {load}.\n"
    )
    options.output.with_suffix(".md").write_text(f"{head}\n{table(record)}\n", encoding="utf-8")
    print(table(record))
    return 1 if any(score < options.least for one in found.values() for score in one["scores"].values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
