"""Mixtures of experts: dispatch of tokens, combination of results, the balancing loss, indices of experts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Attr, DTypeArg, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.core.tensor.tensor import value_of
from bireme.ops._shared.precision import widen
from bireme.ops.fused.fp8 import quantised_rows
from bireme.ops.fused.matmul import floating
from bireme.ops.indexing.gather import take_along_axis
from bireme.ops.math.clip import clip
from bireme.ops.reduction.reductions import sum as total
from bireme.ops.search.sort import topk

# ---------------------------------------------------------------- rows there and back


@op(internal=True, differentiable=False)
def route(
    expert_id: Tensor, capacity: int, experts: int, pad: bool, first: int, last: int, from_back: bool
) -> list[Tensor]:
    """Row of each copy of a token, which copies have room, the token of each row, the experts' running sum, counts."""
    tokens, k = expert_id.shape
    flat = expert_id.reshape(-1).astype(np.int32)
    counts = jnp.zeros(experts, np.int32).at[jnp.where(flat < 0, experts, flat)].add(1, mode="drop")
    order = jnp.argsort(flat, stable=True)  # by expert, and the tokens of each as they come
    place = jnp.zeros(flat.shape, np.int32).at[order].set(jnp.arange(flat.size, dtype=np.int32))
    starts = (jnp.cumsum(counts) - counts).astype(np.int32) + jnp.sum(flat < 0).astype(np.int32)
    own = jnp.clip(flat, 0, experts - 1)
    rank = place - starts[own]
    if from_back:  # the last ones have room
        rank = rank - jnp.maximum(counts[own] - capacity, 0)
    kept = (flat >= first) & (flat < last) & (rank < capacity) & (rank >= 0)
    rows = (last - first) * capacity if pad else tokens * k
    if pad:
        to = (flat - first) * capacity + rank
    elif last - first < experts:  # those of a part of the experts close up
        to = jnp.zeros(flat.shape, np.int32).at[order].set((jnp.cumsum(kept[order]) - 1).astype(np.int32))
    else:
        to = place
    token = (jnp.arange(flat.size) // max(k, 1)).astype(np.int32)
    source = jnp.full(rows, -1, np.int32).at[jnp.where(kept, to, rows)].set(token, mode="drop")
    scatter = jnp.where(kept, to, 0).astype(np.int32).reshape(tokens, k).T
    room = jnp.minimum(counts, capacity)[first:last]
    return [scatter, kept.reshape(tokens, k), source, jnp.cumsum(counts).astype(np.int64), room.astype(np.int64)]


@route.infer
def _(expert_id, capacity, experts, pad, first, last):
    tokens, k = expert_id.shape
    rows = (last - first) * capacity if pad else tokens * k
    shapes = (
        ((k, tokens), dtypes.int32),
        ((tokens, k), dtypes.bool_),
        ((rows,), dtypes.int32),
        ((experts,), dtypes.int64),
    )
    return [*[sig_of(*s) for s in shapes], sig_of((last - first,), dtypes.int64)]


@op(internal=True, dtypes=FLOAT, upcast="grad")
def rows_or_zero(x: Tensor, index: Tensor) -> Tensor:
    """Rows of `x`, and zeros where the index is -1; see `moe_gate_dispatch`."""
    if not x.shape[0]:
        return jnp.zeros((index.shape[0], x.shape[1]), x.dtype)
    return jnp.where((index >= 0)[:, None], x[jnp.clip(index, 0, x.shape[0] - 1)], jnp.zeros((), x.dtype))


rows_or_zero.infer(lambda x, index: sig_of((index.shape[0], x.shape[1]), x.dtype))


@op(internal=True, dtypes=FLOAT)
def weighed_rows(x: Tensor, weights: Tensor, index: Tensor) -> Tensor:
    """Sums of rows of `x` at an index of shape [tokens, k], each times its weight; use `moe_combine`."""
    wide = widen(x)
    return jnp.einsum(
        "sk,skd->sd", weights.astype(wide.dtype), wide[jnp.clip(index, 0, max(x.shape[0] - 1, 0))]
    ).astype(x.dtype)


weighed_rows.infer(lambda x, index: sig_of((index.shape[0], x.shape[1]), x.dtype))
weighed_rows.index(lambda s: [("index", 0, s["x"].shape[0])])


@composite(plain=True, hands={"index": "scatter_index"})
def moe_combine(x: Tensor, combine_weights: Tensor, scatter_index: Tensor) -> Tensor:
    """Combine the results of the experts: the weighted sum of the ``k`` rows of each token.

    Args:
        x: Results of the experts, of shape ``[rows, width]`` and a floating-point dtype.
        combine_weights: Weights of shape ``[tokens, k]``.
        scatter_index: Row of each copy of a token, integers of shape ``[tokens, k]`` or ``[k, tokens]``, as
            ``moe_gate_dispatch`` returns it.

    Returns:
        Tensor of shape ``[tokens, width]`` and the dtype of ``x``.

    Examples:
        >>> x, weights = bireme.to_tensor([[1.0], [10.0]]), bireme.to_tensor([[0.5, 2.0]])
        >>> bireme.incubate.nn.functional.moe_combine(x, weights, bireme.to_tensor([[0, 1]], dtype="int32")).tolist()
        [[20.5]]
    """
    if x.ndim != 2 or combine_weights.ndim != 2:
        raise errors.bad(
            "moe_combine(combine_weights)",
            "shape [tokens, k], and a 2-D x",
            described=f"shapes {combine_weights.shape} and {x.shape}",
            kind=errors.ShapeError,
        )
    if scatter_index.dtype.kind != "i" or scatter_index.shape not in (
        combine_weights.shape,
        combine_weights.shape[::-1],
    ):
        raise errors.bad(
            "moe_combine(scatter_index)",
            f"an integer tensor of shape {combine_weights.shape}, or transposed",
            scatter_index,
            kind=errors.for_integer(scatter_index),
        )
    index = scatter_index if scatter_index.shape == combine_weights.shape else scatter_index.transpose([1, 0])
    return weighed_rows(x, combine_weights, index)


# ---------------------------------------------------------------- tokens to experts


def _gate(name: str, x: Tensor, gate_logits: Tensor, corr_bias: Tensor | None, k: int, capacity: int) -> Tensor:
    """The k experts of each token, best first; the bias has a part in the choice alone."""
    floating(f"{name}(x)", x)
    floating(f"{name}(gate_logits)", gate_logits)
    if x.ndim != 2 or gate_logits.ndim != 2 or gate_logits.shape[0] != x.shape[0]:
        raise errors.bad(
            f"{name}(gate_logits)",
            "shape [tokens, experts] for x of shape [tokens, width]",
            described=f"{gate_logits.shape} for {x.shape}",
        )
    experts = gate_logits.shape[1]
    if not 1 <= k <= experts:
        raise errors.bad(
            f"{name}(k)", f"an integer in [1, {experts}], the number of experts", k, kind=errors.for_number(k)
        )
    if capacity < 1:
        raise errors.bad(f"{name}(capacity)", "a positive integer", capacity, kind=errors.for_number(capacity))
    if corr_bias is not None and corr_bias._value.sig.size != experts:
        raise errors.bad(f"{name}(corr_bias)", f"{experts} elements", corr_bias)
    score = (
        gate_logits if corr_bias is None else gate_logits + corr_bias.reshape([1, experts]).astype(gate_logits.dtype)
    )
    return topk(score.detach(), k, 1)[1]


def _dispatched(
    name: str, x: Tensor, gate: Tensor, bias: Tensor | None, k: int, capacity: int, pad: bool
) -> list[Tensor]:
    chosen = _gate(name, x, gate, bias, k, capacity)
    experts = gate.shape[1]
    scatter, kept, source, offset, _ = route(chosen, capacity, experts, pad, 0, experts, False)
    weights = take_along_axis(gate, chosen, 1) * kept.astype(gate.dtype)
    return [rows_or_zero(x, source), weights, scatter, offset, chosen.astype("int32")]


@composite(plain=True)
def moe_gate_dispatch(x: Tensor, gate_logits: Tensor, corr_bias: Tensor | None, k: int, capacity: int,
                      use_pad: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """Send each token to the ``k`` experts with the largest gates.

    Args:
        x: Tokens of shape ``[tokens, width]``, of a floating-point dtype.
        gate_logits: Gates of shape ``[tokens, experts]``, of a floating-point dtype.
        corr_bias: Bias of each expert that counts in the choice of experts only, or ``None``.
        k: Number of experts of each token.
        capacity: Greatest number of tokens of an expert; the first ones have room.
        use_pad: Whether each expert has ``capacity`` rows, padded with zeros, else rows follow each other.

    Returns:
        Tuple of the rows by expert, ``[experts * capacity, width]``, or ``[tokens * k, width]`` without ``use_pad``;
        the gates of each token's experts, ``[tokens, k]``, 0 where there was no room; the row of each copy, int32 of
        shape ``[k, tokens]``; the running sum of the experts' numbers of tokens, int64; the experts, int32 of shape
        ``[tokens, k]``.

    Examples:
        >>> x, gate = bireme.to_tensor([[1.0], [2.0]]), bireme.to_tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> [t.tolist() for t in bireme.incubate.nn.functional.moe_gate_dispatch(x, gate, None, 1, 1, True)[2:]]
        [[[0, 1]], [1, 2], [[0], [1]]]
    """
    return tuple(_dispatched("moe_gate_dispatch", x, gate_logits, corr_bias, k, capacity, use_pad))


@composite(plain=True)
def moe_gate_dispatch_permute(x: Tensor, gate_logits: Tensor, corr_bias: Tensor | None, k: int, capacity: int,
                              world_size: int) -> tuple[Tensor, ...]:  # fmt: skip
    """``moe_gate_dispatch`` with padding, for experts that are spread over several processes.

    Args:
        x: Tokens of shape ``[tokens, width]``, of a floating-point dtype.
        gate_logits: Gates of shape ``[tokens, experts]``, of a floating-point dtype.
        corr_bias: Bias of each expert that counts in the choice of experts only, or ``None``.
        k: Number of experts of each token.
        capacity: Greatest number of tokens of an expert; the first ones have room.
        world_size: Number of processes; a divisor of the number of experts.

    Returns:
        Tuple of the rows, ``[experts / world_size, world_size, capacity, width]``; the gates of each token's experts,
        ``[tokens, k]``, 0 where there was no room; the row of each copy, int32 of shape ``[k, tokens]``; the running
        sum of the experts' numbers of tokens, int64; the experts, int32 of shape ``[tokens, k]``.

    Examples:
        >>> x, gate = bireme.to_tensor([[1.0], [2.0]]), bireme.to_tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> bireme.incubate.nn.functional.moe_gate_dispatch_permute(x, gate, None, 1, 1, 2)[0].shape
        [1, 2, 1, 1]
    """
    if world_size < 1 or gate_logits.shape[-1] % world_size:
        raise errors.bad(
            "moe_gate_dispatch_permute(world_size)",
            f"a number that divides the {gate_logits.shape[-1]} experts",
            world_size,
            kind=errors.for_number(world_size),
        )
    rows, *rest = _dispatched("moe_gate_dispatch_permute", x, gate_logits, corr_bias, k, capacity, True)
    local = gate_logits.shape[1] // world_size
    return rows.reshape([world_size, local, capacity, x.shape[1]]).transpose([1, 0, 2, 3]), *rest


@composite(plain=True, name_arg=False)
def moe_gate_dispatch_and_quant(x: Tensor, gate_logits: Tensor, corr_bias: Tensor | None, k: int, capacity: int,
                                use_pad: bool, use_pow2_scale: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """``moe_gate_dispatch`` with the rows quantized to float8.

    Args:
        x: Tokens of shape ``[tokens, width]``, of a floating-point dtype.
        gate_logits: Gates of shape ``[tokens, experts]``, of a floating-point dtype.
        corr_bias: Bias of each expert that counts in the choice of experts only, or ``None``.
        k: Number of experts of each token.
        capacity: Greatest number of tokens of an expert; the first ones have room.
        use_pad: Whether each expert has ``capacity`` rows, padded with zeros, else rows follow each other.
        use_pow2_scale: Whether scales are powers of 2.

    Returns:
        Tuple of the rows by expert, float8_e4m3fn; their scales, ``[rows, width / 128]``; the gates of each token's
        experts, ``[tokens, k]``, 0 where there was no room; the row of each copy, int32 of shape ``[k, tokens]``; the
        running sum of the experts' numbers of tokens, int64; the experts, int32 of shape ``[tokens, k]``.

    Examples:
        >>> x, gate = bireme.ones([2, 128]), bireme.to_tensor([[0.9, 0.1], [0.2, 0.8]])
        >>> made = bireme.incubate.nn.functional.moe_gate_dispatch_and_quant(x, gate, None, 1, 1, True, True)
        >>> made[0].dtype.name, made[1].shape
        ('float8_e4m3fn', [2, 1])
    """
    rows, *rest = _dispatched("moe_gate_dispatch_and_quant", x, gate_logits, corr_bias, k, capacity, use_pad)
    return *quantised_rows(rows.detach(), use_pow2_scale), *rest


@composite()
def moe_gate_dispatch_partial_nosoftmaxtopk(x: Tensor, combine_weights: Tensor, expert_id: Tensor, k: int,
                                            capacity: int, num_experts: int, use_pad: bool, expert_start_index: int,
                                            expert_end_index: int,
                                            reverse_token_drop: bool) -> tuple[Tensor, ...]:  # fmt: skip
    """Send tokens to a part of the experts, which are already chosen.

    Args:
        x: Tokens of shape ``[tokens, width]``, of a floating-point dtype.
        combine_weights: Weights of shape ``[tokens, k]``.
        expert_id: Experts of each token, integers of shape ``[tokens, k]``; negative ones are none.
        k: Number of experts of each token.
        capacity: Greatest number of tokens of an expert.
        num_experts: Number of all experts.
        use_pad: Whether each expert has ``capacity`` rows, padded with zeros; ``False`` returns the rows of tokens
            only.
        expert_start_index: First expert of the part.
        expert_end_index: First expert after the part.
        reverse_token_drop: Whether the last tokens of an expert have room rather than the first.

    Returns:
        Tuple of the rows by expert; the weights, 0 where there was no room; the row of each copy, int32 of shape
        ``[k, tokens]``; the token of each row, -1 for padding; the running sum of the experts' numbers of tokens; the
        number of rows of each expert of the part.

    Examples:
        >>> x, weights = bireme.to_tensor([[1.0], [2.0]]), bireme.to_tensor([[0.5], [0.75]])
        >>> experts, dispatch = bireme.to_tensor([[0], [1]], dtype="int32"), bireme.incubate.nn.functional
        >>> made = dispatch.moe_gate_dispatch_partial_nosoftmaxtopk(x, weights, experts, 1, 2, 2, False, 1, 2, False)
        >>> [t.tolist() for t in made]
        [[[2.0]], [[0.0], [0.75]], [[0, 0]], [1], [1, 2], [1]]
    """
    name = "moe_gate_dispatch_partial_nosoftmaxtopk"
    floating(f"{name}(x)", x)
    if (
        expert_id.dtype.kind != "i"
        or x.ndim != 2
        or expert_id.shape != [x.shape[0], k]
        or combine_weights.shape != expert_id.shape
    ):
        raise errors.bad(
            f"{name}(expert_id)",
            f"an integer tensor of shape [{x.shape[0]}, {k}], as the weights have",
            expert_id,
            kind=errors.for_integer(expert_id),
        )
    if not 0 <= expert_start_index < expert_end_index <= num_experts or capacity < 1:
        raise errors.bad(
            f"{name}(expert_end_index)",
            f"a range of the {num_experts} experts, and a positive capacity",
            described=f"{expert_start_index} to {expert_end_index}",
        )
    found = route(expert_id, capacity, num_experts, use_pad, expert_start_index, expert_end_index, reverse_token_drop)
    scatter, kept, source, offset, room = found
    if not use_pad:
        source = source[: int(room._host().sum())]
    return rows_or_zero(x, source), combine_weights * kept.astype(combine_weights.dtype), scatter, source, offset, room


# ---------------------------------------------------------------- counts and indices


@composite(plain=True)
def cal_aux_loss(gate_prob: Tensor, dispatch_mask: Tensor, tokens_mask: Tensor | None,
                 dispatch_tokens_mask: Tensor | None, num_experts: int, use_group: bool, moe_k: int,
                 clip_min: float) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Loss that spreads tokens evenly over experts: ``num_experts * sum(mean gate * share of tokens)``.

    With ``dispatch_tokens_mask`` of another length than the gates, which counts the tokens of all processes, the loss
    has the value for all of them and the gradient of this process.

    Args:
        gate_prob: Probabilities of shape ``[tokens, num_experts]``, of a floating-point dtype.
        dispatch_mask: Number of tokens of each expert, ``[num_experts]``, or one row for each token to be summed.
        tokens_mask: Mask of the tokens of this process that count, or ``None`` for all.
        dispatch_tokens_mask: Mask of the tokens of all processes that count, or ``None``.
        num_experts: Number of experts.
        use_group: Whether to divide the loss by ``moe_k``.
        moe_k: Number of experts of each token.
        clip_min: Least number of tokens to divide by.

    Returns:
        Tuple of the loss, the number of tokens, and the share of tokens of each expert.

    Examples:
        >>> gate, counts = bireme.to_tensor([[0.5, 0.5], [0.5, 0.5]]), bireme.to_tensor([1, 1])
        >>> made = bireme.incubate.nn.functional.cal_aux_loss(gate, counts, None, None, 2, False, 1, 1e-6)
        >>> [t.tolist() for t in made]
        [1.0, 2.0, [0.5, 0.5]]
    """
    floating("cal_aux_loss(gate_prob)", gate_prob)
    kind = gate_prob.dtype
    if gate_prob.ndim != 2 or dispatch_mask.ndim not in (1, 2) or dispatch_mask.shape[-1] != gate_prob.shape[1]:
        raise errors.bad(
            "cal_aux_loss(dispatch_mask)",
            f"an element for each expert of gate_prob of shape {gate_prob.shape}",
            described=f"shape {dispatch_mask.shape}",
            kind=errors.ShapeError,
        )
    scale = None
    here = None if tokens_mask is None else total(tokens_mask.astype(kind))
    if dispatch_tokens_mask is not None:
        tokens = total(dispatch_tokens_mask.astype(kind))
        if here is not None and gate_prob.shape[0] != dispatch_tokens_mask.shape[0]:
            scale = tokens / clip(here, clip_min)
    elif here is not None:
        tokens = here
    else:
        tokens = total(gate_prob.detach() * 0.0) + gate_prob._value.sig.size / num_experts
    tokens = clip(tokens, clip_min)
    counts = total(dispatch_mask, 0) if dispatch_mask.ndim == 2 else dispatch_mask
    share = counts.detach().astype(kind) / tokens
    loss = total(total(gate_prob, 0) / tokens * share) * num_experts
    loss = loss / moe_k if use_group else loss
    if scale is not None:
        loss = loss + (scale - 1) * loss.detach()
    return loss, tokens, share


@composite()
def build_src_rank_and_local_expert_id(expert_num_global_tensor: Tensor, expert_num_global: Attr[int],
                                       num_local_experts: int) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Origin of every token that a process receives: the rank it comes from and the index of its expert there.

    Args:
        expert_num_global_tensor: Number of tokens of each expert of all processes; only its size is checked.
        expert_num_global: The same numbers as a list.
        num_local_experts: Number of experts of a process.

    Returns:
        Pair of int32 tensors with an element for each token: its rank, and its expert within the rank.

    Examples:
        >>> counts = bireme.to_tensor([1, 2, 0, 1])
        >>> made = bireme.incubate.nn.functional.build_src_rank_and_local_expert_id(counts, [1, 2, 0, 1], 2)
        >>> [t.tolist() for t in made]
        [[0, 0, 0, 1], [0, 1, 1, 1]]
    """
    where = "build_src_rank_and_local_expert_id"
    given = expert_num_global if isinstance(expert_num_global, tuple) else ()
    counts = np.array([n for n in given if isinstance(n, (int, np.integer)) and n >= 0], np.int64)
    if not counts.size == len(given) == expert_num_global_tensor._value.sig.size:
        raise errors.bad(
            f"{where}(expert_num_global)",
            f"{expert_num_global_tensor.size} elements, the tokens per expert",
            expert_num_global,
        )
    if num_local_experts < 1:
        raise errors.bad(
            f"{where}(num_local_experts)",
            "a positive integer",
            num_local_experts,
            kind=errors.for_number(num_local_experts),
        )
    expert = np.repeat(np.arange(counts.size), counts)
    return tuple(
        [Tensor(value_of(t.astype(np.int32))) for t in (expert // num_local_experts, expert % num_local_experts)]
    )


@op(differentiable=False)
def expand_modality_expert_id(
    expert_id: Tensor, num_expert_per_modality: int, group_size: int, modality_offset: int, is_group_expert: bool
) -> Tensor:
    """Indices of experts among those of two modalities: each process has experts of the one, then of the other.

    Args:
        expert_id: Integer indices of shape ``[tokens, k]`` among the experts of one modality.
        num_expert_per_modality: Number of experts of a modality in a process; 0 or less leaves the indices as they are.
        group_size: With ``is_group_expert``, number of experts of a group.
        modality_offset: Number added to the index: 0 for the first modality.
        is_group_expert: Whether column ``i`` counts from ``i * group_size``.

    Returns:
        Tensor of the shape and dtype of ``expert_id``.

    Examples:
        >>> ids = bireme.to_tensor([[0, 1], [2, 3]])
        >>> bireme.incubate.nn.functional.expand_modality_expert_id(ids, 2, 2, 2, False).tolist()
        [[2, 3], [6, 7]]
    """
    if is_group_expert:
        expert_id = expert_id + (jnp.arange(expert_id.shape[-1]) * group_size).astype(expert_id.dtype)
    if num_expert_per_modality <= 0:
        return expert_id
    each = num_expert_per_modality
    return (expert_id // each * (2 * each) + expert_id % each + modality_offset).astype(expert_id.dtype)


expand_modality_expert_id.infer(lambda expert_id: expert_id)


@expand_modality_expert_id.check
def _(expert_id):
    if expert_id.dtype.kind != "i" or expert_id.ndim != 2:
        raise errors.bad(
            "expand_modality_expert_id(expert_id)",
            "an integer tensor of shape [tokens, k]",
            described=f"{expert_id.dtype.name}{list(expert_id.shape)}",
        )


@op(differentiable=False)
def int_bincount(x: Tensor, low: int, high: int, dtype: DTypeArg = None) -> Tensor:
    """Count how often each integer of a range occurs.

    Args:
        x: Integer tensor; what is out of range does not count.
        low: First integer of the range.
        high: First integer after the range; above ``low``.
        dtype: Integer data type of the counts; ``None`` means that of ``x``. Default: None.

    Returns:
        Tensor of shape ``[high - low]``.

    Examples:
        >>> bireme.incubate.nn.functional.int_bincount(bireme.to_tensor([1, 2, 2, 9]), 1, 4).tolist()
        [1, 2, 0]
    """
    at = x.reshape(-1).astype(np.int64) - low
    lost = jnp.where((at < 0) | (at >= high - low), high - low, at)
    return jnp.zeros(high - low, (dtype or dtypes.from_numpy(x.dtype)).np).at[lost].add(1, mode="drop")


int_bincount.infer(lambda x, low, high, dtype: sig_of((high - low,), dtype or x.dtype))


@int_bincount.check
def _(x, low, high, dtype):
    if x.dtype.kind != "i" or (dtype is not None and dtype.kind != "i"):
        raise errors.bad(
            "int_bincount(x)",
            "an integer tensor and an integer dtype",
            described=x.dtype.name if dtype is None else dtype.name,
            kind=errors.ArgumentTypeError,
        )
    if low >= high:
        raise errors.bad("int_bincount(high)", f"a number greater than low = {low}", high, kind=errors.for_number(high))
