"""Sequences of different lengths in one rectangle.

Megatron's local attention takes a rectangle [rows, width] and a mask; packed varlen (THD) input needs Transformer
Engine. The width is the longest sequence of the micro-batch. Shorter ones share a row, first-fit by falling length,
and a mask keeps each from seeing its neighbours. So short answers cost no padding beside one long answer, and attention
stays [width, width] a row, where one concatenated row would need the square of all tokens.

Rotary embeddings depend on the distance between two tokens alone, so a sequence may start anywhere in its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PADDING_ID = 0
"""Token on unused positions; no sequence attends to it, and nothing is read from it."""


class PackingError(ValueError):
    """A sequence cannot be packed; the message has its position and its lengths."""


@dataclass(frozen=True)
class PackedBatch:
    """A micro-batch as the model takes it. T = response tokens of all sequences, in the order they were given.

    Attributes:
        tokens: int64 [rows, width].
        positions: int64 [rows, width], each sequence counts from 0.
        attention_mask: bool [1 or rows, 1, width, width]; True = the query (third axis) must not see the key (fourth).
        logit_rows: int64 [T], index into ``logits.reshape(rows * width, vocab)`` of the logits that predict the token.
        targets: int64 [T], the response tokens.
        response_lengths: of each sequence.
    """

    tokens: Tensor
    positions: Tensor
    attention_mask: Tensor
    logit_rows: Tensor
    targets: Tensor
    response_lengths: list[int]

    @property
    def fill(self) -> float:
        """Share of the rectangle that holds tokens."""
        return float((self.positions > 0).sum() + len(self.response_lengths)) / self.tokens.numel()


def assign_rows(lengths: Sequence[int], width: int) -> list[tuple[int, int]]:
    """(row, first column) of each sequence: first-fit by falling length into rows of `width`, stable for ties."""
    used: list[int] = []
    places: list[tuple[int, int]] = [(0, 0)] * len(lengths)
    shortest = min(lengths)
    open_rows: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        row = next((row for row in open_rows if used[row] + lengths[index] <= width), None)
        if row is None:
            row = len(used)
            used.append(0)
            open_rows.append(row)
        places[index] = (row, used[row])
        used[row] += lengths[index]
        if used[row] + shortest > width:
            open_rows.remove(row)
    return places


def pack(
    sequences: Sequence[Sequence[int] | Tensor], response_lengths: Sequence[int], device: torch.device
) -> PackedBatch:
    """Pack prompts with their responses.

    Args:
        sequences: token ids of each sample, prompt then response, [S_i].
        response_lengths: R_i of each, at least 1 and below S_i.

    Raises:
        PackingError: no sequences, or a response as long as its sequence (its first token would have no logits).
    """
    if not sequences:
        raise PackingError("a micro-batch without sequences cannot be packed.")
    for index, (sequence, response) in enumerate(zip(sequences, response_lengths, strict=True)):
        if not 1 <= response < len(sequence):
            raise PackingError(
                f"sequence {index} has {len(sequence)} tokens and a response of {response}; a response has at least 1 "
                "token and at least 1 prompt token before it."
            )
    lengths = [len(sequence) for sequence in sequences]
    width = max(lengths)
    places = assign_rows(lengths, width)
    rows = 1 + max(row for row, _ in places)
    tokens = torch.full((rows, width), PADDING_ID, dtype=torch.int64)
    positions = torch.zeros((rows, width), dtype=torch.int64)
    owner = torch.full((rows, width), -1, dtype=torch.int64)
    logit_rows, targets = [], []
    for index, ((row, start), sequence) in enumerate(zip(places, sequences, strict=True)):
        ids, end = torch.as_tensor(sequence, dtype=torch.int64), start + lengths[index]
        tokens[row, start:end] = ids
        positions[row, start:end] = torch.arange(lengths[index])
        owner[row, start:end] = index
        response = response_lengths[index]
        logit_rows.append(torch.arange(row * width + end - response - 1, row * width + end - 1))
        targets.append(ids[-response:])
    return PackedBatch(
        tokens=tokens.to(device),
        positions=positions.to(device),
        attention_mask=_attention_mask(owner, shared_rows=rows < len(lengths)).to(device),
        logit_rows=torch.cat(logit_rows).to(device),
        targets=torch.cat(targets).to(device),
        response_lengths=list(response_lengths),
    )


def _attention_mask(owner: Tensor, shared_rows: bool) -> Tensor:
    """Causal, and blind between sequences. With one sequence a row, causal is enough: padding comes last."""
    width = owner.shape[1]
    future = torch.ones(width, width, dtype=torch.bool).triu(1)
    if not shared_rows:
        return future[None, None]
    return (future[None] | (owner[:, :, None] != owner[:, None, :]))[:, None]
