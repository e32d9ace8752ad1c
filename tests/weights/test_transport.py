"""Shared-memory buckets and versions on disk, read back by another process or from the files."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from safetensors.torch import load_file, save_file

from slime.weights.delta import VersionNote
from slime.weights.hf_config import config_from_dict
from slime.weights.served import ServedCheckpoint
from slime.weights.transport import (
    SharedBuffer,
    WeightUpdateError,
    check_same_tensors,
    pack,
    require_finite,
    size_in_bytes,
    split_buckets,
)
from slime.weights.transport_disk import remove_version, version_folder, write_version

pytestmark = pytest.mark.runtime

# What an engine does with a payload: unpickle (a test may), cut the flat buffer, and say what it found.
READER = """
import base64, io, pickle, sys
import torch
content = pickle.loads(base64.b64decode(sys.stdin.read()))
for place in content["metadata"]:
    flat = content["flattened_tensor"][place.start_idx : place.end_idx]
    tensor = flat.view(place.dtype).reshape(place.shape)
    print(place.name, list(tensor.shape), str(tensor.dtype), tensor.double().sum().item())
"""


# Before it unpickles, SGLang replaces torch's function, so that a GPU may be named by its UUID.
GPU_READER = """
import torch
from torch.multiprocessing import reductions
original = reductions.rebuild_cuda_tensor
def rebuild(*arguments):
    uuids = [str(torch.cuda.get_device_properties(index).uuid) for index in range(torch.cuda.device_count())]
    return original(*arguments[:6], uuids.index(arguments[6]), *arguments[7:])
reductions.rebuild_cuda_tensor = rebuild
"""
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


def read_elsewhere(payload: str, reader: str = READER) -> list[str]:
    done = subprocess.run([sys.executable, "-c", reader], input=payload, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_another_process_reads_the_tensors_from_shared_memory() -> None:
    tensors = [
        ("a", torch.arange(6, dtype=torch.float32).reshape(2, 3)),
        ("b", torch.ones(4, dtype=torch.bfloat16) * 2),
        ("c", torch.tensor([[7]], dtype=torch.int64)),
    ]
    buffer = SharedBuffer()
    assert read_elsewhere(pack(tensors, buffer)[0]) == [
        "c [1, 1] torch.int64 7.0",
        "a [2, 3] torch.float32 15.0",
        "b [4] torch.bfloat16 8.0",
    ]


def test_narrow_elements_do_not_shift_wide_ones_off_their_alignment() -> None:
    """A quantised weight of three bytes stands before its scale in the stream, and after it in the buffer."""
    tensors = [("w", torch.ones(3, dtype=torch.float8_e4m3fn)), ("w_scale", torch.tensor([0.5])), ("n", torch.ones(1))]
    assert read_elsewhere(pack(tensors, SharedBuffer(), copies=2)[1]) == [
        "w_scale [1] torch.float32 0.5",
        "n [1] torch.float32 1.0",
        "w [3] torch.float8_e4m3fn 3.0",
    ]


def test_the_payload_holds_a_handle_and_no_weights() -> None:
    (payload,) = pack([("big", torch.zeros(1_000_000))], SharedBuffer())
    assert len(payload) < 4000


def address(buffer: SharedBuffer) -> int:
    assert buffer.data is not None
    return int(buffer.data.data_ptr())


def test_the_buffer_is_reused_and_carries_the_new_values() -> None:
    buffer = SharedBuffer()
    pack([("w", torch.ones(100))], buffer)
    place = address(buffer)
    (payload,) = pack([("w", torch.ones(50) * 3)], buffer)
    assert address(buffer) == place
    assert read_elsewhere(payload) == ["w [50] torch.float32 150.0"]


def test_a_view_is_sent_as_its_values() -> None:
    """A transposed weight is not contiguous; its bytes must be sent in its own order."""
    tensor = torch.arange(6, dtype=torch.float32).reshape(2, 3).t()
    (payload,) = pack([("t", tensor)], SharedBuffer())
    content = base64.b64decode(payload)
    assert b"rebuild_storage_filename" in content
    assert read_elsewhere(payload) == ["t [3, 2] torch.float32 15.0"]


@needs_gpu
def test_another_process_reads_the_tensors_from_the_gpu() -> None:
    gpu = torch.device("cuda", 0)
    buffer = SharedBuffer(gpu)
    tensors = [
        ("a", torch.arange(6, dtype=torch.float32, device=gpu).reshape(2, 3).t()),
        ("b", torch.ones(4, dtype=torch.bfloat16, device=gpu) * 2),
    ]
    (payload,) = pack(tensors, buffer)
    assert buffer.data is not None and buffer.data.device == gpu
    assert str(torch.cuda.get_device_properties(gpu).uuid).encode() in base64.b64decode(payload)
    assert read_elsewhere(payload, GPU_READER + READER) == ["a [3, 2] torch.float32 15.0", "b [4] torch.bfloat16 8.0"]


@needs_gpu
def test_a_bucket_on_the_gpu_stays_until_it_was_read() -> None:
    """An engine answers before its copies have run: the next bucket must not be written over this one."""
    gpu = torch.device("cuda", 0)
    buffer = SharedBuffer(gpu)
    (first,) = pack([("w", torch.full((1000,), 1.0, device=gpu))], buffer)
    place = address(buffer)
    (second,) = pack([("w", torch.full((1000,), 2.0, device=gpu))], buffer)
    assert address(buffer) != place
    assert read_elsewhere(first, GPU_READER + READER) == ["w [1000] torch.float32 1000.0"]
    assert read_elsewhere(second, GPU_READER + READER) == ["w [1000] torch.float32 2000.0"]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_kept_back(bad: float) -> None:
    with pytest.raises(WeightUpdateError, match=r"layer\.weight holds values that are not finite"):
        require_finite([("whole", torch.ones(2)), ("layer.weight", torch.tensor([1.0, bad], dtype=torch.bfloat16))])


def test_an_empty_bucket_is_refused() -> None:
    with pytest.raises(WeightUpdateError, match="no tensors"):
        pack([], SharedBuffer())


def test_buckets_keep_the_order_and_the_limit() -> None:
    named = [(str(i), torch.zeros(n)) for i, n in enumerate([10, 10, 30, 5, 100, 1])]
    buckets = list(split_buckets(named, limit=4 * 40))
    assert [[name for name, _ in bucket] for bucket in buckets] == [["0", "1"], ["2", "3"], ["4"], ["5"]]
    sizes = [sum(size_in_bytes(t) for _, t in bucket) for bucket in buckets]
    assert sizes == [80, 140, 400, 4]  # a tensor over the limit stands alone


def test_a_mismatch_names_tensors_and_shapes() -> None:
    expected = {"a": (2, 3), "b": (4,), "c": (1,)}
    sent = {"a": (3, 2), "b": (4,), "d": (1,)}
    with pytest.raises(WeightUpdateError) as caught:
        check_same_tensors(sent, expected, "/model")
    text = str(caught.value)
    assert "c is missing" in text
    assert "d is not a tensor of the engine's checkpoint" in text
    assert "a has shape [3, 2] instead of [2, 3]" in text
    assert "/model" in text


def test_equal_names_and_shapes_pass() -> None:
    check_same_tensors({"a": (2,)}, {"a": (2,)}, "/model")
    assert list(split_buckets([])) == []


CONFIG = {
    "model_type": "qwen3", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 4, "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 8,
    "rms_norm_eps": 1e-6, "rope_theta": 1e4, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture
def served(tmp_path: Path) -> ServedCheckpoint:
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file({"w": torch.zeros(2, 2)}, folder / "model.safetensors")
    return ServedCheckpoint(folder, config_from_dict(CONFIG))


def test_a_version_on_disk_is_a_whole_checkpoint(tmp_path: Path, served: ServedCheckpoint) -> None:
    folder = write_version(tmp_path / "sync", VersionNote(3, "chain"), [("w", torch.ones(2, 2))], served)
    assert folder == version_folder(tmp_path / "sync", 3)
    assert folder.name == "weight_v000003"
    assert json.loads((folder / "config.json").read_text()) == CONFIG
    assert load_file(folder / "model.safetensors")["w"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_an_interrupted_version_does_not_appear(tmp_path: Path, served: ServedCheckpoint) -> None:
    def broken() -> Iterator[tuple[str, torch.Tensor]]:
        yield "w", torch.ones(2)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_version(tmp_path / "sync", VersionNote(4, "chain"), broken(), served)
    assert list((tmp_path / "sync").iterdir()) == []


def test_a_version_of_an_earlier_run_is_replaced_and_can_go(tmp_path: Path, served: ServedCheckpoint) -> None:
    root = tmp_path / "sync"
    write_version(root, VersionNote(1, "earlier"), [("w", torch.zeros(2))], served)
    folder = write_version(root, VersionNote(1, "chain"), [("w", torch.ones(2))], served)
    assert load_file(folder / "model.safetensors")["w"].tolist() == [1.0, 1.0]
    remove_version(root, 1)
    remove_version(root, 1)
    assert list(root.iterdir()) == []
