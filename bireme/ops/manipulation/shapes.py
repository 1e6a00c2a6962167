"""Shapes as such: what broadcasting makes of them, how to ask for them, what can be one."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import ints
from bireme.core.declare.op import Tensor, composite
from bireme.core.declare.public import function
from bireme.core.tensor.tensor import value_of
from bireme.ops._shared.broadcast import broadcast_shape as common_shape
from bireme.ops.manipulation.reshape import expand


@composite(method=True, torch=True, out="untold", hands={"shape": "y"})
def expand_as(x: Tensor, y: Tensor) -> Tensor:
    """Broadcast a tensor to the shape of another.

    Args:
        x: Tensor to broadcast: axes of size 1 are repeated.
        y: Tensor whose shape is taken.

    Returns:
        Tensor of the shape of ``y`` and the dtype of ``x``.

    Examples:
        >>> bireme.expand_as(bireme.to_tensor([1, 2]), bireme.zeros([2, 2])).tolist()
        [[1, 2], [1, 2]]
    """
    return expand(x, y.shape)


@composite(method=True, amp="one")
def broadcast_tensors(input: list[Tensor]) -> list[Tensor]:
    """Broadcast tensors against each other.

    Args:
        input: List or tuple of tensors of one dtype whose shapes broadcast.

    Returns:
        List of tensors, all of the common shape.

    Examples:
        >>> [x.tolist() for x in bireme.broadcast_tensors([bireme.to_tensor([[1], [2]]), bireme.to_tensor([3, 4])])]
        [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    if not input:
        raise errors.bad("broadcast_tensors(input)", "at least one tensor", described="an empty list")
    for i, x in enumerate(input):
        if x.dtype is not input[0].dtype:
            raise errors.bad(
                f"broadcast_tensors(input[{i}])", input[0].dtype.name, described=x.dtype.name, kind=errors.DtypeError
            )
    shape = common_shape("broadcast_tensors", *[tuple(x.shape) for x in input])
    return [expand(x, list(shape)) for x in input]


@function(method=True)
def broadcast_shapes(*shapes: Any) -> list[int]:
    """Compute the shape that tensors of the given shapes broadcast to.

    Args:
        *shapes: Shapes as lists, tuples or integer tensors; ``-1`` is an unknown size, which gives way to a known one.

    Returns:
        The common shape as a list.

    Raises:
        ValueError: If the shapes do not broadcast.

    Examples:
        >>> bireme.broadcast_shapes([2, 1], [3], [1, 1, 1])
        [1, 2, 3]
    """
    found: list[int] = []
    for k, one in enumerate(shapes):
        dims = list(ints(one, 0, f"broadcast_shapes(shapes[{k}])") or ())
        rank = max(len(found), len(dims))
        found, dims = [1] * (rank - len(found)) + found, [1] * (rank - len(dims)) + dims
        for i, (a, b) in enumerate(zip(found, dims)):
            if a != b and 1 not in (a, b) and -1 not in (a, b):
                shown = " and ".join(str(list(ints(s, 0, "shapes") or ())) for s in shapes)
                raise errors.bad(
                    "broadcast_shapes()",
                    "shapes that broadcast together",
                    described=f"shapes {shown}",
                    kind=errors.ShapeError,
                )
            found[i] = b if a == 1 or (a == -1 and b != 1) else a
    return found


@function(method=True)
@errors.named
def broadcast_shape(x_shape: Any, y_shape: Any) -> list[int]:
    """Compute the shape that tensors of two shapes broadcast to.

    Args:
        x_shape: Shape as a list, a tuple or an integer tensor; ``-1`` is an unknown size, which gives way to a known
            one.
        y_shape: The other shape.

    Returns:
        The common shape as a list.

    Raises:
        ValueError: If the shapes do not broadcast.

    Examples:
        >>> bireme.broadcast_shape([2, 1], [3])
        [2, 3]
    """
    return broadcast_shapes(x_shape, y_shape)


# ---------------------------------------------------------------- questions


@composite(name="shape_of", public="shape", name_arg=False)
def shape_of(input: Tensor) -> Tensor:
    """Return the shape of a tensor as a tensor; ``x.shape`` is the plain list.

    Args:
        input: Input tensor of any dtype.

    Returns:
        1-D int64 tensor of the sizes of all axes.

    Examples:
        >>> bireme.shape(bireme.zeros([2, 3])).tolist()
        [2, 3]
    """
    return Tensor(value_of(np.asarray(input.shape, np.int64)))


@function()
def check_shape(
    shape: Any,
    op_name: str,
    expected_shape_type: Any = list | tuple | Tensor,
    expected_element_type: Any = int | Tensor,
    expected_tensor_dtype: Any = ("int32", "int64"),
) -> None:
    """Check that a value can be a shape.

    Args:
        shape: Value to check.
        op_name: Name of the function in the error message.
        expected_shape_type: Types that the shape may have. Default: list, tuple or Tensor.
        expected_element_type: Types that its elements may have; ``None`` skips the check. Default: int or Tensor.
        expected_tensor_dtype: Names of the dtypes that tensors in it may have; ``None`` skips the check. Default:
            ``("int32", "int64")``.

    Raises:
        TypeError: If it cannot be a shape.

    Examples:
        >>> bireme.check_shape([2, 3], "zeros")
    """
    where = f"{op_name}(shape)"
    if not isinstance(shape, expected_shape_type):
        raise errors.bad(where, "a list, a tuple or a Tensor", shape, kind=errors.ArgumentTypeError)
    for n in [shape] if isinstance(shape, Tensor) else shape:
        if expected_element_type is not None and not isinstance(n, expected_element_type):
            raise errors.bad(where, "integers", n, kind=errors.ArgumentTypeError)
        if expected_tensor_dtype is not None and isinstance(n, Tensor) and n.dtype.name not in expected_tensor_dtype:
            raise errors.bad(
                where,
                f"tensors of {' or '.join(expected_tensor_dtype)}",
                described=n.dtype.name,
                kind=errors.ArgumentTypeError,
            )


@function()
def tolist(x: Tensor) -> Any:
    """Convert a tensor to nested lists of Python numbers; waits for its values.

    Args:
        x: Input tensor of any dtype.

    Returns:
        Nested lists as deep as ``x`` has axes; a number for a 0-D tensor.

    Examples:
        >>> bireme.tolist(bireme.to_tensor([[1.5]]))
        [[1.5]]
    """
    if not isinstance(x, Tensor):
        raise errors.bad("tolist(x)", "a Tensor", x, kind=errors.NotATensorError)
    return x.tolist()
