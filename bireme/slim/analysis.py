"""How large a network is: multiplications and parameters, by its recorded graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.jit.saving import models_of
from bireme.jit.transforms.editing import arguments
from bireme.nn import Layer
from bireme.static import InputSpec

__all__ = ["flops", "model_size"]


def recorded(model: Any, inputs: Any, where: str) -> Model:
    """The graph of a layer in evaluation for inputs of these shapes; a graph stays what it is."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, Layer):
        raise errors.bad(f"{where}(model)", "a Layer", model, kind=errors.ArgumentTypeError)
    if isinstance(inputs, (list, tuple)) and inputs and all(isinstance(n, int) for n in inputs):
        inputs = [inputs]
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise errors.bad(f"{where}(inputs)", "shapes or InputSpecs, one for each input", inputs)
    specs = [
        x if isinstance(x, (InputSpec, Tensor)) else InputSpec(list(x), "float32", f"x{i}")
        for i, x in enumerate(inputs)
    ]
    modes = [(part, part.training) for part in model.sublayers(include_self=True)]
    try:
        model.eval()
        return models_of(model, specs, where)["forward"]
    finally:
        for part, mode in modes:
            part.training = mode


def flops(
    model: Any, inputs: Sequence[Any] | None = None, dtypes: Any = None, only_conv: bool = True, only_multiply: bool = True,
    detail: bool = False,
) -> Any:  # fmt: skip
    """Count the multiplications of a run of a network.

    Args:
        model: ``Layer``.
        inputs: Shape of the input, or a list of a shape, ``InputSpec`` or tensor for each input.
        dtypes: Has no effect: multiplications are counted whichever type they have. Default: None.
        only_conv: Count convolutions and products of matrices alone; False counts normalizations, pools and activations too.
            Default: True.
        only_multiply: Count multiplications alone; False counts the additions of biases too. Default: True.
        detail: Give the number for each call as well. Default: False.

    Returns:
        The number, or a tuple of it and a dict by the name of what a call gives.

    Examples:
        >>> net = bireme.nn.Sequential(bireme.nn.Conv2D(3, 8, 3, padding=1), bireme.nn.ReLU())
        >>> bireme.slim.analysis.flops(net, [1, 3, 16, 16])
        55296
    """
    found: dict[str, int] = {}
    for operation in recorded(model, inputs, "flops").program.operations:
        given = arguments(operation)
        out = operation.results
        if given is None or not isinstance(out, Symbol):
            continue
        weight = given.get("weight") if operation.type != "matmul" else given.get("y")
        size = int(np.prod([_size(n) for n in out.shape]))
        count = None
        if operation.type.startswith("conv") and isinstance(weight, Tensor):
            filters = int(np.prod(weight.shape[1:]))
            if operation.type.endswith("transpose"):  # each number of the input meets a filter
                size = int(np.prod([_size(n) for n in given["x"].shape]))
            count = size * filters
        elif operation.type in ("linear", "matmul", "mm"):
            count = size * _size(given["x"].shape[-1])
        elif not only_conv:
            count = size
        if count is not None:
            extra = size if not only_multiply and given.get("bias") is not None else 0
            found[out.name] = count + extra
    total = sum(found.values())
    return (total, found) if detail else total


def _size(n: Any) -> int:
    """A size; one that is open counts once."""
    return 1 if isinstance(n, Dim) else max(int(n), 1)


def model_size(model: Any) -> int:
    """Count the numbers of a network's parameters and buffers.

    Args:
        model: ``Layer``.

    Returns:
        The number.

    Examples:
        >>> bireme.slim.analysis.model_size(bireme.nn.Linear(4, 2))
        10
    """
    if not isinstance(model, Layer):
        raise errors.bad("model_size(model)", "a Layer", model, kind=errors.ArgumentTypeError)
    return sum(int(np.prod(x.shape)) for x in model.state_dict().values())
