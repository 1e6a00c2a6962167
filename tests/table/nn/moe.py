"""Rows of sparse attention, of what sorts tokens by expert, and of sampled classes."""

import numpy as np

from tests.table.harness import FLOAT, INT, Bad, Row, call
from tests.table.samples import floats

NONE: frozenset = frozenset()


def _listed(q, k, v, offset, columns, key_padding_mask=None, attn_mask=None):
    out = np.zeros_like(q)
    for b, h, i in np.ndindex(*q.shape[:3]):
        seen = [
            c
            for c in columns[b, h, offset[b, h, i] : offset[b, h, i + 1]]
            if key_padding_mask is None or key_padding_mask[b, c]
        ]
        seen = [c for c in seen if attn_mask is None or attn_mask[i, c]]
        if seen:
            e = np.exp(k[b, h, seen] @ q[b, h, i] / np.sqrt(q.shape[-1]))
            out[b, h, i] = e / e.sum() @ v[b, h, seen]
    return out


_qkv = floats(1, 2, 3, 4), floats(1, 2, 3, 4, seed=1), floats(1, 2, 3, 4, seed=2)
_offset = np.array([[[0, 2, 3, 5], [0, 1, 1, 4]]], np.int32)
_columns = np.array([[[0, 2, 1, 0, 1], [2, 0, 1, 2, 0]]], np.int32)
_empty = np.zeros((0, 2, 3, 4))


def _permute(x, scale, routes, probs, experts, counts, align, do_gather=True):
    places = [-(-n // align) * align for n in counts]
    rows, weights = np.zeros((sum(places), x.shape[1])), np.zeros(sum(places))
    scales = np.zeros(0) if scale is None else np.zeros((sum(places), scale.shape[1]))
    at = np.full((len(x), experts), -1)
    for e in range(experts):
        for n, t in enumerate([t for t in range(len(x)) if e in routes[t]]):
            r = sum(places[:e]) + n
            at[t, e], rows[r], weights[r] = r, x[t] if do_gather else 0, probs[t][list(routes[t]).index(e)]
            if scale is not None:
                scales[r] = scale[t]
    return rows, at.astype(np.int32), weights, scales.astype(scale.dtype if scale is not None else np.float32)


def _unpermute(rows, at, routes, probs, total, experts, use_mix_precision=True):
    out, weights = np.zeros((total, rows.shape[1])), np.zeros(routes.shape)
    for t in range(total):
        out[t] = sum((rows[r] for r in at[t] if r >= 0), start=np.zeros(rows.shape[1]))
        weights[t] = [probs[at[t, e]] if e >= 0 and at[t, e] >= 0 else 0 for e in routes[t]]
    return out, weights


_routes, _counts = np.array([[1, 0], [0, -1], [2, 1]], np.int32), [2, 2, 1]
_at = np.array([[0, 2, -1], [1, -1, -1], [-1, 3, 4]], np.int32)
_tokens = floats(3, 2), None, _routes, floats(3, 2, low=0, seed=1)
_none = np.zeros((0, 2)), None, np.zeros((0, 2), np.int32), np.zeros((0, 2))
_kinds = {"0-d": "it takes two axes"}


_counted = "how many classes there are depends on the labels"


def _is_sample(made, label, num_classes, num_samples=1):
    places, order = made[:2]
    own = np.unique(label)
    several = len(set(order.tolist())) == len(order) and set(order.tolist()) <= set(range(num_classes))
    return bool((order[: len(own)] == own).all() and (order[places] == label).all() and several)


TABLE = [
    Row("sparse_attention", [call(*_qkv, _offset, _columns, np.array([[1, 0, 1]]), np.array([[1, 0, 1], [1, 1, 1],
        [0, 1, 1]])), call(_empty, _empty, _empty, np.zeros((0, 2, 4), int), np.zeros((0, 2, 5), int))],
        _listed, dtypes=FLOAT, slow=True, loose=(3, "half precision loses digits in sums of products"), skip={"0-d": "it takes four axes"},
        bad=[Bad(call(*_qkv, _offset[..., :3], _columns),
        "sparse_attention(sparse_csr_offset): expected an integer tensor of shape [1, 2, 4], got int32, shape [1, 2, 3]")]),
    Row("moe_permute_of", [call(*_tokens, [2, 2, 2], True), call(*_none, [1, 1], True)],
        lambda x, s, r, p, places, gather: _permute(x, s, r, p, len(places), places, 1, gather), dtypes=NONE, unchecked=FLOAT | INT, out="ref",
        skip=_kinds),
    Row("moe_permute", [call(*_tokens, 3, _counts, 1), call(*_tokens, 3, _counts, 4), call(*_none, 2, [0, 1], 2)], _permute, dtypes=NONE, out="ref",
        skip=_kinds, bad=[Bad(call(*_tokens, 3, [1, 2], 1), "moe_permute(tokens_per_expert): expected 3 elements, the tokens per expert, got [1, 2]")]),
    Row("moe_unpermute_of", [call(floats(6, 2), _at, _routes, floats(6, seed=1), True), call(*[np.zeros((0, 2)), np.zeros((0, 3), int), np.zeros((0,
        2),
        int), np.zeros(0)], True)], lambda x, at, r, p, wide: _unpermute(x, at, r, p, len(at), 3), skip={"0-d": "it takes two axes"},
        loose=(3, "sums in half precision")),
    Row("moe_unpermute", [call(floats(6, 2), _at, _routes, floats(6, seed=1), 3, 3), call(floats(6, 2), _at, _routes, floats(6, seed=1), 3, 3, False),
        call(np.zeros((0, 2)), np.zeros((0, 3), int), np.zeros((0, 2), int), np.zeros(0), 0, 3)], _unpermute, skip={"0-d": "it takes two axes"},
        loose=(3, "sums in half precision"), bad=[Bad(call(floats(6, 2), _at, _routes, floats(6), 4, 3),
        "moe_unpermute(total_zipped_tokens): expected 3, the rows of expert_routemap_topk, got 4")]),
    Row("class_centers", [call(np.array([3, 1, 3]), 6), call(np.array([0, 1]), 2), call(np.zeros(0, int), 3)], law=_is_sample, dtypes=NONE, grad=0,
        unchecked=INT, skip={"0-d": "labels are a row"},
        bad=[Bad(call(np.array([6]), 6), "class_center_sample(label): expected indices in [0, 5], got 6", IndexError)]),
    Row("class_center_sample", [call(np.array([3, 1, 3]), 6, 4), call(np.array([0, 1]), 6, 1), call(np.array([2], np.int32), 3, 3)], law=_is_sample,
        dtypes=NONE, grad=0, skip={"0-d": "labels are a row", "zero size": "there is a label at least", "static": _counted},
        bad=[Bad(call(np.array([1]), 3, 4), "class_center_sample(num_samples): expected an integer in [1, 3], got 4"),
        Bad(call(np.array([1]), 3, 1, 5), "class_center_sample(group): expected None, False or a group, got 5")]),
]  # fmt: skip
