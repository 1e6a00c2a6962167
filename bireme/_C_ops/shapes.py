"""Kernels of shapes, indexing, sorting and creation that take their arguments in another order than the public ones.

They are as in `paddle._C_ops`: sizes and axes as lists, results that the public functions leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import linalg, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.ops import graph_send_recv, segment_max, segment_mean, segment_min, segment_sum


def _into(x: Tensor, new: Tensor) -> Tensor:
    """Give `x` the shape and the elements of another tensor."""
    return tensor.assign(new, x)


def _axis(axis: Any) -> Any:
    """An axis or axes for the public functions: an empty list means all."""
    return (axis[0] if len(axis) == 1 else list(axis) or None) if isinstance(axis, (list, tuple)) else axis


# ---------------------------------------------------------------- parts


def _at(axes: Sequence[int], starts: Any, ends: Any, steps: Any, ndim: int) -> tuple:
    index = [slice(None)] * ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        index[axis] = slice(int(start), int(end), int(step))
    return tuple(index)


def part(
    input: Tensor, axes: Sequence[int], starts: Any, ends: Any, infer_flags: Any = (), decrease_axis: Sequence[int] = ()
) -> Tensor:
    """Slice a tensor along axes.

    Args:
        input: Input tensor.
        axes: Axes to work along.
        starts: First index along each axis.
        ends: Index after the last one along each axis.
        infer_flags: Has no effect. Default: ``[]``.
        decrease_axis: Axes of size 1 to remove from the result. Default: ``[]``.

    Returns:
        The slice.
    """
    found = tensor.slice(input, list(axes), starts, ends)
    return tensor.squeeze(found, list(decrease_axis)) if len(decrease_axis) else found


def set_value_with_tensor_(
    x: Tensor,
    values: Tensor,
    starts: Any,
    ends: Any,
    steps: Any,
    axes: Sequence[int],
    decrease_axes: Sequence[int] = (),
    none_axes: Sequence[int] = (),
) -> Tensor:
    """Write a tensor into a slice, in place.

    Args:
        x: Input tensor.
        values: Values to write.
        starts: First index along each axis.
        ends: Index after the last one along each axis.
        steps: Step along each axis.
        axes: Axes to work along.
        decrease_axes: Axes of the slice that are removed. Default: ``[]``.
        none_axes: Axes of ``values`` that are removed. Default: ``[]``.

    Returns:
        ``x`` itself.
    """
    for axis in sorted(decrease_axes):
        if values.ndim and values.ndim >= x.ndim - len(decrease_axes) - axis:
            values = tensor.unsqueeze(values, max(values.ndim - (x.ndim - len(decrease_axes)) + axis, 0))
    for axis in sorted(none_axes, reverse=True):
        values = tensor.squeeze(values, axis)
    x[_at(axes, starts, ends, steps, x.ndim)] = values
    return x


def set_value_with_tensor(x: Tensor, *args: Any) -> Tensor:
    """Write a tensor into a slice of a copy.

    Args:
        x: Input tensor.
        *args: The other arguments of ``set_value_with_tensor_``.

    Returns:
        The changed copy.
    """
    return set_value_with_tensor_(tensor.clone(x), *args)


def set_value_(
    x: Tensor,
    starts: Any,
    ends: Any,
    steps: Any,
    axes: Sequence[int],
    decrease_axes: Any,
    none_axes: Any,
    shape: Any,
    values: Sequence,
) -> Tensor:
    """Write numbers into a slice, in place.

    Args:
        x: Input tensor.
        starts: First index along each axis.
        ends: Index after the last one along each axis.
        steps: Step along each axis.
        axes: Axes to work along.
        decrease_axes: Has no effect.
        none_axes: Has no effect.
        shape: Shape of the values.
        values: Numbers to write.

    Returns:
        ``x`` itself.

    Examples:
        >>> bireme._C_ops.set_value_(bireme.zeros([3]), [1], [3], [1], [0], [], [], [1], [5.0]).tolist()
        [0.0, 5.0, 5.0]
    """
    given = tensor.reshape(tensor.to_tensor(list(values), dtype=x.dtype), list(shape))
    return set_value_with_tensor_(x, given, starts, ends, steps, axes)


def set_value(x: Tensor, *args: Any) -> Tensor:
    """Write numbers into a slice of a copy.

    Args:
        x: Input tensor.
        *args: The other arguments of ``set_value_``.

    Returns:
        The changed copy.
    """
    return set_value_(tensor.clone(x), *args)


def repeat_interleave(x: Tensor, repeats: Any, axis: int, output_size: int = -1) -> Tensor:
    """Repeat each slice along an axis.

    Args:
        x: Input tensor.
        repeats: Number of repetitions, or a tensor of them.
        axis: Axis to work along.
        output_size: Size of the result along the axis, if it is to be checked; negative means no check. Default: -1.

    Returns:
        The repeated slices.
    """
    return tensor.repeat_interleave(x, repeats, axis, output_size=None if output_size < 0 else output_size)


repeat_interleave_with_tensor_index = repeat_interleave


def expand_as(x: Tensor, y: Tensor | None = None, target_shape: Sequence[int] = ()) -> Tensor:
    """Broadcast a tensor to a shape.

    Args:
        x: Input tensor.
        y: Tensor whose shape is taken. Default: None.
        target_shape: Shape, if ``y`` is ``None``. Default: ``[]``.

    Returns:
        The expanded tensor.
    """
    return tensor.expand(x, list(target_shape) if y is None else y.shape)


def as_strided(input: Tensor, dims: Sequence[int] = (), stride: Sequence[int] = (), offset: int = 0) -> Tensor:
    """View the storage of a tensor with given strides.

    Args:
        input: Input tensor.
        dims: Shape of the view. Default: ``[]``.
        stride: Strides in elements. Default: ``[]``.
        offset: Bytes from the start of the storage. Default: 0.

    Returns:
        The view.
    """
    return tensor.as_strided(input, list(dims), list(stride), offset)


def view_shape(x: Tensor, dims: Sequence[int] = ()) -> Tensor:
    """View the storage of a tensor in another shape.

    Args:
        x: Input tensor.
        dims: New shape. Default: ``[]``.

    Returns:
        The view.
    """
    return tensor.view(x, list(dims))


def meshgrid(inputs: Sequence[Tensor]) -> list[Tensor]:
    """Make coordinate grids from vectors.

    Args:
        inputs: 1-D tensors.

    Returns:
        List of tensors.
    """
    return tensor.meshgrid(list(inputs))


# ---------------------------------------------------------------- order


def argmax(x: Tensor, axis: int, keepdims: bool = False, flatten: bool = False, dtype: Any = "int64") -> Tensor:
    """Find the index of the maximum.

    Args:
        x: Input tensor.
        axis: Axis to work along.
        keepdims: Whether reduced axes stay with size 1. Default: False.
        flatten: Whether to work on the flattened tensor. Default: False.
        dtype: Dtype of the result. Default: ``'int64'``.

    Returns:
        The indices.
    """
    return tensor.argmax(x, None if flatten else axis, keepdims, dtype)


def argmin(x: Tensor, axis: int, keepdims: bool = False, flatten: bool = False, dtype: Any = "int64") -> Tensor:
    """Find the index of the minimum.

    Args:
        x: Input tensor.
        axis: Axis to work along.
        keepdims: Whether reduced axes stay with size 1. Default: False.
        flatten: Whether to work on the flattened tensor. Default: False.
        dtype: Dtype of the result. Default: ``'int64'``.

    Returns:
        The indices.
    """
    return tensor.argmin(x, None if flatten else axis, keepdims, dtype)


def unique(
    x: Tensor, return_index: bool, return_inverse: bool, return_counts: bool, axis: Any, dtype: Any = "int64"
) -> tuple[Tensor, ...]:
    """Find the unique elements, sorted.

    Args:
        x: Input tensor.
        return_index: Has no effect: all results are returned.
        return_inverse: Has no effect.
        return_counts: Has no effect.
        axis: Axis whose slices are compared; an empty list means elements.
        dtype: Dtype of the indices. Default: ``'int64'``.

    Returns:
        The unique elements, the indices of their first occurrences, for each element the index of its unique one, and
        the counts.

    Examples:
        >>> [t.tolist() for t in bireme._C_ops.unique(bireme.to_tensor([2, 1, 2]), True, True, True, [], "int64")]
        [[1, 2], [1, 0], [1, 0, 1], [1, 2]]
    """
    return tensor.unique(x, True, True, True, _axis(axis), dtype)


def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, axis: Any = (), dtype: Any = "int64"
) -> tuple[Tensor, ...]:
    """Remove consecutive duplicates.

    Args:
        x: Input tensor.
        return_inverse: Has no effect: all results are returned. Default: False.
        return_counts: Has no effect. Default: False.
        axis: Axis whose slices are compared; none means elements. Default: ``[]``.
        dtype: Dtype of the indices. Default: ``'int64'``.

    Returns:
        The elements left, for each element the index of its own among them, and the counts.
    """
    return tensor.unique_consecutive(x, True, True, _axis(axis), dtype)


# ---------------------------------------------------------------- matrices


def einsum(x: Sequence[Tensor], equation: str) -> tuple[Tensor, list, list]:
    """Compute a sum of products in Einstein's notation.

    Args:
        x: Operands.
        equation: Equation, as ``'ij,jk->ik'``.

    Returns:
        The result, and two empty lists.

    Examples:
        >>> bireme._C_ops.einsum([bireme.to_tensor([1.0, 2.0])], "i->")[0].item()
        3.0
    """
    return tensor.einsum(equation, *x), [], []


def qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """Compute the QR factorization of matrices.

    Args:
        x: Input tensor.
        mode: ``'reduced'``, ``'complete'`` or ``'r'``. Default: ``'reduced'``.

    Returns:
        Both factors; the first is empty in mode ``'r'``.
    """
    return (tensor.empty([0], x.dtype), linalg.qr(x, mode)) if mode == "r" else linalg.qr(x, mode)


def matrix_rank(x: Tensor, tol: float = 0.0, use_default_tol: bool = True, hermitian: bool = False) -> Tensor:
    """Compute the rank of matrices: the number of singular values above a tolerance.

    Args:
        x: Input tensor.
        tol: Tolerance. Default: 0.0.
        use_default_tol: Whether to use the default tolerance instead. Default: True.
        hermitian: Whether the matrices are Hermitian. Default: False.

    Returns:
        The ranks.
    """
    return linalg.matrix_rank(x, None if use_default_tol else tol, hermitian)


def norm(x: Tensor, axis: int, epsilon: float = 1e-10, is_test: bool = False) -> tuple[Tensor, Tensor]:
    """Divide by the Euclidean norm along an axis.

    Args:
        x: Input tensor.
        axis: Axis to work along.
        epsilon: Number added to the sum of squares. Default: 1e-10.
        is_test: Has no effect. Default: False.

    Returns:
        The quotient, and the norm.
    """
    length = tensor.sqrt(tensor.sum(tensor.square(x), axis, keepdim=True) + epsilon)
    return tensor.divide(x, length), length


# ---------------------------------------------------------------- creation


def full_(output: Tensor, shape: Any, value: Any, dtype: Any = "float32", place: Any = None) -> Tensor:
    """Fill a tensor with a number in place, in another shape.

    Args:
        output: Tensor to fill.
        shape: New shape.
        value: Number.
        dtype: New dtype. Default: ``'float32'``.
        place: Has no effect. Default: None.

    Returns:
        ``output`` itself.
    """
    return _into(output, tensor.full(shape, value, dtype))


def full_int_array(value: Sequence[int], dtype: Any = "int64", place: Any = None) -> Tensor:
    """Create a tensor from a list of integers.

    Args:
        value: Integers.
        dtype: Dtype of the result. Default: ``'int64'``.
        place: Has no effect. Default: None.

    Returns:
        1-D tensor.
    """
    return tensor.to_tensor(list(value), dtype)


def fill_diagonal(x: Tensor, value: float = 0, offset: int = 0, wrap: bool = False) -> Tensor:
    """Set the diagonal of a copy to a number.

    Args:
        x: Input tensor.
        value: Number. Default: 0.
        offset: Index of the diagonal. Default: 0.
        wrap: Whether the diagonal starts again in tall matrices. Default: False.

    Returns:
        The changed copy.
    """
    return tensor.clone(x).fill_diagonal_(value, offset, wrap)


def assign_out_(x: Tensor, output: Tensor) -> Tensor:
    """Copy a tensor into another.

    Args:
        x: Input tensor.
        output: Tensor to copy into.

    Returns:
        ``output`` itself.
    """
    return _into(output, x)


def assign_value_(output: Tensor, shape: Sequence[int], dtype: Any, values: Sequence, place: Any = None) -> Tensor:
    """Write numbers into a tensor in place, in another shape.

    Args:
        output: Tensor to write to.
        shape: Shape of the result.
        dtype: Dtype of the result.
        values: Numbers.
        place: Has no effect. Default: None.

    Returns:
        ``output`` itself.
    """
    return _into(output, tensor.reshape(tensor.to_tensor(list(values), dtype), list(shape)))


def assign_value(shape: Sequence[int], dtype: Any, values: Sequence, place: Any = None) -> Tensor:
    """Create a tensor from a list of numbers and a shape.

    Args:
        shape: Shape of the result.
        dtype: Dtype of the result.
        values: Numbers.
        place: Has no effect. Default: None.

    Returns:
        The new tensor.
    """
    return tensor.reshape(tensor.to_tensor(list(values), dtype), list(shape))


# ---------------------------------------------------------------- segments and graphs


def segment_pool(x: Tensor, segment_ids: Tensor, pooltype: str = "SUM") -> Tensor:
    """Reduce the rows of each segment.

    Args:
        x: Input tensor.
        segment_ids: Segment of each row, sorted.
        pooltype: ``'SUM'``, ``'MEAN'``, ``'MAX'`` or ``'MIN'``. Default: ``'SUM'``.

    Returns:
        Tensor with a row for each segment.
    """
    kinds = {"SUM": segment_sum, "MEAN": segment_mean, "MAX": segment_max, "MIN": segment_min}
    return kinds[pooltype](x, segment_ids)


def send_u_recv(
    x: Tensor, src_index: Tensor, dst_index: Tensor, reduce_op: str = "SUM", out_size: Any = (0,)
) -> Tensor:
    """Send rows along the edges of a graph and reduce them at their destinations.

    Args:
        x: Features of the nodes.
        src_index: Source node of each edge.
        dst_index: Destination node of each edge.
        reduce_op: ``'SUM'``, ``'MEAN'``, ``'MAX'`` or ``'MIN'``. Default: ``'SUM'``.
        out_size: Number of rows of the result; 0 means as many as in ``x``. Default: ``[0]``.

    Returns:
        Tensor with a row for each node.
    """
    return graph_send_recv(x, src_index, dst_index, reduce_op.lower(), _axis(out_size) or None)
