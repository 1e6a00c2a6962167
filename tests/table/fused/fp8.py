"""Rows of float8 blocks, block by block, and of gradients as functions."""

import ml_dtypes
import numpy as np

from tests.table.fused.attention import PARTS, part
from tests.table.fused.matmul import divided
from tests.table.harness import FLOAT, INT, Bad, Row, call, still
from tests.table.samples import floats

E4M3 = ml_dtypes.float8_e4m3fn


# ---------------------------------------------------------------- float8


def _eighths(x, epsilon, rows, pow2):
    m, n = x.shape
    q, scale = np.zeros((m, n), E4M3), np.zeros((-(-m // rows), -(-n // 128)), np.float32)
    for i, j in np.ndindex(*scale.shape):
        at = np.s_[i * rows : (i + 1) * rows, j * 128 : (j + 1) * 128]
        block = x[at].astype(np.float32)
        most = max(np.abs(block).max(), np.float32(epsilon))
        factor = np.float32(448) / most if most else np.float32(1)
        factor = np.float32(2.0 ** np.floor(np.log2(factor))) if pow2 else factor
        q[at] = np.clip(block * factor, -448, 448).astype(E4M3)
        scale[i, j] = np.float32(1) / factor
    return [q, scale]


def _back(x, scale, rows, dtype="float32"):
    wide = np.repeat(scale, 128, 1)[:, : x.shape[1]]
    wide = wide if rows == 1 else np.repeat(wide, 128, 0)[: x.shape[0]]
    return (x.astype(np.float32) * wide).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _blockwise(x, epsilon=0.0, input_transpose=False, output_scale_transpose=True, return_transpose_only=False, using_pow2_scale=True,
               quant_method="1x128"):  # fmt: skip
    rows = 1 if quant_method == "1x128" else 128
    found = []
    for t in ([] if return_transpose_only else [x]) + ([x.T] if input_transpose else []):
        q, scale = _eighths(t, epsilon, rows, using_pow2_scale)
        found += [q, scale.T if rows == 1 and output_scale_transpose else scale]
    return found


def _gemm(a, sa, b, sb, out_dtype, bias=None, is_a_1d_scaled=True, is_b_1d_scaled=True):
    a, b = [
        _back(t, s.T if flat else s, 1 if flat else 128)
        for t, s, flat in ((a, sa, is_a_1d_scaled), (b, sb, is_b_1d_scaled))
    ]
    return (a @ b.T + (0 if bias is None else bias.astype(np.float32))).astype(np.float32)


def _silu(x):
    return x / (1 + np.exp(-x))


def _act_quant(x, prob=None, using_pow2_scaling=False):
    rows = x.reshape(-1, x.shape[-1]).astype(np.float32)
    n = rows.shape[1] // 2
    out = _silu(rows[:, :n]) * rows[:, n:]
    return _eighths(out if prob is None else out * prob.reshape(-1, 1).astype(np.float32), 0, 1, using_pow2_scaling)


def _split(x, scales, counts, pow2=False):
    x = x if scales is None else _back(x, scales, 1)
    ends = np.cumsum(counts)
    found = [_eighths(x[e - n : e].T, 0, 1, pow2) for e, n in zip(ends, counts, strict=True)]
    return [q for q, _ in found] + [s.T for _, s in found]


def _stacked(x, transpose=True):
    return _eighths(np.concatenate([t.T if transpose else t for t in x]), 0, 128, False)


# ---------------------------------------------------------------- gradients


def _weighed(first, second, g, weight):
    p = weight.reshape(*first.shape[:-1], 1)
    s = 1 / (1 + np.exp(-first))
    slope = s + first * s * (1 - s)
    return [
        np.concatenate([g * p * second * slope, g * p * _silu(first)], -1),
        (g * _silu(first) * second).sum(-1).reshape(weight.shape),
        p * _silu(first) * second,
    ]


def _minus(softmax, label, loss_grad):
    hot = np.eye(softmax.shape[-1])[label.ravel()]
    return (softmax.reshape(hot.shape) - hot).reshape(softmax.shape) * loss_grad.reshape(*softmax.shape[:-1], 1)


def _added(table, index, rows):
    out = table.copy()
    np.add.at(out, index.ravel(), rows.reshape(-1, table.shape[1]))
    return out


def eighth(*shape, seed=0):
    return floats(*shape, seed=seed).astype(E4M3)


SCALE1, SCALE2 = [floats(*s, low=0.5, high=2).astype(np.float32) for s in ((2, 3), (2, 2))]
KEPT = {"dtypes": frozenset(), "grad": 0, "out": "ref", "skip": {"0-d": PARTS}}

TABLE, EXTRA = divided(
    [
        Row(
            "to_eighths",
            [
                call(part(3, 130), 0.0, 1, False),
                call(part(130, 3), 1e-3, 128, True),
                call(np.zeros((2, 3)), 0.0, 1, True),
                call(np.zeros((0, 3)), 0.0, 1, True),
            ],
            _eighths,
            **KEPT,
        ),
        Row(
            "from_eighths",
            [
                call(eighth(3, 130), SCALE1.T.copy(), 1, "float32"),
                call(eighth(130, 130), SCALE2, 128, "bfloat16"),
                call(eighth(0, 3), np.zeros((0, 1), np.float32), 1, "float32"),
            ],
            _back,
            **KEPT,
        ),
        Row(
            "fp8_quant_blockwise",
            [
                call(still(part(3, 130))),
                call(still(part(3, 5)), 1e-3, True, False, False, False),
                call(still(part(3, 5)), quant_method="128x128", input_transpose=True),
                call(still(part(3, 5)), input_transpose=True, return_transpose_only=True),
                call(still(np.zeros((0, 3)))),
            ],
            _blockwise,
            **KEPT,
            bad=[
                Bad(
                    call(part(3, 5), output_type="e5m2"),
                    "fp8_quant_blockwise(output_type): expected 'e4m3', got 'e5m2'",
                ),
                Bad(
                    call(part(3, 5), quant_method="x"),
                    "fp8_quant_blockwise(quant_method): expected '1x128' or '128x128'",
                ),
            ],
        ),
        Row(
            "fp8_gemm_blockwise",
            [
                call(eighth(3, 130), SCALE1, eighth(130, 130), SCALE2, "float32", is_b_1d_scaled=False),
                call(eighth(3, 130), SCALE1, eighth(3, 130, seed=1), SCALE1, "float32", bias=still(part(3))),
            ],
            _gemm,
            **{**KEPT, "skip": {**KEPT["skip"], "zero size": PARTS}},
            loose=(4, "long sums"),
            bad=[
                Bad(
                    call(eighth(3, 130), SCALE1, eighth(2, 130), SCALE1, "float32"),
                    "fp8_gemm_blockwise(b_decode_scale): expected shape [2, 2]",
                ),
                Bad(
                    call(part(3, 130), SCALE1, eighth(3, 130), SCALE1, "float32"),
                    "fp8_gemm_blockwise(a): expected a float8 matrix with 130 columns",
                ),
            ],
        ),
        Row(
            "fused_act_dequant",
            [call(eighth(3, 130), SCALE1.T.copy()), call(eighth(0, 3), np.zeros((0, 1), np.float32))],
            lambda x, s: _back(x, s, 1, "bfloat16"),
            **KEPT,
            bad=[
                Bad(
                    call(eighth(3, 130), SCALE1),
                    "fused_act_dequant(x): expected a float8 matrix, and a scale for every 128 elements of a row",
                )
            ],
        ),
        Row(
            "fused_weighted_swiglu_act_quant",
            [
                call(still(part(2, 3, 20))),
                call(still(part(4, 20)), still(part(4)), True),
                call(still(np.zeros((0, 4)))),
            ],
            _act_quant,
            **KEPT,
            loose=(1, ""),
            bad=[Bad(call(part(2, 3)), "fused_weighted_swiglu_act_quant(x): expected a last dimension of even size")],
        ),
        Row(
            "fused_stack_transpose_quant",
            [call([still(part(128, 256)), still(part(128, 256, seed=1))]), call([still(part(128, 256))], False)],
            _stacked,
            **{**KEPT, "skip": {**KEPT["skip"], "zero size": PARTS}},
            bad=[
                Bad(
                    call([part(3, 5)]),
                    "fused_stack_transpose_quant(x): expected matrices whose sizes are multiples of 128",
                )
            ],
        ),
        Row(
            "fused_transpose_split_quant",
            [
                call(still(part(256, 3)), None, [128, 0, 128], True),
                call(eighth(128, 3), np.ones((128, 1), np.float32), [128]),
            ],
            _split,
            **{**KEPT, "skip": {**KEPT["skip"], "zero size": PARTS}},
            bad=[
                Bad(
                    call(part(256, 3), None, [100, 156]),
                    "fused_transpose_split_quant(tokens_per_expert): expected multiples of 128 that add up to 256",
                )
            ],
        ),
        Row(
            "fused_transpose_wlch_split_quant",
            [call(still(part(2, 2, 64, 3)), [128, 128])],
            lambda x, counts: _split(np.swapaxes(x, 0, 1).reshape(-1, x.shape[-1]), None, counts),
            **{**KEPT, "skip": {**KEPT["skip"], "zero size": PARTS}},
        ),
        Row(
            "weighed_swiglu_grad",
            [
                call(still(part(2, 3)), still(part(2, 3, seed=1)), still(part(2, 3, seed=2)), still(part(2, 1))),
                call(*[still(np.zeros((0, 3)))] * 3, still(np.zeros(0))),
            ],
            _weighed,
            grad=0,
            skip={"0-d": PARTS},
        ),
        Row(
            "fused_swiglu_weighted_bwd",
            [
                call(still(part(2, 6)), still(part(2, 3, seed=2)), still(part(2, 1))),
                call(still(part(2, 2, 6)), still(part(2, 2, 3)), still(part(2, 2))),
                call(still(np.zeros((0, 6))), still(np.zeros((0, 3))), still(np.zeros(0))),
            ],
            lambda x, g, p: _weighed(x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :], g, p),
            grad=0,
            skip={"0-d": PARTS},
            bad=[
                Bad(call(part(2, 6), part(2, 2), part(2)), "fused_swiglu_weighted_bwd(do2_s): expected shape [2, 3]"),
                Bad(
                    call(part(2, 6), part(2, 3), part(3)),
                    "fused_swiglu_weighted_bwd(unzipped_probs): expected a weight for each row",
                ),
            ],
        ),
        Row(
            "softmax_minus_label",
            [
                call(floats(3, 4, low=0, high=1), np.array([1, 0, 3]), floats(3)),
                call(np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0)),
            ],
            _minus,
            out="bfloat16",
            grad=0,
            skip={"0-d": PARTS},
            unchecked=INT,
        ),
        Row(
            "cross_entropy_with_softmax_bwd_w_downcast",
            [
                call(np.array([[1], [0], [3]]), floats(3, 4, low=0, high=1), floats(3, 1)),
                call(np.zeros(0, np.int64), np.zeros((0, 4)), np.zeros(0)),
            ],
            lambda label, p, g: _minus(p, label, g),
            dtypes=FLOAT,
            out="bfloat16",
            grad=0,
            skip={"0-d": PARTS},
            bad=[
                Bad(
                    call(np.array([1]), floats(3, 4), floats(3)),
                    "cross_entropy_with_softmax_bwd_w_downcast(label): expected integer labels for 3 rows, and a gradient for each",
                )
            ],
        ),
        Row(
            "rows_added",
            [
                call(part(4, 2), np.array([1, 3, 1]), part(3, 2)),
                call(part(4, 2), np.zeros(0, np.int64), np.zeros((0, 2))),
            ],
            _added,
            grad=0,
            skip={"0-d": PARTS},
            bad=[Bad(call(part(4, 2), np.array([9]), part(1, 2)), "rows_added(index)", IndexError)],
        ),
        Row(
            "embedding_grad_add_to_",
            [
                call(np.array([[1, 3]]), still(part(4, 2)), part(1, 2, 2)),
                call(np.zeros(0, np.int64), still(part(4, 2)), np.zeros((0, 2))),
            ],
            lambda i, t, g: _added(t, i, g),
            out="last",
            grad=0,
            skip={"0-d": PARTS},
            bad=[
                Bad(
                    call(np.array([1]), part(4, 2), part(1, 3)),
                    "embedding_grad_add_to_(out_grad): expected a row for each",
                )
            ],
        ),
    ],
    keep=2,
)
