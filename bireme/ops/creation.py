"""Making tensors: from data, filled, counted, copied."""

from __future__ import annotations

import builtins
import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core import device as devices
from bireme.core import dtype as dtypes
from bireme.core import errors
from bireme.core.convert import number
from bireme.core.graph import sig_of
from bireme.core.op import DTypeArg, Shape, Tensor, composite, op
from bireme.core.tensor import read, value_of


@composite(name_arg=False)
def to_tensor(data: Any, dtype: DTypeArg = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """A tensor from numbers, lists, an array or another tensor; the data is copied.

    >>> bireme.to_tensor([[1, 2], [3, 4]]).shape
    [2, 2]
    """
    return Tensor(value_of(data, dtype, place), stop_gradient=stop_gradient)


# ---------------------------------------------------------------- filled with a number


@op(differentiable=False)
def full_of(fill_value: Tensor | float, shape: Shape, dtype: DTypeArg) -> Tensor:
    """A tensor filled with a number; use `full`.

    >>> bireme.full([2], 7).tolist()
    [7.0, 7.0]
    """
    return jnp.full(shape, fill_value, dtype.np)


full_of.infer(lambda shape, dtype: sig_of(shape, dtype))
full_of.numpy_form = lambda fill_value, shape, dtype: np.full(shape, fill_value, dtype.np)


def _filled(where: str, shape: Any, value: Any, dtype: Any, device: Any = None, requires_grad: bool = False) -> Tensor:
    kind = dtypes.of(dtype, f"{where}(dtype)")
    if not isinstance(value, Tensor):
        if not isinstance(value, (int, float, builtins.complex, np.generic)):
            raise errors.bad(f"{where}(fill_value)", "a number", value, kind=TypeError)
        value = (kind, number(value, kind, f"{where}(fill_value)"))
    return _placed(full_of.call({"fill_value": value, "shape": shape, "dtype": kind}), device, requires_grad)


def _placed(t: Tensor, device: Any, requires_grad: bool) -> Tensor:
    """What the torch-style keywords of creation functions ask for."""
    if device is not None:
        t = t._to_device(devices.parse(device, "device"))
    if requires_grad:
        t.stop_gradient = False
    return t


# a number operand may be given as a (dtype, number) pair by the engine's own callers
def _pair_or_operand(arguments):
    if arguments["fill_value"].__class__ is tuple:
        return
    t = arguments["fill_value"]
    if isinstance(t, Tensor) and t.ndim != 0:
        if t.size != 1:
            raise errors.bad("full(fill_value)", "a number or a tensor of one element", t)
        arguments["fill_value"] = t.reshape([])


full_of.prepare(_pair_or_operand)


@composite(alias={"shape": "size"})
def full(shape: Shape, fill_value: Any, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False,
         pin_memory: bool = False) -> Tensor:  # fmt: skip
    """A tensor filled with a number; float32 unless `dtype` or a bool or complex number says otherwise.

    >>> bireme.full([2], 7).tolist()
    [7.0, 7.0]
    """
    if dtype is None:
        kinds = {bool: dtypes.bool_, builtins.complex: dtypes.complex_of(dtypes.get_default())}
        dtype = fill_value.dtype if isinstance(fill_value, Tensor) else kinds.get(type(fill_value), dtypes.get_default())
    return _filled("full", shape, fill_value, dtype, device, requires_grad)


@composite(alias={"shape": "size"})
def zeros(shape: Shape, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A tensor of zeros.

    >>> bireme.zeros([2]).tolist()
    [0.0, 0.0]
    """
    return _filled("zeros", shape, 0, dtype or dtypes.get_default(), device, requires_grad)


@composite(alias={"shape": "size"})
def ones(shape: Shape, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A tensor of ones.

    >>> bireme.ones([2]).tolist()
    [1.0, 1.0]
    """
    return _filled("ones", shape, 1, dtype or dtypes.get_default(), device, requires_grad)


@composite(alias={"shape": "size"})
def empty(shape: Shape, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """A tensor whose values mean nothing yet (they are zeros: nothing uninitialised is ever shown).

    >>> bireme.empty([2, 3]).shape
    [2, 3]
    """
    return _filled("empty", shape, 0, dtype or dtypes.get_default(), device, requires_grad)


@composite(alias={"x": "input"})
def full_like(x: Tensor, fill_value: Any, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of x's shape and type, filled with a number.

    >>> bireme.full_like(bireme.to_tensor([1.0, 2.0]), 5).tolist()
    [5.0, 5.0]
    """
    return _filled("full_like", x.shape, fill_value, dtype or x.dtype, device, requires_grad)


@composite(alias={"x": "input"})
def zeros_like(x: Tensor, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros of x's shape and type.

    >>> bireme.zeros_like(bireme.to_tensor([1.0, 2.0])).tolist()
    [0.0, 0.0]
    """
    return _filled("zeros_like", x.shape, 0, dtype or x.dtype, device, requires_grad)


@composite(alias={"x": "input"})
def ones_like(x: Tensor, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones of x's shape and type.

    >>> bireme.ones_like(bireme.to_tensor([1.0, 2.0])).tolist()
    [1.0, 1.0]
    """
    return _filled("ones_like", x.shape, 1, dtype or x.dtype, device, requires_grad)


# ---------------------------------------------------------------- counted


@op(differentiable=False)
def count_up(start: Tensor | float, step: Tensor | float, size: int, dtype: DTypeArg) -> Tensor:
    """`size` numbers from `start` in steps; use `arange`.

    >>> bireme.arange(3).tolist()
    [0, 1, 2]
    """
    return (start + jnp.arange(size, dtype=start.dtype) * step).astype(dtype.np)


count_up.infer(lambda size, dtype: sig_of((size,), dtype))
count_up.numpy_form = lambda start, step, size, dtype: (start + np.arange(size).astype(start.dtype) * step).astype(dtype.np)


@composite()
def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Numbers from `start` up to, not including, `end`; int64 if all of them are integers.

    >>> bireme.arange(1, 7, 2).tolist()
    [1, 3, 5]
    """
    if end is None:
        start, end = 0, start
    values = []
    kinds = []
    for name, x in (("start", start), ("end", end), ("step", step)):
        if isinstance(x, Tensor):
            kinds.append(x.dtype)
            x = x.item()
        elif isinstance(x, (int, float, np.generic)):
            kinds.append(dtypes.of_number(x))
        else:
            raise errors.bad(f"arange({name})", "a number", x, kind=TypeError)
        values.append(x.item() if isinstance(x, np.generic) else x)
    first, last, by = values
    if by == 0:
        raise errors.bad("arange(step)", "a step other than 0", by)
    kind = dtype
    if kind is None:
        kind = next((k for k in kinds if k.kind == "f"), dtypes.int64)
    size = builtins.max(0, math.ceil((last - first) / by))
    exact = dtypes.int64 if all(isinstance(v, int) for v in values) else dtypes.float64
    arguments = {"start": (exact, number(first, exact, "arange(start)")), "step": (exact, number(by, exact, "arange(step)"))}
    return _placed(count_up.call({**arguments, "size": size, "dtype": kind}), device, requires_grad)


@composite()
def linspace(start: Any, stop: Any, num: int, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """`num` numbers evenly from `start` to `stop`, both included.

    >>> bireme.linspace(0, 10, 5).tolist()
    [0.0, 2.5, 5.0, 7.5, 10.0]
    """
    first, last = float(start), float(stop)
    if num < 1:
        raise errors.bad("linspace(num)", "a count of 1 or more", num)
    by = (last - first) / (num - 1) if num > 1 else 0.0
    kind = dtype or dtypes.get_default()
    arguments = {"start": (dtypes.float64, first), "step": (dtypes.float64, by)}
    return _placed(count_up.call({**arguments, "size": num, "dtype": kind}), device, requires_grad)


@op(differentiable=False)
def eye_of(num_rows: int, num_columns: int, dtype: DTypeArg) -> Tensor:
    """The unit matrix; use `eye`.

    >>> bireme.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return jnp.eye(num_rows, num_columns, dtype=dtype.np)


@composite()
def eye(num_rows: int, num_columns: int | None = None, dtype: DTypeArg = None, *, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A matrix with ones on its diagonal.

    >>> bireme.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = num_rows if num_columns is None else num_columns
    for name, n in (("num_rows", num_rows), ("num_columns", columns)):
        if n < 0:
            raise errors.bad(f"eye({name})", "a count of 0 or more", n)
    return _placed(eye_of(num_rows, columns, dtype or dtypes.get_default()), device, requires_grad)


# ---------------------------------------------------------------- copied


@op(method="clone", passes="x", numpy=lambda x: x)
def clone(x: Tensor) -> Tensor:
    """A copy that gradients flow through.

    >>> bireme.clone(bireme.to_tensor([1.0])).tolist()
    [1.0]
    """
    return x


clone.infer(lambda x: x)
clone.grad(lambda g: g, numpy=True)


@composite()
def assign(x: Any, output: Tensor | None = None) -> Tensor:
    """A copy of a tensor or of data; into `output` if given.

    >>> bireme.assign([1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    new = clone(x) if isinstance(x, Tensor) else Tensor(value_of(x))
    if output is None:
        return new
    if output.shape != new.shape:
        raise errors.bad("assign(output)", f"shape {new.shape}", output)
    output._value, output._edge = read(new), new._edge
    if not new.stop_gradient:
        output.stop_gradient = False
    return output
