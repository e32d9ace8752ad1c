"""``slime engine check URL``: what an engine that runs somewhere does as the loop needs it, and what it lacks."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from slime.sglang.conformance import controls, generation
from slime.sglang.conformance.probe import Outcome, Probe
from slime.sglang.external import base_url
from slime.sglang.http import RequestError, open_session

CHECKS = (*generation.CHECKS, *controls.CHECKS)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``engine``."""
    parser = subparsers.add_parser("engine", help="check what an engine does")
    commands = parser.add_subparsers(dest="engine_command", metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check",
        help="check an engine that runs",
        description="Checks over HTTP whether an engine does what the loop needs: ids and log-probs and their values, "
        "reasons, abort, pause, flush, weight versions, requests side by side, malformed ones. It aborts every request "
        "of the engine, so check one that nobody uses. Exit status: 0 the engine has what the loop needs, 1 it does "
        "not, 2 it does not answer.",
    )
    check.add_argument("url", metavar="URL", help="address of the engine, host:port or http://host:port")
    check.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    check.add_argument("--timeout", type=float, default=60.0, help="seconds that a request may take (default: 60)")


def run(args: argparse.Namespace) -> int:
    """Check, print, and return the exit status."""
    url = base_url(args.url)
    try:
        outcomes = asyncio.run(examine(url, args.timeout))
    except RequestError as error:
        print(f"slime engine check: no engine answers at {url}: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps({"schema": 1, "url": url, "checks": [asdict(one) for one in outcomes]}, indent=2))
    else:
        print("\n".join(describe(url, outcomes)))
    return 1 if any(one.needed and one.state != "ok" for one in outcomes) else 0


async def examine(url: str, timeout: float = 60.0) -> list[Outcome]:
    """Run every check against an engine, one after the other.

    Raises:
        RequestError: nothing answers there.
    """
    async with open_session(64, reuse=False) as session:
        probe = Probe(session, url, timeout)
        await probe.routes()
        return [await check.outcome(probe) for check in CHECKS]


def describe(url: str, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Lines for a person: every check, then what the engine lacks."""
    width = max(len(one.name) for one in outcomes)
    for one in outcomes:
        yield f"{one.state:<6} {one.name:<{width}}  {one.detail}"
    missing = [one for one in outcomes if one.state != "ok"]
    needed = [one.name for one in missing if one.needed]
    other = [one.name for one in missing if not one.needed]
    if needed:
        yield f"{url} cannot serve the loop: {', '.join(needed)}"
    else:
        yield f"{url} has what the loop needs" + (f"; it lacks {', '.join(other)}" if other else "")
