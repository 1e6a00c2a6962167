"""Imdb: reviews of films with their polarity, from the archive of single files."""

from __future__ import annotations

import os
import re
import string
from collections import Counter

import numpy as np

from bireme.io import Dataset
from bireme.io.archives import Archive, located, mode_of, refused
from bireme.text.datasets.vocabulary import Word, frequent, ids

_URL, _MD5 = "https://dataset.bj.bcebos.com/imdb%2FaclImdb_v1.tar.gz", "7c2ac02c03563afcf9b574c7e56c153a"
_NAME = re.compile(r"aclImdb/(train|test)/(pos|neg)/.*\.txt")
_PUNCTUATION = string.punctuation.encode()


class Imdb(Dataset):
    """Reviews of films: the ids of the words of each, and 0 for a positive one, 1 for a negative one.

    Words are lowercase bytes without punctuation. Their ids follow how often they occur in all reviews.

    Args:
        data_file: The archive ``aclImdb_v1.tar.gz``. Default: None, the file in ``~/.cache/bireme/dataset/imdb``.
        mode: ``'train'`` or ``'test'``. Default: ``'train'``.
        cutoff: Words that occur not more often than this have no id of their own. Default: 150.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.

    Examples:
        >>> bireme.text.Imdb("reviews.tar.gz")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: Imdb(data_file): expected the file aclImdb_v1.tar.gz, got reviews.tar.gz, which does not exist...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        mode: str = "train",
        cutoff: int = 150,
        download: bool = True,
    ):
        self.mode = mode_of("Imdb", mode, ("train", "test"))
        self.data_file = located("Imdb", "data_file", data_file, _URL, _MD5, "imdb")
        archive = Archive("Imdb(data_file)", self.data_file, lambda name: _NAME.fullmatch(name) is not None)
        counts: Counter[Word] = Counter()
        texts: dict[str, list[list[bytes]]] = {"pos": [], "neg": []}
        for name in archive.names():
            found = _NAME.fullmatch(name)
            if found is None:
                continue
            words = archive.read(name).rstrip(b"\n\r").translate(None, _PUNCTUATION).lower().split()
            counts.update(words)
            if found[1] == self.mode:
                texts[found[2]].append(words)
        if not texts["pos"] and not texts["neg"]:
            raise refused("Imdb(data_file)", self.data_file, f"no review in aclImdb/{self.mode}")
        self.word_idx = frequent(counts, cutoff)
        unknown = self.word_idx["<unk>"]
        self.docs = [ids(words, self.word_idx, unknown) for kind in ("pos", "neg") for words in texts[kind]]
        self.labels = [0] * len(texts["pos"]) + [1] * len(texts["neg"])

    def __getitem__(self, idx: int) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.docs[idx], np.int64), np.array([self.labels[idx]])

    def __len__(self) -> int:
        return len(self.docs)
