"""Calls of the user's own functions in programs, with gradients of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.autograd import PyLayer
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building, control_flow
from bireme.core.program.program import Operation, leaves, mapped
from bireme.core.program.variable import Sample, Symbol, Variable
from bireme.core.tensor.tensor import Tensor
from bireme.static.dense_tensor import DenseTensor


def _list(given: Any) -> list[Any]:
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


class _PythonCall:
    """A function on host values as an operation: what it returns are the values of variables that exist already."""

    effect = True

    def __init__(self, func: Callable, backward: Callable | None, kinds: list[Any], kept: list[bool]):
        self.func, self.backward, self.kinds, self.kept = func, backward, kinds, kept

    def __call__(self, *given: Tensor) -> list[Tensor]:
        if self.backward is None or all(t.stop_gradient for t in given):
            return self.forward(*given)
        made = _PythonLayer.apply(self, *given)
        return list(made) if isinstance(made, (list, tuple)) else [made]

    def forward(self, *given: Tensor) -> list[Tensor]:
        return self._tensors("func", self.func(*map(_host, given)), self.kinds)

    def _tensors(self, name: str, made: Any, kinds: list[Any]) -> list[Tensor]:
        found = _list(made)
        if len(found) != len(kinds):
            raise errors.bad(f"py_func({name})", f"{len(kinds)} results", len(found))
        return [Tensor(np.asarray(x), kind) for x, kind in zip(found, kinds, strict=True)]

    def gradients(self, given: list[Tensor], made: list[Tensor], grads: Sequence[Tensor]) -> list[Any]:
        assert self.backward is not None
        passed = [t for t, keep in zip((*given, *made), self.kept, strict=True) if keep]
        found = _list(self.backward(*map(_host, (*passed, *grads))))
        wanted = [t for t in given if t.dtype.kind in "fc"]
        if len(found) != len(given):
            found = found if len(found) == len(wanted) else self._tensors("backward_func", found, [0] * len(given))
            rest = iter(found)
            found = [next(rest) if t.dtype.kind in "fc" else None for t in given]
        return [None if g is None else Tensor(np.asarray(g), t.dtype) for g, t in zip(found, given, strict=True)]


class _PythonLayer(PyLayer):
    @staticmethod
    def forward(ctx: Any, call: _PythonCall, *given: Tensor) -> Any:
        made = call.forward(*given)
        ctx.call, ctx.count = call, len(given)
        ctx.save_for_backward(*given, *made)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        saved = list(ctx.saved_tensor())
        return tuple(ctx.call.gradients(saved[: ctx.count], saved[ctx.count :], grads))


def _host(t: Tensor) -> DenseTensor:
    made = DenseTensor()
    made.set(t.numpy())
    return made


def py_func(
    func: Callable[..., Any],
    x: Tensor | Sequence[Tensor],
    out: Tensor | Sequence[Tensor] | None,
    backward_func: Callable[..., Any] | None = None,
    skip_vars_in_backward_input: Tensor | Sequence[Tensor] | None = None,
) -> Any:
    """Call a function of your own, on values on the host, whenever the program runs.

    Such a program cannot be saved: its function is code.

    Args:
        func: Function of as many values as ``x`` has; ``np.array(value)`` is one as an array. It returns as many arrays
            as ``out`` has.
        x: Variables that it is called with.
        out: Variables that it gives values, made by ``Program.create_var``; None if it returns nothing.
        backward_func: Function of ``x``, ``out`` and the gradients of ``out`` that returns the gradients of ``x``.
            Default: None, there is no gradient.
        skip_vars_in_backward_input: Variables of ``x`` and ``out`` that it is not called with. Default: None.

    Returns:
        ``out``.

    Raises:
        TypeError: If these are not functions and variables.
        ValueError: If a variable to be skipped is none of ``x`` and ``out``.

    Examples:
        >>> import numpy as np
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        ...     y = bireme.static.default_main_program().create_var(name="y", shape=[-1, 2], dtype="float32")
        ...     _ = bireme.static.py_func(lambda a: np.array(a)[::-1], x, y)
        ...     bireme.static.Executor().run(feed={"x": [[1.0, 2.0], [3.0, 4.0]]}, fetch_list=[y])[0].tolist()
        [[3.0, 4.0], [1.0, 2.0]]
        >>> bireme.disable_static()
    """
    for name, fn in (("func", func), ("backward_func", backward_func)):
        if not callable(fn) and not (name == "backward_func" and fn is None):
            raise errors.bad(f"py_func({name})", "a function", fn, kind=errors.ArgumentTypeError)
    builder = building.current()
    if builder is None:
        raise errors.failure("py_func() adds to a program, in static mode", hint="call the function itself on tensors")
    inputs, outs, skipped = _list(x), _list(out), _list(skip_vars_in_backward_input)
    for name, given, kind in (("x", inputs, Tensor), ("out", outs, Variable)):
        for each in given:
            if not isinstance(each, kind):
                raise errors.bad(f"py_func({name})", "variables", each, kind=errors.ArgumentTypeError)
    names = {t.name for t in skipped}
    unknown = names - {t.name for t in (*inputs, *outs)}
    if unknown:
        raise errors.bad("py_func(skip_vars_in_backward_input)", "variables of x and out", sorted(unknown)[0])
    kept = [t.name not in names for t in (*inputs, *outs)]
    call = _PythonCall(func, backward_func, [t.dtype for t in outs], kept)
    operation = Operation(call, "py_func", tuple([getattr(t, "symbol", t) for t in inputs]), {}, errors.position())
    operation.results, operation.renewable = [t.symbol for t in outs], False
    for t in outs:
        t.stop_gradient = backward_func is None or all(each.stop_gradient for each in inputs)
    builder.program._append(operation)
    return out


class _BlockLayer(PyLayer):
    @staticmethod
    def forward(ctx: Any, call: _OwnGradient, found: dict[int, Any], *inputs: Tensor) -> Any:
        ctx.call, ctx.found = call, found
        return tuple(call.forward.run(list(inputs), found))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return tuple(ctx.call.backward.run(list(grads), ctx.found))


class _OwnGradient:
    """A block as an operation, with another block that computes its gradients."""

    def __init__(self, forward: control_flow.Block, backward: control_flow.Block):
        self.forward, self.backward = forward, backward
        self.outside = list({id(x): x for block in (forward, backward) for x in block.outside}.values())

    def __call__(self, inputs: list[Tensor], given: list[Any]) -> list[Any]:
        found = {id(x): t.detach() for x, t in zip(self.outside, given, strict=True)}
        return list(_BlockLayer.apply(self, found, *inputs))

    def labelled(self) -> list[tuple[str, control_flow.Block]]:
        """Its blocks."""
        return [("forward", self.forward), ("backward", self.backward)]


def static_pylayer(
    forward_fn: Callable[..., Any],
    inputs: Sequence[Tensor],
    backward_fn: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """Call a function of variables whose gradients another function computes.

    Args:
        forward_fn: Function of the inputs that returns a tensor, or a list of them.
        inputs: The inputs.
        backward_fn: Function of the gradients of the results that returns those of the inputs. Default: None, there is no
            gradient.
        name: Has no effect.

    Returns:
        What ``forward_fn`` returned.

    Raises:
        TypeError: If these are not functions and tensors.
        ValueError: If ``backward_fn`` does not return as many gradients as there are inputs.

    Examples:
        >>> x = bireme.to_tensor([2.0], stop_gradient=False)
        >>> y = bireme.static.nn.static_pylayer(lambda a: a * 3, [x], lambda g: g * 7)
        >>> y.backward()
        >>> y.tolist(), x.grad.tolist()
        ([6.0], [7.0])
    """
    for which, fn in (("forward_fn", forward_fn), ("backward_fn", backward_fn)):
        if not callable(fn) and not (which == "backward_fn" and fn is None):
            raise errors.bad(f"static_pylayer({which})", "a function", fn, kind=errors.ArgumentTypeError)
    if not isinstance(inputs, (list, tuple)) or not all(isinstance(t, Tensor) for t in inputs):
        raise errors.bad("static_pylayer(inputs)", "a list of tensors", inputs, kind=errors.ArgumentTypeError)
    builder = building.current()
    if backward_fn is None:
        made = forward_fn(*inputs)
        for t in leaves(made):
            if isinstance(t, Tensor):
                t.stop_gradient = True
        return made
    if builder is None:
        return _dynamic(forward_fn, backward_fn).apply(*inputs)
    return _recorded(builder, forward_fn, list(inputs), backward_fn)


def _dynamic(forward_fn: Callable, backward_fn: Callable) -> type[PyLayer]:
    return type(
        "StaticPyLayer",
        (PyLayer,),
        {
            "forward": staticmethod(lambda ctx, *args: forward_fn(*args)),
            "backward": staticmethod(lambda ctx, *grads: backward_fn(*grads)),
        },
    )


def _recorded(builder: Any, forward_fn: Callable, inputs: list[Any], backward_fn: Callable) -> Any:
    program, where = builder.program, "static_pylayer"

    def stand_in(x: Any) -> Symbol:
        samples = x.samples if isinstance(x, Symbol) else (Sample(x._value.sig),) * 3
        made = program._add(Symbol(program._unused_name(where), samples))
        made.fixed = x.fixed if isinstance(x, Symbol) else tuple(x.shape)
        return made

    def block(fn: Callable, given: list[Symbol]) -> tuple[Any, control_flow.Block, list[Any]]:
        part = control_flow.Recorded(builder, lambda: fn(*[program._var(s) for s in given]), given)
        results = [x for x in leaves(part.made_symbols) if isinstance(x, (Symbol, Tensor))]
        return part.made_symbols, part.block(given, results), results

    operands = [getattr(t, "symbol", t) for t in inputs]
    made, forward, results = block(forward_fn, [stand_in(x) for x in operands])
    _, backward, found = block(backward_fn, [stand_in(x) for x in results])
    if len(found) != len([t for t in inputs if t.dtype.kind in "fc"]):
        raise errors.bad("static_pylayer(backward_fn)", f"{len(inputs)} gradients", len(found))
    call = _OwnGradient(forward, backward)
    operation = Operation(call, where, (operands, call.outside), {}, errors.position())
    operation.renewable = False
    outs = [stand_in(x) for x in results]
    for symbol in outs:
        symbol.stop_gradient = all(t.stop_gradient for t in inputs) or symbol.dtype.kind not in "fc"
    operation.results = outs
    program._append(operation)
    new = {id(x): s for x, s in zip(results, outs, strict=True)}
    return mapped(lambda x: program._var(new[id(x)]) if id(x) in new else x, made)


guard_functions(globals())
