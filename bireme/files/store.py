"""`save` and `load`: objects to files and back."""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO

import numpy as np

from bireme.core import errors
from bireme.core.tensor import Tensor
from bireme.files import container, structure
from bireme.ops import to_tensor

_FORMAT = "1"


def save(obj: Any, path: str | os.PathLike | BinaryIO, protocol: int = 4, **configs: Any) -> None:
    """Save tensors, arrays, numbers and texts, nested in dicts, lists and tuples, to one file.

    The file appears whole or not at all, also if the process is killed. `path` may be an open binary file. `protocol`
    is Paddle's, checked and of no effect: nothing is pickled.

    >>> bireme.save({"w": bireme.ones([2])}, "/tmp/bireme_example.pdparams")
    >>> bireme.load("/tmp/bireme_example.pdparams")["w"].tolist()
    [1.0, 1.0]
    """
    if isinstance(protocol, bool) or not isinstance(protocol, int) or not 1 < protocol < 5:
        raise errors.bad("save(protocol)", "2, 3 or 4", protocol)
    if configs.pop("use_binary_format", False):
        raise errors.bad("save(use_binary_format)", "False: there is one format", True)
    _no_more("save", configs)
    packer = structure.Packer()
    tree = packer.pack(obj)
    metadata = {"format": "bireme", "version": _FORMAT, "structure": structure.to_text(tree)}
    if hasattr(path, "write"):
        container.write(path, packer.arrays, metadata)
        return
    path = _path("save", path)
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    if os.path.isdir(path):
        raise errors.bad("save(path)", "the name of a file", f"the folder {path}", kind=IsADirectoryError)
    with container.replacing(path) as file:
        container.write(file, packer.arrays, metadata)


def load(path: str | os.PathLike | BinaryIO, **configs: Any) -> Any:
    """Load what `save` wrote; tensors come back as tensors, or all arrays as NumPy's with `return_numpy=True`.

    Nothing in the file is executed, and no size in it is believed before it was compared with the file's own.

    >>> bireme.save([1, (2.5, "a")], "/tmp/bireme_example.pdopt")
    >>> bireme.load("/tmp/bireme_example.pdopt")
    [1, (2.5, 'a')]
    """
    return_numpy = bool(configs.pop("return_numpy", False))
    _no_more("load", configs)
    if hasattr(path, "read"):
        data = path.read()
        return _read(io.BytesIO(data), len(data), "the open file", return_numpy)
    path = _path("load", path)
    if not os.path.isfile(path):
        what = "which is not a file" if os.path.exists(path) else "which is not there"
        raise errors.bad("load(path)", "a file", f"{path}, {what}")
    with open(path, "rb", buffering=0) as file:
        return _read(file, container.regular_size(file), path, return_numpy)


def _read(file: Any, size: int, path: str, return_numpy: bool) -> Any:
    try:
        reader = container.Reader(file, size)
        if reader.metadata.get("format") != "bireme" or "structure" not in reader.metadata:
            raise container.BadFile("not a file of bireme.save")
        if reader.metadata.get("version") != _FORMAT:
            raise container.BadFile(f"a file of format {reader.metadata.get('version')!r}, newer than this version reads")
        tree = structure.from_text(reader.metadata["structure"])
        made: dict[str, Any] = {}

        def leaf(kind: str, entry: dict) -> Any:
            name = entry[kind]
            if name not in made:
                made[name] = _leaf(reader, kind, entry, return_numpy)
            return made[name]

        found = structure.unpack(tree, leaf)
    except container.BadFile as e:
        hint = "files that Paddle itself saved are not read yet" if str(e).startswith("not a file of") else None
        raise errors.bad("load(path)", "a file that bireme.save wrote", f"{path}: {e}", hint) from None
    # Paddle gives a bare array back as a Tensor, but leaves arrays inside a dict or a list as they are
    return to_tensor(found) if isinstance(found, np.ndarray) and not return_numpy else found


def _leaf(reader: container.Reader, kind: str, entry: dict, return_numpy: bool) -> Any:
    if entry[kind] not in reader or not set(entry) <= {kind, "dtype", "name"}:
        raise container.BadFile(f"a structure that needs {entry[kind]}, which is not in it")
    array = reader.read(entry[kind])
    if "dtype" in entry:
        if entry["dtype"] not in ("complex64", "complex128"):
            raise container.BadFile(f"{entry[kind]} of unknown type {entry['dtype']!r}")
        array = container.joined(array, entry["dtype"])
    if kind == "scalar":
        if array.ndim:
            raise container.BadFile(f"a number of shape {list(array.shape)}")
        return array[()]
    if kind == "array" or return_numpy:
        return array
    tensor: Tensor = to_tensor(array)
    if isinstance(entry.get("name"), str):
        tensor.name = entry["name"]
    return tensor


def _path(where: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise errors.bad(f"{where}(path)", "a path or an open binary file", path, kind=TypeError)
    text = os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if not os.path.basename(text):
        raise errors.bad(f"{where}(path)", "a path that ends in the name of a file", text or "''")
    return text


def _no_more(where: str, configs: dict) -> None:
    if configs:
        known = "use_binary_format" if where == "save" else "return_numpy"
        raise errors.bad(f"{where}(configs)", f"no option but {known}", next(iter(configs)))
