"""Public names of a package, read from its source and never imported: the docs environment has no torch.

`find("slime.data.sample.Sample")` gives the signature, the docstring in parts, and the members of a class.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from slime.experiment.texts import nearest

_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises):$")
_ENTRY = re.compile(r"((?:\*{0,2}[\w./]+)(?:, [\w./]+)*): (.*)", re.DOTALL)


class NameNotFoundError(ValueError):
    """No module, class or function has this name; ``str()`` is a sentence with the nearest."""


@dataclass(frozen=True)
class Section:
    """One part of a docstring: ``title`` is ``Args`` or another word of the style, or empty for plain paragraphs.

    ``entries`` are pairs of a name and what is said about it; the name is empty where the text has none.
    """

    title: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Documented:
    """A class, a function or a method: its last name, how it is written down, and what its docstring says."""

    name: str
    signature: str
    sections: tuple[Section, ...]
    members: tuple[Documented, ...] = ()


def source_of(module: str) -> Path:
    """Return the file of a module without importing it. Raises ``NameNotFoundError``."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise NameNotFoundError(f"there is no package {top!r}")
    path = Path(spec.origin).parent.joinpath(*rest)
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.is_file():
            return candidate
    raise NameNotFoundError(f"there is no module {module!r}")


def find(path: str) -> Documented:
    """Return the class or function at a dotted path. Raises ``NameNotFoundError``, also for one without a docstring."""
    module, _, name = path.rpartition(".")
    tree = _parsed(source_of(module))
    public = {node.name: node for node in tree.body if isinstance(node, _DEFINITIONS) and not node.name.startswith("_")}
    if name not in public:
        raise NameNotFoundError(f"{module} has no {name!r}; write {nearest(name, public) or ', '.join(public)}")
    found = _documented(public[name])
    if not found.sections:
        raise NameNotFoundError(f"{path} has no docstring")
    return found


_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@lru_cache(maxsize=64)
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _documented(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Documented:
    sections = tuple(read_docstring(ast.get_docstring(node) or ""))
    if not isinstance(node, ast.ClassDef):
        return Documented(node.name, _signature(node), sections)
    methods = [
        _documented(one)
        for one in node.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        and not one.name.startswith("_")
        and ast.get_docstring(one)
    ]
    if sections and not any(one.title == "Attributes" for one in sections):
        fields = tuple(_fields(node))
        sections = (*sections, Section("Attributes", fields)) if fields else sections
    bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
    return Documented(node.name, f"class {node.name}{bases}", sections, tuple(methods))


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """Yield the public fields of a dataclass and the members of an enumeration, each with its type or value as code."""
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            name, said = one.target.id, ast.unparse(one.annotation)
            said += "" if one.value is None else f" = {ast.unparse(one.value)}"
        elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            name, said = one.targets[0].id, ast.unparse(one.value)
        else:
            continue
        if not name.startswith("_"):
            yield name, f"`{said}`"


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the head of a function as it is written, without ``self``; a property is its name alone."""
    decorators = [ast.unparse(one) for one in node.decorator_list]
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    if "property" in decorators:
        return node.name + result
    arguments = ast.unparse(node.args)
    arguments = re.sub(r"^(self|cls)(, |$)", "", arguments)
    word = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    return f"{word}{node.name}({arguments}){result}"


def read_docstring(text: str) -> Iterator[Section]:
    """Yield the parts of a docstring in Google's style: paragraphs, and sections of named entries."""
    title, block = "", list[str]()
    for line in [*inspect.cleandoc(text).splitlines(), "End:"]:
        heading = _SECTION.match(line)
        if heading or line == "End:":
            entries = tuple(_named(block) if title else _paragraphs(block))
            if entries:
                yield Section(title, entries)
            title, block = heading[1] if heading else "", []
        elif title and line and not line.startswith(" "):
            # Text at the margin ends a section.
            yield Section(title, tuple(_named(block)))
            title, block = "", [line]
        else:
            block.append(line)


def _paragraphs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for part in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        if part.strip():
            yield "", " ".join(part.split())


def _named(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the entries of a section: each begins at its smallest indentation, what is deeper goes on with it."""
    for part in re.split(r"\n(?=    \S)", "\n".join(lines).rstrip()):
        said = " ".join(part.split())
        entry = _ENTRY.fullmatch(said)
        if entry:
            yield entry[1], entry[2]
        elif said:
            yield "", said
