"""Parameters of a model: records in one file, in the order of their names, or a file for each."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base.errors import FileFormatError
from bireme.files import binary_tensor
from bireme.files.paddle_models.graph import Declared
from bireme.files.source import Source, size_of


def combined(path: str, declared: Sequence[Declared]) -> dict[str, np.ndarray]:
    """Read the parameters of a `.pdiparams` file."""
    found: dict[str, np.ndarray] = {}
    with open(path, "rb", buffering=0) as file:
        source = Source(file, size_of(file))
        for each in sorted(declared, key=lambda d: d.name.encode("utf-8", "surrogatepass")):
            if not source.left:
                raise FileFormatError(f"no parameter {each.name[:60]!r}: it holds {len(found)} of {len(declared)}")
            found[each.name] = _fitting(each, binary_tensor.read(source))
        if source.left:
            raise FileFormatError(f"{source.left} bytes after the last of {len(declared)} parameters")
    return found


def separate(folder: str, declared: Sequence[Declared]) -> dict[str, np.ndarray]:
    """Read each parameter from the file of its name in a folder."""
    found = {}
    for each in declared:
        parts = each.name.split("/")
        if any(part in ("", ".", "..") or "\0" in part or os.sep in part for part in parts):
            raise FileFormatError(f"a parameter with the name {each.name[:60]!r}, which is no name of a file")
        with open(os.path.join(folder, *parts), "rb", buffering=0) as file:
            source = Source(file, size_of(file))
            found[each.name] = _fitting(each, binary_tensor.read(source))
            if source.left:
                raise FileFormatError(f"{source.left} bytes after the parameter {each.name[:60]!r}")
    return found


def _fitting(declared: Declared, array: np.ndarray) -> np.ndarray:
    """The array, if the program declares one of its dtype and shape."""
    shape = declared.shape
    fits = len(shape) == array.ndim and all(n in (-1, m) for n, m in zip(shape, array.shape, strict=True))
    # a tensor without dimensions is declared with one of size 1 by older versions
    if not fits and not (array.size == 1 and all(n in (-1, 1) for n in shape)):
        raise FileFormatError(
            f"the parameter {declared.name[:60]!r} of shape {list(array.shape)} where the program has {shape}"
        )
    kind = dtypes.from_numpy(array.dtype).name
    if kind != declared.dtype:
        raise FileFormatError(f"the parameter {declared.name[:60]!r} of {kind} where the program has {declared.dtype}")
    return array
