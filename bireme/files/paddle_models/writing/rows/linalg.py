"""Rows of linear algebra, complex numbers and Fourier transforms."""

from __future__ import annotations

from typing import Any

from bireme.files.paddle_models.writing.rows.reductions import one
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row, same_size


@row("cholesky cholesky_of")
def _cholesky(w: Writer, x: Value, upper: bool = False) -> Value:
    return w.op("cholesky", [x], upper=upper)


@row("inv inv_of")
def _inv(w: Writer, x: Value) -> Value:
    return w.op("inverse", [x])


@row("det")
def _det(w: Writer, x: Value) -> Value:
    return w.op("det", [x])


@row("solve_of")
def _solve(w: Writer, x: Value, y: Value) -> Value:
    return w.op("solve", [x, y])


@row("triangular_solve")
def _triangular_solve(
    w: Writer, x: Value, y: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Value:
    return w.op("triangular_solve", [x, y], upper=upper, transpose=transpose, unitriangular=unitriangular)


@row("outer")
def _outer(w: Writer, x: Value, y: Value) -> Value:
    dtype, (rows, columns) = w.types[0]
    left = w.reshape(w.cast(x, dtype), [rows, 1], [-1, 1])
    return w.op("multiply", [left, w.reshape(w.cast(y, dtype), [1, columns], [1, -1])])


@row("complex")
def _complex(w: Writer, real: Value, imag: Value) -> Value:
    return w.op("complex", [real, imag])


@row("fft_c2c")
def _fft_c2c(w: Writer, x: Value, axes: Any, sizes: Any, norm: str, forward: bool) -> Value:
    x = w.cast(_whole(x, axes, sizes), w.types[0][0])
    return w.op("fft_c2c", [x], axes=[one(a, x) for a in axes], normalization=norm, forward=forward)


@row("fft_r2c")
def _fft_r2c(w: Writer, x: Value, axes: Any, sizes: Any, norm: str, forward: bool) -> Value:
    x = _whole(x, axes, sizes)
    return w.op("fft_r2c", [x], axes=[one(a, x) for a in axes], normalization=norm, forward=forward)


@row("fft_c2r")
def _fft_c2r(w: Writer, x: Value, axes: Any, sizes: Any, norm: str, forward: bool) -> Value:
    x = _whole(x, axes, [*sizes[:-1], sizes[-1] // 2 + 1])
    places = [one(a, x) for a in axes]
    kind = {"float32": "complex64", "float64": "complex128"}[w.types[0][0]]
    return w.op("fft_c2r", [w.cast(x, kind)], axes=places, normalization=norm, forward=forward, last_dim_size=sizes[-1])


def _whole(x: Value, axes: Any, sizes: Any) -> Value:
    if not all(same_size(x.shape[a], n) for a, n in zip(axes, sizes, strict=True)):
        raise Unwritable("that cuts or pads")
    return x
