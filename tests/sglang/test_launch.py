"""The server's command line and environment follow from the spec alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Literal

import pytest

from slime.sglang import cpu
from slime.sglang.launch import EngineSpec, server_arguments, server_command, server_environment


def test_a_cpu_server_gets_the_settings_of_a_cpu() -> None:
    arguments = server_arguments(EngineSpec("/m", device="cpu"), 20000)
    assert arguments["device"] == "cpu"
    assert arguments["attention-backend"] == "torch_native"
    assert arguments["sleep-on-idle"] is True
    assert arguments["host"] == "127.0.0.1"


def test_a_gpu_server_gets_none_of_them() -> None:
    arguments = server_arguments(EngineSpec("/m", device="cuda"), 20000)
    assert "device" not in arguments
    assert "attention-backend" not in arguments


def test_a_gpu_server_computes_in_the_trainers_precision() -> None:
    arguments = server_arguments(EngineSpec("/m", device="cuda"), 20000)
    assert arguments["dtype"] == "bfloat16"
    assert arguments["grammar-backend"] == "none"


def test_given_arguments_win_over_defaults() -> None:
    spec = EngineSpec("/m", device="cpu", arguments={"mem-fraction-static": 0.3, "disable-cuda-graph": False})
    command = server_command(spec, 20000)
    assert command[command.index("--mem-fraction-static") + 1] == "0.3"
    assert "--disable-cuda-graph" not in command


def test_switches_take_no_value_and_values_stay_one_word() -> None:
    command = server_command(EngineSpec("/with space/$HOME", device="cpu"), 20000)
    assert command[command.index("--model-path") + 1] == "/with space/$HOME"
    assert [*command, "--"][command.index("--sleep-on-idle") + 1].startswith("--")


def test_only_the_server_sees_the_stand_ins() -> None:
    spec = EngineSpec("/m", device="cpu")
    inherited = {"PYTHONPATH": "/elsewhere", "http_proxy": "http://proxy:1", "HOME": "/root"}
    environment = server_environment(spec, inherited)
    assert environment["PYTHONPATH"] == str(cpu.STAND_INS)
    assert environment["HOME"] == "/root"
    assert "http_proxy" not in environment
    assert inherited["PYTHONPATH"] == "/elsewhere"
    assert str(cpu.STAND_INS) not in sys.path


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_no_server_looks_a_name_up_on_the_hub(device: Literal["cpu", "cuda"]) -> None:
    environment = server_environment(EngineSpec("slime-tiny/hf", device=device), {"HF_HUB_OFFLINE": "0"})
    assert environment["HF_HUB_OFFLINE"] == environment["TRANSFORMERS_OFFLINE"] == "1"


def test_a_gpu_server_gets_no_stand_ins() -> None:
    environment = server_environment(EngineSpec("/m", device="cuda"), {"PYTHONPATH": "/elsewhere"})
    assert "PYTHONPATH" not in environment
    assert "SGLANG_USE_CPU_ENGINE" not in environment


@pytest.mark.parametrize("untried", ["0.5.15", "0.5.22", "0.6.0"])
def test_other_versions_are_refused_by_number(untried: str) -> None:
    with pytest.raises(cpu.UntriedVersionError, match=rf"SGLang {untried} is installed.*{cpu.TRIED_VERSIONS[0]}"):
        cpu.require_tried_version(untried)


def test_the_tried_version_is_accepted() -> None:
    assert cpu.require_tried_version("0.5.23") == "0.5.23"


@pytest.mark.runtime
def test_the_installed_version_is_one_that_was_tried() -> None:
    assert cpu.require_tried_version() in cpu.TRIED_VERSIONS


STAND_IN_BEHAVIOUR = """
import sgl_kernel, torch, torchvision, triton, triton.language as tl
from torchvision.transforms import InterpolationMode, Resize, functional

@triton.jit
def kernel(x, n: tl.constexpr):
    pass

def refused(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise SystemExit("a stand-in ran")

print(refused(lambda: kernel[(1,)](1, 2)))
print(refused(lambda: sgl_kernel.silu_and_mul_cpu(1)))
print(refused(lambda: Resize(3)))
print(refused(lambda: functional.resize(1)))
assert not hasattr(sgl_kernel, "rmsnorm"), "SGLang's own fall-backs need the name to be absent"
assert triton.cdiv(7, 2) == 4 and triton.next_power_of_2(5) == 8

table = torch.zeros(3, 5, dtype=torch.int32)
slots = torch.tensor([10, 11, 12, 13])
sgl_kernel.assign_req_to_token_pool_cpu(torch.tensor([2, 0]), table, torch.tensor([1, 0]), torch.tensor([4, 1]), slots)
assert table.tolist() == [[13, 0, 0, 0, 0], [0] * 5, [0, 10, 11, 12, 0]], table
"""


@pytest.mark.runtime
def test_stand_ins_can_be_imported_and_refuse_to_compute() -> None:
    environment = server_environment(EngineSpec("/m", device="cpu"))
    done = subprocess.run(
        [sys.executable, "-c", STAND_IN_BEHAVIOUR], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert "triton kernel kernel cannot run" in said[0]
    assert "sgl_kernel.silu_and_mul_cpu" in said[1]
    assert "torchvision" in said[2] and "torchvision" in said[3]
