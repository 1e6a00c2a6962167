"""Half precision over many elements: a sum, a count or a divisor that is held in it shows only at such sizes.

Float16 ends at 65,504 and loses digits below 6e-5; sums of ones stop at 2,048, in bfloat16 at 256. Each call is made in
both types by both executors, forwards and backwards, and compared with itself in double precision on the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import bireme
import bireme.nn.functional as F
from bireme.core.base import dtype as dtypes
from bireme.core.graph import executor
from bireme.core.xla_exec import xla
from tests.table.harness import HALVES, TOLERANCE, flat, same, widen
from tests.table.test_table import LOWEST

N = 70_001  # elements: more than float16 can count
rng = np.random.default_rng(12)


def positive(*shape: int, high: float = 0.5) -> np.ndarray:
    """Numbers with a mean that is not zero: sums of them grow."""
    return rng.uniform(0.05, high, shape)


def signed(*shape: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape)


def ints(high: int, *shape: int) -> np.ndarray:
    return rng.integers(0, high, shape)


def holes(*shape: int) -> np.ndarray:
    """Numbers, and NaN where there are none."""
    x = positive(*shape)
    x[..., ::7] = np.nan
    return x


def batch_norm(x, scale, shift):
    width = x.shape[1]
    mean, variance = bireme.zeros([width], "float32"), bireme.ones([width], "float32")
    out = F.batch_norm(x, mean, variance, scale.astype("float32"), shift.astype("float32"), training=True, momentum=0.0)
    return out, mean, variance


def segments(reduction: str) -> Callable:
    return lambda x, i: getattr(bireme.incubate, "segment_" + reduction)(x, i.sort())


LONG = [positive(N)]
ROWS = [positive(2, N)]
PAIR = [positive(N), positive(N)]
SIGNS = np.where(rng.uniform(size=N) < 0.5, -1.0, 1.0)
ONE = np.zeros(N, np.int64)  # every element falls to the same place

CALLS: dict[str, tuple[Callable, list[np.ndarray]]] = {
    "sum": (lambda x: x.sum(), LONG),
    "sum along an axis": (lambda x: x.sum(1), ROWS),
    "nansum": (bireme.nansum, [holes(N)]),
    "mean": (lambda x: x.mean(), LONG),
    "mean of more": (lambda x: x.mean(), [positive(3_000_017)]),
    "nanmean": (bireme.nanmean, [holes(N)]),
    "var": (bireme.var, LONG),
    "var, biased": (lambda x: bireme.var(x, 1, unbiased=False), ROWS),
    "std": (bireme.std, LONG),
    "std along an axis": (lambda x: bireme.std(x, 0), [positive(N, 2)]),
    "prod": (bireme.prod, [rng.uniform(0.97, 1.03, N)]),
    "logsumexp": (bireme.logsumexp, LONG),
    "max of equal ones": (lambda x: bireme.max(x), [np.ones(N)]),
    "median": (bireme.median, LONG),
    "cumsum": (bireme.cumsum, LONG),
    "cumprod": (lambda x: bireme.cumprod(x, 0), [rng.uniform(0.99, 1.01, 5000)]),
    "logcumsumexp": (bireme.logcumsumexp, [positive(5000)]),
    "trace": (bireme.trace, [positive(3000, 3000)]),
    "norm": (bireme.linalg.norm, LONG),
    "norm of order 1": (lambda x: bireme.linalg.norm(x, 1), LONG),
    "norm of order 3": (lambda x: bireme.linalg.norm(x, 3), LONG),
    "dist": (bireme.dist, PAIR),
    "renorm": (lambda x: bireme.renorm(x, 2.0, 0, 1.0), ROWS),
    "dot": (bireme.dot, PAIR),
    "matmul": (bireme.matmul, [positive(2, N), positive(N, 2)]),
    "inner": (bireme.inner, [positive(2, N), positive(2, N)]),
    "outer": (lambda x, y: bireme.outer(x, y).sum(), [positive(N), positive(2)]),
    "kron": (bireme.kron, [positive(1, N), positive(2, 1)]),
    "einsum": (lambda x, y: bireme.einsum("ij,ij->i", x, y), [positive(2, N), positive(2, N)]),
    "cdist": (bireme.cdist, [positive(2, 20_000), positive(3, 20_000)]),
    "trapezoid": (bireme.trapezoid, LONG),
    "histogram": (lambda x: bireme.histogram(x.astype("float32"), 4, 0.0, 1.0), LONG),
    "bias": (lambda x, b: x + b, [positive(N, 2), positive(2)]),
    "factor": (lambda x, b: x * b, [positive(N, 2), positive(2)]),
    "divisor": (lambda x, b: x / b, [positive(N, 2), rng.uniform(1, 2, 2)]),
    "exponent": (lambda x, b: x**b, [positive(N, 2), rng.uniform(1, 2, 2)]),
    "expand": (lambda x: bireme.expand(x, [N, 2]), [positive(2)]),
    "tile": (lambda x: bireme.tile(x, [N, 1]), [positive(2)]),
    "repeat_interleave": (lambda x: bireme.repeat_interleave(x, N, 0), [positive(2)]),
    "index_select": (lambda x, i: bireme.index_select(x, i, 0), [positive(3, 8), ONE]),
    "gather": (lambda x, i: bireme.gather(x, i), [positive(3, 2), ONE]),
    "gather_nd": (lambda x, i: bireme.gather_nd(x, i.unsqueeze(1)), [positive(3, 2), ONE]),
    "take_along_axis": (lambda x, i: bireme.take_along_axis(x, i, 0), [positive(3), ONE]),
    "indexing": (lambda x, i: x[i], [positive(3, 2), ONE]),
    "index_add": (lambda x, i, v: bireme.index_add(x, i, 0, v), [positive(3, 2), ONE, positive(N, 2)]),
    "scatter": (lambda x, i, v: bireme.scatter(x, i, v, overwrite=False), [positive(3, 2), ONE, positive(N, 2)]),
    "scatter_nd_add": (
        lambda x, i, v: bireme.scatter_nd_add(x, i.unsqueeze(1), v),
        [positive(3, 2), ONE, positive(N, 2)],
    ),
    "put_along_axis": (lambda x, i, v: bireme.put_along_axis(x, i, v, 0, "add"), [positive(3), ONE, positive(N)]),
    "put_along_axis, mean": (
        lambda x, i, v: bireme.put_along_axis(x, i, v, 0, "mean", include_self=False),
        [positive(3), ONE, positive(N)],
    ),
    "index_put": (lambda x, i, v: bireme.index_put(x, [i], v, accumulate=True), [positive(3), ONE, positive(N)]),
    "as_strided": (lambda x: bireme.as_strided(x, [N], [0]), [positive(2)]),
    "unfold": (lambda x: x.unfold(0, 1200, 1), [positive(2400)]),
    "segment_sum": (segments("sum"), [positive(N, 2), ints(2, N)]),
    "segment_mean": (segments("mean"), [positive(N, 2), ints(2, N)]),
    "graph_send_recv": (
        lambda x, i: bireme.incubate.graph_send_recv(x, i, i * 0, "mean"),
        [positive(2, 2), ints(2, N)],
    ),
    "softmax": (lambda x: F.softmax(x) * 1024, [signed(2, N)]),
    "log_softmax": (F.log_softmax, [signed(2, N)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, [N], w, b), [signed(2, N), positive(N), signed(N)]),
    "layer_norm of many rows": (lambda x, w, b: F.layer_norm(x, [4], w, b), [signed(N, 4), positive(4), signed(4)]),
    "batch_norm": (batch_norm, [positive(N, 2), positive(2), signed(2)]),
    "instance_norm": (F.instance_norm, [positive(1, 2, N)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, 1e-5, w, b), [positive(1, 4, N), positive(4), signed(4)]),
    "local_response_norm": (lambda x: F.local_response_norm(x, 5), [positive(1, 5000, 2)]),
    "cosine_embedding_loss": (
        lambda x, y: F.cosine_embedding_loss(x, y, bireme.to_tensor([1, -1])),
        [positive(2, N), positive(2, N)],
    ),
    "cov": (bireme.linalg.cov, [positive(2, N)]),
    "normalize": (lambda x: F.normalize(x, axis=1) * 64, ROWS),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y, axis=1), [positive(2, N), positive(2, N)]),
    "pairwise_distance": (F.pairwise_distance, [positive(2, N), positive(2, N)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 260), [positive(1, 1, 260, 260)]),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 1), [positive(1, 2, 300, 300)]),
    "adaptive_avg_pool2d, uneven": (lambda x: F.adaptive_avg_pool2d(x, 2), [positive(1, 2, 601, 601)]),
    "lp_pool1d": (lambda x: F.lp_pool1d(x, 2.0, N), [positive(1, 2, N)]),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, stride=2), [positive(1, 1, N), positive(2, 1, 3), positive(2)]),
    "linear": (lambda x, w, b: F.linear(x, w, b), [positive(N, 2), positive(2, 3), positive(3)]),
    "embedding": (lambda i, w: F.embedding(i, w), [ints(2, N), positive(3, 8)]),
    "prelu": (lambda x, w: F.prelu(x, w), [-positive(N, 2), positive(1)]),
    "leaky_relu": (lambda x: F.leaky_relu(x).sum(), LONG),
    "pad": (lambda x: F.pad(x, [5000, 5000], "replicate"), [positive(1, 1, 4)]),
    "interpolate": (lambda x: F.interpolate(x, [N], mode="linear", data_format="NCW"), [positive(1, 1, 2)]),
    "grid_sample": (lambda x, g: F.grid_sample(x, g), [positive(1, 1, 2, 2), signed(1, 1, N, 2) * 0.1]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v) * 512,
        [signed(1, 2, 1, 4), signed(1, N, 1, 4), positive(1, N, 1, 4)],
    ),
    "mse_loss": (F.mse_loss, PAIR),
    "mse_loss, sum": (lambda x, y: F.mse_loss(x, y, "sum"), PAIR),
    "l1_loss": (F.l1_loss, [positive(N), signed(N)]),
    "smooth_l1_loss": (F.smooth_l1_loss, PAIR),
    "cross_entropy": (F.cross_entropy, [signed(N, 3), ints(3, N)]),
    "cross_entropy, ignoring": (lambda x, y: F.cross_entropy(x, y, ignore_index=0), [signed(N, 3), ints(3, N)]),
    "cross_entropy, weighted": (
        lambda x, y, w: F.cross_entropy(x, y, w),
        [signed(N, 3), ints(3, N), positive(3, high=8)],
    ),
    "cross_entropy, smoothed": (
        lambda x, y: F.cross_entropy(x, y, ignore_index=0, label_smoothing=0.1),
        [signed(N, 3), ints(3, N)],
    ),
    "cross_entropy, soft": (
        lambda x, y: F.cross_entropy(x, F.softmax(y).detach(), soft_label=True),
        [signed(N, 3), signed(N, 3)],
    ),
    "cross_entropy, soft, weighted": (
        lambda x, y, w: F.cross_entropy(x, F.softmax(y).detach(), w.detach(), soft_label=True),
        [signed(N, 3), signed(N, 3), positive(3, high=8)],
    ),
    "cross_entropy of many classes": (F.cross_entropy, [signed(2, N), ints(N, 2)]),
    "nll_loss": (F.nll_loss, [signed(N, 3), ints(3, N)]),
    "nll_loss, weighted": (lambda x, y, w: F.nll_loss(x, y, w), [signed(N, 3), ints(3, N), positive(3, high=8)]),
    "binary_cross_entropy": (F.binary_cross_entropy, PAIR),
    "binary_cross_entropy_with_logits": (F.binary_cross_entropy_with_logits, [signed(N), positive(N)]),
    "kl_div": (F.kl_div, [signed(N), positive(N)]),
    "kl_div, batchmean": (lambda x, y: F.kl_div(x, y, "batchmean"), [signed(N, 1), positive(N, 1)]),
    "dice_loss": (lambda x, y: F.dice_loss(F.softmax(x), y), [signed(2, N, 2), ints(2, 2, N, 1)]),
    "sigmoid_focal_loss": (lambda x, y: F.sigmoid_focal_loss(x, y, reduction="mean"), [signed(N), positive(N)]),
    "margin_ranking_loss": (
        lambda x, y: F.margin_ranking_loss(x, y, bireme.to_tensor(SIGNS).astype(x.dtype), 0.1),
        PAIR,
    ),
    "hinge_embedding_loss": (lambda x: F.hinge_embedding_loss(x, bireme.to_tensor(SIGNS).astype(x.dtype)), LONG),
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, bireme.to_tensor(SIGNS).astype(x.dtype)), LONG),
    "poisson_nll_loss": (F.poisson_nll_loss, PAIR),
    "gaussian_nll_loss": (lambda x, y, v: F.gaussian_nll_loss(x, y, v), [positive(N), positive(N), positive(N)]),
    "triplet_margin_loss": (F.triplet_margin_loss, [positive(N, 2), signed(N, 2), positive(N, 2)]),
    "multi_margin_loss": (F.multi_margin_loss, [signed(2, N), ints(N, 2)]),
    "multi_label_soft_margin_loss": (F.multi_label_soft_margin_loss, [signed(2, N), np.sign(signed(2, N))]),
    "fused_rms_norm": (
        lambda x, w: bireme.incubate.nn.functional.fused_rms_norm(x, w, None, 1e-6, 1)[0],
        [positive(2, N), positive(N)],
    ),
    "softmax_mask_fuse": (
        lambda x, m: bireme.incubate.softmax_mask_fuse(x, m),
        [signed(1, 1, 1, 1024 * 64), signed(1, 1, 1, 1024 * 64)],
    ),
    "clip_grad_norm": (lambda x: bireme.nn.ClipGradByGlobalNorm(1.0)([(x.detach(), x)])[0][1], LONG),
}


def weights(t: bireme.Tensor) -> bireme.Tensor:
    """Gradients to begin with: large for a single result, as a scaled loss has; else positive and different ones, which
    add up.
    """
    n = t.size
    made = np.full(t.shape, 512.0) if n == 1 else (2 * np.random.default_rng(3).integers(0, 8, t.shape) + 1) / 16
    return bireme.to_tensor(made.astype(t.dtype.np))


def outcome(fn: Callable, arrays: list[np.ndarray], by: str) -> list[np.ndarray]:
    """Results and gradients."""
    xs = [bireme.to_tensor(a, stop_gradient=not dtypes.from_numpy(a.dtype).is_inexact) for a in arrays]
    with executor.use(by):
        outs = flat(fn(*xs))
        roots = [t for t in outs if not t.stop_gradient and t.dtype.is_inexact]
        wanted = [x for x in xs if not x.stop_gradient]
        grads = bireme.grad(roots, wanted, [weights(t) for t in roots], allow_unused=True) if roots and wanted else []
        return [t.numpy() for t in [*outs, *[g for g in grads if g is not None]]]


@pytest.fixture(autouse=True)
def options(monkeypatch, full):
    if not full:
        monkeypatch.setattr(xla, "OPTIONS", LOWEST)


@pytest.mark.parametrize("name", CALLS)
def test_half_precision_of_many_elements(name):
    fn, arrays = CALLS[name]
    wrong = []
    for dtype in sorted(HALVES, key=lambda d: d.name):
        given = [a.astype(dtype.np) if a.dtype == np.float64 else a for a in arrays]
        wanted = outcome(fn, [widen(a) for a in given], "interpreter")
        for by in ("interpreter", "xla"):
            found = outcome(fn, given, by)
            for i, (got, want) in enumerate(zip(found, wanted, strict=True)):
                try:
                    same(got, want.astype(got.dtype), 2 * TOLERANCE[dtype.name], f"{by}, {dtype.name}, value {i}")
                except AssertionError as e:
                    wrong.append(str(e))
    assert not wrong, "\n".join(wrong)
