"""Bundle the ES modules of ``js/src`` into the one classic script that pages load.

Browsers refuse ES modules on ``file://``, so the site ships a classic script, shortened by ``tdewolff-minify``. The
bundle is committed; a test rebuilds it and compares, so building the docs needs no minifier. Only the forms of
import and export that the sources use are understood; anything else is refused by name, never passed through.

    python -m sphinx_slime_lab.bundle          write static/slime-lab.js
    python -m sphinx_slime_lab.bundle --check  exit 1 when the committed file is stale
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
SOURCE = PACKAGE / "js" / "src"
ENTRY = SOURCE / "ui" / "main.js"
OUTPUT = PACKAGE / "static" / "slime-lab.js"

_HEADER = "/* Built by `python -m sphinx_slime_lab.bundle` from js/src; edit the sources, not this file. */\n"
_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.[^"]+)";[ \t]*\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)
_EXPORT_LIST = re.compile(r"^export \{([^}]*)\};[ \t]*\n", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)


class BundleError(ValueError):
    """A module uses a form that the bundler does not know, or a circle of imports."""


@dataclass
class _Bundle:
    order: list[Path] = field(default_factory=list)
    bodies: dict[Path, str] = field(default_factory=dict)
    open: list[Path] = field(default_factory=list)


def build(entry: Path = ENTRY) -> str:
    """Return the shortened bundle of ``entry``. Raises `BundleError` where the minifier is not installed."""
    try:
        import minify
    except ImportError as error:
        raise BundleError("the bundle is shortened by tdewolff-minify: pip install -e '.[dev]'") from error
    return _HEADER + str(minify.string("text/javascript", join(entry))) + "\n"


def join(entry: Path = ENTRY) -> str:
    """Return ``entry`` and everything that it imports as one readable script, dependencies first."""
    bundle = _Bundle()
    _add(entry.resolve(), bundle)
    names = {path: f"m{number}" for number, path in enumerate(bundle.order)}
    parts = ['(() => {\n"use strict";\n']
    for path in bundle.order:
        body = re.sub(r"\{\{module:(.+?)\}\}", lambda match: names[Path(match.group(1))], bundle.bodies[path])
        label = path.relative_to(entry.resolve().parent.parent).as_posix()
        parts.append(f"\n/* {label} */\nconst {names[path]} = (() => {{\n{body}}})();\n")
    parts.append("})();\n")
    return "".join(parts)


def _add(path: Path, bundle: _Bundle) -> None:
    if path in bundle.bodies:
        return
    if path in bundle.open:
        circle = " -> ".join(part.name for part in [*bundle.open, path])
        raise BundleError(f"circular imports cannot be bundled: {circle}")
    bundle.open.append(path)
    text = path.read_text(encoding="utf-8")
    for match in _IMPORT.finditer(text):
        _add((path.parent / match.group(2)).resolve(), bundle)
    bundle.open.pop()
    bundle.bodies[path] = _body(path, text)
    bundle.order.append(path)


def _body(path: Path, text: str) -> str:
    """Turn one module into the body of a function that returns its exports."""

    def bind(match: re.Match[str]) -> str:
        target = (path.parent / match.group(2)).resolve()
        names = ", ".join(part.strip().replace(" as ", ": ") for part in match.group(1).split(",") if part.strip())
        return f"const {{ {names} }} = {{{{module:{target}}}}};\n"

    exports = [match.group(1) for match in _EXPORT.finditer(text)]
    for match in _EXPORT_LIST.finditer(text):
        exports += [part.strip() for part in match.group(1).split(",") if part.strip()]
    text = _EXPORT_LIST.sub("", _EXPORT.sub("", _IMPORT.sub(bind, text)))
    left_over = _LEFT_OVER.search(text)
    if left_over:
        known = 'import { a } from "./b.js"; export function | const | class; export { a };'
        raise BundleError(f"{path}: cannot bundle {left_over.group(0)!r}; known forms: {known}")
    if any(" as " in name for name in exports):
        raise BundleError(f"{path}: export {{ a as b }} is not supported; name it b where it is defined")
    return f"{text}return {{ {', '.join(exports)} }};\n" if exports else text


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; see the module's text."""
    parser = argparse.ArgumentParser(prog="python -m sphinx_slime_lab.bundle", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when the committed file is stale")
    options = parser.parse_args(arguments)
    text = build()
    if options.check:
        if not OUTPUT.is_file() or OUTPUT.read_text(encoding="utf-8") != text:
            print(f"{OUTPUT} is stale: run python -m sphinx_slime_lab.bundle", file=sys.stderr)
            return 1
        return 0
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(text, encoding="utf-8", newline="\n")
    print(f"{OUTPUT}: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
