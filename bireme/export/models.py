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


def sized(specs: list[InputSpec], sizes: dict[str, tuple[int, ...]], where: str) -> list[InputSpec]:
    """Inputs with these shapes, which may fix what is open and nothing else."""
    if unknown := sorted(set(sizes) - {str(spec.name) for spec in specs}):
        raise errors.bad(where, f"names of inputs, {', '.join(str(s.name) for s in specs)}", unknown[0])
    for spec in specs:
        given, own = sizes.get(str(spec.name), spec.shape), [n if n is not None and n >= 0 else -1 for n in spec.shape]
        if len(given) != len(own) or any(n not in (-1, m) for n, m in zip(own, given, strict=True) if m is not None):
            expected = f"a shape that input {spec.name} of shape {own} can have, -1 being open"
            raise errors.bad(where, expected, list(given), kind=errors.ShapeError)
    return [InputSpec(sizes.get(str(spec.name), spec.shape), spec.dtype, spec.name) for spec in specs]


def fixed_specs(specs: list[InputSpec], sizes: dict[str, tuple[int, ...]], what: str) -> list[InputSpec]:
    """Inputs with these shapes; a sentence where a size stays open."""
    fixed = sized(specs, sizes, "shapes")
    for spec in fixed:
        if any(n is None or n < 0 for n in spec.shape):
            message = f"input {spec.name} has the shape {list(spec.shape)}, and {what} needs every size"
            raise errors.failure(
                message, hint=f"say --shape {spec.name}={_example(spec.shape)}, or shapes=", kind=ValueError
            )
    return fixed


def _example(shape: Any) -> str:
    """A shape with sizes where there are none: one sample, and pictures of 224 pixels."""
    return ",".join(str(n) if n is not None and n >= 0 else "1" if i == 0 else "224" for i, n in enumerate(shape))
