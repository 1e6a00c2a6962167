"""Rows on padded arrays: the call and its gradients at sizes that keep changing, as one program for larger sizes.

The CPU is taken for an accelerator here. Dimensions that can vary are asked of dynamic mode, see `unknown_sizes`; what is
padded has to give the values of dynamic mode, and what cannot be shown to do so is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

import bireme
from bireme.core.base import errors
from bireme.core.record import flush
from bireme.core.run import graphs, padding
from tests.table import unknown_sizes
from tests.table.harness import Sample, is_data, same
from tests.table.unknown_sizes import Dims, Subject, dynamic, filled, flat, parameters, roots

SHOWN, PADDED = (4, 9), (6, 11, 2, 1)  # how often rows are repeated: at first, and when it is known what changes


@dataclass
class Report:
    """What came of a row: how many programs were padded, why others were not, and what is wrong."""

    name: str
    padded: int = 0
    reasons: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@contextmanager
def as_on_an_accelerator() -> Iterator[None]:
    """Every graph may be padded, however small it is; others are interpreted."""
    flush.flush()
    graphs.clear()
    with mock.patch.object(padding, "applies", lambda graph: True):
        yield
    flush.flush()
    graphs.clear()


def repeated(sample: Sample, dims: Dims, times: int) -> list[np.ndarray]:
    """The arrays of a sample with some dimensions so many times as long."""
    made = []
    for i, a in enumerate(sample.leaves()):
        new = a
        for axis in [axis for leaf, axis in sorted(dims) if leaf == i]:
            n = a.shape[axis]
            new = np.take(new, np.arange(times * n) % n, axis=axis)
        made.append(new.view(type(a)))
    return made


def evaluated(made: Any, sample: Sample, arrays: list[np.ndarray], weights: list[np.ndarray]) -> tuple[list, list]:
    """Results and gradients by whatever runs them."""
    xs = [
        bireme.to_tensor(np.asarray(a), stop_gradient=not is_data(a) or isinstance(a, unknown_sizes.length))
        for a in arrays
    ]
    args, kwargs = filled(sample, xs)
    bireme.seed(unknown_sizes.SEED)
    outs = flat(made(*args, **kwargs))
    ends = roots(outs)
    wanted = [t for t in [*xs, *parameters(made)] if not t.stop_gradient]
    seeds = [bireme.to_tensor(w) for w in weights]
    gs = bireme.grad(ends, wanted, seeds, allow_unused=True) if ends and wanted else []
    return [t.numpy() for t in outs], [None if g is None else g.numpy() for g in gs]


def report(subject: Subject) -> Report:
    """Run a row at changing sizes for each of its variations."""
    sample, found = unknown_sizes.other_sizes(subject)
    told = Report(subject.name)
    for variation in found:
        where = f"({sample}) with {sorted(variation.dims)} changing"
        try:
            at = [repeated(sample, variation.dims, times) for times in (*SHOWN, *PADDED)]
            expected = [dynamic(subject.make(), sample, arrays) for arrays in at]
        except (*errors.TELLING, AssertionError):
            continue  # it cannot be repeated so often
        made = subject.make()
        with as_on_an_accelerator():
            try:
                for arrays, (outs, weights, grads) in zip(at, expected, strict=True):
                    got, pulled = evaluated(made, sample, arrays, weights)
                    here = Sample((arrays,), {})
                    for g, w in zip(got, outs, strict=True):
                        same(g, w, subject.loose(here, g), where)
                    for g, w in zip(pulled, grads, strict=True):
                        if g is not None and w is not None:
                            same(g, w, 10 * subject.loose(here, g), f"gradient {where}")
            except (*errors.TELLING, AssertionError) as e:
                told.problems.append(f"{where}: {type(e).__name__}: {e}")
            for family in padding.families():
                told.padded += sum(p is not None for p in family.padded.values())
                told.reasons += [family.reason] if family.reason else []
    return told
