"""Rows of fused norms and of rotary embedding, each against the plain formula."""

import numpy as np

from tests.table.fused.matmul import divided
from tests.table.harness import FLOAT, Bad, Row, call, still
from tests.table.samples import floats

NO_SCALAR = "it has a last axis to go along"
NORM_PARTS = "it goes along axes, and weights have as many elements"


# ---------------------------------------------------------------- norms


def _rms_of(x, weight, bias, epsilon, axes):
    y = x / np.sqrt((x * x).mean(axis=tuple(axes), keepdims=True) + np.float32(epsilon))
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def _sum_before(x, bias, residual, alpha, dims):
    return x + (0 if bias is None else bias.reshape(dims)) + (0 if residual is None else alpha * residual)


def _rms(x, norm_weight, norm_bias, epsilon, begin_norm_axis=1, bias=None, residual=None):
    start = begin_norm_axis % x.ndim
    dims = x.shape[start:]
    total = _sum_before(x, bias, residual, 1, dims)
    weight, shift = [None if t is None else t.reshape(dims) for t in (norm_weight, norm_bias)]
    return [_rms_of(total, weight, shift, epsilon, range(start, x.ndim)), total]


def _norm(x, weight, bias, epsilon, axes):
    y = (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + np.float32(epsilon))
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def _layer(x, norm_weight, norm_bias, epsilon, residual_alpha=1.0, begin_norm_axis=1, bias=None, residual=None):
    dims, axes = x.shape[begin_norm_axis:], tuple(range(begin_norm_axis, x.ndim))
    total = _sum_before(x, bias, residual, residual_alpha, dims)
    weight, shift = [None if t is None else t.reshape(dims) for t in (norm_weight, norm_bias)]
    out = total if weight is None and shift is None else _norm(total, weight, shift, epsilon, axes)
    return [out, total, *_statistics(total, epsilon, axes, True)]


def _statistics(x, epsilon, axes, centred):
    mean = x.mean(axis=tuple(axes))
    square = x.var(axis=tuple(axes)) if centred else (x * x).mean(axis=tuple(axes))
    return [mean.ravel(), 1 / np.sqrt(square + np.float32(epsilon)).ravel()]


def _residual_norm(
    x,
    residual,
    bias=None,
    ln_scale=None,
    ln_bias=None,
    dropout_rate=0.5,
    ln_epsilon=1e-5,
    training=True,
    mode="upscale_in_train",
):
    x = x + (0 if bias is None else bias)
    return _norm(
        residual + x * (1 - dropout_rate if mode == "downscale_in_infer" else 1), ln_scale, ln_bias, ln_epsilon, (-1,)
    )


# ---------------------------------------------------------------- rotary embedding


def _turned(x, cos, sin, adjacent):
    """Pair by pair, as complex numbers where both of a pair have one angle."""
    out, n = np.empty_like(x), x.shape[-1] // 2
    cos, sin = np.broadcast_to(cos, x.shape), np.broadcast_to(sin, x.shape)
    for i in range(n):
        a, b = (2 * i, 2 * i + 1) if adjacent else (i, i + n)
        out[..., a] = x[..., a] * cos[..., a] - x[..., b] * sin[..., a]
        out[..., b] = x[..., b] * cos[..., b] + x[..., a] * sin[..., b]
    return out


def _rotary(
    q,
    k,
    v,
    sin=None,
    cos=None,
    position_ids=None,
    use_neox_rotary_style=True,
    time_major=False,
    rotary_emb_base=10000.0,
):
    if time_major:
        made = _rotary(
            *[np.swapaxes(t, 0, 1) for t in (q, k, v)],
            sin,
            cos,
            position_ids,
            use_neox_rotary_style,
            False,
            rotary_emb_base,
        )
        return [np.swapaxes(t, 0, 1) for t in made]
    batch, length, _, width = q.shape
    if sin is None:
        angle = np.zeros((length, width))
        for t in range(length):
            for j in range(width):
                i = j // 2 if use_neox_rotary_style else j % (width // 2)
                angle[t, j] = t / rotary_emb_base ** (2 * i / width)
        sin, cos = np.sin(angle), np.cos(angle)
    sin, cos = [t.reshape(-1, width) for t in (sin, cos)]
    where = np.tile(np.arange(length), (batch, 1)) if position_ids is None else position_ids
    sin, cos = [t[where][:, :, None, :] for t in (sin, cos)]
    return [_turned(t, cos, sin, use_neox_rotary_style) for t in (q, k, v)]


def _table(base, length, width, adjacent, dtype):
    pair = np.arange(width) // 2 if adjacent else np.arange(width) % (width // 2)
    angle = np.arange(length)[:, None] * float(base) ** (-2 * pair / width)
    return [f(angle).astype(dtype) for f in (np.cos, np.sin)]


def _heads(heads=2, seed=0, shape=(2, 3)):
    return floats(*shape, heads, 4, seed=seed)


def _tables(n, axes=2):
    shape = (n, 4) if axes == 2 else (1, n, 1, 4)
    return {"sin": still(floats(*shape, seed=7)), "cos": still(floats(*shape, seed=8))}


POSITIONS = np.array([[4, 0, 1], [2, 2, 3]])
ROPE = "fused_rotary_position_embedding"
WHOLE = frozenset(d for d in FLOAT if d.itemsize > 2)
HALF = FLOAT - WHOLE  # statistics of half precision are float32

TABLE, EXTRA = divided(
    [
        Row(
            "rms_norm_of",
            [
                call(floats(2, 4), floats(4), floats(4, seed=1), 1e-5, [1]),
                call(floats(2, 3, 2), floats(3, 2), None, 1e-6, [1, 2]),
                call(floats(3), None, None, 1e-5, [0]),
                call(np.zeros((0, 3)), floats(3), None, 1e-5, [1]),
            ],
            _rms_of,
            skip={"0-d": NORM_PARTS},
            slow=True,
        ),
        Row(
            "row_statistics",
            [
                call(floats(2, 4), 1e-5, [1], True),
                call(floats(2, 3, 2), 1e-5, [1, 2], False),
                call(np.zeros((0, 3)), 1e-5, [1], True),
            ],
            _statistics,
            dtypes=WHOLE,
            unchecked=HALF,
            skip={"0-d": NORM_PARTS},
            slow=True,
        ),
        Row(
            "fused_rms_norm",
            [
                call(floats(2, 4), floats(4), None, 1e-5),
                call(floats(2, 3, 2), floats(6), floats(6, seed=1), 1e-6),
                call(floats(2, 3, 2), floats(2), None, 1e-6, -1, floats(2, seed=3), floats(2, 3, 2, seed=4)),
                call(np.zeros((0, 3)), floats(3), None, 1e-5),
            ],
            _rms,
            skip={"0-d": NORM_PARTS},
            bad=[
                Bad(call(floats(2, 4), floats(3), None, 1e-5), "fused_rms_norm(norm_weight): expected 4 elements"),
                Bad(
                    call(floats(2, 4), floats(4), None, 1e-5, 2),
                    "fused_rms_norm(begin_norm_axis): expected",
                    IndexError,
                ),
                Bad(
                    call(floats(2, 4), floats(4), None, 1e-5, residual=floats(4)),
                    "fused_rms_norm(residual): expected shape [2, 4]",
                ),
            ],
            slow=True,
        ),
        Row(
            "fused_rms_norm_ext",
            [call(floats(2, 4), floats(4)), call(floats(2, 3, 2), floats(2), 1e-3), call(np.zeros((0, 3)), floats(3))],
            lambda x, scale, epsilon=1e-5: [
                _rms_of(x, scale, None, epsilon, (-1,)),
                _statistics(x, epsilon, (-1,), False)[1].reshape(x.shape[:-1]),
            ],
            dtypes=WHOLE,
            unchecked=HALF,
            skip={"0-d": NORM_PARTS},
            slow=True,
        ),
        Row(
            "fused_layer_norm",
            [
                call(floats(2, 4), floats(4), floats(4, seed=1), 1e-5),
                call(floats(2, 3, 2), floats(6), None, 1e-6, bias=floats(6, seed=1)),
                call(floats(2, 3, 2), None, floats(2), 1e-6, 0.5, 2, None, floats(2, 3, 2, seed=4)),
                call(floats(2, 4), None, None, 1e-5, residual=floats(2, 4, seed=4)),
                call(np.zeros((0, 3)), floats(3), None, 1e-5),
            ],
            _layer,
            dtypes=WHOLE,
            unchecked=HALF,
            skip={"0-d": NORM_PARTS},
            bad=[
                Bad(call(floats(2, 4), floats(3), None, 1e-5), "fused_layer_norm(norm_weight): expected 4 elements"),
                Bad(
                    call(floats(2, 4), floats(4), None, 1e-5, bias=floats(3)),
                    "fused_layer_norm(bias): expected 4 elements",
                ),
            ],
            slow=True,
        ),
        Row(
            "fused_bias_dropout_residual_layer_norm",
            [
                call(floats(2, 4), floats(2, 4, seed=1), floats(4), floats(4, seed=2), floats(4, seed=3), 0.0),
                call(floats(2, 2, 3), floats(2, 2, 3, seed=1), dropout_rate=0.0),
                call(floats(2, 4), floats(2, 4, seed=1), dropout_rate=0.3, training=False),
                call(floats(2, 4), floats(2, 4, seed=1), None, None, None, 0.3, 1e-3, False, "downscale_in_infer"),
                call(np.zeros((0, 3)), np.zeros((0, 3)), floats(3)),
            ],
            _residual_norm,
            skip={"0-d": NORM_PARTS},
            rename={},
            bad=[
                Bad(
                    call(floats(2, 4), floats(4)),
                    "fused_bias_dropout_residual_layer_norm(residual): expected shape [2, 4]",
                ),
                Bad(
                    call(floats(2, 4), floats(2, 4), dropout_rate=2.0),
                    "fused_bias_dropout_residual_layer_norm(dropout_rate): expected a probability",
                ),
                Bad(
                    call(floats(2, 4), floats(2, 4), mode="x"), "fused_bias_dropout_residual_layer_norm(mode): expected"
                ),
                Bad(
                    call(floats(2, 4), floats(2, 4), floats(3)),
                    "fused_bias_dropout_residual_layer_norm(bias): expected 4 elements",
                ),
            ],
            slow=True,
        ),
        Row(
            "turned",
            [call(floats(2, 3, 4), still(floats(3, 4, seed=1)), still(floats(3, 4, seed=2)), a) for a in (True, False)]
            + [call(np.zeros((2, 0, 4)), still(np.zeros((0, 4))), still(np.zeros((0, 4))), True)],
            _turned,
            skip={"0-d": NO_SCALAR, "gradient rule": "tables of angles get no gradient"},
        ),
        Row(
            "rotary_table",
            [call(10000.0, 3, 4, True, "float32"), call(500.0, 2, 6, False, "float64")],
            _table,
            dtypes=frozenset(),
            out="ref",
            grad=0,
        ),
        Row(
            ROPE,
            [
                call(_heads(), _heads(1, 1), _heads(1, 2)),
                call(_heads(), _heads(1, 1), _heads(1, 2), use_neox_rotary_style=False, rotary_emb_base=50.0),
                call(_heads(), _heads(1, 1), _heads(2, 2), **_tables(3)),
                call(_heads(), _heads(1, 1), _heads(2, 2), **_tables(3, 4), use_neox_rotary_style=False),
                call(_heads(), _heads(1, 1), _heads(2, 2), **_tables(5, 4), position_ids=POSITIONS),
                call(_heads(shape=(3, 2)), _heads(1, 1, (3, 2)), _heads(1, 2, (3, 2)), time_major=True),
                call(
                    _heads(shape=(3, 2)),
                    _heads(1, 1, (3, 2)),
                    _heads(1, 2, (3, 2)),
                    **_tables(5),
                    position_ids=POSITIONS,
                    use_neox_rotary_style=False,
                    time_major=True,
                ),
                call(np.zeros((0, 3, 1, 4)), np.zeros((0, 3, 1, 4)), np.zeros((0, 3, 1, 4))),
            ],
            _rotary,
            skip={"0-d": NO_SCALAR},
            bad=[
                Bad(
                    call(floats(2, 3, 1, 3)),
                    f"{ROPE}(q): expected shape [batch, length, heads, width] with an even width",
                ),
                Bad(call(floats(2, 3, 4)), f"{ROPE}(q): expected shape [batch, length, heads, width]"),
                Bad(
                    call(_heads(), position_ids=POSITIONS),
                    f"{ROPE}(position_ids): expected sin and cos, since position_ids are given",
                    AssertionError,
                ),
                Bad(call(_heads(), sin=floats(3, 4)), f"{ROPE}(cos): expected both sin and cos"),
                Bad(
                    call(_heads(), sin=floats(2, 4), cos=floats(2, 4)),
                    f"{ROPE}(cos): expected shape [3, 4] or [1, 3, 1, 4], got shape [2, 4]",
                ),
                Bad(
                    call(_heads(), **_tables(5), position_ids=POSITIONS[:1]),
                    f"{ROPE}(position_ids): expected an integer tensor of shape [2, 3]",
                ),
                Bad(call(_heads(), floats(2, 2, 1, 4)), f"{ROPE}(k): expected batch, length and width to match q"),
            ],
            slow=True,
        ),
    ],
    keep=2,
)
