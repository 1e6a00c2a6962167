"""Comparison and logic."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, INT
from bireme.core.declare.op import Extra, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.numpy_namespace import numerics
from bireme.core.tensor.inplace import assign_inplace, retypes
from bireme.ops._shared.broadcast import broadcast_shape, comparison, sum_to


@op(
    public="equal eq",
    method="equal eq",
    inplace=True,
    retype=True,
    promote="x y",
    differentiable=False,
    numpy=np.equal,
    torch=True,
    out=True,
)
def equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise comparison ``x == y`` with broadcasting.

    Args:
        x: First operand.
        y: Second operand, a tensor or a number.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.equal(bireme.to_tensor([1, 2]), bireme.to_tensor([1, 3])).tolist()
        [True, False]
    """
    return jnp.equal(x, y)


@op(method="not_equal ne", inplace=True, retype=True, promote="x y", differentiable=False, numpy=np.not_equal)
def not_equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise comparison ``x != y`` with broadcasting.

    Args:
        x: First operand.
        y: Second operand, a tensor or a number.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.not_equal(bireme.to_tensor([1, 2]), bireme.to_tensor([1, 3])).tolist()
        [False, True]
    """
    return jnp.not_equal(x, y)


@op(
    public="less_than less",
    method="less_than lt less",
    inplace="less_than_ less_",
    retype=True,
    promote="x y",
    differentiable=False,
    numpy=np.less,
)
def less_than(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise comparison ``x < y`` with broadcasting.

    Args:
        x: First operand.
        y: Second operand, a tensor or a number.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.less_than(bireme.to_tensor([1, 2]), bireme.to_tensor([2, 2])).tolist()
        [True, False]
    """
    return jnp.less(x, y)


@op(method="less_equal le", inplace=True, retype=True, promote="x y", differentiable=False, numpy=np.less_equal)
def less_equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise comparison ``x <= y`` with broadcasting.

    Args:
        x: First operand.
        y: Second operand, a tensor or a number.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.less_equal(bireme.to_tensor([1, 3]), bireme.to_tensor([2, 2])).tolist()
        [True, False]
    """
    return jnp.less_equal(x, y)


@op(
    public="greater_than gt",
    method="greater_than gt",
    inplace=True,
    retype=True,
    promote="x y",
    differentiable=False,
    numpy=np.greater,
    torch=True,
    out=True,
)
def greater_than(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise comparison ``x > y`` with broadcasting.

    Args:
        x: First operand.
        y: Second operand, a tensor or a number.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.greater_than(bireme.to_tensor([1, 3]), bireme.to_tensor([2, 2])).tolist()
        [False, True]
    """
    return jnp.greater(x, y)


@op(method="greater_equal ge", inplace=True, retype=True, promote="x y", differentiable=False, numpy=np.greater_equal)
def greater_equal(x: Tensor, y: Tensor | float) -> Tensor:
    """Elementwise comparison ``x >= y`` with broadcasting.

    Args:
        x: First operand.
        y: Second operand, a tensor or a number.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.greater_equal(bireme.to_tensor([1, 2]), bireme.to_tensor([2, 2])).tolist()
        [False, True]
    """
    return jnp.greater_equal(x, y)


for _op in (equal, not_equal, less_than, less_equal, greater_than, greater_equal):
    _op.infer(comparison(_op.name, dtypes.bool_))


@op(
    method=True,
    inplace=True,
    retype=True,
    promote="x y",
    mix="floats",
    differentiable=False,
    numpy=np.logical_and,
    torch=True,
)
def logical_and(x: Tensor, y: Tensor, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise logical AND with broadcasting; nonzero elements count as true.

    Args:
        x: First operand.
        y: Second operand, of the same kind of dtype.
        out: Tensor that receives the result. Default: None.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.logical_and(bireme.to_tensor([True, True]), bireme.to_tensor([True, False])).tolist()
        [True, False]
    """
    return jnp.logical_and(x, y)


@op(
    method=True,
    inplace=True,
    retype=True,
    promote="x y",
    mix="floats",
    differentiable=False,
    numpy=np.logical_or,
    torch=True,
)
def logical_or(x: Tensor, y: Tensor, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise logical OR with broadcasting; nonzero elements count as true.

    Args:
        x: First operand.
        y: Second operand, of the same kind of dtype.
        out: Tensor that receives the result. Default: None.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.logical_or(bireme.to_tensor([True, False]), bireme.to_tensor([False, False])).tolist()
        [True, False]
    """
    return jnp.logical_or(x, y)


@op(
    method=True,
    inplace=True,
    retype=True,
    promote="x y",
    mix="floats",
    differentiable=False,
    numpy=np.logical_xor,
    torch=True,
)
def logical_xor(x: Tensor, y: Tensor, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise logical exclusive OR with broadcasting; nonzero elements count as true.

    Args:
        x: First operand.
        y: Second operand, of the same kind of dtype.
        out: Tensor that receives the result. Default: None.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.logical_xor(bireme.to_tensor([True, True]), bireme.to_tensor([True, False])).tolist()
        [False, True]
    """
    return jnp.logical_xor(x, y)


@op(method=True, inplace=True, retype=True, differentiable=False, numpy=np.logical_not, torch=True)
def logical_not(x: Tensor, out: Extra[Tensor] = None) -> Tensor:
    """Elementwise logical NOT; nonzero elements count as true.

    Args:
        x: Input tensor.
        out: Tensor that receives the result. Default: None.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.logical_not(bireme.to_tensor([True, False])).tolist()
        [False, True]
    """
    return jnp.logical_not(x)


logical_and.infer(comparison("logical_and", dtypes.bool_))
logical_or.infer(comparison("logical_or", dtypes.bool_))
logical_xor.infer(comparison("logical_xor", dtypes.bool_))
logical_not.infer(lambda x: sig_of(x.shape, dtypes.bool_))


@op(method=True, differentiable=False, numpy=np.isnan, torch=True, out="untold")
def isnan(x: Tensor) -> Tensor:
    """Whether each element is NaN.

    Args:
        x: Input tensor.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.isnan(bireme.to_tensor([1.0, float("nan")])).tolist()
        [False, True]
    """
    return jnp.isnan(x)


@op(method=True, differentiable=False, numpy=np.isinf, torch=True, out="untold")
def isinf(x: Tensor) -> Tensor:
    """Whether each element is infinity or minus infinity.

    Args:
        x: Input tensor.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.isinf(bireme.to_tensor([1.0, float("inf")])).tolist()
        [False, True]
    """
    return jnp.isinf(x)


@op(method=True, differentiable=False, numpy=np.isfinite, torch=True, out="untold")
def isfinite(x: Tensor) -> Tensor:
    """Whether each element is neither infinite nor NaN.

    Args:
        x: Input tensor.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.isfinite(bireme.to_tensor([1.0, float("inf")])).tolist()
        [True, False]
    """
    return jnp.isfinite(x)


@op(method=True, dtypes=FLOAT | INT, differentiable=False, numpy=True)
def isposinf(x: Tensor) -> Tensor:
    """Whether each element is plus infinity.

    Args:
        x: Tensor of real numbers.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.isposinf(bireme.to_tensor([1.0, float("inf"), -float("inf")])).tolist()
        [False, True, False]
    """
    return x == np.inf


@op(method=True, dtypes=FLOAT | INT, differentiable=False, numpy=True)
def isneginf(x: Tensor) -> Tensor:
    """Whether each element is minus infinity.

    Args:
        x: Tensor of real numbers.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.isneginf(bireme.to_tensor([1.0, float("inf"), -float("inf")])).tolist()
        [False, False, True]
    """
    return x == -np.inf


@op(method=True, differentiable=False, numpy=np.isreal)
def isreal(x: Tensor) -> Tensor:
    """Whether each element is real: its imaginary part is 0.

    Args:
        x: Input tensor; real dtypes are real everywhere.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.isreal(bireme.to_tensor([1 + 0j, 1j])).tolist()
        [True, False]
    """
    return jnp.isreal(x)


for _op in (isnan, isinf, isfinite, isposinf, isneginf, isreal):
    _op.infer(lambda x: sig_of(x.shape, dtypes.bool_))


@op(internal=True, promote="x y", mix="floats", numpy=numerics.where, kernels="where", elementwise=True)
def select(condition: Tensor, x: Tensor | float, y: Tensor | float) -> Tensor:
    """`x` where the condition holds, else `y`; use `where`."""
    return jnp.where(condition, x, y)


@select.infer
def _(condition, x, y):
    return sig_of(broadcast_shape("where", condition.shape, x.shape, y.shape), x.dtype)


@select.grad(numpy=True)
def _(g, condition, sigs):
    zero = jnp.zeros((), g.dtype)
    return None, sum_to(jnp.where(condition, g, zero), sigs[1]), sum_to(jnp.where(condition, zero, g), sigs[2])


@composite(method=True)
def where_(condition: Tensor, x: Tensor | None = None, y: Tensor | float | None = None) -> Tensor:
    """In-place form of ``where``: writes ``y`` into ``x`` where the condition is false.

    Args:
        condition: Bool tensor.
        x: Tensor to change. Default: None.
        y: Tensor or number to take the other elements from; its shape and that of ``condition`` broadcast to that of
            ``x``. Default: None.

    Returns:
        ``x`` itself.

    Raises:
        ValueError: If ``x`` or ``y`` is not given.

    Examples:
        >>> bireme.where_(bireme.to_tensor([True, False]), bireme.to_tensor([1, 2]), bireme.to_tensor([3, 4])).tolist()
        [1, 4]
    """
    if x is None or y is None:
        raise errors.bad("where_(x, y)", "both x and y", described="one of them")
    if condition.dtype is not dtypes.bool_:
        raise errors.bad("where_(condition)", "a bool tensor", condition, kind=errors.ArgumentTypeError)
    new = select(condition, x, y)
    return assign_inplace(x, new, "where_", retype=retypes(x, new, select, "where_"))


def _chosen(inputs, index):
    picked = jnp.broadcast_to(index.reshape(-1, *[1] * (inputs[0].ndim - 1)), (index.shape[0], *inputs[0].shape[1:]))
    out = jnp.zeros_like(inputs[0][: index.shape[0]])
    for i, x in enumerate(inputs):
        out = jnp.where(picked == i, x[: index.shape[0]], out)
    return out


@op(
    method=True,
    promote="inputs",
    mix="same",
    numpy=lambda inputs, index: np.stack(inputs)[index.ravel(), np.arange(index.shape[0])],
)
def multiplex(inputs: list[Tensor], index: Tensor) -> Tensor:
    """Choose each row from one of several tensors: row ``i`` of the result is row ``i`` of ``inputs[index[i]]``.

    Args:
        inputs: At least two tensors of one shape and dtype, with at least two axes.
        index: Integer tensor of shape ``[n, 1]`` with the number of the input for each of the first ``n`` rows.

    Returns:
        Tensor of the first ``n`` rows.

    Raises:
        ValueError: If the shapes differ, or an index is out of range.

    Examples:
        >>> x, y = bireme.to_tensor([[1, 2], [3, 4]]), bireme.to_tensor([[5, 6], [7, 8]])
        >>> bireme.multiplex([x, y], bireme.to_tensor([[1], [0]])).tolist()
        [[5, 6], [3, 4]]
    """
    return _chosen(inputs, index)


@multiplex.check
def _(inputs, index):
    if len(inputs) < 2:
        raise errors.bad("multiplex(inputs)", "at least two tensors", described=f"{len(inputs)}")
    first = inputs[0]
    if first.ndim < 2:
        raise errors.bad(
            "multiplex(inputs[0])",
            "at least 2 dimensions",
            described=f"shape {list(first.shape)}",
            kind=errors.ShapeError,
        )
    for i, s in enumerate(inputs):
        if s.shape != first.shape:
            raise errors.bad(
                f"multiplex(inputs[{i}])",
                f"shape {list(first.shape)} like the first",
                described=f"shape {list(s.shape)}",
                kind=errors.ShapeError,
            )
    if index.ndim != 2 or index.shape[1] != 1 or index.shape[0] > first.shape[0] or index.dtype.kind != "i":
        raise errors.bad(
            "multiplex(index)",
            f"an integer tensor of shape [{first.shape[0]}, 1]",
            described=f"{index.dtype.name} of shape {list(index.shape)}",
        )


@multiplex.index
def _(named):
    return [("index", 0, len(named["inputs"]))]


multiplex.infer(lambda inputs, index: sig_of((index.shape[0], *inputs[0].shape[1:]), inputs[0].dtype))


@op(internal=True, differentiable=False, numpy=True)
def any_outside(x: Tensor, low: int, high: int) -> Tensor:
    """Whether an index lies outside [low, high): what the engine asks when only the device knows."""
    x = x.astype(jnp.int32) if x.dtype.itemsize < 4 else x  # a bound out of the range of the dtype would wrap around
    return jnp.any((x < low) | (x >= high))


any_outside.infer(lambda x: sig_of((), dtypes.bool_))


@composite(method=True)
def equal_all(x: Tensor, y: Tensor) -> Tensor:
    """Whether two tensors have the same shape and elements.

    Args:
        x: First tensor.
        y: Second tensor.

    Returns:
        0-D bool tensor.

    Examples:
        >>> bireme.equal_all(bireme.to_tensor([1, 2]), bireme.to_tensor([1, 2])).item()
        True
    """
    if x.shape != y.shape:
        return Tensor(False)
    return equal(x, y).all()


@composite(method=True, plain=True)
def isclose(x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether elements are equal within a tolerance: ``abs(x - y) <= atol + rtol * abs(y)``.

    Infinities are close only to themselves. Integers are compared in float64.

    Args:
        x: First tensor.
        y: Second tensor, the one that the relative tolerance refers to.
        rtol: Relative tolerance. Default: 1e-05.
        atol: Absolute tolerance. Default: 1e-08.
        equal_nan: Whether NaN counts as close to NaN. Default: False.

    Returns:
        Bool tensor of the broadcast shape.

    Examples:
        >>> bireme.isclose(bireme.to_tensor([1.0, 2.0]), bireme.to_tensor([1.0 + 1e-9, 2.1])).tolist()
        [True, False]
    """
    if not x.dtype.is_inexact:
        x, y = x.astype("float64"), y.astype("float64")
    near = logical_and(less_equal((x - y).abs(), y.abs() * rtol + atol), isfinite(y))
    near = logical_or(equal(x, y), near)
    return logical_or(near, logical_and(isnan(x), isnan(y))) if equal_nan else near


@composite(method=True)
def allclose(x: Tensor, y: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether all elements are equal within a tolerance: ``abs(x - y) <= atol + rtol * abs(y)``.

    Args:
        x: First tensor.
        y: Second tensor, the one that the relative tolerance refers to.
        rtol: Relative tolerance. Default: 1e-05.
        atol: Absolute tolerance. Default: 1e-08.
        equal_nan: Whether NaN counts as close to NaN. Default: False.

    Returns:
        0-D bool tensor.

    Examples:
        >>> bireme.allclose(bireme.to_tensor([1.0]), bireme.to_tensor([1.0 + 1e-9])).item()
        True
    """
    return isclose(x, y, rtol, atol, equal_nan).all()


@op(internal=True, promote="x test_x", differentiable=False,
    numpy=lambda x, test_x, invert: np.isin(x, test_x, invert=invert))  # fmt: skip
def contained(x: Tensor, test_x: Tensor, invert: bool) -> Tensor:
    """Whether each element is among others; use `isin`."""
    return jnp.isin(x, test_x, invert=invert)


contained.infer(lambda x: sig_of(x.shape, dtypes.bool_))


@composite(method=True)
def isin(x: Tensor, test_x: Tensor, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """Whether each element of ``x`` occurs in ``test_x``.

    Args:
        x: Elements to look for.
        test_x: Elements to search, of any shape.
        assume_unique: Not used: it would not make the search faster. Default: False.
        invert: Whether to return the opposite, true where an element does not occur. Default: False.

    Returns:
        Bool tensor of the shape of ``x``.

    Examples:
        >>> bireme.isin(bireme.to_tensor([1, 2]), bireme.to_tensor([2, 3])).tolist()
        [False, True]
    """
    del assume_unique  # a promise that would save nothing here
    return contained(x, test_x, invert)
