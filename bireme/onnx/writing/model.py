"""Models as ONNX files: inputs with their names and sizes, all calls, and the outputs by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bireme.core.base import errors
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Dim, Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.packages import onnx
from bireme.onnx.writing.calls import write
from bireme.onnx.writing.graph import IR, OPSET, Val, Writer
from bireme.onnx.writing.qdq import PRODUCTS, Form
from bireme.onnx.writing.table import Unwritten
from bireme.version import full_version


def written(
    model: Model, name: str = "bireme", integer_products: bool = False, sizes: Mapping[str, list] | None = None
) -> Any:
    """A model as an ONNX ModelProto, checked. Products of integers are written in QDQ form; with `integer_products`
    convolutions whose results are not quantized stay as they are. `sizes` fix what inputs leave open, by name.
    """
    w = Writer(program=model.program)
    inputs = []
    for symbol in model.inputs:
        value = Val(w, w.unused(symbol.name), symbol.dtype)
        w.known[symbol] = value
        own = _sizes(symbol)
        given = (sizes or {}).get(symbol.name, own)
        inputs.append(
            w.info(value, [m if isinstance(m, int) and m >= 0 else n for n, m in zip(own, given, strict=True)])
        )
    w.taken.update(model.output_names)
    for operation in model.plan().operations:
        try:
            write(w, operation)
        except Unwritten as e:
            part = "" if str(e) in ("", operation.type) else f", because of {e},"
            raise errors.failure(
                f"onnx.export: {operation.type}, called at {errors.location(operation.pos)},{part[1:]} has no form in "
                "ONNX for these arguments",
                hint="give all sizes of the inputs" if _open(model) and _open(operation) else None,
            ) from None
    helper = onnx("helper")
    outputs, taken = [], set()
    for x, wanted in zip(model.outputs, model.output_names):
        if wanted in taken or any(s.name == wanted for s in model.inputs):
            wanted = w.unused(wanted)
        taken.add(wanted)
        value = w.value(x)
        w.nodes.append(helper.make_node("Identity", [value.name], [wanted]))
        outputs.append(w.info(Val(w, wanted, value.dtype), _sizes(x, wanted)))
    if any(node.op_type in PRODUCTS for node in w.nodes):
        Form(w, [x.name for x in outputs]).write(integer_products)
    graph = w.graph(name, inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR,
                             producer_name="bireme", producer_version=full_version)  # fmt: skip
    if made.ByteSize() < 2**31:
        onnx("checker").check_model(made)
    return made


def _open(x: Any) -> bool:
    """Whether a size of what a model or an operation takes is unknown."""
    given = x.inputs if isinstance(x, Model) else x.reads
    return any(isinstance(n, Dim) for each in given if isinstance(each, Symbol) for n in each.shape)


def _sizes(x: Any, name: str = "") -> list[Any]:
    """Sizes for ONNX: an unknown one has a name."""
    if isinstance(x, Tensor) and not isinstance(x, Symbol):
        return list(x.shape)
    return [f"{name or x.name}_{i}" if isinstance(n, Dim) else int(n) for i, n in enumerate(x.shape)]


def save(model: Any, path: str) -> None:
    """Write a file; what a single one cannot hold lies beside it."""
    if model.ByteSize() < 2**31:
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        return
    onnx().save_model(model, path, save_as_external_data=True, location=path.rsplit("/", 1)[-1] + ".data")
