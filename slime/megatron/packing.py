"""Sequences of different lengths behind each other in one row, as packed attention takes them.

No token is padding, but for what parallelism asks: sequence parallelism cuts the row in equal parts, and context
parallelism cuts each sequence in two parts a rank, or the row in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from megatron.core.packed_seq_params import PackedSeqParams
from torch import Tensor, nn

from slime.megatron.context_parallel import Stream
from slime.megatron.rotary import one_row

PADDING_ID = 0
"""Token on unused positions; no sequence attends to it, and nothing is read from it."""


class PackingError(ValueError):
    """A sequence cannot be packed; the message has its position and its lengths."""


@dataclass(frozen=True)
class Ahead:
    """What an MTP layer sees and predicts: from the states at token t and token t + 1, token t + 2.

    Attributes:
        tokens: int64 [1, width], the token after each of the row's; `PADDING_ID` behind the last of a sequence.
        rows: int64 [N], rows whose output predicts a response token.
        targets: int64 [N], those tokens.
        places: int64 [N], which of all T response tokens they are: not the first behind a prompt of one token, and with
            context parallelism those of this rank.
    """

    tokens: Tensor
    rows: Tensor
    targets: Tensor
    places: Tensor

    def to(self, device: torch.device) -> Ahead:
        """The same on `device`."""
        return Ahead(*(part.to(device) for part in (self.tokens, self.rows, self.targets, self.places)))


@dataclass(frozen=True)
class PackedBatch:
    """A micro-batch as the model takes it. T = response tokens of all sequences, in the order they were given.

    Attributes:
        tokens: int64 [1, width], the sequences behind each other.
        positions: int64 [1, width], each sequence counts from 0.
        sequences: ends of the sequences, for attention and rotary embedding; ``ahead`` is for MTP layers, see `Ahead`.
        logit_rows: int64 [T], index into ``logits.reshape(width, vocab)`` of the logits that predict the token.
        targets: int64 [T], the response tokens.
        response_lengths: of each sequence.
        places: with context parallelism `tokens`, `positions`, `logit_rows` and `targets` are this rank's part, and
            `places` says which of all T response tokens its targets are; None = all, in order.
    """

    tokens: Tensor
    positions: Tensor
    sequences: PackedSeqParams
    logit_rows: Tensor
    targets: Tensor
    response_lengths: list[int]
    places: Tensor | None = None

    def take_logits_ahead(self) -> tuple[Tensor, Ahead] | None:
        """What the MTP layer of the last forward pass left; None when it has none. A second call has nothing."""
        logits = vars(self.sequences).pop("logits_ahead", None)
        return None if logits is None else (logits, self.sequences.ahead)


def pack(
    sequences: Sequence[Sequence[int] | Tensor],
    response_lengths: Sequence[int],
    device: torch.device,
    row_multiple: int = 1,
    context: tuple[int, int] = (0, 1),
    mtp: bool = False,
    contiguous: bool = False,
) -> PackedBatch:
    """Pack prompts with their responses.

    Args:
        sequences: token ids of each sample, prompt then response, [S_i].
        response_lengths: R_i of each, at least 1 and below S_i.
        row_multiple: the row's width is filled up to a multiple of this, with a sequence of padding at its end.
        context: rank and size of context parallelism; each sequence is filled up to a multiple of twice the size.
        mtp: the model has an MTP layer, which needs the tokens ahead.
        contiguous: each rank has one part of the row; then the row alone is filled up, to a multiple of the size.

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
    rank, size = context
    ids = [torch.as_tensor(sequence, dtype=torch.int64) for sequence in sequences]
    cuts = size if size == 1 or contiguous else 2 * size
    lengths = [len(one) + (0 if contiguous else -len(one) % cuts) for one in ids]
    surplus = -sum(lengths) % (cuts * row_multiple)
    if surplus:
        lengths.append(surplus)
    row = torch.full((sum(lengths),), PADDING_ID, dtype=torch.int64)
    rows, start = [], 0
    for one, response, length in zip(ids, response_lengths, lengths, strict=False):
        row[start : start + len(one)] = one
        rows.append(torch.arange(start + len(one) - response - 1, start + len(one) - 1))
        start += length
    positions = torch.cat([torch.arange(length) for length in lengths])
    logit_rows = torch.cat(rows)
    targets = torch.cat([one[-n:] for one, n in zip(ids, response_lengths, strict=True)])
    ends = sequence_ends(lengths, device)
    ends.contiguous = contiguous
    own = Stream(tuple(lengths), contiguous).rows(rank, size)
    if mtp:
        ends.ahead = _ahead(row, positions, logit_rows, targets, own).to(device)
    places = None
    if size > 1:
        where = _places(own, len(row))
        row, positions, local = row[own], positions[own], where[logit_rows]
        places = (local >= 0).nonzero()[:, 0]
        logit_rows, targets = local[places], targets[places]
    ends.positions = positions.to(device)  # see `slime.megatron.rotary`
    ends.cu_seqlens_q_padded = ends.cu_seqlens_kv_padded = one_row(len(row), device)
    return PackedBatch(
        tokens=row[None].to(device),
        positions=positions[None].to(device),
        sequences=ends,
        logit_rows=logit_rows.to(device),
        targets=targets.to(device),
        response_lengths=list(response_lengths),
        places=None if places is None else places.to(device),
    )


def _places(own: Tensor, count: int) -> Tensor:
    """int64 [count]: where each row of the stream stands among this rank's rows `own`; -1 = on another rank."""
    where = torch.full((count,), -1, dtype=torch.int64)
    where[own] = torch.arange(len(own))
    return where


def _ahead(row: Tensor, positions: Tensor, logit_rows: Tensor, targets: Tensor, own: Tensor) -> Ahead:
    """From the whole stream; the MTP layer predicts from one row before `logit_rows`, if it is of the same sequence."""
    following = row.roll(-1).where(positions.roll(-1) > 0, PADDING_ID)
    rows = _places(own, len(row))[logit_rows - 1].where(positions[logit_rows] > 0, -1)
    places = (rows >= 0).nonzero()[:, 0]
    return Ahead(following[own][None], rows[places], targets[places], places)


def run_model(model: nn.Module, batch: PackedBatch) -> Tensor:
    """Logits [1, width, vocabulary] of a packed batch; a pipeline stage before the last returns its activations."""
    logits: Tensor = model(batch.tokens, batch.positions, None, packed_seq_params=batch.sequences)
    return logits


def sequence_ends(lengths: Sequence[int], device: torch.device) -> PackedSeqParams:
    """Megatron's description of packed sequences of these lengths."""
    ends = torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)
    longest = max(lengths)
    packed = PackedSeqParams(
        qkv_format="thd", cu_seqlens_q=ends, cu_seqlens_kv=ends, max_seqlen_q=longest, max_seqlen_kv=longest
    )
    packed.lengths = list(lengths)  # see `slime.megatron.attention.sequence_lengths`
    return packed
