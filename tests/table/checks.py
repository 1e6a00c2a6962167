"""The checks that a row drives. Each takes a Row and raises AssertionError; `CHECKS` says to which rows it applies."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

import bireme
from bireme.core.base import dtype as dtypes
from bireme.core.base.registry import OPS
from bireme.core.declare.op import Op
from bireme.core.declare.public import PUBLIC
from bireme.core.graph import executor
from bireme.core.tensor.tensor import Tensor
from tests.table import rules
from tests.table.harness import (
    ALL,
    FLOAT,
    HALVES,
    TOLERANCE,
    Recorded,
    Row,
    Sample,
    brief,
    derivatives,
    evaluate,
    flat,
    is_data,
    results,
    same,
    smooth,
    still,
    tensors,
    tolerance,
    weigher,
    widen,
)  # fmt: skip

FORM = re.compile(r"^\w[\w. ]*[(\[][^\n]*: expected [^\n]+, got [^\n]+", re.M)
STEP = 1e-6  # of central differences in float64


# ---------------------------------------------------------------- numbers


def _against_reference(row: Row, sample: Sample, what: str) -> None:
    got = results(row, sample)
    if row.law is not None:
        args, kwargs = sample.fill(sample.leaves())
        assert row.law(got if len(got) > 1 else got[0], *args, **kwargs), f"{what}: the law does not hold of {brief(got[0])}"
        return
    want = row.expected(sample)
    assert len(got) == len(want), f"{what}: {len(got)} results instead of {len(want)}"
    for g, w in zip(got, want, strict=True):
        same(g, w, tolerance(row, sample, g), what)


def forward(row: Row) -> None:
    found = [s for s in row.samples if not s.is_empty and (not s.leaves() or any(a.ndim for a in s.leaves()))]
    assert found, "no sample with elements along an axis"
    for s in found:
        _against_reference(row, s, f"({s})")


def empty(row: Row) -> None:
    found = [s for s in row.samples if s.is_empty]
    assert found, "no sample without elements"
    for s in found:
        _against_reference(row, s, f"({s})")


def scalar(row: Row) -> None:
    found = [s for s in row.samples if s.is_scalar]
    assert found, "no sample with a 0-D tensor"
    for s in found:
        _against_reference(row, s, f"({s})")


def types(row: Row) -> None:
    """Every declared type gives the reference's numbers in the right type; any other is refused in the usual form."""
    samples = [s for s in row.plain() if any(a.dtype == np.float64 for a in s.leaves())][:2]
    assert samples, "no sample with data"
    assert row.dtypes - row.unchecked, "no type that is compared"
    for d in sorted(ALL - row.unchecked, key=lambda d: d.name):
        for s in samples if d in row.dtypes else samples[:1]:
            if d in row.dtypes:
                _against_reference(row, s.at(d), f"({s.at(d)})")
                continue
            try:
                results(row, s.at(d))
            except (TypeError, ValueError) as e:
                assert FORM.search(str(e)), f"{d.name}: a message in another form: {e}"
            else:
                raise AssertionError(f"{d.name} is taken, and the row does not say so")


# ---------------------------------------------------------------- derivatives


def _numbers(fn: Callable, sample: Sample, arrays: list, order: int) -> tuple[list, list, list, list, list]:
    """Results, gradients (None where there is none), those that depend on the operands, second gradients, and all weights."""
    ws: list[np.ndarray] = []
    weigh = weigher()

    def kept(t: Tensor) -> Tensor:
        w = weigh(t)
        ws.append(w.numpy())
        return w

    xs = tensors(Sample(*sample.fill(arrays)), grad=True)
    with executor.use("interpreter"):
        outs, gs, hs = derivatives(fn, sample, xs, order, kept)
        roots = [t.numpy() for t in outs if not t.stop_gradient]
        live = [g.numpy() for g in gs if g is not None and not g.stop_gradient]
        return roots, [None if g is None else g.numpy() for g in gs], live, [None if h is None else h.numpy() for h in hs], ws


def _dot(xs: list, ys: list) -> float:
    """Sum of the products of what is there: the real part of the inner product."""
    return float(sum([np.sum(np.real(np.conj(x) * y)) for x, y in zip(xs, ys, strict=True) if x is not None and y is not None]))


def _slopes(row: Row, sample: Sample, order: int) -> bool:
    """Along random directions: differences of the weighed results, against the gradient's part in that direction.

    Returns whether there was anything to differentiate.
    """
    arrays = sample.leaves()
    rng = np.random.default_rng(9)
    _, gs, _, hs, ws = _numbers(row.fn, sample, arrays, order)
    if not gs:
        return False  # integers
    for _ in range(2):
        ds = [rng.uniform(-1, 1, a.shape) + (1j * rng.uniform(-1, 1, a.shape) if a.dtype.kind == "c" else 0) for a in arrays]
        ds = ds if row.along is None else [row.along(d) if is_data(a) else d for a, d in zip(arrays, ds, strict=True)]
        moved = []
        for sign in (STEP, -STEP):
            there = [np.asarray(a + sign * d) if is_data(a) else a for a, d in zip(arrays, ds, strict=True)]
            moved.append(_numbers(row.fn, sample, there, order))
        along = [d for a, d in zip(arrays, ds, strict=True) if is_data(a)]
        n, which, found = len(moved[0][0]), 0 if order == 1 else 2, gs if order == 1 else hs or [None] * len(along)
        weights = ws[:n] if order == 1 else ws[n:]
        slope = (_dot(weights, moved[0][which]) - _dot(weights, moved[1][which])) / (2 * STEP)
        part = _dot(found, along)
        size = 1 + sum([float(np.sum(np.abs(f) * np.abs(d))) for f, d in zip(found, along, strict=True) if f is not None])
        assert abs(slope - part) <= 2e-6 * size * row.loose[0], f"({sample}): derivative {part:.9g}, differences say {slope:.9g}"
        if order > 1:
            _constant(row, sample, moved)
    return True


def _constant(row: Row, sample: Sample, moved: list) -> None:
    """A gradient that stops gradients does not depend on the operands."""
    (_, plus, live, _, _), (_, minus, _, _, _) = moved
    for p, m in zip(plus, minus, strict=True):
        if p is not None and not any(p is g or np.array_equal(p, g) for g in live):
            same(p, m, 1e-9, f"({sample}): a gradient without a gradient")


def gradient(row: Row) -> None:
    found = [_slopes(row, s, 1) for s in smooth(row, 4 if _is_op(row) else 2)]
    assert any(found) or row.grad_ref is not None, "no sample whose derivative was compared"
    if row.grad_ref is not None:
        found = [_against_rule(row, s) for s in row.plain()]
        assert any(found), "no sample that was compared with the rule for gradients"


def _against_rule(row: Row, sample: Sample) -> bool:
    """The gradient of each operand, against the row's own rule; returns whether there is any."""
    _, gs, _, _, ws = _numbers(row.fn, sample, sample.leaves(), 1)
    if not ws:
        return False  # integers
    args, kwargs = sample.fill([np.asarray(a) for a in sample.leaves()])
    want = row.grad_ref(ws[0], *args, **{row.rename.get(k, k): v for k, v in kwargs.items()})
    want = want if isinstance(want, tuple) else (want,)
    assert len(gs) == len(want), f"({sample}): {len(gs)} gradients, the rule gives {len(want)}"
    for g, w in zip(gs, want, strict=True):
        assert g is not None and w is not None, f"({sample}): a gradient that is not there"
        same(g, np.asarray(w), 1e-10, f"({sample}): gradient")
    return True


def second_order(row: Row) -> None:
    found = [_slopes(row, s, 2) for s in smooth(row, 4 if _is_op(row) else 2)]
    assert any(found), "no sample whose derivative was compared"


def gradient_types(row: Row) -> None:
    """In each floating type, the operand's gradient has its type and the numbers that double precision gives."""
    samples = [s for s in row.plain() if "dtype" not in s.kwargs and any(is_data(a) for a in s.leaves())][:1]
    compared = 0
    for d in sorted(row.dtypes & (FLOAT - {dtypes.float64}), key=lambda d: d.name):
        for s in samples:
            narrow = s.at(d)
            wide = Sample(*narrow.fill([w if isinstance(a, still) else widen(a) for a, w in zip(narrow.leaves(), s.leaves(), strict=True)]))
            found, want = [derivatives_of(row, x) for x in (narrow, wide)]
            compared += len(found)
            for g, w in zip(found, want, strict=True):
                same(g, w.astype(g.dtype) if w.dtype == np.float64 else w, 2 * row.loose[0] * TOLERANCE[d.name], f"({narrow}): gradient")
    assert compared, "no gradient was compared"


def derivatives_of(row: Row, sample: Sample) -> list[np.ndarray]:
    with executor.use("interpreter"):
        xs = tensors(sample, grad=True)
        _, gs, _ = derivatives(row.fn, sample, xs, 1, weigher())
        for x, g in zip([x for x in xs if not x.stop_gradient], gs, strict=True):
            assert g is None or g.dtype is x.dtype, f"({sample}): a gradient of {g.dtype.name} for an operand of {x.dtype.name}"
        return [g.numpy() for g in gs if g is not None]


def stopped(row: Row) -> None:
    """An operator without a gradient gives results that stop it."""
    found = row.plain(2)
    assert found, "no sample with finite elements"
    for s in found:
        args, kwargs = s.fill(tensors(s, grad=True))
        for t in flat(row.fn(*args, **kwargs)):
            assert t.stop_gradient, f"({s}): the result requires a gradient"


# ---------------------------------------------------------------- modes and executors


def _single(row: Row) -> list[Sample]:
    return [s.at(dtypes.float32) for s in row.varied()]


def _compare(got: list, want: list, row: Row, what: str) -> None:
    assert want, f"{what}: no values"
    assert len(got) == len(want), f"{what}: {len(got)} values instead of {len(want)}"
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        same(g, w, max(TOLERANCE.get(w.dtype.name, 0), 3e-6) * 4 * row.loose[0], f"{what}: value {i} of {len(want)}")


def _dynamic(row: Row) -> list[np.ndarray]:
    if "dynamic" not in row.cache:
        row.cache["dynamic"] = evaluate(row, _single(row), row.grad, "interpreter")
    return row.cache["dynamic"]


def _recorded(row: Row) -> Recorded:
    if "recorded" not in row.cache:
        row.cache["recorded"] = Recorded(row, _single(row), row.grad)
    return row.cache["recorded"]


def static(row: Row) -> None:
    try:
        found = _recorded(row).run("interpreter")
    except RuntimeError as e:
        raise AssertionError(f"cannot be recorded: {e}") from e
    _compare(found, _dynamic(row), row, "static")


def compiled(row: Row) -> None:
    """One program with results and both orders of gradients, against the interpreter."""
    found = evaluate(row, _single(row), row.grad, "xla") if "static" in row.skip else _recorded(row).run("xla")
    _compare(found, _dynamic(row), row, "compiled")


def compiled_types(row: Row) -> None:
    """Results in every declared type in one program, against the interpreter."""
    samples = [s.at(d) for d in sorted(row.dtypes, key=lambda d: d.name) for s in row.plain(2)]
    _compare(evaluate(row, samples, 0, "xla"), evaluate(row, samples, 0, "interpreter"), row, "compiled")


# ---------------------------------------------------------------- the ways to call it


def method(row: Row) -> None:
    names = row.target.options["method"]
    for name in [row.name] if names is True else names.split():
        bound = getattr(Tensor, name, None)
        assert bound is not None, f"Tensor.{name} is missing"
        samples = [s for s in row.plain() if s.args and isinstance(s.args[0], np.ndarray)][:2]
        assert samples, "no sample that starts with a tensor"
        for s in samples:
            for g, w in zip(results(row, s, fn=lambda x, *a, bound=bound, **k: bound(x, *a, **k)), results(row, s), strict=True):
                same(g, w, 0, f"x.{name}({s})")


def inplace(row: Row) -> None:
    """The twin changes its operand, returns it, and has the gradient of the function."""
    names = row.target.options["inplace"]
    name = row.name + "_" if names is True or row.name + "_" in names.split() else names.split()[0]
    twin = PUBLIC.get(name) if row.op is None else row.op.twin
    assert twin is not None and (row.op is not None or getattr(getattr(Tensor, name, None), "function", None) is twin), f"Tensor.{name} is missing"
    fitting = 0
    for s in [s for s in row.plain() if s.args]:
        want = results(row, s)[0]
        first = s.leaves()[0]
        shaped = want.shape == first.shape or row.target.options.get("view") or row.name in ("t", "squeeze", "unsqueeze", "flatten")
        if not shaped:
            continue
        fitting += 1
        options = row.target.options
        retyped = "dtype" in s.kwargs or any(options.get(k) for k in ("retype", "promote", "floats"))
        kept = want if retyped else want.astype(first.dtype)
        xs = tensors(s, grad=True)
        args, kwargs = s.fill(xs)
        with executor.use("interpreter"):
            x = args[0].clone()
            bireme.seed(11)
            got = twin(x, *args[1:], **kwargs)
            assert got is x, f"{name}({s}) returns another tensor"
            same(x.numpy(), kept, 1e-12, f"{name}({s})")
            if row.grad and want.dtype == first.dtype and is_data(first):
                made = row.fn(*args, **kwargs)
                mine, yours = [bireme.grad(t, args[0], weigher()(t))[0].numpy() for t in (x, made)]
                same(mine, yours, 1e-12, f"{name}({s}): gradient")
    assert fitting, "no sample that the twin can take"


def out(row: Row) -> None:
    s = row.plain(1)[0]
    args, kwargs = s.fill(tensors(s))
    want = results(row, s)
    with executor.use("interpreter"):
        given = [bireme.zeros(list(w.shape), w.dtype) for w in want]
        bireme.seed(11)
        got = row.fn(*args, **kwargs, out=given if len(want) > 1 else given[0])
        for g, t, w in zip(flat(got), given, want, strict=True):
            assert g is t, f"({s}): another tensor than `out` is returned"
            same(t.numpy(), w, 0, f"({s}, out=...)")


def aliases(row: Row) -> None:
    sign = row.target.signature
    left = set(sign.aliases)
    for s in row.samples:
        named = {**dict(zip(sign.positional, s.args, strict=False)), **s.kwargs}
        if len(s.args) > len(sign.positional):
            continue
        for alias in [a for a in left if sign.aliases[a] in named]:
            own = sign.aliases[alias]
            other = Sample((), {alias if k == own else k: v for k, v in named.items()})
            for g, w in zip(results(row, other), results(row, s), strict=True):
                same(g, w, 0, f"({other})")
            left.discard(alias)
    assert not left, f"no sample passes {', '.join(f'{sign.aliases[a]} (as {a})' for a in sorted(left))}"


def refusals(row: Row) -> None:
    """Bad input by message: the row's own, an unknown keyword, and text where a tensor goes."""
    s = row.samples[0]
    _refused(row, Sample(s.args, {**s.kwargs, "no_such_keyword": 1}), f"{row.target.told}(no_such_keyword): expected a keyword among ", TypeError)
    first = row.target.signature.operands[:1]
    if (
        first
        and first[0].kind in ("tensor", "number")
        and first[0].name == row.target.signature.positional[0]
        and s.args
        and isinstance(s.args[0], np.ndarray)
    ):
        _refused(row, Sample(("text", *s.args[1:]), s.kwargs), f"{row.target.told}({first[0].name}): expected a Tensor", TypeError)
    for b in row.bad:
        _refused(row, b.sample, b.message, b.kind)


def _refused(row: Row, sample: Sample, message: str, kind: type[Exception]) -> None:
    args, kwargs = sample.fill(tensors(sample))
    try:
        with executor.use("interpreter"):
            for t in flat(row.fn(*args, **kwargs)):
                t.numpy()
    except kind as e:
        assert str(e).startswith(message), f"({sample}): the message is {str(e)!r}"
        assert FORM.search(str(e)), f"({sample}): a message in another form: {e}"
        return
    except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError, AssertionError) as e:
        raise AssertionError(f"({sample}): {type(e).__name__} instead of {kind.__name__}: {e}") from e
    raise AssertionError(f"({sample}) is taken; expected: {message}")


# ---------------------------------------------------------------- which apply


def _is_op(row: Row) -> bool:
    return isinstance(row.target, Op)


def _has_tensors(row: Row) -> bool:
    return any(s.leaves() for s in row.samples)


CHECKS: dict[str, tuple[Callable, Callable]] = {
    "forward": (forward, lambda row: True),
    "zero size": (empty, _has_tensors),
    "0-d": (scalar, _has_tensors),
    "dtypes": (types, lambda row: bool(row.dtypes)),
    "gradient": (gradient, lambda row: row.grad > 0),
    "second order": (second_order, lambda row: row.grad > 0),
    "gradient dtypes": (gradient_types, lambda row: row.grad > 0 and bool(row.dtypes)),
    "no gradient": (stopped, lambda row: row.grad == 0),
    "static": (static, lambda row: True),
    "compiled": (compiled, lambda row: True),
    "method": (method, lambda row: bool(row.target.options.get("method"))),
    "in-place": (inplace, lambda row: bool(row.target.options.get("inplace"))),
    "out": (out, lambda row: bool(row.target.options.get("out"))),
    "aliases": (aliases, lambda row: bool(row.target.signature.aliases)),
    "bad input": (refusals, lambda row: True),
    "inference": (rules.inference, lambda row: _is_op(row) and row.target.infer_rule is not None),
    "width": (rules.width, lambda row: _is_op(row)),
    "half precision": (rules.half, lambda row: _is_op(row) and bool(row.dtypes & HALVES)),
    "gradient rule": (rules.gradient_rule, lambda row: _is_op(row) and row.target.grad_rule is not None and row.grad > 0),
    "lowerings": (rules.lowerings, lambda row: _is_op(row) and bool(row.target.lowerings or row.target.grad_lowerings)),
}


# A composite has no rules of its own: each operator that it is made of goes through these, so for most they wait for --full.
OF_PARTS = ("second order", "gradient dtypes", "static", "compiled")


def problems(row: Row, only: str | None = None, without: tuple[str, ...] = ()) -> list[str]:
    """Every check that does not hold, and every skip that is not needed."""
    found = []
    unknown = set(row.skip) - {name for name, (_, applies) in CHECKS.items() if applies(row)}
    found += [f"skip of {name!r}: no such check for this operator" for name in sorted(unknown)]
    for name, (check, applies) in CHECKS.items():
        if not applies(row) or name in without or (only is not None and name != only):
            continue
        failed = None
        try:
            check(row)
        except AssertionError as e:
            failed = str(e) or "an assertion of the engine"
        except (TypeError, ValueError, IndexError, RuntimeError, ArithmeticError, AttributeError, KeyError, NotImplementedError) as e:
            failed = f"{type(e).__name__}: {e}"
        if failed and name not in row.skip:
            found.append(f"{name}: {failed}")
        if not failed and name in row.skip:
            found.append(f"skip of {name!r} is not needed: the check holds")
    return found


def unmatched(rows: list[Row], ops: dict = OPS) -> list[str]:
    """Operators without a row, rows without an operator, and rows that are there twice."""
    names = [r.name for r in rows]
    return [
        *[f"no row for {n}" for n in ops if n not in names],
        *[f"row for {n}, which is no operator" for n in names if n not in ops],
        *[f"two rows for {n}" for n in sorted(set(names)) if names.count(n) > 1],
    ]
