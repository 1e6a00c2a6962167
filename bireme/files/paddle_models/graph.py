"""What a file of a model holds, in a form that both formats are read into: blocks of operations on named values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MAX_OPS = 500_000
MAX_VALUES = 2_000_000
MAX_FILE = 1 << 31  # bytes of a program; its parameters are in files of their own


class Op:
    """One operation: its inputs and outputs are keys of values, by slot for `.pdmodel` and in order for `.json`."""

    __slots__ = ("kind", "inputs", "outputs", "attrs", "blocks", "vectors")

    def __init__(self, kind: str, inputs: Any, outputs: Any, attrs: dict[str, Any], blocks: list[Block] | None = None):
        self.kind, self.inputs, self.outputs, self.attrs = kind, inputs, outputs, attrs
        self.blocks = blocks or []


class Block:
    """Operations in order, and the keys of values that are given to them."""

    __slots__ = ("ops", "args", "index")

    def __init__(self, ops: list[Op], args: list[Any] | None = None, index: int = 0):
        self.ops, self.args, self.index = ops, args or [], index


class Declared:
    """A value as a file declares it: name, dtype, shape with -1 where a size is unknown, and what is said about it."""

    __slots__ = ("key", "name", "dtype", "shape", "lod_level", "trained")

    def __init__(self, key: Any, name: str, dtype: str, shape: list[int], lod_level: int = 0, trained: bool = True):
        self.key, self.name, self.dtype, self.shape = key, name, dtype, shape
        self.lod_level, self.trained = lod_level, trained


class Graph:
    """A program: its main block, inputs, outputs (key and name) and parameters."""

    __slots__ = ("block", "inputs", "outputs", "parameters", "legacy", "unsaved", "arrays")

    def __init__(
        self,
        block: Block,
        inputs: list[Declared],
        outputs: list[tuple[Any, str]],
        parameters: list[Declared],
        legacy: bool,
        unsaved: Sequence[Any] = (),  # keys of values that are declared as parameters, and that no file has
        arrays: Sequence[Any] = (),  # keys of arrays of tensors, which are empty at the start
    ):
        self.block, self.inputs, self.outputs, self.parameters = block, inputs, outputs, parameters
        self.legacy, self.unsaved, self.arrays = legacy, unsaved, arrays
