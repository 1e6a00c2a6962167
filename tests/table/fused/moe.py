"""Rows of mixtures of experts, token by token."""

import numpy as np

from tests.table.fused.attention import PARTS, part
from tests.table.fused.fp8 import KEPT, _eighths
from tests.table.fused.matmul import divided
from tests.table.harness import Bad, Row, call, still
from tests.table.samples import floats

VALUES = "the shape of its result depends on values"


def _route(expert_id, capacity, experts, pad, first, last, from_back):
    """Tokens come one after the other; an expert that is full takes no more, or gives up its first."""
    tokens, k = expert_id.shape
    queue = {e: [(t, j) for t in range(tokens) for j in range(k) if expert_id[t, j] == e] for e in range(experts)}
    counts = [len(queue[e]) for e in range(experts)]
    skipped = sum(expert_id.ravel() < 0)
    scatter, kept = np.zeros((k, tokens), np.int32), np.zeros((tokens, k), bool)
    rows = (last - first) * capacity if pad else tokens * k
    source, at, done = np.full(rows, -1, np.int32), skipped, 0
    for e in range(experts):
        taken = queue[e][-capacity:] if from_back else queue[e][:capacity]
        for i, (t, j) in enumerate(queue[e]):
            if (t, j) in taken and first <= e < last:
                spot = (
                    (e - first) * capacity + taken.index((t, j)) if pad else done if last - first < experts else at + i
                )
                scatter[j, t], kept[t, j], source[spot] = spot, True, t
                done += 1
        at += counts[e]
    room = [min(c, capacity) for c in counts[first:last]]
    return [scatter, kept, source, np.cumsum(counts).astype(np.int64), np.array(room, np.int64)]


def _rows(x, index):
    return np.array([x[i] if i >= 0 else np.zeros(x.shape[1:]) for i in index]).reshape(len(index), x.shape[1])


def _chosen(gate, bias, k):
    return np.argsort(-(gate + (0 if bias is None else bias)), axis=1, kind="stable")[:, :k]


def _dispatch(x, gate_logits, corr_bias, k, capacity, use_pad):
    chosen = _chosen(gate_logits, corr_bias, k)
    experts = gate_logits.shape[1]
    scatter, kept, source, offset, _ = _route(chosen, capacity, experts, use_pad, 0, experts, False)
    weights = np.take_along_axis(gate_logits, chosen, 1) * kept
    return [_rows(x, source), weights.astype(gate_logits.dtype), scatter, offset, chosen.astype(np.int32)]


def _permute(x, gate_logits, corr_bias, k, capacity, world_size):
    rows, *rest = _dispatch(x, gate_logits, corr_bias, k, capacity, True)
    local = gate_logits.shape[1] // world_size
    out = np.zeros((local, world_size, capacity, x.shape[1]))
    for e in range(gate_logits.shape[1]):
        out[e % local, e // local] = rows[e * capacity : (e + 1) * capacity]
    return [out, *rest]


def _partial(x, combine_weights, expert_id, k, capacity, num_experts, use_pad, first, last, reverse_token_drop):
    scatter, kept, source, offset, room = _route(
        expert_id, capacity, num_experts, use_pad, first, last, reverse_token_drop
    )
    source = source if use_pad else source[: room.sum()]
    return [_rows(x, source), combine_weights * kept, scatter, source, offset, room]


def _aux(gate_prob, dispatch_mask, tokens_mask, dispatch_tokens_mask, num_experts, use_group, moe_k, clip_min):
    here = None if tokens_mask is None else tokens_mask.sum()
    tokens = (
        dispatch_tokens_mask.sum() if dispatch_tokens_mask is not None else len(gate_prob) if here is None else here
    )
    tokens = max(float(tokens), clip_min)
    share = (dispatch_mask.sum(0) if dispatch_mask.ndim == 2 else dispatch_mask) / tokens
    loss = num_experts * (gate_prob.sum(0) / tokens * share).sum() / (moe_k if use_group else 1)
    if dispatch_tokens_mask is not None and here is not None and len(gate_prob) != len(dispatch_tokens_mask):
        loss *= tokens / max(float(here), clip_min)
    return [loss, tokens, share]


def _expand(expert_id, each, group, offset, grouped):
    out = expert_id + (np.arange(expert_id.shape[1]) * group if grouped else 0)
    return out if each <= 0 else out // each * 2 * each + out % each + offset


X, GATE = part(5, 3), floats(5, 4, low=0, high=1)
IDS = np.array([[0, 2], [2, 1], [2, 3], [0, 1], [2, -1]], np.int32)
NONE = np.zeros((0, 3))

TABLE, EXTRA = divided(
    [
        Row(
            "route",
            [
                call(IDS, 2, 4, True, 0, 4, False),
                call(IDS, 2, 4, False, 1, 3, True),
                call(IDS, 2, 4, False, 0, 4, False),
                call(IDS, 1, 4, True, 2, 4, True),
                call(IDS[:0], 2, 4, True, 0, 4, False),
            ],
            _route,
            **KEPT,
        ),
        Row(
            "rows_or_zero",
            [call(X, np.array([1, -1, 4, 1], np.int32)), call(NONE, np.array([-1, -1], np.int32))],
            _rows,
            skip={"0-d": PARTS},
        ),
        Row(
            "weighed_rows",
            [
                call(X, part(2, 2), np.array([[0, 4], [1, 1]], np.int32)),
                call(X, np.zeros((0, 2)), np.zeros((0, 2), np.int32)),
            ],
            lambda x, w, i: np.einsum("sk,skd->sd", w, x[i]),
            skip={"0-d": PARTS},
            slow=True,
        ),
        Row(
            "moe_combine",
            [
                call(X, part(3, 2), np.array([[0, 4, 1], [1, 1, 2]], np.int32)),
                call(X, part(3, 2), np.array([[0, 4], [1, 1], [3, 0]], np.int32)),
                call(X, np.zeros((0, 2)), np.zeros((0, 2), np.int32)),
            ],
            lambda x, w, i: np.einsum("sk,skd->sd", w, x[i if i.shape == w.shape else i.T]),
            skip={"0-d": PARTS},
            slow=True,
            bad=[
                Bad(
                    call(X, part(3, 2), np.array([[0, 4]], np.int32)),
                    "moe_combine(scatter_index): expected an integer tensor of shape [3, 2], or transposed",
                ),
                Bad(call(X, part(3, 2), np.full((3, 2), 9, np.int32)), "moe_combine(", IndexError),
            ],
        ),
        *[
            Row(
                name,
                [
                    call(still(X), still(GATE), None, 2, 2, a),
                    call(still(X), still(GATE), still(np.array([0.0, 9.0, 0.0, -9.0])), 1, 3, b),
                    call(still(NONE), still(np.zeros((0, 4))), None, 2, 2, a),
                ],
                ref,
                **KEPT,
                bad=[
                    Bad(
                        call(X, GATE, None, 5, 2, a),
                        f"{name}(k): expected an integer in [1, 4], the number of experts, got 5",
                    ),
                    Bad(call(X, GATE[:2], None, 1, 2, a), f"{name}(gate_logits): expected shape [tokens, experts]"),
                    Bad(call(X, GATE, None, 1, 0, a), f"{name}(capacity): expected a positive integer"),
                ],
            )
            for name, ref, a, b in (
                ("moe_gate_dispatch", _dispatch, True, False),
                ("moe_gate_dispatch_permute", _permute, 2, 4),
            )
        ],
        Row(
            "moe_gate_dispatch_and_quant",
            [call(still(part(3, 130)), still(GATE[:3]), None, 1, 2, True, True)],
            lambda x, g, b, k, c, pad, pow2: [
                *_eighths(_dispatch(x, g, b, k, c, pad)[0], 0, 1, pow2),
                *_dispatch(x, g, b, k, c, pad)[1:],
            ],
            **{**KEPT, "skip": {**KEPT["skip"], "zero size": PARTS}},
        ),
        Row(
            "moe_gate_dispatch_partial_nosoftmaxtopk",
            [
                call(still(X), still(part(5, 2)), IDS, 2, 2, 4, False, 1, 3, False),
                call(still(X), still(part(5, 2)), IDS, 2, 1, 4, True, 2, 4, True),
                call(still(NONE), still(np.zeros((0, 2))), IDS[:0], 2, 2, 4, True, 0, 4, False),
            ],
            _partial,
            **{**KEPT, "skip": {**KEPT["skip"], "static": VALUES}},
            bad=[
                Bad(
                    call(X, part(5, 2), IDS, 2, 2, 4, True, 3, 2, False),
                    "moe_gate_dispatch_partial_nosoftmaxtopk(expert_end_index): expected a range of the 4 experts, and a positive capacity",
                ),
                Bad(
                    call(X, part(5, 2), IDS, 1, 2, 4, True, 0, 2, False),
                    "moe_gate_dispatch_partial_nosoftmaxtopk(expert_id): expected an integer tensor of shape [5, 1]",
                ),
            ],
        ),
        Row(
            "cal_aux_loss",
            [
                call(GATE, np.array([2, 3, 0, 5]), None, None, 4, False, 2, 1e-6),
                call(GATE, np.array([[2, 1, 0, 1], [0, 2, 3, 1]]), np.array([1, 1, 0, 1, 1]), None, 4, True, 2, 1e-6),
                call(
                    GATE,
                    np.array([2, 3, 0, 5]),
                    np.array([True, True, False, True, True]),
                    np.ones(7, bool),
                    4,
                    False,
                    2,
                    1e-6,
                ),
            ],
            _aux,
            skip={
                "0-d": PARTS,
                "zero size": "a mean over no tokens is not a number",
                "gradient": "only the loss has a gradient",
                "second order": "only the loss has a gradient",
                "gradient dtypes": "only the loss has a gradient",
                "static": "only the loss has a gradient",
                "compiled": "only the loss has a gradient",
            },
            bad=[
                Bad(
                    call(GATE, np.array([2, 3]), None, None, 4, False, 2, 1e-6),
                    "cal_aux_loss(dispatch_mask): expected an element for each expert of gate_prob of shape [5, 4]",
                )
            ],
        ),
        Row(
            "build_src_rank_and_local_expert_id",
            [call(np.array([1, 2, 0, 1]), [1, 2, 0, 1], 2), call(np.zeros(0, np.int64), [], 2)],
            lambda t, counts, n: [
                np.array([i // n for i, c in enumerate(counts) for _ in range(c)], np.int32),
                np.array([i % n for i, c in enumerate(counts) for _ in range(c)], np.int32),
            ],
            **KEPT,
            bad=[
                Bad(
                    call(np.array([1, 2]), [1], 2),
                    "build_src_rank_and_local_expert_id(expert_num_global): expected 2 elements, the tokens per expert",
                )
            ],
        ),
        Row(
            "expand_modality_expert_id",
            [
                call(np.array([[0, 1], [2, 3]]), 2, 2, 2, False),
                call(np.array([[0, 1], [2, 3]], np.int32), 2, 4, 0, True),
                call(np.array([[0, 1]]), 0, 4, 1, True),
                call(np.zeros((0, 2), np.int64), 2, 2, 0, True),
            ],
            _expand,
            **{**KEPT, "out": "same"},
            bad=[
                Bad(
                    call(floats(2, 2), 2, 2, 2, False),
                    "expand_modality_expert_id(expert_id): expected an integer tensor",
                )
            ],
        ),
        Row(
            "int_bincount",
            [
                call(np.array([1, 2, 2, 9, -1]), 1, 4),
                call(np.array([[1, 2], [2, 0]], np.int32), 0, 3, dtype="int64"),
                call(np.array(2), 0, 3),
                call(np.zeros(0, np.int64), 0, 2),
            ],
            lambda x, low, high, dtype=None: np.array([(x == i).sum() for i in range(low, high)]),
            dtypes=frozenset(),
            grad=0,
            bad=[
                Bad(call(np.array([1]), 3, 3), "int_bincount(high): expected a number greater than low = 3, got 3"),
                Bad(call(floats(2), 0, 3), "int_bincount(x): expected an integer tensor", TypeError),
            ],
        ),
    ],
    keep=2,
)
