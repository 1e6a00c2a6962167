"""Einstein summation: `einsum`, its notation, and the one operator that it comes down to."""

from __future__ import annotations

import functools
import re
import string
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bireme.core.base import errors
from bireme.core.declare.op import Attr, Tensor, op
from bireme.core.declare.public import function
from bireme.core.graph.graph import sig_of
from bireme.core.numpy_exec.rebinding import on_numpy
from bireme.ops._shared.broadcast import conj_of
from bireme.ops.linalg.matmul import NUMBER

_ALPHABET = string.ascii_uppercase + string.ascii_lowercase
_LABELS = re.compile(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*")


# ---------------------------------------------------------------- notation


@functools.lru_cache(maxsize=1024)
def parsed(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Labels of each operand's axes and of the result's, as numbers; those that an ellipsis stands for are negative."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "->" in output:
        raise _wrong(equation, "one arrow at most", "multiple `->` were found.")
    if not ranks:
        hint = "Required at least one operand in Einsum API, but received 0 operands"
        raise errors.bad(
            "einsum(operands)",
            f"{len(terms)} tensors for {equation!r}",
            described="none",
            hint=hint,
            kind=errors.ArgumentError,
        )
    if len(terms) != len(ranks):
        hint = f"Invalid equation: the number of operands is {len(ranks)}, but found {len(terms)} segments in the label equation."
        raise errors.bad(
            "einsum(operands)",
            f"{len(terms)} tensors for {equation!r}",
            described=f"{len(ranks)}",
            hint=hint,
            kind=errors.ArgumentError,
        )
    for term in (*terms, output):
        if _LABELS.fullmatch(term) is None:
            odd = re.sub(r"[A-Za-z.]", "", term)[:1]
            hint = (
                f"{odd} is not a valid label, which should be letters."
                if odd
                else "`.` is found outside of an ellipsis."
            )
            raise _wrong(equation, "letters, at most one ellipsis for each tensor, commas and one arrow", hint)
    found = [_labels(term, ndim, i) for i, (term, ndim) in enumerate(zip(terms, ranks))]
    hidden = min([min(labels, default=0) for labels in found], default=0)
    ellipsis = tuple(range(min(hidden, 0), 0))
    if not arrow:
        seen = [label for labels in found for label in labels if label >= 0]
        return tuple(found), ellipsis + tuple(sorted([label for label in seen if seen.count(label) == 1]))
    out = _labels(output, len(output.replace("...", "")) + (len(ellipsis) if "..." in output else 0), None)
    if ellipsis and "..." not in output:
        raise _wrong(equation, "an ellipsis in the result as in the operands", "missing ellipsis in output labels.")
    known = {label for labels in found for label in labels}
    for label in out:
        if label >= 0 and label not in known:
            raise errors.bad(
                "einsum(equation)", f"an operand with the label {_ALPHABET[label]!r} of the result", equation
            )
    return tuple(found), out


def _wrong(equation: str, expected: str, hint: str) -> Exception:
    """An error of the notation; the hint is in the words that programs look for."""
    return errors.bad(
        "einsum(equation)", expected, equation, hint=f"Invalid equation: {hint}", kind=errors.ArgumentError
    )


def _labels(term: str, ndim: int, place: int | None) -> tuple[int, ...]:
    """One term as numbers; an ellipsis takes the axes that are left over, counted from the last."""
    before, dots, after = term.partition("...")
    named = len(before) + len(after)
    if (named > ndim) if dots else (named != ndim):
        expected = f"{'at least ' if dots else ''}{named} dimensions for {term!r}"
        hint = f"Invalid equation: the label string {term!r} misses dimensions." if named < ndim else None
        raise errors.bad(
            "einsum(operands)", expected, described=f"{ndim} in operand {place}", hint=hint, kind=errors.ArgumentError
        )
    return (*map(_ALPHABET.index, before), *range(named - ndim, 0), *map(_ALPHABET.index, after))


def _extents(shapes: Any, terms: tuple) -> dict[int, int]:
    """The size of each label; sizes of 1 broadcast."""
    found: dict[int, int] = {}
    for i, (shape, term) in enumerate(zip(shapes, terms)):
        for n, label in zip(shape, term):
            before = found.setdefault(label, n)
            if before == 1:
                found[label] = n
            elif n not in (before, 1):
                what = (
                    f"{before} elements along {_ALPHABET[label]!r}"
                    if label >= 0
                    else f"{before} elements along axis {label} of the ellipsis"
                )
                raise errors.bad("einsum(operands)", what, described=f"{n} in operand {i} of shape {list(shape)}")
    return found


# ---------------------------------------------------------------- the operator


def _einsum(operands, terms, out, **how):
    extents = _extents([x.shape for x in operands], terms)
    places = {label: i for i, label in enumerate(extents)}
    args = []
    for x, term in zip(operands, terms):
        # axes of size 1 that broadcast drop out
        kept = [i for i, label in enumerate(term) if x.shape[i] == extents[label]]
        args += [x.reshape([x.shape[i] for i in kept]), [places[term[i]] for i in kept]]
    once = list(dict.fromkeys(out))
    made = jnp.einsum(*args, [places[label] for label in once], **how)
    return made if len(once) == len(out) else _spread(made, once, out)


_einsum_on_numpy = on_numpy(_einsum)


def _einsum_numpy(operands, terms, out):
    return np.asarray(_einsum_on_numpy(operands, terms, out, optimize=True))


def _einsum_grad_numpy(g, operands, terms, labels, needs):
    extents = _extents([x.shape for x in operands], terms)
    places = {label: i for i, label in enumerate(extents)}
    kept = [[label for n, label in zip(x.shape, term) if n == extents[label]] for x, term in zip(operands, terms)]
    rest = [np.conj(x).reshape([extents[label] for label in own]) for x, own in zip(operands, kept)]

    def of_one(i):
        others = [k for k in range(len(operands)) if k != i]
        args = [g, [places[label] for label in labels]]
        for k in others:
            args += [rest[k], [places[label] for label in kept[k]]]
        seen = set(labels).union(*[kept[k] for k in others])
        once = list(dict.fromkeys(kept[i]))
        made = np.einsum(*args, [places[label] for label in once if label in seen], optimize=True)
        # what the operand alone has, and was summed over, has the same gradient everywhere
        made = made.reshape([extents[label] if label in seen else 1 for label in once])
        made = np.broadcast_to(made, [extents[label] for label in once])
        return (made if len(once) == len(kept[i]) else _spread_on_numpy(made, once, kept[i])).reshape(operands[i].shape)

    return [of_one(i) if needs[i] else None for i in range(len(operands))]


def _spread(x, once, out):
    """Labels that the result repeats: their elements on a diagonal, zeros elsewhere."""
    x = x.reshape([x.shape[once.index(label)] if out.index(label) == i else 1 for i, label in enumerate(out)])
    for i, label in enumerate(out):
        first = out.index(label)
        if first != i:
            n = x.shape[first]
            shape = [n if k in (first, i) else 1 for k in range(len(out))]
            x = x * jnp.eye(n, dtype=x.dtype).reshape(shape)
    return x


_spread_on_numpy = on_numpy(_spread)


@op(internal="einsum", promote="operands", mix="products", dtypes=NUMBER, of_the_past=True, amp="low",
    numpy=_einsum_numpy)  # fmt: skip
def einsum_of(operands: list[Tensor], terms: Attr, labels: Attr) -> Tensor:
    """Sum of products over labelled axes; use `einsum`."""
    return _einsum(operands, terms, labels)


@einsum_of.infer
def _(operands, terms, labels):
    extents = _extents([x.shape for x in operands], terms)
    return sig_of(tuple([extents[label] for label in labels]), operands[0].dtype)


@einsum_of.grad(numpy=_einsum_grad_numpy)
def _(g, operands, terms, labels, needs):
    if not jnp.issubdtype(g.dtype, jnp.inexact):  # jax transposes what floats go through
        g, operands = g.astype(jnp.float64), [x.astype(jnp.float64) for x in operands]

    def of_one(i):
        def product(x):
            return _einsum([*operands[:i], x, *operands[i + 1 :]], terms, labels)

        # linear in each operand: the transposed map needs no product of the forward pass
        return conj_of(jax.linear_transpose(product, operands[i])(conj_of(g))[0])

    return [of_one(i) if needs[i] else None for i in range(len(operands))]


@function()
@errors.named
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Sum of products over labelled axes, in Einstein's notation.

    Each letter labels an axis. Axes with the same label are multiplied elementwise, and labels that the result does not
    have are summed over. A label that one operand repeats takes its diagonal; ``...`` stands for the axes that have no
    label, which broadcast. Without ``->`` the result has the labels that occur once, in alphabetical order.

    Args:
        equation: Labels of each operand, separated by commas, and those of the result after an arrow, such as
            ``'ij,jk->ik'``.
        *operands: Tensors of numbers, one for each term of the equation.

    Returns:
        Tensor with one axis for each label of the result.

    Raises:
        ValueError: If the equation is not valid or does not fit the shapes.

    Examples:
        >>> bireme.einsum("ij,jk->ik", bireme.to_tensor([[1.0, 2.0]]), bireme.to_tensor([[3.0], [4.0]])).tolist()
        [[11.0]]
    """
    if not isinstance(equation, str):
        raise errors.bad("einsum(equation)", "a string such as 'ij,jk->ik'", equation, kind=errors.ArgumentTypeError)
    for i, x in enumerate(operands):
        if not isinstance(x, Tensor):
            raise errors.bad(
                "einsum(operands)", "Tensors", described=f"{errors.show(x)} at index {i}", kind=errors.NotATensorError
            )
    return einsum_of(list(operands), *parsed(equation, tuple([x.ndim for x in operands])))
