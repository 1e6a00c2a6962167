"""Reading the model of a Config, in whichever format it is, and making its passes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from typing import Any

from bireme import onnx
from bireme.core.base import errors
from bireme.core.program.program import Operation, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.files import paddle_models, program_files
from bireme.inference.kinds import PrecisionType
from bireme.jit.saving import for_evaluation, models_of
from bireme.jit.transforms import FOR_OTHERS, transformed
from bireme.jit.transforms.mixed_precision import mixed_precision
from bireme.jit.transforms.packing import pack_weights
from bireme.ops import cast
from bireme.static.input import InputSpec

PADDLES = (".pdmodel", ".pdiparams")  # endings of the files that Paddle writes in the place of ours
HALF = {PrecisionType.Half: "float16", PrecisionType.Bfloat16: "bfloat16"}


def load(config: Any) -> Model:
    """The model that a Config names, as it was saved."""
    if config._buffers is not None:
        return _from_memory(*config._buffers)
    return read(_program(config), config.params_file() or None)


def _program(config: Any) -> str:
    program = config.prog_file() or config.model_dir()
    if not program:
        raise errors.bad("create_predictor(config)", "a Config with a model", described="none set")
    return program


def onnx_file(config: Any) -> str | None:
    """The ONNX file of a Config, if its model is one that is run as it is."""
    if config._buffers is not None or config._precision in HALF:
        return None
    program = _program(config)
    return program if program.endswith(".onnx") else None


def read(program: str, params: str | None = None) -> Model:
    """The model of these files."""
    if program.endswith(".onnx"):
        return _from_onnx(program)
    graph = program if os.path.isfile(program) else program + program_files.GRAPH
    if not os.path.isfile(graph) and program.endswith(PADDLES):
        graph = os.path.splitext(program)[0] + program_files.GRAPH
    if program_files.is_ours(graph):
        weights = os.path.splitext(graph)[0] + program_files.WEIGHTS
        if params is not None:
            weights = _ours(params)
        return program_files.read((graph, weights), "create_predictor(config)")[0]["forward"]
    return for_evaluation(paddle_models.load(program, params))


def _ours(params: str) -> str:
    """A file of weights, or ours of its name where it is the one that Paddle would have written in its place."""
    own = os.path.splitext(params)[0] + program_files.WEIGHTS
    return own if params.endswith(PADDLES) and not os.path.exists(params) and os.path.exists(own) else params


def _from_memory(program: bytes, params: bytes) -> Model:
    """Files are what the readers take; a model in memory becomes two for a moment."""
    kind = ".json" if program[:1] == b"{" else ".pdmodel"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        for name, data in ((path + kind, program), (path + ".pdiparams", params)):
            with open(name, "wb") as file:
                file.write(data)
        return read(path + kind, path + ".pdiparams")


def _from_onnx(path: str) -> Model:
    """The graph of an ONNX file, with the shapes that it declares."""
    layer: Any = onnx.load(path)
    specs = [InputSpec(shape, dtype, name) for name, shape, dtype in layer.declared_inputs()]
    model = models_of(layer, specs, "create_predictor")["forward"]
    model.output_names = list(layer.output_names)
    return model


def prepared(config: Any) -> tuple[Model, list[str]]:
    """The model of a Config after its passes, and what they changed."""
    model = load(config)
    names = config.pass_builder().all_passes() if config.ir_optim() else []
    if config._delegated():  # runtimes have passes of their own, and are given what these leave
        names = [name for name in FOR_OTHERS if name in names]
    accelerator = config.use_gpu() or config._device is not None
    packed = "pack_weights" in names and accelerator
    if accelerator:  # whose compilers choose layouts
        names = [name for name in names if name not in ("channels_last", "pack_weights")]
    # how rows of an output are divided into sequences is an output too, after all others
    lengths = [s for x in model.outputs if isinstance(x, Symbol) for s in x.lengths]
    model = Model(
        model.program, model.inputs, [*model.outputs, *lengths], [*model.output_names, *[s.name for s in lengths]]
    )
    made, report = transformed(model, names)
    if config._precision in HALF:
        report += in_half(made, HALF[config._precision], config._kept_full, config._low_io)
    if packed:
        report += [f"pack_weights: {line}" for line in pack_weights(made, accelerator=True)]
        made.program.version += 1
    return made, report


def in_half(model: Model, dtype: str, kept: Iterable[str], low_outputs: bool) -> list[str]:
    """Let a model run in half precision, but for operators of these names; outputs keep their types unless told."""
    lines = mixed_precision(model, dtype, "O1", frozenset(kept))
    for i, x in enumerate([] if low_outputs else model.outputs):
        if isinstance(x, Symbol) and x.dtype.is_floating:
            operation = Operation(cast, "cast", (x, x.dtype.name), {})
            made = Symbol(model.program._unused_name(x.name + ".cast"), x.samples)
            made.lengths = x.lengths
            operation.results = model.outputs[i] = model.program._add(made)
            model.program.operations.append(operation)
    _weights_in_half(model, dtype, kept)
    model.results = list(model.outputs)
    model.program.version += 1
    return lines


def _weights_in_half(model: Model, dtype: str, kept: Iterable[str]) -> None:
    """Let parameters and constants that only operators in half precision read have it too: no run has to round them, and what
    is added to a product stays a half.
    """
    full: set[int] = set()
    halves: set[Any] = set()  # results
    for o in model.program.operations:
        read = [x for x in o.reads if isinstance(x, Symbol)]
        added = o.type == "add" and bool(read) and halves.issuperset(read)
        if o.type not in kept and (added or _gains(o, kept)):
            halves.update(o.makes)
        else:
            full.update([id(x) for x in o.reads if isinstance(x, Tensor)])
    changed: dict[int, Tensor] = {}

    def narrowed(x: Any) -> Any:
        if not isinstance(x, Tensor) or id(x) in full or not x.dtype.is_floating:
            return x
        if id(x) not in changed:
            half = x.detach().astype(dtype)
            named = isinstance(x, Parameter)
            changed[id(x)] = Parameter(half, name=x.name, trainable=not x.stop_gradient) if named else half
        return changed[id(x)]

    for o in model.program.operations:
        if not hasattr(o.call, "labelled"):
            o.args, o.kwargs = mapped(narrowed, (o.args, o.kwargs))
    model.program.tensors = {name: changed.get(id(t), t) for name, t in model.program.tensors.items()}


def _gains(operation: Operation, kept: Iterable[str]) -> bool:
    """Whether an operation is a product or a convolution, or made of one that is not kept in full precision."""
    if operation.type == "linear":
        return "matmul" not in kept
    made = getattr(operation.call, "op", None)
    return made is not None and made.options.get("amp") == "low"
