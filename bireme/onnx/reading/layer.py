"""Loaded: a layer whose forward pass is an ONNX graph."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.tensor.tensor import Tensor
from bireme.nn import Layer
from bireme.nn.initializer import Assign
from bireme.onnx.packages import onnx
from bireme.onnx.reading.file import array_of, parsed, wrong
from bireme.onnx.reading.graph import Scope
from bireme.onnx.reading.narrow import CODES, KINDS, Narrow, held, unpacked
from bireme.onnx.reading.shapes import dense
from bireme.onnx.reading.table import tensor


class Loaded(Layer):
    """The network of an ONNX file: its initializers of floats are parameters, the others are buffers."""

    def __init__(self, model: Any, folder: str | None):
        super().__init__()
        self._graph, self._folder = model.graph, folder
        self._opsets = {"" if x.domain == "ai.onnx" else x.domain: x.version for x in model.opset_import}
        self._functions = {(f.domain, f.name): f for f in model.functions}
        self._held: dict[str, str] = {}  # names of initializers, and under which attribute they are kept
        self._narrow: dict[str, Narrow] = {}
        for t in model.graph.initializer:
            if t.data_type in KINDS:
                self._narrow[t.name] = unpacked(t, f"tensor {t.name!r}")
            else:
                self._hold(t.name, array_of(t, folder))
        for t in model.graph.sparse_initializer:
            self._hold(t.values.name, dense(t))
        names = [x.name for x in model.graph.input]
        self.input_names = [name for name in names if name not in self._held and name not in self._narrow]
        self.output_names = [x.name for x in model.graph.output]
        if not all(isinstance(name, str) for name in (*names, *self.output_names)):
            raise wrong("names of inputs and outputs that are text", "bytes")
        self._ranks = {x.name: len(x.type.tensor_type.shape.dim) if x.type.tensor_type.HasField("shape") else None
                       for x in model.graph.input}  # fmt: skip

    def _hold(self, name: str, array: np.ndarray) -> None:
        if not isinstance(name, str) or not name or name in self._held:  # bytes where it is no text
            raise wrong("initializers, each with a name of its own", repr(name))
        stem = re.sub(r"\W", "_", name)
        key = f"{'p' if stem[:1].isdigit() else ''}{stem}"
        while key in self._held.values() or hasattr(self, key):
            key += "_"
        self._held[name] = key
        if array.dtype.kind == "f" and array.dtype.itemsize > 1:
            self.add_parameter(key, self.create_parameter(
                list(array.shape), dtype=array.dtype.name, default_initializer=Assign(array)))  # fmt: skip
        else:
            self.register_buffer(key, tensor(array))

    def declared_inputs(self) -> list[tuple[str, list[int | None], str]]:
        """Name, shape and dtype of each input, as the file declares them; sizes that it leaves open are None."""
        found = []
        for x in self._graph.input:
            if x.name in self.input_names:
                kind = x.type.tensor_type
                dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
                found.append((x.name, dims, onnx("helper").tensor_dtype_to_np_dtype(kind.elem_type).name))
        return found

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """Run the graph.

        Args:
            *inputs: Inputs in the order of ``input_names``; tensors or arrays.
            **named: Inputs by name.

        Returns:
            The output, or a list of them where there are several.
        """
        given = dict(zip(self.input_names, inputs)) | named
        missing = [name for name in self.input_names if name not in given]
        if missing or len(inputs) > len(self.input_names) or any(name not in self.input_names for name in named):
            raise errors.bad(
                "inputs", f"{len(self.input_names)} ({', '.join(self.input_names)})", len(inputs) + len(named)
            )
        scope = Scope(self._opsets, self._functions, self._folder)
        scope.values = {name: getattr(self, key) for name, key in self._held.items()} | self._narrow
        for name, x in given.items():
            if isinstance(x, (np.ndarray, np.generic)):
                x = held(np.asarray(x)) if x.dtype in CODES else tensor(x)
            scope.values[name] = x
            rank = self._ranks.get(name)
            if rank is not None and isinstance(scope.values[name], Tensor) and scope.values[name].ndim != rank:
                raise errors.bad(f"input {name}", f"{rank} dimensions", scope.values[name].ndim, kind=errors.ShapeError)
        scope.run(self._graph.node)
        outs = [scope.find(name) for name in self.output_names]
        outs = [x.tensor if isinstance(x, Narrow) else x for x in outs]
        return outs[0] if len(outs) == 1 else outs


def loaded(path: Any) -> Loaded:
    """The layer of a file."""
    path = os.fspath(path)
    model = parsed(path)
    made = Loaded(model, os.path.dirname(os.path.abspath(path)))
    made.eval()
    return made
