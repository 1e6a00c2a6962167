"""`bireme.tensor`: a module that is called to make a tensor from data, and has all tensor functions as attributes.

It also holds what Paddle has under `paddle.tensor` alone: filling by dtype, and arrays of tensors, which are lists.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.errors import named
from bireme.core.declare.public import EXPORTS, PUBLIC
from bireme.core.tensor.inplace import write_out
from bireme.core.tensor.tensor import Tensor
from bireme.ops import concat, full, stack, to_tensor, uniform, zeros


class _Callable(ModuleType):
    """The module's own class: a module that can be called."""

    def __call__(
        self, data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
    ) -> Tensor:
        """Create a tensor from Python numbers, nested lists, a NumPy array or another tensor; the data is copied.

        Args:
            data: Number, nested list or tuple of numbers, array, or tensor.
            dtype: Dtype of the tensor; ``None`` infers it as ``to_tensor`` does. Default: None.
            device: Device to put it on; ``None`` means the current one. Default: None.
            requires_grad: Whether it collects gradients. Default: False.
            pin_memory: Has no effect. Default: False.

        Returns:
            A new tensor.

        Examples:
            >>> bireme.tensor([1.0, 2.0], requires_grad=True).stop_gradient
            False
        """
        # pinned memory is a matter of the copy to a device, which XLA stages itself
        return to_tensor(data, dtype, device, stop_gradient=not requires_grad)


# ---------------------------------------------------------------- filling


@named
def fill_constant(
    shape: Any,
    dtype: Any,
    value: Any,
    force_cpu: bool = False,
    out: Tensor | None = None,
    place: Any = None,
    name: str | None = None,
) -> Tensor:
    """Create a tensor filled with a number; ``full`` with its arguments in another order.

    Args:
        shape: Shape of the tensor.
        dtype: Dtype of the tensor; ``None`` means float64.
        value: Number, or a string that spells one.
        force_cpu: Whether to put it on the CPU. Default: False.
        out: Tensor that takes over the result and is returned. Default: None.
        place: Device to put it on, unless ``force_cpu`` is true; ``None`` means the current one. Default: None.
        name: Not used; kept for Paddle's signature.

    Returns:
        Tensor of shape ``shape``.

    Examples:
        >>> bireme.tensor.fill_constant([2], "int64", "7").tolist()
        [7, 7]
    """
    if isinstance(value, str):
        value = float(value) if not value.lstrip("+-").isdigit() else int(value)
    made = full(shape, value, dtype or "float64", device="cpu" if force_cpu else place)
    return made if out is None else write_out(out, made, "fill_constant")


@named
def create_global_var(
    shape: Any, value: Any, dtype: Any, persistable: bool = False, force_cpu: bool = False, name: str | None = None
) -> Tensor:
    """Create a tensor filled with a number that a program keeps between its runs.

    Args:
        shape: Shape of the tensor.
        value: Number to fill it with.
        dtype: Dtype of the tensor.
        persistable: Value of its attribute ``persistable``. Default: False.
        force_cpu: Whether to put it on the CPU. Default: False.
        name: Not used; kept for Paddle's signature.

    Returns:
        The tensor.

    Examples:
        >>> bireme.tensor.create_global_var([2], 0.5, "float32").tolist()
        [0.5, 0.5]
    """
    made = fill_constant(shape, dtype, value, force_cpu)
    made.persistable = persistable
    return made


@named
def create_tensor(dtype: Any, name: str | None = None, persistable: bool = False) -> Tensor:
    """Create a tensor of a dtype to be filled later, for example as the ``output`` of ``assign``.

    Args:
        dtype: Dtype of the tensor.
        name: Not used; kept for Paddle's signature.
        persistable: Value of its attribute ``persistable``. Default: False.

    Returns:
        0-D tensor of zero.

    Examples:
        >>> bireme.assign(bireme.ones([2]), bireme.tensor.create_tensor("float32")).tolist()
        [1.0, 1.0]
    """
    made = zeros([], dtype)
    made.persistable = persistable
    return made


@named
def uniform_random_batch_size_like(
    input: Tensor,
    shape: Any,
    dtype: Any = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Tensor:
    """Draw uniform random numbers in a shape that takes one size from another tensor.

    Args:
        input: Tensor that one size is taken from.
        shape: Shape of the result; its size at ``output_dim_idx`` is replaced.
        dtype: Dtype of the result. Default: ``'float32'``.
        input_dim_idx: Axis of ``input`` whose size is taken. Default: 0.
        output_dim_idx: Axis of the result that gets it. Default: 0.
        min: Lower bound, included. Default: -1.0.
        max: Upper bound, excluded. Default: 1.0.
        seed: Seed; 0 continues the framework's random stream. Default: 0.

    Returns:
        Tensor of random numbers.

    Examples:
        >>> bireme.tensor.uniform_random_batch_size_like(bireme.zeros([3, 4]), [-1, 5]).shape
        [3, 5]
    """
    sizes = list(shape)
    sizes[output_dim_idx] = input.shape[input_dim_idx]
    return uniform(sizes, dtype, min, max, seed)


@named
def gaussian_(x: Tensor, mean: complex = 0.0, std: float = 1.0, seed: int = 0, name: str | None = None) -> Tensor:
    """Fill a tensor with normally distributed random numbers, in place.

    Args:
        x: Tensor to fill.
        mean: Mean of the distribution. Default: 0.0.
        std: Standard deviation of the distribution. Default: 1.0.
        seed: Has no effect. Default: 0.
        name: Not used; kept for Paddle's signature.

    Returns:
        ``x`` itself.

    Examples:
        >>> bireme.tensor.gaussian_(bireme.zeros([2]), 3.0, 0.0).tolist()
        [3.0, 3.0]
    """
    return x.normal_(mean, std)


# ---------------------------------------------------------------- arithmetic along an axis


def _aligned(x: Tensor, y: Tensor, axis: int, where: str) -> Tensor:
    """`y` with its first axis at `axis` of `x`; -1 aligns the last axes, as broadcasting does."""
    if axis == -1 or y.ndim >= x.ndim:
        return y
    if not 0 <= axis <= x.ndim - y.ndim:
        raise errors.bad(where, f"-1, or an axis in [0, {x.ndim - y.ndim}]", axis)
    return y.reshape([*y.shape, *[1] * (x.ndim - axis - y.ndim)])


def _add_with_axis(x: Tensor, y: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    return x + _aligned(x, y, axis, "_add_with_axis(axis)")


def _subtract_with_axis(x: Tensor, y: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    return x - _aligned(x, y, axis, "_subtract_with_axis(axis)")


def _multiply_with_axis(x: Tensor, y: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    return x * _aligned(x, y, axis, "_multiply_with_axis(axis)")


def _divide_with_axis(x: Tensor, y: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    return x / _aligned(x, y, axis, "_divide_with_axis(axis)")


# ---------------------------------------------------------------- arrays of tensors: lists


def _array(x: Any, where: str) -> list:
    if not isinstance(x, list):
        raise errors.bad(where, "a list of Tensors", x, kind=errors.ArgumentTypeError)
    return x


def _place(i: Any, where: str) -> int:
    if not isinstance(i, Tensor):
        raise errors.bad(where, "a Tensor of shape [1]", i, kind=errors.ArgumentTypeError)
    if i.shape != [1]:
        raise errors.bad(where, "a Tensor of shape [1]", i, kind=errors.ArgumentError)
    return int(i.item())


@named
def create_array(dtype: Any, initialized_list: Any = None) -> list:
    """Create an array of tensors: a Python list.

    Args:
        dtype: Not used; the tensors keep their dtypes.
        initialized_list: List or tuple of tensors to begin with; ``None`` means none. Default: None.

    Returns:
        A new list.

    Raises:
        TypeError: If an element is not a Tensor.

    Examples:
        >>> len(bireme.tensor.create_array("float32", [bireme.ones([2])]))
        1
    """
    array = [] if initialized_list is None else initialized_list
    if not isinstance(array, (list, tuple)):
        raise errors.bad("create_array(initialized_list)", "a list of Tensors", array, kind=errors.NotATensorError)
    for x in array:
        if not isinstance(x, Tensor):
            raise errors.bad("create_array(initialized_list)", "only Tensors", x, kind=errors.NotATensorError)
    return list(array)


@named
def array_write(x: Tensor, i: Tensor, array: list | None = None) -> list:
    """Write a tensor at an index of an array, or append it.

    Args:
        x: Tensor to write.
        i: Index, an integer tensor of shape ``[1]``; it is at most the length of the array.
        array: List of tensors, which is changed; ``None`` makes a new one. Default: None.

    Returns:
        The array.

    Examples:
        >>> len(bireme.tensor.array_write(bireme.ones([2]), bireme.to_tensor([0])))
        1
    """
    if not isinstance(x, Tensor):
        raise errors.bad("array_write(x)", "a Tensor", x, kind=errors.ArgumentTypeError)
    at = _place(i, "array_write(i)")
    array = _array([] if array is None else array, "array_write(array)")
    if at > len(array):
        raise errors.bad("array_write(i)", f"an index in [0, {len(array)}]", at, kind=errors.OutOfRangeError)
    if at < len(array):
        array[at] = x
    else:
        array.append(x)
    return array


@named
def array_read(array: list, i: Tensor) -> Tensor:
    """Read the tensor at an index of an array.

    Args:
        array: List of tensors.
        i: Index, an integer tensor of shape ``[1]``.

    Returns:
        The tensor itself.

    Raises:
        IndexError: If the index is out of range.

    Examples:
        >>> bireme.tensor.array_read([bireme.ones([2])], bireme.to_tensor([0])).tolist()
        [1.0, 1.0]
    """
    array, at = _array(array, "array_read(array)"), _place(i, "array_read(i)")
    if not -len(array) <= at < len(array):
        raise errors.bad("array_read(i)", f"an index in [0, {len(array) - 1}]", at, kind=errors.OutOfRangeError)
    return array[at]


@named
def array_length(array: list) -> int:
    """Count the tensors in an array.

    Args:
        array: List of tensors.

    Returns:
        The number as a Python integer.

    Examples:
        >>> bireme.tensor.array_length([bireme.ones([2])])
        1
    """
    return len(_array(array, "array_length(array)"))


@named
def tensor_array_to_tensor(
    input: list, axis: int = 1, use_stack: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Concatenate or stack the tensors of an array.

    Args:
        input: List of tensors.
        axis: Axis to concatenate along, or the new axis. Default: 1.
        use_stack: Whether to stack along a new axis instead of concatenating. Default: False.
        name: Not used; kept for Paddle's signature.

    Returns:
        The joined tensor, and an int64 tensor with the size of each input along ``axis``.

    Examples:
        >>> bireme.tensor.tensor_array_to_tensor([bireme.ones([1, 1]), bireme.ones([1, 3])])[1].tolist()
        [1, 3]
    """
    array = _array(input, "tensor_array_to_tensor(input)")
    made = stack(array, axis) if use_stack else concat(array, axis)
    return made, to_tensor([x.shape[axis] for x in array], "int64")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    found = PUBLIC.get(EXPORTS.get(name, name))
    if found is None:  # what is at the top level and no operator: is_tensor, create_parameter
        found = vars(sys.modules[__package__]).get(name)
        if found is None or isinstance(found, ModuleType):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return found


sys.modules[__name__].__class__ = _Callable


guard_functions(globals())
