"""How many edits lie between two sequences: what speech and text recognition are measured by."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Attr, Tensor, composite, op
from bireme.core.graph.graph import sig_of
from bireme.ops.creation.tensors import full


@op(internal="edit_distance", differentiable=False, name_arg=False, dtypes=dtypes.INT)
def edit_distance_of(input: Tensor, label: Tensor, input_length: Tensor, label_length: Tensor) -> Tensor:
    """Number of insertions, deletions and substitutions between each row and its label; use `edit_distance`."""
    (batch, steps), width = input.shape, label.shape[1]
    places = jnp.arange(width + 1, dtype=jnp.float32)
    first = jnp.broadcast_to(places, (batch, width + 1))

    def step(row, at):
        token, number = at
        kept = jnp.minimum(row[:, 1:] + 1, row[:, :-1] + (label != token[:, None]))
        reached = jnp.concatenate([jnp.broadcast_to(number, (batch, 1)), kept], axis=1)
        # an insertion costs 1 for each step to the right: the minimum over all columns to the left, each with its
        # distance
        row = places + lax.cummin(reached - places, axis=1)
        return row, row

    _, rows = lax.scan(step, first, (input.T, jnp.arange(1, steps + 1, dtype=jnp.float32)))
    return jnp.concatenate([first[None], rows])[input_length, jnp.arange(batch), label_length]


edit_distance_of.infer(lambda input, label, input_length, label_length: sig_of(input.shape[:1], dtypes.float32))


@edit_distance_of.check
def _(input, label, input_length, label_length):
    if input.ndim != 2 or label.ndim != 2 or input.shape[0] != label.shape[0]:
        raise errors.bad(
            "edit_distance(label)",
            "two matrices with one row per sequence",
            described=f"shapes {list(input.shape)} and {list(label.shape)}",
            kind=errors.ShapeError,
        )
    for name, length in (("input_length", input_length), ("label_length", label_length)):
        if length.shape != input.shape[:1]:
            raise errors.bad(
                f"edit_distance({name})",
                f"one length for each of {input.shape[0]} rows",
                described=f"shape {list(length.shape)}",
                kind=errors.ShapeError,
            )


edit_distance_of.index(lambda s: [(f"{n}_length", 0, s[n].shape[1] + 1) for n in ("input", "label") if s[n].ndim == 2])


@composite(public="nn.functional.edit_distance")
def edit_distance(
    input: Tensor,
    label: Tensor,
    normalized: bool = True,
    ignored_tokens: Attr[Sequence[int]] = None,
    input_length: Tensor | None = None,
    label_length: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Levenshtein distance between sequences of tokens: insertions, deletions and substitutions.

    Args:
        input: Integer tokens of shape ``[N, L1]``.
        label: Integer tokens of shape ``[N, L2]``.
        normalized: Whether to divide each distance by the length of the label. Default: True.
        ignored_tokens: Must be ``None`` or empty: remove such tokens beforehand. Default: None.
        input_length: Length of each sequence of ``input``, of ``N`` elements; ``None`` means ``L1``. Default: None.
        label_length: Length of each sequence of ``label``, of ``N`` elements; ``None`` means ``L2``. Default: None.

    Returns:
        Pair of the number of sequences, of shape ``[1]`` and dtype int64, and the distances, of shape ``[N, 1]`` and
        dtype float32.

    Examples:
        >>> x, y = bireme.to_tensor([[1, 2, 3], [4, 5, 6]]), bireme.to_tensor([[1, 3, 4, 1], [4, 5, 8, 1]])
        >>> bireme.nn.functional.edit_distance(x, y)[1].tolist()
        [[0.75], [0.5]]
    """
    if ignored_tokens:
        raise errors.bad(
            "edit_distance(ignored_tokens)", "None, since ignored tokens are removed before", ignored_tokens
        )
    rows = input.shape[:1]
    lengths = []
    for tokens, length in ((input, input_length), (label, label_length)):
        lengths.append(full(rows, tokens.shape[-1], "int64") if length is None else length.reshape([-1]))
    found = edit_distance_of(input, label, *lengths)
    if normalized:
        found = found / lengths[1].astype("float32")
    return full([1], rows[0] if rows else 0, "int64"), found.reshape([-1, 1])
