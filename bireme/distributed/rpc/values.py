"""Values and names of functions as bytes, and back. Nothing in them is run: see decisions/052."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.core.tensor.tensor import Tensor
from bireme.files.pdparams import tensor_of

PLAIN = (bool, int, float, str)
KINDS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
TAKEN = "tensors, arrays, numbers, str, bytes, dict, list, tuple, set"
MAIN = ("__main__", "__mp_main__")  # the program, as the process that runs it and those that it spawns know it


def encode(where: str, value: Any) -> bytes:
    """A value as bytes: a tree in JSON, and the numbers of its arrays after it."""
    arrays: list[np.ndarray] = []
    try:
        tree = json.dumps([_tree(where, value, arrays), [[a.dtype.name, list(a.shape)] for a in arrays]])
    except RecursionError:
        raise errors.bad(where, "a value that does not contain itself", described="one that does") from None
    head = tree.encode()
    return b"".join([len(head).to_bytes(8, "little"), head, *[np.ascontiguousarray(a).tobytes() for a in arrays]])


def _tree(where: str, x: Any, arrays: list[np.ndarray]) -> Any:
    if x is None or type(x) in PLAIN:
        return x
    for name, kind in KINDS.items():
        if type(x) is kind:
            parts: Any = x
            return {name: [_tree(where, part, arrays) for part in parts]}
    if type(x) is dict:
        return {"dict": [[_tree(where, part, arrays) for part in pair] for pair in x.items()]}
    if type(x) is complex:
        return {"complex": [x.real, x.imag]}
    if type(x) is bytes:
        return {"bytes": x.hex()}
    if isinstance(x, dtypes.DType):
        return {"dtype": x.name}
    if isinstance(x, Tensor):
        arrays.append(x._host())
        return {"tensor": len(arrays) - 1}
    if isinstance(x, (np.ndarray, np.generic)) and _is_known(x.dtype):
        arrays.append(np.asarray(x))
        return {"scalar" if isinstance(x, np.generic) else "array": len(arrays) - 1}
    raise errors.bad(where, TAKEN, x, kind=errors.UnsupportedTypeError)


def _is_known(dtype: np.dtype) -> bool:
    try:
        return bool(dtypes.from_numpy(dtype))
    except errors.TELLING:
        return False


def decode(data: bytes) -> Any:
    """The value of bytes that `encode` made; bytes that it did not make are an error."""
    size = int.from_bytes(data[:8], "little")
    if size > len(data) - 8:
        raise FileFormatError(f"a message with {size} bytes of text, of which {len(data) - 8} are there")
    try:
        tree, kinds = json.loads(data[8 : 8 + size])
        arrays, at = [], 8 + size
        for name, shape in kinds:
            dtype = dtypes.of(name).np
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(data, dtype, count, at).reshape(shape).copy())
            at += count * dtype.itemsize
        return _value(tree, arrays)
    except (ValueError, TypeError, LookupError, RecursionError) as e:
        raise FileFormatError(f"a message that is no value: {e}") from e


def _value(tree: Any, arrays: list[np.ndarray]) -> Any:
    if tree is None or type(tree) in PLAIN:
        return tree
    ((kind, given),) = tree.items()
    if kind in KINDS:
        return KINDS[kind](_value(part, arrays) for part in given)
    if kind == "dict":
        return {_value(key, arrays): _value(part, arrays) for key, part in given}
    if kind == "complex":
        return complex(*given)
    if kind == "bytes":
        return bytes.fromhex(given)
    if kind == "dtype":
        return dtypes.of(given)
    found = arrays[given]
    return tensor_of(found) if kind == "tensor" else found[()] if kind == "scalar" else found


def name_of(where: str, function: Any) -> list[str]:
    """Module and name by which another process finds a function; one that has none is refused."""
    errors.check_function(where, function)
    named = [getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")]
    try:
        if all(named) and find(named) is function:
            return named
    except FileFormatError:
        pass
    raise errors.bad(
        where,
        "a function or class that a module has under its name, as others find it by that",
        described=f"{'.'.join(named).strip('.') or function!r}",
        hint="define it at the top level of a module, and give what it needs as arguments",
    )


def find(named: list[str]) -> Any:
    """The function of a module and name."""
    module, path = named
    try:
        found: Any = sys.modules[_main()] if module in MAIN else import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as e:
        raise FileFormatError(f"the name of a function, {module}.{path}, that is not here: {e}") from e
    return found


def _main() -> str:
    return MAIN[1] if MAIN[1] in sys.modules else MAIN[0]
