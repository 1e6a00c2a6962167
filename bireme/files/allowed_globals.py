"""What pickled arrays consist of: dtypes, arrays, and the few global names in them, each with a function of ours."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from bireme.core.base.errors import FileFormatError
from bireme.files import opcodes as op
from bireme.files.collisions import Tables

MAX_AXES = 64
MIN_BLOB_BYTES = 256  # bytes; longer ones are kept as arrays

_LIMIT = 1 << 62
_ORDERS = {"<": "<", ">": ">", "|": "=", "=": "="}
_TAGGED = {
    "float8_e4m3fn": ("i1", ml_dtypes.float8_e4m3fn),
    "float8_e5m2": ("i1", ml_dtypes.float8_e5m2),
    "uint16": ("u2", np.uint16),
}
_LATIN = ("latin1", "latin-1", "iso-8859-1")


class Word:
    """A global name that a file may contain."""

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name


class Kind:
    """A dtype while it is read."""

    __slots__ = ("code", "order", "tag")

    def __init__(self, code: str):
        self.code, self.order = code, "<"
        self.tag: str | None = None

    @property
    def np(self) -> np.dtype:
        return np.dtype(self.order + self.code)


class Array:
    """An array while it is read: created before its content. ``tag`` names a dtype that NumPy has no code for."""

    __slots__ = ("data", "tag", "made")

    def __init__(self) -> None:
        self.data: np.ndarray | None = None
        self.tag: str | None = None
        self.made: Any = None  # what finally replaces it

    def value(self) -> np.ndarray:
        if self.data is None:
            raise FileFormatError("an array without data")
        return self.data


class Blob:
    """Many bytes. However often a file refers to them, they become one object."""

    __slots__ = ("data", "used", "made")

    def __init__(self, data: np.ndarray):
        self.data, self.used = data, False
        self.made: bytes | None = None

    def value(self) -> bytes:
        if self.made is None:
            self.made = self.data.tobytes()
        return self.made


def _words() -> dict[tuple[str, str], Word]:
    found = {}
    for module in ("numpy._core", "numpy.core"):
        found[f"{module}.multiarray", "_reconstruct"] = Word("array")
        found[f"{module}.multiarray", "scalar"] = Word("scalar")
        found[f"{module}.numeric", "_frombuffer"] = Word("frombuffer")
    found |= {("numpy", "ndarray"): Word("ndarray"), ("numpy", "dtype"): Word("dtype")}
    found |= {("collections", "OrderedDict"): Word("ordered"), ("_codecs", "encode"): Word("encode")}
    for module in ("builtins", "__builtin__"):
        for name in ("tuple", "list", "set", "frozenset", "bytes", "bytearray", "complex"):
            found[module, name] = Word(name)
        # Paddle writes a tensor of a static graph as a call of eval that returns an array; it is read, not called
        found[module, "eval"] = Word("held")
    return found


WORDS = _words()


class Builder:
    """Makes arrays and what else has a name; all of them together cannot be larger than the file."""

    def __init__(self, size: int):
        self.room = size + MIN_BLOB_BYTES  # for arrays
        self.copies = size + MIN_BLOB_BYTES  # for copies of objects that were made before
        self.tables = Tables()

    def copied(self, x: Any) -> Any:
        """Count what is about to be copied: a reference to an object costs one byte in the file, its copy does not."""
        self.copies -= len(x)
        if self.copies < 0:
            raise FileFormatError("copied objects larger than the file in total")
        return x

    def key_for(self, target: Any, key: Any) -> Any:
        """A key as it is, if it may go into this dict or set."""
        if not is_key(key):
            raise FileFormatError(f"{what(key)} as a key")
        # no writer does this; equal texts are compared to their end each time
        if key in target:
            raise FileFormatError("a key that is there twice")
        if not self.tables.add(target, key):
            raise FileFormatError("keys that were chosen to collide")
        return key

    def collected(self, items: Iterable[Any]) -> set:
        made: set[Any] = set()
        for key in items:
            made.add(self.key_for(made, key))
        return made

    def frozen(self, items: list | tuple) -> frozenset:
        self.collected(items)
        return frozenset(items)  # in the order that was looked at; a copy of the set would have another one

    # ------------------------------------------------------------ arrays

    def fill(self, target: Array, state: Any) -> None:
        if type(state) is not tuple or len(state) not in (4, 5) or target.data is not None:
            raise FileFormatError("an array with an invalid pickle state")
        shape, kind, fortran, data = state[-4:]
        if type(fortran) not in (bool, int):
            raise FileFormatError("an array with an invalid memory order")
        self._content(target, shape, kind, "F" if fortran else "C", data)

    def _content(self, target: Array, shape: Any, kind: Any, order: str, data: Any) -> None:
        if type(kind) is not Kind:
            raise FileFormatError(f"an array with {what(kind)} as dtype")
        if type(shape) is int:
            shape = (shape,)
        if type(shape) is not tuple or not is_shape(shape):
            raise FileFormatError("an array with an invalid shape")
        dtype = kind.np
        if math.prod(n for n in shape if n) * dtype.itemsize >= _LIMIT:
            raise FileFormatError(f"an array of shape {list(shape)}")
        raw = self._owned(data)
        if raw.nbytes != math.prod(shape) * dtype.itemsize:
            raise FileFormatError(f"an array of shape {list(shape)} and dtype {dtype.name} in {raw.nbytes} bytes")
        found = raw.view(dtype).reshape(shape, order=order)  # type: ignore[call-overload]  # NumPy's stubs want a literal
        if dtype == np.bool_:
            # other bytes would be neither true nor false to NumPy
            found = (raw != 0).reshape(shape, order=order)
        elif not dtype.isnative:
            found = found.astype(dtype.newbyteorder("="))
        if kind.tag is not None:
            found = found.view(_TAGGED[kind.tag][1])
        target.data, target.tag = found, kind.tag

    def _owned(self, data: Any) -> np.ndarray:
        """Return bytes as an array of their own."""
        if type(data) is str:
            data = _latin(self.copied(data))
        if type(data) is bytes:
            raw = np.frombuffer(data, np.uint8).copy()
        elif type(data) is Blob:
            raw = data.data.copy() if data.used else data.data
            data.used = True
        else:
            raise FileFormatError(f"an array with {what(data)} as data")
        self.room -= raw.nbytes
        if self.room < 0:
            raise FileFormatError("arrays larger than the file in total")
        return raw

    # ------------------------------------------------------------ functions for the global names

    def _call_array(self, args: tuple) -> Array:
        if len(args) != 3 or type(args[0]) is not Word or args[0].name != "ndarray":
            raise FileFormatError("a subclass of ndarray")
        return Array()

    def _call_dtype(self, args: tuple) -> Kind:
        if not args or type(args[0]) is not str or args[0] not in op.CODES:
            shown = args[0] if args and type(args[0]) is str else what(args)
            raise FileFormatError(f"an array of unsupported dtype {str(shown)[:40]!r}")
        return Kind(args[0])

    def _call_scalar(self, args: tuple) -> Any:
        if len(args) != 2:
            raise FileFormatError("a NumPy scalar with invalid arguments")
        holder = Array()
        self._content(holder, (), args[0], "C", args[1])
        return holder.value()[()]

    def _call_frombuffer(self, args: tuple) -> Array:
        if len(args) != 4 or args[3] not in ("C", "F"):
            raise FileFormatError("an array with an invalid pickle state")
        holder = Array()
        self._content(holder, args[2], args[1], args[3], args[0])
        return holder

    def _call_held(self, args: tuple) -> Array:
        if (
            len(args) != 2
            or args[0] != "data"
            or type(args[1]) is not dict
            or list(args[1]) != ["data"]
            or type(args[1]["data"]) is not Array
        ):
            raise FileFormatError("unsupported pickle global 'builtins.eval': only data is loaded")
        return args[1]["data"]

    def _call_ordered(self, args: tuple) -> collections.OrderedDict:
        made: collections.OrderedDict[Any, Any] = collections.OrderedDict()
        for pair in self.copied(_elements(args)):
            if type(pair) not in (list, tuple) or len(pair) != 2:
                raise FileFormatError("an ordered dict whose entries are no pairs")
            made[self.key_for(made, pair[0])] = pair[1]
        return made

    def _call_encode(self, args: tuple) -> Any:
        if len(args) != 2 or type(args[0]) is not str or args[1] not in _LATIN:
            raise FileFormatError("bytes that are not encoded as Latin-1")
        data = _latin(self.copied(args[0]))
        return data if len(data) < MIN_BLOB_BYTES else Blob(np.frombuffer(data, np.uint8).copy())

    def _call_bytes(self, args: tuple) -> Any:
        if not args:
            return b""
        if len(args) == 2:
            return self._call_encode(args)
        if len(args) == 1 and type(args[0]) in (bytes, Blob):
            return args[0]
        raise FileFormatError("bytes with invalid arguments")

    def _call_complex(self, args: tuple) -> complex:
        if len(args) != 2 or any(type(x) not in (float, int) or (type(x) is int and abs(x) >= _LIMIT) for x in args):
            raise FileFormatError("a complex number with invalid arguments")
        return complex(*args)


def _elements(args: tuple) -> list | tuple:
    if len(args) > 1 or (args and type(args[0]) not in (list, tuple)):
        raise FileFormatError("a container that is not built from a list")
    return args[0] if args else ()


def _latin(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise FileFormatError("bytes that are not encoded as Latin-1") from None


def is_shape(x: Any) -> bool:
    """Whether this may be a shape: few axes, each of a size that can be."""
    return type(x) in (tuple, list) and len(x) <= MAX_AXES and all(type(n) is int and 0 <= n < _LIMIT for n in x)


def is_key(key: Any) -> bool:
    """Return whether this may be a key: no type that is mutable, or takes long to hash."""
    if isinstance(key, tuple):
        return len(key) <= 16 and all(not isinstance(k, tuple) and is_key(k) for k in key)
    if isinstance(key, int) and not isinstance(key, bool):
        return -(1 << 63) <= key < 1 << 64
    return key is None or isinstance(key, (str, bool, float, bytes, np.bool_, np.integer, np.floating))


def set_kind(kind: Kind, state: Any) -> None:
    described = type(state) is tuple and 5 <= len(state) <= 9 and type(state[1]) is str
    if not described or state[1] not in _ORDERS or any(x is not None for x in state[2:5]):
        raise FileFormatError("an array of a dtype with an invalid state")
    kind.order = _ORDERS[state[1]]
    if len(state) == 9 and type(state[8]) is dict:
        tag = state[8].get(op.TAG)
        if type(tag) is str and tag in _TAGGED:
            if _TAGGED[tag][0] != kind.code:
                raise FileFormatError(f"an array of dtype {tag} stored as {kind.code}")
            kind.tag = tag


def what(x: Any) -> str:
    """Describe a part of a file in words."""
    if type(x) is Word:
        return f"the global {x.name}"
    return {Array: "an array", Kind: "a dtype", Blob: "bytes", type(None): "None"}.get(
        type(x), f"a {type(x).__name__}"
    )


CALLS: dict[str, Callable[[Builder, tuple], Any]] = {
    "array": Builder._call_array,
    "dtype": Builder._call_dtype,
    "scalar": Builder._call_scalar,
    "frombuffer": Builder._call_frombuffer,
    "held": Builder._call_held,
    "ordered": Builder._call_ordered,
    "encode": Builder._call_encode,
    "bytes": Builder._call_bytes,
    "bytearray": Builder._call_bytes,
    "complex": Builder._call_complex,
    "tuple": lambda m, args: tuple(m.copied(_elements(args))),
    "list": lambda m, args: list(m.copied(_elements(args))),
    "set": lambda m, args: m.collected(m.copied(_elements(args))),
    "frozenset": lambda m, args: m.frozen(m.copied(_elements(args))),
}
