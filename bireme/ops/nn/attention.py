"""Attention: softmax of scaled products, with masks of every kind, and what is never larger than a block of rows."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import BOOL, FLOAT
from bireme.core.declare.op import Attr, Const, Extra, Tensor, composite, op
from bireme.core.graph.bound import Inapplicable
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec import blas
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.ops.random.generators import chance, randint

BLOCK = 1 << 24  # scores that exist at a time: above it, blocks of rows come one after another


def _scores(q, k, mask, bounds, start, shift, scale, softcap):
    """Masked scaled products of q and k, [batch, heads, rows, keys]; `start` is the index of the first row."""
    b, h, rows, d = q.shape
    shared = h // k.shape[1]  # heads of the query that have one head of the keys in common
    s = jnp.einsum("bhqd,bhkd->bhqk", q.reshape(b, k.shape[1], shared * rows, d), k).reshape(b, h, rows, k.shape[2])
    s = s.astype(jnp.float32) if s.dtype.itemsize < 4 else s
    s = s * np.asarray(scale, s.dtype)
    least = np.asarray(-np.inf, s.dtype)
    if softcap:
        s = jnp.tanh(s / softcap) * softcap
    if mask is not None:
        s = jnp.where(mask, s, least) if mask.dtype == jnp.bool_ else s + mask.astype(s.dtype)
    row = (start + jnp.arange(rows, dtype=jnp.int32))[:, None]
    if bounds is not None:
        bounds = (
            jnp.repeat(bounds, h // bounds.shape[1], axis=1)[..., None, :, :]
            if bounds.shape[1] != 1
            else bounds[..., None, :, :]
        )
        below = (row >= bounds[..., 0]) & (row < bounds[..., 1])
        above = (row >= bounds[..., 2]) & (row < bounds[..., 3])
        s = jnp.where(below | above, least, s)
    if shift is not None:
        s = jnp.where(row + shift >= jnp.arange(k.shape[2])[None, :], s, least)
    return s


def _weights(s):
    """Softmax, and the logarithm of its denominator; a row without anything to attend to has zeros."""
    top = lax.stop_gradient(jnp.max(s, axis=-1, keepdims=True))
    top = jnp.where(top == -np.inf, np.asarray(0, s.dtype), top)
    e = jnp.exp(s - top)
    total = jnp.sum(e, axis=-1, keepdims=True)
    return e / jnp.where(total == 0, np.asarray(1, s.dtype), total), (top + jnp.log(total))[..., 0]


def _part(q, k, v, mask, bounds, drop, start, shift, scale, softcap):
    """Results and logarithms for a block of rows."""
    p, lse = _weights(_scores(q, k, mask, bounds, start, shift, scale, softcap))
    if drop is not None:
        rate, k0, k1 = drop
        # another stream for each block
        keep = ~chance((k0 ^ (jnp.uint32(start) * np.uint32(0x9E3779B9)), k1), p.shape, rate)
        keep = lax.optimization_barrier(keep)  # once: fused into each of its uses, the bits would be made over and over
        p = jnp.where(keep, p * jnp.where(rate < 1, 1 / (1 - rate), 0).astype(p.dtype), np.asarray(0, p.dtype))
    b, h, rows, n = p.shape
    out = jnp.einsum("bhqk,bhkd->bhqd", p.astype(v.dtype).reshape(b, v.shape[1], -1, n), v)
    return out.reshape(b, h, rows, v.shape[-1]), lse


def _block(b, h, rows, n):
    """How many rows have their scores at a time."""
    return rows if b * h * rows * n <= BLOCK else min(rows, max(16, BLOCK // (b * h * n) // 16 * 16))


def attend(query, key, value, mask=None, bounds=None, drop=None, shift=None, scale=None, softcap=0.0):
    """Attention of [batch, rows, heads, width] and the logarithms of its denominators, [batch, heads, rows].

    Never more than BLOCK scores exist: longer inputs are gone through by blocks of rows, whose backward pass computes
    its scores again.
    """
    b, rows, h, d = query.shape
    n = key.shape[1]
    scale = 1 / math.sqrt(max(d, 1)) if scale is None else scale
    q, k, v = (jnp.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    k, v = (x if x.shape[0] == b else jnp.broadcast_to(x, (b, *x.shape[1:])) for x in (k, v))
    if 0 in (b, rows, h, n, d):
        wide = jnp.float32 if q.dtype.itemsize < 4 else q.dtype
        return jnp.zeros((b, rows, h, v.shape[-1]), q.dtype), jnp.full((b, h, rows), -np.inf, wide)
    mask = mask if mask is None else mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if _block(b, h, rows, n) == rows:
        out, lse = _part(q, k, v, mask, bounds, drop, 0, shift, scale, softcap)
        return jnp.transpose(out, (0, 2, 1, 3)), lse
    size = _block(b, h, rows, n)
    count = -(-rows // size)

    def blocks(x):
        x = jnp.pad(x, ((0, 0), (0, 0), (0, count * size - rows), (0, 0)))
        return jnp.moveaxis(x.reshape(*x.shape[:2], count, size, x.shape[-1]), 2, 0)

    by_row = mask is not None and mask.shape[2] != 1

    @jax.checkpoint
    def step(_, given):
        start, q, own = given
        return None, _part(q, k, v, own if by_row else mask, bounds, drop, start, shift, scale, softcap)

    given = (jnp.arange(count, dtype=jnp.int32) * size, blocks(q), blocks(mask) if by_row else None)
    out, lse = lax.scan(step, None, given)[1]
    out = jnp.moveaxis(out, 0, 2).reshape(b, h, count * size, -1)[:, :, :rows]
    return jnp.transpose(out, (0, 2, 1, 3)), jnp.moveaxis(lse, 0, 2).reshape(b, h, count * size)[:, :, :rows]


def check_shapes(where, query, key, value, mask=None, mask_name="attn_mask"):
    """What must hold of queries, keys, values and a mask."""
    for name, s in (("query", query), ("key", key), ("value", value)):
        if s.ndim != 4:
            raise errors.bad(
                f"{where}({name})",
                "shape [batch, sequence, heads, width]",
                described=f"shape {list(s.shape)}",
                kind=errors.ShapeError,
            )
    fits = key.shape[:3] == value.shape[:3] and query.shape[3] == key.shape[3] and key.shape[0] in (1, query.shape[0])
    if not fits:
        got = f"shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        raise errors.bad(f"{where}(key, value)", "keys and values of equal length that match the query", described=got)
    heads, shared = query.shape[2], key.shape[2]
    if heads != shared and (not shared or heads % shared):
        raise errors.bad(
            f"{where}(key)", f"{heads} heads, as the query has, or a number that divides it", described=f"{shared}"
        )
    if mask is not None:
        full = (query.shape[0], heads, query.shape[1], key.shape[1])
        if mask.ndim > 4 or any(m not in (1, n) for m, n in zip(reversed(mask.shape), reversed(full))):
            raise errors.bad(
                f"{where}({mask_name})",
                f"a mask that broadcasts to {list(full)}",
                described=f"shape {list(mask.shape)}",
                kind=errors.ShapeError,
            )
        if mask.dtype not in FLOAT | BOOL:
            raise errors.bad(
                f"{where}({mask_name})",
                "a bool or floating-point mask",
                described=mask.dtype.name,
                kind=errors.DtypeError,
            )


class _Steps:
    """The interpreter's attention: nothing is traced for a new length; scores are computed by blocks of rows."""

    def __init__(self, query, key, value, mask, bounds=None, drop=None, shift=None, scale=None, softcap=0.0):
        self.b, self.rows, self.h, d = query.shape
        self.n, self.shared = key.shape[1], self.h // key.shape[2]
        self.kind = query.dtype
        self.wide = np.dtype(np.float32) if self.kind.itemsize < 4 else self.kind
        self.scale = np.asarray(1 / math.sqrt(max(d, 1)) if scale is None else scale, self.wide)
        self.q, self.k, self.v = self.split(query, self.shared) * self.scale, self.split(key, 1), self.split(value, 1)
        self.mask = mask if mask is None else mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        self.bounds, self.drop, self.shift, self.softcap = bounds, drop, shift, softcap
        self.size = _block(self.b, self.h, self.rows, self.n)
        self.blocks = [slice(start, min(start + self.size, self.rows)) for start in range(0, self.rows, self.size)]

    def split(self, x, shared):
        """[batch, heads of the keys, heads that share them, rows, width] of [batch, rows, heads, width]."""
        x = np.swapaxes(x, 1, 2)
        return np.ascontiguousarray(x.reshape(x.shape[0], x.shape[1] // shared, shared, *x.shape[2:]), self.wide)

    def joined(self, x):
        """The other way round, in the dtype of the operands."""
        return np.swapaxes(x.reshape(x.shape[0], -1, *x.shape[3:]), 1, 2).astype(self.kind)

    def by_head(self, x):
        """What is given for each head, or once for all, beside the scores."""
        return x[:, :, None] if x.shape[1] == 1 else x.reshape(x.shape[0], -1, self.shared, *x.shape[2:])

    def weights(self, rows):
        """Weights, the factors that dropout leaves, logarithms of the denominators, and tanh of the capped scores."""
        s = blas.matmul(self.q[..., rows, :], np.swapaxes(self.k, -1, -2))
        bent = None
        least = np.asarray(-np.inf, self.wide)
        row = np.arange(self.rows)[rows, None]
        if self.softcap:
            bent = np.tanh(s / self.softcap)
            s = bent * np.asarray(self.softcap, self.wide)
        if self.mask is not None:
            own = self.by_head(self.mask[:, :, rows] if self.mask.shape[2] != 1 else self.mask)
            s = np.where(own, s, least) if own.dtype == bool else s + own.astype(self.wide)
        if self.bounds is not None:
            ends = (
                self.bounds
                if self.bounds.shape[1] == 1
                else np.repeat(self.bounds, self.h // self.bounds.shape[1], axis=1)
            )
            ends = ends[..., None, :, :]
            hidden = ((row >= ends[..., 0]) & (row < ends[..., 1])) | ((row >= ends[..., 2]) & (row < ends[..., 3]))
            s = np.where(self.by_head(hidden), least, s)
        if self.shift is not None:
            s = np.where(row + self.shift >= np.arange(self.n), s, least)
        top = s.max(-1, keepdims=True)
        top[top == -np.inf] = 0
        s -= top
        e = np.exp(s, out=s)
        total = e.sum(-1, keepdims=True)
        with np.errstate(divide="ignore"):
            lse = (top + np.log(total))[..., 0]
        total[total == 0] = 1
        e /= total
        return e, self.left(rows, s.shape), lse, bent

    def left(self, rows, shape):
        if self.drop is None:
            return None
        rate, k0, k1 = self.drop
        key = (k0 ^ np.uint32(rows.start * 0x9E3779B9 & 0xFFFFFFFF), k1)
        keep = ~_chance_numpy(key, (self.b, self.h, self.size, self.n), rate)[:, :, : rows.stop - rows.start]
        return (keep * np.asarray(1 / (1 - rate) if rate < 1 else 0, self.wide)).reshape(shape)


_chance_numpy = on_numpy(chance)


def _attention_numpy(query, key, value, mask, causal):
    return _rows_numpy(query, key, value, mask, None, None, None, 0 if causal else None, None, 0.0)[0]


def _attention_grad_numpy(g, query, key, value, mask, causal):
    found = _rows_grad_numpy((g, None), query, key, value, mask, None, None, None, 0 if causal else None, None, 0.0)
    return found[: 3 if mask is None else 4]


def _drop_numpy(seed, rate):
    return None if seed is None else (rate.astype(np.float32), *seed.astype(np.uint32)[:2])


def _rows_numpy(query, key, value, mask, bounds, seed, rate, shift, scale, softcap):
    if 0 in (*query.shape, *key.shape):
        wide = np.float32 if query.dtype.itemsize < 4 else query.dtype
        lse = np.full((query.shape[0], query.shape[2], query.shape[1]), -np.inf, wide)
        return np.zeros((*query.shape[:3], value.shape[3]), query.dtype), lse
    steps, outs, logs = _Steps(query, key, value, mask, bounds, _drop_numpy(seed, rate), shift, scale, softcap), [], []
    for rows in steps.blocks:
        p, left, lse, _ = steps.weights(rows)
        outs.append(blas.matmul(p if left is None else p * left, steps.v))
        logs.append(lse)
    return steps.joined(np.concatenate(outs, -2)), np.concatenate(logs, -1).reshape(steps.b, steps.h, steps.rows)


def _rows_grad_numpy(g, query, key, value, mask, bounds, seed, rate, shift, scale, softcap):
    given = [a for a in (query, key, value, mask) if a is not None]
    rest = [None for a in (bounds, seed, rate) if a is not None]
    if 0 in (*query.shape, *key.shape, *value.shape):
        return *[None if a.dtype == bool else np.zeros_like(a) for a in given], *rest
    steps = _Steps(query, key, value, mask, bounds, _drop_numpy(seed, rate), shift, scale, softcap)
    more, of_logs = g
    more, dq = steps.split(more, steps.shared), np.empty_like(steps.q)
    of_logs = None if of_logs is None else of_logs.reshape(*steps.q.shape[:4], 1)
    dk, dv = np.zeros((steps.b, *steps.k.shape[1:]), steps.wide), np.zeros((steps.b, *steps.v.shape[1:]), steps.wide)
    dm = None if mask is None or mask.dtype == bool else np.zeros(steps.mask.shape, steps.wide)
    for rows in steps.blocks:
        (p, left, _, bent), now = steps.weights(rows), more[..., rows, :]
        dv += blas.matmul(np.swapaxes(p if left is None else p * left, -1, -2), now).sum(2, keepdims=True)
        ds = blas.matmul(now, np.swapaxes(steps.v, -1, -2))
        ds = ds if left is None else ds * left
        ds -= np.einsum("...k,...k->...", ds, p)[..., None]
        ds *= p
        if of_logs is not None:
            ds += p * of_logs[..., rows, :]
        if dm is not None:
            own = ds.reshape(steps.b, steps.h, *ds.shape[3:])
            part = dm if dm.shape[2] == 1 else dm[:, :, rows]
            part += own.sum(tuple([i for i in range(4) if dm.shape[i] == 1 != own.shape[i]]), keepdims=True)
        if bent is not None:
            ds *= 1 - bent * bent
        dq[..., rows, :] = blas.matmul(ds, steps.k) * steps.scale
        dk += blas.matmul(np.swapaxes(ds, -1, -2), steps.q[..., rows, :]).sum(2, keepdims=True)
    dk, dv = [a if len(key) == steps.b else a.sum(0, keepdims=True) for a in (dk, dv)]
    of_mask = [] if mask is None else [None if dm is None else dm.reshape(mask.shape).astype(mask.dtype)]
    return steps.joined(dq), steps.joined(dk), steps.joined(dv), *of_mask, *rest


@op(internal=True, promote="query key value", dtypes=FLOAT, amp="low", numpy=_attention_numpy, kernels="flash_attn")
def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Softmax attention on [batch, sequence, heads, width]; use `scaled_dot_product_attention`."""
    return attend(query, key, value, mask, shift=0 if causal else None)[0]


attention.infer(lambda query, value: sig_of((*query.shape[:3], value.shape[3]), query.dtype))
attention.check(lambda query, key, value, mask: check_shapes("scaled_dot_product_attention", query, key, value, mask))


def cudnn_takes(query, key, value, dtype, masked):
    """Whether cuDNN's kernel, with its gradient, applies to these shapes; where it does not, jax raises."""
    width, rows, length = query[3], query[1], key[1]
    return (
        dtype.itemsize == 2
        and not masked
        and width % 8 == 0
        and width <= 128
        and width == value[3]
        and rows % 2 == 0
        and length % 2 == 0
        and query[0] == key[0]
        and 0 not in (*query, *key)
    )


def _fused(query, key, value, mask, causal):
    """cuDNN's kernel as a function of queries, keys and values; None where it does not apply."""
    if not cudnn_takes(query.shape, key.shape, value.shape, query.dtype, mask is not None):
        return None
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation="cudnn")


@attention.on("cuda")
def _(query, key, value, mask, causal):
    fused = _fused(query, key, value, mask, causal)
    if fused is None:
        return attend(query, key, value, mask, shift=0 if causal else None)[0]
    # called as its own forward rule: the call in backward is then the very same one, and XLA computes it once
    return jax.vjp(fused, query, key, value)[0]


@attention.grad(numpy=_attention_grad_numpy)
def _attention_grad(g, query, key, value, mask, causal):
    shift = 0 if causal else None
    if mask is None or mask.dtype == jnp.bool_:
        grads = jax.vjp(lambda q, k, v: attend(q, k, v, mask, shift=shift)[0], query, key, value)[1](g)
        return (*grads, None)[: 3 if mask is None else 4]
    return jax.vjp(lambda q, k, v, m: attend(q, k, v, m, shift=shift)[0], query, key, value, mask)[1](g)


@attention.grad(on="cuda")
def _(g, query, key, value, mask, causal):
    fused = _fused(query, key, value, mask, causal)
    if fused is None:
        return _attention_grad(g, query, key, value, mask, causal)
    return jax.vjp(fused, query, key, value)[1](g)


class _Beginnings:
    """Attention on queries, keys and values of which only beginnings are valid: what lies behind them may be anything, and
    has no part in it.
    """

    def __init__(self, lengths, query, key, value, mask, causal):
        own = [lengths[name] for name in ("query", "key", "value")]
        if any(n is not None for each in own for n in each[2:]) or (own[1][1] is None) != (own[2][1] is None):
            raise Inapplicable
        self.given = [_cleared(x, n) for x, n in zip((query, key, value), own)]
        self.mask = None if mask is None else _cleared(mask, lengths["mask"])
        self.causal, self.lengths = causal, [n[1] for n in own[:2]]

    @property
    def operands(self):
        """What it has slopes in."""
        with_mask = self.mask is not None and self.mask.dtype != jnp.bool_
        return [*self.given, self.mask] if with_mask else self.given

    def __call__(self, query, key, value, mask=None):
        """In steps; keys behind the last valid one are attended to by nobody."""
        mask, keys = self.mask if mask is None else mask, self.lengths[1]
        if keys is not None:
            valid = jnp.arange(key.shape[1], dtype=jnp.int32) < keys
            if mask is None:
                mask = valid[None, None, None]
            elif mask.dtype == jnp.bool_:
                mask = mask & valid
            else:
                mask = jnp.where(valid, mask, -jnp.inf)
        return attend(query, key, value, mask, shift=0 if self.causal else None)[0]

    def by_cudnn(self, query, key, value):
        """By cuDNN's kernel, which is told how many rows and keys each sample has."""
        rows, keys = [
            jnp.full(x.shape[0], x.shape[1] if n is None else n, jnp.int32) for x, n in zip((query, key), self.lengths)
        ]
        return jax.nn.dot_product_attention(
            query,
            key,
            value,
            is_causal=self.causal,
            query_seq_lengths=rows,
            key_value_seq_lengths=keys,
            implementation="cudnn",
        )

    @property
    def by_kernel(self):
        """The faster one of both that applies, on NVIDIA GPUs."""
        query, key, value = self.given
        fits = cudnn_takes(query.shape, key.shape, value.shape, query.dtype, self.mask is not None)
        return self.by_cudnn if fits else self


def _cleared(x, lengths):
    """An array with zeros behind what is valid."""
    for axis, n in enumerate(lengths):
        if n is not None:
            valid = jnp.arange(x.shape[axis], dtype=jnp.int32) < n
            x = jnp.where(valid.reshape(-1, *[1] * (x.ndim - axis - 1)), x, jnp.zeros((), x.dtype))
    return x


@attention.padded()
def _(lengths, query, key, value, mask, causal):
    form = _Beginnings(lengths, query, key, value, mask, causal)
    return form(*form.operands)


@attention.padded("cuda")
def _(lengths, query, key, value, mask, causal):
    form = _Beginnings(lengths, query, key, value, mask, causal)
    return jax.vjp(form.by_kernel, *form.operands)[0]  # as it is called in backward


@attention.padded(grad=True)
def _(lengths, g, query, key, value, mask, causal):
    form = _Beginnings(lengths, query, key, value, mask, causal)
    return _slopes(form, form, _cleared(g, lengths["g"]), mask)


@attention.padded("cuda", grad=True)
def _(lengths, g, query, key, value, mask, causal):
    form = _Beginnings(lengths, query, key, value, mask, causal)
    return _slopes(form, form.by_kernel, _cleared(g, lengths["g"]), mask)


def _slopes(form, fn, g, mask):
    """Gradients of all operands; None for a mask of bools."""
    found = jax.vjp(fn, *form.operands)[1](g)
    return (*found, None)[: 3 if mask is None else 4]


@op(internal=True, promote="query key value", dtypes=FLOAT, amp="low", numpy=_rows_numpy)
def attention_rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    bounds: Tensor | None,
    seed: Tensor | None,
    rate: Tensor | float,
    shift: Any = None,
    scale: Const = None,
    softcap: Const = 0.0,
) -> tuple[Tensor, Tensor]:
    """Attention and the logarithms of its denominators; what lies under `scaled_dot_product_attention` and its kin.

    Row r attends to key c unless `bounds[..., c, :]`, two ranges of rows, has r in one of them, or `shift` is given and
    c > r + shift. With a `seed` of two integers, weights are dropped at this `rate`.
    """
    return attend(query, key, value, mask, bounds, _drop(seed, rate), shift, scale, softcap)


def _drop(seed, rate):
    """The rate and the two keys of the stream; None without a seed."""
    if seed is None:
        return None
    words = seed.astype(jnp.uint32)
    return rate.astype(jnp.float32), words[0], words[1]


@attention_rows.infer
def _(query, value):
    wide = dtypes.float64 if query.dtype is dtypes.float64 else dtypes.float32
    out = sig_of((*query.shape[:3], value.shape[3]), query.dtype)
    return out, sig_of((query.shape[0], query.shape[2], query.shape[1]), wide)


@attention.effort
@attention_rows.effort
def _(query, key):
    """Some passes over the scores, and two products for each of them."""
    batch, rows, heads, width = query.shape
    return batch * heads * rows * key.shape[1] * (12 + width // 4)


attention_rows.check(lambda query, key, value, mask: check_shapes("attention", query, key, value, mask))


@attention_rows.grad(numpy=_rows_grad_numpy)
def _(g, query, key, value, mask, bounds, seed, rate, shift, scale, softcap):
    drop = _drop(seed, rate)
    slopes = [x for x in (query, key, value) if x is not None]
    if mask is not None and mask.dtype != jnp.bool_:
        slopes.append(mask)

    def forward(q, k, v, m=mask):
        return attend(q, k, v, m, bounds, drop, shift, scale, softcap)

    found = [*jax.vjp(forward, *slopes)[1](tuple(g))]
    if mask is not None and len(found) == 3:
        found.append(None)
    return (*found, *[None for x in (bounds, seed, rate) if x is not None])


@op(internal=True, promote="query key", dtypes=FLOAT)
def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None, causal: bool, shift: int = 0, scale: Const = None
) -> Tensor:
    """Softmax of the scaled products of queries and keys, [batch, heads, rows, keys]."""
    q, k = (jnp.transpose(x, (0, 2, 1, 3)) for x in (query, key))
    if 0 in (*q.shape, *k.shape):
        return jnp.zeros((*q.shape[:3], k.shape[2]), query.dtype)
    k = k if k.shape[0] == q.shape[0] else jnp.broadcast_to(k, (q.shape[0], *k.shape[1:]))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    return _weights(_scores(q, k, mask, None, 0, shift if causal else None, scale, 0.0))[0].astype(query.dtype)


attention_weights.check(lambda query, key, mask: check_shapes("attention_weights", query, key, key, mask, "mask"))


def check_rate(where: str, rate: Any) -> None:
    if not isinstance(rate, Tensor) and not 0 <= rate <= 1:
        raise errors.bad(where, "a probability in [0, 1]", rate)


@composite(plain="query key value")
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
                                 dropout_p: float = 0.0, is_causal: bool = False, training: bool = True,
                                 name: Extra[str] = None, backend: Attr[str] = None) -> Tensor:  # fmt: skip
    """Attention: ``softmax(query @ key.T / sqrt(D) + mask) @ value`` for each head.

    Heads are axis 2, after the sequence. Keys and values may have fewer heads, each of which consecutive heads of the
    queries share (grouped-query attention). Scores are computed by blocks of rows where all of them together would be
    large, so that memory grows with the length, not with its square. A row that may attend to nothing gives zeros.

    Args:
        query: Queries of shape ``[N, Lq, H, D]``, of a floating-point dtype; the batch axis may be left out.
        key: Keys of shape ``[N, Lk, Hk, D]``; ``H`` must be a multiple of ``Hk``.
        value: Values of shape ``[N, Lk, Hk, Dv]``.
        attn_mask: Mask that broadcasts to ``[N, H, Lq, Lk]``: a bool one is true where attention is allowed, a
            floating-point one is added to the scores. Default: None.
        dropout_p: Probability in ``[0, 1]`` of dropping a weight in training. Default: 0.0.
        is_causal: Whether query ``i`` attends to the keys 0 to ``i`` only. Default: False.
        training: Whether dropout applies. Default: True.
        name: Not used; kept for Paddle's signature.
        backend: Not used: the kernel follows from device, dtype and shapes. Default: None.

    Returns:
        Tensor of shape ``[N, Lq, H, Dv]`` and the dtype of ``query``.

    Raises:
        ValueError: If shapes or numbers of heads do not fit, or ``dropout_p`` is out of range.

    Examples:
        >>> q, v = bireme.ones([1, 2, 1, 1]), bireme.to_tensor([1.0, 3.0]).reshape([1, 2, 1, 1])
        >>> bireme.nn.functional.scaled_dot_product_attention(q, q, v).flatten().tolist()
        [2.0, 2.0]
        >>> bireme.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True).flatten().tolist()
        [1.0, 2.0]
    """
    check_rate("scaled_dot_product_attention(dropout_p)", dropout_p)
    single = query.ndim == 3
    query, key, value = (x.unsqueeze(0) if x.ndim == 3 else x for x in (query, key, value))
    if dropout_p and training:
        seed = randint(-(2**31), 2**31, [2], "int64")
        out = attention_rows(query, key, value, attn_mask, None, seed, float(dropout_p), 0 if is_causal else None)[0]
    else:
        out = attention(query, key, value, attn_mask, is_causal)
    return out.squeeze(0) if single else out
