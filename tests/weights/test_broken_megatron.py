"""Broken and hostile Megatron checkpoints: `slime inspect` describes them, `slime convert` refuses them."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from slime.cli import main
from slime.megatron.checkpoint_index import read_index

from ..megatron.families import make_family
from .convert_cases import convert

pytestmark = pytest.mark.runtime


@pytest.fixture(scope="module")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_family("qwen3", tmp_path_factory.mktemp("broken") / "hf", num_hidden_layers=1)


@pytest.fixture(scope="module")
def whole(hf: Path) -> Path:
    folder = hf.parent / "dist"
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", folder) == 0
    return folder


@pytest.fixture
def dist(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "dist"))


def problems(capsys: pytest.CaptureFixture[str], folder: Path) -> list[str]:
    capsys.readouterr()
    assert main(["inspect", str(folder), "--json"]) == 1
    found: list[str] = json.loads(capsys.readouterr().out)["problems"]
    return found


def refusal(capsys: pytest.CaptureFixture[str], hf: Path, dist: Path) -> str:
    """Status 2, one line, and nothing written."""
    save = dist.parent / "back"
    capsys.readouterr()
    assert convert("megatron-to-hf", "--hf-checkpoint", hf, "--load", dist, "--save", save) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and not save.exists()
    return error


class Attack:
    """Unpickling an instance makes a folder."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_an_index_that_runs_code_is_not_run(
    protocol: int, hf: Path, dist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index: Any = read_index(dist / "release")
    index.storage_meta = Attack(tmp_path / "owned")  # the rest is whole
    (dist / "release" / ".metadata").write_bytes(pickle.dumps(index, protocol))
    said = "refers to posix.mkdir, which no checkpoint index needs"
    assert said in problems(capsys, dist)[0]
    assert said in refusal(capsys, hf, dist)
    assert not (tmp_path / "owned").exists()


def test_tensors_that_run_code_are_not_run(
    hf: Path, dist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index: Any = read_index(dist / "release")
    place = next(one for key, one in index.storage_data.items() if "word_embeddings" in key.fqn)
    torch.save(Attack(tmp_path / "owned"), tmp_path / "hostile.pt")
    hostile = (tmp_path / "hostile.pt").read_bytes()
    assert len(hostile) <= place.length
    with (dist / "release" / place.relative_path).open("r+b") as file:
        file.seek(place.offset)
        file.write(hostile.ljust(place.length, b"\0"))
    assert "word_embeddings.weight cannot be read" in refusal(capsys, hf, dist)
    assert not (tmp_path / "owned").exists()


def missing_index(release: Path) -> None:
    (release / ".metadata").unlink()


def cut_index(release: Path) -> None:
    data = (release / ".metadata").read_bytes()
    (release / ".metadata").write_bytes(data[: len(data) // 2])


def cut_tensors(release: Path) -> None:
    (path,) = release.glob("*.distcp")
    path.write_bytes(path.read_bytes()[:5000])


def missing_tensors(release: Path) -> None:
    next(release.glob("*.distcp")).unlink()


def changed(edit: Callable[[Any], None]) -> Callable[[Path], None]:
    def damage(release: Path) -> None:
        index = read_index(release)
        edit(index)
        (release / ".metadata").write_bytes(pickle.dumps(index))

    return damage


def outside(index: Any) -> None:
    for place in index.storage_data.values():
        place.relative_path = "../../secret"


def no_chunks(index: Any) -> None:
    index.state_dict_metadata["embedding.word_embeddings.weight"].chunks.clear()


def no_places(index: Any) -> None:
    index.storage_data.clear()


def no_norm(index: Any) -> None:
    del index.state_dict_metadata["decoder.final_layernorm.weight"]


def text_for_a_table(index: Any) -> None:
    index.storage_data = "nothing"


@pytest.mark.parametrize(
    ("damage", "seen", "said"),
    [
        (missing_index, ".metadata is missing", ".metadata is missing"),
        (cut_index, ".metadata is damaged", ".metadata is damaged"),
        (cut_tensors, "is cut off: 5000 of at least", "cannot be read"),
        (missing_tensors, "__0_0.distcp is missing", "cannot be read"),
        (changed(outside), "a checkpoint's files lie in its own folder", "'../../secret'"),
        (changed(no_chunks), None, "the checkpoint is incomplete"),
        (changed(no_places), None, "cannot be read"),
        (changed(no_norm), None, "missing in the checkpoint: ['decoder.final_layernorm.weight']"),
        (changed(text_for_a_table), "tables are no dictionaries", "tables are no dictionaries"),
    ],
)
def test_damage_is_named(
    damage: Callable[[Path], None],
    seen: str | None,
    said: str,
    hf: Path,
    dist: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`seen` by `slime inspect`, which reads no tensors and knows no model."""
    damage(dist / "release")
    if seen is not None:
        assert any(seen in problem for problem in problems(capsys, dist))
    assert said in refusal(capsys, hf, dist)


def test_no_damage_of_the_index_goes_unexplained(dist: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes changed, cut and added at random: a description or a whole index, never a traceback."""
    path, chosen = dist / "release" / ".metadata", random.Random(0)
    original = path.read_bytes()
    for _ in range(300):
        length = chosen.randrange(1, len(original)) if chosen.random() < 0.2 else len(original)
        data = bytearray(original[:length])
        for _ in range(chosen.randint(1, 4)):
            data[chosen.randrange(length)] = chosen.randrange(256)
        path.write_bytes(bytes(data))
        assert main(["inspect", str(dist), "--json"]) in (0, 1)
        json.loads(capsys.readouterr().out)
