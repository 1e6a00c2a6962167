"""Signals and their spectra over time: a list of names."""

from bireme import ops
from bireme.ops import (  # written by `make api`
    istft, stft,
)  # fmt: skip

frame, overlap_add = ops.frame, ops.overlap_add  # not on Paddle's list, but there

__all__: list[str] = []
__all__ += [  # written by `make api`
    "istft", "stft",
]  # fmt: skip
