"""Rows of attention, norms and tables."""

import numpy as np
from scipy import special

from tests.table.harness import ALL, FLOAT, Bad, Row, call
from tests.table.samples import floats

ONE_PASS = {"width": "on a GPU both sums are made in one pass, in double precision, which keeps the digits"}

NONE: frozenset = frozenset()
Z = np.zeros((2, 0, 3))
HALF_SUMS = (3, "half precision loses digits in sums of products")


# ---------------------------------------------------------------- attention: [batch, sequence, heads, width]


def _weights(q, k, mask, causal):
    s = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -1e9) if mask.dtype == bool else s + mask
    if causal:
        s = np.where(np.tril(np.ones(s.shape[-2:], bool)), s, -np.inf)
    return special.softmax(s, axis=-1) if s.size else s


def _attention(q, k, v, attn_mask=None, is_causal=False, **_):
    return np.einsum("bhqk,bkhd->bqhd", _weights(q, k, attn_mask, is_causal), v)


def _qkv(*more, **kwargs):
    return call(floats(1, 3, 2, 4), floats(1, 3, 2, 4, seed=1), floats(1, 3, 2, 4, seed=2), *more, **kwargs)


_mask = floats(1, 1, 3, 3)
_empty_q = np.zeros((0, 3, 2, 4))
_attend_bad = Bad(
    call(floats(2, 3), floats(2, 3), floats(2, 3), None, False),
    "scaled_dot_product_attention(query): expected shape [batch, sequence, heads, width], got shape [2, 3]",
)


def _rows_grad(w, x, table, padding_idx):
    """The rows that were read, but for the padding row."""
    grad = np.zeros_like(table)
    keep = np.ones(x.shape, bool) if padding_idx is None else x != padding_idx
    np.add.at(grad, x[keep], w[keep])
    return grad


# ---------------------------------------------------------------- norms, tables


def _layer_norm(x, shape, weight=None, bias=None, epsilon=1e-5):
    axes = tuple(range(x.ndim - (1 if np.ndim(shape) == 0 else len(shape)), x.ndim))
    y = (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon) if x.size else x
    y = y if weight is None else y * weight.reshape([x.shape[a] for a in axes])
    return y if bias is None else y + bias.reshape([x.shape[a] for a in axes])


def _pad_widths(x, widths, mode, value):
    mode = mode if x.size else "constant"
    kinds = {"constant": {"constant_values": value}, "reflect": {}, "replicate": {}, "circular": {}}
    names = {"replicate": "edge", "circular": "wrap"}
    return np.pad(x, widths, mode=names.get(mode, mode), **kinds[mode])


def _pad(x, pad, mode="constant", value=0.0, data_format="NCHW"):
    pairs = [tuple(pad[i : i + 2]) for i in range(0, len(pad), 2)]
    if len(pairs) == x.ndim:
        widths = pairs
    else:
        widths = [(0, 0)] * x.ndim
        last = x.ndim - (2 if data_format.endswith("C") else 1)
        for i, p in enumerate(pairs):
            widths[last - i] = p
    grown = _pad_widths(x, [(max(a, 0), max(b, 0)) for a, b in widths], mode, value)
    return grown[tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(grown.shape, widths, strict=True))]


TABLE = [
    Row("attention", [_qkv(None, False), _qkv(None, True), _qkv(_mask, False), _qkv(_mask > 0, False), call(_empty_q, _empty_q, _empty_q, None,
        False)],
        lambda q, k, v, mask, causal: _attention(q, k, v, mask, causal), dtypes=FLOAT, skip={"0-d": "it takes four axes"}, bad=[_attend_bad],
        loose=HALF_SUMS),
    Row("attention_weights", [call(floats(1, 3, 2, 4), floats(1, 3, 2, 4, seed=1), None, c) for c in (False, True)] + [call(_empty_q, _empty_q, None,
        False)],
        _weights, dtypes=FLOAT, skip={"0-d": "it takes four axes"}, loose=HALF_SUMS),
    Row("scaled_dot_product_attention", [_qkv(), _qkv(is_causal=True), _qkv(attn_mask=_mask), _qkv(attn_mask=_mask > 0), _qkv(dropout_p=0.5,
        training=False), call(_empty_q, _empty_q, _empty_q)],
        _attention, dtypes=FLOAT, skip={"0-d": "it takes four axes"}, loose=HALF_SUMS,
        bad=[Bad(call(floats(2, 3), floats(2, 3), floats(2, 3)), _attend_bad.message), Bad(_qkv(dropout_p=2.0),
        "scaled_dot_product_attention(dropout_p): expected a probability in [0, 1], got 2.0")]),
    Row("linear", [call(floats(2, 3), floats(3, 4)), call(floats(2, 3), floats(3, 4), floats(4)), call(floats(2, 2, 3), floats(3, 4), floats(4)),
        call(np.zeros((0, 3)), floats(3, 2))],
        lambda x, w, b=None: x @ w if b is None else x @ w + b, dtypes=FLOAT, unchecked=ALL - FLOAT,
        skip={"0-d": "a product of matrices needs at least one axis"},
        bad=[Bad(call(floats(2, 3), floats(4, 3)), "linear(x): expected 4 features in the last dimension to match weight of shape [4, 3], got shape [2, 3]")]),
    Row("embedding_of", [call(np.array([[1, 0], [2, 1]]), floats(3, 4), None), call(np.array([1, 2, 1]), np.round(floats(3, 4)), 1),
                         call(np.array(2), floats(3, 2), None), call(np.zeros((2, 0), int), floats(3, 2), None),
                         call(np.array([1]), np.zeros((3, 0)), None)],
        lambda x, table, padding_idx: np.where((x == padding_idx)[..., None], 0, table[x]),
        grad_ref=_rows_grad, dtypes=FLOAT, unchecked=ALL - FLOAT, out="last",
        bad=[Bad(call(np.array([3]), floats(3, 2), None), "embedding(x): expected indices in [0, 2], got 3", IndexError)]),
    Row("embedding", [call(np.array([[1, 0], [2, 1]]), floats(3, 4)), call(np.array(2), floats(3, 2)), call(np.zeros((2, 0), int), floats(3, 2)),
        call(np.array([1, 2]), weight=floats(3, 2)), call(np.array([1, 2]), floats(3, 2), -1), call(np.array([1, 2]), floats(3, 2), padding_idx=1)],
        lambda x, weight, padding_idx=None: np.where((x == (-9 if padding_idx is None else padding_idx % 3))[..., None], 0, weight[x]),
        dtypes=FLOAT, unchecked=ALL - FLOAT, out="last",
        bad=[Bad(call(np.array([1]), floats(3, 2), 3), "embedding(padding_idx): expected an index in [-3, 2], got 3"),
             Bad(call(floats(2), floats(3, 2)), "embedding(x): expected an integer tensor, got float64", TypeError),
             Bad(call(np.array([1]), floats(3, 2), "one"), "embedding(padding_idx): expected a number, got 'one'", TypeError),
             Bad(call(np.array([1]), floats(3, 2), sparse=True, scale_grad_by_freq=True),
                 "embedding(scale_grad_by_freq): expected False with sparse, got True", AttributeError),
             Bad(call(np.array([0]), floats(3)), "embedding(weight): expected shape [num_embeddings, embedding_dim], got shape [3]")]),
    Row("one_hot", [call(np.array([1, 0, 2]), 3), call(np.array([[1], [0]]), 4), call(np.array(1), 2), call(np.zeros(0, int), 3),
        call(np.array([1, 0], np.int32), 2)], lambda x, n: np.eye(n)[x.astype(int)],
        dtypes=NONE, out="float32", grad=0, bad=[Bad(call(np.array([3]), 3), "one_hot(x): expected indices in [0, 2], got 3", IndexError),
        Bad(call(floats(2), 3), "one_hot(x): expected an integer tensor, got float64", TypeError)]),
    Row("pad_of", [call(floats(2, 3), 1.5, ((1, 0), (0, 2)), "constant"), *[call(floats(3, 4), 0.0, ((1, 2), (0, 1)), m) for m in ("reflect",
        "replicate", "circular")],
                   call(Z, 0.0, ((0, 1), (1, 1), (0, 0)), "constant")], lambda x, value, widths, mode: _pad_widths(x, widths, mode, value),
                   dtypes=ALL, skip={"0-d": "there is no axis to grow"}),
    Row("pad", [call(floats(2, 3), [1, 0, 0, 2]), call(floats(1, 2, 3), [1, 2]), call(floats(1, 2, 3), [1, 1], mode="reflect"), call(floats(1, 2, 3),
        [2, 1], "replicate"), call(floats(1, 2, 3, 4), [1, 1, 2, 0], value=0.5),
                call(floats(1, 2, 3, 4), [1, 1, 2, 0], data_format="NHWC"), call(floats(2, 3), [-1, 0, 1, 1]), call(Z, [0, 0, 1, 1, 0, 0]),
                call(np.zeros((1, 2, 0)), [1, 2], "reflect", 0.5), call(np.zeros((1, 0, 2)), [3, 1], "circular"),
                call(floats(1, 1, 4), [-1, 2], "circular"), call(floats(1, 1, 4), [-5, 6], "circular"), call(floats(1, 1, 4), [-5, 6])], _pad,
                dtypes=FLOAT, unchecked=ALL - FLOAT,
        skip={"0-d": "there is no axis to grow"},
        bad=[Bad(call(floats(2, 3), [1]), "pad(pad): expected two integers per axis, for at most 2 axes, got [1]"),
        Bad(call(floats(2, 3, 4), 1), "pad(pad): expected two integers per axis, got 1", TypeError),
        Bad(call(floats(1, 2, 3), [1, 1], data_format="NCHW"), "pad(data_format): expected 'NCL' or 'NLC' for a 3-D tensor, got 'NCHW'", AssertionError),
        Bad(call(floats(2, 3, 4), [1, 1], data_format="X"),
            "pad(data_format): expected 'NCL', 'NCHW', 'NCDHW', 'NLC', 'NHWC' or 'NDHWC', got 'X'", AssertionError),
        Bad(call(floats(2), [1, 1], mode="mirror"), "pad(mode): expected 'constant', 'reflect', 'replicate' or 'circular', got 'mirror'")]),
    Row("layer_norm_of", [call(floats(4, 6), floats(6), floats(6, seed=1), 1e-5, (1,)), call(floats(4, 6), None, None, 1e-5, (1,)),
        call(floats(2, 3, 4), floats(3, 4), None, 1e-3, (1, 2)), call(np.zeros((0, 3)), None, floats(3), 1e-5, (1,))],
        lambda x, w, b, eps, axes: _layer_norm(x, [x.shape[a] for a in axes], w, b, float(np.float32(eps))), dtypes=FLOAT,
        skip={"0-d": "there is no axis to normalise over", **ONE_PASS}),
    Row("layer_norm", [call(floats(4, 6), 6, floats(6), floats(6, seed=1)), call(floats(4, 6), [6]), call(floats(2, 3, 4), [3, 4], floats(12),
        epsilon=1e-3), call(np.zeros((0, 3)), 3)],
        lambda x, shape, w=None, b=None, epsilon=1e-5: _layer_norm(x, shape, w, b, float(np.float32(epsilon))), rename={"weight": "w", "bias": "b"},
        dtypes=FLOAT,
        skip={"0-d": "there is no axis to normalise over"},
        bad=[Bad(call(floats(2, 3), 4), "layer_norm(x): expected last dimensions of shape [4], got a Tensor of shape [2, 3]"),
        Bad(call(floats(2, 3), 3, floats(3) * 1j), "layer_norm(weight): expected real numbers, got a Tensor of shape [3], complex128", TypeError),
        Bad(call(floats(2, 3), 3, floats(2)), "layer_norm(weight): expected 3 elements, got a Tensor of shape [2]")]),
]  # fmt: skip
