"""Finding the files of a model, and reading them without trusting them."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.errors import FileFormatError
from bireme.core.program.program_model import Model
from bireme.files.paddle_models import parameters, pir_json, program_desc
from bireme.files.paddle_models.graph import MAX_FILE, Declared, Graph
from bireme.files.paddle_models.translate import translate
from bireme.files.source import Source, size_of
from bireme.files.store import naming, telling

MAX_JSON = 1 << 27  # bytes of a `.json` file: what it takes in memory is many times as much
EXPECTED = "an undamaged model of known operations"
_PROGRAMS = (".json", ".pdmodel")
_STEMS = ("inference", "model", "__model__")


def load(path: str | os.PathLike, params_path: str | os.PathLike | None = None) -> Model:
    """Read a model that Paddle has exported: by ``paddle.jit.save``, ``save_inference_model``, or an older version of it.

    Nothing in the files is run. Each operation becomes calls of public functions, so the model runs as dynamic code does,
    at any sizes, and its parameters can be trained. An input of sequences (LoD) is two inputs: the rows of all sequences,
    and after all others ``<name>.lengths``, the number of rows of each.

    Args:
        path: Path without its ending (``model`` for ``model.json`` or ``model.pdmodel``, and ``model.pdiparams``), path of
            the file of the program, or a folder that holds one model.
        params_path: Path of the parameters: a file, or a folder with a file for each. Default: None, beside the program.

    Returns:
        A ``Model``: ``run`` takes one tensor or array for each of ``input_names`` and returns the list of outputs.

    Raises:
        FileFormatError: If a file is damaged, or holds an operation that is not known.

    Examples:
        >>> from bireme.files import paddle_models
        >>> try:
        ...     paddle_models.load("nowhere/model")
        ... except FileNotFoundError as e:
        ...     print("load(path)" in str(e))
        True
    """
    program = _program(_text("load(path)", path))
    beside = _parameters(program) if params_path is None else _text("load(params_path)", params_path)
    with telling("load", program), naming(program, EXPECTED):
        graph = _read(program)
    if not graph.parameters:
        values: dict[str, Any] = {}
    elif beside is None:
        raise errors.bad(
            "load(params_path)",
            f"the file of {len(graph.parameters)} parameters beside {program}",
            described="none there",
            kind=FileNotFoundError,
        )
    else:
        with telling("load", beside), naming(beside, EXPECTED):
            read = parameters.separate if os.path.isdir(beside) else parameters.combined
            values = read(beside, graph.parameters)
    with naming(program, EXPECTED):
        return translate(graph, values)


def without_values(path: str) -> Model:
    """Read the program of a model alone. Its parameters are zeros: their values come from elsewhere."""
    with telling("load", path), naming(path, EXPECTED):
        graph = _read(path)
    with naming(path, EXPECTED):
        return translate(graph, {each.name: _zeros(each) for each in graph.parameters})


def _zeros(declared: Declared) -> np.ndarray:
    sizes = [max(n, 1) for n in declared.shape]  # -1 is what older versions declare for a size of 1
    if math.prod(sizes) > MAX_FILE:
        raise FileFormatError(f"the parameter {declared.name[:60]!r} of shape {declared.shape}")
    return np.zeros(sizes, dtypes.of(declared.dtype).np)


def _read(program: str) -> Graph:
    with open(program, "rb", buffering=0) as file:
        size = size_of(file)
        if size > MAX_FILE:
            raise FileFormatError(f"a program of {size} bytes")
        data = Source(file, size).blob(size).tobytes()
    if data[:1] == b"{":
        if size > MAX_JSON:
            raise FileFormatError(f"a program of {size} bytes")
        return pir_json.read(data)
    return program_desc.read(data)


def _text(where: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise errors.bad(where, "a path", path, kind=errors.ArgumentTypeError)
    return os.fsdecode(os.fspath(path))


def _program(path: str) -> str:
    """The file of the program."""
    if os.path.isdir(path):
        found = [os.path.join(path, f"{stem}{end}") for stem in _STEMS for end in (*_PROGRAMS, "")]
        found = [each for each in found if os.path.isfile(each)]
        others = sorted([name for name in os.listdir(path) if name.endswith(_PROGRAMS)])
        if not found and len(others) == 1:
            found = [os.path.join(path, others[0])]
        if found:
            return found[0]
        described = f"{path}, a folder with {', '.join(others)}" if others else f"{path}, a folder without one"
        raise errors.bad("load(path)", "the path of a model", described=described, kind=FileNotFoundError)
    for end in _PROGRAMS:
        if os.path.isfile(path + end):
            return path + end
    if os.path.isfile(path):
        return path
    raise errors.bad(
        "load(path)", "a path to which .json or .pdmodel is added, a file or a folder", described=path,
        kind=FileNotFoundError,
    )  # fmt: skip


def _parameters(program: str) -> str | None:
    """The file or folder of the parameters beside a program."""
    stem, end = os.path.splitext(program)
    folder = os.path.dirname(program)
    if end in _PROGRAMS:
        return stem + ".pdiparams" if os.path.isfile(stem + ".pdiparams") else None
    for name in ("__params__", "params"):
        if os.path.isfile(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return folder or "."
