"""Load the facts: every model, every recipe and the container images.

`load_facts()` reads `recipes/`, checks the shape of each file (`facts_schema`) and then its arithmetic
(`facts_checks`), and reports everything that is wrong at once, each with its file, line and key.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from slime.config.yaml_lines import Path as KeyPath
from slime.config.yaml_lines import YamlError, load_yaml_with_lines, nearest_line
from slime.experiment.facts_checks import Problem, check_launch, check_model
from slime.experiment.facts_preflight import check_preflight
from slime.experiment.facts_schema import FORMS, FactModel, ImagesFile, LaunchFile, ModelFile

_File = TypeVar("_File", bound=FactModel)


class FactError(ValueError):
    """One or more fact files are wrong. `problems` holds one `file:line: key: message` line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Facts:
    """All facts. `launch` and `models` keep the order in which the lab shows the recipes."""

    models: dict[str, ModelFile]
    launch: dict[str, LaunchFile]
    images: ImagesFile
    legacy: dict[str, str]

    def sources(self, launch_id: str) -> list[str]:
        """The fact files that a recipe is made from, relative to the repository root.

        Raises `KeyError` naming the nearest recipe if there is none of this id.
        """
        if launch_id not in self.launch:
            raise KeyError(f"no recipe {launch_id!r}{_nearest(launch_id, self.launch)}")
        return [f"recipes/launch/{launch_id}.yaml", f"recipes/models/{self.launch[launch_id].model}.yaml"]


@dataclass(frozen=True)
class _Read:
    """A file that parsed as YAML: its name for messages, its data, and where its keys stand."""

    name: str
    data: Any
    lines: dict[KeyPath, int]

    def problem(self, problem: Problem) -> str:
        line = nearest_line(self.lines, problem.path) + 1
        key = ".".join(str(part) for part in problem.path)
        return f"{self.name}:{line}: {key}: {problem.message}" if key else f"{self.name}:{line}: {problem.message}"


def default_root() -> Path:
    """The folder `recipes`: of the checkout that holds this package, else the copy inside the installed package.

    Raises `FactError` if neither exists.
    """
    package = Path(__file__).resolve().parent.parent
    for candidate in (package.parent / "recipes", package / "recipes"):
        if (candidate / "launch").is_dir():
            return candidate
    raise FactError([f"the folder recipes was not found next to {package} nor in it; reinstall slime or pass its path"])


def load_facts(root: Path | None = None) -> Facts:
    """Read and check `root` (the folder `recipes`; default: `default_root()`).

    Raises `FactError` with every problem found, one `file:line: key: message` each.
    """
    root = default_root() if root is None else Path(root)
    problems: list[str] = []
    models = _load_folder(root, "models", ModelFile, problems)
    launch = _load_folder(root, "launch", LaunchFile, problems)
    images = _load_file(root / "images.yaml", "recipes/images.yaml", ImagesFile, problems)
    for read, model in models.values():
        problems += [read.problem(problem) for problem in check_model(model)]
    by_id = {model.id: model for _, model in models.values()}
    # A model whose file is broken has its own message; its recipes need no second one.
    model_ids = sorted({*by_id, *(path.stem for path in (root / "models").glob("*.yaml"))})
    positions: dict[int, str] = {}
    legacy: dict[str, str] = {}
    for read, recipe in launch.values():
        problems += [read.problem(problem) for problem in _check_names(recipe, model_ids, positions, legacy)]
        if recipe.model in by_id:
            model = by_id[recipe.model]
            found = [*check_launch(recipe, model), *check_preflight(recipe, model)]
            problems += [read.problem(problem) for problem in found]
    if problems or images is None:
        raise FactError(problems)
    ordered = sorted((recipe for _, recipe in launch.values()), key=lambda recipe: recipe.position)
    used = dict.fromkeys([recipe.model for recipe in ordered] + sorted(by_id))
    return Facts({key: by_id[key] for key in used}, {recipe.id: recipe for recipe in ordered}, images[1], legacy)


def _check_names(
    recipe: LaunchFile, models: list[str], positions: dict[int, str], legacy: dict[str, str]
) -> list[Problem]:
    """The model exists, and position and earlier key belong to one recipe alone; records both."""
    problems = []
    if recipe.model not in models:
        problems.append(
            Problem(("model",), f"no model {recipe.model!r} in recipes/models{_nearest(recipe.model, models)}")
        )
    if recipe.position in positions:
        message = (
            f"position {recipe.position} is taken by {positions[recipe.position]}; positions order the lab's cards"
        )
        problems.append(Problem(("position",), message))
    positions.setdefault(recipe.position, recipe.id)
    if recipe.legacy is not None:
        if recipe.legacy in legacy:
            problems.append(
                Problem(("legacy",), f"the earlier key {recipe.legacy!r} means {legacy[recipe.legacy]} already")
            )
        legacy.setdefault(recipe.legacy, recipe.id)
    return problems


def _load_folder(root: Path, folder: str, kind: type[_File], problems: list[str]) -> dict[str, tuple[_Read, _File]]:
    """Every `*.yaml` of one folder by file stem; the stem must be the file's `id`."""
    result = {}
    paths = sorted((root / folder).glob("*.yaml"))
    if not paths:
        problems.append(f"recipes/{folder}: no *.yaml file in {root / folder}")
    for path in paths:
        loaded = _load_file(path, f"recipes/{folder}/{path.name}", kind, problems)
        if loaded is None:
            continue
        read, value = loaded
        if read.data["id"] != path.stem:
            message = f"is {read.data['id']!r} but the file is named {path.stem}.yaml; they must agree"
            problems.append(read.problem(Problem(("id",), message)))
        result[path.stem] = (read, value)
    return result


def _load_file(path: Path, name: str, kind: type[_File], problems: list[str]) -> tuple[_Read, _File] | None:
    try:
        data, lines = load_yaml_with_lines(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        problems.append(f"{name}: the file is missing ({path})")
        return None
    except UnicodeDecodeError as error:
        problems.append(f"{name}: not UTF-8 text at byte {error.start}")
        return None
    except YamlError as error:
        problems.append(f"{name}:{error.line + 1}: {error.message}")
        return None
    read = _Read(name, data, lines)
    try:
        return read, kind.model_validate(data)
    except ValidationError as error:
        found: dict[KeyPath, Problem] = {}
        for detail in error.errors(include_url=False):
            problem = _shape_problem(kind, detail)
            found.setdefault(problem.path, problem)  # a union reports each of its branches; the first is enough
        problems.extend(read.problem(problem) for problem in found.values())
        return None


def _shape_problem(kind: type[FactModel], detail: ErrorDetails) -> Problem:
    """A pydantic error in our words: unknown keys get the nearest known key, closed values the legal ones."""
    path, owner = _key_path(kind, detail["loc"])
    context = detail.get("ctx", {})
    match detail["type"]:
        case "extra_forbidden":
            return Problem(path, f"unknown key{_nearest(str(path[-1]), _keys(owner))}")
        case "missing":
            return Problem(path, "missing; write null if there is none and the key allows it")
        case "literal_error":
            return Problem(path, f"is {detail['input']!r}; legal values: {context['expected']}")
        case "string_type":
            return Problem(
                path, f"is {detail['input']!r}, which YAML reads as {_yaml_kind(detail['input'])}; write text in quotes"
            )
        case "int_type":
            kind_read = _yaml_kind(detail["input"])
            return Problem(path, f"is {detail['input']!r}, which YAML reads as {kind_read}; write a whole number")
        case "bool_type":
            return Problem(path, f"is {detail['input']!r}; write true or false without quotes")
        case "string_pattern_mismatch":
            return Problem(path, f"is {detail['input']!r}; expected {FORMS[context['pattern']]}")
        case _:
            message = detail["msg"][0].lower() + detail["msg"][1:]
            return Problem(path, f"is {detail['input']!r}: {message}")


def _yaml_kind(value: object) -> str:
    names = {
        bool: "true/false",
        int: "a whole number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return names.get(type(value), "null")


def _key_path(kind: type[FactModel], loc: tuple[str | int, ...]) -> tuple[KeyPath, type[FactModel]]:
    """The YAML path of a pydantic location (which also names union branches), and the class that owns its last key."""
    path: list[str | int] = []
    owner: type[FactModel] = kind
    current: Any = kind
    for part in loc:
        if part == "[key]":
            continue  # pydantic's mark for the name of a mapping entry
        if isinstance(part, int):
            path.append(part)
            current = _inner(current)
        elif isinstance(current, type) and issubclass(current, FactModel):
            owner = current
            path.append(part)
            current = _inner(
                next((f.annotation for n, f in current.model_fields.items() if (f.alias or n) == part), None)
            )
        elif get_origin(current) is dict:
            path.append(part)
            current = get_args(current)[1]
    return tuple(path), owner


def _inner(annotation: Any) -> Any:
    """The class inside `Annotated[...]`, `X | None` and `tuple[X, ...]`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _inner(get_args(annotation)[0])
    if origin in (UnionType, Union):
        return next((_inner(arg) for arg in get_args(annotation) if arg is not type(None)), None)
    if origin is tuple:
        return _inner(get_args(annotation)[0])
    return annotation


def _keys(kind: type[FactModel]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]


def _nearest(name: str, known: Mapping[str, Any] | list[str]) -> str:
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {matches[0]}?" if matches else f"; known: {', '.join(known)}"
