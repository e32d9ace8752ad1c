"""Differences of weights: what is encoded is what comes back, and what is damaged or out of order is refused."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from slime.weights.delta import Encoding

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from slime.weights.delta import CHECKSUMS, DeltaError, DeltaGapError, VersionNote, apply, encode
from slime.weights.delta_writer import DeltaWriter, Written
from slime.weights.folders import FolderError
from slime.weights.hf_config import config_from_dict
from slime.weights.local_checkpoint import NOTE_NAME, LocalCheckpoint, read_note
from slime.weights.served import ServedCheckpoint

pytestmark = pytest.mark.runtime

CONFIG = {
    "model_type": "qwen3", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 8,
    "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": True,
}  # fmt: skip
Named = list[tuple[str, torch.Tensor]]


def weights(seed: int = 0) -> Named:
    generator = torch.Generator().manual_seed(seed)
    return [
        ("a", torch.randn(40, 30, generator=generator).bfloat16()),
        ("b", torch.randn(7, generator=generator)),
        ("c", torch.randint(0, 9, (3, 5), generator=generator)),
    ]


def moved(named: Named, count: int = 5) -> Named:
    """The first `count` numbers of the first tensor are others; the rest is as it was."""
    name, tensor = named[0]
    changed = tensor.clone()
    changed.view(-1)[:count] += 1.0
    return [(name, changed), *named[1:]]


@pytest.fixture
def served(tmp_path: Path) -> ServedCheckpoint:
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(dict(weights()), folder / "model.safetensors")
    return ServedCheckpoint(folder, config_from_dict(CONFIG))


@pytest.fixture
def writer(tmp_path: Path, served: ServedCheckpoint) -> DeltaWriter:
    return DeltaWriter(tmp_path / "versions", served, "xor", "xxh3-128")


@pytest.fixture
def local(tmp_path: Path) -> LocalCheckpoint:
    return LocalCheckpoint(tmp_path / "host" / "local")


def held(local: LocalCheckpoint) -> dict[str, torch.Tensor]:
    return load_file(local.folder / "model.safetensors")


def assert_equal(found: dict[str, torch.Tensor], expected: Named) -> None:
    assert set(found) == {name for name, _ in expected}
    for name, tensor in expected:
        assert torch.equal(found[name], tensor), name


def pull(local: LocalCheckpoint, written: Written) -> int:
    return local.pull(Path(written.folder))


@pytest.mark.parametrize("encoding", get_args(Encoding))
@pytest.mark.parametrize("share", [0.0, 0.01, 1.0])
def test_a_difference_turns_the_old_bytes_into_the_new(encoding: Encoding, share: float) -> None:
    random = np.random.default_rng(0)
    old = random.integers(0, 256, 10_000, dtype=np.uint8)
    new = np.where(random.random(old.size) < share, random.integers(0, 256, old.size, dtype=np.uint8), old)
    found = encode(old, new, encoding)
    if np.array_equal(old, new):
        assert found is None
        return
    assert found is not None
    target = old.copy()
    apply(target, found, encoding)
    assert np.array_equal(target, new)
    if share == 0.01:
        assert found.size < 1000  # a hundred bytes changed


def test_checksums_are_the_published_ones() -> None:
    """Known answers: xxh3-128 of nothing, BLAKE3 of nothing, and zlib's own Adler-32."""
    empty = np.zeros(0, np.uint8)
    assert CHECKSUMS["xxh3-128"](empty) == "99aa06d3014798d86001c324468d497f"
    assert CHECKSUMS["blake3"](empty).startswith("af1349b9f5f9a1a6a0404dea36dcc949")
    assert (
        CHECKSUMS["adler32"](np.frombuffer(b"Wikipedia", np.uint8)) == "11e60398" == f"{zlib.adler32(b'Wikipedia'):x}"
    )


@pytest.mark.parametrize("encoding", get_args(Encoding))
def test_a_chain_of_versions_is_followed(
    encoding: Encoding, tmp_path: Path, served: ServedCheckpoint, local: LocalCheckpoint
) -> None:
    writer = DeltaWriter(tmp_path / "versions", served, encoding, "blake3")
    state = weights()
    first = writer.write(1, state)
    assert (first.changed, first.tensors) == (3, 3)
    assert pull(local, first) > 0
    assert_equal(held(local), state)
    assert (local.folder / "config.json").is_file()
    for version in (2, 3):
        state = moved(state, count=version)
        written = writer.write(version, state)
        assert (written.changed, written.tensors) == (1, 3)
        assert written.sent < written.full
        pull(local, written)
        assert_equal(held(local), state)
    nothing = writer.write(4, state)
    assert (nothing.changed, nothing.sent) == (0, 0)
    assert pull(local, nothing) == 0
    assert read_note(local.folder)["version"] == 4
    assert pull(local, nothing) == 0  # a second engine of the host finds it done


def test_a_gap_is_refused_and_mended_by_a_full_version(writer: DeltaWriter, local: LocalCheckpoint) -> None:
    state = weights()
    pull(local, writer.write(1, state))
    writer.write(2, moved(state, 2))
    state = moved(state, 3)
    third = writer.write(3, state)
    with pytest.raises(DeltaGapError, match=r"holds version 1 of the chain .*difference from version 2 to 3"):
        pull(local, third)
    assert_equal(held(local), weights())
    pull(local, writer.write_full(3, state))
    assert_equal(held(local), state)
    state = moved(state, 4)
    pull(local, writer.write(4, state))  # the chain goes on from the full version
    assert_equal(held(local), state)


def test_a_version_of_another_run_is_a_gap(tmp_path: Path, served: ServedCheckpoint, local: LocalCheckpoint) -> None:
    """Numbers agree, weights do not."""
    earlier = DeltaWriter(tmp_path / "earlier", served, "xor", "xxh3-128")
    pull(local, earlier.write(1, weights(seed=1)))
    now = DeltaWriter(tmp_path / "versions", served, "xor", "xxh3-128")
    now.write(1, weights(seed=2))
    with pytest.raises(DeltaGapError, match="of the chain"):
        pull(local, now.write(2, moved(weights(seed=2))))


def test_a_host_without_weights_is_a_gap(writer: DeltaWriter, local: LocalCheckpoint) -> None:
    writer.write(1, weights())
    with pytest.raises(DeltaGapError, match="holds no version"):
        pull(local, writer.write(2, moved(weights())))


def damage(path: Path, change: int) -> None:
    """Flip a bit of the file's last byte, or cut it off."""
    data = bytearray(path.read_bytes())
    if change:
        data[-1] ^= change
    else:
        del data[-3:]
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("change", [0, 1], ids=["cut off", "a flipped bit"])
def test_a_damaged_difference_is_refused(change: int, writer: DeltaWriter, local: LocalCheckpoint) -> None:
    pull(local, writer.write(1, weights()))
    written = writer.write(2, moved(weights()))
    damage(Path(written.folder) / "model.safetensors", change)
    with pytest.raises(DeltaError, match=r"damaged|checksum"):
        pull(local, written)
    if change == 0:
        assert_equal(held(local), weights())  # seen before anything was changed
    else:
        with pytest.raises(DeltaGapError):  # whatever was written, the copy no longer passes for a version
            pull(local, writer.write(3, moved(weights(), 6)))


def test_a_tensor_that_the_note_names_and_the_folder_lacks_is_refused(
    writer: DeltaWriter, local: LocalCheckpoint
) -> None:
    pull(local, writer.write(1, weights()))
    written = writer.write(2, moved(weights()))
    (Path(written.folder) / "model.safetensors").unlink()
    with pytest.raises(DeltaError, match="lists 1 changed tensors and holds 0; for example a"):
        pull(local, written)


def test_a_wrong_base_shows_in_the_checksum(writer: DeltaWriter, local: LocalCheckpoint) -> None:
    """The number is right and the bytes are not; the copy is no version afterwards, and a full one mends it."""
    pull(local, writer.write(1, weights()))
    damage(local.folder / "model.safetensors", 4)  # the last byte, of tensor a or b or c
    state = [(name, tensor + 1) for name, tensor in weights()]
    with pytest.raises(DeltaError, match=r"checksum .* after version 2 was applied"):
        pull(local, writer.write(2, state))
    assert "applying" in read_note(local.folder)
    with pytest.raises(DeltaGapError, match="version 1 with a part of version 2"):
        pull(local, writer.write(3, moved(state)))
    pull(local, writer.write_full(3, moved(state)))
    assert_equal(held(local), moved(state))


def test_a_write_that_failed_is_followed_by_a_full_version(writer: DeltaWriter, local: LocalCheckpoint) -> None:
    pull(local, writer.write(1, weights()))

    def broken() -> Iterator[tuple[str, torch.Tensor]]:
        yield moved(weights())[0]
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        writer.write(2, broken())
    again = writer.write(2, moved(weights(), 9))
    assert again.changed == again.tensors == 3
    pull(local, again)
    assert_equal(held(local), moved(weights(), 9))


def test_a_folder_of_the_user_s_is_not_replaced(writer: DeltaWriter, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("ten years")
    with pytest.raises(FolderError, match="was not made by"):
        LocalCheckpoint(folder).pull(Path(writer.write(1, weights()).folder))
    assert (folder / "thesis.txt").read_text() == "ten years"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"delta_encoding": "gzip"}, "read are xor and overwrite"),
        ({"checksum_format": "md5"}, "xxh3-128, blake3, adler32"),
        ({"version": None}, "does not describe a version"),
        ({"checksums": None}, "does not describe a version"),
    ],
)
def test_a_note_of_another_kind_is_refused(change: dict[str, object], words: str) -> None:
    note = VersionNote(2, "chain", 1, "xor", "adler32", {"a": "1"}).to_json()
    assert VersionNote.from_json(note, "x") == VersionNote(2, "chain", 1, "xor", "adler32", {"a": "1"})
    with pytest.raises(DeltaError, match=words):
        VersionNote.from_json({**note, **change}, "x")


def test_a_note_is_needed(tmp_path: Path, local: LocalCheckpoint) -> None:
    with pytest.raises(DeltaError, match=NOTE_NAME):
        local.pull(tmp_path)
    (tmp_path / NOTE_NAME).write_text("[1]")
    with pytest.raises(DeltaError, match="no JSON object"):
        local.pull(tmp_path)
