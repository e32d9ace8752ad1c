"""The generated files: a golden manifest over the whole grid, whole files for the presets, and what must always hold.

``SLIME_UPDATE_GOLDEN=1`` writes the golden files anew. Read the difference before committing it: an expectation that is
accepted unread is only a snapshot.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from slime.experiment import Catalog

from .corpus import PROVENANCE

GOLDEN = Path(__file__).parent / "golden"
MANIFEST = GOLDEN / "manifest.json"
HOW = "; if that is meant: SLIME_UPDATE_GOLDEN=1 pytest tests/experiment/test_artifacts.py, then read the diff"
UPDATE = os.environ.get("SLIME_UPDATE_GOLDEN") == "1"
GRID = list(
    itertools.product(
        ["colocate", "separate", "external"],
        ["sync", "async"],
        ["bf16", "fp8", "fp8train", "int4"],
        ["none", "tis", "icepop"],
    )
)


def _grid(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """Every model x layout x schedule x precision x correction, by a readable name."""
    states = {}
    for model in catalog.facts.launch:
        for layout, schedule, precision, correction in GRID:
            raw = {"model": model, "layout": layout, "schedule": schedule, "precision": precision}
            read = catalog.sanitise({**raw, "correction": correction, "endpoints": "host:30000"})
            states["/".join([model, layout, schedule, precision, correction])] = read.state
    return states


def test_the_grid_gives_the_golden_files(catalog: Catalog) -> None:
    """sha256 of every file of every combination; a changed line of the table shows here as changed names."""
    ours = {
        name: {
            file: hashlib.sha256(text.encode()).hexdigest()
            for file, text in catalog.artifacts(state, PROVENANCE).items()
        }
        for name, state in _grid(catalog).items()
    }
    if UPDATE:
        MANIFEST.write_text(json.dumps(ours, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    golden = json.loads(MANIFEST.read_text(encoding="utf-8"))
    assert sorted(ours) == sorted(golden)
    changed = [name for name in ours if ours[name] != golden[name]]
    assert not changed, f"{len(changed)} of {len(ours)} combinations changed, the first: {changed[:5]}{HOW}"


@pytest.mark.parametrize("preset", ["first", "laptop", "scale", "agent"])
def test_the_presets_give_the_golden_texts(catalog: Catalog, preset: str) -> None:
    folder = GOLDEN / preset
    files = catalog.artifacts(catalog.preset(preset), PROVENANCE)
    if UPDATE:
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
    assert sorted(files) == sorted(path.name for path in folder.iterdir())
    for name, text in files.items():
        assert text == (folder / name).read_text(encoding="utf-8"), name + HOW


def test_every_export_fits_the_schema_and_reads_back(catalog: Catalog) -> None:
    validator = jsonschema.Draft202012Validator(catalog.schema())
    validator.check_schema(catalog.schema())
    for state in _grid(catalog).values():
        text = catalog.artifacts(state, PROVENANCE)["experiment.json"]
        record = json.loads(text)
        validator.validate(record)
        read = catalog.sanitise(record)
        assert read.state == state and read.ignored == []


def test_the_schema_refuses_what_reading_refuses(catalog: Catalog) -> None:
    validator = jsonschema.Draft202012Validator(catalog.schema())
    for choices in ({"nodes": "8"}, {"nodes": 0}, {"pd": 1}, {"layout": "x"}, {"hff": "x"}, {"hf": "x" * 2049}):
        assert not validator.is_valid({"schema": 2, "choices": choices}), choices
        assert catalog.sanitise(choices).ignored, choices


def test_managed_prefill_and_decode_fill_the_pool_exactly(catalog: Catalog) -> None:
    for model in catalog.facts.launch:
        if catalog.facts.launch[model].device == "cpu":
            continue
        engine = catalog.facts.launch[model].engine.gpus
        raw = {
            "model": model,
            "layout": "separate",
            "rollout": 3 * engine,
            "prefill": engine,
            "pd": True,
            "ib": "mlx5_0",
        }
        files = catalog.artifacts(catalog.sanitise(raw).state)
        assert list(files) == ["experiment.sh", "sglang.yaml", "experiment.json"]
        (served,) = yaml.safe_load(files["sglang.yaml"])["sglang"]
        groups = served["server_groups"]
        assert [group["worker_type"] for group in groups] == ["prefill", "decode"]
        assert [group["num_gpus"] for group in groups] == [engine, 2 * engine]
        assert {group["num_gpus_per_engine"] for group in groups} == {engine}


def test_external_engines_get_a_reference_without_trainer_flags(catalog: Catalog) -> None:
    files = catalog.artifacts(catalog.sanitise({"layout": "external", "endpoints": "h:1", "pd": True, "ib": "a"}).state)
    assert list(files) == ["experiment.sh", "serving-reference.sh", "experiment.json"]
    reference = files["serving-reference.sh"]
    assert "--sglang-" not in reference and "--rollout-" not in reference
    assert "--disaggregation-mode prefill" in reference and "--disaggregation-mode decode" in reference


def test_what_a_user_typed_is_never_expanded_as_a_slot(catalog: Catalog) -> None:
    typed = "/x/@COMMIT@/@TRAIN_ARGUMENTS@/{nodes}"
    script = catalog.artifacts(catalog.sanitise({"hf": typed}).state)["experiment.sh"]
    assert f"'{typed}'" in script


def test_files_hold_no_control_characters(catalog: Catalog) -> None:
    state = catalog.sanitise({"hf": "a\nb\r\x1b[31m", "save": "\u202ex", "ib": "a\tb", "pd": True}).state
    for text in catalog.artifacts(state).values():
        assert all(char == "\n" or (char >= " " and char not in "\x7f\u2028\u202e") for char in text)
        assert text.endswith("\n") and "@@" not in text


def test_the_catalogue_for_the_browser_is_the_same_every_time(catalog: Catalog) -> None:
    first = json.dumps(catalog.to_json(), sort_keys=True, ensure_ascii=False)
    assert first == json.dumps(catalog.to_json(), sort_keys=True, ensure_ascii=False)
    assert json.loads(first) == catalog.to_json()
