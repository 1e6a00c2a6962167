"""Viterbi decoding: the best path through a chain of states, by one loop over time that is compiled."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.declare.op import Size, Tensor, op
from bireme.core.graph.graph import sig_of


def _viterbi_numpy(potentials, transition_params, lengths, include_bos_eos_tag, size):
    """The same on NumPy arrays, for the interpreter: nothing is traced for a new length."""
    batch, steps, _ = potentials.shape
    rows, ends = np.arange(batch), (lengths - 1)[:, None]
    start, stop = (transition_params[-1], transition_params[-2]) if include_bos_eos_tag else (0, 0)
    alpha = potentials[:, 0] + start + np.where(ends == 0, stop, 0)
    back = np.zeros(potentials.shape, np.int64)
    for t in range(1, min(steps, max(size, 1))):
        reached = alpha[:, :, None] + transition_params
        back[:, t] = reached.argmax(axis=1)
        new = reached.max(axis=1) + potentials[:, t] + np.where(ends == t, stop, 0)
        alpha = np.where(t <= ends, new, alpha)
    tag, path = alpha.argmax(axis=1), np.zeros((batch, size), np.int64)
    for t in range(size - 1, -1, -1):
        path[:, t] = np.where(t < lengths, tag, 0)
        tag = np.where(t < lengths, back[rows, t, tag], tag)
    return alpha.max(axis=1).astype(potentials.dtype), path


@op(
    public="text.viterbi_decode",
    differentiable=False,
    dtypes={dtypes.float32, dtypes.float64},
    numpy=_viterbi_numpy,
)
def viterbi_decode(
    potentials: Tensor, transition_params: Tensor, lengths: Tensor, include_bos_eos_tag: bool = True, *, size: Size
) -> tuple[Tensor, Tensor]:
    """Find the sequence of tags with the highest score, as of a conditional random field.

    The score of a sequence is the sum of its potentials and of the transitions between neighbors; of equally good ones
    that with the lower tags is returned. All time steps are one compiled loop. It has no gradient.

    Args:
        potentials: Score of each tag at each step, float32 or float64 of shape ``[N, T, tags]``.
        transition_params: Score of each tag (second axis) after each tag (first axis), of shape ``[tags, tags]`` and
            the same dtype.
        lengths: Number of steps of each sequence, integers of shape ``[N]`` in ``[0, T]``.
        include_bos_eos_tag: The last row of ``transition_params`` is what a first tag adds, and the row before it what a
            last tag adds. Default: True.

    Returns:
        Pair of the scores, of shape ``[N]``, and the tags, int64 of shape ``[N, longest length]``; a sequence that is
        shorter has zeros at its end.

    Examples:
        >>> potentials = bireme.to_tensor([[[1.0, 0.0], [0.0, 0.5], [2.0, 0.0]]])
        >>> transitions = bireme.to_tensor([[0.0, 1.0], [1.0, 0.0]])
        >>> scores, path = bireme.text.viterbi_decode(potentials, transitions, bireme.to_tensor([3]), False)
        >>> scores.tolist(), path.tolist()
        ([5.5], [[0, 1, 0]])
    """
    ends = lengths[:, None] - 1
    start, stop = (transition_params[-1], transition_params[-2]) if include_bos_eos_tag else (0, 0)
    alpha = potentials[:, 0] + start + jnp.where(ends == 0, stop, 0).astype(potentials.dtype)

    def forward(alpha, at):
        t, now = at
        reached = alpha[:, :, None] + transition_params
        new = reached.max(axis=1) + now + jnp.where(ends == t, stop, 0).astype(now.dtype)
        return jnp.where(t <= ends, new, alpha), reached.argmax(axis=1)

    steps = max(size, 1)
    places = jnp.arange(1, steps, dtype=lengths.dtype)
    alpha, back = lax.scan(forward, alpha, (places, potentials[:, 1:steps].swapaxes(0, 1)))

    def backward(tag, at):
        t, came_from = at
        within = t < lengths
        before = jnp.take_along_axis(came_from, tag[:, None], axis=1)[:, 0]
        return jnp.where(within, before, tag), jnp.where(within, tag, 0)

    first, path = lax.scan(backward, alpha.argmax(axis=1), (places, back), reverse=True)
    path = jnp.concatenate([jnp.where(lengths > 0, first, 0)[None], path])[:size]
    return alpha.max(axis=1), path.T.astype(jnp.int64)


@viterbi_decode.infer
def _(potentials, transition_params, lengths, size):
    return sig_of(potentials.shape[:1], potentials.dtype), sig_of((potentials.shape[0], size), dtypes.int64)


@viterbi_decode.size
def _(potentials, transition_params, lengths):
    return int(lengths.max(initial=0))


viterbi_decode.index(lambda s: [("lengths", 0, s["potentials"].shape[1] + 1)] if s["potentials"].ndim == 3 else [])
viterbi_decode.effort(lambda potentials: 20_000 * potentials.shape[1] if potentials.ndim == 3 else 0)


@viterbi_decode.prepare
def _(arguments):
    potentials, transitions, lengths = (arguments[n] for n in ("potentials", "transition_params", "lengths"))
    if not all(isinstance(t, Tensor) for t in (potentials, transitions, lengths)):
        return
    if potentials.ndim != 3 or 0 in potentials.shape[1:]:
        raise _bad("potentials", "shape [batch, steps, tags] with a step and a tag", potentials, errors.ShapeError)
    if lengths.dtype.kind != "i":
        raise _bad("lengths", "integers", lengths, errors.DtypeError)
    if lengths.shape != potentials.shape[:1]:
        raise _bad("lengths", f"one length for each of {potentials.shape[0]} sequences", lengths, errors.ShapeError)
    tags = potentials.shape[2]
    if transitions.shape != [tags, tags]:
        raise _bad("transition_params", f"shape [{tags}, {tags}]", transitions, errors.ShapeError)
    if transitions.dtype is not potentials.dtype:
        raise _bad("transition_params", f"{potentials.dtype.name}, as potentials are", transitions, errors.DtypeError)
    if arguments["include_bos_eos_tag"] and tags < 2:
        raise _bad("potentials", "two tags at least, with include_bos_eos_tag", potentials, errors.ShapeError)


def _bad(argument: str, expected: str, got: Tensor, kind: type[Exception]) -> Exception:
    return errors.bad(f"viterbi_decode({argument})", expected, got, kind=kind)
