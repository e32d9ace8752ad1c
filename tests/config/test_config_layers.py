"""Configuration files beside flags."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slime.config import ConfigError, parse_args
from slime.config.layers import MAX_BYTES, read_file

COMPLETE = """\
# A comment
hf-checkpoint: hf
ref_load: torch_dist
--prompt-data: train.jsonl
label-key: label
rm-type: math
num-rollout: 4
rollout-batch-size: 8
n-samples-per-prompt: 4
rollout-max-response-len: 8
actor-num-gpus-per-node: 1
colocate: true
lr: 1e-6
eval-prompt-data: [heldout, heldout.jsonl]
eval-interval: 2
"""


def write(folder: Path, text: str | bytes, name: str = "run.yaml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_a_file_gives_everything(tmp_path: Path) -> None:
    path = write(tmp_path, COMPLETE)
    config = parse_args(["--config", path])
    assert config.lr == 1e-6
    assert config.eval_datasets == (("heldout", "heldout.jsonl"),)
    assert config.origins["lr"] == f"{path}:13"


def test_json_is_read_too(tmp_path: Path) -> None:
    first, second = write(tmp_path, COMPLETE), write(tmp_path, '{"lr": 0.5, "colocate": true}', "more.json")
    assert parse_args([f"--config={first}", f"--config={second}"]).lr == 0.5


def test_order_decides_between_files_and_flags(tmp_path: Path) -> None:
    path = write(tmp_path, COMPLETE)
    assert parse_args(["--config", path, "--num-rollout", "9"]).num_rollout == 9
    assert parse_args(["--num-rollout", "9", "--config", path]).num_rollout == 4


def test_sources_are_merged_before_anything_is_derived(tmp_path: Path) -> None:
    path = write(tmp_path, "rollout-batch-size: 16\n")
    base = write(tmp_path, COMPLETE, "base.yaml")
    assert parse_args(["--config", base]).global_batch_size == 32
    assert parse_args(["--config", base, "--config", path]).global_batch_size == 64


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    text = COMPLETE + "save: off\nnum-steps-per-rollout: 02\nadam-eps: 1e-6\n"
    config = parse_args(["--config", write(tmp_path, text)])
    assert (config.save, config.num_steps_per_rollout, config.adam_eps) == ("off", 2, 1e-6)


def test_null_is_the_default(tmp_path: Path) -> None:
    config = parse_args(["--config", write(tmp_path, COMPLETE.replace("lr: 1e-6", "lr: null"))])
    assert config.lr == 1e-6


def test_an_empty_file_gives_nothing(tmp_path: Path) -> None:
    assert read_file(write(tmp_path, "# nothing\n")) == ([], [])


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("lr: 1\nnum-rolout: 3\n", 2, "unknown flag --num-rolout"),
        ("lr: 1\nlr: 2\n", 2, "the key lr stands twice; it was first on line 1"),
        ("save-interval: 1\nsave_interval: 2\n", 2, "stands on line 1 already"),
        ("num-rollout: yes\n", 1, "this is a text, the flag takes an integer"),
        ("num-rollout: true\n", 1, "this is a boolean, the flag takes an integer"),
        ("colocate: on\n", 1, "this is a text, the flag takes true or false"),
        ('num-rollout: "3"\n', 1, "this is a text, the flag takes an integer"),
        ("num-rollout: 0\n", 1, "--num-rollout 0: must be an integer, at least 1"),
        ("lr: fast\n", 1, "must be a number, above 0"),
        ("eval-prompt-data:\n  - a\n  - [b]\n", 3, "this is a list"),
        ("eval-prompt-data: []\n", 1, "at least one value"),
        ("save: 2026\n", 1, "the flag takes text"),
        ("sglang-nnodes: 2\n", 1, "--sglang-nnodes is set by the runtime"),
        ("lr: [1\n", 2, "not valid YAML"),
        ("- lr\n", 1, "a mapping of flags"),
        ("[a]: 1\n", 1, "the key a list or mapping is not text"),
        ("sglang-enable-lora: true\n", 1, "--sglang-enable-lora is planned"),
        (
            "lr: !!python/object/apply:os.getcwd []\n",
            1,
            "the tag tag:yaml.org,2002:python/object/apply:os.getcwd is not read here",
        ),
        ("lr: &a [*a]\n", 1, "the anchor &a is not read here"),
    ],
)
def test_a_mistake_has_its_file_and_line(text: str, line: int, part: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        parse_args(["--config", path])
    wrong = [problem.message for problem in caught.value.problems if part in problem.message]
    assert len(wrong) == 1
    assert wrong[0].startswith(f"{path}:{line}: ")


@pytest.mark.parametrize(
    ("data", "part"),
    [(b"\xff\xfe", "not UTF-8"), (b" " * (MAX_BYTES + 1), "the most that is read"), (b"[" * 5000, "levels of nesting")],
)
def test_bytes_that_are_no_configuration(data: bytes, part: str, tmp_path: Path) -> None:
    (problem,) = read_file(write(tmp_path, data))[1]
    assert part in problem.message


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.yaml cannot be read: No such file"):
        parse_args(["--config", str(tmp_path / "absent.yaml")])
    with pytest.raises(ConfigError, match="cannot be read"):
        parse_args(["--config", str(tmp_path)])


@given(st.text(max_size=80))
def test_random_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = write(tmp_path_factory.mktemp("random"), text.encode("utf-8", "surrogatepass"))
    found, problems = read_file(path)
    assert isinstance(found, list)
    assert all(problem.message for problem in problems)


def test_half_of_a_surrogate_pair_is_no_path(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text('save: "x\\ud800"\n')
    _, (problem,) = read_file(str(path))
    assert f"{path}:1: --save " in problem.message
    assert "character 1 is half of a surrogate pair" in problem.message
