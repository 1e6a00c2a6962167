"""Rotary position embedding: pairs of elements rotated by angles that grow with the position."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT, float32, float64
from bireme.core.declare.op import DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops._shared.precision import widen
from bireme.ops.indexing.gather import index_select


def _partner(x, adjacent):
    """For each element the one it is rotated with, the first of a pair getting minus the second."""
    if adjacent:
        pairs = x.reshape((*x.shape[:-1], x.shape[-1] // 2, 2))
        return jnp.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(x.shape)
    n = x.shape[-1] // 2
    return jnp.concatenate([-x[..., n:], x[..., :n]], axis=-1)


@op(internal=True, dtypes=FLOAT, numpy=True)
def turned(x: Tensor, cos: Tensor, sin: Tensor, adjacent: bool) -> Tensor:
    """Pairs of the last axis rotated by angles, adjacent ones or those of both halves; use
    `fused_rotary_position_embedding`.
    """
    wide = widen(x)
    return (wide * cos.astype(wide.dtype) + _partner(wide, adjacent) * sin.astype(wide.dtype)).astype(x.dtype)


turned.infer(lambda x: x)


@turned.grad(numpy=True)
def _(g, cos, sin, adjacent):
    # the pairs rotated back; cos and sin are a table, not learned
    wide = widen(g)
    return (
        (wide * cos.astype(wide.dtype) - _partner(wide * sin.astype(wide.dtype), adjacent)).astype(g.dtype),
        None,
        None,
    )


@op(internal=True, differentiable=False, numbers={"base": "float64"}, numpy=True)
def rotary_table(base: Tensor | float, length: int, width: int, adjacent: bool, dtype: DTypeArg) -> list[Tensor]:
    """Cosines and sines of position times frequency, [length, width]; use `fused_rotary_position_embedding`."""
    pair = jnp.arange(width) // 2 if adjacent else jnp.arange(width) % (width // 2 or 1)
    kind = dtype.np
    angle = (
        jnp.arange(length).astype(kind)[:, None]
        * base.astype(kind) ** (-(2 * pair).astype(kind) / np.asarray(width or 1, kind))[None]
    )
    return [jnp.cos(angle), jnp.sin(angle)]


@rotary_table.infer
def _(length, width, dtype):
    return [sig_of((length, width), dtype)] * 2


NAME = "fused_rotary_position_embedding"


def _table(name: str, t: Tensor, length: int, width: int, longer: bool) -> Tensor:
    """A table of angles as [positions, width]."""
    flat = t.ndim == 4 and t.shape[0] == 1 and t.shape[2] == 1
    if not (flat or t.ndim == 2) or t.shape[-1] != width or (t.shape[-3 if flat else 0] != length and not longer):
        wanted = f"shape [{length}, {width}] or [1, {length}, 1, {width}]"
        raise errors.bad(
            f"{NAME}({name})",
            f"{wanted}, with more positions if position_ids choose among them" if longer else wanted,
            described=f"shape {t.shape}",
            kind=errors.ShapeError,
        )
    return t.reshape([-1, width]) if flat else t


@composite(plain=True, name_arg=False)
def fused_rotary_position_embedding(
    q: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    sin: Tensor | None = None,
    cos: Tensor | None = None,
    position_ids: Tensor | None = None,
    use_neox_rotary_style: bool = True,
    time_major: bool = False,
    rotary_emb_base: float = 10000.0,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Rotary position embedding: pairs of elements are rotated by an angle that grows with the position.

    Without ``sin`` and ``cos`` the angle of pair ``i`` at position ``t`` is ``t / rotary_emb_base ** (2 * i / D)``.

    Args:
        q: Queries of shape ``[N, L, H, D]`` with an even ``D``, of a floating-point dtype.
        k: Keys of the same shape, but for the number of heads. Default: None.
        v: Values of the same shape, but for the number of heads. Default: None.
        sin: Sines of shape ``[L, D]`` or ``[1, L, 1, D]``; with ``position_ids`` of any number of positions.
            Default: None.
        cos: Cosines of the same shape. Default: None.
        position_ids: Integer positions of shape ``[N, L]``, which choose rows of ``sin`` and ``cos``. Default: None.
        use_neox_rotary_style: Whether pairs are adjacent elements, else elements of both halves. Default: True.
        time_major: Whether the first axis is the length and the second the batch. Default: False.
        rotary_emb_base: Base of the frequencies without ``sin`` and ``cos``. Default: 10000.0.

    Returns:
        Tuple of the rotated ``q``, ``k`` and ``v``, ``None`` for those that are not given.

    Examples:
        >>> q = bireme.to_tensor([[[[1.0, 0.0]], [[1.0, 0.0]]]])
        >>> rotated, _, _ = bireme.incubate.nn.functional.fused_rotary_position_embedding(q)
        >>> [round(x, 4) for x in rotated.flatten().tolist()]
        [1.0, 0.0, 0.5403, 0.8415]
    """
    if q.ndim != 4 or q.shape[-1] % 2:
        raise errors.bad(
            f"{NAME}(q)",
            "shape [batch, length, heads, width] with an even width",
            described=f"shape {q.shape}",
            kind=errors.ShapeError,
        )
    batch, length = (q.shape[1], q.shape[0]) if time_major else (q.shape[0], q.shape[1])
    width = q.shape[-1]
    for name, t in (("k", k), ("v", v)):
        if t is not None and (t.ndim != 4 or t.shape[:2] != q.shape[:2] or t.shape[-1] != width):
            raise errors.bad(
                f"{NAME}({name})",
                f"batch, length and width to match q of shape {q.shape}",
                described=f"shape {t.shape}",
                kind=errors.ShapeError,
            )
    cos, sin = _angles(q, sin, cos, position_ids, batch, length, width, use_neox_rotary_style, rotary_emb_base)
    per_batch = position_ids is not None
    shape = [batch, length, 1, width] if per_batch else [1, length, 1, width]
    cos, sin = cos.reshape(shape), sin.reshape(shape)
    if time_major:
        cos, sin = [t.transpose([1, 0, 2, 3]) for t in (cos, sin)]
    return tuple([None if t is None else turned(t, cos, sin, use_neox_rotary_style) for t in (q, k, v)])


def _angles(
    q: Any, sin: Any, cos: Any, position_ids: Any, batch: int, length: int, width: int, adjacent: bool, base: float
) -> list[Tensor]:
    """Cosines and sines for each position, or for each position of each row."""
    if (sin is None) != (cos is None):
        missing = "sin" if sin is None else "cos"
        raise errors.bad(f"{NAME}({missing})", "both sin and cos, or neither", described=f"no {missing}")
    if sin is None:
        if position_ids is not None:
            raise errors.bad(
                f"{NAME}(position_ids)",
                "sin and cos, since position_ids are given",
                described="neither",
                kind=AssertionError,
            )
        return rotary_table(base, length, width, adjacent, float64 if q.dtype is float64 else float32)
    tables = [_table(name, t, length, width, position_ids is not None) for name, t in (("cos", cos), ("sin", sin))]
    if tables[0].shape != tables[1].shape:
        raise errors.bad(
            f"{NAME}(sin)", f"shape {cos.shape}, as cos has", described=f"shape {sin.shape}", kind=errors.ShapeError
        )
    if position_ids is None:
        return tables
    if position_ids.shape != [batch, length] or position_ids.dtype.kind != "i":
        raise errors.bad(
            f"{NAME}(position_ids)",
            f"an integer tensor of shape [{batch}, {length}]",
            position_ids,
            kind=errors.for_integer(position_ids),
        )
    return [index_select(t, position_ids.reshape([-1])) for t in tables]
