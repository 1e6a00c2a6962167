"""Rows as programs with unknown sizes: which dimensions of a call can be of another size, the inputs at that size, and
the comparison of one program, fed at both sizes, with dynamic mode.

What can vary is asked of dynamic mode: dimensions that are grown together, by repeating rows or by a second block on the
diagonal, are free where the call takes the grown inputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import bireme
from bireme import static
from bireme.core.base import errors
from bireme.core.graph import executor
from bireme.core.tensor.tensor import Tensor
from tests.table.harness import Row, Sample, is_data, same, tolerance, weight_like
from tests.table.layer_harness import LayerRow

Dims = frozenset[tuple[int, int]]  # of the arrays of a sample: (which array, which axis)
SEED = 11
SAMPLES = 4  # of a row that are looked at until one has a dimension that can vary


class length(np.ndarray):
    """An array that stands for its own length: an argument that is a number, as the sizes that `zeros` takes."""


@dataclass
class Subject:
    """What is called, made anew for each evaluation: an operator, or a layer with its parameters."""

    name: str
    make: Callable[[], Any]
    samples: list[Sample]
    loose: Callable[[Sample, np.ndarray], float]


def operator(row: Row) -> Subject:
    """The operator of a row."""
    samples = [in_single(s) for s in row.plain()]
    sized = [s for s in samples if any(a.ndim for a in s.leaves())]
    samples = [*sized[:SAMPLES], *[counted(s) for s in samples[:SAMPLES]]]
    return Subject(row.name, lambda: row.fn, samples, lambda sample, got: tolerance(row, sample, got))


def layer(row: LayerRow) -> Subject:
    """The layer of a row."""
    samples = [in_single(s) for s in row.samples() if not s.is_empty]
    return Subject(row.name, row.build, samples, lambda sample, got: 2e-5 * row.loose[0])


def in_single(sample: Sample) -> Sample:
    """Data in single precision."""
    leaves = sample.leaves()
    args, kwargs = sample.fill([a.astype(np.float32) if a.dtype == np.float64 else a for a in leaves])
    return Sample(args, kwargs)


def counted(sample: Sample) -> Sample:
    """A call without tensors: its numbers can vary."""

    def change(x: Any) -> Any:
        if type(x) is int and x > 0:
            return np.zeros(x).view(length)
        if type(x) in (list, tuple):
            return type(x)([change(y) for y in x])
        return {k: change(v) for k, v in x.items()} if isinstance(x, dict) else x

    return Sample(change(sample.args), change(sample.kwargs))


def flat(x: Any) -> list[Tensor]:
    if isinstance(x, (list, tuple)):
        return [z for y in x for z in flat(y)]
    if isinstance(x, dict):
        return flat(list(x.values()))
    return [x] if isinstance(x, Tensor) else []


# ---------------------------------------------------------------- other sizes


def grown(sample: Sample, dims: Dims, how: str) -> list[np.ndarray]:
    """The arrays of a sample with some dimensions twice as long, one longer or one shorter.

    Twice as long means repeated, or for both dimensions of square matrices a second block on the diagonal: that keeps them
    regular, symmetric, triangular.
    """
    made = []
    for i, a in enumerate(sample.leaves()):
        axes = [axis for leaf, axis in sorted(dims) if leaf == i]
        if how == "diagonal" and len(axes) == 2 and a.shape[axes[0]] == a.shape[axes[1]]:
            made.append(_diagonal(a, *axes))
            continue
        new = a
        for axis in axes:
            n = a.shape[axis]
            longer = {"twice": 2 * n, "diagonal": 2 * n, "one more": n + 1, "one less": n - 1}[how]
            new = np.take(new, np.arange(longer) % n, axis=axis)
        made.append(new.view(type(a)))
    return made


def _diagonal(a: np.ndarray, one: int, two: int) -> np.ndarray:
    """The same matrices and other ones as blocks."""
    n = a.shape[one]
    at = np.moveaxis(a, (one, two), (-2, -1))
    new = np.zeros((*at.shape[:-2], 2 * n, 2 * n), a.dtype)
    new[..., :n, :n] = at
    new[..., n:, n:] = at * np.asarray(1.25).astype(a.dtype) if a.dtype.kind in "fc" else at
    return np.moveaxis(new, (-2, -1), (one, two))


DOUBLED, CHANGED = ("twice", "diagonal"), ("one more", "one less")


class Otherwise(Exception):
    """The number of results, or of their dimensions, depends on a size: they are no variables of one program."""


def accepted(subject: Subject, sample: Sample, dims: Dims, ways: tuple[str, ...], kinds: list) -> list | None:
    """Arrays at another size that dynamic mode takes, with finite numbers where there are such; None: there are none."""
    found = None
    for how in ways:
        arrays = grown(sample, dims, how)
        if any(a.size == 0 for a in arrays):
            continue
        try:
            outs, _, grads = dynamic(subject.make(), sample, arrays)
        except (*errors.TELLING, AssertionError):
            continue
        if kinds_of(outs) != kinds:
            raise Otherwise
        if all(np.isfinite(a).all() for a in [*outs, *grads] if a is not None and a.dtype.kind in "fc"):
            return arrays
        found = found or arrays
    return found


def kinds_of(arrays: list[np.ndarray]) -> list[tuple]:
    return [(a.ndim, a.dtype) for a in arrays]


def moves(sample: Sample) -> list[Dims]:
    """Dimensions that may belong together, those first that may be the rows of a batch."""
    leaves = sample.leaves()
    every = [(i, axis) for i, a in enumerate(leaves) for axis in range(a.ndim)]
    alike: list[list[tuple[int, int]]] = []
    for i, axis in every:
        same_size = [(j, other) for j, other in every if leaves[j].shape[other] == leaves[i].shape[axis]]
        alike.append([d for d in same_size if d[1] == axis])
        alike.append(same_size)
        alike.append([(i, axis)])
        alike.append([d for d in same_size if d[1] - leaves[d[0]].ndim == axis - leaves[i].ndim])
    if len(every) <= 10:
        alike += map(list, itertools.combinations(every, 2))
    return list(dict.fromkeys(map(frozenset, alike)))


@dataclass
class Variation:
    """Dimensions that are unknown, and the arrays at another size."""

    dims: Dims
    arrays: list[np.ndarray]

    @property
    def is_first(self) -> bool:
        return (0, 0) in self.dims


def variations(subject: Subject, sample: Sample) -> list[Variation]:
    """The first dimension that can vary, with what belongs to it, and as many as can vary at once: doubled, and where that
    is not all of them, one longer or shorter.
    """
    kinds = kinds_of(dynamic(subject.make(), sample, sample.leaves())[0])
    found: list[Variation] = []
    fixed: list[Dims] = []
    for ways in (DOUBLED, CHANGED):
        wide: Variation | None = None
        for dims in moves(sample):
            if wide is not None and dims <= wide.dims:
                continue
            together = dims if wide is None else wide.dims | dims
            if any(each <= together for each in fixed):
                continue
            try:
                arrays = accepted(subject, sample, together, ways, kinds)
            except Otherwise:
                fixed.append(together)
                continue
            if arrays is None:
                continue
            wide = Variation(together, arrays)
            if not found:
                found.append(wide)
        if wide is not None and not any(wide.dims <= v.dims for v in found):
            found.append(wide)
    return found


def other_sizes(subject: Subject) -> tuple[Sample, list[Variation]]:
    """The first sample that has dimensions that can vary, and how."""
    if subject.name in GIVEN:
        arrays = GIVEN[subject.name]
        leaves = zip(subject.samples[0].leaves(), arrays, strict=True)
        dims = frozenset((i, 0) for i, (a, b) in enumerate(leaves) if a.shape != b.shape)
        return subject.samples[0], [Variation(dims, arrays)]
    for sample in subject.samples:
        found = variations(subject, sample)
        if found:
            return sample, found
    return subject.samples[0], []


# Inputs at another size that no rule makes: as many neighbors as the counts say, of nodes that differ.
GIVEN = {
    "reindex_heter_graph": [
        np.array([0, 1]),
        np.array([8, 9, 0, 4, 7]),
        np.array([0, 2, 3]),
        np.array([2, 3], np.int32),
        np.array([1, 2], np.int32),
    ]
}
# Rows of which no dimension can be unknown, by what they mean.
FIXED = {
    "SpectralNorm": "the layer is made for a weight of this shape: it keeps a vector of the size of each side",
}
# Dimensions that cannot be unknown beside the others, by what the row means.
NOT_TOGETHER = {
    "fp8_gemm_blockwise": "the number of scales, which is known, says how many blocks of 128 the other sizes have",
    "fused_act_dequant": "the number of scales, which is known, says how many blocks of 128 a row has",
    "cross": "the axis is the first of size 3: which one that is has to be known",
}


# ---------------------------------------------------------------- evaluating


def filled(sample: Sample, xs: list[Tensor]) -> tuple[tuple, dict]:
    return sample.fill([x.shape[0] if isinstance(a, length) else x for a, x in zip(sample.leaves(), xs, strict=True)])


def roots(outs: list[Any]) -> list[Any]:
    """Results that have gradients, each once."""
    smooth = [t for t in outs if not t.stop_gradient and t.dtype.is_inexact]
    return list({getattr(t, "symbol", id(t)): t for t in smooth}.values())


def parameters(made: Any) -> list[Any]:
    return [p for p in made.parameters() if not p.stop_gradient] if hasattr(made, "parameters") else []


def dynamic(made: Any, sample: Sample, arrays: list[np.ndarray]) -> tuple[list, list, list]:
    """Results, weights of those that are differentiated, and gradients of data and parameters (None: there is none)."""
    xs = [bireme.to_tensor(np.asarray(a), stop_gradient=not is_data(a) or isinstance(a, length)) for a in arrays]
    args, kwargs = filled(sample, xs)
    bireme.seed(SEED)
    with executor.use("interpreter"):
        outs = flat(made(*args, **kwargs))
        rng = np.random.default_rng(5)
        ends = roots(outs)
        weights = [weight_like(rng, t.shape, t.dtype) for t in ends]
        wanted = [t for t in [*xs, *parameters(made)] if not t.stop_gradient]
        seeds = [bireme.to_tensor(w) for w in weights]
        gs = bireme.grad(ends, wanted, seeds, allow_unused=True) if ends and wanted else []
        return [t.numpy() for t in outs], weights, [None if g is None else g.numpy() for g in gs]


class Programmed:
    """The call as a program in which some dimensions are unknown, with its gradients."""

    def __init__(self, made: Any, sample: Sample, dims: Dims):
        self.program, self.made = static.Program(), made
        bireme.enable_static()
        try:
            with static.program_guard(self.program, static.Program()):
                self._build(sample, dims)
        finally:
            bireme.disable_static()

    def _build(self, sample: Sample, dims: Dims) -> None:
        xs = []
        for i, a in enumerate(sample.leaves()):
            sizes = [-1 if (i, axis) in dims else n for axis, n in enumerate(a.shape)]
            x = static.data(f"x{i}", sizes, str(a.dtype))
            x.stop_gradient = not is_data(a) or isinstance(a, length)
            xs.append(x)
        args, kwargs = filled(sample, xs)
        self.outs = flat(self.made(*args, **kwargs))
        ends = roots(self.outs)
        weights = [static.data(f"w{i}", [int(n) for n in t.shape], t.dtype.name) for i, t in enumerate(ends)]
        wanted = [x for x in xs if not x.stop_gradient]
        self.grads = static.gradients(ends, wanted, weights) if ends and wanted else []
        params = parameters(self.made)
        if params and ends:
            pulled = dict.fromkeys([p.name for p in params])
            loss = bireme.add_n([(t * w).sum() for t, w in zip(ends, weights, strict=True)])
            pulled |= {p.name: g for p, g in static.append_backward(loss, params)}
            self.grads += pulled.values()

    def run(self, arrays: list[np.ndarray], weights: list[np.ndarray]) -> tuple[list, list]:
        """Results and gradients at these sizes."""
        feed = {f"x{i}": np.asarray(a) for i, a in enumerate(arrays)} | {f"w{i}": w for i, w in enumerate(weights)}
        wanted = [*self.outs, *[g for g in self.grads if g is not None]]
        bireme.seed(SEED)
        bireme.enable_static()
        try:
            with executor.use("interpreter"):
                found = iter(static.Executor().run(self.program, feed, wanted))
        finally:
            bireme.disable_static()
        return [next(found) for _ in self.outs], [None if g is None else next(found) for g in self.grads]


def check(subject: Subject, sample: Sample, variation: Variation) -> None:
    """One program, fed at both sizes, gives the values and gradients of dynamic mode, and leaves its buffers."""
    twin, made = subject.make(), subject.make()
    program = Programmed(made, sample, variation.dims)
    for arrays in (sample.leaves(), variation.arrays):
        outs, weights, grads = dynamic(twin, sample, arrays)
        got, pulled = program.run(arrays, weights)
        here, where = Sample((arrays,), {}), f"at {', '.join([str(list(a.shape)) for a in arrays])}"
        assert len(got) == len(outs), f"{len(got)} results instead of {len(outs)}"
        for out, g, w in zip(program.outs, got, outs, strict=True):
            same(g, w, subject.loose(here, g), where)
            told = [int(n) for n in out.shape]
            assert len(told) == g.ndim and all(m in (-1, n) for m, n in zip(told, g.shape, strict=True)), (
                f"{told} was told, and it is {list(g.shape)} {where}"
            )
        assert [g is None for g in pulled] == [g is None for g in grads], f"other gradients {where}"
        for g, w in zip(pulled, grads, strict=True):
            if g is not None:
                same(g, w, 10 * subject.loose(here, g), f"gradient {where}")
    for mine, theirs in zip(buffers(made), buffers(twin), strict=True):
        same(mine, theirs, 2e-5, "buffer")


def buffers(made: Any) -> list[np.ndarray]:
    return [b.numpy() for b in made.buffers()] if hasattr(made, "buffers") else []


@dataclass
class Report:
    """What came of a row: how many dimensions were unknown at most, of how many, and what is wrong."""

    name: str
    first: bool  # whether the first dimension was one of them
    unknown: int
    dimensions: int
    problems: list[str]


def report(subject: Subject) -> Report:
    """Check a row with each of its variations; a reason that does not hold is a problem too."""
    sample, found = other_sizes(subject)
    problems, passed = [], []
    for variation in found:
        where = f"({sample}) with {sorted(variation.dims)} unknown"
        try:
            check(subject, sample, variation)
            passed.append(variation)
        except (*errors.TELLING, AssertionError) as e:
            if subject.name not in NOT_TOGETHER or variation is found[0]:
                problems.append(f"{where}: {type(e).__name__}: {e}")
    if not found and subject.name not in FIXED:
        problems.append(f"({sample}): no dimension can vary, and no reason is given")
    if found and subject.name in FIXED:
        problems.append(f"({sample}): {sorted(found[0].dims)} can vary, though: {FIXED[subject.name]}")
    if len(passed) == len(found) and subject.name in NOT_TOGETHER:
        problems.append(f"({sample}): passes, though: {NOT_TOGETHER[subject.name]}")
    most = max([len(v.dims) for v in passed], default=0)
    return Report(subject.name, any(v.is_first for v in passed), most, sum(a.ndim for a in sample.leaves()), problems)
