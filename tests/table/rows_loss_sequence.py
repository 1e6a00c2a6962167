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


def _margin_cross_entropy(x, label, margin1=1.0, margin2=0.5, margin3=0.0, scale=64.0, reduction="mean", return_softmax=False):
    held = _angles(x, label.ravel(), margin1, margin2, margin3, scale)
    loss = -special.log_softmax(held, 1)[np.arange(len(x)), label.ravel()][:, None]
    loss = loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss
    return [loss, special.softmax(held, 1)] if return_softmax else loss


_labels = np.array([[1, 1], [2, 0]])
_sizes = np.array([4, 3]), np.array([2, 1])
_scores = floats(4, 2, 3)
_table, _code = np.array([[0, 2, -1], [0, 1, 3]]), np.array([[1, 0, -1], [0, 1, 1]])
_cosines = floats(3, 4, low=-0.9, high=0.9)
_classes = np.array([2, 0, 3])
ROWS = {"0-d": "it takes rows of scores"}

TABLE = [
    Row("ctc_of", [call(_scores, _labels, *_sizes, 0, False), call(_scores, np.array([[0, 1], [0, 0]], np.int32), *_sizes, 2, False),
        call(_scores, _labels, np.array([2, 3]), np.array([2, 0]), 0, False)], _ctc_each, dtypes=FLOAT, skip=SEQUENCES, loose=(3, "half precision"),
        bad=[Bad(call(_scores, _labels, np.array([5, 3]), _sizes[1], 0, False), "ctc(input_lengths): expected indices in [1, 4], got 5",
        IndexError)]),
    Row("ctc_loss", [call(_scores, _labels, *_sizes), call(_scores, _labels, *_sizes, reduction="none"), call(_scores, _labels, *_sizes, 0, "sum")],
        _ctc,
        dtypes=FLOAT, skip=SEQUENCES, loose=(3, "half precision"),
        bad=[Bad(call(_scores, _labels, *_sizes, reduction="all"), "ctc_loss(reduction): expected 'mean', 'sum' or 'none', got all"),
             Bad(call(_scores, _labels, *_sizes, blank=3), "ctc_loss(blank): expected a class in [0, 2], got 3"),
             Bad(call(_scores[0], _labels, *_sizes), "ctc_loss(log_probs): expected shape [steps, batch, classes]"),
             Bad(call(_scores, _labels[0], *_sizes), "ctc_loss(labels): expected integers of shape [2, longest label]"),
             Bad(call(_scores, _labels, _sizes[0][:1], _sizes[1]), "ctc_loss(input_lengths): expected integers of shape [2]")]),
    Row("tree_path", [call(np.array([0, 4, 2]), 5, 3), call(np.array([[1], [7]]), 8, 3), call(np.array(1), 2, 1), call(np.zeros(0, int), 3, 2)],
        _tree_path,
        dtypes=frozenset(), grad=0, bad=[Bad(call(np.array([5]), 5, 3), "tree_path(label): expected indices in [0, 4], got 5", IndexError)]),
    Row("hsigmoid_of", [call(floats(2, 3), floats(4, 3), floats(4, 1), _table, _code), call(floats(2, 3), floats(4, 3), None, _table, _code),
        call(np.zeros((0, 3)), floats(4, 3), None, _table[:0], _code[:0])], _hsigmoid_of, dtypes=FLOAT, skip=ROWS, loose=(4, "half precision")),
    Row("hsigmoid_loss", [call(floats(3, 2), np.array([[0], [4], [2]]), 5, floats(4, 2)), call(floats(3, 2), np.array([1, 5, 2]), 6, floats(5, 2),
        floats(5, 1)),
        call(floats(2, 3), np.array([0, 1]), 5, floats(4, 3), path_table=_table, path_code=_code), call(np.zeros((0, 2)), np.zeros((0, 1), int), 5,
        floats(4, 2))],
        _hsigmoid, dtypes=FLOAT, skip=ROWS, loose=(4, "half precision"),
        bad=[Bad(call(floats(3, 2), np.array([0, 1, 2]), 1, floats(4, 2)), "hsigmoid_loss(num_classes): expected 2 or more, got 1"),
             Bad(call(floats(3, 2), np.array([0, 1, 5]), 5, floats(4, 2)), "hsigmoid_loss(label): expected indices in [0, 4], got 5", IndexError),
             Bad(call(floats(3, 2), np.array([0, 1]), 5, floats(4, 2)), "hsigmoid_loss(label): expected integers of shape [3, 1]"),
             Bad(call(floats(3, 2), np.array([0, 1, 2]), 5, floats(4, 3)),
        "hsigmoid_loss(input, weight): expected shapes [N, width] and [nodes, width]")]),
    Row("angle_margin_of", [call(_cosines, _classes, 1.0, 0.5, 0.25, 4.0), call(_cosines, _classes, 1.5, 0.0, 0.0, 1.0), call(np.zeros((0, 3)),
        np.zeros(0, int), 1.0, 0.5, 0.0, 2.0)],
        _angles, dtypes=FLOAT, skip=ROWS, loose=(4, "half precision")),
    Row("margin_cross_entropy", [call(_cosines, _classes, scale=4.0), call(_cosines, _classes[:, None], 1.0, 0.0, 0.35, 4.0, reduction="none"),
        call(_cosines, _classes, 0.9, 0.4, 0.1, 4.0, return_softmax=True, reduction="sum"), call(np.zeros((0, 3)), np.zeros(0, int),
        reduction="none")], _margin_cross_entropy,
        dtypes=FLOAT, skip=ROWS, loose=(6, "half precision, times the scale"),
        bad=[Bad(call(_cosines, _classes, reduction="all"), "margin_cross_entropy(reduction): expected 'mean', 'sum', 'none' or None, got all",
        AssertionError),
             Bad(call(_cosines, _classes, group=1), "margin_cross_entropy(group): expected None: one process, got 1"),
             Bad(call(_cosines[0], _classes), "margin_cross_entropy(logits): expected shape [N, classes]")]),
]  # fmt: skip
