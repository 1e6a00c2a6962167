"""Rows of attention under the names of flash kernels, of several lengths and with masks by columns."""

import numpy as np
from scipy import special

from tests.table.harness import FLOAT, Bad, Row, call
from tests.table.samples import floats

HALF = (3, "half precision loses digits in sums of products")
FOUR = {"0-d": "it takes four axes"}
EVER = 2**31 - 1
# half precision is a matter of `attention_rows`, which the functions below are made of
WIDE = frozenset(d for d in FLOAT if d.name in ("float32", "float64"))


def attend(q, k, v, hidden=None, scale=None, softcap=0.0):
    """Results, logarithms and weights, where `hidden` broadcasts to [batch, heads, rows, keys]."""
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    s = np.tanh(s / softcap) * softcap if softcap else s
    s = s if hidden is None else np.where(hidden, -np.inf, s)
    lse = special.logsumexp(s, axis=-1) if s.shape[-1] else np.full(s.shape[:3], -np.inf)
    p = np.where(np.isfinite(lse)[..., None], np.exp(s - np.where(np.isfinite(lse), lse, 0)[..., None]), 0)
    return np.einsum("bhqk,bkhd->bqhd", p, v), lse, p


def above(rows, columns, shift=0):
    return np.arange(columns)[None, :] > np.arange(rows)[:, None] + shift


def _rows(q, k, v, mask, bounds, seed, rate, shift=None, scale=None, softcap=0.0):
    hidden = np.zeros((1, 1, q.shape[1], k.shape[1]), bool)
    if bounds is not None:
        row, b = np.arange(q.shape[1])[:, None], np.repeat(bounds, q.shape[2] // bounds.shape[1], axis=1)[:, :, None]
        hidden = hidden | ((row >= b[..., 0]) & (row < b[..., 1])) | ((row >= b[..., 2]) & (row < b[..., 3]))
    if shift is not None:
        hidden = hidden | above(q.shape[1], k.shape[1], shift)
    return attend(q, k, v, hidden if mask is None else hidden | ~mask, scale, softcap)[:2]


def _flash(q, k, v, dropout=0.0, causal=False, return_softmax=False, softmax_scale=None, **_):
    hidden = above(q.shape[1], k.shape[1], k.shape[1] - q.shape[1]) if causal else None
    out, _, p = attend(q, k, v, hidden, softmax_scale)
    return out, p


def _packed(qkv, *args, **kwargs):
    b, n, groups, heads, width = qkv.shape
    return _flash(qkv[:, :, :-2].reshape(b, n, (groups - 2) * heads, width), qkv[:, :, -2], qkv[:, :, -1], *args, **kwargs)


def _varlen(q, k, v, cu_q, cu_k, max_q, max_k, scale=None, causal=False, window=(-1, -1), softcap=0.0, starts=None):
    out, lse = np.zeros((*q.shape[:2], v.shape[-1])), np.zeros((q.shape[1], q.shape[0]))
    weights = np.zeros((len(cu_q) - 1, q.shape[1], max_q, max_k))
    for i, (n, m) in enumerate(zip(np.diff(cu_q), np.diff(cu_k), strict=True)):
        a, b = (cu_q[i], cu_k[i]) if starts is None else (starts * i, starts * i)
        hidden = above(n, m, m - n) if causal else np.zeros((n, m), bool)
        place = np.arange(n)[:, None] + m - n
        hidden = hidden | (np.arange(m) < place - window[0]) if window[0] >= 0 else hidden
        hidden = hidden | (np.arange(m) > place + window[1]) if window[1] >= 0 else hidden
        o, s, p = attend(q[None, a : a + n], k[None, b : b + m], v[None, b : b + m], hidden, scale, softcap)
        out[a : a + n], lse[:, a : a + n] = o[0], s[0]
        weights[i, :, :n, :m] = p[0]
    return out, lse, weights


def _unpadded(q, k, v, cu_q, cu_k, max_q, max_k, scale, dropout=0.0, causal=False, **_):
    return _varlen(q, k, v, cu_q, cu_k, max_q, max_k, scale, causal)[::2]


def _varlen_packed(qkv, cu_q, cu_k, max_q, max_k, scale, dropout=0.0, causal=False, varlen_padded=True, **_):
    q = qkv[:, :-2].reshape(len(qkv), (qkv.shape[1] - 2) * qkv.shape[2], qkv.shape[-1])
    return _varlen(q, qkv[:, -2], qkv[:, -1], cu_q, cu_k, max_q, max_k, scale, causal, starts=max_q if varlen_padded else None)[::2]


def _masked(q, k, v, rows=None, causal=False, window_size=None, return_softmax_lse=False, softmax_scale=None, **_):
    hidden = np.zeros((1, 1, q.shape[1], k.shape[1]), bool)
    row = np.arange(q.shape[1])[:, None]
    if rows is not None:
        r = np.repeat(rows, q.shape[2] // rows.shape[1], axis=1)[:, :, None]
        n = r.shape[-1]
        hidden = hidden | ((row >= r[..., 0]) & (row < (r[..., 1] if n == (2 if causal else 4) else EVER)))
        if not causal:
            hidden = hidden | ((row >= (r[..., 2] if n == 4 else 0)) & (row < r[..., -1]))
    if window_size is not None:
        left, right = (window_size, window_size) if isinstance(window_size, int) else window_size
        hidden = hidden | (np.arange(k.shape[1]) < row - left) | (np.arange(k.shape[1]) > row + right)
    hidden = hidden | above(q.shape[1], k.shape[1]) if causal else hidden
    out, lse, _ = attend(q, k, v, hidden, softmax_scale)
    return (out, lse) if return_softmax_lse else out


def _qkv(rows=3, keys=3, heads=2, shared=None):
    shared = heads if shared is None else shared
    return floats(2, rows, heads, 4), floats(2, keys, shared, 4, seed=1), floats(2, keys, shared, 4, seed=2)


def _start(*parts):
    return np.stack(np.broadcast_arrays(*parts), -1).astype(np.int32)


_tokens = floats(5, 2, 4), floats(5, 2, 4, seed=1), floats(5, 2, 4, seed=2)
_few = floats(5, 2, 4), floats(6, 1, 4, seed=1), floats(6, 1, 4, seed=2)
_cu, _cu_k = np.array([0, 2, 5], np.int32), np.array([0, 2, 6], np.int32)
_one = _start(np.array([[[2, 3, 3]], [[1, 2, 3]]]))
_two = _start(np.array([[[1, 2, 3]], [[2, 3, 3]]]), np.array([[[2, 3, 3]], [[3, 3, 3]]]))
_both = _start(np.array([[[2, 3, 3], [3, 3, 3]], [[1, 3, 3], [2, 2, 3]]]), np.array([[[0, 1, 2], [0, 0, 0]], [[0, 1, 0], [0, 0, 1]]]))
_four = _start(np.array([[[2, 3, 3]], [[1, 3, 3]]]), np.array([[[3, 3, 3]], [[2, 3, 3]]]), np.array([[[0, 0, 0]], [[0, 0, 1]]]), np.array(
    [[[0, 1, 1]], [[0, 1, 2]]]))  # fmt: skip
_bounds = np.concatenate([_two, np.zeros_like(_two)], -1)
_all = {"return_softmax": True}
_none, _no_tokens, _zeros = np.zeros((0, 3, 2, 4)), [np.zeros((0, 2, 4))] * 3, np.zeros(2, np.int32)
_packed_bad = "flash_attn_qkvpacked(qkv): expected shape [batch, sequence, heads / key heads + 2, key heads, width], got shape [2, 3]"

TABLE = [
    Row("attention_rows", [call(*_qkv(), None, _bounds, None, 0.0), call(*_qkv(2, 3, 4, 2), None, None, None, 0.0, 1, 0.3, 2.0),
        call(*_qkv(), np.array([[True, False, True]]), None, None, 0.0), call(_none, _none, _none, None, None, None, 0.0)],
        _rows, dtypes=FLOAT, out="ref", skip={**FOUR, "dtypes": "the logarithms are at least float32"}, loose=HALF, slow=True,
        bad=[Bad(call(floats(2, 3), floats(2, 3), floats(2, 3), None, None, None, 0.0),
        "attention(query): expected shape [batch, sequence, heads, width], got shape [2, 3]")]),
    Row("flash_attention", [call(*_qkv(2, 4, 4, 2), causal=True, **_all), call(*_qkv(), softmax_scale=0.2, **_all), call(_none, _none, _none, **_all),
        call(*_qkv(3, 0), **_all)], _flash, dtypes=WIDE, unchecked=FLOAT - WIDE, skip=FOUR, loose=HALF, slow=True,
        bad=[Bad(call(*_qkv(), dropout=1.5), "flash_attention(dropout): expected a probability in [0, 1], got 1.5")]),
    Row("flash_attn_qkvpacked", [call(floats(2, 3, 3, 2, 4), **_all), call(floats(1, 3, 4, 2, 4), causal=True, **_all), call(np.zeros((0, 3, 3, 2,
        4)),
        **_all)], _packed, dtypes=WIDE, unchecked=FLOAT - WIDE, skip={"0-d": "it takes five axes"}, loose=HALF, slow=True, bad=[Bad(call(floats(2,
        3)), _packed_bad)]),
    Row("flash_attn_unpadded", [call(*_few, _cu, _cu_k, 4, 4, 0.3, causal=True, **_all),
        call(*_no_tokens,
        _zeros, _zeros, 1, 1, 0.5, **_all)], _unpadded, dtypes=WIDE, unchecked=FLOAT - WIDE, skip={"0-d": "it takes three axes"}, loose=HALF,
        slow=True,
        bad=[Bad(call(*_qkv(), _cu, _cu, 3, 3, 0.5), "flash_attn_unpadded(query): expected shape [tokens, heads, width], got shape [2, 3, 2, 4]")]),
    Row("flash_attn_varlen_qkvpacked", [call(floats(6, 3, 2, 4), _cu, _cu, 3, 3, 0.5, **_all), call(floats(5, 4, 1, 4), _cu, _cu, 3, 3, 0.5,
        causal=True, varlen_padded=False, **_all), call(np.zeros((0, 3, 1, 4)), _zeros, _zeros, 1, 1, 0.5, varlen_padded=False, **_all)],
        _varlen_packed, dtypes=WIDE, unchecked=FLOAT - WIDE, skip={"0-d": "it takes four axes"}, loose=HALF, slow=True,
        bad=[Bad(call(floats(6, 3, 2, 4), _cu, _cu, 0, 0, 0.5),
        "flash_attn_varlen_qkvpacked(max_seqlen_q, max_seqlen_k): expected positive lengths, got [0, 0]")]),
    Row("flash_attention_v3_varlen", [call(*_tokens, _cu, _cu, 3, 3), call(*_few, _cu, _cu_k, 3, 4, causal=True, softcap=2.0), call(*_tokens, _cu,
        _cu,
        3, 3, window_size=(1, 0), softmax_scale=0.3), call(*_no_tokens, _zeros, _zeros, 1, 1)],
        lambda *a, softmax_scale=None, window_size=(-1, -1), **k: _varlen(*a, scale=softmax_scale, window=window_size, **k)[:2], dtypes=WIDE,
        unchecked=FLOAT - WIDE,
        out="ref",
        skip={"0-d": "it takes three axes", "dtypes": "the logarithms are at least float32"}, loose=HALF, slow=True,
        bad=[Bad(call(*_tokens, _cu, _cu[:2], 3, 3),
        "flash_attention_v3_varlen(cu_seqlens_k): expected as many elements as cu_seqlens_q, 3, and at least one, got 2")]),
    Row("flashmask_attention", [call(*_qkv(), _one, causal=True), call(*_qkv(), _two, causal=True), call(*_qkv(3, 3, 4, 2), _both), call(*_qkv(),
        _four),
        call(*_qkv(), window_size=1), call(*_qkv(), window_size=(1, 0), causal=True), call(*_qkv(), softmax_scale=0.2), call(_none, _none, _none)],
        _masked, dtypes=WIDE, unchecked=FLOAT - WIDE, skip=FOUR, loose=HALF, slow=True,
        bad=[Bad(call(*_qkv(), _one), "flashmask_attention(startend_row_indices): expected a last dimension of 2 or 4 with causal=False, got 1"),
        Bad(call(*_qkv(), _one.astype(np.int64), causal=True), "flashmask_attention(startend_row_indices): expected int32, got int64",
        AssertionError)]),
]  # fmt: skip
