"""Packing: every sequence comes back whole, sees itself alone, and its logits are found."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slime.megatron.attention import attend, like_lengths
from slime.megatron.packing import PackingError, pack

pytestmark = pytest.mark.runtime
CPU = torch.device("cpu")
LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(LENGTHS, st.sampled_from([1, 2, 8]))
def test_sequences_targets_and_positions_are_found_again(lengths: list[tuple[int, int]], multiple: int) -> None:
    sequences, begin = [], 1
    for prompt, response in lengths:
        sequences.append(list(range(begin, begin + prompt + response)))
        begin += prompt + response
    packed = pack(sequences, [response for _, response in lengths], CPU, multiple)
    flat = packed.tokens.flatten()
    assert len(flat) % multiple == 0 and len(flat) - (begin - 1) < multiple
    expected = [token for s, (_, r) in zip(sequences, lengths, strict=True) for token in s[-r:]]
    assert packed.targets.tolist() == expected
    # Ids count upwards without gaps: the token whose logits predict t is t - 1.
    assert flat[packed.logit_rows].tolist() == [token - 1 for token in expected]
    ends = packed.sequences.cu_seqlens_q.tolist()
    parts = list(pairwise(ends))
    assert [flat[a:b].tolist() for a, b in parts][: len(sequences)] == sequences
    assert [packed.positions[0, a:b].tolist() for a, b in parts] == [list(range(b - a)) for a, b in parts]
    assert packed.sequences.max_seqlen_q == max(b - a for a, b in parts)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=20), st.sampled_from([0.0, 0.25]))
def test_groups_hold_every_sequence_once_and_little_padding(lengths: list[int], share: float) -> None:
    groups = list(like_lengths(lengths, share))
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        area = max(lengths[i] for i in group) * len(group)
        assert area - sum(lengths[i] for i in group) <= share * area


@pytest.mark.parametrize(("groups", "value_channels"), [(4, 6), (2, 6), (1, 6), (4, 9), (4, 3)])
def test_attention_equals_its_definition(groups: int, value_channels: int) -> None:
    """Softmax over the own past alone, in float64, with gradients; heads share keys, values are wider or narrower."""
    torch.manual_seed(groups * 10 + value_channels)
    lengths, heads, channels, scale = [3, 11, 1, 10], 4, 6, 0.3
    total = sum(lengths)
    shapes = ((heads, channels), (groups, channels), (groups, value_channels))
    inputs = [torch.randn(total, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    found = attend(*inputs, lengths, scale)
    query, key, value = inputs
    rows, start = [], 0
    for length in lengths:
        for token in range(start, start + length):
            for head in range(heads):
                group = head * groups // heads
                past = slice(start, token + 1)
                weights = (key[past, group] @ query[token, head] * scale).softmax(0)
                rows.append(weights @ value[past, group])
        start += length
    expected = torch.stack(rows).reshape(total, heads, value_channels)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), inputs)
    for ours, theirs in zip(torch.autograd.grad((found * direction).sum(), inputs), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("response", [0, 3])
def test_a_response_needs_a_token_before_it(response: int) -> None:
    with pytest.raises(PackingError, match="sequence 1 has 3 tokens"):
        pack([[1, 2], [1, 2, 3]], [1, response], CPU)
    with pytest.raises(PackingError, match="without sequences"):
        pack([], [], CPU)
