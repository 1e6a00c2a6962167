"""What every export begins with: the model as a layer, and inputs whose sizes are all known."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import errors
from bireme.inference.saved import model_of, sketches
from bireme.jit import TranslatedLayer
from bireme.nn import Layer
from bireme.static import InputSpec


def loaded(model: Any, input_spec: list[InputSpec] | None, where: str) -> tuple[Any, list[InputSpec]]:
    """A layer, and its inputs, from what users give: a path or a layer with its inputs."""
    if isinstance(model, Layer):
        if input_spec is None:
            raise errors.bad(f"{where}(input_spec)", "an InputSpec for each input of the Layer", None)
        return model, [InputSpec(s.shape, s.dtype, s.name or f"x{i}") for i, s in enumerate(input_spec)]
    if not isinstance(model, (str, os.PathLike)):
        raise errors.bad(f"{where}(model)", "a path or a Layer", model, kind=errors.ArgumentTypeError)
    graph = model_of(model)
    specs = [
        InputSpec([None if n < 0 else n for n in shape], str(dtype), key)
        for key, (dtype, shape) in sketches(graph)[0].items()
    ]
    return TranslatedLayer({"forward": graph}, graph.program.tensors), specs


def fixed_specs(specs: list[InputSpec], sizes: dict[str, tuple[int, ...]], what: str) -> list[InputSpec]:
    """Inputs with these shapes; a sentence where a size stays open."""
    fixed = [InputSpec(sizes.get(str(spec.name), spec.shape), spec.dtype, spec.name) for spec in specs]
    for spec in fixed:
        if any(n is None or n < 0 for n in spec.shape):
            message = f"input {spec.name} has the shape {list(spec.shape)}, and {what} needs every size"
            raise errors.failure(message, hint=f"say --shape {spec.name}=1,3,224,224, or shapes=", kind=ValueError)
    return fixed
