"""Tokens of a mixture of experts, sorted by expert and back; and a sample of the classes that a batch needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import BOOL, FLOAT, INT
from bireme.core.declare.op import Attr, Extra, Ints, Key, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.random.generators import bits

# ---------------------------------------------------------------- experts


@op(internal="moe_permute", dtypes=FLOAT | INT | BOOL)
def moe_permute_of(
    hidden: Tensor, scale: Tensor | None, routes: Tensor, probs: Tensor, places: Ints, gather: bool
) -> tuple[Tensor, ...]:
    """Rows for each expert one after another, padded with zeros; use `moe_permute`."""
    tokens, total = hidden.shape[0], sum(places)
    starts = np.cumsum((0, *places[:-1]))
    chosen = routes[:, :, None] == jnp.arange(len(places), dtype=routes.dtype)  # [tokens, k, experts]
    mine = jnp.any(chosen, axis=1)
    nth = jnp.cumsum(mine, axis=0, dtype=jnp.int32) - 1
    rowmap = jnp.where(mine & (nth < np.asarray(places)), nth + starts.astype(np.int32), -1).astype(jnp.int32)
    # row by row the token it comes from, one past the last for padding
    source = (
        jnp.full((total + 1,), tokens, jnp.int32)
        .at[jnp.where(rowmap < 0, total, rowmap)]
        .set(jnp.arange(tokens, dtype=jnp.int32)[:, None])[:total]
    )
    expert = np.repeat(np.arange(len(places)), places)
    weight = jnp.sum(jnp.where(chosen, probs[:, :, None], 0), axis=1)

    def rows(x):
        return jnp.concatenate([x, jnp.zeros((1, *x.shape[1:]), x.dtype)])[source]

    filled = rows(hidden) if gather else jnp.zeros((total, hidden.shape[1]), hidden.dtype)
    scales = jnp.zeros((0,), jnp.float32) if scale is None else rows(scale)
    at = jnp.concatenate([weight, jnp.zeros((1, len(places)), weight.dtype)])[source, expert]
    return filled, rowmap, at, scales


def _check_routes(where: str, routes: Tensor, experts: int) -> None:
    if routes.ndim != 2 or routes.dtype.kind != "i":
        raise errors.bad(
            f"{where}(expert_routemap_topk)",
            "an integer tensor of shape [tokens, experts per token]",
            routes,
            kind=errors.for_integer(routes),
        )
    if not isinstance(experts, int) or experts < 1:
        raise errors.bad(f"{where}(num_experts)", "a positive integer", experts, kind=errors.for_integer(experts))


@composite()
def moe_permute(hidden_states: Tensor, scale: Tensor | None, expert_routemap_topk: Tensor, expert_prob_topk: Tensor,
                num_experts: int, tokens_per_expert: Attr[Sequence[int]], padding_alignment: int,
                do_gather: bool = True, name: Extra[str] = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Sort the tokens of a mixture of experts by expert.

    Rows of the same expert follow each other, in the order of the tokens, padded with zeros to a multiple of
    ``padding_alignment``.

    Args:
        hidden_states: Tokens of shape ``[tokens, width]``.
        scale: Scales of quantized tokens, which are sorted in the same way: one row for each token, or ``None``.
        expert_routemap_topk: Experts of each token, integers of shape ``[tokens, k]``; -1 means none.
        expert_prob_topk: Weight of each of these experts, of the same shape.
        num_experts: Number of experts.
        tokens_per_expert: List with the number of tokens of each expert.
        padding_alignment: Number that the rows of each expert are padded to a multiple of.
        do_gather: Whether to fill the rows in; ``False`` leaves zeros and computes the rest. Default: True.
        name: Not used; kept for Paddle's signature.

    Returns:
        Tuple of four tensors: the sorted rows, of shape ``[rows, width]``; the row of each token for each expert or -1,
        int32 of shape ``[tokens, num_experts]``; the weight of each row; the scale of each row, without elements if
        ``scale`` is ``None``.

    Examples:
        >>> x, experts = bireme.to_tensor([[1.0], [2.0]]), bireme.to_tensor([[1], [0]], dtype="int32")
        >>> rows, at, weights, _ = bireme.nn.functional.moe_permute(x, None, experts, bireme.ones([2, 1]), 2, [1, 1], 1)
        >>> rows.tolist(), at.tolist()
        ([[2.0], [1.0]], [[-1, 1], [0, -1]])
    """
    where = "moe_permute"
    _check_routes(where, expert_routemap_topk, num_experts)
    if hidden_states.ndim != 2 or hidden_states.shape[0] != expert_routemap_topk.shape[0]:
        raise errors.bad(
            f"{where}(hidden_states)",
            f"shape [{expert_routemap_topk.shape[0]}, width]",
            described=f"shape {hidden_states.shape}",
            kind=errors.ShapeError,
        )
    if expert_prob_topk.shape != expert_routemap_topk.shape:
        raise errors.bad(
            f"{where}(expert_prob_topk)",
            f"shape {expert_routemap_topk.shape}",
            described=f"shape {expert_prob_topk.shape}",
            kind=errors.ShapeError,
        )
    counts = list(tokens_per_expert)
    if len(counts) != num_experts or any(int(n) < 0 for n in counts):
        raise errors.bad(f"{where}(tokens_per_expert)", f"{num_experts} elements, the tokens per expert", counts)
    if padding_alignment < 1:
        raise errors.bad(
            f"{where}(padding_alignment)",
            "a positive integer",
            padding_alignment,
            kind=errors.for_integer(padding_alignment),
        )
    places = [-(-int(n) // padding_alignment) * padding_alignment for n in counts]
    return moe_permute_of(hidden_states, scale, expert_routemap_topk, expert_prob_topk, places, do_gather)


@op(internal="moe_unpermute", dtypes=FLOAT, upcast="grad")
def moe_unpermute_of(rows: Tensor, rowmap: Tensor, routes: Tensor, probs: Tensor, wide: bool) -> tuple[Tensor, Tensor]:
    """Sums of each token's rows, and its weights; use `moe_unpermute`."""
    kind = jnp.promote_types(rows.dtype, jnp.float32) if wide else rows.dtype
    none = rows.shape[0]
    own = jnp.concatenate([rows, jnp.zeros((1, rows.shape[1]), rows.dtype)])[jnp.where(rowmap < 0, none, rowmap)]
    at = jnp.where(
        routes < 0, -1, jnp.take_along_axis(rowmap, jnp.maximum(routes, 0).astype(jnp.int32), axis=1, mode="clip")
    )
    weights = jnp.concatenate([probs.reshape(-1), jnp.zeros((1,), probs.dtype)])[jnp.where(at < 0, none, at)]
    return jnp.sum(own.astype(kind), axis=1).astype(rows.dtype), weights


@moe_unpermute_of.infer
def _(rows, rowmap, routes, probs):
    return sig_of((rowmap.shape[0], rows.shape[1]), rows.dtype), sig_of(routes.shape, probs.dtype)


@composite()
def moe_unpermute(hidden_states_unzipped: Tensor, zipped_expertwise_rowmap: Tensor, expert_routemap_topk: Tensor,
                  token_prob_unzipped: Tensor, total_zipped_tokens: int, num_experts: int,
                  use_mix_precision: bool = True, name: Extra[str] = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Bring tokens that ``moe_permute`` sorted by expert back into their order, the rows of each token summed.

    Args:
        hidden_states_unzipped: Rows of shape ``[rows, width]``, of a floating-point dtype.
        zipped_expertwise_rowmap: Row of each token for each expert or -1, as ``moe_permute`` returns it, of shape
            ``[tokens, num_experts]``.
        expert_routemap_topk: Experts of each token, integers of shape ``[tokens, k]``; -1 means none.
        token_prob_unzipped: Weight of each row.
        total_zipped_tokens: Number of tokens.
        num_experts: Number of experts.
        use_mix_precision: Whether to sum half precision in float32. Default: True.
        name: Not used; kept for Paddle's signature.

    Returns:
        Pair of the tokens, of shape ``[tokens, width]``, and their weights, of shape ``[tokens, k]``; rows are summed
        as they are, not weighted.

    Examples:
        >>> x, experts = bireme.to_tensor([[1.0], [2.0]]), bireme.to_tensor([[1], [0]], dtype="int32")
        >>> rows, at, weights, _ = bireme.nn.functional.moe_permute(x, None, experts, bireme.ones([2, 1]), 2, [1, 1], 1)
        >>> bireme.nn.functional.moe_unpermute(rows, at, experts, weights, 2, 2)[0].tolist()
        [[1.0], [2.0]]
    """
    where = "moe_unpermute"
    _check_routes(where, expert_routemap_topk, num_experts)
    tokens = expert_routemap_topk.shape[0]
    if zipped_expertwise_rowmap.shape != [tokens, num_experts]:
        raise errors.bad(
            f"{where}(zipped_expertwise_rowmap)",
            f"shape {[tokens, num_experts]}",
            described=f"shape {zipped_expertwise_rowmap.shape}",
            kind=errors.ShapeError,
        )
    if int(total_zipped_tokens) != tokens:
        raise errors.bad(
            f"{where}(total_zipped_tokens)", f"{tokens}, the rows of expert_routemap_topk", total_zipped_tokens
        )
    if hidden_states_unzipped.ndim != 2 or token_prob_unzipped._value.sig.size != hidden_states_unzipped.shape[0]:
        got = f"shapes {hidden_states_unzipped.shape} and {token_prob_unzipped.shape}"
        raise errors.bad(
            f"{where}(hidden_states_unzipped, token_prob_unzipped)",
            "shape [rows, width] and one element per row",
            described=got,
        )
    return moe_unpermute_of(
        hidden_states_unzipped, zipped_expertwise_rowmap, expert_routemap_topk, token_prob_unzipped, use_mix_precision
    )


# ---------------------------------------------------------------- classes


@op(internal=True, differentiable=False, dtypes=INT)
def class_centers(label: Tensor, num_classes: int, key: Key = None) -> tuple[Tensor, ...]:
    """Labels as indices of the batch's classes, all classes with those first, and their number."""
    present = jnp.zeros((num_classes,), bool).at[label].set(True)
    # the classes of the batch by number, then the others in random order
    index = jnp.arange(num_classes, dtype=jnp.uint64)
    noise = ((bits(key, (num_classes,)).astype(jnp.uint64) >> np.uint64(1)) | np.uint64(1 << 31)) << np.uint64(31)
    order = jnp.argsort(jnp.where(present, index, noise | index))
    place = jnp.cumsum(present.astype(label.dtype)) - 1
    return place[label].astype(label.dtype), order.astype(label.dtype), jnp.count_nonzero(present).astype(label.dtype)


class_centers.index(lambda named: [("label", 0, named["num_classes"])], "class_center_sample")
class_centers.infer(lambda label, num_classes: (label, sig_of((num_classes,), label.dtype), sig_of((), label.dtype)))


@composite(name_arg=False,
           c_ops={"class_center_sample": "label num_classes num_samples ring_id:=0 rank:=0 nranks:=1 fix_seed:=False "
                                         "seed:=0"})  # fmt: skip
def class_center_sample(label: Tensor, num_classes: int, num_samples: int, group: Any = None) -> tuple[Tensor, Tensor]:
    """Sample classes for a partial softmax: all classes among the labels, and random others.

    Args:
        label: Labels of shape ``[N]`` in ``[0, num_classes)``, of dtype int32 or int64.
        num_classes: Number of classes.
        num_samples: Least number of classes to return, at most ``num_classes``.
        group: Not used: all classes are in this process. Default: None.

    Returns:
        Pair of the labels as indices into the sampled classes, and the sampled classes, those of the batch first and in
        increasing order.

    Examples:
        >>> [t.tolist() for t in bireme.nn.functional.class_center_sample(bireme.to_tensor([3, 1, 3]), 4, 1)]
        [[1, 0, 1], [1, 3]]
    """
    where = "class_center_sample"
    if not (group is None or group is False or hasattr(group, "is_member")):
        raise errors.bad(f"{where}(group)", "None, False or a group", group)
    if label.ndim != 1 or not label.shape[0]:
        raise errors.bad(
            f"{where}(label)",
            "a 1-D tensor of at least one label",
            described=f"shape {label.shape}",
            kind=errors.ShapeError,
        )
    if label.dtype not in (dtypes.int32, dtypes.int64):
        raise errors.bad(f"{where}(label)", "int32 or int64", described=label.dtype.name, kind=errors.DtypeError)
    num_classes, num_samples = int(num_classes), int(num_samples)
    if not 0 < num_samples <= num_classes:
        raise errors.bad(
            f"{where}(num_samples)",
            f"an integer in [1, {num_classes}]",
            num_samples,
            kind=errors.for_integer(num_samples),
        )
    places, order, count = class_centers(label, num_classes)
    return places, order[: max(num_samples, int(count))]
