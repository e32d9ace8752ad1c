"""``slime lab``: check an experiment, render its files, compare two; print memory, links, models and the JSON Schema.

Wherever a file of choices is read, a link of the page will do as well.

Exit codes: 0 clean, 1 findings of severity error, 2 unusable input. ``python -m slime.experiment`` is the same command.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from slime.arguments import TeachingParser
from slime.experiment.artifacts import FILES
from slime.experiment.catalog import Catalog, load_catalog
from slime.experiment.choices import LOST, Ignored, unwrap
from slime.experiment.comparison_text import comparison_lines
from slime.experiment.errors import ExperimentError, InputError, LoadError
from slime.experiment.facts import FactError
from slime.experiment.importing import limit_keys
from slime.experiment.memory_text import memory_lines
from slime.experiment.messages import MESSAGES
from slime.experiment.reading import Choices, read_choices
from slime.experiment.tables import State
from slime.experiment.texts import Text, fill, shorten
from slime.experiment.validation import Accounting, Finding, Validation
from slime.experiment.written import write_files

CLEAN, FINDINGS, UNUSABLE = 0, 1, 2


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add ``lab`` to ``slime``'s commands; the result's ``run`` default is this module's ``run``."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "lab", help="check and render experiments", description="Check and render experiments, without a GPU."
    )
    _add_commands(parser)
    return parser


def _add_commands(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=run)
    commands = parser.add_subparsers(dest="lab_command", required=True, metavar="COMMAND")
    source = "YAML or JSON: a flat mapping of choices, or an experiment.json; or a link of the page"
    check = commands.add_parser("check", help="judge a file of choices")
    check.add_argument("file", help=source)
    render = commands.add_parser("render", help="write experiment.sh and the other files")
    render.add_argument("file", help=source)
    render.add_argument("-o", "--output", type=Path, required=True, help="folder to write into; made if it is absent")
    render.add_argument("--force", action="store_true", help="replace files that were changed since they were written")
    compare = commands.add_parser("compare", help="what differs between two experiments")
    compare.add_argument("a", metavar="A", help=source)
    compare.add_argument("b", metavar="B", help=source)
    memory = commands.add_parser("memory", help="estimate memory by phase and rank, for planning")
    memory.add_argument("file", help=source)
    link = commands.add_parser(
        "link", aliases=["share"], help="print the link of an experiment, without paths, addresses and hooks"
    )
    link.add_argument("file", help=source)
    link.add_argument("--a", metavar="A", help="a second experiment, to be compared with")
    models = commands.add_parser("models", help="list the recipes")
    for one in (check, render, compare, memory, link, models):
        one.add_argument("--json", action="store_true", help="print JSON")
        one.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the messages (default: en)")
    commands.add_parser("schema", help="print the JSON Schema of experiment.json")


def run(args: argparse.Namespace) -> int:
    """Run the parsed command; returns the exit code."""
    try:
        catalog = load_catalog()
        if args.lab_command == "schema":
            print(json.dumps(catalog.schema(), ensure_ascii=False, indent=2))
            return CLEAN
        if args.lab_command == "models":
            return _models(catalog, args)
        commands = {"check": _check, "render": _render, "compare": _compare, "memory": _memory}
        return commands.get(args.lab_command, _link)(catalog, args)
    except InputError as error:
        return _unusable(args, error.get(args.lang))
    except (ExperimentError, FactError) as error:
        return _unusable(args, str(error))


def main(argv: Sequence[str] | None = None) -> int:
    """The stand-alone command line."""
    parser = TeachingParser(prog="slime lab", description="Check and render experiments, without a GPU.")
    _add_commands(parser)
    return run(parser.parse_args(argv))


def _unusable(args: argparse.Namespace, message: str) -> int:
    """Say why the input cannot be used, on stderr or as JSON on stdout; returns the exit code."""
    if getattr(args, "json", False):
        print(json.dumps({"unusable": message.split("\n")}, ensure_ascii=False, indent=2))
    else:
        print(message, file=sys.stderr)
    return UNUSABLE


def _read(catalog: Catalog, source: str, language: str) -> Choices:
    """A file, or the experiment of a link. Raises ``InputError``, also when a part of the link cannot be used."""
    received = catalog.receive(source)
    if received is None:
        return read_choices(Path(source))
    choices = Choices(received.b.state, "link", {})
    if received.b.ignored:
        raise _lost(choices, received.b.ignored)
    return choices


def _lost(choices: Choices, ignored: Sequence[Ignored]) -> InputError:
    return InputError(
        Text(*("\n".join(choices.message(one, language) for one in ignored) for language in ("zh", "en")))
    )


def _usable_state(catalog: Catalog, choices: Choices, language: str) -> State:
    """The state of a file; notes go to stderr. Raises ``InputError`` when a key or value of the file was lost."""
    try:
        limit_keys(catalog.tables, unwrap(choices.raw)[0])
    except LoadError as error:
        raise InputError(error.reason, choices.name) from None
    result = catalog.sanitise(choices.raw)
    for key in choices.unused():
        print(f"{choices.place(key)}: {fill(MESSAGES['unused'], {'key': shorten(key)}).get(language)}", file=sys.stderr)
    for one in result.ignored:
        if one.kind not in LOST:
            print(choices.message(one, language), file=sys.stderr)
    lost = [one for one in result.ignored if one.kind in LOST]
    if lost:
        raise _lost(choices, lost)
    return result.state


def _check(catalog: Catalog, args: argparse.Namespace) -> int:
    choices = _read(catalog, args.file, args.lang)
    state = _usable_state(catalog, choices, args.lang)
    validation = catalog.validate(state)
    if args.json:
        print(json.dumps(_as_json(catalog, choices, state, validation), ensure_ascii=False, indent=2))
    else:
        for finding in validation.findings:
            print(_line(catalog, choices, finding, args.lang))
        print(_totals(validation.accounting, catalog.facts.launch[str(state["model"])].device, args.lang))
    return FINDINGS if validation.ids("error") else CLEAN


def _as_json(catalog: Catalog, choices: Choices, state: State, validation: Validation) -> dict[str, Any]:
    findings = []
    for finding in validation.findings:
        lines = {name: choices.line(name) for name in finding.fields if choices.line(name) is not None}
        findings.append({**asdict(finding), "lines": lines})
    return {
        "file": choices.name,
        "choices": state,
        "findings": findings,
        "accounting": asdict(validation.accounting),
        "arguments": [asdict(line) for line in catalog.arguments(state)],
    }


def _line(catalog: Catalog, choices: Choices, finding: Finding, language: str) -> str:
    written = [name for name in catalog.suspects(finding) if choices.line(name) is not None]
    place = choices.place(written[0]) if written else choices.name
    return f"{place}: {finding.severity} {finding.id}: {finding.message.get(language)}"


def _totals(totals: Accounting, device: str, language: str) -> str:
    unit = {"zh": "CPU 进程" if device == "cpu" else "GPU", "en": "CPU processes" if device == "cpu" else "GPUs"}[
        language
    ]
    if language == "zh":
        return (
            f"{unit}：训练 {totals.train_gpus}，rollout {totals.rollout_gpus}，Ray 共 {totals.ray_gpus}；"
            f"引擎 {totals.engines}，DP {totals.dp}"
        )
    return (
        f"{unit}: {totals.train_gpus} for training, {totals.rollout_gpus} for rollout, {totals.ray_gpus} in Ray; "
        f"engines {totals.engines}, DP {totals.dp}"
    )


def _compare(catalog: Catalog, args: argparse.Namespace) -> int:
    """Print what differs. Exit 0 whether or not anything does: two experiments may be meant to differ."""
    states = [_usable_state(catalog, _read(catalog, source, args.lang), args.lang) for source in (args.a, args.b)]
    comparison = catalog.compare(*states)
    if args.json:
        print(json.dumps(asdict(comparison), ensure_ascii=False, indent=2))
        return CLEAN
    print("\n".join(comparison_lines(comparison, args.lang)))
    return CLEAN


def _memory(catalog: Catalog, args: argparse.Namespace) -> int:
    """Print the estimate of memory. Exit 0 also for an experiment with errors: it says what was asked for."""
    state = _usable_state(catalog, _read(catalog, args.file, args.lang), args.lang)
    phases = catalog.memory(state)
    if args.json:
        print(json.dumps([asdict(phase) for phase in phases], ensure_ascii=False, indent=2))
        return CLEAN
    print("\n".join(memory_lines(phases, args.lang)))
    return CLEAN


def _link(catalog: Catalog, args: argparse.Namespace) -> int:
    """Print the fragment of the address; what it leaves out is named on stderr."""
    state = _usable_state(catalog, _read(catalog, args.file, args.lang), args.lang)
    a = None if args.a is None else _usable_state(catalog, _read(catalog, args.a, args.lang), args.lang)
    shared = catalog.share(state, a)
    if args.json:
        print(json.dumps(asdict(shared), ensure_ascii=False, indent=2))
        return CLEAN
    names = ", ".join(dict.fromkeys([*shared.withheld, *shared.withheld_a]))
    if names:
        print(f"不在链接里：{names}" if args.lang == "zh" else f"not in the link: {names}", file=sys.stderr)
    print(f"#{shared.fragment}")
    return CLEAN


def _render(catalog: Catalog, args: argparse.Namespace) -> int:
    """Write the files. With errors only ``experiment.json`` is written, because the scripts would not run.

    Files of an earlier experiment that stay are named: they do not belong to the new ``experiment.json``.
    """
    choices = _read(catalog, args.file, args.lang)
    state = _usable_state(catalog, choices, args.lang)
    validation = catalog.validate(state)
    files = catalog.artifacts(state, catalog.provenance())
    blocked = bool(validation.ids("error"))
    for finding in validation.findings:
        print(_line(catalog, choices, finding, args.lang), file=sys.stderr)
    if blocked:
        files = {"experiment.json": files["experiment.json"]}
    written = write_files(args.output, files, args.force)
    stale = [str(args.output / name) for name in FILES if name not in files and (args.output / name).exists()]
    for name in stale:
        print(f"{name}: {MESSAGES['stale'].get(args.lang)}", file=sys.stderr)
    if args.json:
        record = {"written": written, "stale": stale, "errors": validation.ids("error")}
        print(json.dumps(record, ensure_ascii=False, indent=2))
    else:
        print("\n".join(written))
    return FINDINGS if blocked else CLEAN


def _models(catalog: Catalog, args: argparse.Namespace) -> int:
    launch = catalog.facts.launch.values()
    rows = [
        {
            "id": recipe.id,
            "display": recipe.display,
            "size": recipe.size,
            "device": recipe.device,
            "nodes": recipe.nodes,
            "gpus_per_node": recipe.gpus_per_node,
            "hf_repo": recipe.hf_repo,
            "planned": catalog.validate(catalog.sanitise({"model": recipe.id}).state).ids("planned") != [],
        }
        for recipe in launch
    ]
    if args.json:
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return CLEAN
    for row in rows:
        runs = MESSAGES["planned" if row["planned"] else "runs"].get(args.lang)
        print(f"{row['id']:18} {row['display']:18} {row['size']:22} {row['nodes']} x {row['gpus_per_node']}  {runs}")
    return CLEAN
