"""Packing: every sequence comes back whole, sees itself alone, and its logits are found."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from slime.megatron.packing import PackingError, assign_rows, pack

pytestmark = pytest.mark.runtime
CPU = torch.device("cpu")
LENGTHS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(LENGTHS)
def test_sequences_and_targets_are_found_again(lengths: list[tuple[int, int]]) -> None:
    sequences, begin = [], 1
    for prompt, response in lengths:
        sequences.append(list(range(begin, begin + prompt + response)))
        begin += prompt + response
    packed = pack(sequences, [response for _, response in lengths], CPU)
    flat = packed.tokens.flatten()
    expected = [token for s, (_, r) in zip(sequences, lengths, strict=True) for token in s[-r:]]
    assert packed.targets.tolist() == expected
    # Ids count upwards without gaps: the token whose logits predict t is t - 1, in the same row.
    assert flat[packed.logit_rows].tolist() == [token - 1 for token in expected]
    assert sorted(flat[flat > 0].tolist()) == list(range(1, begin))


@settings(max_examples=150, deadline=None)
@given(LENGTHS)
def test_a_token_sees_its_own_past_alone(lengths: list[tuple[int, int]]) -> None:
    owner_of: dict[int, int] = {}
    sequences = []
    for index, (prompt, response) in enumerate(lengths):
        ids = range(len(owner_of) + 1, len(owner_of) + 1 + prompt + response)
        owner_of.update(dict.fromkeys(ids, index))
        sequences.append(list(ids))
    packed = pack(sequences, [response for _, response in lengths], CPU)
    rows, width = packed.tokens.shape
    hidden = packed.attention_mask.expand(rows, 1, width, width)
    for row in range(rows):
        for query in range(width):
            token = int(packed.tokens[row, query])
            if token == 0:
                continue
            seen = packed.tokens[row][~hidden[row, 0, query]].tolist()
            assert seen == [t for t in sequences[owner_of[token]] if t <= token]
            assert int(packed.positions[row, query]) == sequences[owner_of[token]].index(token)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=30))
def test_rows_do_not_overlap_and_waste_less_than_half(lengths: list[int]) -> None:
    width = max(lengths)
    places = assign_rows(lengths, width)
    taken = set()
    for (row, start), length in zip(places, lengths, strict=True):
        cells = {(row, column) for column in range(start, start + length)}
        assert start + length <= width and not cells & taken
        taken |= cells
    rows = 1 + max(row for row, _ in places)
    # First-fit: at most one row is at most half full.
    fill = [sum(1 for row, _ in taken if row == one) for one in range(rows)]
    assert sum(2 * count <= width for count in fill) <= 1


def test_equal_lengths_share_one_causal_mask() -> None:
    packed = pack([[1, 2, 3], [4, 5, 6]], [1, 2], CPU)
    assert packed.attention_mask.shape == (1, 1, 3, 3)
    assert packed.fill == 1.0


@pytest.mark.parametrize("response", [0, 3])
def test_a_response_needs_a_token_before_it(response: int) -> None:
    with pytest.raises(PackingError, match="sequence 1 has 3 tokens"):
        pack([[1, 2], [1, 2, 3]], [1, response], CPU)
    with pytest.raises(PackingError, match="without sequences"):
        pack([], [], CPU)
