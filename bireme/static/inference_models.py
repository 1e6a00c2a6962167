"""Programs in files: what inference needs of one, with its inputs, outputs and tensors."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Sequence
from typing import Any

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building
from bireme.core.program.program import KNOWN, STARTED, Program, mapped
from bireme.core.program.program_model import Model
from bireme.core.program.variable import Symbol, Variable
from bireme.core.tensor.tensor import Tensor
from bireme.files import paddle_models, program_files
from bireme.files.atomic import replacing
from bireme.static import scopes
from bireme.static.programs import default_main_program
from bireme.static.saving import pack, unpack

_NAME = "program"  # of the files in what `serialize_program` gives
_PARTS = (_NAME + program_files.GRAPH, _NAME + program_files.WEIGHTS)


def normalize_program(
    program: Program, feed_vars: Variable | Sequence[Variable], fetch_vars: Variable | Sequence[Variable], **kwargs: Any
) -> Program:
    """Return what inference needs of a program: the operations from some variables to others, as in evaluation.

    Args:
        program: The program, which stays as it is.
        feed_vars: Variables that are given.
        fetch_vars: Variables that are wanted.
        **kwargs: Have no effect.

    Returns:
        A program that shares parameters.

    Raises:
        TypeError: If these are not a program and variables.
        ValueError: If the program has no operations.

    Examples:
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main):
        ...     x = bireme.static.data("x", [None, 2])
        ...     y, z = x * 2, x * 3
        >>> bireme.static.normalize_program(main, [x], [y]).num_ops()
        1
        >>> bireme.disable_static()
    """
    if not isinstance(program, Program):
        raise errors.bad("normalize_program(program)", "a Program", program, kind=errors.ArgumentTypeError)
    return _model("normalize_program", program, feed_vars, fetch_vars).program


def _model(where: str, program: Program, feed_vars: Any, fetch_vars: Any) -> Model:
    """The part of a program between variables, with the tensors of the present scope."""
    feeds, fetches = _variables(f"{where}(feed_vars)", feed_vars), _variables(f"{where}(fetch_vars)", fetch_vars)
    if not program.operations:
        raise errors.bad(f"{where}(program)", "a program with operations", described="none")
    inputs = [symbol for x in feeds for symbol in (x.symbol, *x.symbol.lengths)]
    wanted = {x.symbol for x in fetches} - set(inputs)
    made, kept = program.clone(for_test=True), []
    scope = scopes.global_scope()
    for operation in reversed(made.operations):
        if wanted.intersection(operation.makes):
            kept.append(operation)
            wanted |= {x for x in operation.reads if isinstance(x, Symbol)}
            wanted -= set(inputs)
            operation.args, operation.kwargs = mapped(
                lambda x: scope.tensor(x) if isinstance(x, Tensor) else x, (operation.args, operation.kwargs)
            )
    made.operations, made.symbols, made.tensors = [], {}, {}
    for symbol in (*inputs, *[s for o in kept[::-1] for s in o.makes]):
        made._add(symbol)
    for operation in kept[::-1]:
        made._append(operation)
    results = [x.symbol for x in fetches]
    model = Model(made, inputs, results if len(results) > 1 else results[0])
    model.check()
    return model


def _variables(where: str, given: Any) -> list[Variable]:
    found = list(given) if isinstance(given, (list, tuple)) else [given]
    wrong = [x for x in found if not isinstance(x, Variable)]
    if wrong or not found:
        raise errors.bad(where, "variables", wrong[0] if wrong else given, kind=errors.ArgumentTypeError)
    return found


def _program_of(given: dict[str, Any]) -> Program:
    program = given.get("program")
    return default_main_program() if program is None else getattr(program, "program", program)


def save_inference_model(
    path_prefix: str,
    feed_vars: Variable | Sequence[Variable],
    fetch_vars: Variable | Sequence[Variable],
    executor: Any,
    **kwargs: Any,
) -> None:
    """Save what inference needs of a program, with its parameters.

    Two files are written: the program as readable JSON, ``path_prefix + '.json'``, and the tensors, ``path_prefix +
    '.safetensors'``. Neither can run code. Dropout and normalization do what they do in evaluation.

    Args:
        path_prefix: Path without an ending. Folders that are missing are made.
        feed_vars: Variables that are given, in order.
        fetch_vars: Variables that are wanted, in order.
        executor: Has no effect: values are those of the present scope.
        **kwargs: ``program``: the program, if it is not the default main program. The others have no effect.

    Raises:
        TypeError: If these are no variables.
        ValueError: If ``path_prefix`` does not end in a name.

    Examples:
        >>> import tempfile
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     x = bireme.static.data("x", [None, 2])
        ...     y = bireme.nn.functional.relu(x)
        ...     exe = bireme.static.Executor()
        ...     with tempfile.TemporaryDirectory() as folder:
        ...         bireme.static.save_inference_model(folder + "/net", [x], [y], exe)
        ...         program, feeds, fetches = bireme.static.load_inference_model(folder + "/net", exe)
        >>> feeds, exe.run(program, feed={"x": [[-1.0, 2.0]]}, fetch_list=fetches)[0].tolist()
        (['x'], [[0.0, 2.0]])
        >>> bireme.disable_static()
    """
    if not isinstance(path_prefix, (str, os.PathLike)) or not os.path.basename(os.fspath(path_prefix)):
        raise errors.bad("save_inference_model(path_prefix)", "a path that ends in a name", path_prefix)
    path = os.fspath(path_prefix)
    model = _model("save_inference_model", _program_of(kwargs), feed_vars, fetch_vars)
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    program_files.write(path, {"forward": model})


def load_inference_model(path_prefix: str | None, executor: Any, **kwargs: Any) -> list[Any]:
    """Load a program that ``save_inference_model`` or ``jit.save`` wrote, or a model of Paddle's.

    Args:
        path_prefix: Path without an ending; None if the program is given by ``kwargs``.
        executor: Has no effect: values come into the present scope.
        **kwargs: ``model_filename`` and ``params_filename``: for a folder with a model of Paddle's the names of its
            files; if ``path_prefix`` is None, what ``serialize_program`` and ``serialize_persistables`` gave.

    Returns:
        A list of the program, the names of its inputs and the variables of its outputs.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a file is damaged or not of a known format.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.jit.save(bireme.nn.Linear(2, 3), folder + "/net", [bireme.static.InputSpec([None, 2], name="x")])
        ...     program, feeds, fetches = bireme.static.load_inference_model(folder + "/net", None)
        >>> feeds, fetches[0].shape
        (['x'], [-1, 3])
    """
    if path_prefix is None:
        data, values = kwargs.get("model_filename"), kwargs.get("params_filename")
        if not isinstance(data, bytes):
            raise errors.bad("load_inference_model(model_filename)", "bytes, since there is no path_prefix", data)
        program = deserialize_program(data)
        if values is not None:
            deserialize_persistables(program, values, executor)
        return [program, *_ends(program)]
    where = "load_inference_model(path_prefix)"
    if not isinstance(path_prefix, (str, os.PathLike)):
        raise errors.bad(where, "a path", path_prefix, kind=errors.ArgumentTypeError)
    path = os.fspath(path_prefix)
    if program_files.is_ours(path + program_files.GRAPH):
        program = _read(path, where)
    else:
        names = [kwargs.get(key) for key in ("model_filename", "params_filename")]
        given, params = [None if name is None else os.path.join(path, str(name)) for name in names]
        with building.suspended():
            program = _placed(paddle_models.load(given or path, params))
    return [program, *_ends(program)]


def _read(path: str, where: str) -> Program:
    """The program in a file."""
    models, _, _ = program_files.read(path, where)
    if "forward" not in models:
        raise errors.bad(where, "a program with a function forward", list(models), kind=errors.FileFormatError)
    return _placed(models["forward"])


def _placed(model: Model) -> Program:
    """The program of a model from a file, with its tensors in the present scope: there is one of each name, so what another
    program has under the same one takes the values of the file, and is shared.
    """
    scope, program = scopes.global_scope(), model.program
    held = {name: t for name in program.tensors if (t := STARTED.get(name)) is not None}
    for name, t in program.tensors.items():
        if name in held and held[name]._value.sig == t._value.sig:
            program.tensors[name] = KNOWN[name] = held[name]
            scope.find(held[name]).set(t)
        elif scope.tensor(t) is not t:
            scope.find(t).set(t)
    for operation in program.operations:
        operation.args, operation.kwargs = mapped(
            lambda x: program.tensors.get(x.name, x) if isinstance(x, Tensor) else x, (operation.args, operation.kwargs)
        )
    program.ends = model
    return program


def _ends(program: Program) -> tuple[list[str], list[Any]]:
    """Names of the inputs that are fed, and the outputs, of a program from a file."""
    model = program.ends
    assert model is not None
    lengths = {s for symbol in model.inputs for s in scopes.lengths_of(program, symbol)}
    fetched = [program._var(x) if isinstance(x, Symbol) else x for x in model.outputs]
    return [s.name for s in model.inputs if s not in lengths], fetched


def serialize_program(
    feed_vars: Variable | Sequence[Variable], fetch_vars: Variable | Sequence[Variable], **kwargs: Any
) -> bytes:
    """Return what inference needs of a program as bytes.

    They hold the two files that ``save_inference_model`` writes, so ``deserialize_program`` gives a program that runs.

    Args:
        feed_vars: Variables that are given.
        fetch_vars: Variables that are wanted.
        **kwargs: ``program``: the program, if it is not the default main program. The others have no effect.

    Returns:
        Bytes.

    Raises:
        TypeError: If these are no variables.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        ...     data = bireme.static.serialize_program([x], [x * 2])
        >>> bireme.static.deserialize_program(data).num_ops()
        1
        >>> bireme.disable_static()
    """
    model = _model("serialize_program", _program_of(kwargs), feed_vars, fetch_vars)
    made = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(made, "w") as archive:
        program_files.write(os.path.join(folder, _NAME), {"forward": model})
        for name in _PARTS:
            archive.write(os.path.join(folder, name), name)
    return made.getvalue()


def deserialize_program(data: bytes) -> Program:
    """Return the program that ``serialize_program`` turned into bytes.

    Args:
        data: The bytes.

    Returns:
        A program, with the values that its parameters had.

    Raises:
        ValueError: If the bytes are damaged.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        ...     program = bireme.static.deserialize_program(bireme.static.serialize_program([x], [x * 2]))
        >>> program.has_var("x")
        True
        >>> bireme.disable_static()
    """
    where = "deserialize_program(data)"
    if not isinstance(data, bytes):
        raise errors.bad(where, "bytes", data, kind=errors.ArgumentTypeError)
    try:
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in _PARTS:
                if archive.getinfo(name).file_size > len(data):  # they are stored as they are
                    raise errors.bad(where, "what serialize_program gave", described="more bytes than there are")
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(archive.read(name))
            return _read(os.path.join(folder, _NAME), where)
    except (zipfile.BadZipFile, KeyError):
        raise errors.bad(
            where, "what serialize_program gave", described="other bytes", kind=errors.FileFormatError
        ) from None


def serialize_persistables(
    feed_vars: Variable | Sequence[Variable], fetch_vars: Variable | Sequence[Variable], executor: Any, **kwargs: Any
) -> bytes:
    """Return the parameters and buffers that inference needs as bytes, in Paddle's format, in the order of their names.

    Args:
        feed_vars: Variables that are given.
        fetch_vars: Variables that are wanted.
        executor: Has no effect: values are those of the present scope.
        **kwargs: ``program``: the program, if it is not the default main program. The others have no effect.

    Returns:
        Bytes; empty if there are no parameters.

    Raises:
        TypeError: If these are no variables.

    Examples:
        >>> bireme.enable_static()
        >>> with bireme.static.program_guard(bireme.static.Program()):
        ...     x = bireme.static.data("x", [None, 2])
        ...     bireme.static.serialize_persistables([x], [x * 2], None)
        b''
        >>> bireme.disable_static()
    """
    model = _model("serialize_persistables", _program_of(kwargs), feed_vars, fetch_vars)
    return pack(list(model.program.tensors.values()))


def deserialize_persistables(program: Program, data: bytes, executor: Any) -> None:
    """Set the parameters and buffers of a program to what ``serialize_persistables`` gave.

    Args:
        program: The program.
        data: The bytes.
        executor: Has no effect: values come into the present scope.

    Raises:
        ValueError: If the bytes are damaged or do not fit the program.

    Examples:
        >>> bireme.static.deserialize_persistables(bireme.static.Program(), b"", None)
    """
    if not isinstance(program, Program):
        raise errors.bad("deserialize_persistables(program)", "a Program", program, kind=errors.ArgumentTypeError)
    if not isinstance(data, bytes):
        raise errors.bad("deserialize_persistables(data)", "bytes", data, kind=errors.ArgumentTypeError)
    unpack(data, list(program.tensors.values()))


def save_to_file(path: str, content: bytes) -> None:
    """Write bytes to a file.

    Args:
        path: Path of the file.
        content: The bytes.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.static.save_to_file(folder + "/a", b"abc")
        ...     bireme.static.load_from_file(folder + "/a")
        b'abc'
    """
    if not isinstance(content, bytes):
        raise errors.bad("save_to_file(content)", "bytes", content)
    with replacing(os.fspath(path)) as file:
        file.write(content)


def load_from_file(path: str) -> bytes:
    """Return the bytes of a file.

    Args:
        path: Path of the file.

    Returns:
        Bytes.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.static.save_to_file(folder + "/a", b"abc")
        ...     bireme.static.load_from_file(folder + "/a")
        b'abc'
    """
    with open(path, "rb") as file:
        return file.read()


guard_functions(globals())
