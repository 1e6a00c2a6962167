"""What a row of the operator table says, and how its calls are evaluated; the checks themselves are in `checks`.

A sample is a call with NumPy arrays where tensors go. An array of float64 is data: it takes each dtype in turn and is
differentiated. Arrays of other types (indices, masks) stay as they are, and `still` data is cast but not
differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bireme
from bireme.core.base import dtype as dtypes
from bireme.core.base.dtype import BOOL, COMPLEX, FLOAT, INT, DType
from bireme.core.base.registry import OPS
from bireme.core.graph import executor
from bireme.core.record.capture import capture
from bireme.core.tensor.tensor import Tensor, wrap

ALL = FLOAT | INT | BOOL | COMPLEX
REAL = FLOAT | INT
HALVES = frozenset((dtypes.float16, dtypes.bfloat16))
NUMBER = FLOAT | INT | COMPLEX

TOLERANCE = {
    "bfloat16": 3e-2,
    "float16": 4e-3,
    "float32": 1e-5,
    "complex64": 1e-5,
    "float64": 1e-10,
    "complex128": 1e-10,
}


class still(np.ndarray):
    """Data that follows the dtype and has no gradient: a bound, a probability."""

    def __new__(cls, values: Any) -> still:
        return np.asarray(values, np.float64).view(cls)


class Sample:
    """One call: positional and keyword arguments, with arrays where tensors go."""

    def __init__(self, args: tuple, kwargs: dict):
        self.args, self.kwargs = args, kwargs

    def leaves(self) -> list[np.ndarray]:
        """The arrays, in order."""
        found: list[np.ndarray] = []
        _map((self.args, self.kwargs), lambda a: found.append(a))
        return found

    def fill(self, leaves: list) -> tuple[tuple, dict]:
        """The arguments with other things in place of the arrays."""
        rest = iter(leaves)
        return _map((self.args, self.kwargs), lambda a: next(rest))

    def at(self, dtype: DType) -> Sample:
        """The same call with its data in another type."""
        args, kwargs = self.fill([as_dtype(a, dtype) if a.dtype == np.float64 else a for a in self.leaves()])
        return Sample(args, kwargs)

    @property
    def is_empty(self) -> bool:
        return any(a.size == 0 for a in self.leaves())

    @property
    def is_scalar(self) -> bool:
        return any(a.ndim == 0 for a in self.leaves())

    @property
    def is_finite(self) -> bool:
        return all(np.isfinite(a).all() for a in self.leaves() if a.dtype.kind in "fc")

    def __repr__(self) -> str:
        def show(x: Any) -> str:
            if isinstance(x, np.ndarray):
                return f"{x.dtype}{list(x.shape)}"
            return f"[{', '.join(map(show, x))}]" if isinstance(x, list) else repr(x)

        return ", ".join([*map(show, self.args), *[f"{k}={show(v)}" for k, v in self.kwargs.items()]])


def call(*args: Any, **kwargs: Any) -> Sample:
    """A sample, written as the call it is."""
    return Sample(args, kwargs)


def _map(tree: Any, change: Callable) -> Any:
    if isinstance(tree, np.ndarray):
        return change(tree)
    if type(tree) in (list, tuple):
        return type(tree)([_map(x, change) for x in tree])
    return {k: _map(v, change) for k, v in tree.items()} if isinstance(tree, dict) else tree


def as_dtype(a: np.ndarray, dtype: DType) -> np.ndarray:
    """Data in a type: integers towards zero, bools by sign, complex numbers with another element as imaginary part."""
    if dtype.kind == "f":
        return a.astype(dtype.np)
    if dtype.kind == "c":
        return np.asarray(a + 0.7j * np.roll(a.ravel(), 1).reshape(a.shape)).astype(dtype.np).view(type(a))
    plain = np.nan_to_num(a, posinf=100, neginf=-100)
    if dtype.kind == "b":
        return np.asarray(plain > 0)
    return np.asarray(np.abs(plain) if dtype.name.startswith("u") else plain).astype(dtype.np)


def widen(a: np.ndarray) -> np.ndarray:
    """What a reference computes with: the very numbers, in double precision."""
    kind = dtypes.from_numpy(a.dtype).kind
    plain = np.asarray(a).view(np.ndarray)
    return plain.astype(np.float64) if kind == "f" else plain.astype(np.complex128) if kind == "c" else plain


@dataclass
class Bad:
    """A call that must be refused with this message."""

    sample: Sample
    message: str
    kind: type[Exception] = ValueError


@dataclass
class Row:
    """Everything the table knows about one operator."""

    name: str
    samples: list[Sample]
    ref: Callable | None = None
    dtypes: frozenset = FLOAT
    # type of the result: the first operand's, the "last" one's, a name, "ref": the reference's, or a function
    out: Any = "same"
    unchecked: frozenset = frozenset()  # types that are taken, but mean different things in different samples
    rename: dict[str, str] = field(default_factory=dict)  # keywords that the reference calls otherwise
    grad: int = 2  # orders of derivatives; 0: it has none
    slow: bool = False  # second derivatives take many seconds to compile: they are compared with --full alone
    grad_ref: Callable | None = (
        None  # (w, *arguments) -> gradients of the data, where it is not differentiable: at ties
    )
    along: Callable | None = (
        None  # makes any step one that stays where the operator is defined: among symmetric matrices
    )
    law: Callable | None = None  # instead of a reference, for random numbers: (result, *arguments) -> whether it holds
    bad: list[Bad] = field(default_factory=list)
    skip: dict[str, str] = field(default_factory=dict)  # check -> why it cannot hold
    loose: tuple[float, str] = (1, "")  # wider tolerance, and why
    op: Any = None  # instead of the registered operator: for controls
    cache: dict = field(default_factory=dict)  # what several checks need

    @property
    def target(self) -> Any:
        return OPS[self.name] if self.op is None else self.op

    @property
    def fn(self) -> Callable:
        return getattr(self.target, "public", self.target)

    def plain(self, n: int | None = None) -> list[Sample]:
        """Samples with elements, all finite."""
        return [s for s in self.samples if s.is_finite and not s.is_empty][:n]

    def varied(self) -> list[Sample]:
        """At most six samples that differ in kind: what is compiled."""
        kinds = [
            self.plain(3),
            [s for s in self.samples if not s.is_finite][:1],
            [s for s in self.samples if s.is_empty][:1],
        ]
        found = [s for kind in kinds for s in kind]
        return [*found, *[s for s in self.samples if s.is_scalar and s not in found][:1]]

    def expected(self, sample: Sample) -> list[np.ndarray]:
        """The reference's results for a sample, in the types the operator must give."""
        assert self.ref is not None
        wide = [widen(a) for a in sample.leaves()]
        args, kwargs = sample.fill(
            [a.astype(float) if self.out is floating and a.dtype.kind in "iub" else a for a in wide]
        )
        with np.errstate(all="ignore"):
            want = self.ref(*args, **{self.rename.get(k, k): v for k, v in kwargs.items()})
        found = [np.asarray(w) for w in (want if isinstance(want, (list, tuple)) else [want])]
        if self.out == "ref":
            return found
        leaves = sample.leaves()
        given = dtypes.from_numpy(leaves[-1 if self.out == "last" else 0].dtype)
        kind = given if self.out in ("same", "last") else self.out(given) if callable(self.out) else dtypes.of(self.out)
        kind = dtypes.of(sample.kwargs.get("dtype") or kind)
        with np.errstate(all="ignore"):
            return [w.astype(kind.np) for w in found]


def floating(dtype: DType) -> DType:
    """The type of a function that has no integer results."""
    return dtype if dtype.is_inexact else dtypes.float32


def real(dtype: DType) -> DType:
    return dtypes.real_of(dtype)


def tolerance(row: Row, sample: Sample, got: np.ndarray) -> float:
    names = [a.dtype.name for a in [*sample.leaves(), got]]
    return row.loose[0] * max([TOLERANCE.get(n, 0) for n in names if n in TOLERANCE], default=0)


def same(got: Any, want: Any, tol: float, what: str) -> None:
    """Shape, type and numbers agree; the tolerance is relative to each number and to the largest of them."""
    assert tuple(got.shape) == tuple(want.shape), f"{what}: shape {list(got.shape)} instead of {list(want.shape)}"
    assert got.dtype == want.dtype, f"{what}: {got.dtype} instead of {want.dtype}"
    if dtypes.from_numpy(got.dtype).kind not in "fc":
        assert np.array_equal(got, want), f"{what}: {brief(got)} instead of {brief(want)}"
        return
    a, b = widen(np.asarray(got)), widen(np.asarray(want))
    finite = np.isfinite(b)
    scale = np.abs(b[finite]).max(initial=0) if b.size else 0
    close = np.isclose(a, b, rtol=tol, atol=tol * min(scale, 1e3), equal_nan=True)
    assert close.all(), f"{what}: {brief(a)} instead of {brief(b)}"


def brief(a: np.ndarray) -> str:
    return np.array2string(np.asarray(a).ravel()[:8], precision=9, separator=", ")


def smooth(row: Row, n: int) -> Iterator[Sample]:
    """Where derivatives are compared: at most `n` float64 samples and two complex128; ties only have one-sided slopes."""

    def untied(a: np.ndarray) -> bool:
        return is_data(a) and (row.along is not None or len(set(a.ravel())) == a.size)

    plain = [s for s in row.plain() if "dtype" not in s.kwargs and any(map(untied, s.leaves()))]
    yield from [s for s in plain if all(untied(a) for a in s.leaves() if is_data(a))][:n]
    if COMPLEX & row.dtypes:
        yield from [s.at(dtypes.complex128) for s in plain[:2]]


# ---------------------------------------------------------------- evaluating


def flat(made: Any) -> list[Tensor]:
    return [t for part in made for t in flat(part)] if isinstance(made, (list, tuple)) else [made]


def tensors(sample: Sample, grad: bool = False) -> list[Tensor]:
    """A tensor for each array; those of data require gradients if asked."""
    return [bireme.to_tensor(np.asarray(a), stop_gradient=not (grad and is_data(a))) for a in sample.leaves()]


def is_data(a: np.ndarray) -> bool:
    return dtypes.from_numpy(a.dtype).is_inexact and not isinstance(a, still)


def results(row: Row, sample: Sample, fn: Callable | None = None) -> list[np.ndarray]:
    """What the operator gives, interpreted; random ones always from the same seed."""
    args, kwargs = sample.fill(tensors(sample))
    bireme.seed(11)
    with executor.use("interpreter"):
        return [t.numpy() for t in flat((fn or row.fn)(*args, **kwargs))]


def derivatives(fn: Callable, sample: Sample, xs: list, order: int, weigh: Callable) -> tuple[list, list, list]:
    """Results, gradients of their sum weighed by `weigh`, and gradients of those weighed again: as Tensors or None."""
    args, kwargs = sample.fill(xs)
    bireme.seed(11)
    outs = flat(fn(*args, **kwargs))
    wanted = [x for x in xs if not x.stop_gradient]
    assert not order or not wanted or all(not t.stop_gradient or not t.dtype.is_inexact for t in outs), (
        f"({sample}): no gradient"
    )
    roots = [t for t in outs if not t.stop_gradient]
    if not order or not wanted or not roots:
        return outs, [], []
    gs = bireme.grad(roots, wanted, [weigh(t) for t in roots], create_graph=order > 1, allow_unused=True)
    again = [g for g in gs if g is not None and not g.stop_gradient]
    hs = bireme.grad(again, wanted, [weigh(g) for g in again], allow_unused=True) if again else []
    return outs, gs, hs


def weight_like(rng: np.random.Generator, shape: Any, dtype: DType) -> np.ndarray:
    """Weights that every type holds exactly, and none of them zero."""
    return as_dtype(np.asarray((2 * rng.integers(-8, 8, tuple(shape)) + 1) / 16), dtype)


def weigher() -> Callable:
    """Random weights for results: the same ones each time, so that two evaluations can be compared."""
    rng = np.random.default_rng(5)
    return lambda t: bireme.to_tensor(weight_like(rng, t.shape, t.dtype))


def evaluate(row: Row, samples: list[Sample], order: int, by: str) -> list[np.ndarray]:
    """Results and derivatives of all samples, recorded together and run once."""
    weigh, made = weigher(), []
    with executor.use(by):
        for s in samples:
            for part in derivatives(row.fn, s, tensors(s, grad=order > 0), order, weigh):
                made += [t for t in part if t is not None]
        return [t.numpy() for t in made]


class Recorded:
    """The same, recorded into a graph of its own with symbolic inputs: what "static" means here."""

    def __init__(self, row: Row, samples: list[Sample], order: int):
        rng = np.random.default_rng(5)
        self.arrays: list[np.ndarray] = []
        made = []
        with capture() as graph:

            def enter(a: np.ndarray, grad: bool = False) -> Tensor:
                self.arrays.append(np.asarray(a))
                return wrap(graph.input(a.shape, dtypes.from_numpy(a.dtype)), stop_gradient=not grad)

            for s in samples:
                xs = [enter(a, order > 0 and is_data(a)) for a in s.leaves()]
                for part in derivatives(row.fn, s, xs, order, lambda t: enter(weight_like(rng, t.shape, t.dtype))):
                    made += [t for t in part if t is not None]
        self.program = graph.finish([t._value for t in made])

    def run(self, by: str) -> list[np.ndarray]:
        return [np.asarray(a) for a in self.program.run(self.arrays, by=by)]
