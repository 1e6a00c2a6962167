"""WMT14: sentences in English and French with their dictionaries, from one archive."""

from __future__ import annotations

import os

import numpy as np

from bireme.io import Dataset
from bireme.io.archives import Archive, located, mode_of, refused, text_lines
from bireme.text.datasets.vocabulary import ids, reversed_dict, size_of

_URL, _MD5 = "http://paddlemodels.bj.bcebos.com/wmt/wmt14.tgz", "0791583d57d5beb693b9414c5b36798c"
_WHERE, _LONGEST, _UNKNOWN = "WMT14(data_file)", 80, 2


class WMT14(Dataset):
    """Pairs of sentences in English and French: ids of the source, of the target, and of the target shifted by one.

    Pairs of which one has more than 80 words are left out.

    Args:
        data_file: The archive ``wmt14.tgz``. Default: None, the file in ``~/.cache/bireme/dataset/wmt14``.
        mode: ``'train'``, ``'test'`` or ``'gen'``. Default: ``'train'``.
        dict_size: Number of words in each dictionary, which has to be given. Default: -1.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.

    Examples:
        >>> bireme.text.WMT14("wmt.tgz", dict_size=50)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: WMT14(data_file): expected the file wmt14.tgz, got wmt.tgz, which does not exist...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        mode: str = "train",
        dict_size: int = -1,
        download: bool = True,
    ):
        self.mode = mode_of("WMT14", mode, ("train", "test", "gen"))
        self.dict_size = size_of("WMT14(dict_size)", dict_size)
        self.data_file = located("WMT14", "data_file", data_file, _URL, _MD5, "wmt14")
        ends = ("src.dict", "trg.dict", f"{self.mode}/{self.mode}")
        self._archive = Archive(_WHERE, self.data_file, lambda name: name.endswith(ends))
        self.src_dict, self.trg_dict = self._words("src.dict"), self._words("trg.dict")
        self.src_ids: list[list[int]] = []
        self.trg_ids: list[list[int]] = []
        self.trg_ids_next: list[list[int]] = []
        for name in self._archive.names():
            if name.endswith(ends[2]):
                self._read(name)
        del self._archive

    def _words(self, end: str) -> dict[str, int]:
        names = [name for name in self._archive.names() if name.endswith(end)]
        if len(names) != 1:
            raise refused(_WHERE, self.data_file, f"{len(names)} of them", f"one file that ends in {end}")
        lines = text_lines(_WHERE, self.data_file, self._archive.read(names[0]))[: self.dict_size]
        found = {word: i for i, word in enumerate(lines)}
        if "<s>" not in found or "<e>" not in found:
            raise refused(_WHERE, self.data_file, f"only {', '.join(lines[:3])!r}", f"<s> and <e> in {end}")
        return found

    def _read(self, name: str) -> None:
        for line in text_lines(_WHERE, self.data_file, self._archive.read(name)):
            parts = line.split("\t")
            if len(parts) != 2:
                continue
            source = ids(["<s>", *parts[0].split(), "<e>"], self.src_dict, _UNKNOWN)
            target = ids(parts[1].split(), self.trg_dict, _UNKNOWN)
            if len(source) <= _LONGEST and len(target) <= _LONGEST:
                self.src_ids.append(source)
                self.trg_ids.append([self.trg_dict["<s>"], *target])
                self.trg_ids_next.append([*target, self.trg_dict["<e>"]])

    def __getitem__(self, idx: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.array(self.src_ids[idx]), np.array(self.trg_ids[idx]), np.array(self.trg_ids_next[idx])

    def __len__(self) -> int:
        return len(self.src_ids)

    def get_dict(
        self, reverse: bool = False
    ) -> tuple[dict[str, int], dict[str, int]] | tuple[dict[int, str], dict[int, str]]:
        """Return the dictionaries of both languages.

        Args:
            reverse: Return words by their ids instead of ids by their words. Default: False.

        Returns:
            Pair of the dictionaries of the source and of the target.

        Examples:
            >>> class Two(bireme.text.WMT14):
            ...     def __init__(self):
            ...         self.src_dict, self.trg_dict = {"a": 0}, {"b": 0}
            >>> Two().get_dict(reverse=True)
            ({0: 'a'}, {0: 'b'})
        """
        if reverse:
            return reversed_dict(self.src_dict), reversed_dict(self.trg_dict)
        return self.src_dict, self.trg_dict
