"""Quantised weights against their formats' bounds, in float64, and against compressed-tensors' own code."""

from __future__ import annotations

import pytest
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from slime.weights.quantise import int4
from slime.weights.quantise.formats import Format, Fp8Format, Int4Format, QuantiseError, read_format

pytestmark = pytest.mark.runtime
SHAPES = st.tuples(st.integers(1, 150), st.integers(1, 300))
DTYPES = st.sampled_from([torch.bfloat16, torch.float32, torch.float16])
FP8_FORMATS = [
    Fp8Format(),
    Fp8Format(block=(16, 24)),
    Fp8Format(power_of_two=True),
    Fp8Format("channel"),
    Fp8Format("tensor"),
]


def weights(shape: tuple[int, int], dtype: torch.dtype, seed: int, kind: str) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(shape, generator=generator)
    if kind == "wide":  # five decades within a block: most are subnormal after scaling
        weight = weight * 10 ** (torch.rand(shape, generator=generator) * 5 - 4)
    elif kind == "one sign":
        weight = weight.abs() * 0.01 + 1
    elif kind == "zeros":
        weight = weight * (torch.rand(shape, generator=generator) < 0.05)
    return weight.to(dtype)


KINDS = st.sampled_from(["normal", "wide", "one sign", "zeros"])


def region_maximum(weight: Tensor, fmt: Fp8Format) -> Tensor:
    """max|w| of the region of each element, float64, by a loop."""
    rows, columns = {"block": fmt.block, "channel": (1, weight.shape[1]), "tensor": tuple(weight.shape)}[fmt.strategy]
    result = torch.empty_like(weight, dtype=torch.float64)
    for top in range(0, weight.shape[0], rows):
        for left in range(0, weight.shape[1], columns):
            block = (slice(top, top + rows), slice(left, left + columns))
            result[block] = weight[block].double().abs().max()
    return result


@pytest.mark.parametrize("fmt", FP8_FORMATS, ids=str)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(shape=SHAPES, dtype=DTYPES, seed=st.integers(0, 2**31), kind=KINDS)
def test_fp8_errs_by_half_a_step_at_most(
    fmt: Fp8Format, shape: tuple[int, int], dtype: torch.dtype, seed: int, kind: str
) -> None:
    weight = weights(shape, dtype, seed, kind)
    parts = fmt.quantise(weight)
    assert {name: part.dtype for name, part in parts.items()} == {
        "weight": torch.float8_e4m3fn,
        fmt.scale_name: torch.float32,
    }
    back = fmt.dequantise(parts, torch.float32).double()
    scale = (region_maximum(weight, fmt) / 448).clamp_min(1e-12 / 448) * (2 if fmt.power_of_two else 1)
    # Half a step of E4M3: 2**-4 of a normal number, 2**-10 below 2**-6. Two float32 roundings on the way add little.
    bound = torch.maximum(weight.double().abs() * 2**-4, scale * 2**-10) * (1 + 1e-5)
    assert bool(((back - weight.double()).abs() <= bound).all())


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("group", [32, 128])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(rows=st.integers(1, 40), groups=st.integers(1, 4), dtype=DTYPES, seed=st.integers(0, 2**31), kind=KINDS)
def test_int4_errs_by_half_a_scale_at_most(
    symmetric: bool, group: int, rows: int, groups: int, dtype: torch.dtype, seed: int, kind: str
) -> None:
    weight = weights((rows, groups * group), dtype, seed, kind)
    fmt = Int4Format(group, symmetric)
    parts = fmt.quantise(weight)
    assert tuple(parts) == fmt.part_names
    back = fmt.dequantise(parts, torch.float32).double()
    half = parts["weight_scale"].double().repeat_interleave(group, 1) / 2
    assert bool(((back - weight.double()).abs() <= half * (1 + 1e-5)).all())
    grouped = weight.double().view(rows, groups, group)
    spread = grouped.amax(2).clamp_min(0) - grouped.amin(2).clamp_max(0)
    exact = (grouped.abs().amax(2) / 7 if symmetric else spread / 15).clamp_min(1e-5)
    excess = parts["weight_scale"].double() / exact - 1
    assert float(excess.min()) >= 0 - 1e-6 and float(excess.max()) <= 2 * torch.finfo(dtype).eps


def test_numbers_are_packed_lowest_first() -> None:
    numbers = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 15, 9]], dtype=torch.int32)
    words = int4.pack(numbers)
    assert [word & 0xFFFFFFFF for word in words[0].tolist()] == [0xF7654321, 0x00000009]
    assert torch.equal(int4.unpack(words, 9), numbers)


@pytest.mark.parametrize(
    "fmt", [Int4Format(32), Int4Format(128), Int4Format(32, False), Fp8Format("channel"), Fp8Format("tensor")], ids=str
)
def test_compressed_tensors_reads_the_same_values(fmt: Format) -> None:
    """Its own decompression, told by the configuration that we write, of the parts that we write."""
    weight = weights((72, 256), torch.bfloat16, 3, "normal")
    parts = fmt.quantise(weight)
    config = QuantizationConfig.model_validate(fmt.config(["lm_head"]))
    scheme = config.config_groups["group_0"]
    compressor = BaseCompressor.get_value_from_registry(config.format)
    found = compressor.decompress(dict(parts), scheme)["weight"].float()
    ours = fmt.dequantise(parts, torch.float32)
    # It multiplies in the dtype of the scales: half a unit in the last place of bfloat16.
    tolerance = 2**-8 if parts["weight_scale"].dtype is torch.bfloat16 else 1e-6
    assert bool(((found - ours).abs() <= ours.abs() * tolerance).all())
    assert config.ignore == ["lm_head"]


@pytest.mark.parametrize("fmt", [*FP8_FORMATS[:2], FP8_FORMATS[3], FP8_FORMATS[4], Int4Format(128, False)], ids=str)
def test_the_configuration_says_the_format(fmt: Format) -> None:
    found = read_format(fmt.config([]))
    assert found == fmt


def test_foreign_formats_are_named() -> None:
    for config, message in (
        ({"quant_method": "gptq"}, "quant_method is 'gptq'; fp8 and compressed-tensors are read"),
        ({"quant_method": "fp8", "fmt": "e5m2"}, "fmt is 'e5m2'"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "it must be two sizes"),
        ({"quant_method": "compressed-tensors", "config_groups": {}}, "exactly one group"),
    ):
        with pytest.raises(QuantiseError, match=message):
            read_format(config)


def test_scales_that_do_not_fit_are_refused() -> None:
    fmt = Fp8Format()
    parts = fmt.quantise(torch.randn(200, 200))
    with pytest.raises(QuantiseError, match=r"scales of shape \[1, 2\]"):
        fmt.dequantise({**parts, "weight_scale_inv": parts["weight_scale_inv"][:1]}, torch.float32)
