"""Rows of activations, attention, convolution, pooling, norms, losses and optimizer updates."""

import numpy as np
from scipy import signal, special

from tests.table.harness import ALL, BOOL, COMPLEX, FLOAT, INT, Bad, Row, call
from tests.table.samples import filled, floats, unary

NONE: frozenset = frozenset()
Z = np.zeros((2, 0, 3))
HALF_SUMS = (3, "half precision loses digits in sums of products")
IMAGES = {"0-d": "it takes images only"}


def _sigmoid(x):
    return special.expit(x)


def _gelu(x, approximate=False):
    if approximate in (True, "tanh"):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


def _softplus(x, beta=1, threshold=20):
    return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta)


def _softmax(x, axis=-1, dtype=None):
    return special.softmax(x, axis=axis) if x.size and x.ndim else np.ones_like(x)


def _log_softmax(x, axis=-1, dtype=None):
    return special.log_softmax(x, axis=axis) if x.size and x.ndim else np.zeros_like(x)


_soft = [
    call(floats(2, 3), -1),
    call(floats(2, 3), 0),
    call(floats(), -1),
    call(Z, 2),
    call(Z, 1),
    call(np.array([[1000.0, 0.0], [-1000.0, 0.0]]), 1),
    call(np.array([-np.inf, 1.0]), 0),
]
_soft_public = [
    call(floats(2, 3)),
    call(floats(2, 3), axis=0),
    call(floats(2, 3), dtype="float32"),
    call(floats()),
    call(Z),
    call(np.array([[1000.0, 0.0], [-1000.0, 0.0]])),
]


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


# ---------------------------------------------------------------- images


def _pads(padding, dims, size, stride):
    if padding == "VALID":
        return (0, 0), (0, 0)
    if padding == "SAME":
        need = [max(0, (-(-n // s) - 1) * s + k - n) for n, k, s in zip(dims, size, stride)]
        return tuple((n // 2, n - n // 2) for n in need)
    p = np.ravel(padding).tolist()
    return ((p[0], p[0]), (p[-1], p[-1])) if len(p) < 4 else ((p[0], p[1]), (p[2], p[3]))


def _two(x):
    return (x, x) if np.ndim(x) == 0 else tuple(x)


def _conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1, data_format="NCHW"):
    x = x if data_format == "NCHW" else np.moveaxis(x, -1, 1)
    stride, dilation = _two(stride), _two(dilation)
    k = np.zeros((*weight.shape[:2], *[(n - 1) * d + 1 for n, d in zip(weight.shape[2:], dilation)]))
    k[:, :, :: dilation[0], :: dilation[1]] = weight
    x = np.pad(x, ((0, 0), (0, 0), *_pads(padding, x.shape[2:], k.shape[2:], stride)))
    per_in, per_out = weight.shape[1], weight.shape[0] // groups
    size = [(n - m) // s + 1 for n, m, s in zip(x.shape[2:], k.shape[2:], stride)]
    out = np.zeros((x.shape[0], weight.shape[0], *size))
    for b in range(x.shape[0]):
        for o in range(weight.shape[0]):
            for i in range(per_in):
                full = signal.correlate2d(x[b, o // per_out * per_in + i], k[o, i], mode="valid")
                out[b, o] += full[:: stride[0], :: stride[1]]
    out = out if bias is None else out + bias.reshape(1, -1, 1, 1)
    return out if data_format == "NCHW" else np.moveaxis(out, 1, -1)


def _pool(x, size, stride, pads, kind, divisor, last=False):
    x = np.moveaxis(x, -1, 1) if last else x
    fill = -np.inf if kind == "max" else np.nan
    x = np.pad(x, ((0, 0), (0, 0), *pads), constant_values=fill)
    rows, columns = [(n - k) // s + 1 for n, k, s in zip(x.shape[2:], size, stride)]
    out = np.zeros((*x.shape[:2], rows, columns))
    for i in range(rows):
        for j in range(columns):
            part = x[:, :, i * stride[0] : i * stride[0] + size[0], j * stride[1] : j * stride[1] + size[1]]
            if kind == "max":
                out[:, :, i, j] = part.max(axis=(2, 3))
            else:
                inside = np.isfinite(part).sum(axis=(2, 3))
                out[:, :, i, j] = np.nansum(part, axis=(2, 3)) / (inside if divisor == "inside" else divisor)
    return np.moveaxis(out, 1, -1) if last else out


def _pool2d(kind):
    def ref(x, kernel_size, stride=None, padding=0, ceil_mode=False, exclusive=True, divisor_override=None, data_format="NCHW", **_):
        size, last = _two(kernel_size), data_format == "NHWC"
        stride = size if stride is None else _two(stride)
        dims = x.shape[1:3] if last else x.shape[2:]
        pads = _pads(padding, dims, size, stride)
        if ceil_mode:
            pads = tuple((a, b + -(n + a + b - k) % s) for n, (a, b), k, s in zip(dims, pads, size, stride))
        return _pool(x, size, stride, pads, kind, divisor_override or ("inside" if exclusive else size[0] * size[1]), last)

    return ref


TIES = np.array([0.0, 0.0, 1.0, 1.0, 0.5, 2.0, -1.0])  # equal numbers: compared with `grad_ref` alone


def _first_of_equals(w, x, kernel_size, stride=None, padding=0, **_):
    """All of the gradient goes to the first largest element of its window."""
    if (kernel_size, stride, padding) != (2, None, 0) or _ or x.shape[2] % 2 or x.shape[3] % 2:
        return None
    grad = np.zeros_like(x)
    for b, c, i, j in np.ndindex(w.shape):
        part = x[b, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
        k, m = np.unravel_index(np.argmax(part), part.shape)
        grad[b, c, 2 * i + k, 2 * j + m] += w[b, c, i, j]
    return grad


def _rows_grad(w, x, table, padding_idx):
    """The rows that were read, but for the padding row."""
    grad = np.zeros_like(table)
    keep = np.ones(x.shape, bool) if padding_idx is None else x != padding_idx
    np.add.at(grad, x[keep], w[keep])
    return grad


_image, _kernel = floats(2, 2, 5, 4), floats(4, 2, 3, 2)
_pools = [
    call(_image, 2),
    call(_image, [3, 2], 1),
    call(_image, 2, 2, 1),
    call(_image, 2, ceil_mode=True),
    call(floats(1, 5, 4, 2), 2, data_format="NHWC"),
    call(_image, 3, 2, "SAME"),
    call(np.zeros((0, 2, 4, 4)), 2),
]


# ---------------------------------------------------------------- norms, tables, losses


def _layer_norm(x, shape, weight=None, bias=None, epsilon=1e-5):
    axes = tuple(range(x.ndim - (1 if np.ndim(shape) == 0 else len(shape)), x.ndim))
    y = (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + epsilon) if x.size else x
    y = y if weight is None else y * weight.reshape([x.shape[a] for a in axes])
    return y if bias is None else y + bias.reshape([x.shape[a] for a in axes])


def _nll(x, label, ignore_index):
    safe = np.where(label == ignore_index, 0, label)
    if not label.size:
        return np.zeros(label.shape)
    return np.where(label == ignore_index, 0, special.logsumexp(x, axis=-1) - np.take_along_axis(x, safe[..., None], -1)[..., 0])


def _cross_entropy(x, label, weight=None, ignore_index=-100, reduction="mean", soft_label=False, axis=-1, use_softmax=True, label_smoothing=0.0):
    x = np.moveaxis(x, axis, -1)
    logs = special.log_softmax(x, axis=-1) if use_softmax else np.log(x)
    n = x.shape[-1]
    if soft_label:
        hot, valid = np.moveaxis(label, axis, -1), np.ones(x.shape[:-1], bool)
    else:
        kept = label.shape != x.shape[:-1]
        label = label.reshape(x.shape[:-1])
        valid = label != ignore_index
        hot = np.eye(n)[np.where(valid, label, 0)] * valid[..., None]
    if label_smoothing:
        hot = hot * (1 - label_smoothing) + label_smoothing / n
    loss = -(hot * logs).sum(-1)
    per = valid.astype(float) if weight is None else (hot * weight).sum(-1)
    loss = loss if weight is None else loss * per
    if reduction == "mean":
        return loss.sum() / max(per.sum(), 1e-300) if not soft_label or weight is not None else loss.mean()
    if reduction == "sum":
        return loss.sum()
    return np.expand_dims(loss, axis) if soft_label or kept else loss


_labels = np.array([2, 0, -100])


def _mse(x, y, reduction="mean"):
    d = (x - y) ** 2
    return d if reduction == "none" else d.mean() if reduction == "mean" else d.sum()


def _pad_widths(x, widths, mode, value):
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
    cut = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, widths))
    return _pad_widths(x[cut], [(max(a, 0), max(b, 0)) for a, b in widths], mode, value)


# ---------------------------------------------------------------- optimizers


def _sgd(params, grads, lr):
    return [p - lr * g for p, g in zip(params, grads)]


def _momentum(params, grads, velocities, lr, mu, nesterov):
    kept = [mu * v + g for g, v in zip(grads, velocities)]
    return [p - lr * (g + mu * v if nesterov else v) for p, g, v in zip(params, grads, kept)] + kept


def _adam(params, grads, m1, m2, p1, p2, lr, b1, b2, eps, wd, *, decoupled, lr_ratios, decays, **_):
    p1, p2 = p1 * b1, p2 * b2
    new, first, second = [], [], []
    for p, g, m, v, ratio, decay in zip(params, grads, m1, m2, lr_ratios, decays):
        if decay and decoupled:
            p = p * (1 - lr * ratio * wd)
        elif decay:
            g = g + wd * p
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        new.append(p - lr * ratio * (m / (1 - p1)) / (np.sqrt(v / (1 - p2)) + eps))
        first.append(m)
        second.append(v)
    return [*new, *first, *second, p1, p2]


def _state(n, decoupled, decays):
    parts = [[floats(2, 3, seed=k), *([floats(4, seed=k)] * (n - 1))] for k in range(3)]
    squares = [floats(2, 3, low=0.1, seed=5), *([floats(4, low=0.1, seed=5)] * (n - 1))]
    numbers = (np.array(0.81), np.array(0.99), 0.01, 0.9, 0.99, 1e-8, 0.1)
    return call(*parts, squares, *numbers, decoupled=decoupled, lr_ratios=(1, 0.5)[:n], decays=decays)


F32_NUMBERS = (1e4, "rates and betas travel as float32, whatever the parameters are")

TABLE = [
    Row("relu", [*unary(), call(TIES)], lambda x: np.maximum(x, 0), grad_ref=lambda w, x: w * (x > 0), dtypes=FLOAT, unchecked=INT | BOOL | COMPLEX),
    Row("leaky_relu", [*filled(0.5), call(floats(2, 3)), call(TIES, 0.5)], lambda x, slope=0.01: np.where(x > 0, x, x * slope),
        grad_ref=lambda w, x, slope=0.01: w * np.where(x >= 0, 1, slope), dtypes=FLOAT,
        unchecked=INT | BOOL | COMPLEX),
    Row("gelu", [*unary(nonfinite=False), call(floats(2, 3), True), call(floats(2, 3), approximate="tanh"), call(floats(2, 3), "none")], _gelu,
        dtypes=FLOAT,
        bad=[Bad(call(np.ones(2, int)), "gelu(x): expected one of bfloat16, float16, float32, float64, got int64", TypeError)]),
    Row("silu", unary(), lambda x: x * _sigmoid(x), dtypes=FLOAT, unchecked=COMPLEX),
    Row("softplus", [*unary(), call(floats(2, 3), 2.0), call(np.array([-30.0, 5.0, 30.0]), 1, 10)], _softplus, dtypes=FLOAT, unchecked=COMPLEX),
    Row("softmax_of", _soft, _softmax, dtypes=FLOAT),
    Row("softmax", _soft_public, _softmax, dtypes=FLOAT),
    Row("log_softmax_of", _soft, _log_softmax, dtypes=FLOAT),
    Row("log_softmax", _soft_public, _log_softmax, dtypes=FLOAT),
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
        bad=[Bad(call(floats(2, 3), floats(4, 3)), "linear(y of matmul): expected 3 rows to match x of shape [2, 3], got shape [4, 3]")]),
    Row("embedding_of", [call(np.array([[1, 0], [2, 1]]), floats(3, 4), None), call(np.array([1, 2, 1]), np.round(floats(3, 4)), 1),
                         call(np.array(2), floats(3, 2), None), call(np.zeros((2, 0), int), floats(3, 2), None)],
        lambda x, table, padding_idx: table[x], grad_ref=_rows_grad, dtypes=FLOAT, unchecked=ALL - FLOAT, out="last",
        bad=[Bad(call(np.array([3]), floats(3, 2), None), "embedding(x): expected indices in [0, 2], got 3", IndexError)]),
    Row("embedding", [call(np.array([[1, 0], [2, 1]]), floats(3, 4)), call(np.array(2), floats(3, 2)), call(np.zeros((2, 0), int), floats(3, 2)),
        call(np.array([1, 2]), weight=floats(3, 2))],
        lambda x, weight: weight[x], dtypes=FLOAT, unchecked=ALL - FLOAT, out="last",
        bad=[Bad(call(np.array([1]), floats(3, 2), 3), "embedding(padding_idx): expected a row in [-3, 2], got 3"),
             Bad(call(floats(2), floats(3, 2)), "embedding(x): expected an integer tensor, got float64", TypeError),
             Bad(call(np.array([0]), floats(3)), "embedding(weight): expected a table of shape [rows, width], got shape [3]")]),
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
                call(floats(1, 2, 3, 4), [1, 1, 2, 0], data_format="NHWC"), call(floats(2, 3), [-1, 0, 1, 1]), call(Z, [0, 0, 1, 1, 0, 0])], _pad,
                dtypes=FLOAT, unchecked=ALL - FLOAT,
        skip={"0-d": "there is no axis to grow"},
        bad=[Bad(call(floats(2, 3), [1]), "pad(pad): expected two numbers an axis, for at most 2 axes, got [1]"),
        Bad(call(floats(2), [1, 1], mode="mirror"), "pad(mode): expected 'constant', 'reflect', 'replicate' or 'circular', got mirror")]),
    Row("conv2d_of", [call(_image, _kernel, (1, 1), ((0, 0), (0, 0)), (1, 1), 1, False), call(_image, _kernel, (2, 1), ((1, 0), (2, 1)), (1, 2), 1,
        False), call(_image, floats(4, 1, 2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), 2, False),
                      call(floats(1, 5, 4, 2), _kernel, (1, 1), "SAME", (1, 1), 1, True), call(np.zeros((0, 2, 5, 4)), _kernel, (1, 1), "VALID",
                      (1, 1), 1, False)],
        lambda x, w, s, p, d, g, last: _conv2d(x, w, None, s, p, d, g, "NHWC" if last else "NCHW"), dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS,
        bad=[Bad(call(_image, floats(4, 3, 2, 2), (1, 1), "SAME", (1, 1), 1, False),
        "conv2d(x): expected 3 channels, as weight has for 1 groups, got 2")]),
    Row("conv2d", [call(_image, _kernel), call(_image, _kernel, floats(4), 2, 1), call(_image, _kernel, stride=[1, 2], padding=[1, 0], dilation=2),
        call(_image, floats(4, 1, 2, 2), groups=2, padding="SAME"),
                   call(floats(1, 5, 4, 2), _kernel, floats(4), data_format="NHWC"), call(np.zeros((0, 2, 5, 4)), _kernel)], _conv2d, dtypes=FLOAT,
                   skip=IMAGES, loose=HALF_SUMS,
        bad=[Bad(call(_image, _kernel, stride=0), "conv2d(stride, dilation): expected numbers of 1 or more, got [0, 0, 1, 1]"),
        Bad(call(_image, _kernel, data_format="CHW"), "conv2d(data_format): expected 'NCHW' or 'NHWC', got CHW"),
             Bad(call(floats(2, 3), _kernel), "conv2d(x): expected images of shape [batch, channels, height, width], got shape [2, 3]")]),
    Row("pool2d_of", [call(_image, (2, 2), (2, 2), ((0, 0), (0, 0)), "max", 1, False), call(_image, (3, 2), (1, 1), ((1, 1), (1, 0)), "max", 1,
        False), call(_image, (2, 2), (2, 1), ((1, 0), (0, 1)), "avg", "inside", False),
                      call(floats(1, 5, 4, 2), (2, 2), (2, 2), ((0, 0), (0, 0)), "avg", 4, True), call(np.zeros((0, 2, 4, 4)), (2, 2), (2, 2),
                      ((0, 0), (0, 0)), "max", 1, False)], _pool, dtypes=FLOAT, skip=IMAGES, loose=HALF_SUMS),
    Row("max_pool2d", [*_pools, call(np.round(floats(1, 2, 4, 4, low=-1, high=1)), 2)], _pool2d("max"), grad_ref=_first_of_equals, dtypes=FLOAT,
        skip=IMAGES,
        bad=[Bad(call(floats(2, 3), 2), "max_pool2d(x): expected images of shape [batch, channels, height, width]"), Bad(call(_image, 9),
        "max_pool2d(kernel_size): expected a window within 5 pixels, got [9, 9]")]),
    Row("avg_pool2d", [*_pools, call(_image, 2, 2, 1, exclusive=False), call(_image, 2, divisor_override=3.0)], _pool2d("avg"), dtypes=FLOAT,
        skip=IMAGES, loose=HALF_SUMS,
        bad=[Bad(call(_image, 0), "avg_pool2d(kernel_size, stride): expected numbers of 1 or more, got [0, 0, 0, 0]")]),
    Row("nll_of_logits", [call(floats(3, 4), _labels, -100), call(floats(2, 3, 4), np.array([[0, 1, 2], [3, 3, 1]]), 3), call(floats(4), np.array(2),
        -100), call(np.zeros((0, 3)), np.zeros(0, int), -100)], _nll, dtypes=FLOAT),
    Row("count_valid", [call(_labels, -100, floats(3)), call(np.array([-100]), -100, floats(1)), call(np.array(2), -100, floats()),
        call(np.zeros(0, int), -100, np.zeros(0))], lambda label, ignore, like: max((label != ignore).sum(), 1), dtypes=FLOAT,
        unchecked=ALL - FLOAT, out="last", grad=0),
    Row("cross_entropy", [call(floats(3, 4), _labels), call(floats(3, 4), _labels, reduction="none"), call(floats(3, 4), _labels[:, None],
        reduction="none"), call(floats(3, 4), _labels, floats(4, low=0.1)), call(floats(3, 4), _labels, reduction="sum"),
                          call(floats(2, 4, 3), np.array([[0, 1, 2], [3, 3, 1]]), axis=1), call(floats(2, 3), special.softmax(floats(2, 3, seed=3),
                          -1), soft_label=True), call(floats(3, 4, low=0.1, high=0.9), np.array([2, 0, 1]), use_softmax=False),
                          call(floats(3, 4), np.array([2, 0, 1]), label_smoothing=0.1), call(floats(4), np.array(2)), call(floats(2, 3),
                          special.softmax(floats(2, 3, seed=3), -1), soft_label=True, reduction="none")], _cross_entropy, dtypes=FLOAT,
        skip={"zero size": "the mean of no losses is no number"},
        bad=[Bad(call(floats(3, 4), np.array([1, 4, 0])), "cross_entropy(label): expected labels in [0, 3] or -100, got 4", IndexError),
        Bad(call(floats(3, 4), np.array([1, 2])), "cross_entropy(label): expected shape [3] or [3, 1]"),
             Bad(call(floats(3, 4), _labels, reduction="all"), "cross_entropy(reduction): expected 'mean', 'sum' or 'none', got all"),
             Bad(call(floats(3, 4), floats(3)), "cross_entropy(label): expected integer labels, or soft_label=True, got float64", TypeError)]),
    Row("mse_loss", [call(floats(2, 3), floats(2, 3, seed=1)), call(floats(2, 3), floats(2, 3, seed=1), "none"), call(floats(2, 3),
        floats(2, 3, seed=1), reduction="sum"), call(floats(), floats(seed=1)), call(Z, Z, "sum")], _mse, dtypes=FLOAT,
        unchecked=ALL - FLOAT, bad=[Bad(call(floats(2), floats(2), "all"), "mse_loss(reduction): expected 'mean', 'sum' or 'none', got all")]),
    Row("layer_norm_of", [call(floats(4, 6), floats(6), floats(6, seed=1), 1e-5, (1,)), call(floats(4, 6), None, None, 1e-5, (1,)),
        call(floats(2, 3, 4), floats(3, 4), None, 1e-3, (1, 2)), call(np.zeros((0, 3)), None, floats(3), 1e-5, (1,))],
        lambda x, w, b, eps, axes: _layer_norm(x, [x.shape[a] for a in axes], w, b, float(np.float32(eps))), dtypes=FLOAT,
        skip={"0-d": "there is no axis to normalise over"}),
    Row("layer_norm", [call(floats(4, 6), 6, floats(6), floats(6, seed=1)), call(floats(4, 6), [6]), call(floats(2, 3, 4), [3, 4], floats(12),
        epsilon=1e-3), call(np.zeros((0, 3)), 3)],
        lambda x, shape, w=None, b=None, epsilon=1e-5: _layer_norm(x, shape, w, b, float(np.float32(epsilon))), rename={"weight": "w", "bias": "b"},
        dtypes=FLOAT,
        skip={"0-d": "there is no axis to normalise over"},
        bad=[Bad(call(floats(2, 3), 4), "layer_norm(x): expected last axes of shape [4], got a Tensor of shape [2, 3]"),
        Bad(call(floats(2, 3), 3, floats(2)), "layer_norm(weight): expected 3 elements, got a Tensor of shape [2]")]),
    Row("sgd_update", [call([floats(2, 3), floats(4)], [floats(2, 3, seed=1), floats(4, seed=1)], 0.25), call([floats()], [floats(seed=1)], 0.5),
        call([Z], [Z], 0.5)], _sgd, dtypes=FLOAT, unchecked=ALL - FLOAT, grad=0),
    Row("momentum_update", [call([floats(2, 3), floats(4)], [floats(2, 3, seed=1), floats(4, seed=1)], [floats(2, 3, seed=2), floats(4, seed=2)],
        0.25, 0.5, n) for n in (False, True)]
        + [call([floats()], [floats(seed=1)], [floats(seed=2)], 0.5, 0.5, True), call([Z], [Z], [Z], 0.5, 0.5, False)], _momentum, dtypes=NONE,
        grad=0),
    Row("adam_update", [_state(2, False, (0, 1)), _state(2, True, (1, 0)), _state(1, False, (0,)), call([Z], [Z], [Z], [Z], np.array(0.9),
        np.array(0.9), 0.1, 0.9, 0.9, 1e-8, 0.0, decoupled=False, lr_ratios=(1,), decays=(0,))],
        _adam, dtypes=NONE, grad=0, loose=F32_NUMBERS),
    Row("clip_by_global_norm", [call([floats(2, 3), floats(4)], 1.5, "float64"), call([floats(2, 3), floats(4)], 100.0, "float64"),
        call([floats()], 0.5, "float64"), call([Z, floats(2)], 0.5, "float64"), call([np.zeros(2)], 1.0, "float64")],
        lambda grads, limit, wide: [g * min(1, limit / max(np.sqrt(sum((h**2).sum() for h in grads)), 1e-300)) for g in grads], dtypes=FLOAT,
        unchecked=ALL - FLOAT, grad=0),
]  # fmt: skip
