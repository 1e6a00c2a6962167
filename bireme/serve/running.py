"""A saved model as a function of arrays by name, with what its inputs and outputs are like."""

from __future__ import annotations

from typing import Any

import numpy as np

from bireme.autograd import no_grad
from bireme.jit.saved import saved_model
from bireme.serve.batching import Arrays
from bireme.tensor import to_tensor

Sketch = tuple[np.dtype, list[int]]  # dtype, and sizes with -1 for those that are open


class Runner:
    """A loaded model."""

    def __init__(self, path: str):
        layer, model = saved_model(path)
        self._layer = layer
        self.inputs = {name: _sketch(x) for name, x in zip(model.input_names, model.inputs, strict=True)}
        self.outputs = {name: _sketch(x) for name, x in zip(model.output_names, model.outputs, strict=True)}

    @property
    def open_rows(self) -> bool:
        """Whether every input and output has a first size that is open."""
        sketches = [*self.inputs.values(), *self.outputs.values()]
        return bool(self.inputs) and all(shape[:1] == [-1] for _, shape in sketches)

    def run(self, inputs: Arrays) -> Arrays:
        """Outputs by name."""
        with no_grad():
            made: Any = self._layer(*[to_tensor(inputs[name]) for name in self.inputs])
        listed = made if isinstance(made, (list, tuple)) else [made]
        return {name: x.numpy() for name, x in zip(self.outputs, listed, strict=True)}


def _sketch(x: Any) -> Sketch:
    return np.dtype(x.dtype.np), [n if isinstance(n, int) and n >= 0 else -1 for n in x.shape]
