"""Kernels of shapes, places, order and creation whose arguments stand in another order than those of the public functions.

They are as `paddle._C_ops` has them: sizes and axes as lists, results that the public functions leave out.
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
    """No axes stand for all of them, one for itself."""
    return (axis[0] if len(axis) == 1 else list(axis) or None) if isinstance(axis, (list, tuple)) else axis


# ---------------------------------------------------------------- parts


def _at(axes: Sequence[int], starts: Any, ends: Any, steps: Any, ndim: int) -> tuple:
    index = [slice(None)] * ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        index[axis] = slice(int(start), int(end), int(step))
    return tuple(index)


def part(input: Tensor, axes: Sequence[int], starts: Any, ends: Any, infer_flags: Any = (), decrease_axis: Sequence[int] = ()) -> Tensor:
    """A part of each axis that is named; those to decrease have one element and go."""
    found = tensor.slice(input, list(axes), starts, ends)
    return tensor.squeeze(found, list(decrease_axis)) if len(decrease_axis) else found


def split_with_num(x: Tensor, num: int, axis: int) -> list[Tensor]:
    """So many equal parts."""
    return tensor.split(x, num, axis)


def set_value_with_tensor_(x: Tensor, values: Tensor, starts: Any, ends: Any, steps: Any, axes: Sequence[int], decrease_axes: Sequence[int] = (),
                           none_axes: Sequence[int] = ()) -> Tensor:  # fmt: skip
    """Write values into a part of each axis that is named."""
    for axis in sorted(decrease_axes):
        if values.ndim and values.ndim >= x.ndim - len(decrease_axes) - axis:
            values = tensor.unsqueeze(values, max(values.ndim - (x.ndim - len(decrease_axes)) + axis, 0))
    for axis in sorted(none_axes, reverse=True):
        values = tensor.squeeze(values, axis)
    x[_at(axes, starts, ends, steps, x.ndim)] = values
    return x


def set_value_with_tensor(x: Tensor, *args: Any) -> Tensor:
    """The tensor with values in a part of each axis that is named."""
    return set_value_with_tensor_(tensor.clone(x), *args)


def set_value_(x: Tensor, starts: Any, ends: Any, steps: Any, axes: Sequence[int], decrease_axes: Any, none_axes: Any, shape: Any,
               values: Sequence) -> Tensor:  # fmt: skip
    """Write numbers, in the shape they are given for, into a part of each axis that is named.

    >>> bireme._C_ops.set_value_(bireme.zeros([3]), [1], [3], [1], [0], [], [], [1], [5.0]).tolist()
    [0.0, 5.0, 5.0]
    """
    given = tensor.reshape(tensor.to_tensor(list(values), dtype=x.dtype), list(shape))
    return set_value_with_tensor_(x, given, starts, ends, steps, axes)


def set_value(x: Tensor, *args: Any) -> Tensor:
    """The tensor with numbers in a part of each axis that is named."""
    return set_value_(tensor.clone(x), *args)


def index_add(x: Tensor, index: Tensor, add_value: Tensor, axis: int = 0) -> Tensor:
    """The tensor with values added at places along an axis."""
    return tensor.index_add(x, index, axis, add_value)


def index_add_(x: Tensor, index: Tensor, add_value: Tensor, axis: int = 0) -> Tensor:
    """Add values at places along an axis."""
    return tensor.index_add_(x, index, axis, add_value)


def repeat_interleave(x: Tensor, repeats: Any, axis: int, output_size: int = -1) -> Tensor:
    """Each element along an axis so many times."""
    return tensor.repeat_interleave(x, repeats, axis, output_size=None if output_size < 0 else output_size)


repeat_interleave_with_tensor_index = repeat_interleave


def expand_as(x: Tensor, y: Tensor | None = None, target_shape: Sequence[int] = ()) -> Tensor:
    """The elements repeated up to a shape."""
    return tensor.expand(x, list(target_shape) if y is None else y.shape)


def tensor_unfold(input: Tensor, axis: int, size: int, step: int) -> Tensor:
    """Windows along an axis."""
    return tensor.unfold(input, axis, size, step)


def as_strided(input: Tensor, dims: Sequence[int] = (), stride: Sequence[int] = (), offset: int = 0) -> Tensor:
    """Elements of the storage by their distances."""
    return tensor.as_strided(input, list(dims), list(stride), offset)


def view_shape(x: Tensor, dims: Sequence[int] = ()) -> Tensor:
    """The same storage in another shape."""
    return tensor.view(x, list(dims))


def view_dtype(x: Tensor, dtype: Any) -> Tensor:
    """The same storage as another type."""
    return tensor.view(x, dtype)


def meshgrid(inputs: Sequence[Tensor]) -> list[Tensor]:
    """Coordinates of a grid."""
    return tensor.meshgrid(list(inputs))


# ---------------------------------------------------------------- order


def argmax(x: Tensor, axis: int, keepdims: bool = False, flatten: bool = False, dtype: Any = "int64") -> Tensor:
    """Where the largest element is."""
    return tensor.argmax(x, None if flatten else axis, keepdims, dtype)


def argmin(x: Tensor, axis: int, keepdims: bool = False, flatten: bool = False, dtype: Any = "int64") -> Tensor:
    """Where the smallest element is."""
    return tensor.argmin(x, None if flatten else axis, keepdims, dtype)


def unique(x: Tensor, return_index: bool, return_inverse: bool, return_counts: bool, axis: Any, dtype: Any = "int64") -> tuple[Tensor, ...]:
    """Each element once, with all that `unique` can tell of them.

    >>> [t.tolist() for t in bireme._C_ops.unique(bireme.to_tensor([2, 1, 2]), True, True, True, [], "int64")]
    [[1, 2], [1, 0], [1, 0, 1], [1, 2]]
    """
    return tensor.unique(x, True, True, True, _axis(axis), dtype)


def unique_consecutive(
    x: Tensor, return_inverse: bool = False, return_counts: bool = False, axis: Any = (), dtype: Any = "int64"
) -> tuple[Tensor, ...]:
    """Each run of equals once, with all that `unique_consecutive` can tell of them."""
    return tensor.unique_consecutive(x, True, True, _axis(axis), dtype)


# ---------------------------------------------------------------- matrices


def einsum(x: Sequence[Tensor], equation: str) -> tuple[Tensor, list, list]:
    """A sum of products over labelled axes, and nothing kept for its gradient.

    >>> bireme._C_ops.einsum([bireme.to_tensor([1.0, 2.0])], "i->")[0].item()
    3.0
    """
    return tensor.einsum(equation, *x), [], []


def lu(x: Tensor, pivot: bool = True) -> tuple[Tensor, ...]:
    """Both factors in one matrix, the rows that were swapped, and whether it failed."""
    return linalg.lu(x, pivot, True)


def eigvalsh(x: Tensor, uplo: str = "L", is_test: bool = False) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of matrices that are their own adjoint."""
    return linalg.eigh(x, uplo)


def qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """An orthogonal and a triangular factor; only the second one in mode r, where the first has no elements."""
    return (tensor.empty([0], x.dtype), linalg.qr(x, mode)) if mode == "r" else linalg.qr(x, mode)


def matrix_rank(x: Tensor, tol: float = 0.0, use_default_tol: bool = True, hermitian: bool = False) -> Tensor:
    """How many singular values exceed a number."""
    return linalg.matrix_rank(x, None if use_default_tol else tol, hermitian)


def matrix_rank_tol(x: Tensor, atol_tensor: Tensor, use_default_tol: bool = True, hermitian: bool = False) -> Tensor:
    """How many singular values exceed a tensor."""
    return linalg.matrix_rank(x, atol_tensor, hermitian)


def matrix_rank_atol_rtol(x: Tensor, atol: Tensor, rtol: Tensor | None = None, hermitian: bool = False) -> Tensor:
    """How many singular values exceed the larger of a tensor and the part of the largest one that another tells.

    >>> bireme._C_ops.matrix_rank_atol_rtol(bireme.to_tensor([[4.0, 0.0], [0.0, 1.0]]), bireme.to_tensor([0.5, 2.0])).tolist()
    [2, 1]
    """
    return linalg.matrix_rank(x, hermitian=hermitian, atol=atol, rtol=rtol)


def norm(x: Tensor, axis: int, epsilon: float = 1e-10, is_test: bool = False) -> tuple[Tensor, Tensor]:
    """The tensor divided by its length along an axis, and the length."""
    length = tensor.sqrt(tensor.sum(tensor.square(x), axis, keepdim=True) + epsilon)
    return tensor.divide(x, length), length


def stft(x: Tensor, window: Tensor, n_fft: int, hop_length: int, normalized: bool, onesided: bool) -> Tensor:
    """Spectra of windows of a signal."""
    return signal.stft(x, n_fft, hop_length, None, window, False, "constant", normalized, onesided)


# ---------------------------------------------------------------- creation


def full_(output: Tensor, shape: Any, value: Any, dtype: Any = "float32", place: Any = None) -> Tensor:
    """Make a tensor one number of a shape."""
    return _into(output, tensor.full(shape, value, dtype))


def full_int_array(value: Sequence[int], dtype: Any = "int64", place: Any = None) -> Tensor:
    """Integers as a tensor."""
    return tensor.to_tensor(list(value), dtype)


def full_with_tensor(value: Tensor, shape: Any, dtype: Any = "float32") -> Tensor:
    """The number in a tensor, in a shape."""
    return tensor.full(shape, value, dtype)


def fill(x: Tensor, value: Any = 0) -> Tensor:
    """One number in the shape and type of a tensor."""
    return tensor.full_like(x, value)


def fill_diagonal(x: Tensor, value: float = 0, offset: int = 0, wrap: bool = False) -> Tensor:
    """The tensor with a number on its diagonal."""
    return tensor.clone(x).fill_diagonal_(value, offset, wrap)


def assign_out_(x: Tensor, output: Tensor) -> Tensor:
    """Give `output` the elements of `x`."""
    return _into(output, x)


def assign_value_(output: Tensor, shape: Sequence[int], dtype: Any, values: Sequence, place: Any = None) -> Tensor:
    """Give `output` numbers in a shape."""
    return _into(output, tensor.reshape(tensor.to_tensor(list(values), dtype), list(shape)))


def assign_value(shape: Sequence[int], dtype: Any, values: Sequence, place: Any = None) -> Tensor:
    """Numbers in a shape."""
    return tensor.reshape(tensor.to_tensor(list(values), dtype), list(shape))


def gaussian(shape: Any, mean: float, std: float, seed: int, dtype: Any = None, place: Any = None) -> Tensor:
    """Numbers of a normal distribution."""
    return normal_numbers(shape, mean, std, seed, dtype)


def gaussian_inplace_(x: Tensor, mean: float = 0, std: float = 1.0, seed: int = 0) -> Tensor:
    """Fill a tensor with numbers of a normal distribution."""
    return x.normal_(mean, std)


def uniform_inplace_(
    x: Tensor, min: float = -1.0, max: float = 1.0, seed: int = 0, diag_num: int = 0, diag_step: int = 0, diag_val: float = 1.0
) -> Tensor:
    """Fill a tensor with numbers of an interval."""
    return x.uniform_(min, max, seed)


def increment_(x: Tensor, value: float = 1.0) -> Tensor:
    """Add a number to a tensor of one element."""
    return tensor.increment(x, value)


# ---------------------------------------------------------------- segments and graphs


def segment_pool(x: Tensor, segment_ids: Tensor, pooltype: str = "SUM") -> Tensor:
    """One value for each segment."""
    kinds = {"SUM": segment_sum, "MEAN": segment_mean, "MAX": segment_max, "MIN": segment_min}
    return kinds[pooltype](x, segment_ids)


def send_u_recv(x: Tensor, src_index: Tensor, dst_index: Tensor, reduce_op: str = "SUM", out_size: Any = (0,)) -> Tensor:
    """Messages along edges, gathered where they end."""
    return graph_send_recv(x, src_index, dst_index, reduce_op.lower(), _axis(out_size) or None)
