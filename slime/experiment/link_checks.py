"""Checks of ``links.yaml`` and of what may travel in a link."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slime.experiment.choices import Problem, read_value
from slime.experiment.place import Place
from slime.experiment.tables import Tables
from slime.experiment.texts import nearest

_SAFE = re.compile(r"[A-Za-z0-9._-]+", re.ASCII)


def check_links(tables: Tables, place: Place) -> Iterator[str]:
    """``file:line`` messages: versions without starting points, illegal values, words that a link cannot hold."""
    yield from _check_words(tables)
    yield from _check_versions(tables, place)
    shareable = {choice.name for choice in tables.fields if choice.share}
    for index, one in enumerate(tables.links.baselines):
        if one.version != tables.links.version:
            continue  # older versions speak of the choices of their own time; migrations bring them here
        for name, value in one.values.items():
            path = ("baselines", index, "values", name)
            if name not in shareable:
                close = nearest(name, shareable)
                hint = f"; did you mean {close}?" if close else ""
                yield place.at(path, f"{name} is no shareable choice{hint}")
                continue
            read = read_value(tables.by_name[name], value)
            if isinstance(read, Problem):
                yield place.at(path, read.reason.en)
            elif tables.by_name[name].type == "text" and value != "":
                yield place.at(path, "a starting point of links holds no text; leave it empty")


def _check_versions(tables: Tables, place: Place) -> Iterator[str]:
    links = tables.links
    starts = [(one.version, one.preset) for one in links.baselines]
    for index, start in enumerate(starts):
        if start in starts[:index]:
            yield place.at(("baselines", index), f"version {start[0]} has the starting point {start[1]} twice")
        if start[0] > links.version:
            yield place.at(("baselines", index, "version"), f"the newest version is {links.version}")
    for version in range(1, links.version + 1):
        if version not in [start[0] for start in starts]:
            yield place.at(("version",), f"version {version} has no starting point; links of it could not be read")
    for index, migration in enumerate(links.migrations):
        if migration.from_ >= links.version:
            yield place.at(("migrations", index, "from"), f"there is no version {migration.from_ + 1} to migrate to")


def _check_words(tables: Tables) -> Iterator[str]:
    """Names and words of shareable choices need no escaping, so no reader can take a link apart differently."""
    for choice in tables.fields:
        words = [choice.name, *(value.value for value in choice.values)] if choice.share else []
        for word in words:
            if _SAFE.fullmatch(word) is None:
                where = f"recipes/experiment/fields.yaml: {choice.name}"
                yield f"{where}: a link cannot hold {word!r}; use letters, digits, dots, underscores and dashes"
