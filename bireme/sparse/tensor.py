"""Sparse tensors: a pattern of stored elements and one ordinary tensor of their values.

Everything that is computed is computed on the values by the operators that dense tensors have, so it is recorded,
compiled and differentiated as they are. A sparse tensor is a Tensor without dense storage: an operator of dense
tensors that is given one refuses it, and nothing is made dense without being asked.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.device import Place
from bireme.core.base.dtype import DType
from bireme.core.tensor.hooks import RemovableHandle
from bireme.core.tensor.printing import layout
from bireme.core.tensor.tensor import Tensor
from bireme.ops import as_complex, as_real, cast, gather_nd, index_select, pool_rows, reshape
from bireme.sparse.pattern import Coo, Csr, owned


def summed(values: Tensor, places: Tensor, n: int) -> Tensor:
    """Rows of values added up at their places among `n`; one that is alone there is copied."""
    if values.dtype.kind == "b":
        return cast(summed(cast(values, "uint8"), places, n), "bool")
    if values.dtype.kind == "c":
        return as_complex(summed(as_real(values), places, n))
    return pool_rows(values, places, "sum", n)


class SparseTensor(Tensor):
    """A tensor of which only some elements are stored, and the others are zero; made by ``sparse_coo_tensor``,
    ``sparse_csr_tensor`` and ``Tensor.to_sparse_coo``.
    """

    kind = "sparse"
    _pattern: Any
    _values: Tensor

    def __init__(self, pattern: Any, values: Tensor):
        self._pattern, self._values = pattern, values

    def _refuse(self) -> NoReturn:
        error = errors.bad(
            "Tensor()",
            "a dense tensor",
            described=f"a {self.kind} tensor of shape {self.shape}",
            hint="bireme.sparse has operators for sparse tensors; x.to_dense() makes a dense one",
            kind=errors.UnsupportedTypeError,
        )
        error._of_operand = True  # type: ignore[attr-defined]  # the operator that asked gives it its name
        raise error

    # what operators of dense tensors read of one
    _value = property(_refuse)
    _view = property(_refuse)
    _edge = property(_refuse)

    def _host(self) -> np.ndarray:
        self._refuse()

    @property
    def _stop_gradient(self) -> bool:
        return self._values._stop_gradient

    @_stop_gradient.setter
    def _stop_gradient(self, wanted: bool) -> None:
        if wanted != self._values._stop_gradient:  # the values may be a tensor of the user, which stays as it is
            self._values = self._values.detach()
            self._values._stop_gradient = wanted

    @property
    def _carrier(self) -> Tensor:
        return self._values

    def _carried(self, gradient: Tensor) -> SparseTensor:
        return type(self)(self._pattern, gradient)

    def _coo(self) -> Coo:
        """The pattern by coordinates, in the order of the values."""
        raise NotImplementedError

    # ------------------------------------------------------------ what it is

    @property
    def shape(self) -> list[int]:
        """Shape, as a list of ints."""
        return [*self._pattern.dims, *self._values.shape[1:]]

    @property
    def dtype(self) -> DType:
        """Data type of the values."""
        return self._values.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements, stored or not."""
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        """Size in bytes of what is stored: values and indices."""
        return self._values.nbytes + sum(t.nbytes for t in self._stored())

    @property
    def itemsize(self) -> int:
        """Size of one value in bytes."""
        return self._values.itemsize

    @property
    def place(self) -> Place:
        """Device that the values are stored on."""
        return self._values.place

    @property
    def is_leaf(self) -> bool:
        """Whether the values were not computed by a recorded operator."""
        return self._values.is_leaf

    def _stored(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def dim(self) -> int:
        """Return the number of dimensions."""
        return self.ndim

    ndimension = dim

    def element_size(self) -> int:
        """Return the size of one value in bytes."""
        return self.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def is_sparse(self) -> bool:
        """True for every sparse tensor."""
        return True

    def is_dense(self) -> bool:
        """False for every sparse tensor."""
        return False

    def is_same_shape(self, y: Tensor, /) -> bool:
        """Tell whether another tensor, sparse or dense, has the same shape.

        Args:
            y: The other tensor.

        Returns:
            True or False.
        """
        if not isinstance(y, Tensor):
            raise errors.bad("is_same_shape(y)", "a Tensor", y, kind=errors.ArgumentTypeError)
        return self.shape == y.shape

    def nnz(self) -> int:
        """Return the number of stored elements."""
        return self._pattern.nnz

    def values(self) -> Tensor:
        """Return the stored values as a dense tensor, through which gradients flow."""
        return self._values

    def sparse_dim(self) -> int:
        """Return the number of axes that the indices go along."""
        return len(self._pattern.dims)

    def dense_dim(self) -> int:
        """Return the number of axes that each stored value has."""
        return self._values.ndim - 1

    def __repr__(self) -> str:
        head = f"Tensor(shape={self.shape}, dtype={self.dtype.name}, place={self.place}, "
        head += f"stop_gradient={self.stop_gradient}"
        parts = [f"       {name}={layout(t, 8 + len(name))}" for name, t in self._shown()]
        return ",\n".join([head, *parts]) + ")"

    __str__ = __repr__

    def _shown(self) -> list[tuple[str, Tensor]]:
        raise NotImplementedError

    def __format__(self, spec: str) -> str:
        return str(self)

    # ------------------------------------------------------------ other forms of it

    def to_dense(self) -> Tensor:
        """Return the tensor with every element stored; elements with the same index are added up.

        Returns:
            A dense tensor of the same shape and dtype.

        Examples:
            >>> bireme.sparse.sparse_coo_tensor([[0, 2]], [1.0, 2.0], [4]).to_dense().tolist()
            [1.0, 0.0, 2.0, 0.0]
        """
        coo = self._coo()
        flat = int(np.prod(coo.dims, dtype=object))
        return reshape(summed(self._values, coo.places(), flat), self.shape)

    def with_values(self, values: Tensor) -> SparseTensor:
        """Return a tensor of the same pattern with other values."""
        return type(self)(self._pattern, values)

    def detach(self) -> SparseTensor:
        """Return the tensor without its history; the values are shared."""
        return self.with_values(self._values.detach())

    def clone(self) -> SparseTensor:
        """Return a copy through which gradients flow."""
        return self.with_values(self._values.clone())

    def astype(self, dtype: Any) -> SparseTensor:
        """Return the tensor with values of another dtype; itself if they have it.

        Args:
            dtype: New dtype of the values.
        """
        return self if dtypes.of(dtype, "astype(dtype)") is self.dtype else self.with_values(cast(self._values, dtype))

    def _to_device(self, device: devices.Device, where: str = "to(device)") -> SparseTensor:
        return self.with_values(self._values._to_device(device, where))

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """Return the tensor with its values on another device or in another dtype, as ``Tensor.to`` does.

        Args:
            *args: Device, dtype, or both.
            **kwargs: The same by name.
        """
        return self.with_values(self._values.to(*args, **kwargs))

    # ------------------------------------------------------------ gradients

    @property
    def grad(self) -> SparseTensor | None:
        """Gradient that ``backward`` has accumulated, of the same pattern; or None."""
        found = self._values.grad
        return None if found is None else self._carried(found)

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, SparseTensor):
            raise errors.bad("grad", "a sparse tensor or None", value, kind=errors.ArgumentTypeError)
        self._values.grad = None if value is None else value._values

    def clear_gradient(self, set_to_zero: bool = True, /) -> None:
        """Reset the gradient.

        Args:
            set_to_zero: Set it to zeros; if False, to None. Default: True.
        """
        self._values.clear_gradient(set_to_zero)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Register a function that is called with the gradient, a sparse tensor of the same pattern.

        Args:
            hook: Function that takes the gradient; if it returns a tensor of the same pattern, that replaces it.

        Returns:
            A handle with a method ``remove()``.
        """
        if not callable(hook):
            raise errors.bad("register_hook(hook)", "a callable", hook, kind=errors.ArgumentTypeError)

        def on_values(gradient: Tensor) -> Tensor | None:
            found = hook(self._carried(gradient))
            return found._carrier if isinstance(found, Tensor) else found

        return self._values.register_hook(on_values)

    # ------------------------------------------------------------ copying and pickling

    def __deepcopy__(self, memo: dict) -> SparseTensor:
        new = self.with_values(copy.deepcopy(self._values, memo))
        memo[id(self)] = new
        return new

    def __reduce__(self) -> tuple:
        stored = tuple(t.numpy() for t in self._stored())
        return _rebuild, (type(self), self._pattern.dims, stored, self._values)


class SparseCooTensor(SparseTensor):
    """A sparse tensor by coordinates: a column of indices for each stored value."""

    kind = "sparse COO"
    _pattern: Coo

    def _coo(self) -> Coo:
        return self._pattern

    def _stored(self) -> tuple[Tensor, ...]:
        return (self._pattern.indices,)

    def _shown(self) -> list[tuple[str, Tensor]]:
        return [("indices", self._pattern.indices), ("values", self._values)]

    def is_sparse_coo(self) -> bool:
        """True: the elements are stored by coordinates."""
        return True

    def indices(self) -> Tensor:
        """Return the indices as an integer tensor of shape ``[sparse_dim, nnz]``."""
        return self._pattern.indices

    def is_coalesced(self) -> bool:
        """Tell whether each index is stored once and in order, as ``coalesce`` makes it."""
        return self._pattern.coalesced

    def coalesce(self, name: str | None = None) -> SparseCooTensor:
        """Return the tensor with its indices sorted, and values of the same index added up.

        Args:
            name: Has no effect.

        Returns:
            A sparse COO tensor; itself if it is so already.
        """
        pattern, place = self._pattern.merged()
        if place is None:
            return self
        return SparseCooTensor(pattern, summed(self._values, place, pattern.nnz))

    def to_sparse_coo(self, sparse_dim: int | None = None) -> SparseCooTensor:
        """Return the tensor itself.

        Args:
            sparse_dim: Number of axes that the indices go along, which has to be what it is. Default: None.
        """
        if sparse_dim not in (None, self.sparse_dim()):
            raise errors.bad("to_sparse_coo(sparse_dim)", f"{self.sparse_dim()}, as it is", sparse_dim)
        return self

    def to_sparse_csr(self) -> SparseCsrTensor:
        """Return a matrix, or a batch of matrices, row by row; values of the same index are added up.

        Returns:
            A sparse CSR tensor.
        """
        if self._values.ndim > 1 or self.sparse_dim() not in (2, 3):
            raise errors.bad(
                "to_sparse_csr()",
                "a matrix or a batch of matrices whose stored values are numbers",
                described=f"shape {self.shape} with {self.sparse_dim()} sparse dimensions",
                kind=errors.ShapeError,
            )
        one = self.coalesce()
        return SparseCsrTensor(Csr.of(one._pattern), one._values)


class SparseCsrTensor(SparseTensor):
    """A sparse matrix, or a batch of them, row by row: where each row begins, and a column for each stored value."""

    kind = "sparse CSR"
    _pattern: Csr

    def _coo(self) -> Coo:
        return self._pattern.coo()

    def _stored(self) -> tuple[Tensor, ...]:
        return (self._pattern.crows, self._pattern.cols)

    def _shown(self) -> list[tuple[str, Tensor]]:
        return [("crows", self._pattern.crows), ("cols", self._pattern.cols), ("values", self._values)]

    def is_sparse_csr(self) -> bool:
        """True: the elements are stored row by row."""
        return True

    def crows(self) -> Tensor:
        """Return where each row begins among the values, and where the last one ends."""
        return self._pattern.crows

    def cols(self) -> Tensor:
        """Return the column of each value."""
        return self._pattern.cols

    def to_sparse_coo(self, sparse_dim: int | None = None) -> SparseCooTensor:
        """Return the tensor by coordinates.

        Args:
            sparse_dim: Number of axes that the indices go along, which has to be that of the tensor. Default: None.

        Returns:
            A sparse COO tensor with the same values.
        """
        if sparse_dim not in (None, self.sparse_dim()):
            raise errors.bad("to_sparse_coo(sparse_dim)", f"{self.sparse_dim()}, the number of axes", sparse_dim)
        return SparseCooTensor(self._coo(), self._values)

    def to_sparse_csr(self) -> SparseCsrTensor:
        """Return the tensor itself."""
        return self


def _rebuild(cls: type[SparseTensor], dims: tuple, stored: tuple, values: Tensor) -> SparseTensor:
    first, *rest = [owned(part) for part in stored]
    return cls(Csr(dims, first, rest[0]) if rest else Coo(dims, first), values)


# ---------------------------------------------------------------- methods that dense tensors have


def to_sparse_coo(self: Tensor, sparse_dim: int) -> Tensor:
    """Convert the tensor to a sparse one by coordinates; the values are waited for.

    Args:
        sparse_dim: Number of leading axes that the indices go along; the stored values have the others.

    Returns:
        A sparse COO tensor that stores what is not zero.

    Examples:
        >>> x = bireme.to_tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_coo(2)
        >>> x.indices().tolist(), x.values().tolist()
        ([[0, 1], [1, 0]], [1.0, 2.0])
    """
    if isinstance(sparse_dim, Tensor) and sparse_dim.size == 1:
        sparse_dim = sparse_dim.item()
    errors.check_integer("to_sparse_coo(sparse_dim)", sparse_dim)
    if isinstance(sparse_dim, Tensor) or not 1 <= sparse_dim <= self.ndim:
        raise errors.bad("to_sparse_coo(sparse_dim)", f"an integer in [1, {self.ndim}]", sparse_dim)
    host = self._host()
    dims = host.shape[:sparse_dim]
    stored = (host.reshape(*dims, -1) != 0).any(-1) if sparse_dim < host.ndim else host != 0
    keys = np.flatnonzero(stored)
    pattern = Coo(dims, keys=keys, coalesced=True)
    rows = reshape(self, [int(np.prod(dims)), *host.shape[sparse_dim:]])
    return SparseCooTensor(pattern, index_select(rows, pattern.places()))


def to_sparse_csr(self: Tensor) -> Tensor:
    """Convert a matrix, or a batch of them, to a sparse one row by row; the values are waited for.

    Returns:
        A sparse CSR tensor that stores what is not zero.

    Examples:
        >>> x = bireme.to_tensor([[0.0, 1.0], [2.0, 0.0]]).to_sparse_csr()
        >>> x.crows().tolist(), x.cols().tolist(), x.values().tolist()
        ([0, 1, 2], [1, 0], [1.0, 2.0])
    """
    if self.ndim not in (2, 3):
        raise errors.bad(
            "to_sparse_csr()",
            "a matrix or a batch of matrices",
            described=f"shape {self.shape}",
            kind=errors.ShapeError,
        )
    return to_sparse_coo(self, self.ndim).to_sparse_csr()


def values_at(x: Tensor, pattern: Coo) -> Tensor:
    """Elements of a dense tensor at the places of a pattern."""
    axes = len(pattern.dims)
    if axes == 1:
        return index_select(x, pattern.places())
    return gather_nd(x, pattern.known("rows", lambda: owned(np.stack(pattern.axes(), 1))))


def _only_sparse(name: str, wanted: str, sentence: str, example: str, answer: str) -> Callable:
    """A method that only sparse tensors have: on others it says so."""

    def method(self: Tensor) -> Any:
        raise errors.bad(
            f"{name}()",
            f"a sparse {wanted}tensor",
            described=f"a {self.kind if isinstance(self, SparseTensor) else 'dense'} tensor of shape {self.shape}",
            hint=None if isinstance(self, SparseTensor) else "x.to_sparse_coo(n) makes a sparse one",
            kind=errors.UnsupportedTypeError,
        )

    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = f"{sentence}\n\nExamples:\n    >>> {example}\n    {answer}"
    return method


_MADE = "x = bireme.to_tensor([[0.0, 5.0]])"


def _install() -> None:
    own = [to_sparse_coo, to_sparse_csr]
    for name, wanted, sentence, call, answer in (
        ("nnz", "", "Number of stored elements of a sparse tensor.", "to_sparse_coo(2).nnz()", "1"),
        ("values", "", "Stored values of a sparse tensor.", "to_sparse_coo(2).values().tolist()", "[5.0]"),
        ("to_dense", "", "A sparse tensor with every element stored.", "to_sparse_coo(2).to_dense().tolist()", "[[0.0, 5.0]]"),
        ("indices", "COO ", "Indices of a sparse COO tensor.", "to_sparse_coo(2).indices().tolist()", "[[0], [1]]"),
        ("crows", "CSR ", "Where each row of a sparse CSR tensor begins.", "to_sparse_csr().crows().tolist()", "[0, 1]"),
        ("cols", "CSR ", "Columns of the values of a sparse CSR tensor.", "to_sparse_csr().cols().tolist()", "[1]"),
        ("is_coalesced", "COO ", "Whether a sparse COO tensor has each index once, in order.", "to_sparse_coo(2).is_coalesced()", "True"),
    ):  # fmt: skip
        own.append(_only_sparse(name, wanted, sentence, f"{_MADE}; x.{call}", answer))
    for f in own:
        setattr(Tensor, f.__name__, f)

    refuse = _only_sparse("coalesce", "COO ", "", "", "")

    def coalesce(self: Tensor, name: str | None = None) -> Any:
        """Sort the indices of a sparse COO tensor, and add up values of the same index.

        Args:
            name: Has no effect.

        Returns:
            Sparse COO tensor; itself if it is so already.

        Examples:
            >>> bireme.sparse.sparse_coo_tensor([[2, 0, 2]], [1.0, 2.0, 4.0]).coalesce().values().tolist()
            [2.0, 5.0]
        """
        return refuse(self)

    def sparse_dim(self: Tensor) -> int:
        """Number of axes that indices go along: 0 for a dense tensor.

        Examples:
            >>> bireme.zeros([2]).sparse_dim()
            0
        """
        return 0

    def dense_dim(self: Tensor) -> int:
        """Number of axes that are stored in full: all of those of a dense tensor.

        Examples:
            >>> bireme.zeros([2]).dense_dim()
            1
        """
        return self.ndim

    for f in (coalesce, sparse_dim, dense_dim):
        setattr(Tensor, f.__name__, f)


_install()
