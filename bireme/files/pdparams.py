"""Paddle's conventions above pickle: state dicts with a table of names, tensors as pairs, big arrays in pieces."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.core.tensor.tensor import Tensor, Value, sig_of
from bireme.files import opcodes as op
from bireme.files.allowed_globals import Array, Blob, is_key, is_shape, what
from bireme.files.collisions import harmless
from bireme.files.pickler import Emitter, code_of, host_of
from bireme.files.source import Source
from bireme.files.unpickler import Unpickler

_LEAVES = (type(None), bool, int, float, complex, str, bytes)
_SIMPLE = (bool, float, str)
_CONTAINERS = (list, tuple, dict, collections.OrderedDict, set, frozenset)
MAX_INTEGER = 1 << 8000
_PIECE = (1 << 30) - 1  # Paddle's: an array of a state dict beyond this many bytes is cut in protocols 2 and 3

# ---------------------------------------------------------------- writing


def write(file: BinaryIO, obj: Any, protocol: int) -> None:
    """Write an object as `paddle.save` does."""
    Check().visit(obj)
    emitter = Emitter(file, protocol)
    if is_state_dict(obj):
        emitter.whole(lambda e: _write_state(e, obj))
    else:
        emitter.whole(lambda e: e.nested(obj))


def is_state_dict(obj: Any) -> bool:
    """Return whether Paddle writes a table of names: for a dict of tensors, and of dicts that hold none."""
    if not isinstance(obj, dict):
        return False
    return all(
        isinstance(v, Tensor) or (isinstance(v, dict) and not any(map(_holds_tensor, v.values()))) for v in obj.values()
    )


def _holds_tensor(x: Any) -> bool:
    if isinstance(x, dict):
        return any(map(_holds_tensor, x.values()))
    return any(map(_holds_tensor, x)) if isinstance(x, (list, tuple)) else isinstance(x, Tensor)


def _write_state(e: Emitter, state: dict) -> None:
    names = {key: value.name for key, value in state.items() if isinstance(value, Tensor)}
    cut: dict[Any, Any] = {}

    def pairs():
        late = []
        for key, value in state.items():
            if isinstance(value, Tensor):
                most = _PIECE // value.dtype.itemsize
                if e.protocol < 4 and value.size > most and isinstance(key, str):
                    pieces = [f"{key}@@.{i}" for i in range(-(-value.size // most))]
                    cut[key] = {"OriginShape": tuple(value.shape), "slices": pieces}
                    late += [(name, (value, i * most, (i + 1) * most)) for i, name in enumerate(pieces)]
                    continue
                value = (value, None, None)
            yield key, value
        yield op.NAME_TABLE, names
        yield from late
        if cut:
            yield op.CUT_TABLE, cut

    def put(value: Any) -> None:
        if isinstance(value, tuple):
            tensor, start, stop = value
            host = host_of(tensor)
            e.array(host if start is None else host.reshape(-1)[start:stop])
        else:
            e.nested(value)

    e.entries({}, pairs(), put)


class Walk:
    """Visits every container once; finds what contains itself, is nested too deep, or unfolds to too many parts."""

    kinds: tuple[type, ...] = _CONTAINERS

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.known: dict[int, tuple[int, int]] = {}

    def visit(self, x: Any, depth: int = 0) -> tuple[int, int]:
        """Return the number of parts that the object unfolds to, and its depth."""
        if not self.holds(x):
            return 1, self.leaf(x)
        if id(x) in self.open:
            raise self.wrong(f"a {type(x).__name__} that contains itself")
        if id(x) not in self.known:
            if depth > op.MAX_DEPTH:
                raise self.wrong(f"data nested more than {op.MAX_DEPTH} deep")
            self.open.add(id(x))
            self.enter(x)
            count, height = 1, 0
            for element in x.values() if isinstance(x, dict) else x:
                if (
                    element is None
                    or type(element) in _SIMPLE
                    or (type(element) is int and -MAX_INTEGER < element < MAX_INTEGER)
                ):
                    count += 1
                else:
                    n, h = self.visit(element, depth + 1)
                    count, height = count + n, max(height, h)
            self.open.discard(id(x))
            self.known[id(x)] = count, height + 1
        count, height = self.known[id(x)]
        if depth + height > op.MAX_DEPTH + 1:
            raise self.wrong(f"data nested more than {op.MAX_DEPTH} deep")
        if count > op.MAX_UNFOLDED:
            raise self.wrong(f"data of more than {op.MAX_UNFOLDED} objects")
        return count, height

    def holds(self, x: Any) -> bool:
        return isinstance(x, self.kinds)

    def enter(self, x: Any) -> None:
        """Check a container itself."""

    def leaf(self, x: Any) -> int:
        """Check anything else; returns the number of containers that stand for it in a file."""
        raise errors.missing_method(self, "leaf")

    def wrong(self, what: str) -> Exception:
        """Return the error for what was found."""
        raise errors.missing_method(self, "wrong")


class Check(Walk):
    """Rejects what cannot be saved, or could not be loaded again, before anything is written."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = 0

    def wrong(self, what: str) -> Exception:
        return errors.bad("save(obj)", "data that can be saved", described=what)

    def count(self, n: int) -> None:
        # what the reader counts while it makes the object, or a little more
        self.parts += n
        if self.parts > op.MAX_PARTS:
            raise errors.bad(
                "save(obj)",
                f"at most {op.MAX_PARTS} lists, tuples, dicts and arrays",
                described="more",
                hint="put numbers into arrays",
            )

    def enter(self, x: Any) -> None:
        self.count(3 + next((w for kind, w in op.WEIGHTS.items() if isinstance(x, kind)), 0))
        for key in x if isinstance(x, (dict, set, frozenset)) else ():
            if not is_key(key):
                raise errors.bad(
                    "save(obj)",
                    "keys that are str, 64-bit numbers, or tuples of them",
                    key,
                    kind=errors.ArgumentTypeError,
                )
        if isinstance(x, (dict, set, frozenset)) and not harmless(x):
            raise errors.bad(
                "save(obj)",
                f"keys of a {type(x).__name__} whose hashes differ",
                described="keys whose hashes collide",
            )

    def leaf(self, x: Any) -> int:
        if isinstance(x, Tensor):
            self.count(20)
            return 1
        if isinstance(x, (np.ndarray, np.generic)) and not isinstance(x, (str, bytes)):
            self.count(16)
            if code_of(x.dtype) is None or isinstance(x, np.ma.MaskedArray):
                raise errors.bad(
                    "save(obj)", "numeric arrays", described=f"an array of {x.dtype}", kind=errors.ArgumentTypeError
                )
            return 0
        if not isinstance(x, (*_LEAVES, bytearray)):
            raise _refused(x)
        if isinstance(x, int) and abs(x) >= MAX_INTEGER:
            raise errors.bad("save(obj)", "integers of at most 8000 bits", described=f"one of {x.bit_length()}")
        if isinstance(x, (complex, bytes, bytearray)):
            self.count(2)
        return 0


def _refused(obj: Any) -> Exception:
    expected = "tensors, arrays, numbers, str, bytes, dict, list, tuple, set"
    if hasattr(obj, "state_dict"):
        hint = f"save {type(obj).__name__}.state_dict(), and give it to set_state_dict() after loading"
        return errors.bad("save(obj)", expected, obj, hint=hint)
    return errors.bad("save(obj)", expected, obj, kind=errors.UnsupportedTypeError)


# ---------------------------------------------------------------- reading


def read(source: Source, return_numpy: bool, keep_names: bool) -> Any:
    """Return the object that ``paddle.save`` or ``bireme.save`` wrote, with tensors where it had tensors."""
    found = Unpickler(source).run()
    survey = Survey()
    survey.visit(found)
    convert = _as_array if return_numpy else _as_tensor
    if type(found) is dict:
        _join(found)
        if op.NAME_TABLE in found:
            return _read_state(found, convert, keep_names)
    return (Settler(convert, _untouched) if survey.pairs else Settler(None, convert)).visit(found)


def _read_state(found: dict, convert: Callable[[Array, str | None], Any], keep_names: bool) -> dict:
    table = found[op.NAME_TABLE]
    if type(table) is not dict:
        raise FileFormatError("a name table that is not a dict")
    for key, name in table.items():
        if key not in found:
            raise FileFormatError(f"a name table with {str(key)[:100]!r}, which is not in the file")
        if type(found[key]) is Array:
            found[key] = convert(found[key], name if type(name) is str else None)
    if not keep_names:
        del found[op.NAME_TABLE]
    return Settler(None, _untouched).visit(found)


def _join(found: dict) -> None:
    """Concatenate big arrays that were split for an old protocol."""
    table = found.pop(op.CUT_TABLE, None)
    if table is None:
        return
    if type(table) is not dict:
        raise FileFormatError("a table of slices that is not a dict")
    used: dict[int, Array] = {}
    for key, entry in table.items():
        names: Any = entry.get("slices") if type(entry) is dict else None
        shape: Any = entry.get("OriginShape") if type(entry) is dict else None
        if type(names) is not list or not names or not is_shape(shape):
            raise FileFormatError("a table of slices without names or a shape")
        pieces: list[Any] = [found.pop(name, None) if type(name) is str else None for name in names]
        ids = dict(zip(map(id, pieces), pieces, strict=True))
        again = len(ids) < len(pieces) or not used.keys().isdisjoint(ids)
        if again or any(type(piece) is not Array for piece in pieces):
            raise FileFormatError(f"slices of {str(key)[:100]!r} that are missing or used twice")
        used |= ids
        hosts = [piece.value().reshape(-1) for piece in pieces]
        if len({host.dtype for host in hosts}) > 1 or sum(host.size for host in hosts) != math.prod(shape):
            raise FileFormatError(f"slices of {str(key)[:100]!r} that do not match its shape {list(shape)}")
        whole = Array()
        whole.data = np.concatenate(hosts).reshape(tuple(shape))
        found[key] = used[id(whole)] = whole  # no piece of another one: it would be copied again for each


def _host(x: Array) -> np.ndarray:
    # NumPy has no bfloat16: Paddle's arrays carry its bits
    host = x.value()
    return host.view(dtypes.bfloat16.np) if host.dtype == np.uint16 and x.tag is None else host


def _as_array(x: Array, name: str | None) -> np.ndarray:
    if x.made is None:
        x.made = dtypes.as_paddle_shows(_host(x))
    return x.made


def _as_tensor(x: Array, name: str | None) -> Tensor:
    if x.made is None:
        x.made = tensor_of(_host(x))
        x.data = None  # the tensor has it now
        if name is not None:
            x.made.name = name
    return x.made


def _untouched(x: Array, name: str | None) -> np.ndarray:
    return x.value() if x.made is None else x.made


def tensor_of(host: np.ndarray) -> Tensor:
    """Return a tensor on an array that nobody else has, without a copy."""
    kind = dtypes.from_numpy(host.dtype)
    made = Tensor(
        Value(sig_of(host.shape, kind), np.ascontiguousarray(host).reshape(host.shape), devices.Device("cpu", 0))
    )
    device = devices.current()
    return made if device.is_cpu else made._to_device(device)


class Survey(Walk):
    """Checks that what was read is only data, and whether there are tensors in it."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs = False

    def wrong(self, what: str) -> Exception:
        return FileFormatError(what)

    def enter(self, x: Any) -> None:
        if type(x) is tuple and is_pair(x):
            self.pairs = True

    def leaf(self, x: Any) -> int:
        if type(x) is Array:
            x.value()
        elif type(x) not in _LEAVES and type(x) is not Blob and not isinstance(x, np.generic):
            raise FileFormatError(f"{what(x)} instead of data")
        return 0


def is_pair(x: tuple) -> bool:
    """Return whether a tuple is how Paddle writes a tensor."""
    return len(x) == 2 and type(x[0]) is str and type(x[1]) is Array


class Settler:
    """Replaces placeholders by tensors and arrays; what was one object stays one."""

    def __init__(self, pair: Callable | None, array: Callable):
        self.pair, self.array = pair, array
        self.made: dict[int, tuple[Any, Any]] = {}

    def visit(self, x: Any) -> Any:
        kind = type(x)
        if kind is Array:
            return self.array(x, None)
        if kind is Blob:
            return x.value()
        if kind not in _CONTAINERS or kind in (set, frozenset):
            return x
        if id(x) in self.made:
            return self.made[id(x)][1]
        if kind is tuple:
            made = self.pair(x[1], x[0]) if self.pair is not None and is_pair(x) else tuple(map(self.visit, x))
            self.made[id(x)] = x, made
            return made
        self.made[id(x)] = x, x
        if kind is list:
            x[:] = map(self.visit, x)
        else:
            for key, value in x.items():
                x[key] = self.visit(value)
        return x
