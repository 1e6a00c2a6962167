"""Nested data as JSON with the arrays taken out: what `save` writes beside them, and `load` puts together again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bireme.core import errors
from bireme.core.tensor import Tensor
from bireme.files.container import BadFile, plain, storable

MAX_DEPTH = 100
_PLAIN = (bool, int, str, type(None))


class Packer:
    """Turns an object into JSON and collects its arrays under readable names: the path that leads to them."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._known: dict[int, tuple[Any, dict]] = {}

    def pack(self, obj: Any, path: str = "", depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise errors.bad("save(obj)", f"data nested at most {MAX_DEPTH} deep", "deeper data, or data that holds itself")
        if isinstance(obj, (Tensor, np.ndarray, np.generic)):
            return self._array(obj, path)
        if type(obj) in _PLAIN:
            return obj
        if isinstance(obj, (bool, int, str)):  # enumerations and the like: their plain value
            return next(kind(obj) for kind in (bool, int, str) if isinstance(obj, kind))
        if isinstance(obj, float):
            return float(obj) if math.isfinite(obj) else {"float": repr(float(obj))}
        if isinstance(obj, complex):
            return {"complex": [self.pack(obj.real), self.pack(obj.imag)]}
        if isinstance(obj, dict):
            return self._dict(obj, path, depth)
        if isinstance(obj, (list, tuple)):
            items = [self.pack(x, f"{path}/{i}" if path else str(i), depth + 1) for i, x in enumerate(obj)]
            return {"tuple": items} if isinstance(obj, tuple) else items
        raise _refused(obj)

    def _dict(self, obj: dict, path: str, depth: int) -> dict:
        inside = [(k, self.pack(v, f"{path}/{k}" if path else str(k), depth + 1)) for k, v in obj.items()]
        if all(type(k) is str for k in obj):
            return {"dict": dict(inside)}
        return {"pairs": [[self.pack(k, depth=depth + 1), v] for k, v in inside]}

    def _array(self, obj: Any, path: str) -> dict:
        if id(obj) in self._known:
            return self._known[id(obj)][1]
        array = obj.numpy() if isinstance(obj, Tensor) else np.asarray(obj)
        if not storable(array):
            raise errors.bad("save(obj)", "arrays of numbers", f"an array of {array.dtype}", kind=TypeError)
        name = path or "data"
        while name in self.arrays or name == "__metadata__":
            name += "'"
        self.arrays[name] = plain(array)
        kind = "tensor" if isinstance(obj, Tensor) else "scalar" if isinstance(obj, np.generic) else "array"
        leaf = {kind: name}
        if array.dtype.kind == "c":
            leaf["dtype"] = array.dtype.name
        if isinstance(obj, Tensor):
            leaf["name"] = obj.name
        # the object is kept with its leaf: an id is only its own while it lives
        self._known[id(obj)] = obj, leaf
        return leaf


def _refused(obj: Any) -> Exception:
    hint = None
    if hasattr(obj, "state_dict"):
        hint = f"save {type(obj).__name__}.state_dict(), and give it to set_state_dict() after loading"
        return errors.bad("save(obj)", "tensors, arrays, numbers, str, dict, list, tuple", obj, hint)
    return errors.bad("save(obj)", "tensors, arrays, numbers, str, dict, list, tuple", obj, kind=TypeError)


def unpack(tree: Any, leaf: Callable[[str, dict], Any], depth: int = 0) -> Any:
    """The object that `Packer.pack` turned into `tree`; `leaf(kind, entry)` makes its arrays."""
    if depth > MAX_DEPTH:
        raise BadFile(f"data nested more than {MAX_DEPTH} deep")
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree
    if isinstance(tree, list):
        return [unpack(x, leaf, depth + 1) for x in tree]
    if not isinstance(tree, dict) or not tree:
        raise BadFile("a structure with parts of unknown kind")
    kind, body = next(iter(tree.items()))
    if kind in ("tensor", "array", "scalar") and isinstance(body, str):
        return leaf(kind, tree)
    if len(tree) == 1:
        if kind == "dict" and isinstance(body, dict):
            return {k: unpack(v, leaf, depth + 1) for k, v in body.items()}
        if kind == "tuple" and isinstance(body, list):
            return tuple(unpack(x, leaf, depth + 1) for x in body)
        if kind == "pairs" and isinstance(body, list):
            return dict(_pair(x, leaf, depth + 1) for x in body)
        if kind == "float" and body in ("nan", "inf", "-inf"):
            return float(body)
        if kind == "complex" and isinstance(body, list) and len(body) == 2:
            real, imag = (unpack(x, leaf, depth + 1) for x in body)
            if isinstance(real, float) and isinstance(imag, float):
                return complex(real, imag)
    raise BadFile("a structure with parts of unknown kind")


def _pair(given: Any, leaf: Callable[[str, dict], Any], depth: int) -> tuple[Any, Any]:
    if not isinstance(given, list) or len(given) != 2:
        raise BadFile("a dict whose entries are no pairs")
    key = unpack(given[0], leaf, depth)
    if not _is_key(key):
        raise BadFile("a dict with a key that cannot be one")
    return key, unpack(given[1], leaf, depth)


def _is_key(key: Any) -> bool:
    if isinstance(key, tuple):
        return all(_is_key(k) for k in key)
    return key is None or isinstance(key, (bool, int, float, complex, str, np.generic))


def to_text(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"), allow_nan=False)


def from_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except BadFile:
        raise
    except (ValueError, RecursionError) as e:
        raise BadFile("a structure that is not JSON") from e


def _no_constant(text: str) -> Any:
    raise BadFile(f"{text} as a number")  # JSON has no such numbers, and we write them otherwise
