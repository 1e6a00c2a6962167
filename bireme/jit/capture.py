"""Capturing: a function or layer is called once on variables, and what it does is a Model."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program import building
from bireme.core.program.control_flow import Undefined
from bireme.core.program.gradients import update
from bireme.core.program.program import Program, leaves, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Variable, symbol_of
from bireme.core.tensor.tensor import Tensor
from bireme.jit import conversion
from bireme.jit.keeping import State
from bireme.nn.layer import Layer
from bireme.static.input import InputSpec

_lock = threading.RLock()  # what the code sets is set back afterwards, so one capture goes on at a time


def spec_of(x: Any, name: str | None = None) -> Any:
    """The InputSpec of a tensor or array; anything else as it is."""
    if isinstance(x, Tensor):
        return InputSpec(x.shape, x.dtype, name)
    if isinstance(x, np.ndarray):
        return InputSpec(x.shape, str(x.dtype), name)
    return x


def captured(fn: Callable, args: tuple, kwargs: dict[str, Any], layer: Layer | None = None) -> Model:
    """What a call does, as a Model. Among the arguments an InputSpec stands for an input.

    `layer` is the one that a method belongs to; layers are known by their paths from it.
    """
    program = Program()
    names = _names(fn, args, kwargs)
    inputs: list[Variable] = []

    def variable(x: Any) -> Any:
        if not isinstance(x, InputSpec):
            return x
        name = x.name or next(names)
        if name in program.symbols:
            name = next(n for n in (f"{name}_{i}" for i in itertools.count(1)) if n not in program.symbols)
        symbol = program._declared(name, x.shape, x.dtype)
        symbol.is_data, symbol.stop_gradient = True, x.stop_gradient
        inputs.append(program._var(symbol))
        return inputs[-1]

    with _lock, building.into(program) as builder, _kept(builder, layer, fn), _told_of_source(fn):
        given, named = mapped(variable, (args, kwargs))
        builder.forward_of = conversion.forward_of
        if layer is not None:
            conversion.name_layers(layer)
        made = conversion.to_call(fn)(*given, **named)
        if builder.refused is not None:
            builder.refused.add_note("  the code catches this error, so its graph would be another one's")
            raise builder.refused
        for x in leaves(made):
            if isinstance(x, Undefined):
                x._refuse()
        symbols = mapped(symbol_of, made)
    made_model = Model(program, inputs, symbols)
    made_model.check()
    return made_model


@contextlib.contextmanager
def _told_of_source(fn: Any) -> Iterator[None]:
    """Say so if a function could not be rewritten because its source is not there, or because it is a generator."""
    try:
        yield
    except errors.TELLING as e:
        for frame, _ in traceback.walk_tb(e.__traceback__):
            own = conversion.belongs_to_user(frame.f_globals.get("__name__"))
            if own and frame.f_code.co_flags & inspect.CO_GENERATOR:
                e.add_note(f"  {frame.f_code.co_qualname} is a generator, so its statements are not captured")
        plain = getattr(fn.forward if isinstance(fn, Layer) else fn, "__func__", fn)
        code = getattr(plain, "__code__", None)
        if code is not None and conversion.node_of(code) is None and not (plain.__module__ or "").startswith("bireme"):
            e.add_note(f"  the source of {plain.__qualname__} is not available, so its statements are not captured")
        raise


def _names(fn: Any, args: tuple, kwargs: dict[str, Any]) -> Iterator[str]:
    """Names for inputs that have none: those of the parameters that they are given for."""
    forward = fn.forward if isinstance(fn, Layer) else fn
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found: list[str] = []
    for i, x in enumerate(args):
        own = plain[i] if i < len(plain) else f"input_{i}"
        inner = [y for y in leaves(x) if isinstance(y, InputSpec) and not y.name]
        found += [own] if isinstance(x, InputSpec) and inner else [f"{own}_{n}" for n in range(len(inner))]
    for key, x in kwargs.items():
        inner = [y for y in leaves(x) if isinstance(y, InputSpec) and not y.name]
        found += [key] if isinstance(x, InputSpec) and inner else [f"{key}_{n}" for n in range(len(inner))]
    return iter(found)


@contextlib.contextmanager
def _kept(builder: building.Builder, *roots: Any) -> Iterator[None]:
    """Python's state is what it was afterwards; a buffer that is set becomes an update."""
    state = State(*roots)
    try:
        yield
        for own, name, t in state.buffers:
            now = own._buffers.get(name)
            if isinstance(now, Variable) and t is not None:
                t.persistable = True
                kind = "keep_attribute" if name in own._non_persistable_buffer_names_set else "set_buffer"
                path = builder.paths.get(id(own), "")
                update(builder, _set_buffer, kind, [t], [now]).scope = f"{path}.{name}" if path else name
    finally:
        state.restore()


def _set_buffer(buffers: list[Tensor], values: list[Tensor]) -> None:
    for buffer, value in zip(buffers, values, strict=True):
        buffer.set_value(value.detach())


def checked_specs(where: str, given: Any) -> list[Any]:
    """Specs that a user gave, each an InputSpec, a tensor, a value, or a structure of them."""
    if not isinstance(given, (list, tuple)):
        raise errors.bad(where, "a list of InputSpec", given, kind=errors.ArgumentTypeError)
    return [mapped(spec_of, x) for x in given]
