"""UCIHousing: prices of houses in Boston, from a table of numbers."""

from __future__ import annotations

import os

import numpy as np

from bireme.core.base.errors import FileFormatError as FileFormatError
from bireme.defaults import get_default_dtype
from bireme.io import Dataset
from bireme.io.archives import content, located, mode_of, refused, text_lines

_URL, _MD5 = "http://paddlemodels.bj.bcebos.com/uci_housing/housing.data", "d4accdce7a25600298819f8e28e8d593"
_COLUMNS, _TRAIN = 14, 0.8


class UCIHousing(Dataset):
    """Prices of 506 houses in Boston, each with 13 features, which are scaled to zero mean and a range of one.

    Args:
        data_file: The file ``housing.data``. Default: None, the file in ``~/.cache/bireme/dataset/uci_housing``.
        mode: ``'train'`` for the first 80 %, or ``'test'`` for the rest. Default: ``'train'``.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.

    Examples:
        >>> bireme.text.UCIHousing("housing.data")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: UCIHousing(data_file): expected the file housing.data, got housing.data, which does not exist...
    """

    def __init__(self, data_file: str | os.PathLike | None = None, mode: str = "train", download: bool = True):
        self.mode = mode_of("UCIHousing", mode, ("train", "test"))
        where = "UCIHousing(data_file)"
        self.data_file = located("UCIHousing", "data_file", data_file, _URL, _MD5, "uci_housing")
        try:
            lines = text_lines(where, self.data_file, content(where, self.data_file))
            numbers = np.array(" ".join(lines).split(), np.float64)
        except ValueError as e:
            if isinstance(e, FileFormatError):
                raise
            raise refused(where, self.data_file, str(e), "a table of numbers") from None
        if not numbers.size or numbers.size % _COLUMNS:
            raise refused(where, self.data_file, f"{numbers.size} numbers", f"rows of {_COLUMNS} numbers")
        rows = numbers.reshape(-1, _COLUMNS)
        features = rows[:, :-1]
        width = np.ptp(features, axis=0)
        features -= features.mean(axis=0)
        features /= np.where(width == 0, 1, width)  # a feature that is the same everywhere is zero
        cut = int(len(rows) * _TRAIN)
        self.data = rows[:cut] if self.mode == "train" else rows[cut:]
        self.dtype = get_default_dtype()

    def __getitem__(self, idx: int) -> tuple[np.ndarray, np.ndarray]:
        row = self.data[idx].astype(self.dtype)
        return row[:-1], row[-1:]

    def __len__(self) -> int:
        return len(self.data)
