"""Padded calls: a call compiled for larger arrays computes the same on their beginnings, with sizes that are known when it runs.

A function is traced at two sets of sizes, the padded ones and others, and what differs between both tells how its sizes
follow from the parameters; `padded_graph` asks a third one whether that is so. Then it is evaluated on padded arrays whose
valid parts are known: elementwise calls pass over the padding, sums and products are given neutral elements there, what
counts or cuts takes the true sizes. Where this cannot be shown, the call is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from bireme.core.graph.varying import Extent
from bireme.core.xla_exec import inlined
from bireme.core.xla_exec.padded_sizes import Dim, Dims, Fit, Refused, joined

WINDOWS = {"dynamic_slice": 1, "dynamic_update_slice": 2}  # from which operand on they say where one begins


def _is_constant(x: Any) -> bool:
    return hasattr(x, "val")


class Padding:
    """One evaluation of a function on padded arrays; `values` are the parameters, as jax sees them."""

    def __init__(self, fit: Fit, values: Sequence[Any]):
        self.fit, self.values = fit, values

    def true(self, extent: Extent | int) -> Any:
        """A size or place as the call would have it without padding."""
        return extent.at(self.values) if isinstance(extent, Extent) else extent

    def run(self, padded: Any, other: Any, arrays: Sequence[Any], dims: Sequence[Dims]) -> tuple[list, list[Dims]]:
        """Evaluate a jaxpr, which is also given as it is at the other sizes."""
        env: dict[Any, tuple[Any, Dims]] = {}
        same: dict[Any, Any] = {}  # what a variable at the other sizes is called at the padded ones
        first, second = padded.jaxpr, other.jaxpr
        if len(first.eqns) != len(second.eqns):
            raise Refused("other steps at other sizes")
        for var, a, b in zip(first.constvars, padded.consts, other.consts):
            if np.shape(a) != np.shape(b) or not np.array_equal(np.asarray(a), np.asarray(b)):
                raise Refused("a table that depends on a size")
            env[var] = a, (None,) * np.ndim(a)
        same.update(zip(second.constvars, first.constvars))
        env.update(zip(first.invars, zip(arrays, dims)))
        same.update(zip(second.invars, first.invars))

        def read(a: Any, b: Any, begins: bool = False) -> tuple[Any, Dims]:
            if _is_constant(a) and _is_constant(b):
                return self._literal(a, b), (None,) * np.ndim(a.val)
            # a window over all of an axis at the padded size, and a part of it at others
            if begins and _is_constant(a):
                return env[same[b]]
            if _is_constant(a) or _is_constant(b) or same.get(b) is not a:
                raise Refused("other values at other sizes")
            return env[a]

        for eqn, twin in zip(first.eqns, second.eqns):
            if eqn.primitive is not twin.primitive:
                raise Refused("other steps at other sizes")
            begins = WINDOWS.get(eqn.primitive.name, len(eqn.invars))
            operands = [read(a, b, i >= begins) for i, (a, b) in enumerate(zip(eqn.invars, twin.invars))]
            made, found = self._step(eqn, twin, [x for x, _ in operands], [d for _, d in operands])
            env.update(zip(eqn.outvars, zip(made, found)))
            same.update(zip(twin.outvars, eqn.outvars))
        results = [read(a, b) for a, b in zip(first.outvars, second.outvars)]
        return [x for x, _ in results], [d for _, d in results]

    def _step(self, eqn: Any, twin: Any, arrays: list, dims: list[Dims]) -> tuple[list, list[Dims]]:
        name = eqn.primitive.name
        program = inlined.called(eqn)
        if program is not None:
            return self.run(program, inlined.called(twin), arrays, dims)
        if not any(any(d) for d in dims) and not _arrays_differ(eqn, twin):
            if alike(eqn.params, twin.params):
                made = bind(eqn, arrays)
                return made, [(None,) * np.ndim(x) for x in made]
        if name in ELEMENTWISE:
            made = bind(eqn, arrays)
            return made, [self.merged(dims, eqn.outvars[0].aval.shape)] * len(made)
        rule = RULES.get(name)
        if rule is None:
            raise Refused(f"{name}, for which there is no rule")
        made, found = rule(self, eqn, twin, arrays, dims)
        for x, d, var, v in zip(made, found, eqn.outvars, twin.outvars):
            _check(self.fit, x, d, var.aval.shape, v.aval.shape)
        return made, found

    def _literal(self, a: Any, b: Any) -> Any:
        """A constant, or what follows from the true sizes in its place."""
        first, second = a.val, b.val
        if np.ndim(first) or np.ndim(second):
            if not np.array_equal(first, second):
                raise Refused("a table that depends on a size")
            return first
        if first == second or (first != first and second != second):
            return first
        dtype = np.dtype(a.aval.dtype)
        for inverse in (False, True):
            if inverse and (dtype.kind != "f" or not first or not second):
                break
            x, y = [round(float(1 / v if inverse else v)) for v in (first, second)]
            if x and y and all(dtype.type(1 / n if inverse else n) == v for n, v in ((x, first), (y, second))):
                found = self._number(x, y)
                if found is not None:
                    return (1 / found.astype(jnp.float64)).astype(dtype) if inverse else found.astype(dtype)
        raise Refused(f"the number {first} where another was {second}")

    def _number(self, padded: int, other: int) -> Any:
        """What stands for a number that differs; None where it does not."""
        try:
            extent = self.fit.extent(padded, other)
        except Refused:
            found = self.fit.product(padded, other)
            if found is None:
                raise
            times, some = found
            return jnp.asarray(math.prod([self.true(e) for e in some]) * times)
        return None if extent is None else jnp.asarray(self.true(extent))

    def merged(self, dims: Sequence[Dims], shape: tuple[int, ...]) -> Dims:
        """The dimensions of what is computed element by element."""
        found: list[Dim | None] = []
        for axis in range(len(shape)):
            kinds = [d for each in dims if len(each) == len(shape) and (d := each[axis]) is not None]
            exact = {d.factors for d in kinds if not d.uniform}
            if len(exact) > 1:  # perhaps told in more factors than it takes
                exact = set(map(joined, exact))
            if len(exact) > 1:
                raise Refused("rows that lie differently")
            found.append(Dim(exact.pop()) if exact else kinds[0] if kinds else None)
        return tuple(found)

    def filled(self, x: Any, dims: Dims, axes: Sequence[int], fill: Any) -> Any:
        """An array with `fill` in its padding along some axes."""
        valid = None
        for axis in axes:
            dim = dims[axis]
            if dim is None:
                continue
            index, stride = lax.iota(jnp.int32, x.shape[axis]), x.shape[axis]
            for size, extent in dim.factors:
                stride //= size
                if extent is not None:
                    here = lax.broadcast_in_dim(index // stride % size < self.true(extent), x.shape, (axis,))
                    valid = here if valid is None else valid & here
        return x if valid is None else lax.select(valid, x, jnp.full_like(x, fill))


def bind(eqn: Any, arrays: list, **more: Any) -> list:
    made = eqn.primitive.bind(*arrays, **{**eqn.params, **more})
    return list(made) if eqn.primitive.multiple_results else [made]


def alike(params: dict, others: dict) -> bool:
    return all(x is others[k] or str(x) == str(others[k]) for k, x in params.items())


def _arrays_differ(eqn: Any, twin: Any) -> bool:
    return any(a.aval.shape != b.aval.shape for a, b in zip(eqn.outvars, twin.outvars))


def _check(fit: Fit, x: Any, dims: Dims, padded: tuple[int, ...], other: tuple[int, ...]) -> None:
    """What a rule gave has the sizes that were traced."""
    if tuple(x.shape) != tuple(padded) or len(dims) != len(padded):
        raise Refused("another shape than without padding")
    for size, twin, dim in zip(padded, other, dims):
        if dim is None:
            if size != twin:
                raise Refused("a size that changes unseen")
            continue
        if math.prod([n for n, _ in dim.factors]) != size or dim.valid(fit.other) != twin:
            raise Refused("a size that changes otherwise")


ELEMENTWISE = frozenset((
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e",
    "bessel_i1e", "cbrt", "ceil", "clamp", "clz", "complex", "conj", "convert_element_type", "copy", "copy_p",
    "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt",
    "igamma", "igammac", "imag", "integer_pow", "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt",
    "max", "min", "mul", "ne", "neg", "nextafter", "not", "or", "population_count", "pow", "real",
    "reduce_precision", "regularized_incomplete_beta", "rem", "round", "rsqrt", "select_n", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient",
    "sub", "tan", "tanh", "xor", "zeta",
))  # fmt: skip

# what else there is has a rule, by the name of jax's primitive, see `padded_rules`
Made = tuple[list, list[Dims]]
RULES: dict[str, Callable[[Padding, Any, Any, list, list[Dims]], Made]] = {}


def rule_for(*names: str) -> Callable:
    def keep(fn: Callable) -> Callable:
        RULES.update(dict.fromkeys(names, fn))
        return fn

    return keep


def evaluated(first: Any, second: Any, specs: Sequence[Any], dims: Sequence[Dims], fit: Fit) -> tuple[Any, list[Dims]]:
    """A function on padded arrays as a jaxpr of these and of the parameters, and the dimensions of its results.

    `first` and `second` are its jaxprs at the padded sizes and at the others.
    """
    found: list[Dims] = []
    fit.known = [e for each in dims for dim in each if dim is not None for _, e in dim.factors if e is not None]

    def padded(*operands: Any) -> list:
        arrays, values = operands[: len(specs)], operands[len(specs) :]
        made, found[:] = Padding(fit, values).run(first, second, arrays, dims)
        return [jnp.asarray(x, var.aval.dtype) for x, var in zip(made, first.jaxpr.outvars)]

    params = [jax.ShapeDtypeStruct((), np.int64)] * len(fit.padded)
    return jax.make_jaxpr(padded)(*specs, *params), list(found)
