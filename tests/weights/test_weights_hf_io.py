"""Reading, writing and refusing Hugging Face checkpoint folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from slime.weights.folders import FolderError, replaced_folder
from slime.weights.hf_io import INDEX_NAME, HFCheckpoint, HFCheckpointError, copy_companions, write_shards

pytestmark = pytest.mark.runtime


def tensors() -> dict[str, torch.Tensor]:
    return {f"layer.{i}": torch.arange(100, dtype=torch.float32) + i for i in range(5)}


def test_shards_and_index_return_what_was_written(tmp_path: Path) -> None:
    files = write_shards(tmp_path, tensors().items(), shard_bytes=900)
    assert [path.name for path in files] == [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    index = json.loads((tmp_path / INDEX_NAME).read_text())
    assert index["metadata"]["total_size"] == 5 * 400
    for name, shard in index["weight_map"].items():
        assert torch.equal(load_file(tmp_path / shard)[name], tensors()[name])
    checkpoint = HFCheckpoint(tmp_path)
    assert checkpoint.shapes == dict.fromkeys(tensors(), (100,))
    assert torch.equal(checkpoint.read("layer.3"), tensors()["layer.3"])
    assert all(path.stat().st_mode & 0o777 == 0o644 for path in files)


def test_one_file_when_it_fits(tmp_path: Path) -> None:
    assert [path.name for path in write_shards(tmp_path, tensors().items())] == ["model.safetensors"]
    assert not (tmp_path / INDEX_NAME).exists()
    assert torch.equal(HFCheckpoint(tmp_path).read("layer.0"), tensors()["layer.0"])


def test_incomplete_and_damaged_checkpoints_are_explained(tmp_path: Path) -> None:
    with pytest.raises(HFCheckpointError, match="has no weights"):
        HFCheckpoint(tmp_path)
    files = write_shards(tmp_path, tensors().items(), shard_bytes=900)
    whole = files[1].read_bytes()
    files[1].write_bytes(whole[:-100])
    with pytest.raises(HFCheckpointError, match=r"model-00002-of-00003\.safetensors is damaged or cut off"):
        HFCheckpoint(tmp_path)
    files[1].unlink()
    with pytest.raises(HFCheckpointError, match=r"1 of 3 shards are missing: model-00002-of-00003"):
        HFCheckpoint(tmp_path)
    files[1].write_bytes(whole)
    index = json.loads((tmp_path / INDEX_NAME).read_text())
    index["weight_map"]["ghost"] = files[0].name
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(HFCheckpointError, match=r"in the index alone \['ghost'\]"):
        HFCheckpoint(tmp_path)
    index["weight_map"]["ghost"] = "../../etc/passwd"
    (tmp_path / INDEX_NAME).write_text(json.dumps(index))
    with pytest.raises(HFCheckpointError, match="a shard lies in the folder itself"):
        HFCheckpoint(tmp_path)
    (tmp_path / INDEX_NAME).write_text("[]")
    with pytest.raises(HFCheckpointError, match="not an index of shards"):
        HFCheckpoint(tmp_path)


def test_companions_without_weights(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    write_shards(source, tensors().items(), shard_bytes=900)
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", ".hidden", "old.bin"):
        (source / name).write_text(name)
    (source / "latest_checkpointed_iteration.txt").write_text("release")
    (source / "folder").mkdir()
    assert copy_companions(source, target) == ["chat_template.jinja", "config.json", "tokenizer.json"]
    assert sorted(path.name for path in target.iterdir()) == ["chat_template.jinja", "config.json", "tokenizer.json"]


def test_a_folder_appears_complete_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    with pytest.raises(ZeroDivisionError), replaced_folder(target, ".made") as folder:
        (folder / "half").write_text("x")
        assert not target.exists()
        raise ZeroDivisionError
    assert not target.exists() and list(target.parent.iterdir()) == []
    with replaced_folder(target, ".made") as folder:
        (folder / "a").write_text("1")
        (folder / ".made").touch()
    assert (target / "a").read_text() == "1"
    with pytest.raises(FolderError, match="not empty"), replaced_folder(target, ".made") as folder:
        pass
    with pytest.raises(ZeroDivisionError), replaced_folder(target, ".made", force=True) as folder:
        raise ZeroDivisionError
    assert (target / "a").read_text() == "1"
    with replaced_folder(target, ".made", force=True) as folder:
        (folder / "b").write_text("2")
    assert [path.name for path in target.iterdir()] == ["b"]
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_force_replaces_only_what_the_caller_made(tmp_path: Path) -> None:
    target = tmp_path / "mine"
    target.mkdir()
    (target / "precious.txt").write_text("keep")
    with pytest.raises(FolderError, match="was not made by this command"), replaced_folder(target, ".made", force=True):
        pass
    assert (target / "precious.txt").read_text() == "keep"
    with pytest.raises(FolderError, match="is a file"), replaced_folder(target / "precious.txt", ".made", force=True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
