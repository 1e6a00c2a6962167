"""Imikolov: the Penn Treebank as Mikolov prepared it, in n-grams or sentences."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable

import numpy as np

from bireme.core.base import errors
from bireme.io import Dataset
from bireme.io.archives import Archive, located, mode_of
from bireme.text.datasets.vocabulary import Word, frequent, ids

_URL = "https://dataset.bj.bcebos.com/imikolov%2Fsimple-examples.tgz"
_MD5 = "30177ea32e27c525793142b6bf2c8e2d"
_FILE = "simple-examples/data/ptb.{}.txt"


class Imikolov(Dataset):
    """The Penn Treebank: n-grams of word ids, or sentences with the same shifted by one.

    Args:
        data_file: The archive ``simple-examples.tgz``. Default: None, the file in
            ``~/.cache/bireme/dataset/imikolov``.
        data_type: ``'NGRAM'`` for all runs of ``window_size`` words, or ``'SEQ'`` for pairs of a sentence with a mark at
            its start and one with a mark at its end. Default: ``'NGRAM'``.
        window_size: Words of an n-gram; sentences longer than this are left out where it is positive. Default: -1,
            which n-grams do not take.
        mode: ``'train'`` or ``'test'``. Default: ``'train'``.
        min_word_freq: Words that occur not more often than this have no id of their own. Default: 50.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.

    Examples:
        >>> bireme.text.Imikolov("ptb.tgz", window_size=5)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: Imikolov(data_file): expected the file simple-examples.tgz, got ptb.tgz, which does not exist...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        data_type: str = "NGRAM",
        window_size: int = -1,
        mode: str = "train",
        min_word_freq: int = 50,
        download: bool = True,
    ):
        self.mode = mode_of("Imikolov", mode, ("train", "test"))
        if not isinstance(data_type, str) or data_type.upper() not in ("NGRAM", "SEQ"):
            raise errors.bad("Imikolov(data_type)", "'NGRAM' or 'SEQ'", data_type)
        self.data_type, self.window_size, self.min_word_freq = data_type.upper(), window_size, min_word_freq
        errors.check_integer("Imikolov(window_size)", window_size)
        if self.data_type == "NGRAM" and window_size < 1:
            raise errors.bad("Imikolov(window_size)", "a positive number of words for 'NGRAM'", window_size)
        self.data_file = located("Imikolov", "data_file", data_file, _URL, _MD5, "imikolov")
        wanted = {_FILE.format(part) for part in ("train", "valid", self.mode)}
        archive = Archive("Imikolov(data_file)", self.data_file, wanted.__contains__)
        parts = {name: archive.read(name).splitlines() for name in wanted}
        counts = self.word_count(parts[_FILE.format("valid")], self.word_count(parts[_FILE.format("train")]))
        # the files' own b"<unk>" keeps an id beside that of rare words, as in Paddle
        self.word_idx = frequent(counts, min_word_freq)
        self.data = [sample for line in parts[_FILE.format(self.mode)] for sample in self._samples(line.split())]

    def word_count(self, f: Iterable[bytes], word_freq: Counter[Word] | dict[Word, int] | None = None) -> Counter[Word]:
        """Count the words of lines, and one ``'<s>'`` and ``'<e>'`` for each.

        Args:
            f: The lines, in bytes.
            word_freq: Counts that are added to. Default: None, new ones.

        Returns:
            The counts.

        Examples:
            >>> count = bireme.text.Imikolov.word_count(None, [b"a b a"])
            >>> count[b"a"], count["<s>"]
            (2, 1)
        """
        counts: Counter[Word] = Counter() if word_freq is None else Counter(word_freq)
        for line in f:
            counts.update(line.split())
            counts.update(("<s>", "<e>"))
        return counts

    def _samples(self, words: list[bytes]) -> list[tuple]:
        unknown, n = self.word_idx["<unk>"], self.window_size
        if self.data_type == "NGRAM":
            marked = ids(["<s>", *words, "<e>"], self.word_idx, unknown)
            return [tuple(marked[i : i + n]) for i in range(len(marked) - n + 1)]
        inner = ids(words, self.word_idx, unknown)
        if 0 < n <= len(inner):
            return []
        start, end = ids(["<s>", "<e>"], self.word_idx, unknown)
        return [([start, *inner], [*inner, end])]

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        return tuple([np.array(part) for part in self.data[idx]])

    def __len__(self) -> int:
        return len(self.data)
