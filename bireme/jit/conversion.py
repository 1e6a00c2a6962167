"""Which functions are rewritten when a program is captured, and how they are found again."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

from bireme.core.base import errors
from bireme.core.program import building
from bireme.jit import rewriting, statements
from bireme.nn.layer import Layer

_made: weakref.WeakKeyDictionary[types.CodeType, types.CodeType | None] = weakref.WeakKeyDictionary()
_lock = threading.RLock()
_ignored: set[str] = set()
_printed = 0  # how many rewritten functions are shown: none, or all


def ignore_module(modules: list[types.ModuleType]) -> None:
    """Leave functions of modules as they are when a program is captured.

    Args:
        modules: The modules. Their functions are called as they are, so they may not branch on tensors.

    Examples:
        >>> import json
        >>> bireme.jit.ignore_module([json])
    """
    for module in modules if isinstance(modules, (list, tuple)) else [modules]:
        if not isinstance(module, types.ModuleType):
            raise errors.bad("ignore_module(modules)", "a list of modules", modules, kind=errors.ArgumentTypeError)
        _ignored.add(module.__name__)


def not_to_static(func: Callable | None = None) -> Any:
    """Let a function be called as it is when a program is captured.

    Args:
        func: The function. Default: None, to be used as a decorator with parentheses.

    Returns:
        The function.

    Examples:
        >>> @bireme.jit.not_to_static
        ... def scale(x):
        ...     return x * 2
    """
    if func is None:
        return not_to_static
    plain: Any = getattr(func, "__func__", func)
    plain.__bireme_converted__ = True
    return func


# ------------------------------------------------------------ whether


def _left_alone(fn: types.FunctionType) -> bool:
    """Whether a function belongs to Bireme, Python or a module that is to be ignored."""
    if getattr(fn, "__bireme_converted__", False):
        return True
    module = fn.__module__ or ""
    return not belongs_to_user(module) or any(module == name or module.startswith(name + ".") for name in _ignored)


def belongs_to_user(module: str | None) -> bool:
    """Whether a module is neither of Bireme nor of Python, nor of what it is built on."""
    top = (module or "").partition(".")[0]
    return top not in ("bireme", "numpy", "jax", "scipy") and (top not in sys.stdlib_module_names or top == "__main__")


def to_call(fn: Any) -> Any:
    """What is called in the place of `fn` while a program is captured."""
    if isinstance(fn, types.FunctionType):
        return rewritten(fn)
    if isinstance(fn, types.MethodType):
        made = to_call(fn.__func__)
        return fn if made is fn.__func__ else types.MethodType(made, fn.__self__)
    if isinstance(fn, functools.partial):
        made = to_call(fn.func)
        return fn if made is fn.func else functools.partial(made, *fn.args, **fn.keywords)
    if isinstance(fn, Layer):
        return _Layered(fn)
    if isinstance(fn, (type, types.BuiltinFunctionType, types.ModuleType)):
        return fn
    plain = getattr(fn, "__bireme_original__", None)  # a function that was given to to_static
    if plain is not None:
        return to_call(plain)
    method = inspect.getattr_static(type(fn), "__call__", None)
    if isinstance(method, types.FunctionType) and not _left_alone(method):
        return types.MethodType(rewritten(method), fn)
    return fn


class _Layered:
    """A layer that is called with its sublayers known by their paths."""

    def __init__(self, layer: Layer):
        self.layer = layer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        builder = building.current()
        if builder is None:
            return self.layer(*args, **kwargs)
        name_layers(self.layer)
        # in static mode, too, where layers are called as they are unless their function was given to to_static
        outer, builder.forward_of = builder.forward_of, forward_of
        try:
            return self.layer(*args, **kwargs)
        finally:
            builder.forward_of = outer


def name_layers(root: Layer) -> None:
    """Let the program that is captured know a layer and its sublayers by their paths from it, if it does not yet."""
    builder = building.current()
    if builder is not None and id(root) not in builder.paths:
        for path, layer in root.named_sublayers(include_self=True):
            builder.paths.setdefault(id(layer), path)


def forward_of(layer: Layer) -> Callable:
    """The rewritten `forward` of a layer: what is recorded inside is known by the layer's path."""
    forward = to_call(layer.forward)

    def called(*args: Any, **kwargs: Any) -> Any:
        builder = building.current()
        if builder is None:
            return forward(*args, **kwargs)
        outer, builder.scope = builder.scope, builder.paths.get(id(layer), "") or builder.scope
        try:
            return forward(*args, **kwargs)
        finally:
            builder.scope = outer

    return called


statements.rewritten_by.append(to_call)


# ------------------------------------------------------------ how


def rewritten(fn: types.FunctionType) -> types.FunctionType:
    """A function with its statements recorded where they depend on variables; the same one where there is nothing to do."""
    if _left_alone(fn):
        return fn
    code = fn.__code__
    with _lock:
        if code not in _made:
            _made[code] = _compiled(fn)
        new = _made[code]
    if new is None:
        return fn
    cells = dict(zip(code.co_freevars, fn.__closure__ or (), strict=True))
    cells[rewriting.HELPER] = types.CellType(statements)
    made = types.FunctionType(
        new, fn.__globals__, fn.__name__, fn.__defaults__, tuple([cells[n] for n in new.co_freevars])
    )
    made.__kwdefaults__, made.__qualname__, made.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    made.__dict__.update(fn.__dict__)
    made.__bireme_converted__ = True  # type: ignore[attr-defined]  # a mark of ours on a function
    return made


def _compiled(fn: types.FunctionType) -> types.CodeType | None:
    code = fn.__code__
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    node = node_of(code)
    if node is None:
        return None
    made = _function(node, fn)
    made.name = "__function"  # the name that it has is another one's here: its own, where it calls itself
    arguments = [ast.arg(n) for n in dict.fromkeys([*code.co_freevars, rewriting.HELPER])]
    body = [made, ast.Return(ast.Name(made.name, ast.Load()))]
    factory = rewriting.define("__factory", ast.arguments([], arguments, None, [], [], None, []), body)
    module = ast.Module([rewriting.at(factory, node)], [])
    ast.fix_missing_locations(module)
    whole = compile(module, code.co_filename, "exec", dont_inherit=True)  # of the source that this function has
    found = _code_named(_code_named(whole, "__factory"), made.name)
    if _printed:
        sys.stdout.write(ast.unparse(made) + "\n")
    return found.replace(co_name=code.co_name, co_qualname=code.co_qualname)


def _function(node: Any, fn: types.FunctionType) -> ast.FunctionDef:
    parts = fn.__qualname__.split(".")
    owner = parts[-2] if len(parts) > 1 and parts[-2] != "<locals>" else None
    if isinstance(node, ast.Lambda):
        body: list[ast.stmt] = [rewriting.at(ast.Return(node.body), node)]
        node = rewriting.at(rewriting.define("__lambda", node.args, body), node)
    made = rewriting.Rewriter(owner).function(node)
    made.args = _without_defaults(made.args)
    made.returns = None
    return made


def _without_defaults(args: ast.arguments) -> ast.arguments:
    """Arguments without values and annotations: the function brings its own."""
    none = ast.Constant(None)
    bare = [[ast.arg(a.arg) for a in group] for group in (args.posonlyargs, args.args, args.kwonlyargs)]
    rest = [None if a is None else ast.arg(a.arg) for a in (args.vararg, args.kwarg)]
    keywords: list[ast.expr | None] = [None if d is None else none for d in args.kw_defaults]
    return ast.arguments(bare[0], bare[1], rest[0], bare[2], keywords, rest[1], [none for _ in args.defaults])


def _code_named(code: types.CodeType, name: str) -> types.CodeType:
    return next(c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == name)


@functools.lru_cache(64)
def _tree(filename: str, text: str) -> ast.Module | None:
    try:
        return ast.parse(text, filename)
    except SyntaxError:
        return None


def node_of(code: types.CodeType) -> Any:
    """The node of a function in the source; None where there is none, or several that it may be."""
    text = "".join(linecache.getlines(code.co_filename))
    tree = _tree(code.co_filename, text) if text else None
    if tree is None:
        return None
    if code.co_name == "<lambda>":
        places = [(line, column) for line, _, column, _ in code.co_positions() if line and column is not None]
        first = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and _begins(n.body, places)]
        return first[0] if len(first) == 1 else None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first_line = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            if code.co_firstlineno in (first_line, node.lineno):
                return node
    return None


def _begins(body: ast.expr, places: list[tuple[int, int]]) -> bool:
    """Whether code at these places is that of an expression."""
    inside = [p for p in places if (body.lineno, body.col_offset) <= p]
    end = (body.end_lineno or body.lineno, body.end_col_offset or 0)
    return bool(inside) and all(p < end for p in inside) and min(inside) == (body.lineno, body.col_offset)


def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """Show functions as they are rewritten when a program is captured.

    Args:
        level: 0 for none; any other number shows them. Default: 100.
        also_to_stdout: Has no effect: they are printed.

    Examples:
        >>> bireme.jit.set_code_level(0)
    """
    global _printed
    if isinstance(level, bool) or not isinstance(level, int):
        raise errors.bad("set_code_level(level)", "an integer", level, kind=errors.ArgumentTypeError)
    _printed = level
