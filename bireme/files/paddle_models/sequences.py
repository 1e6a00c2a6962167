"""Sequences of fluid's models, which stand one after the other in one tensor, with their lengths beside it (LoD)."""

from __future__ import annotations

from bireme import tensor
from bireme.core.base.errors import FileFormatError
from bireme.core.tensor.tensor import Tensor
from bireme.ops import crf_path, gated_sequences, segment_max, segment_mean, segment_sum


def gru(
    x: Tensor, h0: Tensor | None, weight: Tensor, bias: Tensor | None, lengths: Tensor, reverse: bool, origin: bool
) -> Tensor:
    """All states of a gated recurrence over inputs `[rows, 3 * width]` that are projected already."""
    width = weight.shape[0]
    # the weight is declared as one matrix, and holds two: of the update and reset gates, and of the candidate
    flat = tensor.reshape(weight, [-1])
    gates = tensor.reshape(flat[: 2 * width * width], [width, 2 * width])
    candidate = tensor.reshape(flat[2 * width * width :], [width, width])
    if bias is not None:
        x = x + bias
    return gated_sequences(x, h0, gates, candidate, lengths, reverse, origin)


def crf_decoding(emission: Tensor, transition: Tensor, lengths: Tensor) -> Tensor:
    """The best path of tags of each sequence, `[rows, 1]`."""
    return tensor.unsqueeze(crf_path(emission, transition, lengths), 1)


_POOLS = {"AVERAGE": segment_mean, "SUM": segment_sum, "MAX": segment_max}


def pool(x: Tensor, lengths: Tensor, how: str) -> Tensor:
    """One row for each sequence."""
    if how == "LAST":
        return tensor.gather(x, tensor.cumsum(lengths) - 1)
    if how == "FIRST":
        return tensor.gather(x, tensor.cumsum(lengths) - lengths)
    if how not in _POOLS:
        raise FileFormatError(f"pooling of sequences by {how[:30]!r}")
    which = tensor.repeat_interleave(tensor.arange(lengths.shape[0]), lengths, 0)
    return _POOLS[how](x, which)
