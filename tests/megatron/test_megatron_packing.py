"""Packing: every sequence comes back whole, sees itself alone, and its logits are found."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slime.megatron.attention import attend, attend_runs, like_lengths
from slime.megatron.context_parallel import Stream
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
    query, key, value = inputs
    found = attend(query, key, value, lengths, scale)
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


@settings(max_examples=100, deadline=None)
@given(LENGTHS, st.sampled_from([2, 3, 4]), st.booleans(), st.sampled_from([1, 2]))
def test_context_parallel_ranks_have_every_token_once(
    lengths: list[tuple[int, int]], size: int, contiguous: bool, multiple: int
) -> None:
    """Together they have the row; each has as much, and its targets are those that its logits predict."""
    sequences, begin = [], 1
    for prompt, response in lengths:
        sequences.append(list(range(begin, begin + prompt + response)))
        begin += prompt + response
    parts = [
        pack(sequences, [r for _, r in lengths], CPU, multiple, (rank, size), False, contiguous) for rank in range(size)
    ]
    stream = Stream(tuple(parts[0].sequences.lengths), contiguous)
    assert torch.cat([stream.rows(rank, size) for rank in range(size)]).sort().values.tolist() == list(
        range(sum(stream.lengths))
    )
    assert len({one.tokens.shape[1] for one in parts}) == 1 and parts[0].tokens.shape[1] % multiple == 0
    padding = sum(stream.lengths) - (begin - 1)
    assert not contiguous or padding < size * multiple, "sequences need no padding of their own"
    places = torch.cat([one.places for one in parts])
    assert places.sort().values.tolist() == list(range(sum(r for _, r in lengths)))
    for one in parts:
        assert (one.tokens.flatten()[one.logit_rows] + 1).tolist() == one.targets.tolist()
        known = one.tokens[0] > 0
        first = torch.tensor([sequence[0] for sequence in sequences for _ in sequence])
        assert (one.positions[0][known] == one.tokens[0][known] - first[one.tokens[0][known] - 1]).all()


@pytest.mark.parametrize("contiguous", [False, True])
def test_ranks_attend_as_one_does(contiguous: bool) -> None:
    torch.manual_seed(0)
    lengths = [8, 16, 4, 12]
    query, key, value = (torch.randn(40, heads, 6, dtype=torch.float64) for heads in (4, 2, 2))
    whole, stream = attend(query, key, value, lengths, 0.3), Stream(tuple(lengths), contiguous)
    for rank in range(2):
        own = attend_runs(query[stream.rows(rank, 2)], key, value, stream.runs(rank, 2), 0.3)
        torch.testing.assert_close(own, whole[stream.rows(rank, 2)], rtol=0, atol=1e-12)
