"""What the benches of the tiny experiment share: its shell, a Ray head of their own, and records of runs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import psutil

ROOT = Path(__file__).resolve().parent.parent
COLOURS = ("#1f5fbf", "#c4621a", "#5b8c2a", "#7a4fb0", "#8a8a8a", "#b0306a", "#008a8a", "#a08000", "#444444")


def render_shell(folder: Path, rounds: int) -> None:
    """Write the experiment.sh that the lab renders for the tiny model; its material goes below `folder`, too."""
    folder.mkdir(parents=True, exist_ok=True)
    choices = {
        "model": "tiny",
        "rounds": rounds,
        "hf": f"{folder}/tiny/hf",
        "train": f"{folder}/tiny/torch_dist",
        "data": f"{folder}/tiny/data/train.jsonl",
        "save": f"{folder}/tiny/run",
    }
    (folder / "choices.json").write_text(json.dumps(choices), encoding="utf-8")
    render = [sys.executable, "-m", "slime", "lab", "render", f"{folder}/choices.json", "-o", str(folder)]
    subprocess.run(render, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_stage(stage: list[str], folder: Path, environment: dict[str, str], log: TextIO) -> float:
    """Run one stage of the shell from the repository's root; returns its seconds."""
    return run_command(["bash", str(folder / "experiment.sh"), *stage], folder, environment, log)


def run_command(command: list[str], folder: Path, environment: dict[str, str], log: TextIO) -> float:
    """Run a command from the repository's root, its output to `log`, in which `folder` is RUN; returns its seconds."""
    start = time.monotonic()
    print(f"  {' '.join(command)} ...", file=sys.stderr, flush=True)
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line.replace(str(folder), "RUN").replace(str(ROOT), "ROOT"))
            if "held-out" in line:
                print("   ", line.rstrip(), file=sys.stderr, flush=True)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with status {process.returncode}; see {log.name}")
    return time.monotonic() - start


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The records of a metrics file, one for each round and evaluation."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def held_out(rows: list[dict[str, Any]]) -> list[tuple[int, float]]:
    """(rounds trained, accuracy) of every evaluation."""
    return [(int(row["round"]) + 1, float(row["eval/heldout"])) for row in rows if "eval/heldout" in row]


@contextmanager
def ray_head(folder: Path, port: int) -> Iterator[dict[str, str]]:
    """A Ray head of our own; gives the environment in which the shells find it."""
    environment = os.environ | {
        "RAY_AUTH_MODE": "token",
        "RAY_DASHBOARD": f"http://127.0.0.1:{port}",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    head = ["ray", "start", "--head", "--num-cpus", "2", "--node-ip-address", "127.0.0.1", "--port", str(port + 1)]
    head += ["--dashboard-host", "127.0.0.1", "--dashboard-port", str(port), "--disable-usage-stats"]
    head += ["--temp-dir", str(folder / "ray")]
    subprocess.run(head, env=environment, check=True, stdout=subprocess.DEVNULL)
    try:
        yield environment
    finally:
        _stop_ray(folder)


def _stop_ray(folder: Path) -> None:
    """End the processes of our own head, those that name its folder; `ray stop` would end every head."""
    ours = [
        process for process in psutil.process_iter(["cmdline"]) if str(folder / "ray") in str(process.info["cmdline"])
    ]
    for process in ours:
        process.terminate()
    for process in psutil.wait_procs(ours, timeout=10)[1]:
        process.kill()


def provenance(command: str) -> dict[str, Any]:
    """Command, day, machine and versions, for the record of a bench."""
    packages = ("torch", "ray", "megatron-core", "sglang", "transformers")
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "device": f"{os.cpu_count()} CPU cores, {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def heading(record: dict[str, Any]) -> str:
    """The record's provenance as Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return f"`{record['command']}`\n\n{record['date']}, {record['device']}, Python {record['python']}, {versions}.\n"


class Axes:
    """An SVG picture of fractions, 0 to 1, against the round."""

    def __init__(self, title: str, rounds: int, width: int = 640, height: int = 360) -> None:
        self.width, self.height, self.left, self.bottom, self.rounds = width, height, 48, 40, rounds
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
            ' font-family="sans-serif" font-size="12">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" fill="#fff"/>',
        ]
        for tick in (0, 0.25, 0.5, 0.75, 1):
            self.parts.append(f'<path d="M{self.left} {self.y(tick)}H{width - 16}" stroke="#ddd"/>')
            self.text(self.left - 6, self.y(tick) + 4, f"{tick:g}", "end")

    def x(self, round_number: float) -> float:
        """Pixels from the left."""
        return round(self.left + (self.width - self.left - 16) * round_number / self.rounds, 1)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        return round(self.height - self.bottom - (self.height - self.bottom - 16) * value, 1)

    def line(self, points: list[tuple[float, float]], colour: str, style: str = 'stroke-width="2"') -> None:
        """A line through (round, fraction)."""
        path = " ".join(f"{self.x(number)},{self.y(value)}" for number, value in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" {style}/>')

    def dots(self, points: list[tuple[int, float]], colour: str) -> None:
        """A dot at each (round, fraction)."""
        self.parts += [f'<circle cx="{self.x(n)}" cy="{self.y(v)}" r="2.5" fill="{colour}"/>' for n, v in points]

    def text(self, x: float, y: float, content: str, anchor: str = "start", colour: str = "#000") -> None:
        """Text at a place in pixels."""
        self.parts.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}">{content}</text>')

    def svg(self) -> str:
        """The whole picture."""
        self.text(self.width - 16, self.height - 22, f"round {self.rounds}", "end")
        return "\n".join([*self.parts, "</svg>"]) + "\n"
