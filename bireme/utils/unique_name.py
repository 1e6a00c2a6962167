"""Automatic names of layers and parameters: `linear_0`, `linear_0.w_0`. Checkpoints of optimizers refer to them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator

from bireme.core.base import errors

__all__ = ["generate", "generate_with_ignorable_key", "switch", "guard"]


class Generator:
    """Counts per key, behind a common prefix."""

    def __init__(self, prefix: str = ""):
        self.prefix = prefix
        self._counts: dict[str, itertools.count] = {}

    def __call__(self, key: str) -> str:
        # setdefault and next are single steps for the interpreter, so two threads never get the same name
        return f"{self.prefix}{key}_{next(self._counts.setdefault(key, itertools.count()))}"


class Taken:
    """Names that parameters already have: two of the same name would share one entry in an optimizer's state."""

    def __init__(self) -> None:
        self._name_set: set[str] = set()

    def add(self, name: str, where: str) -> None:
        if name in self._name_set:
            hint = "leave the name out, or build the model inside unique_name.guard()"
            raise errors.bad(where, "a name that no other parameter has", name, hint)
        self._name_set.add(name)


class _Current:
    generator = Generator()
    taken = Taken()


def generate(key: str) -> str:
    """A name not given before: `key` and a number that counts up.

    >>> with bireme.utils.unique_name.guard():
    ...     [bireme.utils.unique_name.generate("fc"), bireme.utils.unique_name.generate("fc")]
    ['fc_0', 'fc_1']
    """
    if not isinstance(key, str):
        raise errors.bad("generate(key)", "a str", key, kind=TypeError)
    return _Current.generator(key)


def generate_with_ignorable_key(key: str) -> str:
    """A name for something short-lived, which does not say what it is.

    >>> with bireme.utils.unique_name.guard():
    ...     bireme.utils.unique_name.generate_with_ignorable_key("fc")
    'dygraph_tmp_0'
    """
    if not isinstance(key, str):
        raise errors.bad("generate_with_ignorable_key(key)", "a str", key, kind=TypeError)
    return generate("dygraph_tmp")


def claim(name: str, where: str) -> str:
    """Reserve a parameter's name; an error if another parameter has it."""
    _Current.taken.add(name, where)
    return name


def switch(new_generator: Generator | None = None, new_para_name_checker: Taken | None = None) -> tuple[Generator, Taken]:
    """Start counting anew, or go on with what an earlier call returned; returns what was in use.

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
    """Count anew inside the `with` block; a str is put before every name made there.

    >>> with bireme.utils.unique_name.guard("left_"):
    ...     bireme.utils.unique_name.generate("fc")
    'left_fc_0'
    """
    if isinstance(new_generator, bytes):
        new_generator = new_generator.decode()
    if isinstance(new_generator, str):
        new_generator = Generator(new_generator)
    elif new_generator is not None and not isinstance(new_generator, Generator):
        raise errors.bad("guard(new_generator)", "a str or what switch() returned", new_generator, kind=TypeError)
    old = switch(new_generator)
    try:
        yield
    finally:
        switch(*old)
