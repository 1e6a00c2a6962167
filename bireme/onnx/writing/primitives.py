"""Calls without a converter, whose sizes are all known: what the compiler is given of them, primitive by primitive."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.dtype import DType
from bireme.core.program.building import suspended
from bireme.core.program.program import Operation, leaves, mapped
from bireme.core.program.variable import Dim, Symbol
from bireme.core.record.capture import capture
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.tensor import Tensor, wrap
from bireme.core.xla_exec import tracing
from bireme.onnx.writing.graph import Val, Writer
from bireme.onnx.writing.table import Unwritten

PRIMITIVES: dict[str, Callable] = {}


def write(w: Writer, operation: Operation) -> list[Val]:
    """Write a call by its primitives."""
    symbols = list(dict.fromkeys([x for x in operation.reads if isinstance(x, Symbol)]))
    if any(isinstance(n, Dim) for s in (*symbols, *operation.makes) for n in s.shape):
        raise Unwritten
    with suspended(), no_grad(), capture() as captured:
        stand = {s: wrap(captured.input(s.samples[0].sig.shape, s.dtype)) for s in symbols}

        def given(x: Any) -> Any:
            if isinstance(x, Dim):
                return x.find(lambda s, axis: s.samples[0].sig.shape[axis])
            return stand[x] if isinstance(x, Symbol) else x

        args, kwargs = mapped(given, (operation.args, operation.kwargs))
        try:
            made = operation.call(*args, **kwargs)
        except errors.TELLING:
            raise Unwritten from None
        results = [x for x in leaves(made) if isinstance(x, Tensor)]
    if not any(t.size for t in results):
        return [w.constant(np.zeros(t.shape, t.dtype.np)) for t in results]
    program = captured.finish([t._value for t in results])
    if any(node.bound.op.draws for node in program.graph.nodes if hasattr(node.bound.op, "draws")):
        raise Unwritten("random numbers")
    live = tuple(sorted({i for i in program._outputs if isinstance(i, int)}))
    arrays = list(program._leaves)
    values: list[Any] = list(arrays)
    for s, leaf in zip(symbols, program.inputs):
        if leaf is not None:
            arrays[leaf], values[leaf] = s.samples[0].sig, w.value(s)
    values = [x if isinstance(x, Val) else np.asarray(x) for x in values]
    closed = tracing.traced(program.graph, live, arrays, program.graph.pack(program._numbers))
    found = dict(zip(live, evaluated(w, closed.jaxpr, [np.asarray(c) for c in closed.consts], values)))
    outs = [found[i] if isinstance(i, int) else w.value(symbols[i[1]]) if i[0] == "input" else np.asarray(i[1])
            for i in program._outputs]  # fmt: skip
    return [as_value(w, x) for x in outs]


def as_value(w: Writer, x: Any) -> Val:
    return x if isinstance(x, Val) else w.constant(np.asarray(x))


def evaluated(w: Writer, jaxpr: Any, consts: list, given: list) -> list[Any]:
    """Write the equations of a jaxpr; its results, as values or constants."""
    env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *given)))

    def read(atom: Any) -> Any:
        return np.asarray(atom.val, atom.aval.dtype) if tracing.is_literal(atom) else env[atom]

    for e in jaxpr.eqns:
        operands = [read(a) for a in e.invars]
        name = e.primitive.name
        if name in INLINED:
            inner = e.params[INLINED[name]]
            made = evaluated(w, inner.jaxpr, [np.asarray(c) for c in inner.consts], operands)
        elif not any(isinstance(x, Val) for x in operands) and name not in ("while", "scan", "cond"):
            made = tracing.folded(e, operands)
        elif name in ("optimization_barrier",):
            made = operands
        else:
            rule = PRIMITIVES.get(name)
            if rule is None:
                raise Unwritten(name)
            made = _without_elements(w, e) or rule(w, Equation(w, e, operands))
            made = made if isinstance(made, list) else [made]
        for var, x in zip(e.outvars, made):
            env[var] = x
    return [read(a) for a in jaxpr.outvars]


def _without_elements(w: Writer, e: Any) -> list[Any] | None:
    """Results that have no elements, or that are reduced from none, are constants."""
    if all(0 in a.aval.shape for a in e.outvars):
        return [np.zeros(a.aval.shape, a.aval.dtype) for a in e.outvars]
    if 0 in e.invars[0].aval.shape and e.primitive.name in ("reduce_sum", "reduce_or", "reduce_and", "reduce_prod"):
        value = e.primitive.name in ("reduce_and", "reduce_prod")
        return [np.full(a.aval.shape, value, a.aval.dtype) for a in e.outvars]
    return None


INLINED = {  # primitives that hold others, and under which name
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat": "jaxpr",
    "checkpoint": "jaxpr",
    "linear_call": "callee",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}


class Equation:
    """A primitive with its operands."""

    def __init__(self, w: Writer, e: Any, operands: list[Any]):
        self.w, self.params, self.operands = w, e.params, operands
        self.shapes = [tuple(a.aval.shape) for a in e.invars]
        self.outs = [a.aval for a in e.outvars]

    def __getitem__(self, name: str) -> Any:
        return self.params[name]

    def value(self, i: int = 0, dtype: DType | None = None) -> Val:
        made = as_value(self.w, self.operands[i])
        return made if dtype is None else made.to(dtype)

    @property
    def values(self) -> list[Val]:
        return [as_value(self.w, x) for x in self.operands]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first operand."""
        return self.shapes[0]

    @property
    def dtype(self) -> DType:
        """Of the first result."""
        return dtypes.from_numpy(self.outs[0].dtype)

    @property
    def out(self) -> tuple[int, ...]:
        return tuple(self.outs[0].shape)


def primitive(*names: str) -> Callable:
    def declare(fn: Callable) -> Callable:
        PRIMITIVES.update(dict.fromkeys(names, fn))
        return fn

    return declare


# ------------------------------------------------------------ elementwise


def _node(op: str) -> Callable:
    return lambda w, e: w(op, *e.values, dtype=e.dtype)


for _name, _op in {
    **{n: n.capitalize() for n in ("neg", "sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "abs", "floor", "ceil")},
    **{n: n.capitalize() for n in ("erf", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "sign")},
    "logistic": "Sigmoid",
    "add": "Add",
    "add_any": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "pow": "Pow",
    "eq": "Equal",
    "lt": "Less",
    "le": "LessOrEqual",
    "gt": "Greater",
    "ge": "GreaterOrEqual",
    "copy": "Identity",
    "lt_to": "Less",
    "le_to": "LessOrEqual",
    "copy_p": "Identity",
    "reduce_precision": "Identity",
    "stop_gradient": "Identity",
}.items():
    PRIMITIVES[_name] = _node(_op)


FORMULAS: dict[str, Callable] = {
    "rsqrt": lambda x: 1 / x.w("Sqrt", x),
    "square": lambda x: x * x,
    "log1p": lambda x: x.w("Log", x + 1),
    "expm1": lambda x: x.w("Exp", x) - 1,
    "exp2": lambda x: x.w("Exp", x * math.log(2)),
    "cbrt": lambda x: x.w("Sign", x) * x.w("Abs", x) ** (1 / 3),
    "is_finite": lambda x: (
        ~(x.w("IsNaN", x, dtype=dtypes.bool_) | x.w("IsInf", x.to(dtypes.float32), dtype=dtypes.bool_))
    ),
    "not": lambda x: ~x if x.dtype is dtypes.bool_ else x.w("BitwiseNot", x),
    "ne": lambda x, y: x != y,
}
for _name, _made in FORMULAS.items():
    PRIMITIVES[_name] = lambda w, e, f=_made: f(*e.values)


PRIMITIVES["max"] = lambda w, e: _extreme(w, e, "Max")
PRIMITIVES["min"] = lambda w, e: _extreme(w, e, "Min")


def _extreme(w: Writer, e: Equation, op: str) -> Val:
    x, y = e.values
    if x.dtype is dtypes.bool_:
        return w("Or" if op == "Max" else "And", x, y)
    return w(op, x, y)


def _bits(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        x, y = e.values
        return w(op if x.dtype is dtypes.bool_ else f"Bitwise{op}", x, y)

    return rule


PRIMITIVES.update({"and": _bits("And"), "or": _bits("Or"), "xor": _bits("Xor")})


@primitive("div")
def _(w: Writer, e: Equation) -> Val:
    return e.value(0) / e.value(1)


@primitive("rem")
def _(w: Writer, e: Equation) -> Val:
    return w("Mod", *e.values, fmod=1)


@primitive("round")
def _(w: Writer, e: Equation) -> Val:
    x = e.value()
    if int(e["rounding_method"]) == 1:
        return w("Round", x)
    return w("Sign", x) * w("Floor", w("Abs", x) + 0.5)


@primitive("integer_pow")
def _(w: Writer, e: Equation) -> Val:
    return e.value() ** e["y"]


@primitive("clamp")
def _(w: Writer, e: Equation) -> Val:
    low, x, high = e.values
    return w("Min", w("Max", x, low), high)


@primitive("atan2")
def _(w: Writer, e: Equation) -> Val:
    y, x = e.values
    base = w("Atan", y / w.where(x == 0, 1.0, x))
    turned = w.where(y < 0, base - math.pi, base + math.pi)
    made = w.where(x > 0, base, w.where(x < 0, turned, w("Sign", y) * (math.pi / 2)))
    return made


@primitive("convert_element_type")
def _(w: Writer, e: Equation) -> Val:
    return e.value().to(e.dtype)


@primitive("select_n")
def _(w: Writer, e: Equation) -> Val:
    which, *cases = e.values
    if len(cases) != 2 or which.dtype is not dtypes.bool_:
        raise Unwritten
    return w("Where", which, cases[1], cases[0])


def _shifted(left: bool, signed: bool) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        x, by = e.values
        if not signed and x.dtype.name in ("int8", "int16", "int32", "int64", "uint64"):
            raise Unwritten("shifts of bits")
        wide, power = x.to(dtypes.int64), w.number(2, dtypes.int64) ** by.to(dtypes.int64)
        return (wide * power if left else (wide - wide % power) / power).to(x.dtype)

    return rule


PRIMITIVES.update({"shift_left": _shifted(True, True), "shift_right_arithmetic": _shifted(False, True),
                   "shift_right_logical": _shifted(False, False)})  # fmt: skip


# ------------------------------------------------------------ shapes


@primitive("reshape")
def _(w: Writer, e: Equation) -> Val:
    return _reshaped(w, e.value(), e.out)


def _reshaped(w: Writer, x: Val, shape: Any) -> Val:
    return w("Reshape", x, w.ints(shape), allowzero=1) if 0 in tuple(shape) else w.reshape(x, shape)


@primitive("squeeze", "expand_dims")
def _(w: Writer, e: Equation) -> Val:
    return _reshaped(w, e.value(), e.out)


@primitive("broadcast_in_dim")
def _(w: Writer, e: Equation) -> Val:
    shape = [1] * len(e.out)
    for i, d in enumerate(e["broadcast_dimensions"]):
        shape[d] = e.shape[i]
    return w("Expand", _reshaped(w, e.value(), shape), w.ints(e.out))


@primitive("transpose")
def _(w: Writer, e: Equation) -> Val:
    return w.transpose(e.value(), e["permutation"])


@primitive("concatenate")
def _(w: Writer, e: Equation) -> Val:
    return w("Concat", *e.values, axis=e["dimension"])


@primitive("stack")
def _(w: Writer, e: Equation) -> Val:
    axis = e.params["axis"] if "axis" in e.params else e["dimension"]
    return w("Concat", *[w.unsqueeze(x, axis) for x in e.values], axis=axis)


@primitive("tile")
def _(w: Writer, e: Equation) -> Val:
    return w("Tile", e.value(), w.ints(e["reps"]))


@primitive("split")
def _(w: Writer, e: Equation) -> list[Val]:
    if len(e["sizes"]) == 1:
        return [e.value()]
    return w("Split", e.value(), w.ints(e["sizes"]), n=len(e["sizes"]), axis=e["axis"])


@primitive("slice")
def _(w: Writer, e: Equation) -> Val:
    n = len(e.shape)
    return (
        w.slice(e.value(), range(n), e["start_indices"], e["limit_indices"], e["strides"] or [1] * n)
        if n
        else e.value()
    )


def _starts(w: Writer, e: Equation, first: int, sizes: Any) -> Val:
    """Where a slice starts, so that it lies inside."""
    room = [n - m for n, m in zip(e.shape, sizes)]
    given = [w.reshape(as_value(w, x).to(dtypes.int64), [1]) for x in e.operands[first:]]
    at = w("Concat", *given, axis=0)
    at = w("Min", at, w.constant(np.asarray(room, np.int64)))
    return w("Max", at, w.constant(np.zeros(len(room), np.int64)))


@primitive("dynamic_slice")
def _(w: Writer, e: Equation) -> Val:
    sizes, n = e["slice_sizes"], len(e.shape)
    if not n:
        return e.value()
    at = _starts(w, e, 1, sizes)
    return w("Slice", e.value(), at, at + w.constant(np.asarray(sizes, np.int64)), w.ints(range(n)))


@primitive("dynamic_update_slice")
def _(w: Writer, e: Equation) -> Val:
    sizes, n = e.shapes[1], len(e.shape)
    if not n:
        return e.value(1)
    if 0 in sizes or 0 in e.shape:
        return e.value()
    at = _starts(w, e, 2, sizes)
    strides = np.asarray([math.prod(e.shape[i + 1 :]) for i in range(n)], np.int64)
    inside = sum([s * np.arange(m).reshape([-1 if j == i else 1 for j in range(n)])
                  for i, (s, m) in enumerate(zip(strides, sizes))])  # fmt: skip
    places = w.constant(np.asarray(inside, np.int64).reshape(-1)) + w.reduce("Sum", at * w.constant(strides), [0])
    flat = w("ScatterElements", w.reshape(e.value(), [-1]), places, w.reshape(e.value(1), [-1]), axis=0)
    return w.reshape(flat, e.shape)


@primitive("rev")
def _(w: Writer, e: Equation) -> Val:
    axes = list(e["dimensions"])
    if not axes:
        return e.value()
    return w.slice(e.value(), axes, [-1] * len(axes), [np.iinfo(np.int64).min] * len(axes), [-1] * len(axes))


@primitive("pad")
def _(w: Writer, e: Equation) -> Val:
    return _padded(w, e.value(0), e.value(1), e.shape, e["padding_config"])


def _padded(w: Writer, x: Val, fill: Val, shape: tuple, config: Any) -> Val:
    narrow = x.dtype if x.dtype is dtypes.bool_ else None
    if narrow:
        x, fill = x.to(dtypes.int32), fill.to(dtypes.int32)
    sizes = list(shape)
    for axis, (_, _, inner) in enumerate(config):
        if inner and sizes[axis] > 1:
            x = w.unsqueeze(x, axis + 1)
            pads = [0] * (2 * len(sizes) + 2)
            pads[len(sizes) + 1 + axis + 1] = inner
            x = w("Pad", x, w.ints(pads), fill)
            wide = sizes[axis] * (inner + 1)
            x = w.reshape(x, [*sizes[:axis], wide, *sizes[axis + 1 :]])
            sizes[axis] = wide - inner
            x = w.slice(x, [axis], [0], [sizes[axis]])
    low, high = [c[0] for c in config], [c[1] for c in config]
    if any(n > 0 for n in (*low, *high)):
        x = w("Pad", x, w.ints([max(n, 0) for n in low] + [max(n, 0) for n in high]), fill)
    cut = [i for i in range(len(sizes)) if low[i] < 0 or high[i] < 0]
    if cut:
        ends = [sizes[i] + max(low[i], 0) + builtins.min(high[i], 0) for i in cut]
        x = w.slice(x, cut, [max(-low[i], 0) for i in cut], ends)
    return x.to(narrow) if narrow else x


# ------------------------------------------------------------ reductions


def _reduction(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        x = e.value()
        if x.dtype is dtypes.bool_:
            return w.reduce(op, x.to(dtypes.int32), e["axes"], keepdims=False).to(dtypes.bool_)
        return w.reduce(op, x, e["axes"], keepdims=False)

    return rule


PRIMITIVES.update({"reduce_sum": _reduction("Sum"), "reduce_max": _reduction("Max"), "reduce_min": _reduction("Min"),
                   "reduce_prod": _reduction("Prod"), "reduce_and": _reduction("Min"), "reduce_or": _reduction("Max")})  # fmt: skip


def _arg(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        return w(op, e.value(), dtype=dtypes.int64, axis=e["axes"][0], keepdims=0).to(e.dtype)

    return rule


PRIMITIVES.update({"argmax": _arg("ArgMax"), "argmin": _arg("ArgMin")})


@primitive("cumsum")
def _(w: Writer, e: Equation) -> Val:
    return w("CumSum", e.value(), w.number(e["axis"], dtypes.int64), reverse=int(e["reverse"]))


def _logs_added(w: Writer, x: Val, y: Val) -> Val:
    most = w("Max", x, y)
    finite = w.where(w("IsInf", most.to(dtypes.float32), dtype=dtypes.bool_), 0.0, most)
    return finite + w("Log", w("Exp", x - finite) + w("Exp", y - finite))


def _cumulative(joined_by: Any) -> Callable:
    """By pairs that are ever farther apart."""

    def rule(w: Writer, e: Equation) -> Val:
        x, axis, n, by = e.value(), e["axis"], e.shape[e["axis"]], 1
        while by < n:
            front, back = ([(0, by)], [(by, n)]) if not e["reverse"] else ([(n - by, n)], [(0, n - by)])
            here = w.slice(x, [axis], [back[0][0]], [back[0][1]])
            there = w.slice(x, [axis], [0], [n - by]) if not e["reverse"] else w.slice(x, [axis], [by], [n])
            kept = w.slice(x, [axis], [front[0][0]], [front[0][1]])
            joined = w(joined_by, here, there) if isinstance(joined_by, str) else joined_by(w, here, there)
            x = w("Concat", *((kept, joined) if not e["reverse"] else (joined, kept)), axis=axis)
            by *= 2
        return x

    return rule


PRIMITIVES["cumlogsumexp"] = _cumulative(_logs_added)
PRIMITIVES.update({"cumprod": _cumulative("Mul"), "cummax": _cumulative("Max"), "cummin": _cumulative("Min")})


@primitive("sort")
def _(w: Writer, e: Equation) -> list[Val]:
    axis, n = e["dimension"], e.shape[e["dimension"]]
    if e["num_keys"] != 1 or not n:
        raise Unwritten
    key = e.value()
    if key.dtype is dtypes.bool_:
        raise Unwritten
    made, index = w("TopK", key, w.ints([n]), n=2, dtype=[None, dtypes.int64], axis=axis, largest=0, sorted=1)
    return [made, *[w("GatherElements", x, index, axis=axis) for x in e.values[1:]]]


@primitive("top_k")
def _(w: Writer, e: Equation) -> list[Val]:
    made = w("TopK", e.value(), w.ints([e["k"]]), n=2, dtype=[None, dtypes.int64], axis=-1, largest=1, sorted=1)
    return [made[0], made[1].to(dtypes.from_numpy(e.outs[1].dtype))]


# ------------------------------------------------------------ products


@primitive("dot_general")
def _(w: Writer, e: Equation) -> Val:
    (over_x, over_y), (batch_x, batch_y) = e["dimension_numbers"]
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    x, y = [""] * len(e.shapes[0]), [""] * len(e.shapes[1])
    shared = [next(letters) for _ in batch_x]
    for i, j, s in zip(batch_x, batch_y, shared):
        x[i] = y[j] = s
    for i, j in zip(over_x, over_y):
        x[i] = y[j] = next(letters)
    own: tuple[list[str], list[str]] = [], []
    for side, labels in enumerate((x, y)):
        for i, s in enumerate(labels):
            if not s:
                labels[i] = next(letters)
                own[side].append(labels[i])
    out = "".join([*shared, *own[0], *own[1]])
    a, b = e.value(0, e.dtype), e.value(1, e.dtype)
    return w("Einsum", a, b, equation=f"{''.join(x)},{''.join(y)}->{out}")


@primitive("conv_general_dilated")
def _(w: Writer, e: Equation) -> Val:
    numbers = e["dimension_numbers"]
    if e["batch_group_count"] != 1:
        raise Unwritten
    x = w.transpose(e.value(0, e.dtype), numbers.lhs_spec)
    kernel = w.transpose(e.value(1, e.dtype), numbers.rhs_spec)
    shape = [e.shape[i] for i in numbers.lhs_spec]
    config = [(0, 0, 0), (0, 0, 0), *[(a, b, d - 1) for (a, b), d in zip(e["padding"], e["lhs_dilation"])]]
    if any(c != (0, 0, 0) for c in config):
        x = _padded(w, x, w.number(0, x.dtype), tuple(shape), config)
    made = w("Conv", x, kernel, strides=list(e["window_strides"]), dilations=list(e["rhs_dilation"]),
             group=e["feature_group_count"])  # fmt: skip
    return w.transpose(made, list(np.argsort(numbers.out_spec)))


def _window(op: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        sizes, strides, padding = e["window_dimensions"], e["window_strides"], e["padding"]
        if any(d != 1 for d in e["base_dilation"]) or 0 in e.out or 0 in e.shape:
            raise Unwritten
        x = e.value()
        fill = {"Sum": 0, "Max": _least(x.dtype), "Min": _most(x.dtype)}[op]
        if any(p != (0, 0) for p in padding):
            x = _padded(w, x, w.number(fill, x.dtype), e.shape, [(a, b, 0) for a, b in padding])
        for axis, (k, s, d, o) in enumerate(zip(sizes, strides, e["window_dilation"], e.out)):
            if k == 1 and s == 1:
                continue
            at = np.arange(o)[:, None] * s + np.arange(k) * d
            x = w.reduce(op, w("Gather", x, w.constant(at), axis=axis), [axis + 1], keepdims=False)
        return x

    return rule


def _least(dtype: DType) -> Any:
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype.np).min


def _most(dtype: DType) -> Any:
    return math.inf if dtype.kind == "f" else np.iinfo(dtype.np).max


PRIMITIVES.update(
    {"reduce_window_sum": _window("Sum"), "reduce_window_max": _window("Max"), "reduce_window_min": _window("Min")}
)


# ------------------------------------------------------------ gather and scatter: by places in the flat operand


def _mode(e: Equation) -> str:
    name = str(e["mode"]).upper()
    return "clip" if "CLIP" in name else "drop" if "FILL" in name or "DROP" in name else "inside"


def _places(w: Writer, e: Equation, shape: tuple, index: Val, index_shape: tuple, window: list[int], out: tuple,
            offsets: list[int], start_map: Any, batching: list[tuple[int, int]], gone: Any) -> tuple[Val, Val | None]:  # fmt: skip
    """The place in the flat operand of each element of windows, of shape `out`; and which of them lie inside.

    `window` has the size of a window by axis of the operand, `offsets` are the axes of `out` that count inside of
    windows, `gone` the axes of the operand that have none.
    """
    n, rank = len(shape), len(out)
    outer = [i for i in range(rank) if i not in offsets]
    index = index.to(dtypes.int64)
    start, inside = None, None
    for k, axis in enumerate(start_map):
        part = w("Gather", index, w.number(k, dtypes.int64), axis=len(index_shape) - 1)
        room = shape[axis] - window[axis]
        if _mode(e) == "drop":
            good = (part >= 0) & (part <= room)
            inside = good if inside is None else inside & good
        if _mode(e) != "inside":
            part = w("Max", w("Min", part, w.number(room, dtypes.int64)), w.number(0, dtypes.int64))
        part = part * math.prod(shape[axis + 1 :])
        start = part if start is None else start + part
    batch = index_shape[:-1]
    own = np.zeros(batch, np.int64)
    for axis, at in batching:
        own = own + np.arange(batch[at]).reshape([-1 if i == at else 1 for i in range(len(batch))]) * math.prod(
            shape[axis + 1 :]
        )
    start = w.constant(own) if start is None else start + w.constant(own)
    spread = [1] * rank
    for i, m in zip(outer, batch):
        spread[i] = m
    within = np.zeros([1] * rank, np.int64)
    for axis, at in zip([a for a in range(n) if a not in gone], offsets):
        steps = np.arange(out[at]) * math.prod(shape[axis + 1 :])
        within = within + steps.reshape([-1 if i == at else 1 for i in range(rank)])
    places = w("Expand", _reshaped(w, start, spread) + w.constant(within), w.ints(out))
    return places, None if inside is None else w("Expand", _reshaped(w, inside, spread), w.ints(out))


@primitive("gather")
def _(w: Writer, e: Equation) -> Val:
    d = e["dimension_numbers"]
    if 0 in e.out or 0 in e.shape:
        raise Unwritten
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    batching = list(zip(d.operand_batching_dims, d.start_indices_batching_dims))
    places, inside = _places(w, e, e.shape, e.value(1), e.shapes[1], list(e["slice_sizes"]), e.out, list(d.offset_dims),
                             d.start_index_map, batching, gone)  # fmt: skip
    made = w("Gather", w.reshape(e.value(), [-1]), places, axis=0)
    if inside is None:
        return made
    fill = e["fill_value"]
    if fill is None:
        fill = math.nan if made.dtype.kind == "f" else False if made.dtype.kind == "b" else _least(made.dtype)
    return w("Where", inside, made, w.number(fill, made.dtype))


def _scatter(how: str) -> Callable:
    def rule(w: Writer, e: Equation) -> Val:
        d = e["dimension_numbers"]
        shape, out = e.shape, e.shapes[2]
        if 0 in shape:
            return e.value()
        if 0 in out:
            return e.value()
        gone = (*d.inserted_window_dims, *d.operand_batching_dims)
        sizes = iter([out[i] for i in d.update_window_dims])
        window = [1 if a in gone else next(sizes) for a in range(len(shape))]
        batching = list(zip(d.operand_batching_dims, d.scatter_indices_batching_dims))
        places, inside = _places(w, e, shape, e.value(1), e.shapes[1], window, out, list(d.update_window_dims),
                                 d.scatter_dims_to_operand_dims, batching, gone)  # fmt: skip
        x, n = w.reshape(e.value(), [-1]), math.prod(shape)
        if inside is not None:  # what lies outside goes to one more element, which is cut off
            places = w("Where", inside, places, w.number(n, dtypes.int64))
            x = w("Concat", x, w.constant(np.zeros(1, x.dtype.np)), axis=0)
        new = w.reshape(e.value(2), [-1])
        made = w("ScatterElements", x, w.reshape(places, [-1]), new, axis=0, reduction=how)
        if inside is not None:
            made = w.slice(made, [0], [0], [n])
        return _reshaped(w, made, shape)

    return rule


PRIMITIVES.update({"scatter": _scatter("none"), "scatter-add": _scatter("add"), "scatter_add": _scatter("add"),
                   "scatter-mul": _scatter("mul"), "scatter_mul": _scatter("mul"), "scatter_max": _scatter("max"),
                   "scatter_min": _scatter("min"), "scatter-max": _scatter("max"), "scatter-min": _scatter("min")})  # fmt: skip


# ------------------------------------------------------------ loops and branches


def _typed(w: Writer, aval: Any, stem: str) -> tuple[Val, Any]:
    value = Val(w, w.unused(f"{stem}_{next(w.root.numbers)}"), dtypes.from_numpy(aval.dtype))
    return value, w.info(value, list(aval.shape))


def _closed(w: Writer, closed: Any, given: list[Any]) -> list[Val]:
    made = evaluated(w, closed.jaxpr, [np.asarray(c) for c in closed.consts], given)
    return [w("Identity", as_value(w, x)) for x in made]


@primitive("scan")
def _(w: Writer, e: Equation) -> list[Val]:
    consts, carried = e["num_consts"], e["num_carry"]
    fixed, states, xs = e.operands[:consts], e.operands[consts : consts + carried], e.operands[consts + carried :]
    if not e["length"]:
        return [*states, *[np.zeros(a.shape, a.dtype) for a in e.outs[carried:]]]
    body = Writer(w)
    inner = e["jaxpr"].jaxpr.invars
    given, infos = [], []
    for atom in inner[consts:]:
        value, info = _typed(body, atom.aval, "step")
        given.append(value)
        infos.append(info)
    made = _closed(body, e["jaxpr"], [*fixed, *given])
    xs = [as_value(w, x) for x in xs]
    if not xs:  # a Scan goes over something
        xs = [w.constant(np.zeros(e["length"], np.int64))]
        infos.append(body.info(Val(body, body.unused(f"count_{next(w.root.numbers)}"), dtypes.int64), []))
    outs = [body.info(v, list(a.aval.shape)) for v, a in zip(made, e["jaxpr"].jaxpr.outvars)]
    graph = body.graph("body", infos, outs)
    way = int(e["reverse"])
    n = len(made)
    found = w("Scan", *[as_value(w, x) for x in states], *xs, n=n, dtype=[v.dtype for v in made], body=graph,
              num_scan_inputs=len(xs), scan_input_directions=[way] * len(xs),
              **({"scan_output_directions": [way] * (n - carried)} if n > carried else {}))  # fmt: skip
    return [found] if n == 1 else found


@primitive("while")
def _(w: Writer, e: Equation) -> list[Val]:
    of_test, of_body = e["cond_nconsts"], e["body_nconsts"]
    test_given, body_given = e.operands[:of_test], e.operands[of_test : of_test + of_body]
    states = [as_value(w, x) for x in e.operands[of_test + of_body :]]
    first = _closed(w, e["cond_jaxpr"], [*test_given, *states])[0]
    body = Writer(w)
    count, going = (Val(body, body.unused(f"loop_{next(w.root.numbers)}"), k) for k in (dtypes.int64, dtypes.bool_))
    given, infos = [], [body.info(count, []), body.info(going, [])]
    for atom in e["body_jaxpr"].jaxpr.invars[of_body:]:
        value, info = _typed(body, atom.aval, "state")
        given.append(value)
        infos.append(info)
    made = _closed(body, e["body_jaxpr"], [*body_given, *given])
    again = _closed(body, e["cond_jaxpr"], [*test_given, *made])[0]
    outs = [
        body.info(again, []),
        *[body.info(v, list(a.aval.shape)) for v, a in zip(made, e["body_jaxpr"].jaxpr.outvars)],
    ]
    found = w("Loop", None, first, *states, n=len(states), dtype=[s.dtype for s in states],
              body=body.graph("body", infos, outs))  # fmt: skip
    return [found] if len(states) == 1 else found


@primitive("cond")
def _(w: Writer, e: Equation) -> list[Val]:
    which, given = e.value(), e.operands[1:]
    if len(e["branches"]) != 2:
        raise Unwritten
    graphs = []
    for closed in e["branches"]:
        inner = Writer(w)
        made = _closed(inner, closed, given)
        outs = [inner.info(v, list(a.aval.shape)) for v, a in zip(made, closed.jaxpr.outvars)]
        graphs.append(inner.graph("branch", [], outs))
    chosen = which.to(dtypes.bool_)
    kinds = [dtypes.from_numpy(a.dtype) for a in e.outs]
    found = w("If", chosen, n=len(kinds), dtype=kinds, then_branch=graphs[1], else_branch=graphs[0])
    return [found] if len(kinds) == 1 else found
