"""to_static: functions and layers whose graph can be looked at, checked and saved.

A call runs the function as dynamic code does: it is recorded and compiled anyway. What `to_static` adds is the Model of the
function, with branches and loops over tensors in it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
import weakref
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.graph.graph import Sig
from bireme.core.program import building
from bireme.core.program.program import Program, mapped
from bireme.core.program.program_model import Model
from bireme.core.tensor.tensor import Tensor
from bireme.jit import capture, conversion
from bireme.nn.layer import Layer
from bireme.static.input import InputSpec

_state = types.SimpleNamespace(enabled=True)


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Switch ``to_static`` on or off for all functions.

    Args:
        enable_to_static_bool: Whether functions are captured. Off, they are called as if they had never been given to
            ``to_static``.

    Examples:
        >>> bireme.jit.enable_to_static(True)
    """
    if not isinstance(enable_to_static_bool, bool):
        raise errors.bad(
            "enable_to_static(enable_to_static_bool)", "True or False", enable_to_static_bool,
            kind=errors.ArgumentTypeError,
        )  # fmt: skip
    _state.enabled = enable_to_static_bool


class ConcreteProgram:
    """A captured function: its program, inputs and outputs."""

    def __init__(self, model: Model, function: Callable):
        self.model, self.function = model, function
        self.main_program: Program = model.program
        self.startup_program = Program()

    @property
    def inputs(self) -> list[Any]:
        """Variables that stand for the arguments."""
        return [self.main_program._var(symbol) for symbol in self.model.inputs]

    @property
    def outputs(self) -> list[Any]:
        """Variables of the results, in order."""
        return [x if isinstance(x, Tensor) else self.main_program._var(x) for x in self.model.outputs]

    @property
    def parameters(self) -> list[Any]:
        """Parameters and buffers that it reads."""
        return list(self.main_program.tensors.values())


class _Bound(dict):
    """Methods of an object that were given to ``to_static``; a copy of it, or one in a pickle, makes its own."""

    owner: Callable[[], Any] = staticmethod(lambda: None)

    def __deepcopy__(self, memo: Any) -> _Bound:
        return _Bound()

    def __reduce__(self) -> Any:
        return _Bound, ()


BOUND = "_static_functions"  # where an object holds them: they live as long as it does


class StaticFunction:
    """A function, or a method of a layer, that was given to ``to_static``."""

    def __init__(self, function: Callable, input_spec: Any = None, full_graph: bool | None = None, owner: Any = None):
        self._function, self._input_spec, self._full_graph, self._owner = function, input_spec, full_graph, owner
        self._models: dict[tuple, ConcreteProgram] = {}
        self._last: tuple | None = None
        self._tried = False
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        functools.update_wrapper(self, function)

    # ---------------------------------------------------------- calls

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is None:
            return self
        held = getattr(owner, "__dict__", None)
        bound = held.get(BOUND) if isinstance(held, dict) else None
        if bound is None or bound.owner() is not owner:  # a shallow copy has what is bound to the original
            bound = _Bound()
            if isinstance(held, dict):
                bound.owner = weakref.ref(owner)
                held[BOUND] = bound
        found = bound.get(self)
        if found is None:
            found = StaticFunction(types.MethodType(self._function, owner), self._input_spec, self._full_graph, owner)
            bound[self] = found
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if building.current() is not None:
            return conversion.to_call(self._function)(*args, **kwargs)
        if _state.enabled:
            self._last = mapped(_brief, (args, kwargs))
            if not self._tried:
                self._tried = True
                self._try(args, kwargs)
        return self._function(*args, **kwargs)

    def _try(self, args: tuple, kwargs: dict[str, Any]) -> None:
        """Capture the first call: what cannot be captured is told at once."""
        try:
            self._captured(args, kwargs)
        except (*errors.LEAVING, AssertionError, NameError) as e:
            if self._full_graph:
                self._tried = False
                raise
            reason = str(e).splitlines()[0] if str(e) else type(e).__name__
            errors.warn(
                f"{self.__name__} is called as dynamic code, since its graph cannot be captured: {reason}"
                f"{_line_of(e, self._function)}"
            )

    @property
    def __bireme_original__(self) -> Callable:
        return self._function

    # ---------------------------------------------------------- the graph

    def _captured(self, args: tuple, kwargs: dict[str, Any]) -> ConcreteProgram:
        if self._input_spec is not None:
            specs = capture.checked_specs("to_static(input_spec)", self._input_spec)
            args, kwargs = (*specs, *args[len(specs) :]), kwargs
            self._fit(args)
        given, named = mapped(capture.spec_of, (args, kwargs))
        key = self._key(given, named)
        found = self._models.get(key)
        if found is None:
            model = capture.captured(
                self._function, given, named, self._owner if isinstance(self._owner, Layer) else None
            )
            found = self._models[key] = ConcreteProgram(model, self._function)
        return found

    def _fit(self, args: tuple) -> None:
        """Check that there are not more specs than arguments."""
        try:
            parameters = inspect.signature(self._function).parameters.values()
        except (TypeError, ValueError):
            return
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return
        most = len([p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
        if len(args) > most:
            raise errors.bad("to_static(input_spec)", f"at most {most}, as {self.__name__} has arguments", len(args))

    def _key(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        def of(x: Any) -> Any:
            if isinstance(x, InputSpec):
                return x.shape, x.dtype.name
            return id(x) if not isinstance(x, (int, float, str, bool, type(None))) else (type(x), x)

        mode = self._owner.training if isinstance(self._owner, Layer) else None
        return mode, str(mapped(of, (args, sorted(kwargs.items()))))

    def get_concrete_program(self, *args: Any, **kwargs: Any) -> tuple[ConcreteProgram, Any]:
        """Capture a call with these arguments, tensors or ``InputSpec``s."""
        found = self._captured(args, kwargs)
        return found, found

    @property
    def concrete_program(self) -> ConcreteProgram:
        """The graph of the last call, or of ``input_spec``."""
        return self.concrete_program_specify_input_spec()

    def concrete_program_specify_input_spec(
        self, input_spec: Any = None, with_hook: bool = False, is_prim_infer: bool = False
    ) -> ConcreteProgram:
        """The graph for inputs of given specs; by default those of ``to_static``, or of the last call."""
        if input_spec is not None:
            given = tuple(capture.checked_specs("input_spec", input_spec))
            owner = self._owner if isinstance(self._owner, Layer) else None
            return ConcreteProgram(capture.captured(self._function, given, {}, owner), self._function)
        if self._input_spec is None and self._last is None:
            raise errors.failure(
                f"{self.__name__} was not called yet, so the shapes of its inputs are not known",
                hint="give input_spec to to_static, or call it once",
                kind=errors.ArgumentError,
            )
        known = self._last is not None and self._input_spec is None
        args, kwargs = mapped(_spec, self._last) if known else ((), {})
        return self._captured(args, kwargs)

    @property
    def program_cache(self) -> Any:
        """Graphs that were captured, one for each kind of arguments."""
        return self._models

    @property
    def main_program(self) -> Program:
        """The program of the graph."""
        return self.concrete_program.main_program

    @property
    def inputs(self) -> list[Any]:
        """Variables that stand for the arguments."""
        return self.concrete_program.inputs

    @property
    def outputs(self) -> list[Any]:
        """Variables of the results."""
        return self.concrete_program.outputs

    @property
    def code(self) -> str:
        """The function, as it is rewritten to be captured."""
        fn: Any = getattr(self._function, "__func__", self._function)
        node = conversion.node_of(fn.__code__)
        if node is None:
            return textwrap.dedent(inspect.getsource(fn))
        made = conversion._function(node, fn)
        return ast.unparse(ast.fix_missing_locations(made))

    @property
    def dygraph_function(self) -> Callable:
        """The function as it was."""
        return self._function

    @property
    def class_instance(self) -> Any:
        """What the method belongs to; None for a function."""
        return self._owner

    @property
    def function_spec(self) -> Any:
        """Specs of its inputs."""
        return self._input_spec

    def rollback(self) -> Callable:
        """Undo ``to_static``; for a layer its ``forward`` is the original one again."""
        if isinstance(self._owner, Layer) and self._owner.__dict__.get("forward") is self:
            del self._owner.__dict__["forward"]
        return self._function

    def __repr__(self) -> str:
        return f"<StaticFunction {self.__qualname__}>"


def _brief(x: Any) -> Any:
    """What has to be known of an argument to capture a call later; tensors are not kept alive for it."""
    return x._value.sig if isinstance(x, Tensor) else capture.spec_of(x)


def _spec(x: Any) -> Any:
    return InputSpec(x.shape, x.dtype) if isinstance(x, Sig) else x


def _line_of(error: Exception, fn: Any) -> str:
    """Where in the user's function an error came from."""
    filename = getattr(getattr(fn, "__func__", fn), "__code__", None)
    if filename is None or "\n  at " in str(error):
        return str(error)[str(error).rindex("\n  at ") :] if "\n  at " in str(error) else ""
    found = None
    tb = error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == filename.co_filename:
            found = tb.tb_lineno
        tb = tb.tb_next
    return "" if found is None else f"\n  at {filename.co_filename.rpartition('/')[2]}:{found}"


def to_static(
    function: Any = None,
    input_spec: Any = None,
    build_strategy: Any = None,
    backend: Any = "CINN",
    **kwargs: Any,
) -> Any:
    """Make the graph of a function or layer available, with branches and loops over tensors in it.

    Calls compute what they computed before: dynamic code is compiled anyway. The graph is what ``jit.save`` writes, and
    what ``concrete_program`` shows.

    Args:
        function: Function, method or layer. Default: None, to be used as a decorator with arguments.
        input_spec: List of ``InputSpec``, for the arguments in order. Default: None, what the first call is given.
        build_strategy: Has no effect.
        backend: Has no effect.
        **kwargs: ``full_graph``: whether a function that cannot be captured raises an error at its first call. By default
            it warns, and is called as dynamic code. ``property`` has no effect.

    Returns:
        The function, as a ``StaticFunction``, or the layer.

    Examples:
        >>> @bireme.jit.to_static
        ... def clip(x):
        ...     if x.sum() > 1:
        ...         x = x / x.sum()
        ...     return x
        >>> clip(bireme.to_tensor([1.0, 3.0])).tolist()
        [0.25, 0.75]
        >>> [operation.type for operation in clip.main_program.ops][-1]
        'if'
    """
    unknown = [key for key in kwargs if key not in ("full_graph", "property")]
    if unknown:
        raise errors.bad("to_static(**kwargs)", "full_graph or property", unknown[0], kind=errors.ArgumentTypeError)
    full_graph = kwargs.get("full_graph")
    if input_spec is not None:
        capture.checked_specs("to_static(input_spec)", input_spec)

    def made(fn: Any) -> Any:
        if isinstance(fn, Layer):
            forward = fn.forward
            plain = forward._function if isinstance(forward, StaticFunction) else forward
            fn.__dict__["forward"] = StaticFunction(plain, input_spec, full_graph, fn)
            return fn
        if isinstance(fn, StaticFunction):
            return StaticFunction(fn._function, input_spec or fn._input_spec, full_graph, fn._owner)
        if not callable(fn):
            raise errors.bad("to_static(function)", "a function or a layer", fn, kind=errors.ArgumentTypeError)
        return StaticFunction(fn, input_spec, full_graph, getattr(fn, "__self__", None))

    return made if function is None else made(function)


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Accepted for scripts of Paddle's; what is captured is told by ``set_code_level`` and ``concrete_program``.

    Args:
        level: Has no effect.
        also_to_stdout: Has no effect.

    Examples:
        >>> bireme.jit.set_verbosity(0)
    """
    if isinstance(level, bool) or not isinstance(level, int):
        raise errors.bad("set_verbosity(level)", "an integer", level, kind=errors.ArgumentTypeError)


guard_functions(globals())
