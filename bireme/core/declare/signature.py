"""Signatures: how the arguments of a call reach an operator's parameters, each by the kind that its annotation says."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from bireme.core.base import boundary, errors, random_state
from bireme.core.base import dtype as dtypes
from bireme.core.base.dtype import DType
from bireme.core.declare import known_calls
from bireme.core.declare.conversion import CONVERSIONS, flag, number, number_of, one_axis, plain, whole_number
from bireme.core.record import flush
from bireme.core.tensor.tensor import Tensor

MISSING: Any = object()
_NAME = inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="str | None")
_OUT = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Tensor | None")
_NUMBERS = (bool, int, float, complex, np.generic)
_TORCH = {"input": "x", "other": "y", "dim": "axis"}


# what users read for the kinds of annotations that operators are declared with; a type in brackets stands for itself
_SHOWN = {
    "Attr": "Any",
    "Extra": "Any",
    "Axis": "int",
    "Axes": "int | Sequence[int]",
    "Ints": "int | Sequence[int] | Tensor",
    "Shape": "Sequence[int | Tensor] | Tensor",
    "DTypeArg": "DTypeLike",
    "DeviceArg": "DeviceLike",
    "Const": "float",
    "Sizes": "int | Sequence[int]",
    "Padding": "int | str | Sequence[int] | Sequence[Sequence[int]]",
    "list[Tensor]": "Sequence[Tensor]",
}


class Param:
    """One parameter of an operator: its kind decides how the argument is treated."""

    __slots__ = ("name", "kind", "default", "only_keyword", "convert", "optional", "whole", "shown")

    convert: Any

    def __init__(self, name: str, hint: Any, written: Any, default: Any, only_keyword: bool):
        self.name, self.default, self.only_keyword = name, default, only_keyword
        self.shown = _shown(written, default is None)
        self.kind, self.optional, self.convert = _kind_of(hint, default)
        # `Tensor | int` takes no fractions
        self.whole = int in typing.get_args(hint) and float not in typing.get_args(hint)


@functools.cache
def _shown(written: Any, optional: bool) -> str:
    """An annotation as users read it."""
    text = written if isinstance(written, str) else inspect.formatannotation(written)
    text = _SHOWN.get(text, text)
    if text.startswith(("Attr[", "Extra[")):
        text = text.partition("[")[2][:-1]
    return f"{text} | None" if optional and text != "Any" and not text.endswith("None") else text


def _kind_of(hint: Any, default: Any) -> tuple[str, bool, Callable | None]:
    if hint is Tensor:
        return "tensor", default is None, None
    if typing.get_origin(hint) is Annotated:
        word = hint.__metadata__[0]
        if word == "axis" and default is not None:  # None means something only where it is the default
            return "attr", True, one_axis
        return (word if word in ("key", "size", "extra") else "attr"), True, CONVERSIONS.get(word, plain)
    args = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and Tensor in args:
        numeric = any(a in (float, int, bool, complex) for a in args)
        return ("number" if numeric else "tensor"), type(None) in args or default is None, None
    if typing.get_origin(hint) is list and args == (Tensor,):
        return "list", False, None
    if hint is bool and isinstance(default, bool):
        return "attr", False, flag
    if hint in (int, float) and default is not None:  # None means something only where it is the default
        return "attr", False, whole_number if hint is int else number_of
    if len(args) == 2 and type(None) in args:  # `int | None` says so
        hint = next(a for a in args if a is not type(None))
    if hint in (bool, int, float, str):
        return "attr", default is None, CONVERSIONS[hint.__name__]
    return "attr", True, plain


class Signature:
    """Parameters of an operator and how a call's arguments reach them."""

    def __init__(self, op: str, params: list[Param], options: dict[str, Any]):
        self.op, self.params = op, params
        visible = [p for p in params if p.kind not in ("key", "size")]
        self.own_names = {p.name for p in visible}
        self.positional = [p.name for p in visible if not p.only_keyword]
        self.defaults = {p.name: p.default for p in visible}
        self.required = [p.name for p in visible if p.default is MISSING]
        if "name" not in self.own_names and options.get("name_arg", "signature" not in options):
            self.positional.append("name")
            self.defaults["name"] = None
        if options.get("out"):
            self.defaults["out"] = None
        self.aliases = {k: v for k, v in _TORCH.items() if options.get("torch") and v in self.own_names}
        for name, others in (options.get("alias") or {}).items():
            for other in [others] if isinstance(others, str) else others:
                self.aliases[other] = name
        self.rejects = options.get("rejects") or {}
        self.varargs = options.get("varargs")
        self.rewrite: Callable | None = None
        self.vararg_place = self.positional.index(self.varargs) if self.varargs else -1
        self.operands = [p for p in params if p.kind in ("tensor", "number", "list", "key")]
        self.operand_names = tuple(p.name for p in self.operands)
        self.attrs = [p for p in params if p.kind in ("attr", "size")]
        self.attr_names = tuple(p.name for p in self.attrs)
        self.sizes = [p for p in params if p.kind == "size"]
        self.number_types = options.get("numbers") or {}
        self.wide = options.get("wide", False)
        codes = {
            p.name: known_calls.NUMBER if p.kind == "number" else known_calls.OPERAND
            for p in params
            if p.kind in ("tensor", "number", "list")
        }
        self.takes = codes | {other: codes[name] for other, name in self.aliases.items() if name in codes}
        self.labels = {p.name: f"{op}({p.name})" for p in params}
        self.public = self._inspectable(visible, options)

    def _inspectable(self, visible: list[Param], options: dict[str, Any]) -> list[inspect.Parameter]:
        """The parameters that users read of, in order."""
        kinds = inspect.Parameter
        if "signature" in options:
            return list(inspect.signature(options["signature"]).parameters.values())
        made = [
            kinds(
                p.name,
                kinds.KEYWORD_ONLY if p.only_keyword else kinds.POSITIONAL_OR_KEYWORD,
                default=kinds.empty if p.default is MISSING else p.default,
                annotation=p.shown,
            )
            for p in visible
        ]
        front = [p for p in made if p.kind is kinds.POSITIONAL_OR_KEYWORD]
        back = [p for p in made if p.kind is kinds.KEYWORD_ONLY]
        if "name" in self.positional and "name" not in self.own_names:
            front.append(_NAME)
        if options.get("out") is True:
            back.append(_OUT)
        return [*front, *back]

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """A call's arguments by parameter name, defaults filled in."""
        arguments = dict(self.defaults)
        if self.rewrite is not None:
            args, kwargs = self.rewrite(args, kwargs)
        if self.varargs is not None and len(args) > self.vararg_place and _begins_integers(args[self.vararg_place :]):
            args = (*args[: self.vararg_place], list(args[self.vararg_place :]))
        if len(args) > len(self.positional):
            raise boundary.too_many(self.op, len(self.positional), len(args))
        for name, x in zip(self.positional, args):
            arguments[name] = x
        for name, x in kwargs.items():
            if name not in arguments:
                name = self._alias(name)
            if name in self.positional[: len(args)]:
                raise boundary.twice(self.op, name)
            arguments[name] = x
        for name in self.required:
            if arguments[name] is MISSING:
                raise boundary.missing(self.op, name)
        return arguments

    def _alias(self, name: str) -> str:
        found = self.aliases.get(name)
        if found is not None:
            return found
        if name in self.rejects:  # what PyTorch means by it is another function
            near = boundary.meant(name, self.defaults, self.aliases)
            raise errors.bad(
                f"{self.op}({name})",
                f"a keyword among {', '.join(self.defaults)}",
                described=f"'{name}'",
                hint=f"use {f'{near}, or ' if near else ''}{self.rejects[name]}",
                kind=errors.ArgumentTypeError,
            )
        raise boundary.unknown_keyword(self.op, name, self.defaults, self.aliases)

    def tensors(self, arguments: dict[str, Any]) -> int:
        """Check the operands; returns the number of axes of the first one."""
        ndim = -1
        for p in self.operands:
            if p.kind == "key":
                arguments[p.name] = random_state.next_key()
                continue
            x = arguments[p.name]
            if isinstance(x, Tensor):
                if p.kind == "list":
                    raise errors.bad(self.labels[p.name], "a list of Tensors", x, kind=errors.NotATensorError)
                if ndim < 0:
                    ndim = x._value.sig.ndim
            elif p.kind == "list":
                if not isinstance(x, (list, tuple)):
                    raise errors.bad(self.labels[p.name], "a list of Tensors", x, kind=errors.NotATensorError)
                for t in x:
                    if not isinstance(t, Tensor) and t.__class__ is not tuple:
                        raise errors.bad(
                            self.labels[p.name],
                            "a list of Tensors",
                            described=f"a list with {errors.show(t)}",
                            kind=errors.NotATensorError,
                        )
                arguments[p.name] = x = list(x)
                if ndim < 0 and x and isinstance(x[0], Tensor):
                    ndim = x[0]._value.sig.ndim
            elif x is None and p.optional:
                continue
            else:
                if p.kind == "number" and isinstance(x, np.ndarray) and not x.ndim:
                    x = arguments[p.name] = x.item()
                if p.kind != "number" or not (isinstance(x, _NUMBERS) or _is_pair(x)):
                    wanted = "a Tensor or a number" if p.kind == "number" else "a Tensor"
                    got = x if isinstance(x, (int, float, str, type(None))) else type(x)
                    hint = "make a tensor of it with to_tensor()" if isinstance(x, (np.ndarray, list, tuple)) else None
                    raise errors.bad(self.labels[p.name], wanted, got, hint=hint, kind=errors.NotATensorError)
                if p.whole and isinstance(x, (float, complex, np.inexact)):
                    raise errors.bad(self.labels[p.name], "a Tensor or an integer", x, kind=errors.NotATensorError)
        return max(ndim, 0)

    def attributes(self, arguments: dict[str, Any], ndim: int) -> tuple:
        """Attributes, checked and in a form that can be a key."""
        labels = self.labels
        unknown = {p.name for p in self.sizes if p.name not in arguments}
        return tuple(
            [None if p.name in unknown else p.convert(arguments[p.name], ndim, labels[p.name]) for p in self.attrs]
        )

    def fill_sizes(self, arguments: dict[str, Any], op: Any) -> None:
        """Compute the sizes that depend on data: this forces them."""
        flush.sizes_follow(cut=True)
        named = {p.name: arguments[p.name]._host() for p in self.operands if isinstance(arguments[p.name], Tensor)}
        found = op.size_rule(**named)
        for p in self.sizes:
            arguments[p.name] = int(found)

    def flat(self, arguments: dict[str, Any]) -> tuple[list, tuple]:
        """Operands in a row, and the layout that says which is which."""
        operands: list[Any] = []
        layout: list[Any] = []
        for p in self.operands:
            x = arguments[p.name]
            if x is None:
                layout.append(None)
            elif p.kind == "key":
                operands.extend([(dtypes.uint32, k) for k in x])
                layout.append(2)
            elif p.kind == "list":
                operands.extend(x)
                layout.append(-len(x))
            else:
                operands.append(x if isinstance(x, (Tensor, tuple)) else self._number(p.name, x, arguments))
                layout.append(1)
        return operands, tuple(layout)

    def _number(self, name: str, x: Any, arguments: dict[str, Any]) -> tuple:
        kind = self.number_types.get(name)
        if kind is None:
            first = next((a for p in self.operands if isinstance(a := arguments[p.name], Tensor)), None)
            kind = dtypes.promote_number(first._value.sig.dtype, x) if first is not None else dtypes.of_number(x)
            kind = self.number_type(kind)
        elif isinstance(kind, str):
            kind = dtypes.of(kind)
        return (kind, number(x, kind, self.labels[name]))

    def number_type(self, dtype: DType) -> DType:
        """What a number travels in beside tensors of this type: it may be beyond half precision where the result is
        not.
        """
        return dtypes.float32 if self.wide and dtype in dtypes.NARROW else dtype

    def check_composite(self, arguments: dict[str, Any]) -> None:
        """Operands and attributes of a composite: Tensors are checked, plain kinds converted."""
        ndim = self.tensors(arguments) if self.operands else 0
        for p in self.attrs:
            arguments[p.name] = p.convert(arguments[p.name], ndim, self.labels[p.name])


_KNOWN: dict[tuple[str, str], Any] = {}


def hints_of(body: Callable) -> dict[str, Any]:
    """A body's annotations, evaluated; what a module has written before is known, which shortens the import of all
    operators.
    """
    module, written = body.__module__, body.__annotations__
    new = {text: text for text in written.values() if (module, text) not in _KNOWN}
    if new:
        found = typing.get_type_hints(types.SimpleNamespace(__annotations__=new), body.__globals__, include_extras=True)
        _KNOWN.update({(module, text): hint for text, hint in found.items()})
    return {name: _KNOWN[module, text] for name, text in written.items()}


def signature_of(name: str, body: Callable, hints: dict[str, Any], options: dict[str, Any]) -> Signature:
    """The Signature that a body's parameters and annotations declare."""
    written = body.__annotations__
    if hasattr(body, "__signature__"):  # of a body that takes what another language declares
        given = body.__signature__.parameters
        params = [Param(n, hints.get(n, Any), written.get(n, "Any"), MISSING, False) for n in given]
        return Signature(name, params, options)
    code = body.__code__
    front = code.co_argcount
    names = code.co_varnames[: front + code.co_kwonlyargcount]
    own = body.__defaults__ or ()
    defaults = {**dict(zip(names[front - len(own) : front], own)), **(body.__kwdefaults__ or {})}
    params = [
        Param(n, hints.get(n, Any), written.get(n, "Any"), defaults.get(n, MISSING), i >= front)
        for i, n in enumerate(names)
    ]
    return Signature(name, params, options)


def _begins_integers(args: tuple) -> bool:
    """Whether integers are given one by one; after one of NumPy's, Paddle takes what is no integer for the next
    argument.
    """
    first = args[0]
    return isinstance(first, int) or (
        isinstance(first, np.integer) and not any(isinstance(x, (str, DType, type, np.dtype)) for x in args)
    )


def _is_pair(x: Any) -> bool:
    """Whether it is a number with the dtype that it travels in; a tuple of the user's is none."""
    return x.__class__ is tuple and len(x) == 2 and x[0].__class__ is DType
