"""Words that a tensor carries beside its numbers: the vocabulary and the strings of a tokenizer."""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.declare.op import Tensor


def set_vocab(self: Tensor, value: dict[str, int]) -> None:
    """Attach a vocabulary, which ``get_map_tensor`` returns; copies and pickles of the tensor carry it along.

    Args:
        value: Number of each word.

    Examples:
        >>> x = bireme.to_tensor([0])
        >>> x.set_vocab({"a": 1})
        >>> x.get_map_tensor()
        {'a': 1}
    """
    good = isinstance(value, dict) and all(isinstance(k, str) and _integer(v) for k, v in value.items())
    if not good:
        raise errors.bad("set_vocab(value)", "a dict of integers by words", value, kind=errors.ArgumentTypeError)
    self._vocab = dict(value)
    self.__dict__.pop("_strings", None)


def get_map_tensor(self: Tensor) -> dict[str, int]:
    """Return the vocabulary that ``set_vocab`` attached.

    Returns:
        A dict of integers by words.

    Raises:
        ValueError: If there is none.

    Examples:
        >>> x = bireme.to_tensor([0])
        >>> x.set_vocab({"a": 1, "b": 2})
        >>> x.get_map_tensor()["b"]
        2
    """
    found = self.__dict__.get("_vocab")
    if found is None:
        raise errors.bad("get_map_tensor()", "a tensor with a vocabulary", self, hint="set_vocab attaches one")
    return dict(found)


def set_string_list(self: Tensor, value: list[str]) -> None:
    """Attach a list of strings, as a tokenizer takes them; it replaces a vocabulary.

    Args:
        value: The strings.

    Examples:
        >>> x = bireme.to_tensor([0])
        >>> x.set_string_list(["a sentence"])
    """
    if not isinstance(value, (list, tuple)) or not all(isinstance(s, str) for s in value):
        raise errors.bad("set_string_list(value)", "a list of str", value, kind=errors.ArgumentTypeError)
    self._strings = list(value)
    self.__dict__.pop("_vocab", None)


def _integer(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


for _method in (set_vocab, get_map_tensor, set_string_list):
    setattr(Tensor, _method.__name__, _method)
