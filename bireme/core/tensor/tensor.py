"""Tensor: a handle on a value, with Paddle's attributes. Operators install their methods when `ops` is imported."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any
from weakref import ref

import jax
import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors, registry, shutdown
from bireme.core.base.device import Place
from bireme.core.base.dtype import DType
from bireme.core.base.host_arrays import KNOWN, OnHost, convert, host_array
from bireme.core.graph.graph import Sig, Value, Zero, sig_of
from bireme.core.graph.segment import guarding, local
from bireme.core.record import agreement, flush, guards
from bireme.core.record.host_integers import peek
from bireme.core.run import lookup, loss_reads
from bireme.core.tensor.printing import describe

FEW = 4096  # integers that are looked at when they are read, in case that they are indices

_serial = [0]


if TYPE_CHECKING:  # what operators and other modules install when they are imported; `make api` writes it down
    from bireme.core.tensor.methods import Methods
else:
    Methods = OnHost


class Tensor(Methods):
    """A multi-dimensional array on a device, through which gradients can be computed.

    Use ``bireme.to_tensor`` to create one. The constructor is Paddle's: several ints are a shape, and a list gives
    float32 whatever its numbers are. ``stop_gradient`` is True unless gradients are asked for.

    Args:
        value: A list, a number, an array or a tensor, which are copied; or the first of several ints, which are the
            shape of a tensor of zeros. Default: None, an empty tensor.
        dtype: Dtype; for a list float32. Default: None, that of ``value``.
        place: Device. Default: None, the current one.
        *more: Further ints of a shape, or ``stop_gradient``; or Paddle's other positional arguments.
        stop_gradient: Whether no gradient is computed for it. Default: True.
        name: Name. Default: None, a generated one.
        persistable: Kept as an attribute, as Paddle does for parameters and buffers. Default: False.
        zero_copy: Has no effect: memory is never shared with ``value``.
        dims: Shape of a tensor of zeros, with ``dtype``. Default: None.
        type: Has no effect.
        data: Same as ``value``. Default: None.
        device: Same as ``place``. Default: None.

    Examples:
        >>> bireme.Tensor([1, 2]).tolist(), bireme.Tensor(2, 3).shape
        ([1.0, 2.0], [2, 3])
    """

    __slots__ = ("_value", "_edge", "_stop_gradient", "_view", "__dict__", "__weakref__")

    _value: Value
    _edge: Any  # (Edge, output index) of the tape, or None
    _view: Any  # view.View when the storage is shared with other tensors
    _stop_gradient: bool

    # what few tensors have is kept in the instance's own dict over these defaults
    _grad: Tensor | None = None
    _hooks: Any = None  # on the gradient
    _after: Any = None  # when the gradient has been added
    _version = 0
    _name: str | None = None
    persistable = False

    def __init__(
        self,
        value: Any = None,
        dtype: Any = None,
        place: Any = None,
        *more: Any,
        stop_gradient: bool = True,
        name: str | None = None,
        persistable: bool = False,
        zero_copy: bool = False,
        dims: Any = None,
        type: Any = None,
        data: Any = None,
        device: Any = None,
    ):
        # memory is never shared with `value`, whatever `zero_copy` says: arrays of the engine do not change
        value, place = value if data is None else data, place if device is None else device
        if value.__class__ is int and data is None:  # extents, one after the other
            extents = (value, *[n for n in (dtype, place, *more) if n.__class__ is int])
            if min(extents) < 0:
                raise errors.bad("Tensor()", "non-negative sizes", list(extents))
            more, dtype, place = (), dtypes.float32, None if place.__class__ is int else place
            value = np.zeros(extents, np.float32)
        elif dtype is None and (
            value.__class__ is list or value.__class__ is tuple or (data is not None and isinstance(data, (int, float)))
        ):
            dtype = dtypes.float32  # whatever the numbers are; `to_tensor` looks at them
        if isinstance(dtype, Place) or isinstance(value, DType) or dims is not None or len(more) > 1:
            given = _as_paddle_has_them(value, dtype, place, stop_gradient, more, name, persistable, dims)
            value, dtype, place, stop_gradient, name, persistable = given
        elif more:
            stop_gradient = more[0]
        elif isinstance(value, Tensor):
            persistable = persistable or value.persistable
        source = [] if value is None else value
        self._value = value_of(source, dtype, place) if not isinstance(source, Value) else source
        self._edge = self._view = None
        self._stop_gradient = stop_gradient
        if name is not None:
            self._name = name
        if persistable:
            self.persistable = True

    # ------------------------------------------------------------ what it is

    @property
    def _sig(self) -> Sig:
        return self._value.sig

    @property
    def _carrier(self) -> Tensor:
        """The tensor that is differentiated: itself; of a sparse tensor, the one of its values."""
        return self

    def _carried(self, gradient: Tensor) -> Tensor:
        """A gradient of what `_carrier` is, in the form that this tensor has."""
        return gradient

    @property
    def shape(self) -> list[int]:
        """Shape, as a list of ints."""
        return list(self._value.sig.shape)

    @property
    def dtype(self) -> DType:
        """Data type of the elements."""
        return self._value.sig.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._value.sig.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._value.sig.size

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        return self._value.sig.nbytes

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes."""
        return self._value.sig.dtype.itemsize

    @property
    def place(self) -> Place:
        """Device that the tensor is stored on."""
        return self._value.device.place

    @property
    def is_leaf(self) -> bool:
        """Whether the tensor was not computed by a recorded operator."""
        return self._stop_gradient or _edge_of(self) is None

    @property
    def stop_gradient(self) -> bool:
        """Whether no gradient is computed for it; the engine reads and sets the slot itself, which is faster."""
        return self._stop_gradient

    @stop_gradient.setter
    def stop_gradient(self, wanted: bool) -> None:
        if not isinstance(wanted, (bool, np.bool_)):
            raise errors.bad("stop_gradient", "True or False", wanted, kind=errors.ArgumentTypeError)
        self._stop_gradient = bool(wanted)

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are computed for it: the opposite of ``stop_gradient``."""
        return not self._stop_gradient

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        self._stop_gradient = not wanted

    @property
    def inplace_version(self) -> int:
        """Number of inplace operations on the tensor so far."""
        view = self._view
        return self._version if view is None else view.cell.inplace_version

    @property
    def name(self) -> str:
        """Name, unique in the process unless the user has set it."""
        if self._name is None:
            _serial[0] += 1
            self._name = f"generated_tensor_{_serial[0] - 1}"
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        if not isinstance(name, str):
            raise errors.bad("name", "a str", name, kind=errors.ArgumentTypeError)
        self._name = name

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self._value.sig.ndim

    ndimension = dim

    def element_size(self) -> int:
        """Return the size of one element in bytes."""
        return self._value.sig.dtype.itemsize

    # ------------------------------------------------------------ values leave the engine

    def _array(self) -> Any:
        """The array, computed."""
        return flush.force(read(self))

    def _host(self) -> np.ndarray:
        """The values on the host, read-only."""
        v = read(self)
        found = None
        if v.array is None:
            found = peek(v)
            if found is None and v.sig.dtype.is_integer:
                flush.force(v, flush.Need.NUMBERS)
                flush.sizes_follow()
        while found is None:
            v = read(self)
            array = flush.force(v, flush.Need.NUMBERS)
            try:
                if v.device.several and array.__class__ is not np.ndarray:
                    return agreement.whole(v)
                found = array if array.__class__ is np.ndarray else shutdown.within(np.asarray, array)
            except RuntimeError:  # a step of another thread was given the buffer just now: it has put a new value here
                if v is read(self):
                    raise
            else:
                if found is not array:
                    loss_reads.was_read(array)
                    if v.sig.dtype.kind == "i" and v.bounds is None and 0 < found.size <= FEW:
                        v.bounds = int(found.min()), int(found.max())  # who uses it as an index need not ask the device
                if guarding.used:
                    guards.check(v, wait=True)  # those of the same program are there now
        return found

    def numpy(self, *_: Any) -> np.ndarray:
        """Return a copy of the values as a NumPy array; waits until they are computed.

        A bfloat16 tensor becomes an array of ``ml_dtypes.bfloat16``.

        Examples:
            >>> bireme.to_tensor([1, 2]).numpy().tolist()
            [1, 2]
        """
        return np.array(dtypes.as_paddle_shows(self._host()))

    # a flag of old that Paddle takes, and that means nothing any more, is no part of it
    numpy.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # functions may have one
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)], return_annotation="np.ndarray"
    )

    def item(self, *args: int) -> Any:
        """Return one element as a Python number; waits until it is computed.

        Args:
            *args: Index of the element: one int for the flattened tensor, or one per dimension. It may be left out if
                there is only one element.

        Returns:
            An int, float, bool or complex.

        Examples:
            >>> bireme.to_tensor([[5, 6]]).item(1), bireme.to_tensor([[5, 6]]).item(0, 1)
            (6, 6)
        """
        host = self._host()
        if not args and host.size != 1:
            raise errors.bad(
                "item()",
                "a tensor of one element",
                described=f"shape {self.shape}",
                hint="give an index: item(i)",
                kind=errors.ShapeError,
            )
        for i in args[0] if len(args) == 1 and isinstance(args[0], tuple) else args:
            if isinstance(i, bool) or not isinstance(i, (int, np.integer, Tensor)):
                raise errors.bad("item(index)", "an integer", i, kind=errors.ArgumentTypeError)
        try:
            return _python(
                host.item(*args)
                if host.dtype.kind in "biufc" and host.dtype.isbuiltin
                else host.astype(np.float32).item(*args)
            )
        except (IndexError, ValueError, TypeError, OverflowError):
            raise errors.bad(
                "item(index)", f"an index in range for shape {self.shape}", list(args), kind=errors.OutOfRangeError
            ) from None

    def tolist(self) -> Any:
        """Return the values as nested lists of Python numbers; waits until they are computed.

        Examples:
            >>> bireme.to_tensor([[1.5]]).tolist()
            [[1.5]]
        """
        host = self._host()
        return host.tolist() if host.dtype.isbuiltin else host.astype(np.float32).tolist()

    def _number(self, kind: type, hint: str | None = None) -> Any:
        """The one element as a Python number of a type."""
        if self._value.sig.size != 1:
            raise errors.bad(
                f"{kind.__name__}(x)",
                "a tensor of one element",
                described=f"shape {self.shape}",
                hint=hint,
                kind=errors.ShapeError,
            )
        return kind(self.item())

    def __bool__(self) -> bool:
        return self._number(bool, "use .any() or .all()")

    def __int__(self) -> int:
        return self._number(int)

    def __float__(self) -> float:
        return self._number(float)

    def __complex__(self) -> complex:
        return self._number(complex)

    def __index__(self) -> int:
        if self._value.sig.size != 1:
            raise errors.bad(
                "index", "a tensor of one element", described=f"shape {self.shape}", kind=errors.ShapeError
            )
        found = self.item() if self._value.sig.dtype.kind in "ibf" else None
        if found is None or found != int(found):
            got = self.dtype.name if found is None else found
            raise errors.bad(
                "index", "an integer tensor, or one with an integral value", got, kind=errors.ArgumentTypeError
            )
        return int(found)

    def __len__(self) -> int:
        if self._value.sig.ndim == 0:
            raise errors.bad(
                "len(x)", "a tensor with at least 1 dimension", described="a 0-D tensor", kind=errors.ArgumentTypeError
            )
        return self._value.sig.shape[0]

    def __iter__(self) -> Any:
        if self._value.sig.ndim == 0:
            raise errors.bad(
                "iter(x)", "a tensor with at least 1 dimension", described="a 0-D tensor", kind=errors.ArgumentTypeError
            )
        return iter([self[i] for i in range(len(self))])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        host = dtypes.as_paddle_shows(self._host())
        out = host if dtype is None or host.dtype == dtype else host.astype(dtype)
        return np.array(out) if copy or (copy is None and out is host) else out

    def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
        if not self._stop_gradient:  # who reads it elsewhere does not know of gradients, and would cut them silently
            hint = "pass x.detach()"
            raise errors.bad(
                "__dlpack__",
                "a tensor that does not require gradients",
                described="a tensor with stop_gradient=False",
                hint=hint,
                kind=RuntimeError,
            )
        return self._exported().__dlpack__(stream=stream, **kwargs)

    def _to_dlpack(self) -> Any:
        return self._exported().__dlpack__()

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """NumPy's functions work on the values and give arrays."""
        return func(*_to_host(args), **_to_host(kwargs))

    def __dlpack_device__(self) -> Any:
        return self._exported().__dlpack_device__()

    def __jax_array__(self) -> Any:
        return self._exported()

    def _exported(self) -> Any:
        """The jax array itself, pinned: somebody outside holds it from now on."""
        v = read(self)
        array = flush.force(v)
        if isinstance(array, np.ndarray):
            v.array = lookup.put(array, v.device)
        return flush.pin(v)

    def __repr__(self) -> str:
        return describe(self, "Tensor")

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return (
            format(self.item(), spec)
            if (spec and self._value.sig.size == 1) or self._value.sig.ndim == 0
            else str(self)
        )

    def __hash__(self) -> int:
        return id(self)

    # ------------------------------------------------------------ values change

    def _assign_value(self, new: Tensor) -> None:
        """Take another tensor's value without touching the tape or the in-place version: what optimizers do."""
        v, old = new._value if new._view is None else read(new), self._value
        seg = v.segment
        if seg is not None and old.leaf_of is seg and old.array is not None:
            seg.replaced.append((ref(self), old.leaf))
        if self._view is None:
            self._value = v
        else:
            store(self, v)

    def set_value(self, value: Any) -> None:
        """Replace the values; shape and dtype must agree.

        Args:
            value: A tensor of the same shape and dtype, or an array or list of the same shape.

        Examples:
            >>> x = bireme.zeros([2])
            >>> x.set_value([1.0, 2.0])
            >>> x.tolist()
            [1.0, 2.0]
        """
        if local.trace is not None and local.trace.captures:
            local.trace.build_method("set_value", self, value)
        else:
            self._replace(value, "set_value(value)")

    def _replace(self, value: Any, where: str) -> None:
        if isinstance(value, Tensor):
            new = copy_value(read(value))
        else:
            # its fractions or imaginary parts would be gone
            if isinstance(value, np.ndarray) and "fc".find(value.dtype.kind) > "fc".find(self.dtype.kind):
                raise errors.bad(
                    where,
                    self.dtype.name,
                    described=str(value.dtype),
                    hint="convert it first, with astype",
                    kind=errors.ArgumentError,
                )
            try:
                new = value_of(value, self.dtype, self.place)
            except errors.TELLING as e:
                name, _, argument = where.rstrip(")").partition("(")
                errors.renamed(e, name, (), names={"data": argument})
                raise
        if new.sig.shape != self._value.sig.shape:
            raise errors.bad(
                where, f"shape {self.shape}", described=f"shape {list(new.sig.shape)}", kind=errors.ShapeError
            )
        if new.sig.dtype is not self.dtype:
            raise errors.bad(where, self.dtype.name, described=new.sig.dtype.name, kind=errors.ArgumentError)
        store(self, new)

    def copy_(self, other: Any, blocking: bool = True, *args: Any, non_blocking: bool = False) -> Tensor:
        """Replace the values by those of another tensor.

        Args:
            other: A tensor of the same dtype, whose shape is taken as well, or an array of the same shape.
            blocking: Has no effect: the values are there when they are read.
            *args: Has no effect.
            non_blocking: Has no effect.

        Returns:
            The tensor itself.
        """
        if local.trace is not None and local.trace.captures:
            local.trace.build_method("copy_", self, other)
        elif (
            isinstance(other, Tensor)
            and other._value.sig.dtype is self.dtype
            and other._value.sig.shape != self._value.sig.shape
        ):
            self._value = copy_value(read(other))
            self._edge = None
            self._view = None
        else:
            self._replace(other, "copy_(other)")
        return self

    # ------------------------------------------------------------ gradients kept

    @property
    def grad(self) -> Tensor | None:
        """Gradient that ``backward`` has accumulated, or None."""
        return self._grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise errors.bad("grad", "a Tensor or None", value, kind=errors.NotATensorError)
        if value is None or value is self._grad:
            self._grad = value
            return
        # the numbers are taken, not the tensor: what is done to either later is not done to the other, and a held
        # gradient sees them
        held, new = self._grad, read(value)
        if held is None or held._value.sig is not new.sig:
            self._grad = wrap(new)
        else:
            store(held, new)
            held._edge = None

    def clear_gradient(self, set_to_zero: bool = True, /) -> None:
        """Reset the gradient.

        Args:
            set_to_zero: Set it to zeros; if False, to None. Default: True.

        Examples:
            >>> x = bireme.to_tensor([1.0], stop_gradient=False)
            >>> (x * x).backward()
            >>> x.clear_gradient()
            >>> x.grad.tolist()
            [0.0]
        """
        if self._grad is not None:
            if set_to_zero:
                # symbolic: `zero + g` is g, so the second step records the same program as the first
                g = self._grad
                v = read(g)
                store(g, Zero(v.sig, None, v.device))
                g._edge, g._stop_gradient = None, False
            else:
                self._grad = None

    def clear_grad(self) -> None:
        """Set the gradient to zeros."""
        self.clear_gradient()

    def gradient(self) -> np.ndarray | None:
        """Return the gradient as a NumPy array, or None."""
        return None if self._grad is None else self._grad.numpy()

    # ------------------------------------------------------------ where it lives

    def cpu(self) -> Tensor:
        """Return the tensor in host memory; itself if it is there."""
        return self._to_device(devices.Device("cpu", 0))

    def cuda(self, device_id: int | None = None, blocking: bool = True) -> Tensor:
        """Return the tensor on a GPU; itself if it is there.

        Args:
            device_id: Index of the GPU, or a place. Default: None, 0.
            blocking: Has no effect.

        Returns:
            A tensor.

        Raises:
            ValueError: If there is no such GPU.
        """
        if isinstance(device_id, Place):
            return self._to_device(devices.parse(device_id, "cuda(device_id)"), "cuda(device_id)")
        number = 0 if device_id is None else device_id
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise errors.bad("cuda(device_id)", "a non-negative GPU index", device_id, kind=errors.ArgumentTypeError)
        return self._to_device(devices.Device("gpu", number), "cuda(device_id)")

    def pin_memory(self, blocking: bool = True) -> Tensor:
        """Return the tensor in host memory, which XLA copies from as it is.

        Args:
            blocking: Has no effect.

        Returns:
            A tensor.
        """
        return self.cpu()

    def _to_device(self, device: devices.Device, where: str = "to(device)") -> Tensor:
        device.ensure(where)
        if self._value.device is device:
            return self
        return _like(self, flush.move(read(self), device))

    # ------------------------------------------------------------ copying and pickling by the user's own code

    def __deepcopy__(self, memo: dict) -> Tensor:
        """Copy the values into a new leaf, without history and gradient."""
        waits = "_init_func" in self.__dict__  # there are no numbers yet
        new = _like(self, read(self) if waits else copy_value(read(self)))
        memo[id(self)] = new
        new._stop_gradient = self._stop_gradient
        for k, v in self.__dict__.items():
            if k not in ("_hooks", "_after", "_grad", "_version"):
                new.__dict__[k] = copy.deepcopy(v, memo)
        if self._name is not None:  # names stay unique: optimizers know their state by them
            _serial[0] += 1
            new._name = f"{self._name}_deepcopy_{_serial[0] - 1}"
        return new

    def __copy__(self) -> Tensor:
        return self

    def __reduce__(self):
        extra = {k: v for k, v in self.__dict__.items() if k not in ("_hooks", "_after", "_grad", "_version")}
        host = self._host()
        plain = host if host.dtype.isbuiltin else host.view(f"u{host.dtype.itemsize}")
        return _rebuild, (type(self), np.array(plain), self.dtype.name, self._stop_gradient, extra)


def _as_paddle_has_them(
    value: Any, dtype: Any, place: Any, stop_gradient: Any, more: tuple, name: Any, persistable: Any, dims: Any
) -> tuple:
    """Arguments in Paddle's own order: value, place, persistable or name, zero_copy, name, stop_gradient; or dtype,
    dims, name, type, persistable.
    """
    if isinstance(value, DType) or dims is not None:
        kind, extents = (value, dtype) if isinstance(value, DType) else (dtype, dims)
        zeros = np.zeros(list(extents), dtypes.of(kind).np)
        return (
            zeros,
            None,
            None,
            True,
            place if isinstance(place, str) else name,
            persistable or bool(more[1:2] and more[1]),
        )
    if not isinstance(dtype, Place) or len(more) > 3:
        raise errors.bad(
            "Tensor()",
            "a value, a dtype, a place and stop_gradient",
            described=f"{3 + len(more)} arguments",
            kind=errors.ArgumentTypeError,
        )
    by_name = isinstance(place, str)
    keeps = (
        persistable
        or (isinstance(place, bool) and place)
        or (isinstance(value, Tensor) and value.persistable and not by_name)
    )
    stays = more[2] if len(more) > 2 else stop_gradient
    return value, None, dtype, stays, place if by_name else more[1] if len(more) > 1 else name, keeps


def _rebuild(cls: type[Tensor], host: np.ndarray, dtype: str, stop_gradient: bool, extra: dict) -> Tensor:
    kind = dtypes.of(dtype)
    t = cls.__new__(cls)
    t._value = value_of(host.view(kind.np) if host.dtype != kind.np else host, kind, None)
    t._edge = t._view = None
    t._stop_gradient = stop_gradient
    t.__dict__.update(extra)
    return t


def _to_host(x: Any) -> Any:
    """Tensors inside arguments of a NumPy function as arrays."""
    if isinstance(x, Tensor):
        return x.numpy()  # a copy: what NumPy returns may be a view of it, which somebody may write into
    if isinstance(x, (list, tuple)):
        return type(x)(map(_to_host, x))
    return {k: _to_host(v) for k, v in x.items()} if isinstance(x, dict) else x


def _python(x: Any) -> Any:
    return x.item() if isinstance(x, np.generic) else x


def wrap(value: Value, stop_gradient: bool = True) -> Tensor:
    """A new Tensor on a Value."""
    t = Tensor.__new__(Tensor)
    t._value, t._edge, t._view, t._stop_gradient = value, None, None, stop_gradient
    return t


def _like(t: Tensor, value: Value) -> Tensor:
    new = type(t).__new__(type(t))
    new._value, new._edge, new._view, new._stop_gradient = value, None, None, t._stop_gradient
    return new


def copy_value(v: Value) -> Value:
    """A Value of its own with the same numbers: recorded, not computed now."""
    if v.__class__ is Zero:
        return Zero(v.sig, None, v.device)
    return flush.record(registry.find("clone").bind((1,), ()), [v])[0]


# ---------------------------------------------------------------- storage; view.py fills these in for shared storage


def read(t: Tensor) -> Value:
    """The current value of a tensor, up to date with whatever was written through other handles."""
    view = t._view
    if view is not None and view.stale():
        view.refresh(t)
    return t._value


def _edge_of(t: Tensor) -> Any:
    read(t)
    return t._edge


def store(t: Tensor, v: Value) -> None:
    """Make `v` the value of a tensor and of all that share its storage, without history."""
    view = t._view
    if view is None:
        t._value = v
    else:
        view.overwrite(t, v)


def store_own(t: Tensor, host: np.ndarray) -> None:
    """`set_value` of an array that nobody else will write to: it is not copied."""
    v = t._value
    if local.trace is not None or v.device.several or host.shape != v.sig.shape or host.dtype != v.sig.dtype.np:
        t.set_value(host)
    else:
        store(t, Value(v.sig, host, v.device))


# ---------------------------------------------------------------- arrays enter the engine


def wrap_own(host: np.ndarray) -> Tensor:
    """`to_tensor` of an array that nobody else will write to: it is not copied."""
    return wrap(Value(sig_of(host.shape, dtypes.from_numpy(host.dtype)), host, devices.current()))


def value_of(data: Any, dtype: Any = None, place: Any = None) -> Value:
    """A Value from Python data, an ndarray (copied), a jax array, a Tensor or anything with DLPack or `__array__`."""
    device = devices.current() if place is None else devices.parse(place, "to_tensor(place)")
    if place is not None:
        device.ensure("to_tensor(place)")
    want = None if dtype is None else dtypes.of(dtype, "to_tensor(dtype)")
    if isinstance(data, Tensor):
        v = read(data)
        if want is None or want is v.sig.dtype:
            return copy_value(v) if v.device is device or place is None else flush.move(v, device)
        host: Any = data._host()
    elif isinstance(data, jax.Array):
        kind = dtypes.from_numpy(np.dtype(data.dtype))
        if want is None or want is kind:
            lookup.pin(data)
            held = devices.Device("cpu", 0) if next(iter(data.devices())).platform == "cpu" else device
            return Value(sig_of(tuple(data.shape), kind), data, held)
        host = np.asarray(data)
    else:
        host = host_array(data, want)
    if host.dtype.kind not in "biufc" and host.dtype not in KNOWN:
        raise errors.bad(
            "to_tensor(data)",
            "numeric data",
            described=f"an array of dtype {host.dtype}",
            kind=errors.ArgumentTypeError,
        )
    if host.dtype == np.uint16 and want in (None, dtypes.bfloat16):
        host = host.view(dtypes.bfloat16.np)  # NumPy has no bfloat16: Paddle's arrays carry its bits
    if want is not None and host.dtype != want.np:
        host = convert(host, want)
    else:
        # a copy: jax aliases aligned NumPy memory, and a loader that reuses its buffer must not change us. In our own
        # dtype object: that of an unpickled array is equal to NumPy's, but says that it is not built in
        host = host.astype(dtypes.from_numpy(host.dtype).np, order="C", subok=False)
    return Value(sig_of(host.shape, dtypes.from_numpy(host.dtype)), host, device)


def from_foreign(source: Any) -> Tensor:
    """A Tensor on memory that another library owns, through DLPack: shared, never donated."""
    with jax.enable_x64(True):
        return wrap(value_of(jax.dlpack.from_dlpack(source)))
