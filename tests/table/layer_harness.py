"""The table of layers: what a row says about a layer, and the checks that it drives."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import bireme
from bireme.core.base import dtype as dtypes
from bireme.core.graph import executor
from bireme.core.record.capture import capture
from bireme.core.tensor.tensor import Tensor, wrap
from tests.table.harness import Bad, Sample, call, flat, same, still, weight_like

TOLERANCE = {"float32": 2e-5, "float64": 1e-9}
MODULES = (bireme.nn, bireme.incubate.nn)  # where layers stand


@dataclass
class LayerRow:
    """Everything the table knows about one layer."""

    name: str
    init: Sample = field(default_factory=call)  # how it is made
    inputs: list[Any] = field(default_factory=list)  # shapes of float inputs, or Samples; the first is trained on
    params: dict[str, tuple] | None = field(default_factory=dict)  # names and shapes; None: too many to list
    ref: Callable | None = None  # (*inputs, **parameters) -> result, on float64 arrays
    out: Callable | None = None  # (*shapes of inputs) -> shape of the result, where there is no reference
    modes: tuple[str, ...] = ("train", "eval")  # in which the reference holds
    bad: list[Bad] = field(default_factory=list)  # calls of forward that must be refused
    bad_init: list[Bad] = field(default_factory=list)  # ways to make it that must be refused
    skip: dict[str, str] = field(default_factory=dict)  # check -> why it cannot hold
    loose: tuple[float, str] = (1, "")  # wider tolerance, and why
    make: Callable | None = None  # instead of the class under `bireme.nn`: for containers and controls

    def build(self, seed: int = 7) -> Any:
        bireme.seed(seed)
        made = (
            self.make
            if self.make is not None
            else next(getattr(m, self.name) for m in MODULES if hasattr(m, self.name))
        )
        args, kwargs = self.init.fill([bireme.to_tensor(a) for a in self.init.leaves()])
        return made(*args, **kwargs)

    def samples(self) -> list[Sample]:
        """The inputs as Samples; a shape stands for numbers drawn from a normal distribution."""
        rng = np.random.default_rng(3)
        return [s if isinstance(s, Sample) else call(rng.standard_normal(s)) for s in self.inputs]


def tensors(sample: Sample, dtype: str, grad: bool = False) -> list[Tensor]:
    arrays = [a.astype(dtypes.of(dtype).np) if a.dtype == np.float64 else a for a in sample.leaves()]
    return [
        bireme.to_tensor(np.asarray(a), stop_gradient=not grad or a.dtype.kind != "f" or isinstance(a, still))
        for a in arrays
    ]


def run(layer: Any, sample: Sample, xs: list[Tensor], seed: int = 11) -> list[Tensor]:
    args, kwargs = sample.fill(xs)
    bireme.seed(seed)  # layers that draw at random draw the same
    return [t for t in flat(layer(*args, **kwargs)) if isinstance(t, Tensor)]


def once(outs: list[Tensor]) -> list[Tensor]:
    """Each tensor once: what `grad` takes, where a layer gives one as its output and as its state."""
    return list({id(t): t for t in outs}.values())


def in_double(row: LayerRow) -> Any:
    layer = row.build()
    layer.to(dtype="float64")
    return layer


# ---------------------------------------------------------------- checks


def parameters(row: LayerRow) -> None:
    """Names and shapes of the parameters, a state dict with the buffers too, and a text that names the class."""
    layer = row.build()
    found = {n: tuple(p.shape) for n, p in layer.named_parameters()}
    assert row.params is None or found == row.params, f"parameters {found} instead of {row.params}"
    assert type(layer).__name__ in repr(layer), f"repr is {layer!r}"


def forward(row: LayerRow) -> None:
    """The reference's numbers, or at least its shape; inputs without rows too."""
    assert row.ref is not None or row.out is not None, "neither a reference nor a shape"
    assert row.modes and any(all(a.size for a in s.leaves()) for s in row.samples()), "no input with elements"
    for mode in row.modes:
        layer = in_double(row)
        getattr(layer, mode)()
        state = {n.replace(".", "_"): p.numpy() for n, p in layer.named_parameters()}
        state |= {n.replace(".", "_"): b.numpy() for n, b in layer.named_buffers()}
        for sample in row.samples():
            made = run(layer, sample, tensors(sample, "float64"))
            got = [t.numpy() for t in made]
            if row.ref is not None:
                args, kwargs = sample.args, sample.kwargs
                takes = inspect.signature(row.ref).parameters
                every = any(p.kind is p.VAR_KEYWORD for p in takes.values())
                want = row.ref(*args, **kwargs, **{k: v for k, v in state.items() if every or k in takes})
                want = [np.asarray(w) for w in (want if isinstance(want, (list, tuple)) else [want])]
                for g, w in zip(got, want, strict=True):
                    same(g, w.astype(g.dtype), row.loose[0] * TOLERANCE["float64"], f"{mode}({sample})")
            else:
                shapes = [a.shape for a in sample.leaves()]
                assert tuple(got[0].shape) == tuple(row.out(*shapes)), f"({sample}): shape {got[0].shape}"


def gradient(row: LayerRow) -> None:
    """A step along a random direction changes the result as the gradients of inputs and parameters say."""
    layer, sample = in_double(row), row.samples()[0]
    rng = np.random.default_rng(5)
    xs = tensors(sample, "float64", grad=True)
    moving = [t for t in [*xs, *layer.parameters()] if not t.stop_gradient]
    outs = once([t for t in run(layer, sample, xs) if t.dtype.is_inexact])
    weights = [bireme.to_tensor(weight_like(rng, t.shape, t.dtype)) for t in outs]
    gs = bireme.grad(outs, moving, weights, allow_unused=True)
    assert any(g is not None for g in gs), "no gradient"
    steps = [rng.standard_normal(t.shape) for t in moving]
    slope = sum(float((g.numpy() * s).sum()) for g, s in zip(gs, steps, strict=True) if g is not None)
    buffers = {n: b.numpy() for n, b in layer.named_buffers()}

    def total(h: float) -> float:
        with bireme.no_grad():
            before = [t.numpy() for t in moving]
            for t, s in zip(moving, steps, strict=True):
                t.set_value(bireme.to_tensor(t.numpy() + h * s))
            for n, b in layer.named_buffers():
                b.set_value(buffers[n])
            made = once([t for t in run(layer, sample, xs) if t.dtype.is_inexact])
            value = sum(float((t * w).sum()) for t, w in zip(made, weights, strict=True))
            for t, b in zip(moving, before, strict=True):
                t.set_value(b)
        return value

    h = 1e-5
    want = (total(h) - total(-h)) / (2 * h)
    assert abs(slope - want) <= 1e-5 * row.loose[0] * (1 + abs(want)), (
        f"a slope of {slope:.8g} where differences give {want:.8g}"
    )


def state_dict(row: LayerRow) -> None:
    """Another layer of other numbers computes the same with this one's state; and a deep copy does."""
    layer, other, sample = row.build(1), row.build(2), row.samples()[0]
    state = {k: v.numpy() for k, v in layer.state_dict().items()}
    missing, unexpected = other.set_state_dict(state)
    assert not missing and not unexpected, f"missing {missing}, unexpected {unexpected}"
    for twin in (other, copy.deepcopy(layer)):
        twin.eval()
        layer.eval()
        ours, theirs = ([t.numpy() for t in run(m, sample, tensors(sample, "float32"))] for m in (layer, twin))
        assert ours, "no results"
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)


def training(row: LayerRow) -> None:
    """A few steps bring the result closer to a target; the parameters stay what they are, but for their numbers."""
    layer, sample = row.build(), row.samples()[0]
    xs = tensors(sample, "float32", grad=True)
    moving = [p for p in layer.parameters() if not p.stop_gradient] or [x for x in xs if not x.stop_gradient]
    held = [bireme.nn.Layer().create_parameter(t.shape) for t in moving] if not layer.parameters() else moving
    if not layer.parameters():
        for p, x in zip(held, moving, strict=True):
            p.set_value(x)
        rest = iter(held)
        xs = [x if x.stop_gradient else next(rest) for x in xs]
    first = [t for t in run(layer, sample, xs) if t.dtype.is_inexact and not t.stop_gradient]
    rng = np.random.default_rng(9)
    targets = [
        bireme.to_tensor((t.numpy() + 0.1 * rng.standard_normal(t.shape)).astype(t.numpy().dtype)) for t in first
    ]
    opt = bireme.optimizer.Adam(1e-3, parameters=held)
    losses = []
    for _ in range(6):
        made = [t for t in run(layer, sample, xs) if t.dtype.is_inexact and not t.stop_gradient]
        loss = sum(((t - y) ** 2).sum() for t, y in zip(made, targets, strict=True))
        loss.backward()
        opt.step()
        opt.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0], f"losses {losses}"


def static(row: LayerRow) -> None:
    """Recorded into a graph with symbolic inputs, it gives what it gives dynamically, interpreted and compiled."""
    layer, sample = row.build(), row.samples()[0]
    layer.eval()
    xs = tensors(sample, "float32")
    want = [t.numpy() for t in run(layer, sample, xs)]
    assert want, "no results"
    with capture() as graph:
        inputs = [wrap(graph.input(tuple(x.shape), x.dtype)) for x in xs]
        outs = run(layer, sample, inputs)
    program = graph.finish([t._value for t in outs])
    for by in ("interpreter", "xla"):
        for a, b in zip(program.run([x.numpy() for x in xs], by=by), want, strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-5, err_msg=by)


def compiled(row: LayerRow) -> None:
    """Interpreted and compiled, forward and backward agree."""
    found = {}
    for by in ("interpreter", "xla"):
        layer, sample = row.build(), row.samples()[0]
        with executor.use(by):
            xs = tensors(sample, "float32", grad=True)
            outs = once([t for t in run(layer, sample, xs) if t.dtype.is_inexact and not t.stop_gradient])
            moving = [t for t in [*xs, *layer.parameters()] if not t.stop_gradient]
            rng = np.random.default_rng(5)
            weights = [bireme.to_tensor(weight_like(rng, t.shape, t.dtype)) for t in outs]
            gs = bireme.grad(outs, moving, weights, allow_unused=True)
            assert any(g is not None for g in gs), "no gradient"
            found[by] = [t.numpy() for t in [*outs, *gs] if t is not None]
    for a, b in zip(found["interpreter"], found["xla"], strict=True):
        same(a, b, 50 * TOLERANCE["float32"] * row.loose[0], "interpreted and compiled")


def mixed_precision(row: LayerRow) -> None:
    """Under auto_cast with bfloat16, results and gradients are those of float32 but for rounding; gradients have their
    parameter's type.
    """
    found = {}
    for low in (False, True):
        layer, sample = row.build(), row.samples()[0]
        xs = tensors(sample, "float32", grad=True)
        with executor.use("interpreter"):
            with bireme.amp.auto_cast(enable=low, level="O1", dtype="bfloat16"):
                outs = once([t for t in run(layer, sample, xs) if t.dtype.is_inexact and not t.stop_gradient])
            moving = [t for t in [*xs, *layer.parameters()] if not t.stop_gradient]
            outs = [t.astype("float32") for t in outs]
            rng = np.random.default_rng(5)
            weights = [bireme.to_tensor(weight_like(rng, t.shape, t.dtype)) for t in outs]
            gs = bireme.grad(outs, moving, weights, allow_unused=True)
            assert any(g is not None for g in gs), "no gradient"
            assert all(g is None or g.dtype is t.dtype for g, t in zip(gs, moving, strict=True)), (
                "a gradient of another type than its parameter's"
            )
            found[low] = [t.numpy() for t in [*outs, *gs] if t is not None]
    for exact, rounded in zip(found[False], found[True], strict=True):
        apart, size = np.linalg.norm(rounded - exact), np.linalg.norm(exact)
        assert apart <= 0.05 * row.loose[0] * (size + 1e-3 * max(np.linalg.norm(a) for a in found[False])), (
            f"{apart:.3g} apart, of {size:.3g}"
        )


def refusals(row: LayerRow) -> None:
    """Wrong inputs and wrong arguments are refused with a clear sentence; so is text in the place of a tensor, if
    nothing else is.
    """
    if not row.bad and not row.bad_init:
        sample = row.samples()[0]
        args, kwargs = sample.fill(tensors(sample, "float32"))
        _refused(
            lambda: row.build()("text", *args[1:], **kwargs),
            Bad(call("text", *sample.args[1:]), ": expected ", TypeError),
        )
    for bad in row.bad:
        layer = row.build()
        _refused(lambda bad=bad, layer=layer: run(layer, bad.sample, tensors(bad.sample, "float32")), bad)
    for bad in row.bad_init:
        _refused(lambda bad=bad: LayerRow(row.name, bad.sample, make=row.make).build(), bad)


def _refused(attempt: Callable, bad: Bad) -> None:
    try:
        attempt()
    except bad.kind as e:
        assert bad.message in str(e), f"({bad.sample}): the message is {str(e)!r}"
        return
    raise AssertionError(f"({bad.sample}): not refused")


CHECKS = {
    f.__name__.replace("_", " "): f
    for f in (parameters, forward, gradient, state_dict, training, mixed_precision, static, compiled, refusals)
}


def problems(row: LayerRow, only: str | None = None) -> list[str]:
    """What is wrong with a layer; a skipped check that would hold is wrong as well."""
    unknown = set(row.skip) - set(CHECKS)
    found = [f"skip: no check named {name}" for name in sorted(unknown)]
    for name, check in CHECKS.items():
        if only is not None and name != only:
            continue
        try:
            check(row)
        except (AssertionError, ValueError, TypeError, RuntimeError, LookupError, AttributeError) as e:
            if name not in row.skip:
                found.append(f"{name}: {type(e).__name__}: {e}")
        else:
            if name in row.skip:
                found.append(f"{name}: holds, though the row says that it cannot: {row.skip[name]}")
    return found


def layers() -> set[str]:
    """Names of the public layers of `MODULES`, but for `Layer` itself."""
    public = {n: getattr(m, n) for m in MODULES for n in m.__all__}
    return {
        n
        for n, v in public.items()
        if inspect.isclass(v) and issubclass(v, bireme.nn.Layer) and v is not bireme.nn.Layer
    }
