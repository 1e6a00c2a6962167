"""Rows of pooling."""

from __future__ import annotations

import math
from typing import Any

from bireme.core.program.variable import Dim
from bireme.files.paddle_models.writing.rows.convolutions import beside, flat_paddings, many, narrower, paddings, wider
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row


def _pooled(
    w: Writer, x: Value, how: str, size: list[int], stride: Any, padding: Any, data_format: str, out: Any,
    ceil_mode: bool = False, exclusive: bool = True, adaptive: bool = False,
) -> Value:  # fmt: skip
    count = len(size)
    pads, rule = paddings(padding, count, data_format[-1] == "C")
    attrs: dict[str, Any] = {
        "strides": size if stride is None else many(stride, count), "paddings": pads, "ceil_mode": ceil_mode,
        "exclusive": exclusive, "data_format": data_format, "pooling_type": how, "adaptive": adaptive,
        "padding_algorithm": rule,
    }  # fmt: skip
    if count == 3:
        return w.op("pool3d", [x], [out], kernel_size=size, **attrs)
    return w.op("pool2d", [x, w.ints(size)], [out], **attrs)


def _flat(w: Writer, x: Value, pool: Any) -> Any:
    """Pooling of one dimension as that of two, the first of size 1."""
    outer = w.types
    made = pool(wider(w, x, 2), [(dtype, [*shape[:2], 1, *shape[2:]]) for dtype, shape in outer])
    return tuple([narrower(w, m, 2) for m in made]) if isinstance(made, tuple) else narrower(w, made, 2)


@row("max_pool2d")
def _max_pool2d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
    ceil_mode: bool = False, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    if return_mask:
        return _masked(w, x, many(kernel_size, 2), stride, padding, ceil_mode, w.types)
    return _pooled(w, x, "max", many(kernel_size, 2), stride, padding, data_format, w.types[0], ceil_mode)


@row("max_pool3d")
def _max_pool3d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
    ceil_mode: bool = False, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    if return_mask:
        return _masked(w, x, many(kernel_size, 3), stride, padding, ceil_mode, w.types)
    return _pooled(w, x, "max", many(kernel_size, 3), stride, padding, data_format, w.types[0], ceil_mode)


def _masked(
    w: Writer, x: Value, size: list[int], stride: Any, padding: Any, ceil_mode: bool, outs: Any, adaptive: bool = False
) -> Any:
    count = len(size)
    pads, rule = paddings(padding, count, False)
    if rule != "EXPLICIT" or len(pads) != count:
        raise Unwritable("with return_mask and such a padding")
    types = [outs[0], ("int32", outs[0][1])]
    made = w.op(
        f"max_pool{count}d_with_index", [x], types, kernel_size=size, paddings=pads, adaptive=adaptive,
        strides=size if stride is None else many(stride, count), ceil_mode=ceil_mode,
    )  # fmt: skip
    return made


@row("max_pool1d")
def _max_pool1d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, return_mask: bool = False,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    size, step = [1, *many(kernel_size, 1)], None if stride is None else beside(stride, 1)
    pads = padding if isinstance(padding, str) else flat_paddings(padding, False)
    if return_mask:
        pads = [0, pads[2]] if not isinstance(pads, str) and pads[2] == pads[3] else pads
        return _flat(w, x, lambda y, outs: _masked(w, y, size, step, pads, ceil_mode, outs))
    return _flat(w, x, lambda y, outs: _pooled(w, y, "max", size, step, pads, "NCHW", outs[0], ceil_mode))


@row("avg_pool1d")
def _avg_pool1d(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, exclusive: bool = True,
    ceil_mode: bool = False,
) -> Value:  # fmt: skip
    size, step = [1, *many(kernel_size, 1)], None if stride is None else beside(stride, 1)
    pads = padding if isinstance(padding, str) else flat_paddings(padding, False)
    return _flat(w, x, lambda y, outs: _pooled(w, y, "avg", size, step, pads, "NCHW", outs[0], ceil_mode, exclusive))


@row("avg_pool2d avg_pool3d")
def _avg_pool(
    w: Writer, x: Value, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
    exclusive: bool = True, divisor_override: Any = None, data_format: str = "NCHW",
) -> Value:  # fmt: skip
    size = many(kernel_size, x.ndim - 2)
    if divisor_override is not None:
        made = _pooled(w, x, "avg", size, stride, padding, data_format, w.types[0], ceil_mode, False)
        return w.binary("multiply", made, math.prod(size) / divisor_override)
    return _pooled(w, x, "avg", size, stride, padding, data_format, w.types[0], ceil_mode, exclusive)


def _target(x: Value, output_size: Any, last: bool) -> list[int]:
    count = x.ndim - 2
    own = x.shape[1:-1] if last else x.shape[2:]
    wanted = [output_size] * count if output_size is None or isinstance(output_size, int) else list(output_size)
    found = [own[i] if n is None else n for i, n in enumerate(wanted)]
    if any(isinstance(n, (Dim, Value)) for n in found):
        raise Unwritable("to a size that is unknown")
    return [int(n) for n in found]


@row("adaptive_avg_pool2d adaptive_avg_pool3d")
def _adaptive_avg_pool(w: Writer, x: Value, output_size: Any, data_format: str = "NCHW") -> Value:
    size = _target(x, output_size, data_format[-1] == "C")
    return _pooled(w, x, "avg", size, 1, 0, data_format, w.types[0], adaptive=True)


@row("adaptive_avg_pool1d")
def _adaptive_avg_pool1d(w: Writer, x: Value, output_size: Any) -> Value:
    size = [1, *_target(x, output_size, False)]
    return _flat(w, x, lambda y, outs: _pooled(w, y, "avg", size, 1, 0, "NCHW", outs[0], adaptive=True))


@row("adaptive_max_pool2d adaptive_max_pool3d")
def _adaptive_max_pool(w: Writer, x: Value, output_size: Any, return_mask: bool = False) -> Any:
    size = _target(x, output_size, False)
    made = _masked(w, x, size, 1, 0, False, w.types, adaptive=True)
    return made if return_mask else made[0]


@row("adaptive_max_pool1d")
def _adaptive_max_pool1d(w: Writer, x: Value, output_size: Any, return_mask: bool = False) -> Any:
    size = [1, *_target(x, output_size, False)]
    made = _flat(w, x, lambda y, outs: _masked(w, y, size, 1, 0, False, outs, adaptive=True))
    return made if return_mask else made[0]
