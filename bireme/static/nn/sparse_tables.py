"""sparse_embedding: rows of a table that grows at parameter servers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.dtype import DTypeLike
from bireme.core.program import building
from bireme.core.program.program import Operation
from bireme.core.program.variable import Variable
from bireme.core.tensor.tensor import Tensor
from bireme.distributed.entry_attr import EntryAttr, ShowClickEntry
from bireme.distributed.ps import initial_rows, lookup
from bireme.nn.parameter import attr_of

CLASSES = {"CommonSparseTable": False, "MemorySparseTable": False, "SSDSparseTable": True}
_numbers = itertools.count()


def sparse_embedding(
    input: Tensor,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: EntryAttr | None = None,
    table_class: str = "MemorySparseTable",
    param_attr: Any = None,
    dtype: DTypeLike = "float32",
    slot: Any = None,
) -> Tensor:
    """Look up rows of a table at the parameter servers.

    The table has no rows at first and gets one for each id that is looked up; ids are any integers of 64 bits. The
    optimizer of ``fleet.distributed_optimizer`` updates the rows. Calls that name the same table share it.

    Args:
        input: Tensor of int64. A last dimension of 1 is replaced by the row; else the row is added to the shape.
        size: Number of rows that are expected, which only matters for initial values by their number, and their width.
        padding_idx: Id whose row is zeros and gets no gradient. Default: None.
        is_test: Ids without a row read zeros, instead of getting one. Default: False.
        entry: Which ids get a row: a ``CountFilterEntry``, ``ProbabilityEntry`` or ``ShowClickEntry`` of
            ``bireme.distributed``. Default: None, all.
        table_class: ``'MemorySparseTable'``; with ``'SSDSparseTable'`` rows go to disk where there are too many for
            memory. Default: ``'MemorySparseTable'``.
        param_attr: A ``ParamAttr`` with the name of the table and its initializer: ``Constant``, ``Uniform``,
            ``Normal``, ``XavierUniform`` or ``XavierNormal``. Dynamic mode needs the name. Default: None.
        dtype: Data type of the rows, float32. Default: ``'float32'``.
        slot: Has no effect.

    Returns:
        Tensor of the rows.

    Raises:
        ValueError: If an argument has a value that is not allowed, or a table is named that is another.
        RuntimeError: If the rows are needed before ``fleet.init_worker()``.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     ids = bireme.static.data("ids", [None, 1], "int64")
        ...     bireme.static.nn.sparse_embedding(ids, [1000, 8]).shape
        [-1, 8]
        >>> bireme.disable_static()
    """
    where = "sparse_embedding"
    if not isinstance(input, Tensor) or input.dtype is not dtypes.int64:
        raise errors.bad(f"{where}(input)", "a Tensor of int64", input, kind=errors.ArgumentTypeError)
    if table_class not in CLASSES:
        raise errors.bad(f"{where}(table_class)", f"one of {', '.join(CLASSES)}", table_class)
    if dtypes.of(dtype, f"{where}(dtype)") is not dtypes.float32:
        raise errors.bad(f"{where}(dtype)", "float32", dtype)
    if not isinstance(size, (list, tuple)) or len(size) != 2 or not all(type(n) is int and n > 0 for n in size):
        raise errors.bad(f"{where}(size)", "a list of two positive integers", size)
    if entry is not None and not isinstance(entry, EntryAttr):
        raise errors.bad(f"{where}(entry)", "an entry policy", entry, kind=errors.ArgumentTypeError)
    attr = attr_of(param_attr, f"{where}(param_attr)")
    builder = building.current()
    name = attr.name if attr else None
    if name is None:
        if builder is None:
            hint = "param_attr=bireme.ParamAttr(name='emb')"
            raise errors.bad(
                f"{where}(param_attr)", "the name of the table in dynamic mode", described="none", hint=hint
            )
        name = f"{builder.program._layer_name('sparse_embedding')}.w_0"
    initial = initial_rows.described(f"{where}(param_attr)", attr.initializer if attr else None, list(size), 0)
    policy = "" if entry is None else entry._to_attr()
    lookup.declare(where, name, width=size[1], initial=initial, entry=policy, storage=CLASSES[table_class])
    given = {"table": name, "width": size[1], "padding_idx": padding_idx, "is_test": is_test}
    if builder is None:
        return lookup.sparse_lookup(input, **given)
    counts = _counts(builder, entry)
    number = None if is_test else next(_numbers)
    call = Operation(lookup.sparse_lookup, where, (input,), {**given, "call": number, **counts}, errors.position())
    made = builder.append(call)
    made.stop_gradient = is_test
    return made


def _counts(builder: Any, entry: EntryAttr | None) -> dict[str, Variable]:
    """The inputs that say how often samples were shown and clicked."""
    if not isinstance(entry, ShowClickEntry):
        return {}
    names = {"show": entry._show_name, "click": entry._click_name}
    for name in names.values():
        if name not in builder.program.symbols:
            raise errors.bad("sparse_embedding(entry)", "names of inputs of the program", name)
    return {key: builder.program._var(builder.program.symbols[name]) for key, name in names.items()}


guard_functions(globals())
