"""Movielens: a million ratings of films, from a zip archive of three tables."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.io import Dataset
from bireme.io.archives import ZipArchive, located, mode_of, refused, text_lines

_URL, _MD5 = "https://dataset.bj.bcebos.com/movielens%2Fml-1m.zip", "c4d9eecfca2ab87c1945afe126590906"
_WHERE = "Movielens(data_file)"
_AGES = [1, 18, 25, 35, 45, 50, 56]
_TITLE = re.compile(r"(.*)\(\d+\)")


class MovieInfo:
    """A film of ``Movielens``.

    Args:
        index: Its id.
        categories: Names of its categories.
        title: Its title, without the year.

    Examples:
        >>> bireme.text.datasets.movielens.MovieInfo("3", ["Comedy"], "Toy Story ").value({"Comedy": 0}, {"toy": 1, "story": 2})
        [[3], [0], [1, 2]]
    """

    def __init__(self, index: str | int, categories: list[str], title: str):
        self.index, self.categories, self.title = int(index), categories, title

    def value(self, categories_dict: dict[str, int], movie_title_dict: dict[str, int]) -> list[list[int]]:
        """Return its numbers: the id, those of its categories, those of the words of its title.

        Args:
            categories_dict: Number of each category.
            movie_title_dict: Number of each word, in lower case.

        Returns:
            Three lists.

        Examples:
            >>> bireme.text.datasets.movielens.MovieInfo(1, [], "").value({}, {})
            [[1], [], []]
        """
        words = [movie_title_dict[word.lower()] for word in self.title.split()]
        return [[self.index], [categories_dict[c] for c in self.categories], words]

    def __repr__(self) -> str:
        return f"<MovieInfo id({self.index}), title({self.title}), categories({self.categories})>"


class UserInfo:
    """A user of ``Movielens``.

    Args:
        index: Id of the user.
        gender: ``'M'`` or ``'F'``.
        age: Lower end of the age group.
        job_id: Number of the occupation.

    Examples:
        >>> bireme.text.datasets.movielens.UserInfo("7", "F", "25", "4").value()
        [[7], [1], [2], [4]]
    """

    def __init__(self, index: str | int, gender: str, age: str | int, job_id: str | int):
        self.index, self.is_male, self.job_id = int(index), gender == "M", int(job_id)
        self.age = _AGES.index(int(age))

    def value(self) -> list[list[int]]:
        """Return the user's numbers: id, gender, age group, occupation.

        Returns:
            Four lists of one number.

        Examples:
            >>> bireme.text.datasets.movielens.UserInfo("7", "M", "1", "4").value()
            [[7], [0], [0], [4]]
        """
        return [[self.index], [0 if self.is_male else 1], [self.age], [self.job_id]]

    def __repr__(self) -> str:
        gender = "M" if self.is_male else "F"
        return f"<UserInfo id({self.index}), gender({gender}), age({_AGES[self.age]}), job({self.job_id})>"


class Movielens(Dataset):
    """A million ratings of films: user, gender, age group, occupation, film, categories, words of the title, rating.

    Ratings 1 to 5 are scaled to -3 to 5. Words and categories have numbers in alphabetical order, so they are the same
    in every process.

    Args:
        data_file: The archive ``ml-1m.zip``. Default: None, the file in ``~/.cache/bireme/dataset/sentiment``.
        mode: ``'train'`` or ``'test'``. Default: ``'train'``.
        test_ratio: Share of the ratings that are drawn for ``'test'``. Default: 0.1.
        rand_seed: Seed of that draw; NumPy's global state is left alone. Default: 0.
        download: Without effect: nothing is downloaded, and an error names the missing file. Default: True.

    Examples:
        >>> bireme.text.Movielens("ratings.zip")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        bireme.errors.ArgumentError: Movielens(data_file): expected the file ml-1m.zip, got ratings.zip, which does not exist...
    """

    def __init__(
        self,
        data_file: str | os.PathLike | None = None,
        mode: str = "train",
        test_ratio: float = 0.1,
        rand_seed: int = 0,
        download: bool = True,
    ):
        self.mode = mode_of("Movielens", mode, ("train", "test"))
        errors.check_number("Movielens(test_ratio)", test_ratio)
        if not 0 <= test_ratio <= 1:
            raise errors.bad("Movielens(test_ratio)", "a share in [0, 1]", test_ratio)
        errors.check_integer("Movielens(rand_seed)", rand_seed)
        self.data_file = located("Movielens", "data_file", data_file, _URL, _MD5, "sentiment")
        self.test_ratio, self.rand_seed = test_ratio, rand_seed
        self._archive = ZipArchive(_WHERE, self.data_file)
        self.movie_info, self.user_info = self._movies(), self._users()
        films = self.movie_info.values()
        self.movie_title_dict = _numbered(word.lower() for m in films for word in m.title.split())
        self.categories_dict = _numbered(c for m in films for c in m.categories)
        self.data = self._ratings()

    def _rows(self, name: str, columns: int) -> list[list[str]]:
        lines = text_lines(_WHERE, self.data_file, self._archive.read(f"ml-1m/{name}"), "latin-1")
        rows = [line.split("::") for line in lines]
        for row in rows:
            if len(row) != columns:
                raise self._damaged(name, row)
        return rows

    def _damaged(self, name: str, row: list[str]) -> Exception:
        return refused(_WHERE, self.data_file, f"{'::'.join(row)[:200]!r}", f"rows of ratings in {name}")

    def _movies(self) -> dict[int, MovieInfo]:
        found = {}
        for row in self._rows("movies.dat", 3):
            title = _TITLE.fullmatch(row[1])
            if title is None or not row[0].isdigit():
                raise self._damaged("movies.dat", row)
            found[int(row[0])] = MovieInfo(row[0], row[2].split("|"), title[1])
        return found

    def _users(self) -> dict[int, UserInfo]:
        found = {}
        for row in self._rows("users.dat", 5):
            try:
                found[int(row[0])] = UserInfo(*row[:4])
            except ValueError:
                raise self._damaged("users.dat", row) from None
        return found

    def _ratings(self) -> list[list[Any]]:
        rows = self._rows("ratings.dat", 4)
        drawn = np.random.RandomState(self.rand_seed).random_sample(len(rows)) < self.test_ratio
        found = []
        for row, tested in zip(rows, drawn.tolist(), strict=True):
            if tested != (self.mode == "test"):
                continue
            try:
                user, film = self.user_info[int(row[0])], self.movie_info[int(row[1])]
                rating = float(row[2]) * 2 - 5.0
            except (KeyError, ValueError):
                raise self._damaged("ratings.dat", row) from None
            found.append([*user.value(), *film.value(self.categories_dict, self.movie_title_dict), [rating]])
        return found

    def __getitem__(self, idx: int) -> tuple[np.ndarray, ...]:
        return tuple([np.array(part) for part in self.data[idx]])

    def __len__(self) -> int:
        return len(self.data)


def _numbered(words: Any) -> dict[str, int]:
    return {word: i for i, word in enumerate(sorted(set(words)))}
