"""`slime convert megatron-to-hf` that is killed, and checkpoints that it must refuse."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import time
from pathlib import Path

import pytest
from safetensors import safe_open

from ..megatron.families import make_family
from .convert_cases import convert, export

pytestmark = pytest.mark.runtime
KILLS = 20


@pytest.fixture(scope="module")
def hf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_family("glm4_moe", tmp_path_factory.mktemp("export") / "hf")


@pytest.fixture(scope="module")
def dist(hf: Path) -> Path:
    folder = hf.parent / "dist"
    assert convert("hf-to-megatron", "--hf-checkpoint", hf, "--save", folder) == 0
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_killed_at_any_moment_it_goes_on(hf: Path, dist: Path, tmp_path: Path) -> None:
    """kill -9, at moments spread over the run: nothing stands under the result's name before all of it does."""
    whole = tmp_path / "whole"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [f"{__package__}.convert_cases", "slime.megatron.stored_weights", "slime.megatron.process"]
    )

    def start(save: Path) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=export, args=(hf, dist, save))
        process.start()
        return process

    start(tmp_path / "first").join()  # the processes after it need not import anything
    begin = time.monotonic()
    start(whole).join()
    seconds = time.monotonic() - begin
    expected = contents(whole)
    assert len(expected) > 10
    moments = random.Random(0)
    kept: set[int] = set()
    save = tmp_path / "killed" / "hf"
    for _ in range(KILLS):
        process = start(save)
        time.sleep(moments.uniform(0, seconds))
        process.kill()
        process.join()
        if save.exists():
            assert contents(save) == expected
            shutil.rmtree(save)
        stage = save.parent / ".hf.megatron-to-hf.partial"
        kept.add(len(list(stage.glob("model-*"))) if stage.is_dir() else 0)
        for path in stage.glob("model-*"):
            with safe_open(path, framework="pt") as shard:
                assert list(shard.keys())
    print(f"{seconds:.2f} s; shards at the kills: {kept}")
    assert len(kept) > 1, "no two kills came at different stages"
    lines = export(hf, dist, save)
    assert "of them finished before" in lines[0]
    assert contents(save) == expected
    assert [path.name for path in save.parent.iterdir()] == ["hf"]
    assert export(hf, dist, save) == [f"{save}: complete, made from these files; left as it is."]
