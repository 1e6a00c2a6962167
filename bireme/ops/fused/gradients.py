"""Gradients that Paddle offers as functions: of weighted swiglu, cross entropy in half precision, embeddings."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import FLOAT
from bireme.core.declare.op import Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.fused.matmul import floating, halves


@op(internal=True, differentiable=False, dtypes=FLOAT)
def weighed_swiglu_grad(first: Tensor, second: Tensor, g: Tensor, weight: Tensor) -> list[Tensor]:
    """Gradients of `weight * silu(first) * second` and its value; use `fused_swiglu_weighted_bwd`."""
    kind = first.dtype
    wide = jnp.float64 if kind == np.float64 else jnp.float32
    first, second, g = [t.astype(wide) for t in (first, second, g)]
    p = weight.astype(wide).reshape(*first.shape[:-1], 1)
    s = 1 / (1 + jnp.exp(-first))
    silu = first * s
    made = silu * second
    grad = jnp.concatenate([g * p * second * (s * (1 + first * (1 - s))), g * p * silu], axis=-1)
    return [
        grad.astype(kind),
        jnp.sum(g * made, axis=-1).reshape(weight.shape).astype(weight.dtype),
        (made * p).astype(kind),
    ]


@weighed_swiglu_grad.infer
def _(first, weight):
    return [sig_of((*first.shape[:-1], 2 * first.shape[-1]), first.dtype), weight, first]


@composite(plain=True)
def fused_swiglu_weighted_bwd(o1: Tensor, do2_s: Tensor, unzipped_probs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Backward pass of ``swiglu(o1) * unzipped_probs``.

    Args:
        o1: Input of ``swiglu``, of shape ``[..., 2 * width]`` and a floating-point dtype.
        do2_s: Gradient of the result, of shape ``[..., width]``.
        unzipped_probs: Weight of each row, of shape ``[...]`` or ``[..., 1]``.

    Returns:
        Tuple of the gradient of ``o1``, the gradient of ``unzipped_probs``, and the result of the forward pass.

    Examples:
        >>> o1, g, p = bireme.to_tensor([[0.0, 2.0]]), bireme.to_tensor([[3.0]]), bireme.to_tensor([[0.5]])
        >>> [t.tolist() for t in bireme.incubate.nn.functional.fused_swiglu_weighted_bwd(o1, g, p)]
        [[[1.5, 0.0]], [[0.0]], [[0.0]]]
    """
    name = "fused_swiglu_weighted_bwd"
    floating(f"{name}(o1)", o1)
    first, second = halves(f"{name}(o1)", o1)
    if do2_s.shape != first.shape:
        raise errors.bad(
            f"{name}(do2_s)", f"shape {first.shape}", described=f"shape {do2_s.shape}", kind=errors.ShapeError
        )
    if unzipped_probs.shape not in (o1.shape[:-1], [*o1.shape[:-1], 1]):
        raise errors.bad(
            f"{name}(unzipped_probs)",
            f"a weight for each row, shape {o1.shape[:-1]}",
            described=f"shape {unzipped_probs.shape}",
            kind=errors.ShapeError,
        )
    return tuple(weighed_swiglu_grad(first, second, do2_s, unzipped_probs))


@op(internal=True, differentiable=False, dtypes=FLOAT)
def softmax_minus_label(softmax: Tensor, label: Tensor, loss_grad: Tensor) -> Tensor:
    """`(softmax - one_hot(label)) * loss_grad` as bfloat16; use `cross_entropy_with_softmax_bwd_w_downcast`."""
    hot = label.reshape(*softmax.shape[:-1], 1) == jnp.arange(softmax.shape[-1]).astype(label.dtype)
    wide = softmax.astype(np.float32)
    return ((wide - hot.astype(wide.dtype)) * loss_grad.astype(wide.dtype).reshape(*softmax.shape[:-1], 1)).astype(
        dtypes.bfloat16.np
    )


softmax_minus_label.infer(lambda softmax: sig_of(softmax.shape, dtypes.bfloat16))


@composite(plain=True)
def cross_entropy_with_softmax_bwd_w_downcast(label: Tensor, softmax: Tensor, loss_grad: Tensor) -> Tensor:
    """Gradient of cross entropy with respect to its logits, as bfloat16: ``(softmax - one_hot(label)) * loss_grad``.

    Args:
        label: Integer class of each row.
        softmax: Softmax of the logits, with the classes along the last axis.
        loss_grad: Gradient of the loss of each row.

    Returns:
        Tensor of the shape of ``softmax`` and dtype bfloat16.

    Examples:
        >>> label, p, g = bireme.to_tensor([[1]]), bireme.to_tensor([[0.25, 0.75]]), bireme.to_tensor([[2.0]])
        >>> bireme.incubate.nn.functional.cross_entropy_with_softmax_bwd_w_downcast(label, p, g).tolist()
        [[0.5, -0.5]]
    """
    name = "cross_entropy_with_softmax_bwd_w_downcast"
    rows = softmax._value.sig.size // max(softmax.shape[-1], 1) if softmax.ndim else 0
    if (
        not softmax.ndim
        or label.dtype.kind != "i"
        or label._value.sig.size != rows
        or loss_grad._value.sig.size != rows
    ):
        raise errors.bad(
            f"{name}(label)",
            f"integer labels for {rows} rows, and a gradient for each",
            described=f"shapes {label.shape} and {loss_grad.shape}",
            kind=errors.ArgumentTypeError,
        )
    return softmax_minus_label(softmax, label, loss_grad)


@op(internal=True, differentiable=False, dtypes=FLOAT, upcast=True)
def rows_added(table: Tensor, index: Tensor, rows: Tensor) -> Tensor:
    """A table with rows added at the indices; use `embedding_grad_add_to_`."""
    return table.at[index.reshape(-1)].add(
        rows.reshape(-1, table.shape[1]).astype(table.dtype), mode="promise_in_bounds"
    )


rows_added.infer(lambda table: table)
rows_added.index(lambda s: [("index", 0, s["table"].shape[0])])


@composite()
def embedding_grad_add_to_(token_indices: Tensor, main_grad_: Tensor, out_grad: Tensor) -> Tensor:
    """Add the gradient of an embedding's rows to a table, in place.

    Args:
        token_indices: Integer indices that were looked up.
        main_grad_: Table of shape ``[rows, width]``; it is changed.
        out_grad: Gradient of the embedding, of shape ``[*token_indices.shape, width]``.

    Returns:
        ``main_grad_`` itself.

    Examples:
        >>> table, tokens = bireme.zeros([2, 1]), bireme.to_tensor([1, 1])
        >>> bireme.incubate.nn.functional.embedding_grad_add_to_(tokens, table, bireme.ones([2, 1])).tolist()
        [[0.0], [2.0]]
    """
    name = "embedding_grad_add_to_"
    if (
        token_indices.dtype.kind != "i"
        or main_grad_.ndim != 2
        or out_grad.shape != [*token_indices.shape, main_grad_.shape[1]]
    ):
        wanted = f"a row for each of the tokens of shape {token_indices.shape}"
        raise errors.bad(
            f"{name}(out_grad)",
            wanted,
            described=f"shape {out_grad.shape} for a table of {main_grad_.shape}",
            kind=errors.ShapeError,
        )
    main_grad_._assign_value(rows_added(main_grad_, token_indices, out_grad).detach())
    return main_grad_
