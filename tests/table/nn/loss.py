"""Rows of losses."""

import numpy as np
from scipy import special

from tests.table.harness import ALL, COMPLEX, FLOAT, INT, Bad, Row, call, floating, still
from tests.table.samples import floats

Z = np.zeros((2, 0, 3))


def _nll(x, label, ignore_index):
    safe = np.where(label == ignore_index, 0, label)
    if not label.size:
        return np.zeros(label.shape)
    return np.where(label == ignore_index, 0, special.logsumexp(x, axis=-1) - np.take_along_axis(x, safe[..., None], -1)[..., 0])


def _cross_entropy(x, label, weight=None, ignore_index=-100, reduction="mean", soft_label=False, axis=-1, use_softmax=True, label_smoothing=0.0):
    x = np.moveaxis(x, axis, -1)
    logs = special.log_softmax(x, axis=-1) if use_softmax else np.log(x)
    n = x.shape[-1]
    soft_label = soft_label or label.dtype.kind == "f"  # one-hot already
    if soft_label:
        hot, valid = np.moveaxis(label, axis, -1), np.ones(x.shape[:-1], bool)
    else:
        kept = label.shape != x.shape[:-1]
        label = label.reshape(x.shape[:-1])
        valid = label != ignore_index
        hot = np.eye(n)[np.where(valid, label, 0)] * valid[..., None]
    if label_smoothing:
        hot = (hot * (1 - label_smoothing) + label_smoothing / n) * valid[..., None]
        kept = True
    loss = -(hot * logs).sum(-1)
    per = valid.astype(float) if weight is None else (hot * weight).sum(-1)
    loss = loss if weight is None else loss * per
    if reduction == "mean":
        every = weight is None and (soft_label or (ignore_index < 0 and not label_smoothing))
        return loss.mean() if every else loss.sum() / max(per.sum(), 1e-300)
    if reduction == "sum":
        return loss.sum()
    return np.expand_dims(loss, axis) if soft_label or kept else loss


_labels = np.array([2, 0, -100])
_pair = (floats(2, 3), floats(2, 3, seed=1))
_chances = floats(2, 3, low=0.1, high=0.9), floats(2, 3, low=0.1, high=0.9, seed=1)
# labels that get no gradient, where the loss is one operator in Paddle
_told, _told_chance = (_pair[0], still(_pair[1])), (_chances[0], still(_chances[1]))
_one, _one_chance = still(floats(seed=1)), still(floats(low=0.1, high=0.9, seed=1))
_shares = still(special.softmax(floats(2, 3, seed=3), -1))
_signs = np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
NO_MEAN = {"zero size": "the mean of no losses is no number"}
VECTORS = {"0-d": "it takes vectors"}
ROWS = {"0-d": "it takes rows of scores"}


def _mse(x, y, reduction="mean"):
    d = (x - y) ** 2
    return d if reduction == "none" else d.mean() if reduction == "mean" else d.sum()


def _mean(loss, reduction="mean"):
    return loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean() if loss.size else np.array(np.nan)


def _logits_bce(x, y, weight=None, reduction="mean", pos_weight=None):
    loss = (1 - y) * np.logaddexp(0, x) + (1 if pos_weight is None else pos_weight) * y * np.logaddexp(0, -x)
    return _mean(loss if weight is None else loss * weight, reduction)


def _bce(x, y, weight=None, reduction="mean"):
    loss = -(y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log(1 - x), -100))
    return _mean(loss if weight is None else loss * weight, reduction)


def _focal(x, y, normalizer=None, alpha=0.25, gamma=2.0, reduction="sum"):
    p = special.expit(x)
    loss = (alpha * y + (1 - alpha) * (1 - y)) * (1 - p * y - (1 - p) * (1 - y)) ** gamma * _logits_bce(x, y, reduction="none")
    return _mean(loss if normalizer is None else loss / normalizer, reduction)


def _nll_loss(x, label, weight=None, ignore_index=-100, reduction="mean"):
    x = np.moveaxis(x, 1, -1)
    label = label.reshape(x.shape[:-1])
    valid = label != ignore_index
    safe = np.where(valid, label, 0)
    per = (np.ones(x.shape[-1]) if weight is None else weight)[safe] * valid
    loss = -np.take_along_axis(x, safe[..., None], -1)[..., 0] * per
    return loss.sum() / max(per.sum(), 1e-300) if reduction == "mean" else _mean(loss, reduction)


def _huber(x, delta, scaled):
    loss = np.where(np.abs(x) <= delta, x * x / 2, delta * (np.abs(x) - delta / 2))
    return loss / delta if scaled else loss


def _kl(x, y, reduction="mean", log_target=False):
    loss = np.exp(y) * (y - x) if log_target else np.where(y > 0, special.xlogy(y, np.where(y > 0, y, 1)) - y * x, 0)
    return loss.sum() / x.shape[0] if reduction == "batchmean" else _mean(loss, reduction)


def _gaussian(x, y, variance, full=False, epsilon=1e-6, reduction="mean"):
    v = np.maximum(variance if variance.ndim == x.ndim else variance[..., None], epsilon)
    return _mean(0.5 * (np.log(v) + (x - y) ** 2 / v) + (0.5 * np.log(2 * np.pi) if full else 0), reduction)


def _stirling(y):
    safe = np.where(y > 1, y, 1)
    return np.where(y > 1, safe * np.log(safe) - safe + 0.5 * np.log(2 * np.pi * safe), 0)


def _poisson(x, y, log_input=True, full=False, epsilon=1e-8, reduction="mean"):
    loss = np.exp(x) - y * x if log_input else x - y * np.log(x + epsilon)
    return _mean(loss + _stirling(y) if full else loss, reduction)


def _hinge(x, y, margin=1.0, reduction="mean"):
    return _mean(np.where(y == 1, x, 0) + np.where(y == -1, np.maximum(0, margin - x), 0), reduction)


def _dice(x, label, epsilon=1e-5):
    hot = np.eye(x.shape[-1])[label[..., 0]]
    axes = tuple(range(1, x.ndim))
    return (1 - 2 * (x * hot).sum(axes) / (x.sum(axes) + hot.sum(axes) + epsilon)).mean()


def _cosine(x, y, axis=1, eps=1e-8):
    x, y = np.broadcast_arrays(x, y)
    sizes = (x * x).sum(axis) * (y * y).sum(axis)
    return (x * y).sum(axis) / np.sqrt(np.maximum(sizes, eps * eps))


def _cosine_loss(x, y, label, margin=0, reduction="mean"):
    c = _cosine(x, y, -1)
    return _mean(np.where(label == 1, 1 - c, 0) + np.where(label == -1, np.maximum(0, c - margin), 0), reduction)


def _distance(x, y, p=2.0, epsilon=1e-6, keepdim=False):
    d = x - y + epsilon
    return np.linalg.norm(d, p, axis=-1, keepdims=keepdim) if d.size else np.zeros(d.shape[:-1])


def _triplet(x, near, far, margin=1.0, p=2, epsilon=1e-6, swap=False, reduction="mean", distance_function=None):
    measure = distance_function or (lambda a, b: _distance(a, b, p, epsilon))
    away = np.minimum(measure(x, far), measure(near, far)) if swap else measure(x, far)
    return _mean(np.maximum(measure(x, near) - away + margin, 0), reduction)


def _npair(a, b, labels, l2_reg=0.002):
    same = (labels.reshape(-1, 1) == labels.reshape(1, -1)).astype(float)
    same /= same.sum(1, keepdims=True)
    ce = -(same * special.log_softmax(a @ b.T, 1)).sum(1).mean()
    return ce + 0.25 * l2_reg * ((a * a).sum(1).mean() + (b * b).sum(1).mean())


def _multi_margin(x, label, p=1, margin=1.0, weight=None, reduction="mean"):
    found = []
    for row, k in zip(x, label.ravel(), strict=True):
        total = sum(max(0, margin - row[k] + row[j]) ** p for j in range(row.size) if j != k)
        found.append(total * (1 if weight is None else weight[k]) / row.size)
    return _mean(np.array(found), reduction)


def _multi_label_margin(x, label, reduction="mean"):
    found = []
    for row, names in zip(x, label, strict=True):
        ends = np.flatnonzero(names < 0)
        names = names[: ends[0]] if ends.size else names
        others = [j for j in range(row.size) if j not in names]
        found.append(sum(max(0, 1 - row[k] + row[j]) for k in names for j in others) / row.size)
    return _mean(np.array(found), reduction)


def _taxicab(a, b):
    return abs(a - b).sum(-1)


def _reductions(*args, **more):
    return [call(*args, reduction=r, **more) for r in ("mean", "none", "sum")]


def _misreduced(name, *args):
    return Bad(call(*args, reduction="all"), f"{name}(reduction): expected 'mean', 'sum' or 'none', got 'all'")


TABLE = [
    Row("nll_of_logits", [call(floats(3, 4), _labels, -100), call(floats(2, 3, 4), np.array([[0, 1, 2], [3, 3, 1]]), 3), call(floats(4), np.array(2),
        -100), call(np.zeros((0, 3)), np.zeros(0, int), -100)], _nll, dtypes=FLOAT),
    Row("nll_of_soft", [call(floats(2, 3), _shares), call(floats(3), _shares[0]), call(Z, Z)], lambda x, y: -(x * y).sum(-1), dtypes=FLOAT,
        loose=(2, "half precision loses digits in sums"), skip={"0-d": "there are no classes"}),
    Row("count_valid", [call(_labels, -100, floats(3)), call(np.array([-100]), -100, floats(1)), call(np.array(2), -100, floats()),
        call(np.zeros(0, int), -100, np.zeros(0))], lambda label, ignore, like: max((label != ignore).sum(), 1), dtypes=FLOAT,
        unchecked=ALL - FLOAT, out="last", grad=0),
    Row("cross_entropy", [call(floats(3, 4), _labels), call(floats(3, 4), _labels, reduction="none"), call(floats(3, 4), _labels[:, None],
        reduction="none"), call(floats(3, 4), _labels, floats(4, low=0.1)), call(floats(3, 4), _labels, reduction="sum"),
                          call(floats(2, 4, 3), np.array([[0, 1, 2], [3, 3, 1]]), axis=1),
        call(floats(2, 3), _shares, soft_label=True), call(floats(3, 4, low=0.1, high=0.9), np.array([2, 0, 1]), use_softmax=False),
                          call(floats(3, 4), np.array([2, 0, 1]), label_smoothing=0.1), call(floats(3, 4), _labels, label_smoothing=0.1),
                          call(floats(3, 4), still(np.eye(4)[[2, 0, 1]]), label_smoothing=0.1),
                          call(floats(3, 4), _labels, floats(4, low=0.1), label_smoothing=0.1, reduction="none"), call(floats(4), np.array(2)),
        call(floats(2, 3),
                          _shares, soft_label=True, reduction="none")], _cross_entropy, dtypes=FLOAT,
        skip={"zero size": "the mean of no losses is no number"},
        bad=[Bad(call(floats(3, 4), np.array([1, 4, 0])), "cross_entropy(label): expected indices in [0, 3] or -100, got 4", IndexError),
        Bad(call(floats(3, 4), np.array([1, 2])), "cross_entropy(label): expected shape [3] or [3, 1]"),
             Bad(call(floats(3, 4), _labels, reduction="all"), "cross_entropy(reduction): expected 'mean', 'sum' or 'none', got 'all'"),
             Bad(call(floats(3, 4), np.ones(3, complex)), "cross_entropy(label): expected integer labels, or soft_label=True", TypeError)]),
    Row("mse_loss", [call(floats(2, 3), floats(2, 3, seed=1)), call(floats(2, 3), floats(2, 3, seed=1), "none"), call(floats(2, 3),
        floats(2, 3, seed=1), reduction="sum"), call(floats(), floats(seed=1)), call(Z, Z, "sum")], _mse, dtypes=FLOAT,
        unchecked=ALL - FLOAT, bad=[Bad(call(floats(2), floats(2), "all"), "mse_loss(reduction): expected 'mean', 'sum' or 'none', got 'all'")]),
    Row("nll_of", [call(floats(3, 4), _labels, -100), call(floats(2, 3, 4), np.array([[0, 1, 2], [3, 3, 1]]), 3), call(floats(4), np.array(2), -100),
        call(np.zeros((0, 3)), np.zeros(0, int), -100)], lambda x, y, i: _nll_loss(np.moveaxis(x, -1, min(1, x.ndim - 1)), y, None, i, "none")
        if x.ndim > 1 else -x[y], dtypes=FLOAT, bad=[Bad(call(floats(2, 3), np.array([0, 3]), -100),
        "nll_loss(label): expected indices in [0, 2] or -100, got 3", IndexError)]),
    Row("class_weights", [call(floats(4), _labels, -100), call(floats(4), np.array(2), -100), call(floats(4), np.zeros(0, int), -100)],
        lambda w, y, i: np.where(y == i, 0, w[np.where(y == i, 0, y)]), dtypes=FLOAT),
    Row("only_where", [call(floats(2, 3), floats(2, 3) > 0), call(floats(), np.array(True)), call(Z, Z > 0), call(floats(3), floats(2, 3) > 0)],
        lambda x, c: np.where(c, x, 0), dtypes=FLOAT),
    Row("class_hot", [call(_labels, 4, -100, floats(2)), call(np.array(1), 2, -100, floats()), call(np.zeros(0, int), 2, -100, np.zeros(0))],
        lambda y, n, i, like: (np.arange(n) == y[..., None]) * (y != i)[..., None].astype(float), dtypes=FLOAT, unchecked=ALL - FLOAT, out="last",
        grad=0),
    Row("softmax_with_cross_entropy", [call(floats(3, 4), _labels[:, None]), call(floats(3, 4), np.array([[1, 0, 2, 2]]), axis=0),
        call(floats(2, 3), _shares, soft_label=True), call(floats(4), np.array([2])), call(np.zeros((0, 3)),
        np.zeros((0, 1), int))],
        lambda x, y, soft_label=False, axis=-1: _cross_entropy(x, y, soft_label=soft_label, axis=axis, reduction="none"), dtypes=FLOAT,
        skip={"0-d": "there are no classes"}, bad=[Bad(call(floats(3, 4), np.array([1, 2, 0])),
        "softmax_with_cross_entropy(label): expected shape [3, 1]")]),
    Row("nll_loss", [call(floats(3, 4), _labels), call(floats(3, 4), _labels, floats(4, low=0.1)), call(floats(2, 4, 3), np.array([[0, 1, 2], [3, 3,
        1]]), reduction="none"),
        call(floats(3, 4), _labels[:, None], reduction="sum"), call(np.zeros((0, 3)), np.zeros(0, int), reduction="sum"), call(floats(1, 3, 2, 2),
        np.zeros((1, 2, 2), int))],
        _nll_loss, dtypes=FLOAT, skip=ROWS,
        bad=[_misreduced("nll_loss", floats(3, 4), _labels), Bad(call(floats(4), np.array(1)), "nll_loss(input): expected at least 2 dimensions, [batch, classes, ...]"),
             Bad(call(floats(3, 4), np.array([1])), "nll_loss(label): expected shape [3]"), Bad(call(floats(3, 4), _labels, floats(3)),
        "nll_loss(weight): expected shape [4]")]),
    Row("label_smooth", [call(floats(2, 3)), call(floats(2, 3), epsilon=0.25), call(floats(2, 3), floats(1, 3, seed=1)), call(np.zeros((0, 3))),
        call(floats())],
        lambda x, prior_dist=None,
        epsilon=0.1: (1 - epsilon) * x + epsilon * (prior_dist if prior_dist is not None else 1 / x.shape[-1] if x.ndim else 0), dtypes=FLOAT,
        bad=[Bad(call(floats(2), epsilon=1.5), "label_smooth(epsilon): expected a number in [0, 1], got 1.5")]),
    Row("square_error_cost", [call(*_pair), call(floats(), floats(seed=1)), call(Z, Z)], lambda x, y: (x - y) ** 2, dtypes=FLOAT,
        unchecked=ALL - FLOAT),
    Row("l1_loss", [*_reductions(*_pair), call(floats(), floats(seed=1)), call(Z, Z, "sum")], lambda x, y, reduction="mean": _mean(abs(x - y),
        reduction), dtypes=FLOAT,
        unchecked=ALL - FLOAT, bad=[_misreduced("l1_loss", *_pair)]),
    Row("huber_of", [call(floats(2, 3), 1.0, False), call(floats(2, 3), 0.5, True), call(floats(), 2.0, False), call(Z, 1.0, False)], _huber,
        dtypes=FLOAT),
    Row("smooth_l1_loss", [*_reductions(*_pair), call(*_pair, delta=2.0), call(*_pair, delta=0.5, is_huber=False), call(floats(), floats(seed=1)),
        call(Z, Z, "sum")],
        lambda x, y, reduction="mean", delta=1.0, is_huber=True: _mean(_huber(x - y, delta, not is_huber), reduction), dtypes=FLOAT,
        bad=[_misreduced("smooth_l1_loss", *_pair), Bad(call(floats(2, 3), floats(3)),
        "smooth_l1_loss(label): expected the shape of input, [2, 3]")]),
    Row("bce_of", [call(*_told_chance), call(still([0.0, 1.0, 1.0]), still([0.0, 1.0, 0.0])),
        call(floats(low=0.1, high=0.9), _one_chance), call(Z, Z)],
        lambda x, y: _bce(x, y, reduction="none"), dtypes=FLOAT, loose=(2, "half precision loses digits near 1")),
    Row("binary_cross_entropy", [*_reductions(*_told_chance), call(*_told_chance, floats(3)),
        call(floats(low=0.1, high=0.9), _one_chance), call(Z, Z, reduction="sum")],
        _bce, dtypes=FLOAT, loose=(2, "half precision loses digits near 1"),
        bad=[_misreduced("binary_cross_entropy", *_chances), Bad(call(floats(2), floats(3)),
        "binary_cross_entropy(label): expected the shape of input, [2]")]),
    Row("logits_bce_of", [call(*_told), call(still([200.0, -200.0, 0.0]), still([0.0, 1.0, 1.0])), call(floats(), _one), call(Z, Z)],
        lambda x, y: _logits_bce(x, y, reduction="none"), dtypes=FLOAT),
    Row("weighed_bce_of", [call(*_told, still(floats(3, low=0.1))), call(still([200.0, -200.0]), still([0.0, 1.0]), still([1.0, 2.0])),
        call(floats(), _one, still(2.0)), call(Z, Z, Z)], lambda x, y, w: _logits_bce(x, y, reduction="none", pos_weight=w), dtypes=FLOAT,
        loose=(2, "half precision loses digits in sums")),
    Row("binary_cross_entropy_with_logits", [*_reductions(*_told), call(*_told, floats(3)), call(*_told, pos_weight=still(floats(3, low=0.1))),
        call(floats(), _one),
        call(Z, Z, reduction="sum")], _logits_bce, dtypes=FLOAT, loose=(2, "half precision loses digits in sums"),
        bad=[_misreduced("binary_cross_entropy_with_logits", *_pair), Bad(call(floats(2), floats(3)),
        "binary_cross_entropy_with_logits(label): expected the shape of logit, [2]")]),
    Row("sigmoid_focal_loss", [*_reductions(floats(2, 3), _told_chance[1]),
        call(floats(2, 3), _told_chance[1], floats(1, low=1), 0.5, 1.5), call(floats(), _one_chance), call(Z, Z)],
        _focal, dtypes=FLOAT, loose=(3, "half precision loses digits in powers"),
        bad=[_misreduced("sigmoid_focal_loss", *_pair), Bad(call(*_pair, floats(2, 3)),
        "sigmoid_focal_loss(normalizer): expected a number, or a tensor of shape [1]")]),
    Row("log_loss_of", [call(*_told_chance, 1e-4), call(floats(low=0.1, high=0.9), _one_chance, 0.1), call(Z, Z, 0.1)],
        lambda x, y, eps: -y * np.log(x + eps) - (1 - y) * np.log(1 - x + eps), dtypes=FLOAT,
        loose=(3, "half precision loses digits near 1")),
    Row("log_loss", [call(floats(3, 1, low=0.1, high=0.9), still(floats(3, 1, low=0.1, high=0.9, seed=1))),
        call(floats(3, 1, low=0.1, high=0.9), still(floats(3, 1)), 0.1),
        call(np.zeros((0, 1)), np.zeros((0, 1)))], lambda x, y, eps=1e-4: -y * np.log(x + eps) - (1 - y) * np.log(1 - x + eps), dtypes=FLOAT,
        skip={"0-d": "it takes a column"}, bad=[Bad(call(*_chances), "log_loss(input): expected shape [N, 1]")], loose=(3,
        "half precision loses digits near 1")),
    Row("soft_margin_loss", [*_reductions(floats(2, 3), still(_signs)), call(floats(2, 3), _signs.astype(int)),
        call(np.array([[2, 0, 1]]), np.array([[1, -1, -1]])), call(floats(), still(1.0)), call(Z,
        Z, "sum")],
        lambda x, y, reduction="mean": _mean(np.logaddexp(0, -y * x), reduction), dtypes=FLOAT, out=floating,
        unchecked=COMPLEX | INT, bad=[_misreduced("soft_margin_loss", *_pair)]),
    Row("multi_label_soft_margin_loss", [*_reductions(*_pair), call(*_pair, floats(3)), call(floats(3), floats(3, seed=1)), call(np.zeros((0, 3)),
        np.zeros((0, 3)), reduction="sum")],
        lambda x, y, weight=None, reduction="mean": _mean(_logits_bce(x, y, weight, "none").mean(-1), reduction), dtypes=FLOAT, skip=ROWS,
        bad=[_misreduced("multi_label_soft_margin_loss", *_pair)]),
    Row("dice_loss", [call(floats(2, 3, low=0.1, high=0.9), np.array([[1], [2]])), call(floats(2, 2, 3, low=0.1, high=0.9), np.array([[[1], [2]],
        [[0], [1]]]), 0.1)], _dice,
        dtypes=FLOAT, skip={**ROWS, **NO_MEAN}, bad=[Bad(call(floats(3), np.array([1])), "dice_loss(input): expected at least 2 dimensions",
        AssertionError),
        Bad(call(floats(2, 3), np.array([1, 2])), "dice_loss(label): expected shape [2, 1]", AssertionError)], loose=(2, "half precision")),
    Row("kl_of", [call(floats(2, 3), _told_chance[1]), call(floats(3), still([0.0, -1.0, 0.5])), call(floats(), still(floats(low=0.1))), call(Z, Z)],
        lambda x, y: _kl(x, y, "none"), dtypes=FLOAT),
    Row("kl_of_logs", [call(*_told), call(floats(), _one), call(Z, Z)], lambda x, y: np.exp(y) * (y - x), dtypes=FLOAT,
        loose=(2, "half precision")),
    Row("kl_div", [*_reductions(floats(2, 3), _told_chance[1]), call(floats(2, 3), _told_chance[1], "batchmean"), call(*_told, log_target=True),
        call(floats(), still(floats(low=0.1))), call(Z, Z, "sum")],
        _kl, dtypes=FLOAT, bad=[Bad(call(*_pair, "all"), "kl_div(reduction): expected 'mean', 'batchmean', 'sum' or 'none', got 'all'")], loose=(2,
        "half precision")),
    Row("gaussian_nll_loss", [*_reductions(*_pair, _chances[0]), call(*_pair, _chances[0][:, 0], full=True), call(*_pair, _chances[0][:, :1]),
        call(*_pair, _chances[0], epsilon=0.05),
        call(floats(), floats(seed=1), floats(low=0.1)), call(Z, Z, Z, reduction="sum")], _gaussian, dtypes=FLOAT,
        bad=[_misreduced("gaussian_nll_loss", *_pair, _pair[0]), Bad(call(*_pair, floats(3)),
        "gaussian_nll_loss(variance): expected shape [2, 3] or [2, 1]"),
             Bad(call(*_pair, np.full((2, 1), -1.0)), "gaussian_nll_loss(variance): expected non-negative numbers, got -1.0")],
        loose=(2, "half precision")),
    Row("floor_of", [call(floats(2, 3), -5.0), call(floats(), -5.0), call(Z, 0.5), call(still([0.0, 2.0]), 0.5)], np.maximum, dtypes=FLOAT),
    Row("stirling_of", [call(floats(2, 3, low=0, high=5)), call(floats(low=2)), call(Z), call(still([0.0, 1.0, 2.0]))], _stirling, dtypes=FLOAT),
    Row("poisson_nll_loss", [*_reductions(floats(2, 3), floats(2, 3, low=0, high=5)), call(floats(2, 3), floats(2, 3, low=0, high=5), full=True),
        call(floats(2, 3, low=0.1), floats(2, 3, low=0, high=5), False, epsilon=0.1), call(floats(), floats(low=1)), call(Z, Z, reduction="sum")],
        _poisson, dtypes=FLOAT,
        bad=[_misreduced("poisson_nll_loss", *_pair), Bad(call(*_pair, epsilon=0.0),
        "poisson_nll_loss(epsilon): expected a positive number, got 0.0")], loose=(2, "half precision")),
    Row("hinge_embedding_loss", [*_reductions(floats(2, 3), still(_signs)), call(floats(2, 3), _signs.astype(int), 0.5), call(floats(), still(-1.0)),
        call(Z, Z, reduction="sum")],
        _hinge, dtypes=FLOAT, bad=[_misreduced("hinge_embedding_loss", *_pair)], unchecked=ALL - FLOAT),
    Row("margin_ranking_loss", [*_reductions(*_pair, still(_signs)), call(*_pair, still(_signs), 0.5), call(floats(), floats(seed=1), still(1.0)),
        call(Z, Z, Z, reduction="sum")],
        lambda x, y, label, margin=0.0, reduction="mean": _mean(np.maximum(0, -label * (x - y) + margin), reduction), dtypes=FLOAT,
        unchecked=ALL - FLOAT,
        bad=[_misreduced("margin_ranking_loss", *_pair, _pair[0])]),
    Row("cosine_similarity", [call(*_pair), call(*_pair, axis=0), call(floats(2, 3, 2), floats(1, 3, 2)), call(floats(3), floats(3, seed=1), -1),
        call(floats(2, 3), floats(1, 3, seed=1), axis=0), call(floats(2, 1), floats(2, 3, seed=1)),
        call(np.zeros((0, 3)), np.zeros((0, 3)))],
        _cosine, dtypes=FLOAT, unchecked=ALL - FLOAT, skip=VECTORS, loose=(3, "half precision loses digits in sums"),
        bad=[Bad(call(floats(3), floats(3)), "cosine_similarity(axis): expected an axis in [-1, 0], got 1", IndexError)]),
    Row("pairwise_distance", [call(*_pair), call(*_pair, 1.0), call(*_pair, p=3.0, keepdim=True), call(*_pair, epsilon=0.5), call(np.zeros((0, 3)),
        np.zeros((0, 3)))], _distance,
        dtypes=FLOAT, unchecked=ALL - FLOAT, skip=VECTORS, loose=(3, "half precision loses digits in sums")),
    Row("cosine_embedding_loss", [*_reductions(*_pair, np.array([1, -1])), call(*_pair, np.array([-1, 0]), margin=0.25, reduction="none"),
        call(floats(3), floats(3, seed=1), np.array([1])),
        call(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0, int), reduction="sum")], _cosine_loss, dtypes=FLOAT, unchecked=ALL - FLOAT, skip=VECTORS,
        loose=(3, "half precision loses digits in sums"), bad=[_misreduced("cosine_embedding_loss", *_pair, np.array([1, 1])),
        Bad(call(*_pair, np.array([1, 1], "int16")),
            "cosine_embedding_loss(label): expected one of int32, int64, float32, float64, got int16", TypeError),
        Bad(call(*_pair, np.array([[1]])), "cosine_embedding_loss(label): expected a 1-D tensor"), Bad(call(floats(2, 3), floats(3), np.array([1])),
        "cosine_embedding_loss(input2): expected the shape of input1")]),
    Row("triplet_margin_loss", [*_reductions(*_pair, floats(2, 3, seed=2)), call(*_pair, floats(2, 3, seed=2), 5.0, 1, swap=True), call(*_pair,
        floats(2, 3, seed=2), 2.0, epsilon=0.5),
        call(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3)), reduction="sum")], _triplet, dtypes=FLOAT, unchecked=ALL - FLOAT, skip=VECTORS,
        loose=(4, "half precision loses digits in sums"), bad=[_misreduced("triplet_margin_loss", *_pair, _pair[0]),
        Bad(call(*_pair, _pair[0], -1.0), "triplet_margin_loss(margin): expected a non-negative number, got -1.0"),
        Bad(call(*_pair, floats(3)), "triplet_margin_loss(positive, negative): expected the shape of input, [2, 3]")]),
    Row("triplet_margin_with_distance_loss", [*_reductions(*_pair, floats(2, 3, seed=2)), call(*_pair, floats(2, 3, seed=2), _taxicab, 5.0, True),
        call(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3)), reduction="sum")],
        lambda x, a, b, distance_function=None, margin=1.0, swap=False, reduction="mean": _triplet(x, a, b, margin, swap=swap, reduction=reduction,
        distance_function=distance_function),
        dtypes=FLOAT, unchecked=ALL - FLOAT, skip=VECTORS, loose=(4, "half precision loses digits in sums"),
        bad=[Bad(call(*_pair, _pair[0], margin=-1.0), "triplet_margin_with_distance_loss(margin): expected a non-negative number, got -1.0")]),
    Row("npair_loss", [call(*_pair, np.array([0, 1])), call(floats(3, 2), floats(3, 2, seed=1), np.array([0, 1, 0]), 0.5)], _npair, dtypes=FLOAT,
        skip={**ROWS, **NO_MEAN},
        loose=(4, "half precision loses digits in products"), bad=[Bad(call(*_pair, np.array([0])),
        "npair_loss(anchor, positive, labels): expected two matrices of equal shape and a label per row"),
        Bad(call(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0)), "npair_loss(anchor): expected at least one element, got shape [0, 3]")]),
    Row("multi_margin_of", [call(floats(3, 4), np.array([0, 3, 1]), None, 1.0, 1.0), call(floats(3, 4), np.array([0, 3, 1]), floats(4, low=0.1), 2.0,
        0.5),
        call(np.zeros((0, 3)), np.zeros(0, int), None, 1.0, 1.0)], lambda x, y, w, p, m: _multi_margin(x, y, p, m, w, "none"), dtypes=FLOAT,
        skip=ROWS, loose=(3, "half precision")),
    Row("multi_margin_loss", [*_reductions(floats(3, 4), np.array([0, 3, 1])), call(floats(3, 4), np.array([[0], [3], [1]]), 2, 0.5, floats(4,
        low=0.1)), call(floats(3, 4), np.array([0, 3, 1]), p=2.0),
        call(np.zeros((0, 3)), np.zeros(0, int), reduction="sum")], _multi_margin, dtypes=FLOAT, skip=ROWS, loose=(3, "half precision"),
        bad=[_misreduced("multi_margin_loss", floats(3, 4), np.array([0, 3, 1])), Bad(call(floats(3, 4), np.array([0, 4, 1])),
        "multi_margin_loss(label", IndexError),
             Bad(call(floats(4), np.array(1)), "multi_margin_loss(input): expected shape [batch, classes]"), Bad(call(floats(3, 4), np.array([1])),
        "multi_margin_loss(label): expected an integer tensor")]),
    Row("multi_label_margin_of", [call(floats(2, 4), np.array([[0, 3, -1, 1], [1, 2, 3, 0]])), call(floats(2, 4), np.array([[-1, 0, 1, 2], [1, -1,
        -1, -1]])), call(np.zeros((0, 3)), np.zeros((0, 3), int))],
        lambda x, y: _multi_label_margin(x, y, "none"), dtypes=FLOAT, skip=ROWS, loose=(3, "half precision")),
    Row("multi_label_margin_loss", [*_reductions(floats(2, 4), np.array([[0, 3, -1, 1], [1, 2, -1, 0]])), call(np.zeros((0, 3)), np.zeros((0, 3),
        int), reduction="sum")], _multi_label_margin,
        dtypes=FLOAT, skip=ROWS, loose=(3, "half precision"), bad=[Bad(call(floats(2, 4), np.array([0, 1])),
        "multi_label_margin_loss(label): expected a 2-D integer tensor of the shape of input, [2, 4]"),
        Bad(call(floats(1, 2), np.array([[0, 2]])), "multi_label_margin_loss(label", IndexError)]),
]  # fmt: skip
