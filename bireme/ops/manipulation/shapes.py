"""Shapes as such: what broadcasting makes of them, how to ask for them, what can be one."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.declare.conversion import ints
from bireme.core.declare.op import PUBLIC, Tensor, composite
from bireme.core.tensor.tensor import value_of
from bireme.ops._shared.broadcast import broadcast_shape as common_shape
from bireme.ops.manipulation.reshape import expand


@composite(method=True, torch=True, out="untold")
def expand_as(x: Tensor, y: Tensor) -> Tensor:
    """Axes of extent 1 repeated to the shape of `y`.

    >>> bireme.expand_as(bireme.to_tensor([1, 2]), bireme.zeros([2, 2])).tolist()
    [[1, 2], [1, 2]]
    """
    return expand(x, y.shape)


@composite(method=True, amp="one")
def broadcast_tensors(input: list[Tensor]) -> list[Tensor]:
    """Tensors of one type, all in the shape that they broadcast to.

    >>> [x.tolist() for x in bireme.broadcast_tensors([bireme.to_tensor([[1], [2]]), bireme.to_tensor([3, 4])])]
    [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    if not input:
        raise errors.bad("broadcast_tensors(input)", "at least one tensor", "an empty list")
    for i, x in enumerate(input):
        if x.dtype is not input[0].dtype:
            raise errors.bad(f"broadcast_tensors(input[{i}])", input[0].dtype.name, x.dtype.name, kind=errors.NoKernel)
    shape = common_shape("broadcast_tensors", *[tuple(x.shape) for x in input])
    return [expand(x, list(shape)) for x in input]


def broadcast_shapes(*shapes: Any) -> list[int]:
    """The shape that tensors of these shapes broadcast to; -1 is an extent that is not known.

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
                raise errors.bad("broadcast_shapes()", "shapes that broadcast together", f"shapes {shown}")
            found[i] = b if a == 1 or (a == -1 and b != 1) else a
    return found


def broadcast_shape(x_shape: Any, y_shape: Any) -> list[int]:
    """The shape that tensors of two shapes broadcast to; -1 is an extent that is not known.

    >>> bireme.broadcast_shape([2, 1], [3])
    [2, 3]
    """
    return broadcast_shapes(x_shape, y_shape)


# ---------------------------------------------------------------- questions


@composite(name="shape_of", public="shape", name_arg=False)
def shape_of(input: Tensor) -> Tensor:
    """The extents, as a 1-D tensor of int64; `x.shape` is the plain list.

    >>> bireme.shape(bireme.zeros([2, 3])).tolist()
    [2, 3]
    """
    return Tensor(value_of(np.asarray(input.shape, np.int64)))


def check_shape(shape: Any, op_name: str, expected_shape_type: Any = list | tuple | Tensor, expected_element_type: Any = int | Tensor,
                expected_tensor_dtype: Any = ("int32", "int64")) -> None:  # fmt: skip
    """Raise a TypeError for what cannot be a shape; `op_name` is named in it.

    >>> bireme.check_shape([2, 3], "zeros")
    """
    where = f"{op_name}(shape)"
    if not isinstance(shape, expected_shape_type):
        raise errors.bad(where, "a list, a tuple or a Tensor", shape, kind=TypeError)
    for n in [shape] if isinstance(shape, Tensor) else shape:
        if expected_element_type is not None and not isinstance(n, expected_element_type):
            raise errors.bad(where, "integers", n, kind=TypeError)
        if expected_tensor_dtype is not None and isinstance(n, Tensor) and n.dtype.name not in expected_tensor_dtype:
            raise errors.bad(where, f"tensors of {' or '.join(expected_tensor_dtype)}", n.dtype.name, kind=TypeError)


def tolist(x: Tensor) -> Any:
    """The values as nested lists of Python numbers.

    >>> bireme.tolist(bireme.to_tensor([[1.5]]))
    [[1.5]]
    """
    if not isinstance(x, Tensor):
        raise errors.bad("tolist(x)", "a Tensor", x, kind=TypeError)
    return x.tolist()


for _f in (broadcast_shape, broadcast_shapes, check_shape, tolist):
    PUBLIC[_f.__name__] = _f
Tensor.broadcast_shape = broadcast_shape  # type: ignore[attr-defined]  # a method that Tensor gets here
Tensor.broadcast_shapes = broadcast_shapes  # type: ignore[attr-defined]  # a method that Tensor gets here
