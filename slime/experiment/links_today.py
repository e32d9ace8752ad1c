"""Print today's presets as the starting points of a new version of the links.

The output of ``python -m slime.experiment.links_today`` is appended to ``baselines`` in
``recipes/experiment/links.yaml``.
"""

from __future__ import annotations

import yaml

from slime.experiment.catalog import Catalog, load_catalog


def starting_points(catalog: Catalog, version: int) -> list[dict[str, object]]:
    """One mapping per preset: the shareable choices in full."""
    shareable = [choice.name for choice in catalog.tables.fields if choice.share]
    points: list[dict[str, object]] = []
    for preset in catalog.tables.presets:
        state = catalog.preset(preset.id)
        points.append({"version": version, "preset": preset.id, "values": {name: state[name] for name in shareable}})
    return points


def main() -> None:
    """Write YAML to standard output."""
    catalog = load_catalog()
    points = starting_points(catalog, catalog.tables.links.version + 1)
    print(yaml.safe_dump(points, sort_keys=False, allow_unicode=True, width=110), end="")


if __name__ == "__main__":
    main()
