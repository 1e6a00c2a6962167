"""Conll05st: semantic roles of the test part of CoNLL-2005, from gzip files inside of an archive."""

from __future__ import annotations

import os

import numpy as np

from bireme.io import Dataset
from bireme.io.archives import Archive, content, located, refused, text_lines, unpacked
from bireme.text.datasets.vocabulary import ids

_URL = "http://paddlemodels.bj.bcebos.com/conll05st/"
_FOLDER = "conll05st-release/test.wsj/"
_WORDS, _ROLES = f"{_FOLDER}words/test.wsj.words.gz", f"{_FOLDER}props/test.wsj.props.gz"
_FILES = {
    "data_file": ("conll05st-tests.tar.gz", "387719152ae52d60422c016e92a742fc"),
    "word_dict_file": ("wordDict.txt", "ea7fb7d4c75cc6254716f0177a506baa"),
    "verb_dict_file": ("verbDict.txt", "0d2977293bbb6cbefab5b0f97db1e77c"),
    "target_dict_file": ("targetDict.txt", "d8c7f03ceb5fc2e5a0fa7503a4353751"),
    "emb_file": ("emb", "bf436eb0faa1f6f9103017f8be57cdb7"),
}


class Conll05st(Dataset):
    """Semantic roles of sentences: one sample for each predicate of each sentence.

    A sample is nine arrays of the length of the sentence: ids of its words; of the words two before, before, at, after
    and two after the predicate, each repeated; of the predicate, repeated; 1 for these five places; and ids of the
    labels. Labels are numbered in the order of ``target_dict_file``.

    Args:
        data_file: The archive ``conll05st-tests.tar.gz``. Default: None, the file in
            ``~/.cache/bireme/dataset/conll05st``.
        word_dict_file: The file ``wordDict.txt``. Default: None, the file in the same folder.
        verb_dict_file: The file ``verbDict.txt``. Default: None, the file in the same folder.
        target_dict_file: The file ``targetDict.txt``. Default: None, the file in the same folder.
        emb_file: The file ``emb`` of word vectors, whose path ``get_embedding`` returns. Default: None, the file in the
            same folder.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.

    Examples:
        >>> bireme.text.Conll05st("roles.tar.gz")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: Conll05st(data_file): expected the file conll05st-tests.tar.gz, got roles.tar.gz, which...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        word_dict_file: str | os.PathLike | None = None,
        verb_dict_file: str | os.PathLike | None = None,
        target_dict_file: str | os.PathLike | None = None,
        emb_file: str | os.PathLike | None = None,
        download: bool = True,
    ):
        given = (data_file, word_dict_file, verb_dict_file, target_dict_file, emb_file)
        paths = [
            located("Conll05st", argument, path, _URL + name, md5, "conll05st")
            for path, (argument, (name, md5)) in zip(given, _FILES.items(), strict=True)
        ]
        self.data_file, self.word_dict_file, self.verb_dict_file, self.target_dict_file, self.emb_file = paths
        self.word_dict = self._numbered("word_dict_file", self.word_dict_file)
        self.predicate_dict = self._numbered("verb_dict_file", self.verb_dict_file)
        tags = [line[2:] for line in self._lines("target_dict_file", paths[3]) if line.startswith(("B-", "I-"))]
        kinds = [f"{side}-{tag}" for tag in dict.fromkeys(tags) for side in "BI"]
        self.label_dict = {label: i for i, label in enumerate([*kinds, "O"])}
        self.sentences: list[list[str]] = []
        self.predicates: list[str] = []
        self.labels: list[list[str]] = []
        self._read()

    def _lines(self, argument: str, path: str) -> list[str]:
        where = f"Conll05st({argument})"
        return text_lines(where, path, content(where, path))

    def _numbered(self, argument: str, path: str) -> dict[str, int]:
        return {line: i for i, line in enumerate(self._lines(argument, path))}

    def _read(self) -> None:
        where = "Conll05st(data_file)"
        archive = Archive(where, self.data_file, {_WORDS, _ROLES}.__contains__)
        words, roles = [
            text_lines(where, self.data_file, unpacked(where, self.data_file, archive.read(name)))
            for name in (_WORDS, _ROLES)
        ]
        if len(words) != len(roles):
            described = f"{len(words)} words and {len(roles)} lines of roles"
            raise refused(where, self.data_file, described, "a line of roles for each word")
        sentence: list[str] = []
        rows: list[list[str]] = []
        for word, line in zip([*words, ""], [*roles, ""], strict=True):
            row = line.split()
            if row:
                sentence.append(word)
                rows.append(row)
            elif rows:
                self._add(sentence, rows)
                sentence, rows = [], []

    def _add(self, sentence: list[str], rows: list[list[str]]) -> None:
        """The samples of a sentence: the first column has the predicates, each other one the roles of one of them."""
        where, path = "Conll05st(data_file)", self.data_file
        predicates = [row[0] for row in rows if row[0] != "-"]
        if any(len(row) != len(predicates) + 1 for row in rows):
            described = f"{' '.join(sentence)[:200]!r} with {len(predicates)} predicates"
            raise refused(where, path, described, "a column of roles for each predicate")
        for i, predicate in enumerate(predicates, 1):
            labels, inside = [], ""
            for row in rows:
                role = row[i]
                if role.startswith("(") and "*" in role:
                    tag = role[1 : role.index("*")]
                    labels.append(f"B-{tag}")
                    inside = "" if role.endswith(")") else tag
                elif role in ("*", "*)"):
                    # a bracket that closes without one that was opened is part of no role
                    labels.append(f"I-{inside}" if inside else "O")
                    inside = "" if role == "*)" else inside
                else:
                    raise refused(where, path, f"{role[:200]!r}", "roles such as (A0*, * and *)")
            self.sentences.append(sentence)
            self.predicates.append(predicate)
            self.labels.append(labels)

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        sentence, labels, predicate = self.sentences[idx], self.labels[idx], self.predicates[idx]
        where, path = "Conll05st(data_file)", self.data_file
        if "B-V" not in labels:
            raise refused(where, path, f"none for {predicate[:200]!r}", "a role (V*) for each predicate")
        if predicate not in self.predicate_dict:
            raise refused(where, path, f"{predicate[:200]!r}", "predicates that verb_dict_file has")
        for label in labels:
            if label not in self.label_dict:
                raise refused(where, path, f"{label[:200]!r}", "labels that target_dict_file has")
        n, verb = len(sentence), labels.index("B-V")
        padded = ["bos", "bos", *sentence, "eos", "eos"]
        around = ids(padded[verb : verb + 5], self.word_dict, 0)
        mark = np.zeros(n, np.int64)
        mark[max(verb - 2, 0) : verb + 3] = 1
        return (
            np.array(ids(sentence, self.word_dict, 0)),
            *[np.full(n, word) for word in around],
            np.full(n, self.predicate_dict[predicate]),
            mark,
            np.array([self.label_dict[label] for label in labels]),
        )

    def __len__(self) -> int:
        return len(self.sentences)

    def get_dict(self) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """Return the dictionaries of words, of predicates and of labels.

        Returns:
            Three dicts of ids.

        Examples:
            >>> class Three(bireme.text.Conll05st):
            ...     def __init__(self):
            ...         self.word_dict, self.predicate_dict, self.label_dict = {"a": 0}, {"be": 0}, {"O": 0}
            >>> Three().get_dict()
            ({'a': 0}, {'be': 0}, {'O': 0})
        """
        return self.word_dict, self.predicate_dict, self.label_dict

    def get_embedding(self) -> str:
        """Return the path of the file of word vectors.

        Returns:
            A path.

        Examples:
            >>> class Three(bireme.text.Conll05st):
            ...     def __init__(self):
            ...         self.emb_file = "emb"
            >>> Three().get_embedding()
            'emb'
        """
        return self.emb_file
