"""Rows of loss layers."""

import numpy as np
from scipy import special

from tests.table.harness import Bad, call, still
from tests.table.layer_harness import LayerRow

_rng = np.random.default_rng(0)
_labels = np.array([0, 2, 1])


def _cross_entropy(x, label):
    return -special.log_softmax(x, -1)[np.arange(len(label)), label].mean()


_pair = _rng.standard_normal((3, 4)), _rng.standard_normal((3, 4))
_chances = _rng.uniform(0.1, 0.9, (3, 4)), _rng.uniform(0.1, 0.9, (3, 4))
_third = _rng.standard_normal((3, 4))
_signs = np.where(_rng.standard_normal((3, 4)) > 0, 1, -1)


def loss(name, ref, *inputs, init=None, **more):
    return LayerRow(name, init or call(), [call(*(inputs or _pair))], ref=ref, **more)


def _logits_bce(x, y):
    return (1 - y) * np.logaddexp(0, x) + y * np.logaddexp(0, -x)


def _margins(x, label):
    return np.mean(
        [sum(max(0, 1 - r[k] + r[j]) for j in range(4) if j != k) / 4 for r, k in zip(x, label, strict=True)]
    )


def _one_step(x, y, steps, sizes):
    """One step and one label: it is emitted, and then the blank."""
    return -(x[np.arange(3), 0, 0, y[:, 0]] + x[:, 0, 1, 0]).mean()


def _distance(x, y):
    return np.linalg.norm(x - y + 1e-6, axis=-1)


def _cosine(x, y):
    return (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))


def _triplet(x, near, far):
    return np.maximum(_distance(x, near) - _distance(x, far) + 1, 0).mean()


def _adaptive(x, label, head_weight, tail_weight_0_0, tail_weight_0_1):
    """For labels 0 and 1 at the head and 2 in the first cluster."""
    head = special.log_softmax(x @ head_weight, -1)
    tail = special.log_softmax(x @ tail_weight_0_0 @ tail_weight_0_1, -1)
    out = np.array([head[n, k] + (tail[n, 0] if k == 2 else 0) for n, k in enumerate(label)])
    return [out, -out.mean()]


LAYERS = [
    loss("MSELoss", lambda x, y: ((x - y) ** 2).mean(), bad_init=[Bad(call("all"), "MSELoss(reduction): expected 'mean', 'sum' or 'none', got 'all'"),
        Bad(call(size=1), "MSELoss(): expected arguments reduction, got 'size'", TypeError)]),
    loss("CrossEntropyLoss", _cross_entropy, _pair[0], _labels),
    loss("L1Loss", lambda x, y: abs(x - y).sum(), init=call("sum")),
    loss("SmoothL1Loss", lambda x, y: np.where(abs(x - y) < 0.5, (x - y) ** 2 / 2, 0.5 * (abs(x - y) - 0.25)).mean(), init=call(delta=0.5)),
    loss("BCELoss", lambda x, y: -(y * np.log(x) + (1 - y) * np.log(1 - x)).mean(), _chances[0], still(_chances[1])),
    loss("BCEWithLogitsLoss", lambda x, y: _logits_bce(x, y).mean(), _pair[0], still(_pair[1])),
    loss("NLLLoss", lambda x, label: -x[np.arange(3), label].mean(), _pair[0], _labels),
    loss("KLDivLoss", lambda x, y: (y * (np.log(y) - x)).sum() / 3, _pair[0], still(_chances[0]), init=call("batchmean")),
    loss("MarginRankingLoss", lambda x, y, s: np.maximum(0, 0.5 - s * (x - y)).mean(), *_pair, _signs.astype(float), init=call(0.5)),
    loss("HingeEmbeddingLoss", lambda x, s: np.where(s == 1, x, np.maximum(0, 1 - x)).mean(), _pair[0], _signs),
    loss("SoftMarginLoss", lambda x, s: np.log1p(np.exp(-s * x)).mean(), _pair[0], _signs),
    loss("MultiLabelSoftMarginLoss", lambda x, y: _logits_bce(x, y).mean()),
    loss("MultiMarginLoss", _margins, _pair[0], _labels),
    loss("MultiLabelMarginLoss", lambda x, label: _margins(x, label[:, 0]), _pair[0], np.stack([_labels, *[np.full(3, -1)] * 3], 1)),
    loss("TripletMarginLoss", _triplet, *_pair, _third),
    loss("TripletMarginWithDistanceLoss", _triplet, *_pair, _third),
    loss("GaussianNLLLoss", lambda x, y, v: 0.5 * (np.log(v) + (x - y) ** 2 / v).mean(), *_pair, _chances[0]),
    loss("PoissonNLLLoss", lambda x, y: (np.exp(x) - y * x).mean(), _pair[0], _chances[0]),
    loss("CosineEmbeddingLoss", lambda x, y, s: np.where(s == 1, 1 - _cosine(x, y), np.maximum(0, _cosine(x, y) - 0.25)).mean(),
        *_pair, _signs[:, 0], init=call(0.25),
        bad_init=[Bad(call(2.0), "CosineEmbeddingLoss(margin): expected a number in [-1, 1], got 2.0")]),
    loss("CTCLoss", lambda x, y, steps, sizes: -np.log(special.softmax(x, -1)[0, np.arange(3), y[:, 0]]).mean(), _pair[0][None], _labels[:, None] + 1,
        np.ones(3, int), np.ones(3, int)),
    loss("RNNTLoss", _one_step, np.stack(_pair, 1)[:, None], _labels[:, None] + 1, np.ones(3, int), np.ones(3, int),
        init=call(fastemit_lambda=0.0)),
    loss("HSigmoidLoss", lambda x, y, weight, bias: np.logaddexp(0, x @ weight.T + bias.T) - (x @ weight.T + bias.T) * y,
        _pair[0], np.array([[0], [1], [1]]),
        init=call(4, 2), params={"weight": (1, 4), "bias": (1, 1)},
        bad_init=[Bad(call(4, 1), "HSigmoidLoss(num_classes): expected an integer greater than 1, got 1")]),
    loss("AdaptiveLogSoftmaxWithLoss", _adaptive, _pair[0], _labels, init=call(4, 6, [2, 4], div_value=2.0),
        params={"head_weight": (4, 4), "tail_weight_0_0": (4, 2), "tail_weight_0_1": (2, 2), "tail_weight_1_0": (4, 1), "tail_weight_1_1": (1, 2)},
        bad_init=[Bad(call(4, 6, [4, 2]), "AdaptiveLogSoftmaxWithLoss(cutoffs): expected increasing integers in [1, 5], got [4, 2]")]),
    loss("CosineSimilarity", _cosine),
    loss("PairwiseDistance", _distance),
]  # fmt: skip
