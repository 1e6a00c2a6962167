"""What users see of a declaration: the public function, the Tensor methods and the inplace twins.

Each has its public name, Paddle's signature with types, and a docstring; a method shares the code of its function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence  # noqa: F401  # annotations of public functions name it
from types import FunctionType, ModuleType
from typing import Any

from bireme.core.base import errors, registry
from bireme.core.base.boundary import guard_methods
from bireme.core.base.device import DeviceLike  # noqa: F401  # the same
from bireme.core.base.dtype import DTypeLike  # noqa: F401  # the same
from bireme.core.declare import precision
from bireme.core.declare.docstrings import Docstring
from bireme.core.declare.names import leave
from bireme.core.graph.segment import local
from bireme.core.tensor import tape
from bireme.core.tensor.inplace import adopt, assign_inplace, count_changes, retypes
from bireme.core.tensor.results import SortRetType  # noqa: F401  # the same
from bireme.core.tensor.tensor import Tensor

HOME = "bireme.ops"  # where every function is found by its name, until `locate` knows better
_SELF = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

PUBLIC: dict[str, Callable] = {}  # every public function by name: what bireme/__init__ lists from
INTERNAL: dict[
    str, Callable
] = {}  # the same of operators inside: libraries import them from bireme.ops, users find none
EXPORTS: dict[str, str] = {}  # where a function stands under another name or only elsewhere: path under bireme, name


def publish(made: Any) -> Callable:
    """The plain function that users call, with Paddle's signature, and the methods made from it."""
    bind, call, options = made.signature.bind, made.call, made.options

    def plain(*args: Any, **kwargs: Any) -> Any:
        try:
            trace = local.trace
            if trace is not None and trace.builds:
                return trace.build(made, args, kwargs)
            return call(bind(args, kwargs))
        except errors.TELLING as e:
            leave(e, made)
            raise

    public: Any = made.remembered() or plain
    parameters, internal = made.signature.public, options.get("internal", False)
    doc = Docstring(inspect.cleandoc(made.body.__doc__ or ""), [p.name for p in parameters], made.signature.aliases)
    returns = made.body.__annotations__.get("return", "Tensor")
    _dress(public, made, made.name, doc.function(), parameters, returns)
    if registry.is_own(made):
        (INTERNAL if internal else PUBLIC)[made.name] = public
    for path in (options.get("public") or "").split():
        EXPORTS[path] = made.name
    for name in _names(options.get("method"), made.name):
        install(public, name, doc.method(made.signature.positional[0]))
    for name in _names(options.get("inplace"), made.name + "_"):
        _install_inplace(name, public, made, doc)
    return public


def _names(option: Any, name: str) -> list[str]:
    return [name] if option is True else (option or "").split()


def _dress(fn: Any, made: Any, name: str, doc: str, parameters: list[inspect.Parameter], returns: Any) -> None:
    fn.__name__ = fn.__qualname__ = name
    fn.__module__, fn.__doc__, fn.op = HOME if registry.is_own(made) else made.body.__module__, doc, made
    fn.__signature__ = inspect.Signature(parameters, return_annotation=returns)
    fn.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": returns}


def function(public: str = "", method: bool | str = False) -> Callable[[Callable], Callable]:
    """Declare a public function that is no operator but plain Python, and found beside them; it may be a method too."""

    def declare(fn: Callable) -> Callable:
        PUBLIC[fn.__name__] = fn
        for path in public.split():
            EXPORTS[path] = fn.__name__
        if method:
            first, *others = inspect.signature(fn).parameters
            doc = Docstring(inspect.cleandoc(fn.__doc__ or ""), [first, *others], {}).method(first)
            for name in _names(method, fn.__name__):
                install(fn, name, doc)
        return fn

    return declare


def install(fn: Any, name: str, doc: str) -> None:
    """Give Tensor a method that is a function with the tensor in front: the same code, under a name of its own."""
    made = getattr(fn, "op", None)
    known = getattr(Tensor, name, None)
    if made is not None and not registry.is_own(made) and known is not None:
        other = getattr(known, "op", None)
        if other is None or registry.is_own(other):
            raise errors.bad("op(method)", "a name that Tensor does not have", name, kind=errors.ArgumentError)
    method: Any = FunctionType(fn.__code__, fn.__globals__, name, fn.__defaults__, fn.__closure__)
    method.__kwdefaults__ = fn.__kwdefaults__
    method.__dict__.update(fn.__dict__)
    method.__qualname__, method.__module__, method.__doc__, method.function = f"Tensor.{name}", "bireme", doc, fn
    sign = inspect.signature(fn)
    first, *rest = sign.parameters.values()
    if first.kind is first.VAR_POSITIONAL:  # `x.atleast_1d()`: the tensor is the first of several
        rest = [first, *rest]
    method.__signature__ = inspect.Signature([_SELF, *rest], return_annotation=sign.return_annotation)
    method.__annotations__ = {p.name: p.annotation for p in rest} | {"return": sign.return_annotation}
    setattr(Tensor, name, method)


def _install_inplace(name: str, public: Any, made: Any, doc: Docstring) -> None:
    signature, is_view = made.signature, made.options.get("view", False)
    another = name.removesuffix("_") != made.name
    first, more = signature.positional[0], made.options.get("writes", 1) - 1

    def inplace(*args: Any, **kwargs: Any) -> Tensor:
        if not args:
            args = tuple([kwargs.pop(k) for k in list(kwargs) if signature.aliases.get(k, k) == first][:1])
        x = args[0] if args else None
        rule = made.inplace_rule
        try:
            if not isinstance(x, Tensor):
                raise errors.bad(f"{name}(x)", "a Tensor", x, kind=errors.NotATensorError)
            if "out" in kwargs:
                raise errors.bad(
                    f"{name}(out)", "no out, since x is changed inplace", kwargs["out"], kind=errors.ArgumentTypeError
                )
            if local.trace is not None and local.trace.builds:
                return local.trace.build_inplace(inplace, made, name, args, kwargs)
            since = tape.now()
            if precision.state.policy is None:
                new = public(*args, **kwargs) if rule is None else by_rule(rule, args, kwargs)
            else:  # what is changed keeps its type: mixed precision passes it by, as in Paddle
                with precision.using(None):
                    new = public(*args, **kwargs) if rule is None else by_rule(rule, args, kwargs)
            if rule is not None:
                return new
            if is_view:
                return adopt(x, new, name)
            assign_inplace(x, new, name, since, retypes(x, new, made, name))
            if more:
                count_changes(x, more)
            return x
        except errors.TELLING as e:
            if another or rule is not None:  # told by the name that the user called
                errors.renamed(e, name, signature.defaults)
            errors.leave(e)
            raise

    def by_rule(rule: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        given = signature.bind(args, kwargs)
        return rule(*[given[n] for n in signature.positional if n in signature.own_names])

    parameters = [p for p in signature.public if p.name != "out"]
    if name == made.name:  # there is no other form that the one in place could be told by
        texts = doc.function(), doc.method(first)
    else:
        texts = doc.inplace(made.told, name, first), doc.inplace_method(made.told, first)
    _dress(inplace, made, name, texts[0], parameters, "Tensor")
    if registry.is_own(made):
        PUBLIC[name] = inplace
    install(inplace, name, texts[1])


def locate(modules: Iterable[ModuleType]) -> None:
    """Tell functions where users find them: in the first of these modules that lists them, by their own name if it can
    be.
    """
    found: dict[Any, list[tuple[str, str]]] = {}
    for module in modules:
        for name in module.__all__:
            fn = vars(module).get(name)  # what is loaded when it is asked for is told by its own module
            if fn.__class__ is FunctionType and fn.__module__.startswith(HOME):
                found.setdefault(fn, []).append((module.__name__, name))
    for fn, places in found.items():
        fn.__module__, fn.__name__ = next((place for place in places if place[1] == fn.__name__), places[0])
        fn.__qualname__ = fn.__name__
    guard_methods(Tensor, ("__init__", "__bool__", "__int__", "__float__", "__complex__", "__index__", "__len__"))
    for name, method in vars(Tensor).items():
        if method.__class__ is FunctionType and method.__module__ != "bireme" and not name.startswith("_"):
            method.__name__, method.__qualname__, method.__module__ = name, f"Tensor.{name}", "bireme"
    Tensor.__module__ = "bireme"
