"""Arguments of operators: binding by Paddle's signatures, and one conversion and check per kind of annotation."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from bireme.core import amp, errors, flush, guards, random, registry, segments, shortcut
from bireme.core import dtype as dtypes
from bireme.core.arrays import convert as cast_host
from bireme.core.dtype import DType
from bireme.core.tensor import Tensor, read

# kinds of attributes, as annotations: what the user may pass, and the name of the conversion below
Attr = Annotated[Any, "attr"]
Axis = Annotated[Any, "axis"]  # one axis of the first operand
Axes = Annotated[Any, "axes"]  # None, one axis or several; a tuple of axes in range, or None
Ints = Annotated[Any, "ints"]  # an int or several, also as tensors; a tuple
Shape = Annotated[Any, "shape"]  # a shape, also as a tensor or with tensors in it; a tuple
DTypeArg = Annotated[Any, "dtype"]  # anything that names a type; a DType or None
Const = Annotated[Any, "const"]  # a number that must be part of the program
Extra = Annotated[Any, "extra"]  # only for the operator's prepare rule: never reaches the body
Key = Annotated[Any, "key"]  # a place in the random stream, given by the engine
Size = Annotated[Any, "size"]  # a size that depends on data, computed by the operator's rule

MISSING: Any = object()
_NUMBERS = (bool, int, float, complex, np.generic)


class Param:
    """One parameter of an operator: its kind decides how the argument is treated."""

    __slots__ = ("name", "kind", "default", "only_keyword", "convert", "optional", "whole")

    convert: Any

    def __init__(self, name: str, hint: Any, default: Any, only_keyword: bool):
        self.name, self.default, self.only_keyword = name, default, only_keyword
        self.kind, self.optional, self.convert = _kind_of(hint, default)
        self.whole = int in typing.get_args(hint) and float not in typing.get_args(hint)  # `Tensor | int` takes no fractions


def _kind_of(hint: Any, default: Any) -> tuple[str, bool, Callable | None]:
    if hint is Tensor:
        return "tensor", default is None, None
    if typing.get_origin(hint) is Annotated:
        word = hint.__metadata__[0]
        if word == "axis" and default is not None:  # None means something only where it is the default
            return "attr", True, one_axis
        return (word if word in ("key", "size", "extra") else "attr"), True, _CONVERSIONS.get(word, _plain)
    args = typing.get_args(hint)
    if typing.get_origin(hint) in (types.UnionType, typing.Union) and Tensor in args:
        numeric = any(a in (float, int, bool, complex) for a in args)
        return ("number" if numeric else "tensor"), type(None) in args or default is None, None
    if typing.get_origin(hint) is list and args == (Tensor,):
        return "list", False, None
    if hint is bool and isinstance(default, bool):
        return "attr", False, _flag
    if hint in (int, float) and default is not None:  # None means something only where it is the default
        return "attr", False, _int if hint is int else _number_of
    if len(args) == 2 and type(None) in args:  # `int | None` says so
        hint = next(a for a in args if a is not type(None))
    if hint in (bool, int, float, str):
        return "attr", default is None, _CONVERSIONS[hint.__name__]
    return "attr", True, _plain


# ---------------------------------------------------------------- attributes: (value, ndim of first operand, where) -> hashable


def _plain(x: Any, ndim: int, where: str) -> Any:
    if isinstance(x, list):
        return tuple(_plain(i, ndim, where) for i in x)
    return x


def _int(x: Any, ndim: int, where: str) -> int:
    if isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return int(x)
    if isinstance(x, Tensor) and x._value.sig.size == 1 and x._value.sig.dtype.kind in "ib":
        return int(x)
    if isinstance(x, np.ndarray) and x.size == 1 and x.dtype.kind in "iu":
        return int(x.item())
    raise errors.bad(where, "an integer", x, kind=errors.Alien)


def _opt_int(x: Any, ndim: int, where: str) -> int | None:
    return None if x is None else _int(x, ndim, where)


def _float(x: Any, ndim: int, where: str) -> float | None:
    if x is None:
        return None
    if isinstance(x, (int, float, np.number)) or (isinstance(x, Tensor) and x._value.sig.size == 1):
        return float(x)
    if isinstance(x, np.ndarray) and x.size == 1:
        return float(x.item())
    raise errors.bad(where, "a number", x, kind=errors.Alien)


def _number_of(x: Any, ndim: int, where: str) -> float:
    if x is None:
        raise errors.bad(where, "a number", x, kind=errors.Alien)
    return typing.cast(float, _float(x, ndim, where))


def _bool(x: Any, ndim: int, where: str) -> bool | None:
    if x is None or isinstance(x, bool):
        return x
    if isinstance(x, (int, np.bool_, np.integer)) or (isinstance(x, Tensor) and x._value.sig.size == 1):
        return bool(x)
    raise errors.bad(where, "True or False", x, kind=errors.Alien)


def _flag(x: Any, ndim: int, where: str) -> bool | None:
    """A bool that is not left open: Paddle takes None for False."""
    return _bool(x, ndim, where) or False


def _str(x: Any, ndim: int, where: str) -> str | None:
    if x is None or isinstance(x, str):
        return x
    raise errors.bad(where, "a string", x, kind=errors.Alien)


def one_axis(x: Any, ndim: int, where: str) -> int:
    """An axis in range, counted from the front."""
    axis = _int(x, ndim, where)
    low, high = (-ndim, ndim - 1) if ndim else (-1, 0)
    if not low <= axis <= high:
        raise errors.bad(where, f"an axis in [{low}, {high}]", axis, kind=errors.OutOfRange)
    return axis + ndim if axis < 0 and ndim else max(axis, 0)


def _axis(x: Any, ndim: int, where: str) -> int | None:
    return None if x is None else one_axis(x, ndim, where)


def _axes(x: Any, ndim: int, where: str) -> tuple[int, ...] | None:
    if x is None:
        return None
    if isinstance(x, (Tensor, np.ndarray)):
        x = x.tolist()
    if not isinstance(x, (list, tuple, range)):
        return (one_axis(x, ndim, where),) if ndim else _no_axes(x, ndim, where)
    found = [one_axis(i, ndim, where) for i in x]
    if not ndim and len(found) < 2:
        return ()
    if len(set(found)) != len(found):
        raise errors.bad(where, "different axes", list(x))
    return tuple(sorted(found))


def _no_axes(x: Any, ndim: int, where: str) -> tuple[int, ...]:
    one_axis(x, ndim, where)
    return ()


def ints(x: Any, ndim: int, where: str) -> tuple[int, ...] | None:
    """One integer or several as a tuple; tensors among them are read."""
    if x is None:
        return None
    if isinstance(x, Tensor):
        if x._value.sig.dtype.kind != "i":
            raise errors.bad(where, "integers", x, kind=errors.Alien)
        x = x._host().reshape(-1).tolist()
    if isinstance(x, np.ndarray):
        x = x.reshape(-1).tolist()
    if isinstance(x, (list, tuple, range)):
        return tuple([_int(i, ndim, where) for i in x])
    return (_int(x, ndim, where),)


MAX_EXTENT = 1 << 40


def shape(x: Any, ndim: int, where: str) -> tuple[int, ...] | None:
    """A shape: integers that are not negative."""
    found = ints(x, ndim, where)
    if found is not None:
        total = 1
        for n in found:
            if n < 0:
                raise errors.bad(where, "extents of 0 or more", list(found))
            total *= max(n, 1)
        if total > MAX_EXTENT:
            raise errors.bad(where, "a tensor that can exist", f"shape {list(found)}, {total:,} elements", kind=MemoryError)
    return found


def _dtype(x: Any, ndim: int, where: str) -> DType | None:
    return None if x is None else dtypes.of(x, where)


def _const(x: Any, ndim: int, where: str) -> Any:
    if isinstance(x, np.generic) or (isinstance(x, Tensor) and x._value.sig.size == 1):
        x = x.item()
    if x is None or isinstance(x, (bool, int, float, complex)):
        return x
    raise errors.bad(where, "a number", x, kind=errors.Alien)


_CONVERSIONS: dict[str, Callable] = {
    "attr": _plain, "axis": _axis, "axes": _axes, "ints": ints, "shape": shape, "dtype": _dtype, "const": _const,
    "int": _opt_int, "float": _float, "bool": _bool, "str": _str,
}  # fmt: skip


# ---------------------------------------------------------------- signatures

_TORCH = {"input": "x", "other": "y", "dim": "axis"}


class Signature:
    """Parameters of an operator and how a call's arguments reach them."""

    def __init__(self, op: str, params: list[Param], options: dict[str, Any]):
        self.op, self.params = op, params
        visible = [p for p in params if p.kind not in ("key", "size")]
        self.own_names = {p.name for p in visible}
        self.positional = [p.name for p in visible if not p.only_keyword]
        self.defaults = {p.name: p.default for p in visible}
        self.required = [p.name for p in visible if p.default is MISSING]
        if "name" not in self.own_names and options.get("name_arg", True):
            self.positional.append("name")
            self.defaults["name"] = None
        if options.get("out"):
            self.defaults["out"] = None
        self.aliases = {k: v for k, v in _TORCH.items() if options.get("torch") and v in self.own_names}
        for name, others in (options.get("alias") or {}).items():
            for other in [others] if isinstance(others, str) else others:
                self.aliases[other] = name
        self.rejects = options.get("rejects") or {}
        self.varargs, self.pack = options.get("varargs"), options.get("pack", list)
        self.pairs = options.get("pairs") or ()  # keywords that stand for two of the varargs
        self.vararg_place = self.positional.index(self.varargs) if self.varargs else -1
        self.operands = [p for p in params if p.kind in ("tensor", "number", "list", "key")]
        self.operand_names = tuple(p.name for p in self.operands)
        self.attrs = [p for p in params if p.kind in ("attr", "size")]
        self.attr_names = tuple(p.name for p in self.attrs)
        self.sizes = [p for p in params if p.kind == "size"]
        self.number_types = options.get("numbers") or {}
        self.wide = options.get("wide", False)
        codes = {p.name: shortcut.NUMBER if p.kind == "number" else shortcut.OPERAND for p in params if p.kind in ("tensor", "number", "list")}
        self.takes = codes | {other: codes[name] for other, name in self.aliases.items() if name in codes}
        self.labels = {p.name: f"{op}({p.name})" for p in params}
        self.public = self._inspectable(visible, options)
        self.inplace = self.public.replace(parameters=[p for p in self.public.parameters.values() if p.name != "out"])

    def _inspectable(self, visible: list[Param], options: dict[str, Any]) -> inspect.Signature:
        kinds = inspect.Parameter
        made = [
            kinds(
                p.name,
                kinds.KEYWORD_ONLY if p.only_keyword else kinds.POSITIONAL_OR_KEYWORD,
                default=kinds.empty if p.default is MISSING else p.default,
            )
            for p in visible
        ]
        front = [p for p in made if p.kind is kinds.POSITIONAL_OR_KEYWORD]
        back = [p for p in made if p.kind is kinds.KEYWORD_ONLY]
        if "name" in self.positional and "name" not in self.own_names:
            front.append(kinds("name", kinds.POSITIONAL_OR_KEYWORD, default=None))
        if options.get("out") is True:
            back.append(kinds("out", kinds.KEYWORD_ONLY, default=None))
        return inspect.Signature([*front, *back])

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """A call's arguments by parameter name, defaults filled in."""
        arguments = dict(self.defaults)
        if self.varargs is not None and len(args) > self.vararg_place and _begins_integers(args[self.vararg_place :]):
            args = (*args[: self.vararg_place], self.pack(args[self.vararg_place :]))
        if len(args) > len(self.positional):
            raise errors.bad(f"{self.op}()", f"at most {len(self.positional)} positional arguments", f"{len(args)}", kind=TypeError)
        for name, x in zip(self.positional, args):
            arguments[name] = x
        for a, b in zip(self.pairs[::2], self.pairs[1::2]):
            if a in kwargs and b in kwargs:
                kwargs = {**kwargs, str(self.varargs): self.pack((kwargs[a], kwargs[b]))}
                del kwargs[a], kwargs[b]
        for name, x in kwargs.items():
            if name not in arguments:
                name = self._alias(name)
            if name in self.positional[: len(args)]:
                raise errors.bad(f"{self.op}({name})", "one value", "two, by position and by keyword", kind=TypeError)
            arguments[name] = x
        for name in self.required:
            if arguments[name] is MISSING:
                raise errors.bad(f"{self.op}({name})", "a value", "none: the argument is missing", kind=TypeError)
        return arguments

    def _alias(self, name: str) -> str:
        found = self.aliases.get(name)
        if found is not None:
            return found
        if name in self.rejects:
            raise errors.bad(f"{self.op}({name})", f"keywords of {self.op}", f"'{name}'", hint=f"use {self.rejects[name]}", kind=TypeError)
        near = difflib.get_close_matches(name, [*self.defaults, *self.aliases], 1)
        hint = f"did you mean {near[0]}?" if near else None
        raise errors.bad(f"{self.op}({name})", f"a keyword among {', '.join(self.defaults)}", f"'{name}'", hint=hint, kind=TypeError)

    def tensors(self, arguments: dict[str, Any]) -> int:
        """Check the operands; returns the number of axes of the first one."""
        ndim = -1
        for p in self.operands:
            if p.kind == "key":
                arguments[p.name] = random.next_key()
                continue
            x = arguments[p.name]
            if isinstance(x, Tensor):
                if p.kind == "list":
                    raise errors.bad(self.labels[p.name], "a list of Tensors", x, kind=TypeError)
                if ndim < 0:
                    ndim = x._value.sig.ndim
            elif p.kind == "list":
                if not isinstance(x, (list, tuple)):
                    raise errors.bad(self.labels[p.name], "a list of Tensors", x, kind=TypeError)
                for t in x:
                    if not isinstance(t, Tensor) and t.__class__ is not tuple:
                        raise errors.bad(self.labels[p.name], "a list of Tensors", f"a list with {errors.show(t)}", kind=TypeError)
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
                    got = type(x) if not isinstance(x, (int, float, type(None))) else x
                    hint = "make a tensor of it with to_tensor()" if isinstance(x, (np.ndarray, list, tuple)) else None
                    raise errors.bad(self.labels[p.name], wanted, got, hint, kind=errors.NotTensor)
                if p.whole and isinstance(x, (float, complex, np.inexact)):
                    raise errors.bad(self.labels[p.name], "a Tensor or an integer", x, kind=TypeError)
        return max(ndim, 0)

    def attributes(self, arguments: dict[str, Any], ndim: int) -> tuple:
        """Attributes, checked and in a form that can be a key."""
        labels = self.labels
        unknown = {p.name for p in self.sizes if p.name not in arguments}
        return tuple([None if p.name in unknown else p.convert(arguments[p.name], ndim, labels[p.name]) for p in self.attrs])

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
        """What a number travels in beside tensors of this type: it may be beyond half precision where the result is not."""
        return dtypes.float32 if self.wide and dtype in dtypes.NARROW else dtype

    def check_composite(self, arguments: dict[str, Any]) -> None:
        """Operands and attributes of a composite: Tensors are checked, plain kinds converted."""
        ndim = self.tensors(arguments) if self.operands else 0
        for p in self.attrs:
            arguments[p.name] = p.convert(arguments[p.name], ndim, self.labels[p.name])


_KNOWN: dict[tuple[str, str], Any] = {}


def hints_of(body: Callable) -> dict[str, Any]:
    """A body's annotations, evaluated; what a module has written before is known, which shortens the import of all operators."""
    module, written = body.__module__, body.__annotations__
    new = {text: text for text in written.values() if (module, text) not in _KNOWN}
    if new:
        found = typing.get_type_hints(types.SimpleNamespace(__annotations__=new), body.__globals__, include_extras=True)
        _KNOWN.update({(module, text): hint for text, hint in found.items()})
    return {name: _KNOWN[module, text] for name, text in written.items()}


def signature_of(name: str, body: Callable, hints: dict[str, Any], options: dict[str, Any]) -> Signature:
    """The Signature that a body's parameters and annotations declare."""
    params = []
    for p in inspect.signature(body).parameters.values():
        default = MISSING if p.default is inspect.Parameter.empty else p.default
        params.append(Param(p.name, hints.get(p.name, Any), default, p.kind is inspect.Parameter.KEYWORD_ONLY))
    return Signature(name, params, options)


# ---------------------------------------------------------------- numbers and promotion


def _begins_integers(args: tuple) -> bool:
    """Whether integers are given one by one; after one of NumPy's, Paddle takes what is no integer for the next argument."""
    first = args[0]
    return isinstance(first, int) or (isinstance(first, np.integer) and not any(isinstance(x, (str, DType, type, np.dtype)) for x in args))


def _is_pair(x: Any) -> bool:
    """Whether it is a number with the dtype that it travels in; a tuple of the user's is none."""
    return x.__class__ is tuple and len(x) == 2 and x[0].__class__ is DType


def number(x: Any, dtype: DType, where: str) -> Any:
    """A Python number that fits the type it will travel in."""
    if isinstance(x, np.generic):
        x = x.item()
    if dtype.kind == "i":
        if isinstance(x, complex):
            raise errors.bad(where, f"a real number for {dtype.name}", x, kind=TypeError)
        if isinstance(x, float):
            return int(cast_host(np.array(x), dtype))
        info = np.iinfo(dtype.np)
        if not info.min <= x <= info.max:
            if dtype.itemsize < 8 and -(2**63) <= x < 2**63:
                return int(np.array(x, np.int64).astype(dtype.np))
            raise errors.bad(where, f"a number in the range of {dtype.name}", x, kind=OverflowError)
        return x
    if dtype.kind == "b":
        return bool(x)
    if dtype.kind == "f":
        if isinstance(x, complex):
            raise errors.bad(where, f"a real number for {dtype.name}", x, kind=TypeError)
        return float(x)
    return complex(x)


def common_dtype(op: str, xs: list, mix: str = "scalars", halves: bool = False) -> DType | None:
    """The type of an operator on these operands by Paddle's rules, of which there are five.

    "scalars": floats mix with floats and complex with real; numbers and 0-d tensors give way to the others. "floats": a
    0-d tensor counts like any other. "any": where one is 0-d, the type that holds both. "same": no two types mix.
    "complex": none but real with complex, and integers to the right of float32. With `halves`, which is mixed precision, float32
    and half precision mix in all of them.
    """
    full: DType | None = None
    scalar: DType | None = None
    for x in xs:
        for t in x if isinstance(x, list) else [x]:
            if not isinstance(t, Tensor):
                continue
            sig = t._value.sig
            if sig.ndim == 0 and mix in ("scalars", "any"):
                scalar = sig.dtype if scalar is None else dtypes.promote_any(scalar, sig.dtype)
            elif full is None:
                full = sig.dtype
            elif full is not sig.dtype:
                mixes = mix != "same" and (mix != "complex" or full.is_complex is not sig.dtype.is_complex)
                mixes = mixes or (halves and amp.MIXED.issuperset((full, sig.dtype)))
                both = dtypes.promote(full, sig.dtype) if mixes else None
                if both is None and mix == "complex" and full is dtypes.float32 and sig.dtype.is_integer:
                    both = full
                if both is None:
                    got = f"{full.name} and {sig.dtype.name}"
                    raise errors.bad(f"{op}()", "operands of one kind", got, hint="cast one of them: x.astype(...)", kind=errors.NoKernel)
                full = both
    if full is None or scalar is None or scalar is full:
        found = scalar if full is None else full
    else:
        found = (dtypes.promote_any if mix == "any" else dtypes.promote_scalar)(full, scalar)
    if found is None or mix == "same":
        return found
    for x in xs:
        if not isinstance(x, (Tensor, list)):
            own = dtypes.promote(found, dtypes.of_number(x)) if mix == "floats" else None
            found = own or dtypes.promote_number(found, x)
    return found


# ---------------------------------------------------------------- indices


def check_range(where: str, t: Any, low: int, high: int, ignored: int | None = None) -> None:
    """Raise for an index outside [low, high) that is not the ignored one. Host-made integers are checked now, others by a flag."""
    if not isinstance(t, Tensor):
        return
    v = read(t)
    if v.sig.size == 0 or v.sig.dtype.kind != "i":  # another type is refused by the operator itself
        return
    if v.bounds is not None and low <= v.bounds[0] and v.bounds[1] < high:  # known from before it went to the device
        return
    wanted = f"indices in [{low}, {high - 1}]" + ("" if ignored is None else f" or {ignored}")
    on_host = v.array is not None and (isinstance(v.array, np.ndarray) or v.device.is_cpu)
    if on_host:
        host = np.asarray(v.array)
        if v.bounds is None:
            v.bounds = (int(host.min()), int(host.max()))
        least, most = v.bounds
        if ignored is not None and (least < low or most >= high):
            wrong = host[((host < low) | (host >= high)) & (host != ignored)]
            least, most = (int(wrong.min()), int(wrong.max())) if wrong.size else (low, low)
        if least < low or most >= high:
            raise errors.bad(where, wanted, least if least < low else most, kind=errors.OutOfRange)
    elif not segments.local.segment.symbolic:
        low, high = (low, high) if ignored is None else (min(low, ignored), max(high, ignored + 1))
        # no part of what a composite remembers: the operator asks again each time
        trace, segments.local.trace = segments.local.trace, None
        try:
            flag = registry.find("any_outside")(t, low, high)
            guards.guard(flag._value, f"{where}: expected {wanted}, got one outside", errors.OutOfRange)
        finally:
            segments.local.trace = trace
