"""Introspection of a tensor: its address, storage and gradient node, and functions applied to it."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors, mesh
from bireme.core.base.device import Place
from bireme.core.declare.op import Tensor
from bireme.core.graph import segment
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.inplace import adopt, assign_inplace, bump
from bireme.core.tensor.tape import target_of
from bireme.core.tensor.tensor import read
from bireme.core.tensor.view import layout
from bireme.ops.creation.tensors import full


class GradNode:
    """A node of the backward graph: its `name()` and, in `next_functions`, where its gradients go."""

    __slots__ = ("_target",)

    def __init__(self, target: Any):
        self._target = target

    def name(self) -> str:
        """Name of the operator, as in `TanhGradNode`; a leaf's is `GradNodeAccumulation`.

        >>> x = bireme.to_tensor([1.0], stop_gradient=False)
        >>> bireme.tanh(x).grad_fn.name()
        'TanhGradNode'
        """
        if isinstance(self._target, Tensor):
            return "GradNodeAccumulation"
        return "".join(word.capitalize() for word in self._target[0].name.split("_")) + "GradNode"

    @property
    def next_functions(self) -> list[GradNode | None]:
        """The nodes that its gradients go to, one for each operand that requires any."""
        if isinstance(self._target, Tensor):
            return [None]
        return [GradNode(target) for target in self._target[0].inputs or () if target is not None]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GradNode) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Any:
        return id(self._target) if isinstance(self._target, Tensor) else (id(self._target[0]), self._target[1])

    def __repr__(self) -> str:
        return f"<{self.name()}>"


def _grad_fn(self: Tensor) -> GradNode | None:
    """The node of the backward graph that computed the tensor, or None if there is none."""
    read(self)  # a view may have been written through another handle
    target = target_of(self)
    return None if target is None else GradNode(target)


def data_ptr(self: Tensor) -> int:
    """Address of the elements in the memory of their device; runs pending operators.

    Examples:
        >>> bireme.ones([2]).data_ptr() != 0
        True
    """
    return 0 if self.size == 0 else self._exported().unsafe_buffer_pointer()


def _is_initialized(self: Tensor) -> bool:
    """Whether it has elements in memory, or will have: all but empty tensors and parameters that wait for `initialize`."""
    return self.size > 0 and "_init_func" not in getattr(self, "__dict__", ())


def _numel(self: Tensor) -> int:
    """Number of elements as a Python integer."""
    return self.size


def _inplace_version(self: Tensor) -> int:
    """How often an in-place operator changed it, as a method."""
    return self.inplace_version


def _is_shared_buffer_with(self: Tensor, other: Tensor, /) -> bool:
    """Whether a write into one is seen by the other."""
    return self is other or (self._view is not None and other._view is not None and self._view.cell is other._view.cell)


def _grad_ivar(self: Tensor) -> Tensor | None:
    """The gradient kept here, as a method."""
    return self.grad


def _set_grad_ivar(self: Tensor, value: Tensor, /) -> None:
    """Set the gradient, as a method."""
    self.grad = value


def _offset(self: Tensor) -> int:
    """Offset of the first element in the storage, in bytes."""
    return layout(self)[1] * self.element_size()


def _zero_grads(self: Tensor) -> None:
    """Set the gradient to zeros, if there is one."""
    self.clear_gradient()


def _copy_to(self: Tensor, place: Any, blocking: bool = True, /) -> Tensor:
    """A copy on the device `place`, without autograd history."""
    with no_grad():
        made = self.clone().to(place)
    made.persistable = self.persistable
    return made


def _to(self: Tensor, device: Any = None, dtype: Any = None, blocking: bool | None = None) -> Tensor:
    """The tensor on another device or in another dtype."""
    if blocking is not None and not isinstance(blocking, bool):
        raise errors.bad("_to(blocking)", "True, False or None", blocking, kind=errors.ArgumentTypeError)
    if device is not None and not isinstance(device, (str, Place)):
        raise errors.bad("_to(device)", "a Place or a device name", device)
    # the class's own: programs replace `to` of parameters by a function that calls this one
    return Tensor.to(self, device=device, dtype=dtype)  # type: ignore[attr-defined]  # installed by ops.attribute


def _bump_inplace_version(self: Tensor) -> None:
    """Count an in-place change that no operator made."""
    bump(self)


def _clear(self: Tensor) -> None:
    """Release the elements: the tensor becomes empty."""
    adopt(self, full([0], 0, self.dtype))


def _reset_grad_inplace_version(self: Tensor, set_to_zero: bool = False, /) -> None:
    """Count the changes of the gradient from 0 again, if told to: what was saved of it counts as unchanged."""
    if set_to_zero and self.grad is not None:
        self._grad = self.grad.detach().clone()  # type: ignore[attr-defined]  # installed by core.view


def _share_buffer_to(self: Tensor, other: Tensor, /) -> None:
    """Let another tensor share the storage of this one."""
    adopt(other, self.detach())  # type: ignore[attr-defined]  # installed by core.view


def _copy_gradient_from(self: Tensor, other: Tensor, /) -> None:
    """Take the values of another tensor as the gradient."""
    self.grad = other.detach().clone()  # type: ignore[attr-defined]  # installed by core.view


def _set(self: Tensor, value: Any, place: Any = None, /) -> None:
    """Replace the tensor by one made from other values, without autograd history.

    Args:
        value: What the values are made from: a NumPy array, a tensor, a list.
        place: Device to put them on; ``None`` means the current one. Default: None.

    Examples:
        >>> x = bireme.zeros([1]); x.set([1.0, 2.0]); x.tolist()
        [1.0, 2.0]
    """
    _become(self, Tensor(value, place=place), "set")


_set.__name__ = _set.__qualname__ = "set"


def _use_gpudnn(self: Tensor, use_gpudnn: bool = True) -> Tensor:
    """The tensor itself: which kernels compute with it is XLA's choice."""
    return self


def _md5sum(self: Tensor) -> str:
    """A checksum of the elements' bytes."""
    return hashlib.md5(self._host().tobytes(), usedforsecurity=False).hexdigest()


def _slice(self: Tensor, begin_idx: int, end_idx: int) -> Tensor:
    """Rows from `begin_idx` to `end_idx` of the same storage, without history."""
    return self.detach()[begin_idx:end_idx]


def sparse_dim(self: Tensor) -> int:
    """Number of sparse axes; a dense tensor has none.

    Examples:
        >>> bireme.zeros([2, 3]).sparse_dim()
        0
    """
    return 0


def dense_dim(self: Tensor) -> int:
    """Number of dense axes: all of them, for a dense tensor.

    Examples:
        >>> bireme.zeros([2, 3]).dense_dim()
        2
    """
    return self.ndim


def apply(self: Tensor, func: Callable) -> Tensor:
    """Apply a function to the tensor, which must not require gradients.

    Args:
        func: Function that takes a Tensor and returns one.

    Returns:
        What the function returns.

    Raises:
        RuntimeError: If the tensor requires gradients.

    Examples:
        >>> bireme.to_tensor([1.0, 2.0]).apply(lambda x: x * 2).tolist()
        [2.0, 4.0]
    """
    return _applied(self, func, "apply")


def apply_(self: Tensor, func: Callable) -> Tensor:
    """Apply a function to the tensor in place: its result is assigned to the tensor, which must not require gradients.

    Args:
        func: Function that takes a Tensor and returns one.

    Returns:
        The tensor itself.

    Raises:
        RuntimeError: If the tensor requires gradients.

    Examples:
        >>> bireme.to_tensor([1.0, 2.0]).apply_(lambda x: x * 2).tolist()
        [2.0, 4.0]
    """
    return assign_inplace(self, _applied(self, func, "apply_"), "apply_")


def _applied(x: Tensor, func: Any, name: str) -> Tensor:
    if not callable(func):
        raise errors.bad(f"{name}(func)", "a function of a Tensor", func, kind=errors.ArgumentTypeError)
    if not x.stop_gradient:
        raise errors.bad(
            f"{name}()",
            "a tensor that does not require gradients",
            described="a tensor that requires gradients",
            hint="use x.detach()",
            kind=RuntimeError,
        )
    found = func(x)
    if not isinstance(found, Tensor):
        raise errors.bad(
            f"{name}(func)",
            "a function that returns a Tensor",
            described=f"a function that returns {errors.show(found)}",
            kind=errors.ArgumentTypeError,
        )
    return found


class VarType(enum.Enum):
    """Kinds of variables, as Paddle names them.

    >>> bireme.zeros([1]).type.name
    'DENSE_TENSOR'
    """

    DENSE_TENSOR = 7

    def __str__(self) -> str:
        return f"VarType.{self.name}"


def create_tensor(self: Tensor, name: str | None = None, persistable: bool = False) -> Tensor:
    """Create a 0-D tensor of zero with the dtype of this one, to be filled later.

    Args:
        name: Name of the new tensor. Default: None.
        persistable: Whether programs keep it between their runs. Default: False.

    Returns:
        The new tensor.

    Examples:
        >>> bireme.ones([2], "int32").create_tensor(name="count").dtype
        bireme.int32
    """
    made = full([], 0, self.dtype)
    made.persistable = persistable
    if name is not None:
        made.name = name
    return made


def reconstruct_from_(self: Tensor, other: Tensor) -> None:
    """Take over values, shape and dtype of another tensor, without its autograd history.

    Args:
        other: Tensor to take from.

    Examples:
        >>> x = bireme.zeros([1]); x.reconstruct_from_(bireme.ones([2])); x.tolist()
        [1.0, 1.0]
    """
    _become(self, other, "reconstruct_from_")


def set_tensor(self: Tensor, other: Tensor) -> None:
    """Take over values, shape and dtype of another tensor, without its autograd history.

    Args:
        other: Tensor to take from.

    Examples:
        >>> x = bireme.zeros([1]); x.set_tensor(bireme.ones([2])); x.tolist()
        [1.0, 1.0]
    """
    _become(self, other, "set_tensor")


def _become(x: Tensor, other: Any, name: str) -> None:
    if not isinstance(other, Tensor):
        raise errors.bad(f"{name}(other)", "a Tensor", other, kind=errors.NotATensorError)
    if segment.local.trace is not None:
        segment.local.trace.spoiled = True
    x._value, x._edge, x._view = read(other), None, None
    x._version += 1


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    self.grad = value


def _distribution(self: Tensor) -> tuple[Any, Any]:
    """The mesh and the placements of a tensor on a mesh, as `distributed` names them."""
    return (None, None) if mesh.Reader.placements is None or not _is_dist(self) else mesh.Reader.placements(self)


def _local_value(self: Tensor) -> Tensor:
    """The part of the tensor that this process has, as a tensor of its own; of a tensor on no mesh, all of it."""
    return self.detach() if mesh.Reader.local is None or not _is_dist(self) else mesh.Reader.local(self)


def _is_dist(self: Tensor) -> bool:
    """Whether the tensor has a mesh and placements, which ``distributed.shard_tensor`` gives.

    Returns:
        True or False.

    Examples:
        >>> bireme.zeros([1]).is_dist()
        False
    """
    return self._value.device.several


def _install() -> None:
    # what Paddle's older code asks for
    seldom = (
        _is_initialized,
        _numel,
        _inplace_version,
        _is_shared_buffer_with,
        _grad_ivar,
        _set_grad_ivar,
        _offset,
        _zero_grads,
        _copy_to,
        _slice,
        _to,
        _bump_inplace_version,
        _clear,
        _share_buffer_to,
        _copy_gradient_from,
        _reset_grad_inplace_version,
        _use_gpudnn,
        _md5sum,
    )
    for method in (
        data_ptr,
        sparse_dim,
        dense_dim,
        apply,
        apply_,
        create_tensor,
        reconstruct_from_,
        set_tensor,
        *seldom,
    ):
        setattr(Tensor, method.__name__, method)
    again = {
        "set": _set,
        "_ptr": data_ptr,
        "_clear_data": _clear,
        "_share_data_with": lambda self, other: _share_buffer_to(other, self),
        "_dtype": lambda self: self.dtype,
        "_place": lambda self: self.place,
        "_grad_value": _grad_ivar,
        "_share_underline_tensor_to": _share_buffer_to,
        "_is_shared_underline_tensor_with": _is_shared_buffer_with,
    }
    for name, same in again.items():
        setattr(Tensor, name, same)
    facts = {
        "grad_fn": property(_grad_fn, doc=_grad_fn.__doc__),
        "_place_str": property(lambda self: str(self.place), doc="The device as a string."),
        "grad_": property(lambda self: self.grad, _set_grad, doc="The gradient: the same as `grad`."),
        "type": property(lambda self: VarType.DENSE_TENSOR, doc="The kind of variable: a dense tensor."),
        "layout": property(lambda self: "NCHW", doc="Memory layout: always row-major in the order of the axes."),
        "num_shard": property(lambda self: None, doc="Number of shards; None for a tensor that is not distributed."),
        "placements": property(lambda self: _distribution(self)[1], doc="Placements; None if it has none."),
        "process_mesh": property(lambda self: _distribution(self)[0], doc="Mesh of processes; None if it has none."),
        "_local_value": _local_value,
        "_local_shape": property(lambda self: _local_value(self).shape, doc="Shape of what this process has of it."),
        "is_dist": _is_dist,
    }
    for name, fact in facts.items():
        setattr(Tensor, name, fact)


_install()
