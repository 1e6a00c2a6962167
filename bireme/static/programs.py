"""The programs of static mode: which ones calls are recorded into, and what their inputs are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.dtype import DTypeLike
from bireme.core.graph.graph import sig_of
from bireme.core.program import building
from bireme.core.program.program import Program
from bireme.core.program.variable import Sample, Symbol, Variable
from bireme.static.scopes import lengths_name


def default_main_program() -> Program:
    """Return the program that calls are recorded into in static mode.

    Returns:
        A ``Program``.

    Examples:
        >>> isinstance(bireme.static.default_main_program(), bireme.static.Program)
        True
    """
    builder = building.current()
    return building.programs.main if builder is None else builder.program


def default_startup_program() -> Program:
    """Return the program that gives parameters their initial values.

    Returns:
        A ``Program``, to be run once before training.

    Examples:
        >>> isinstance(bireme.static.default_startup_program(), bireme.static.Program)
        True
    """
    return building.programs.startup


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Context manager in which calls of static mode are recorded into another program.

    Args:
        main_program: The program that is built inside.
        startup_program: Program that takes the initial values of parameters made inside. Default: None, the present one.

    Returns:
        A context manager.

    Examples:
        >>> bireme.enable_static()
        >>> program = bireme.static.Program()
        >>> with bireme.static.program_guard(program):
        ...     x = bireme.static.data("x", [2])
        >>> [v.name for v in program.list_vars()]
        ['x']
        >>> bireme.disable_static()
    """
    for name, given in (("main_program", main_program), ("startup_program", startup_program)):
        if not isinstance(given, Program) and not (name == "startup_program" and given is None):
            raise errors.bad(f"program_guard({name})", "a Program", given, kind=errors.ArgumentTypeError)
    now = building.programs
    before = now.main, now.startup
    now.main, now.startup = main_program, startup_program or now.startup
    try:
        yield
    finally:
        now.main, now.startup = before


def data(name: str, shape: Sequence[int | None], dtype: DTypeLike | None = None, lod_level: int = 0) -> Variable:
    """Declare an input of the program that is being built.

    Args:
        name: Name, by which ``Executor.run`` finds its value in ``feed``.
        shape: Sizes; None or -1 for one that may be another in every run.
        dtype: Data type. Default: None, the default data type.
        lod_level: Levels of sequences that the rows belong to, whose lengths come with what is fed: see
            ``base.create_lod_tensor``. Default: 0, none.

    Returns:
        A ``Variable``.

    Examples:
        >>> bireme.enable_static()
        >>> bireme.static.data("image", [None, 1, 28, 28]).shape
        [-1, 1, 28, 28]
        >>> bireme.disable_static()
    """
    builder = building.current()
    if builder is None:
        raise errors.failure("data() declares an input of a program", hint="call bireme.enable_static() first")
    if not isinstance(name, str):
        raise errors.bad("data(name)", "a str", name, kind=errors.ArgumentTypeError)
    if not isinstance(shape, (list, tuple)):
        raise errors.bad("data(shape)", "a list or a tuple", shape, kind=errors.ArgumentTypeError)
    for n in shape:
        if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer))):
            raise errors.bad("data(shape)", "integers, or None where the size may change", list(shape))
    program = builder.program
    kind = dtypes.get_default() if dtype is None else dtypes.of(dtype, "data(dtype)")
    symbol = program._declared(name, shape, kind)
    symbol.is_data = True
    symbol.lengths = tuple([_lengths(program, lengths_name(name, i)) for i in reversed(range(lod_level))])
    return program._var(symbol)


def _lengths(program: Program, name: str) -> Symbol:
    """An input for the lengths of sequences. Its examples are no sizes of other inputs: there are never as many sequences
    as rows, by which results are told apart.
    """
    symbol = Symbol(name, tuple([Sample(sig_of((n,), dtypes.int64)) for n in (3, 5, 1)]))
    symbol.is_data = True
    return program._add(symbol)


guard_functions(globals())
