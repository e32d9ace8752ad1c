"""Read ``recipes/experiment/`` and join it with the facts and the runtime's flags.

Every mistake in the data is a ``CatalogError`` that starts with ``file:line`` and names the nearest legal word; the
catalogue loads whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from slime.config import REGISTRY
from slime.config.yaml_lines import Path as KeyPath
from slime.config.yaml_lines import YamlError, load_yaml_with_lines
from slime.experiment import schema
from slime.experiment.catalog_checks import check_tables
from slime.experiment.choices import Problem, read_value
from slime.experiment.environment import NO_IMAGE, fact_values, image_values, launch_defaults
from slime.experiment.errors import CatalogError
from slime.experiment.facts import Facts, default_root, load_facts
from slime.experiment.facts_schema import FactModel, Image, Words
from slime.experiment.memory_schema import MemoryFile
from slime.experiment.place import Place
from slime.experiment.schema import ChoiceField, EnumValue
from slime.experiment.tables import FlagStatus, Scalar, Tables
from slime.experiment.texts import nearest
from slime.experiment.tour import TourFile

TEMPLATES = ("experiment.sh.in", "serving-reference.sh.in")
DATA_FILES = ("fields.yaml", "transitions.yaml", "rules.yaml", "arguments.yaml", "presets.yaml", *TEMPLATES)
"""The files of ``recipes/experiment`` that the generated files come from, in the order in which they are hashed."""

_File = TypeVar("_File", bound=FactModel)


def load_tables(root: Path | None = None) -> Tables:
    """Read everything under ``root`` (the folder ``recipes``; default: found next to the package or inside it).

    Raises ``FactError`` for wrong facts and ``CatalogError`` for wrong engine data.
    """
    base = default_root() if root is None else Path(root)
    facts = load_facts(base)
    folder = base / "experiment"
    fields, place_fields = read_file(folder / "fields.yaml", schema.FieldsFile)
    transitions, place_transitions = read_file(folder / "transitions.yaml", schema.TransitionsFile)
    rules, place_rules = read_file(folder / "rules.yaml", schema.RulesFile)
    arguments, place_arguments = read_file(folder / "arguments.yaml", schema.ArgumentsFile)
    memory, place_memory = read_file(folder / "memory.yaml", MemoryFile)
    presets, place_presets = read_file(folder / "presets.yaml", schema.PresetsFile)
    links, place_links = read_file(folder / "links.yaml", schema.LinksFile)
    tour, place_tour = read_file(folder / "tour.yaml", TourFile)
    choices = tuple(_with_values(choice, facts) for choice in fields.fields_)
    tables = Tables(
        facts=facts,
        steps=fields.steps,
        fields=choices,
        derived=fields.derived,
        retired=fields.retired,
        transitions=transitions.transitions,
        rules=rules.rules,
        arguments=arguments,
        memory=memory,
        presets=presets.presets,
        links=links,
        tour=tour,
        templates={name: _text(folder / name) for name in TEMPLATES},
        fact_values={model: fact_values(facts, model) for model in facts.launch},
        image_values=image_values(facts),
        model_defaults={model: _model_defaults(choices, facts, model, place_fields) for model in facts.launch},
        flags=_flags(arguments, facts, place_arguments),
    )
    places = {
        "fields": place_fields,
        "transitions": place_transitions,
        "rules": place_rules,
        "arguments": place_arguments,
        "memory": place_memory,
        "presets": place_presets,
        "links": place_links,
        "tour": place_tour,
    }
    check_tables(tables, places)
    return tables


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CatalogError(f"{_shown(path)}: the file is missing ({path})") from None


def _shown(path: Path) -> str:
    return f"recipes/experiment/{path.name}"


def read_file(path: Path, kind: type[_File]) -> tuple[_File, Place]:
    """One file of ``recipes/experiment`` as ``kind``, and where its keys stand. Raises ``CatalogError``."""
    text = _text(path)
    try:
        data, lines = load_yaml_with_lines(text)
    except YamlError as error:
        raise CatalogError(f"{_shown(path)}:{error.line + 1}: {error.message}") from None
    place = Place(_shown(path), lines)
    try:
        return kind.model_validate(data), place
    except ValidationError as error:
        problems = [_problem(place, kind, detail) for detail in error.errors(include_url=False)]
        raise CatalogError("\n".join(dict.fromkeys(problems))) from None


def _problem(place: Place, kind: type[FactModel], detail: Mapping[str, Any]) -> str:
    path: KeyPath = ()
    for part in detail["loc"]:  # the location also names union branches; they have no line
        if (*path, part) in place.lines:
            path = (*path, part)
    if detail["type"] == "extra_forbidden":
        close = nearest(str(detail["loc"][-1]), _keys(kind, path[:-1]))
        return place.at(path, "unknown key" + (f"; did you mean {close}?" if close else ""))
    if detail["type"] == "missing":
        return place.at(path, f"the key {detail['loc'][-1]} is missing")
    return place.at(path, detail["msg"].removeprefix("Value error, "))


def _keys(kind: Any, path: KeyPath) -> list[str]:
    """The keys of the class that stands at ``path`` below ``kind``."""
    current: Any = kind
    for part in path:
        current = _inner(current)
        if isinstance(part, int):
            continue
        if isinstance(current, type) and issubclass(current, FactModel):
            found = [f.annotation for n, f in current.model_fields.items() if (f.alias or n) == part]
            current = found[0] if found else None
        elif get_origin(current) is dict:
            current = get_args(current)[1]
    current = _inner(current)
    if isinstance(current, type) and issubclass(current, FactModel):
        return [field.alias or name for name, field in current.model_fields.items()]
    return []


def _inner(annotation: Any) -> Any:
    """The class inside ``Annotated[...]``, ``X | None`` and ``tuple[X, ...]``."""
    origin = get_origin(annotation)
    if origin in (Annotated, tuple):
        return _inner(get_args(annotation)[0])
    if origin in (UnionType, Union):
        return next((_inner(one) for one in get_args(annotation) if one is not type(None)), None)
    return annotation


def _with_values(choice: ChoiceField, facts: Facts) -> ChoiceField:
    """``model`` gets its values from the launch files, ``image`` from the images, each in their order."""
    if choice.values_from is None:
        return choice
    if choice.values_from == "images":
        none = EnumValue(value=NO_IMAGE, label=Words(zh="未选择", en="Not chosen"))
        return choice.model_copy(update={"values": (none, *map(_image_value, facts.images.images))})
    values = tuple(
        EnumValue(
            value=recipe.id,
            label=Words(zh=recipe.display, en=recipe.display),
            help=Words(zh=recipe.size, en=recipe.size),
        )
        for recipe in facts.launch.values()
    )
    return choice.model_copy(update={"values": values})


def _image_value(image: Image) -> EnumValue:
    gpus = " / ".join(image.gpus)
    label = Words(zh=f"{gpus}（{image.toolkit}）", en=f"{gpus} ({image.toolkit})")
    return EnumValue(value=image.id, label=label, help=image.note)


def _model_defaults(choices: tuple[ChoiceField, ...], facts: Facts, model: str, place: Place) -> dict[str, Scalar]:
    """What choosing ``model`` sets; a null default of the launch file leaves the choice as it is."""
    available = launch_defaults(facts, model)
    result: dict[str, Scalar] = {}
    for index, choice in enumerate(choices):
        if choice.from_launch is None:
            continue
        path = ("fields", index, "from_launch")
        if choice.from_launch not in available:
            close = nearest(choice.from_launch, available)
            raise CatalogError(place.at(path, f"launch files have no default of this name; nearest: {close}"))
        value = available[choice.from_launch]
        if value is None:
            continue
        read = read_value(choice, value)
        if isinstance(read, Problem):
            raise CatalogError(place.at(path, f"for {model}: {read.reason.en}"))
        result[choice.name] = read
    return result


def _flags(arguments: schema.ArgumentsFile, facts: Facts, place: Place) -> dict[str, FlagStatus]:
    """What the runtime says about every flag of the table and of the launch files."""
    wanted = [
        (place.at(("arguments", index, "flag"), ""), row.flag)
        for index, row in enumerate(arguments.arguments)
        if row.flag is not None and row.target in ("train", "serving")
    ]
    for recipe in facts.launch.values():
        extras = (*recipe.training_flags, *recipe.serving_flags)
        wanted += [(f"recipes/launch/{recipe.id}.yaml: ", extra.flag) for extra in extras]
    result: dict[str, FlagStatus] = {}
    problems = []
    for where, name in wanted:
        if name not in REGISTRY:
            problems.append(f"{where}{name} is no flag of the runtime; nearest: {REGISTRY.nearest(name)}")
            continue
        flag = REGISTRY[name]
        # The lab never writes a user's function for such a flag, so all but its default is what does not run yet.
        only = (str(flag.default),) if flag.not_yet else flag.only
        result[name] = FlagStatus(flag.runs, only, flag.type in (int, float), flag.switch)
    if problems:
        raise CatalogError("\n".join(problems))
    return result
