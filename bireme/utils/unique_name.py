"""Automatic names of layers and parameters: `linear_0`, `linear_0.w_0`. Checkpoints of optimizers refer to them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from bireme.core.base import errors

__all__ = ["generate", "generate_with_ignorable_key", "switch", "guard"]


class Generator:
    """Counts names per key, with a common prefix."""

    def __init__(self, prefix: str = ""):
        self.prefix = prefix
        self._counts: dict[str, itertools.count] = {}

    def __call__(self, key: str) -> str:
        # setdefault and next are single steps for the interpreter, so two threads never get the same name
        return f"{self.prefix}{key}_{next(self._counts.setdefault(key, itertools.count()))}"


class Taken:
    """Names that are in use: two parameters of the same name would share one entry in an optimizer's state."""

    def __init__(self) -> None:
        self._name_set: set[str] = set()

    def add(self, name: str, where: str) -> None:
        if name in self._name_set:
            hint = "leave the name out, or build the model inside unique_name.guard()"
            raise errors.bad(where, "a unique parameter name", name, hint=hint)
        self._name_set.add(name)


class _Current:
    generator = Generator()
    taken = Taken()


def generate(key: str) -> str:
    """Return a name that was not returned before: a key and a number.

    Args:
        key: The first part of the name.

    Returns:
        A str.

    Examples:
        >>> with bireme.utils.unique_name.guard():
        ...     [bireme.utils.unique_name.generate("fc"), bireme.utils.unique_name.generate("fc")]
        ['fc_0', 'fc_1']
    """
    if not isinstance(key, str):
        raise errors.bad("generate(key)", "a str", key, kind=errors.ArgumentTypeError)
    return _Current.generator(key)


def generate_with_ignorable_key(key: str) -> str:
    """Return a name for a temporary object, which does not contain the key.

    Args:
        key: Has no effect on the name.

    Returns:
        A str.

    Examples:
        >>> with bireme.utils.unique_name.guard():
        ...     bireme.utils.unique_name.generate_with_ignorable_key("fc")
        'dygraph_tmp_0'
    """
    if not isinstance(key, str):
        raise errors.bad("generate_with_ignorable_key(key)", "a str", key, kind=errors.ArgumentTypeError)
    return generate("dygraph_tmp")


def claim(name: str, where: str) -> str:
    """Reserve the name of a parameter; an error if another parameter has it."""
    _Current.taken.add(name, where)
    return name


def switch(
    new_generator: Generator | None = None, new_para_name_checker: Taken | None = None
) -> tuple[Generator, Taken]:
    """Replace the generator of names.

    Args:
        new_generator: A generator that an earlier call returned. Default: None, a new one that counts from 0.
        new_para_name_checker: The names in use that an earlier call returned. Default: None, none.

    Returns:
        The tuple of the generator and the names in use before.

    Examples:
        >>> old = bireme.utils.unique_name.switch()
        >>> bireme.utils.unique_name.generate("fc")
        'fc_0'
        >>> _ = bireme.utils.unique_name.switch(*old)
    """
    old = _Current.generator, _Current.taken
    _Current.generator = Generator() if new_generator is None else new_generator
    _Current.taken = Taken() if new_para_name_checker is None else new_para_name_checker
    return old


@contextlib.contextmanager
def guard(new_generator: Generator | str | bytes | None = None) -> Iterator[None]:
    """Context manager inside which names are counted from 0.

    Build a model inside it to get the same parameter names each time, which optimizer checkpoints refer to.

    Args:
        new_generator: Prefix of all names, or a generator that ``switch`` returned. Default: None, no prefix.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.utils.unique_name.guard("left_"):
        ...     bireme.utils.unique_name.generate("fc")
        'left_fc_0'
    """
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = Generator(new_generator)
    elif new_generator is not None and not isinstance(new_generator, Generator):
        raise errors.bad(
            "guard(new_generator)", "a str or what switch() returned", new_generator, kind=errors.ArgumentTypeError
        )
    old = switch(new_generator)
    try:
        yield
    finally:
        switch(*old)
