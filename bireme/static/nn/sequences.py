"""Layers on sequences of several lengths, whose rows stand behind each other in one variable.

The lengths go with a variable from its input on: `static.data(name, shape, dtype, lod_level=1)` declares them, what
`base.create_lod_tensor` makes feeds them, and results with a row for each row have the same.
"""

from __future__ import annotations

from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.variable import Variable
from bireme.core.tensor.tensor import Tensor
from bireme.ops import (
    arange,
    cumsum,
    gather,
    matmul,
    pool_sequences,
    repeat_interleave,
    reshape,
    sequence_context,
    softmax_sequences,
)
from bireme.ops.nn.sequence import POOLS
from bireme.static.nn.layers import activated, known_size, parameters_of


def lengths_of(where: str, x: Any, level: int = -1) -> Variable:
    """The variable of the lengths of the sequences that the rows of another one belong to."""
    found = x.symbol.lengths if isinstance(x, Variable) else ()
    if not -len(found) <= level < len(found):
        raise errors.bad(
            where,
            "a variable whose rows belong to sequences",
            described=f"{len(found)} levels of them",
            hint="declare its input with static.data(..., lod_level=1)",
        )
    return x.program._var(found[level])


def _with(x: Tensor, lengths: tuple) -> Tensor:
    x.symbol.lengths = lengths  # type: ignore[attr-defined]  # a Variable
    return x


def sequence_pool(input: Tensor, pool_type: str, is_test: bool = False, pad_value: float = 0.0) -> Tensor:
    """Reduce each sequence to one row.

    Args:
        input: Variable whose rows belong to sequences; of several levels the innermost.
        pool_type: ``"sum"``, ``"average"``, ``"sqrt"`` (the sum divided by the square root of the length), ``"max"``,
            ``"last"`` or ``"first"``.
        is_test: Has no effect.
        pad_value: What an empty sequence gives. Default: 0.0.

    Returns:
        Variable with a row for each sequence.

    Raises:
        ValueError: If ``input`` has no sequences.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 1], lod_level=1)
        ...     y = bireme.static.nn.sequence_pool(x, "average")
        ...     rows = bireme.base.create_lod_tensor(np.float32([[1], [3], [5]]), [[2, 1]], bireme.CPUPlace())
        ...     bireme.static.Executor().run(feed={"x": rows}, fetch_list=[y])[0].tolist()
        [[2.0], [5.0]]
        >>> bireme.disable_static()
    """
    kind = pool_type.lower() if isinstance(pool_type, str) else pool_type
    if kind not in POOLS:
        raise errors.bad("sequence_pool(pool_type)", f"one of {', '.join(POOLS)}", pool_type)
    lengths = lengths_of("sequence_pool(input)", input)
    return _with(pool_sequences(input, lengths, kind, float(pad_value)), input.symbol.lengths[:-1])


def sequence_first_step(input: Tensor) -> Tensor:
    """Return the first row of each sequence.

    Args:
        input: Variable whose rows belong to sequences.

    Returns:
        Variable with a row for each sequence.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     y = bireme.static.nn.sequence_first_step(bireme.static.data("x", [None, 1], lod_level=1))
        ...     rows = bireme.base.create_lod_tensor(np.float32([[1], [3], [5]]), [[2, 1]], bireme.CPUPlace())
        ...     bireme.static.Executor().run(feed={"x": rows}, fetch_list=[y])[0].tolist()
        [[1.0], [5.0]]
        >>> bireme.disable_static()
    """
    return sequence_pool(input, "first")


def sequence_last_step(input: Tensor) -> Tensor:
    """Return the last row of each sequence.

    Args:
        input: Variable whose rows belong to sequences.

    Returns:
        Variable with a row for each sequence.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     y = bireme.static.nn.sequence_last_step(bireme.static.data("x", [None, 1], lod_level=1))
        ...     rows = bireme.base.create_lod_tensor(np.float32([[1], [3], [5]]), [[2, 1]], bireme.CPUPlace())
        ...     bireme.static.Executor().run(feed={"x": rows}, fetch_list=[y])[0].tolist()
        [[3.0], [5.0]]
        >>> bireme.disable_static()
    """
    return sequence_pool(input, "last")


def sequence_softmax(input: Tensor, use_cudnn: bool = False, name: str | None = None) -> Tensor:
    """Apply softmax over the rows of each sequence.

    Args:
        input: Variable of shape ``[rows, 1]`` or ``[rows]`` whose rows belong to sequences.
        use_cudnn: Has no effect.
        name: Has no effect.

    Returns:
        Variable of the shape of ``input``.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     y = bireme.static.nn.sequence_softmax(bireme.static.data("x", [None, 1], lod_level=1))
        ...     rows = bireme.base.create_lod_tensor(np.float32([[1], [1], [5]]), [[2, 1]], bireme.CPUPlace())
        ...     bireme.static.Executor().run(feed={"x": rows}, fetch_list=[y])[0].tolist()
        [[0.5], [0.5], [1.0]]
        >>> bireme.disable_static()
    """
    return softmax_sequences(input, lengths_of("sequence_softmax(input)", input))


def sequence_conv(
    input: Tensor,
    num_filters: int,
    filter_size: int = 3,
    filter_stride: int = 1,
    padding: bool = True,
    padding_start: int | None = None,
    bias_attr: Any = None,
    param_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Convolve each sequence along its rows, with zeros beyond its ends; parameters are made here.

    Args:
        input: Variable of shape ``[rows, features]`` whose rows belong to sequences.
        num_filters: Number of features of the result.
        filter_size: Number of rows that a filter covers. Default: 3.
        filter_stride: Step of the filter; 1 is the only one. Default: 1.
        padding: Has no effect: the result always has a row for each row.
        padding_start: Where a filter begins, relative to its row. Default: None, ``-(filter_size // 2)``.
        bias_attr: A ``ParamAttr`` of the bias, or False for none. Default: None.
        param_attr: A ``ParamAttr`` of the weight ``[filter_size * features, num_filters]``. Default: None.
        act: Name of a function of ``nn.functional`` that is applied to the result. Default: None.
        name: Has no effect.

    Returns:
        Variable of shape ``[rows, num_filters]``, whose rows belong to the same sequences.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 4], lod_level=1)
        ...     bireme.static.nn.sequence_conv(x, 5).shape
        [-1, 5]
        >>> bireme.disable_static()
    """
    if filter_stride != 1:
        raise errors.bad("sequence_conv(filter_stride)", "1", filter_stride)
    lengths = lengths_of("sequence_conv(input)", input)
    features = known_size("sequence_conv(input)", input, 1)
    make = parameters_of("sequence_conv", input.dtype)
    weight = make([filter_size * features, num_filters], param_attr)
    start = -(filter_size // 2) if padding_start is None else padding_start
    near = sequence_context(input, lengths, start, filter_size)
    out = matmul(reshape(near, [-1, filter_size * features]), weight)
    bias = make([num_filters], bias_attr, is_bias=True)
    out = _with(out if bias is None else out + bias, input.symbol.lengths)
    return activated("sequence_conv(act)", out, act)


def sequence_expand(x: Tensor, y: Tensor, ref_level: int = -1, name: str | None = None) -> Tensor:
    """Repeat each sequence of a variable, or each row where it has none, as often as another one says.

    Args:
        x: Variable.
        y: Variable whose rows belong to sequences: their lengths say how often.
        ref_level: Which level of ``y``. Default: -1, the innermost.
        name: Has no effect.

    Returns:
        Variable of the repeated rows.

    Raises:
        ValueError: If ``y`` does not have such sequences.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 1])
        ...     z = bireme.static.nn.sequence_expand(x, bireme.static.data("y", [None, 1], lod_level=1))
        ...     rows = bireme.base.create_lod_tensor(np.zeros([3, 1], "float32"), [[2, 1]], bireme.CPUPlace())
        ...     bireme.static.Executor().run(feed={"x": np.float32([[7], [8]]), "y": rows}, fetch_list=[z])[0].tolist()
        [[7.0], [7.0], [8.0]]
        >>> bireme.disable_static()
    """
    times = lengths_of("sequence_expand(y)", y, ref_level)
    if not getattr(x, "lod_level", 0):
        rows = repeat_interleave(arange(times.shape[0]), times)
        return _with(gather(x, rows), ())
    lengths = lengths_of("sequence_expand(x)", x)
    made = repeat_interleave(lengths, times)
    # where each repeated sequence begins in x, less where it begins in the result
    shift = repeat_interleave(cumsum(lengths) - lengths, times) - (cumsum(made) - made)
    shifts = repeat_interleave(shift, made)
    return _with(gather(x, shifts + arange(shifts.shape[0])), (made.symbol,))


guard_functions(globals())
