"""Signals and their spectra over time: a list of names."""

from bireme.ops import (  # written by `make api`
    frame, istft, overlap_add, stft,
)  # fmt: skip

__all__: list[str] = []
__all__ += [  # written by `make api`
    "frame", "istft", "overlap_add", "stft",
]  # fmt: skip
