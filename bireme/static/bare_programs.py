"""Programs in files without the values of their parameters: as text, or as the same text compressed."""

from __future__ import annotations

import os
import zlib
from typing import Any

from bireme.core.base import errors
from bireme.core.program import building
from bireme.core.program.program import STARTED, Program, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Symbol
from bireme.core.tensor.tensor import Tensor
from bireme.files import program_files
from bireme.files.atomic import replacing
from bireme.files.paddle_models import reading
from bireme.files.program_files import MOST

MAGIC = b"bireme.program\0"


def write(path: str, program: Program, is_text: bool) -> None:
    """Write a program to a file."""
    with building.suspended():
        text = program_files.text_of(program).encode("utf-8", "surrogatepass")
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with replacing(path) as file:
        file.write(text if is_text else MAGIC + zlib.compress(text))


def read(path: str, is_text: bool, where: str) -> Program:
    """Read a program that `write` wrote, or one of Paddle's. A parameter that another program has under the same name is
    shared with it; the others are zeros.
    """
    ours = program_files.is_ours(path)  # both forms begin so
    with open(path, "rb") as file:
        text = file.read(1) == b"{"
    if is_text is not text and (ours or is_text):  # a program of Paddle's may be text too, and its readers need no word
        kinds = ("text", "the binary form") if is_text else ("the binary form", "text")
        raise errors.bad(
            where, f"{kinds[0]}, as is_text says", described=kinds[1], kind=errors.FileFormatError,
            hint=f"pass is_text={not is_text}",
        )  # fmt: skip
    with building.suspended():
        if ours:
            model = program_files.of_text(_text(path, where), where)
        else:
            model = reading.without_values(path)
    return _joined(model)


def _text(path: str, where: str) -> bytes:
    with open(path, "rb") as file:
        data = file.read(MOST)
    if not data.startswith(MAGIC):
        return data
    try:
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(data[len(MAGIC) :], MOST)
        if not unpacking.eof:
            raise zlib.error("it is not whole")
    except zlib.error as e:
        raise errors.bad(where, "a program", described=f"a damaged file: {e}", kind=errors.FileFormatError) from None
    return text


def _joined(model: Model) -> Program:
    """The program, with tensors that other programs give values."""
    program = model.program
    for name, t in program.tensors.items():
        held = STARTED.get(name)
        if held is not None and held._value.sig == t._value.sig:
            program.tensors[name] = held

    def shared(x: Any) -> Any:
        return program.tensors.get(x.name, x) if isinstance(x, Tensor) else x

    for operation in program.operations:
        operation.args, operation.kwargs = mapped(shared, (operation.args, operation.kwargs))
    for symbol, name in zip(model.outputs, model.output_names, strict=True):
        if isinstance(symbol, Symbol) and symbol.name != name:
            program._rename(symbol, name)  # a file of Paddle's names what it gives, and it is fetched by that
    program.ends = model
    return program
