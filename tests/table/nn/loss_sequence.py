"""Rows of losses of sequences and of trees and samples of classes."""

import itertools

import numpy as np
from scipy import special

from tests.table.harness import FLOAT, Bad, Row, call
from tests.table.samples import floats

SEQUENCES = {"0-d": "it takes sequences", "zero size": "it takes sequences of at least one step"}


def _ctc_each(x, labels, steps, lengths, blank=0, norm_by_times=False):
    """By all paths: those that give the label without repetitions and blanks."""
    found = []
    for b in range(x.shape[1]):
        logs = special.log_softmax(x[: steps[b], b], axis=-1)
        want, chance = list(labels[b, : lengths[b]]), []
        for path in itertools.product(range(x.shape[2]), repeat=int(steps[b])):
            if [k for k, _ in itertools.groupby(path) if k != blank] == want:
                chance.append(sum(logs[t, k] for t, k in enumerate(path)))
        found.append(-special.logsumexp(chance) if chance else 0.0)
    return np.array(found)


def _ctc(x, labels, steps, lengths, blank=0, reduction="mean", norm_by_times=False):
    loss = _ctc_each(x, labels, steps, lengths, blank)
    return (loss / lengths).mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _path(label, classes):
    """Nodes and turns of a heap whose leaves are numbered from `classes`, from the leaf up."""
    k, nodes, turns = int(label) + classes, [], []
    while k > 1:
        turns.append(k % 2)
        k //= 2
        nodes.append(k - 1)
    return nodes, turns


def _tree_path(label, classes, steps):
    found = [_path(k, classes) for k in label.ravel()]
    return [np.array([p[i] + [-1] * (steps - len(p[i])) for p in found]).reshape(-1, steps) for i in (0, 1)]


def _hsigmoid_of(x, weight, bias, table, code):
    out = np.zeros((x.shape[0], 1))
    for n, i in itertools.product(range(x.shape[0]), range(table.shape[1])):
        pre = x[n] @ weight[table[n, i]] + (0 if bias is None else bias.ravel()[table[n, i]]) if table[n, i] >= 0 else 0
        out[n] += np.logaddexp(0, pre) - (pre if code[n, i] > 0 else 0)
    return out


def _hsigmoid(x, label, classes, weight, bias=None, path_table=None, path_code=None):
    if path_table is None:
        path_table, path_code = _tree_path(label, classes, int(np.log2(2 * classes - 1)))
    return _hsigmoid_of(x, weight, bias, path_table, path_code)


def _angles(x, label, m1, m2, m3, scale):
    x = x.copy()
    rows = np.arange(len(x))
    x[rows, label] = np.cos(m1 * np.arccos(x[rows, label]) + m2) - m3
    return x * scale


def _margin_cross_entropy(
    x, label, margin1=1.0, margin2=0.5, margin3=0.0, scale=64.0, reduction="mean", return_softmax=False
):
    held = _angles(x, label.ravel(), margin1, margin2, margin3, scale)
    loss = -special.log_softmax(held, 1)[np.arange(len(x)), label.ravel()][:, None]
    loss = loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss
    return [loss, special.softmax(held, 1)] if return_softmax else loss


def _rnnt_each(x, label, steps, lengths, blank=0, fastemit_lambda=0.0):
    """By all orders of steps and labels."""
    logs, found = x, []  # taken as they are
    for b in range(x.shape[0]):
        chance = []
        for said in itertools.combinations(range(steps[b] + lengths[b] - 1), lengths[b]):
            t = u = 0
            total = 0.0
            for k in range(steps[b] + lengths[b] - 1):
                speaks = k in said
                total += logs[b, t, u, label[b, u] if speaks else blank]
                t, u = t + (not speaks), u + speaks
            chance.append(total + logs[b, t, u, blank])
        found.append(-special.logsumexp(chance))
    return np.array(found)


def _rnnt(x, label, steps, lengths, blank=0, fastemit_lambda=0.001, reduction="mean"):
    loss = _rnnt_each(x, label, steps, lengths, blank)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _clusters(label, cutoffs):
    found = [label.copy()]
    for i, (low, high) in enumerate(itertools.pairwise(cutoffs)):
        inside = (label >= low) & (label < high)
        found[0] = np.where(inside, cutoffs[0] + i, found[0])
        found.append(np.where(inside, label - low, -100))
    return found


def _adaptive(x, label, head_weight, tail_weights, cutoffs, head_bias=0):
    x, label = np.atleast_2d(x), np.atleast_1d(label)
    logs = special.log_softmax(x @ head_weight + head_bias, -1)
    out = np.zeros(len(x))
    for n, k in enumerate(label):
        i = next(i for i, c in enumerate(cutoffs) if k < c)
        tail = (
            0
            if i == 0
            else special.log_softmax(x[n] @ tail_weights[i - 1][0] @ tail_weights[i - 1][1])[k - cutoffs[i - 1]]
        )
        out[n] = logs[n, k if i == 0 else cutoffs[0] + i - 1] + tail
    return [out, -out.mean()]


_tails = [
    [floats(4, 2, low=-0.5, high=0.5), floats(2, 2, low=-0.5, high=0.5)],
    [floats(4, 1, low=-0.5, high=0.5), floats(1, 3, low=-0.5, high=0.5)],
]
_head = floats(4, 4, low=-0.5, high=0.5)
_labels = np.array([[1, 1], [2, 0]])
_sizes = np.array([3, 3]), np.array([2, 1])
_scores = floats(3, 2, 3)
_lattice = floats(2, 2, 3, 3)
_ways = np.array([2, 1]), np.array([2, 1])
_table, _code = np.array([[0, 2, -1], [0, 1, 3]]), np.array([[1, 0, -1], [0, 1, 1]])
_cosines = floats(3, 4, low=-0.9, high=0.9)
_classes = np.array([2, 0, 3])
ROWS = {"0-d": "it takes rows of scores"}

TABLE = [
    Row("ctc_of", [call(floats(3, 4, 3), np.array([[1, 1], [2, 0], [1, 1], [1, 2]]), np.array([3, 3, 2, 2]), np.array([2, 1, 2, 0]), 0, False)],
        _ctc_each,
        dtypes=FLOAT, slow=True, skip=SEQUENCES, loose=(3, "half precision"),
        bad=[Bad(call(_scores, _labels, np.array([4, 3]), _sizes[1], 0, False), "ctc(input_lengths): expected indices in [1, 3], got 4",
        IndexError)]),
    Row("ctc_loss", [call(_scores, np.array([[0, 1], [0, 0]], np.int32), *_sizes, 2)], _ctc,
        dtypes=FLOAT, slow=True, skip=SEQUENCES, loose=(3, "half precision"),
        bad=[Bad(call(_scores, _labels, *_sizes, reduction="all"), "ctc_loss(reduction): expected 'mean', 'sum' or 'none', got 'all'"),
             Bad(call(_scores, _labels, *_sizes, blank=3), "ctc_loss(blank): expected a class in [0, 2], got 3"),
             Bad(call(_scores[0], _labels, *_sizes), "ctc_loss(log_probs): expected shape [steps, batch, classes]"),
             Bad(call(_scores, _labels[0], *_sizes), "ctc_loss(labels): expected an integer tensor of shape [2, longest label]"),
             Bad(call(_scores, _labels, _sizes[0][:1], _sizes[1]), "ctc_loss(input_lengths): expected an integer tensor of shape [2]")]),
    Row("rnnt_of", [call(_lattice, np.array([[1, 0], [0, 0]], np.int32), *_ways, 2, 0.0)], _rnnt_each,
        dtypes=FLOAT, slow=True, skip=SEQUENCES, loose=(3, "half precision")),
    Row("rnnt_loss", [call(_lattice, _labels, *_ways, 0, 0.0)], _rnnt, dtypes=FLOAT, slow=True,
        skip=SEQUENCES, loose=(3, "half precision"),
        bad=[Bad(call(_lattice, _labels, *_ways, reduction="all"), "rnnt_loss(reduction): expected 'mean', 'sum' or 'none', got 'all'"),
             Bad(call(_lattice, _labels, *_ways, blank=3), "rnnt_loss(blank): expected a class in [0, 2], got 3"),
             Bad(call(_lattice[0], _labels, *_ways), "rnnt_loss(input): expected shape [batch, steps, labels + 1, classes]"),
             Bad(call(_lattice, _labels[:, :1], *_ways), "rnnt_loss(label): expected an integer tensor of shape [2, 2]")]),
    Row("tree_path", [call(np.array([0, 4, 2]), 5, 3), call(np.array([[1], [7]]), 8, 3), call(np.array(1), 2, 1), call(np.zeros(0, int), 3, 2)],
        _tree_path,
        dtypes=frozenset(), grad=0, bad=[Bad(call(np.array([5]), 5, 3), "hsigmoid_loss(label): expected indices in [0, 4], got 5", IndexError)]),
    Row("hsigmoid_of", [call(floats(2, 3), floats(4, 3), floats(4, 1), _table, _code), call(floats(2, 3), floats(4, 3), None, _table, _code),
        call(np.zeros((0, 3)), floats(4, 3), None, _table[:0], _code[:0])], _hsigmoid_of, dtypes=FLOAT, skip=ROWS, loose=(4, "half precision")),
    Row("hsigmoid_loss", [call(floats(3, 2), np.array([[0], [4], [2]]), 5, floats(4, 2)), call(floats(3, 2), np.array([1, 5, 2]), 6, floats(5, 2),
        floats(5, 1)),
        call(floats(2, 3), np.array([0, 1]), 5, floats(4, 3), path_table=_table, path_code=_code), call(np.zeros((0, 2)), np.zeros((0, 1), int), 5,
        floats(4, 2))],
        _hsigmoid, dtypes=FLOAT, skip=ROWS, loose=(4, "half precision"),
        bad=[Bad(call(floats(3, 2), np.array([0, 1, 2]), 1, floats(4, 2)), "hsigmoid_loss(num_classes): expected an integer greater than 1, got 1"),
             Bad(call(floats(3, 2), np.array([0, 1, 5]), 5, floats(4, 2)), "hsigmoid_loss(label): expected indices in [0, 4], got 5", IndexError),
             Bad(call(floats(3, 2), np.array([0, 1, 2]), 5, floats(4, 2) * 1j), "hsigmoid_loss(weight): expected real numbers", TypeError),
             Bad(call(floats(3, 2), np.array([0, 1]), 5, floats(4, 2)), "hsigmoid_loss(label): expected an integer tensor of shape [3, 1]"),
             Bad(call(floats(3, 2), np.array([0, 1, 2]), 5, floats(4, 3)),
        "hsigmoid_loss(input, weight): expected shapes [N, width] and [nodes, width]")]),
    Row("angle_margin_of", [call(_cosines, _classes, 1.0, 0.5, 0.25, 4.0), call(_cosines, _classes, 1.5, 0.0, 0.0, 1.0), call(np.zeros((0, 3)),
        np.zeros(0, int), 1.0, 0.5, 0.0, 2.0)],
        _angles, dtypes=FLOAT, skip=ROWS, loose=(4, "half precision")),
    Row("margin_cross_entropy", [call(_cosines, _classes, scale=4.0), call(_cosines, _classes[:, None], 1.0, 0.0, 0.35, 4.0, reduction="none"),
        call(_cosines, _classes, 0.9, 0.4, 0.1, 4.0, return_softmax=True, reduction="sum"), call(np.zeros((0, 3)), np.zeros(0, int),
        reduction="none")], _margin_cross_entropy,
        dtypes=FLOAT, skip=ROWS, loose=(6, "half precision, times the scale"),
        bad=[Bad(call(_cosines, _classes, reduction="all"), "margin_cross_entropy(reduction): expected 'mean', 'sum', 'none' or None, got 'all'",
        AssertionError),
             Bad(call(_cosines, _classes, group=1), "margin_cross_entropy(group): expected None, since there is one process, got 1"),
             Bad(call(_cosines[0], _classes), "margin_cross_entropy(logits): expected shape [N, classes]")]),
    Row("cluster_of", [call(np.array([0, 3, 7, 2]), (2, 4, 8)), call(np.array(1), (2, 4)), call(np.zeros(0, int), (2, 4))], _clusters,
        dtypes=frozenset(),
        grad=0, bad=[Bad(call(np.array([8]), (2, 4, 8)), "adaptive_log_softmax_with_loss(label): expected indices in [0, 7], got 8", IndexError)]),
    Row("adaptive_log_softmax_with_loss", [call(floats(3, 4), np.array([0, 3, 6]), _head, _tails, [2, 4, 7]),
        call(floats(3, 4), np.array([5, 1, 2]), _head, _tails, [2, 4, 7], floats(4))], _adaptive, dtypes=FLOAT,
        skip={"0-d": "it takes rows", "zero size": "the mean of no losses is no number"}, loose=(4, "half precision loses digits in products"),
        bad=[Bad(call(floats(3, 4), np.array([0]), _head, _tails, [2, 4, 7]), "adaptive_log_softmax_with_loss(label): expected shape [3]"),
             Bad(call(floats(3, 4), np.array([0, 1, 7]), _head, _tails, [2, 4, 7]), "adaptive_log_softmax_with_loss(label", IndexError),
             Bad(call(floats(3, 4), np.array([0, 1, 2]), _head, _tails[:1], [2, 4, 7]),
        "adaptive_log_softmax_with_loss(tail_weights): expected 2 pairs")]),
]  # fmt: skip
