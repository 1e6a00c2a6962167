"""Kernels of shapes, indexing, sorting and creation that take their arguments in another order than the public ones.

They are as in `paddle._C_ops`: sizes and axes as lists, results that the public functions leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bireme import linalg, signal, tensor
from bireme.core.tensor.tensor import Tensor
from bireme.ops import gaussian as normal_numbers
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


def part(input: Tensor, axes: Sequence[int], starts: Any, ends: Any, infer_flags: Any = (), decrease_axis: Sequence[int] = ()) -> Tensor:
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


def split_with_num(x: Tensor, num: int, axis: int) -> list[Tensor]:
    """Split a tensor into equal parts.

    Args:
        x: Input tensor.
        num: Number of parts.
        axis: Axis to work along.

    Returns:
        List of tensors.
    """
    return tensor.split(x, num, axis)


def set_value_with_tensor_(x: Tensor, values: Tensor, starts: Any, ends: Any, steps: Any, axes: Sequence[int], decrease_axes: Sequence[int] = (),
                           none_axes: Sequence[int] = ()) -> Tensor:  # fmt: skip
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


def set_value_(x: Tensor, starts: Any, ends: Any, steps: Any, axes: Sequence[int], decrease_axes: Any, none_axes: Any, shape: Any,
               values: Sequence) -> Tensor:  # fmt: skip
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


def index_add(x: Tensor, index: Tensor, add_value: Tensor, axis: int = 0) -> Tensor:
    """Add slices at indices along an axis.

    Args:
        x: Input tensor.
        index: 1-D tensor of indices.
        add_value: Slices to add.
        axis: Axis to work along. Default: 0.

    Returns:
        Tensor of the shape of ``x``.
    """
    return tensor.index_add(x, index, axis, add_value)


def index_add_(x: Tensor, index: Tensor, add_value: Tensor, axis: int = 0) -> Tensor:
    """Add slices at indices along an axis, in place.

    Args:
        x: Input tensor.
        index: 1-D tensor of indices.
        add_value: Slices to add.
        axis: Axis to work along. Default: 0.

    Returns:
        ``x`` itself.
    """
    return tensor.index_add_(x, index, axis, add_value)


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


def tensor_unfold(input: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Extract sliding windows along an axis.

    Args:
        input: Input tensor.
        axis: Axis to work along.
        size: Size of a window.
        step: Distance from one window to the next.

    Returns:
        View with the windows along a new last axis.
    """
    return tensor.unfold(input, axis, size, step)


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


def view_dtype(x: Tensor, dtype: Any) -> Tensor:
    """View the storage of a tensor as another dtype.

    Args:
        x: Input tensor.
        dtype: New dtype.

    Returns:
        The view.
    """
    return tensor.view(x, dtype)


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


def unique(x: Tensor, return_index: bool, return_inverse: bool, return_counts: bool, axis: Any, dtype: Any = "int64") -> tuple[Tensor, ...]:
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


def lu(x: Tensor, pivot: bool = True) -> tuple[Tensor, ...]:
    """Compute the LU factorization of matrices.

    Args:
        x: Input tensor.
        pivot: Whether rows are swapped. Default: True.

    Returns:
        Both factors in one matrix, the pivots, and an error code for each matrix.
    """
    return linalg.lu(x, pivot, True)


def eigvalsh(x: Tensor, uplo: str = "L", is_test: bool = False) -> tuple[Tensor, Tensor]:
    """Compute eigenvalues and eigenvectors of Hermitian matrices.

    Args:
        x: Input tensor.
        uplo: Triangle that is read: ``'L'`` or ``'U'``. Default: ``'L'``.
        is_test: Has no effect. Default: False.

    Returns:
        Both.
    """
    return linalg.eigh(x, uplo)


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


def matrix_rank_tol(x: Tensor, atol_tensor: Tensor, use_default_tol: bool = True, hermitian: bool = False) -> Tensor:
    """Compute the rank of matrices with a tolerance given as a tensor.

    Args:
        x: Input tensor.
        atol_tensor: Tolerance.
        use_default_tol: Has no effect. Default: True.
        hermitian: Whether the matrices are Hermitian. Default: False.

    Returns:
        The ranks.
    """
    return linalg.matrix_rank(x, atol_tensor, hermitian)


def matrix_rank_atol_rtol(x: Tensor, atol: Tensor, rtol: Tensor | None = None, hermitian: bool = False) -> Tensor:
    """Compute the rank of matrices with an absolute and a relative tolerance, the larger of which counts.

    Args:
        x: Input tensor.
        atol: Absolute tolerance.
        rtol: Tolerance relative to the largest singular value. Default: None.
        hermitian: Whether the matrices are Hermitian. Default: False.

    Returns:
        The ranks.

    Examples:
        >>> x, atol = bireme.to_tensor([[4.0, 0.0], [0.0, 1.0]]), bireme.to_tensor([0.5, 2.0])
        >>> bireme._C_ops.matrix_rank_atol_rtol(x, atol).tolist()
        [2, 1]
    """
    return linalg.matrix_rank(x, hermitian=hermitian, atol=atol, rtol=rtol)


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


def stft(x: Tensor, window: Tensor, n_fft: int, hop_length: int, normalized: bool, onesided: bool) -> Tensor:
    """Compute the short-time Fourier transform of a signal.

    Args:
        x: Input tensor.
        window: Window function.
        n_fft: Size of a transform.
        hop_length: Distance from one window to the next.
        normalized: Whether to divide by the root of ``n_fft``.
        onesided: Whether to return only the non-redundant half.

    Returns:
        The spectra.
    """
    return signal.stft(x, n_fft, hop_length, None, window, False, "constant", normalized, onesided)


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


def full_with_tensor(value: Tensor, shape: Any, dtype: Any = "float32") -> Tensor:
    """Create a tensor filled with the number in another.

    Args:
        value: Tensor of one element.
        shape: Shape of the result.
        dtype: Dtype of the result. Default: ``'float32'``.

    Returns:
        The new tensor.
    """
    return tensor.full(shape, value, dtype)


def fill(x: Tensor, value: Any = 0) -> Tensor:
    """Create a tensor of the shape and dtype of another, filled with a number.

    Args:
        x: Input tensor.
        value: Number. Default: 0.

    Returns:
        The new tensor.
    """
    return tensor.full_like(x, value)


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


def gaussian(shape: Any, mean: float, std: float, seed: int, dtype: Any = None, place: Any = None) -> Tensor:
    """Draw normally distributed random numbers.

    Args:
        shape: Shape of the result.
        mean: Mean of the distribution.
        std: Standard deviation of the distribution.
        seed: Seed; 0 continues the random stream.
        dtype: Dtype of the result. Default: None.
        place: Has no effect. Default: None.

    Returns:
        The new tensor.
    """
    return normal_numbers(shape, mean, std, seed, dtype)


def gaussian_inplace_(x: Tensor, mean: float = 0, std: float = 1.0, seed: int = 0) -> Tensor:
    """Fill a tensor with normally distributed random numbers.

    Args:
        x: Input tensor.
        mean: Mean of the distribution. Default: 0.
        std: Standard deviation of the distribution. Default: 1.0.
        seed: Has no effect. Default: 0.

    Returns:
        ``x`` itself.
    """
    return x.normal_(mean, std)


def uniform_inplace_(
    x: Tensor, min: float = -1.0, max: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0, diag_val: float = 1.0
) -> Tensor:
    """Fill a tensor with uniform random numbers.

    Args:
        x: Input tensor.
        min: Lower bound. Default: -1.0.
        max: Upper bound. Default: 1.0.
        seed: Seed; 0 continues the random stream. Default: 0.
        diag_num: Has no effect. Default: 0.
        diag_step: Has no effect. Default: 0.
        diag_val: Has no effect. Default: 1.0.

    Returns:
        ``x`` itself.
    """
    return x.uniform_(min, max, seed)


def increment_(x: Tensor, value: float = 1.0) -> Tensor:
    """Add a number to a tensor of one element, in place.

    Args:
        x: Input tensor.
        value: Number. Default: 1.0.

    Returns:
        ``x`` itself.
    """
    return tensor.increment(x, value)


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


def send_u_recv(x: Tensor, src_index: Tensor, dst_index: Tensor, reduce_op: str = "SUM", out_size: Any = (0,)) -> Tensor:
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
