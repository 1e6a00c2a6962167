"""WMT16: sentences in English and German, whose dictionaries are counted from the training part."""

from __future__ import annotations

import os
from collections import Counter

import numpy as np

from bireme.core.base import errors
from bireme.io import Dataset
from bireme.io.archives import Archive, located, mode_of, text_lines
from bireme.text.datasets.vocabulary import ids, reversed_dict, size_of

_URL, _MD5 = "http://paddlemodels.bj.bcebos.com/wmt/wmt16.tar.gz", "0c38be43600334966403524a40dcd81e"
_WHERE, _MARKS, _LANGUAGES = "WMT16(data_file)", ("<s>", "<e>", "<unk>"), ("en", "de")


class WMT16(Dataset):
    """Pairs of sentences in English and German: ids of the source, of the target, and of the target shifted by one.

    Each language has a dictionary of its own most frequent words, after the marks ``<s>``, ``<e>`` and ``<unk>``.

    Args:
        data_file: The archive ``wmt16.tar.gz``. Default: None, the file in ``~/.cache/bireme/dataset/wmt16``.
        mode: ``'train'``, ``'val'`` or ``'test'``. Default: ``'train'``.
        src_dict_size: Number of words in the dictionary of the source, which has to be given. Default: -1.
        trg_dict_size: Number of words in the dictionary of the target, which has to be given. Default: -1.
        lang: Language of the source, ``'en'`` or ``'de'``; the target is the other one. Default: ``'en'``.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.

    Examples:
        >>> bireme.text.WMT16("wmt.tgz", src_dict_size=50, trg_dict_size=50)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: WMT16(data_file): expected the file wmt16.tar.gz, got wmt.tgz, which does not exist...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        mode: str = "train",
        src_dict_size: int = -1,
        trg_dict_size: int = -1,
        lang: str = "en",
        download: bool = True,
    ):
        self.mode = mode_of("WMT16", mode, ("train", "val", "test"))
        if lang not in _LANGUAGES:
            raise errors.bad("WMT16(lang)", "'en' or 'de'", lang)
        self.lang = lang
        self.src_dict_size = size_of("WMT16(src_dict_size)", src_dict_size)
        self.trg_dict_size = size_of("WMT16(trg_dict_size)", trg_dict_size)
        self.data_file = located("WMT16", "data_file", data_file, _URL, _MD5, "wmt16")
        wanted = {"wmt16/train", f"wmt16/{self.mode}"}
        archive = Archive(_WHERE, self.data_file, wanted.__contains__)
        parts = {name: self._pairs(archive.read(name)) for name in wanted}
        train, source = parts["wmt16/train"], _LANGUAGES.index(lang)
        self.src_dict = _dictionary([pair[source] for pair in train], self.src_dict_size)
        self.trg_dict = _dictionary([pair[1 - source] for pair in train], self.trg_dict_size)
        self.src_ids: list[list[int]] = []
        self.trg_ids: list[list[int]] = []
        self.trg_ids_next: list[list[int]] = []
        for pair in parts[f"wmt16/{self.mode}"]:
            target = ids(pair[1 - source], self.trg_dict, 2)
            self.src_ids.append([0, *ids(pair[source], self.src_dict, 2), 1])
            self.trg_ids.append([0, *target])
            self.trg_ids_next.append([*target, 1])

    def _pairs(self, data: bytes) -> list[list[list[str]]]:
        lines = [line.split("\t") for line in text_lines(_WHERE, self.data_file, data)]
        return [[part.split() for part in line] for line in lines if len(line) == 2]

    def __getitem__(self, idx: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.array(self.src_ids[idx]), np.array(self.trg_ids[idx]), np.array(self.trg_ids_next[idx])

    def __len__(self) -> int:
        return len(self.src_ids)

    def get_dict(self, lang: str, reverse: bool = False) -> dict[str, int] | dict[int, str]:
        """Return the dictionary of a language.

        Args:
            lang: ``'en'`` or ``'de'``.
            reverse: Return words by their ids instead of ids by their words. Default: False.

        Returns:
            The dictionary.

        Examples:
            >>> class Two(bireme.text.WMT16):
            ...     def __init__(self):
            ...         self.lang, self.src_dict, self.trg_dict = "en", {"a": 3}, {"b": 3}
            >>> Two().get_dict("de"), Two().get_dict("en", reverse=True)
            ({'b': 3}, {3: 'a'})
        """
        if lang not in _LANGUAGES:
            raise errors.bad("get_dict(lang)", "'en' or 'de'", lang)
        found = self.src_dict if lang == self.lang else self.trg_dict
        return reversed_dict(found) if reverse else found


def _dictionary(sentences: list[list[str]], size: int) -> dict[str, int]:
    counts = Counter(word for words in sentences for word in words)
    words = [word for word, _ in counts.most_common() if word not in _MARKS]
    return {word: i for i, word in enumerate([*_MARKS, *words][: max(size, len(_MARKS))])}
