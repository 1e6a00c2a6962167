"""ONNX files: layers and models are exported to them, and loaded from them."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.program import leaves
from bireme.core.program.program_model import Model
from bireme.core.tensor.tensor import Tensor
from bireme.jit import TranslatedLayer
from bireme.jit.saving import models_of
from bireme.nn import Layer
from bireme.onnx.packages import part
from bireme.static import InputSpec

__all__ = ["export", "load"]

OPSET = 18  # as in writing.graph, which is not imported before it is used


def export(layer: Any, path: str, input_spec: Any = None, opset_version: int = 9, **configs: Any) -> None:
    """Write a layer, as it evaluates, to an ONNX file.

    Sizes that ``input_spec`` leaves open stay open: the file takes inputs of any such size. It is checked by ONNX's
    checker before it is written.

    Args:
        layer: ``Layer``, or function of tensors.
        path: Path of the file; ``.onnx`` is added where it does not end so.
        input_spec: List of ``static.InputSpec`` or example tensors, one for each input. Default: None, those of
            the last call of a layer that ``jit.to_static`` made.
        opset_version: Version of ONNX's operators, at most 18. The file has version 18 whichever is named: what is older
            has no form for many functions. Default: 9.
        **configs: ``output_names``, a list of names for the outputs; ``integer_products``, True for ConvInteger where the
            result of a quantized convolution stays in floating point, which onnxruntime runs faster than the form
            with QuantizeLinear and DequantizeLinear, and other runtimes may not know; others have no effect.

    Raises:
        ImportError: If the package onnx is not installed.
        RuntimeError: If a function has no form in ONNX, as one that draws random numbers.

    Examples:
        >>> import os, tempfile
        >>> layer = bireme.nn.Linear(4, 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "linear.onnx")
        ...     bireme.onnx.export(layer, path, [bireme.static.InputSpec([None, 4], "float32", "x")])
        ...     again = bireme.onnx.load(path)
        >>> x = bireme.ones([3, 4])
        >>> bool(bireme.allclose(again(x), layer(x)))
        True
    """
    if not isinstance(path, (str, os.PathLike)) or not os.path.basename(os.fspath(path)):
        raise errors.bad("onnx.export(path)", "a path that ends in a name", path, kind=errors.ArgumentTypeError)
    if isinstance(opset_version, bool) or not isinstance(opset_version, int):
        raise errors.bad("onnx.export(opset_version)", "an integer", opset_version, kind=errors.ArgumentTypeError)
    if opset_version > OPSET:
        raise errors.bad("onnx.export(opset_version)", f"at most {OPSET}", opset_version)
    if not callable(layer):
        raise errors.bad("onnx.export(layer)", "a Layer or a function", layer, kind=errors.ArgumentTypeError)
    model = layer if isinstance(layer, Model) else _captured(layer, input_spec)
    names = configs.get("output_names")
    if names is not None:
        if len(names) != len(model.outputs):
            raise errors.bad("onnx.export(output_names)", f"{len(model.outputs)} names", list(names))
        model.output_names = list(names)
    path = os.fspath(path)
    writing = part("writing.model")
    given = (
        input_spec if isinstance(layer, TranslatedLayer) else None
    )  # whose graph has sizes of its own, open ones too
    sizes = {spec.name: list(spec.shape) for spec in given or () if isinstance(spec, InputSpec)}
    made = writing.written(model, integer_products=bool(configs.get("integer_products")), sizes=sizes)
    writing.save(made, path if path.endswith(".onnx") else f"{path}.onnx")


def load(path: str) -> Layer:
    """Make a layer of an ONNX file.

    Its parameters are the file's initializers of floating-point numbers, which can be trained; its inputs are those of
    the graph, in order, or by name. Nodes are the public calls that they mean, so the layer runs, is differentiated,
    captured and exported as any other.

    Args:
        path: Path of the file. Data that it keeps in other files has to lie in its folder.

    Returns:
        A ``Layer`` in evaluation mode with ``input_names`` and ``output_names``.

    Raises:
        ImportError: If the package onnx is not installed.
        FileNotFoundError: If there is no such file.
        ValueError: If its contents are no model, do not hold together, or have nodes that are not known.

    Examples:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "relu.onnx")
        ...     bireme.onnx.export(bireme.nn.ReLU(), path, [bireme.static.InputSpec([None], "float32", "x")])
        ...     layer = bireme.onnx.load(path)
        >>> layer.input_names, layer(bireme.to_tensor([-1.0, 2.0])).tolist()
        (['x'], [0.0, 2.0])
    """
    if not isinstance(path, (str, os.PathLike)):
        raise errors.bad("onnx.load(path)", "a path", path, kind=errors.ArgumentTypeError)
    return part("reading.layer").loaded(path)


def _captured(layer: Any, input_spec: Any) -> Model:
    """The calls of a layer in evaluation, on inputs of these shapes."""
    specs = input_spec
    if specs is not None:
        specs = list(specs) if isinstance(specs, (list, tuple)) else [specs]
        if not any(isinstance(spec, (InputSpec, Tensor)) for spec in leaves(specs)):
            raise errors.bad("onnx.export(input_spec)", "InputSpecs or Tensors", specs, kind=errors.ArgumentTypeError)
    modes = [(part, part.training) for part in layer.sublayers(include_self=True)] if isinstance(layer, Layer) else []
    try:
        for one, _ in modes:
            one.training = False
        model = models_of(layer, specs, "onnx.export")["forward"]
    finally:
        for one, mode in modes:
            one.training = mode
    model.output_names = [f"output_{i}" for i in range(len(model.outputs))] if len(model.outputs) > 1 else ["output"]
    return model


guard_functions(globals())
