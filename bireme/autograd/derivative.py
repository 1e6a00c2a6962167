"""Jacobians and Hessians of recorded tensors: lazy matrices whose rows are computed when they are first asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.tensor import backward
from bireme.core.tensor.tensor import Tensor
from bireme.ops import concat, reshape, stack, zeros


class Jacobian:
    """Lazy Jacobian matrix: index it like a tensor, and the rows that the index touches are computed and kept.

    ``jacobian`` returns it. Any operator or tensor method applied to it computes the whole matrix.

    Examples:
        >>> x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> J = bireme.autograd.jacobian(x * x, x)
        >>> J.shape, J[1].tolist(), J[:, 0].tolist()
        ([2, 2], [0.0, 4.0], [2.0, 0.0])
    """

    def __init__(self, y: Tensor | None, xs: list[Tensor], shape: list[int], batched: bool, squeeze: tuple[bool, bool]):
        """``y`` is [M] or [B, M], None if it depends on nothing; ``shape`` is the whole one, ``squeeze`` drops M, N."""
        self._y, self._xs, self._full, self._batched = y, xs, shape, batched
        self._no_rows, self._no_columns = squeeze
        self._axis = 1 if batched else 0
        self._rows: dict[int, Tensor] = {}
        self._whole: Tensor | None = None

    @property
    def shape(self) -> list[int]:
        """Shape of the matrix; the dimension of a 0-d tensor is left out.

        Examples:
            >>> x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
            >>> bireme.autograd.jacobian((x * x).sum(), x).shape
            [2]
        """
        keep = [True] * self._axis + [not self._no_rows, not self._no_columns]
        return [n for n, kept in zip(self._full, keep) if kept]

    def _row(self, i: int) -> Tensor:
        found = self._rows.get(i)
        if found is None:
            found = self._rows[i] = self._compute(i)
        return found

    def _compute(self, i: int) -> Tensor:
        lead = self._full[: self._axis]
        if self._y is None:
            parts = [None] * len(self._xs)
        else:
            # the choice of the row is data, not program: every row runs the same one
            seed = np.zeros(self._y.shape, self._y.dtype.np)
            seed[..., i] = 1
            parts = backward.grad(
                self._y, self._xs, Tensor(seed), retain_graph=True, create_graph=True, allow_unused=True
            )
        flat = []
        for g, x in zip(parts, self._xs):
            width = [math.prod(x.shape[self._axis :])]
            flat.append(zeros(lead + width, x.dtype) if g is None else reshape(g, lead + width))
        return flat[0] if len(flat) == 1 else concat(flat, axis=-1)

    def _all(self) -> Tensor:
        if self._whole is None:
            self._whole = self._columns(stack([self._row(i) for i in range(self._full[self._axis])], axis=self._axis))
            if self._no_rows:
                self._whole = self._whole.squeeze(self._axis)
        return self._whole

    def _columns(self, t: Tensor) -> Tensor:
        return t.squeeze(-1) if self._no_columns else t

    def __getitem__(self, indexes: Any) -> Tensor:
        index = indexes if isinstance(indexes, tuple) else (indexes,)
        row = index[self._axis] if len(index) > self._axis else slice(None)
        before = index[: self._axis]
        if self._no_rows or not all(type(i) in (int, slice) for i in (row, *before)):
            return self._all()[indexes]
        n = self._full[self._axis]
        if isinstance(row, slice):
            chosen = range(n)[row]
            if len(chosen) in (0, n):
                return self._all()[indexes]
            found = self._columns(stack([self._row(i) for i in chosen], axis=self._axis))
            return found[(*before, slice(None), *index[self._axis + 1 :])]
        if not -n <= row < n:
            raise errors.bad(
                f"{type(self).__name__}[{row}]", f"an index in [{-n}, {n - 1}]", row, kind=errors.OutOfRangeError
            )
        found = self._columns(self._row(row % n))
        rest = (*before, *index[self._axis + 1 :])
        return found[rest] if rest else found

    def __len__(self) -> int:
        return self.shape[0]

    def __hash__(self) -> int:
        return id(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._all(), name)


def _operator(name: str) -> Any:
    def method(self: Jacobian, *others: Any) -> Any:
        return getattr(self._all(), name)(*[o._all() if isinstance(o, Jacobian) else o for o in others])

    return method


_BINARY = "add sub mul truediv floordiv mod pow matmul"
_OPERATORS = f"{_BINARY} {' '.join(f'r{name}' for name in _BINARY.split())} neg eq ne lt le gt ge"
for _name in _OPERATORS.split():
    setattr(Jacobian, f"__{_name}__", _operator(f"__{_name}__"))


class Hessian(Jacobian):
    """Lazy Hessian matrix; ``hessian`` returns it.

    Examples:
        >>> x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> bireme.autograd.hessian((x * x * x).sum(), x)[:].tolist()
        [[6.0, 0.0], [0.0, 12.0]]
    """


def jacobian(
    ys: Tensor | Sequence[Tensor], xs: Tensor | Sequence[Tensor], batch_axis: int | None = None
) -> Jacobian | tuple[Jacobian, ...] | tuple[tuple[Jacobian, ...], ...]:
    """Return the Jacobian of tensors with respect to the tensors they were computed from.

    The result is lazy: only the rows that are accessed are computed. ``J[:]`` is the whole matrix as a tensor.

    Args:
        ys: Tensor or sequence of tensors, of at most one dimension; with ``batch_axis=0`` of one or two, the first of
            which is the batch.
        xs: Tensor or sequence of tensors that ``ys`` were computed from, in the same forms.
        batch_axis: None, or 0 if each row of ``ys`` depends on the same row of ``xs`` alone. Default: None.

    Returns:
        A lazy matrix of shape [M, N], or [B, M, N] with a batch; a tuple of them if ``ys`` or ``xs`` is a sequence, and
        a tuple of tuples, first over ``ys``, if both are.

    Examples:
        >>> x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> bireme.autograd.jacobian(x * x, x)[:].tolist()
        [[2.0, 0.0], [0.0, 4.0]]
    """
    batched = _batched("jacobian", batch_axis)
    outputs, inputs = _tensors("jacobian", "ys", ys), _tensors("jacobian", "xs", xs)
    for name, tensors in (("ys", outputs), ("xs", inputs)):
        for t in tensors:
            _check_rank("jacobian", name, t, batched)
    rows = [[_matrix(Jacobian, y, x, batched) for x in inputs] for y in outputs]
    if isinstance(ys, Tensor):
        return rows[0][0] if isinstance(xs, Tensor) else tuple(rows[0])
    return tuple([row[0] for row in rows]) if isinstance(xs, Tensor) else tuple([tuple(row) for row in rows])


def hessian(
    ys: Tensor, xs: Tensor | Sequence[Tensor], batch_axis: int | None = None
) -> Hessian | tuple[tuple[Hessian, ...], ...]:
    """Return the Hessian of a scalar with respect to the tensors it was computed from.

    The result is lazy: only the rows that are accessed are computed. ``H[:]`` is the whole matrix as a tensor.

    Args:
        ys: Tensor of one element; with ``batch_axis=0`` of one element per row.
        xs: Tensor or sequence of tensors of at most one dimension; with ``batch_axis=0`` of one or two.
        batch_axis: None, or 0 if each row of ``ys`` depends on the same row of ``xs`` alone. Default: None.

    Returns:
        A lazy matrix of shape [N, N], or [B, N, N] with a batch; a tuple of tuples of them if ``xs`` is a sequence.

    Examples:
        >>> x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
        >>> bireme.autograd.hessian(x[0] * x[1] * x[1], x)[:].tolist()
        [[0.0, 4.0], [4.0, 2.0]]
    """
    batched = _batched("hessian", batch_axis)
    if not isinstance(ys, Tensor):
        raise errors.bad("hessian(ys)", "a Tensor", ys, kind=errors.NotATensorError)
    inputs = _tensors("hessian", "xs", xs)
    for x in inputs:
        _check_rank("hessian", "xs", x, batched)
    if ys.ndim < batched or math.prod(ys.shape[batched:]) != 1:
        raise errors.bad(
            "hessian(ys)",
            "one element per row" if batched else "one element",
            described=f"shape {ys.shape}",
            kind=errors.ShapeError,
        )
    grads = backward.grad([ys], inputs, retain_graph=True, create_graph=True, allow_unused=True)
    rows = [tuple([_matrix(Hessian, g, x, batched, like=like) for x in inputs]) for g, like in zip(grads, inputs)]
    return rows[0][0] if isinstance(xs, Tensor) else tuple(rows)


def _batched(where: str, batch_axis: Any) -> bool:
    if batch_axis is not None and (isinstance(batch_axis, bool) or batch_axis != 0):
        raise errors.bad(f"{where}(batch_axis)", "None or 0", batch_axis)
    return batch_axis is not None


def _tensors(where: str, name: str, given: Any) -> list[Tensor]:
    found = [given] if isinstance(given, Tensor) else given
    if not isinstance(found, (list, tuple)) or not found or not all(isinstance(t, Tensor) for t in found):
        raise errors.bad(f"{where}({name})", "a Tensor or a sequence of Tensors", given, kind=errors.NotATensorError)
    return list(found)


def _check_rank(where: str, name: str, t: Tensor, batched: bool) -> None:
    low = int(batched)
    if not low <= t.ndim <= low + 1:
        hint = None if batched else "reshape to 1-D, or pass batch_axis=0"
        raise errors.bad(
            f"{where}({name})",
            f"a {low}-D or {low + 1}-D tensor",
            described=f"shape {t.shape}",
            hint=hint,
            kind=errors.ShapeError,
        )


def _matrix(kind: type[Jacobian], y: Tensor | None, x: Tensor, batched: bool, like: Tensor | None = None) -> Any:
    """Return the lazy matrix of one ``y`` by one ``x``; ``like`` has the shape of a ``y`` that is zero."""
    shape = (like if y is None else y).shape  # type: ignore[union-attr]  # one of the two is there
    lead, flat = shape[:batched], len(shape) == int(batched)
    full = [*lead, math.prod(shape[batched:]), math.prod(x.shape[batched:])]
    if y is not None and flat:
        y = y.unsqueeze(-1)
    return kind(y, [x], full, batched, (flat, x.ndim == int(batched)))


guard_functions(globals())
