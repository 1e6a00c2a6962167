"""Rows of attention."""

from __future__ import annotations

from typing import Any

from bireme.core.program.variable import Dim
from bireme.files.paddle_models.writing.rows.creation import filled
from bireme.files.paddle_models.writing.rows.products import product
from bireme.files.paddle_models.writing.values import Unwritable, Value
from bireme.files.paddle_models.writing.writer import Writer, row


@row("scaled_dot_product_attention")
def _attention(
    w: Writer, query: Value, key: Value, value: Value, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, training: bool = True, backend: Any = None,
) -> Value:  # fmt: skip
    if dropout_p and training:
        raise Unwritable("with dropout in training")
    weights = attended(w, query, key, attn_mask, is_causal)
    v = _shared(w, w.transpose(value, [0, 2, 1, 3]), _groups(query, value), weights.shape[1])
    return w.transpose(product(w, weights, v), [0, 2, 1, 3])


@row("flash_attention")
def _flash_attention(
    w: Writer, query: Value, key: Value, value: Value, dropout: float = 0.0, causal: bool = False,
    return_softmax: bool = False, training: bool = True, softmax_scale: Any = None, **options: Any,
) -> Any:  # fmt: skip
    if return_softmax or softmax_scale is not None:
        raise Unwritable("with options")
    return _attention(w, query, key, value, None, dropout, causal, training), None


@row("attention")
def _plain_attention(w: Writer, query: Value, key: Value, value: Value, mask: Any, causal: bool) -> Value:
    return _attention(w, query, key, value, mask, 0.0, causal)


@row("attention_weights")
def _attention_weights(
    w: Writer, query: Value, key: Value, mask: Any, causal: bool, shift: int = 0, scale: Any = None
) -> Value:
    if causal and shift:
        raise Unwritable("with a shift")
    return attended(w, query, key, mask, causal, scale)


def attended(w: Writer, query: Value, key: Value, mask: Any, causal: bool, scale: Any = None) -> Value:
    """How much each query attends to each key, [batch, heads, queries, keys]."""
    if query.ndim != 4:
        raise Unwritable("of other than 4 dimensions")
    q, k = [w.transpose(x, [0, 2, 1, 3]) for x in (query, key)]
    k = _shared(w, k, _groups(query, key), q.shape[1])
    factor = w.full([1], query.shape[-1] ** -0.5 if scale is None else scale, "float32")
    q = w.op("scale", [q, factor], [q.type], bias=0.0, bias_after_scale=True)
    scores = product(w, q, k, turn_y=True)
    allowed = None
    if mask is not None and mask.dtype == "bool":
        allowed = w.cast(mask, q.dtype)
        hidden = w.op("scale", [allowed, w.full([1], 1.0, "float32")], [allowed.type], bias=-1.0, bias_after_scale=True)
        mask = w.binary("multiply", hidden, LOW[q.dtype == "float16"])
    if mask is not None:
        scores = w.op("add", [scores, w.cast(mask, q.dtype)], [scores.type])
    if causal:
        scores = w.op("add", [scores, _causal(w, scores)], [scores.type])
    weights = w.op("softmax", [scores], [scores.type], axis=3)
    # a query that may attend to nothing gives zeros
    return weights if allowed is None else w.op("multiply", [weights, allowed], [weights.type])


LOW = (1e30, 6e4)  # what hidden scores are less by, also in half precision


def _shared(w: Writer, x: Value, groups: int, heads: int) -> Value:
    """Keys or values of which several heads share each."""
    if groups == 1:
        return x
    out = (x.dtype, [x.shape[0], heads, *x.shape[2:]])
    return w.op("repeat_interleave", [x], [out], repeats=groups, axis=1)


def _groups(query: Value, key: Value) -> int:
    heads, own = query.shape[2], key.shape[2]
    if isinstance(heads, Dim) or isinstance(own, Dim):
        raise Unwritable("with a number of heads that is unknown")
    return heads // own


def _causal(w: Writer, scores: Value) -> Value:
    """What is added to scores so that a query sees keys up to its own place."""
    shape = scores.shape[2:]
    before, w.types = w.types, [(scores.dtype, shape)]
    low = filled(w, shape, -LOW[scores.dtype == "float16"])
    w.types = before
    return w.op("triu", [low], [low.type], diagonal=1)
