"""The state of programs in files: parameters and optimizers, by name, as Paddle writes them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program import building
from bireme.core.program.program import Program
from bireme.core.tensor.tensor import Tensor
from bireme.files import binary_tensor
from bireme.files import load as load_file
from bireme.files import save as save_file
from bireme.files.source import Source
from bireme.static import scopes
from bireme.static.programs import default_main_program

PARAMETERS, OPTIMIZERS = ".pdparams", ".pdopt"


def save(program: Program, model_path: str, protocol: int = 4, **configs: Any) -> None:
    """Save parameters, buffers and the state of optimizers of a program.

    Two files are written, which Paddle reads and writes too: ``model_path + '.pdparams'`` and ``model_path + '.pdopt'``.
    The program itself is not: it is built again by the code that made it. ``save_inference_model`` writes programs.

    Args:
        program: The program.
        model_path: Path without an ending. Folders that are missing are made.
        protocol: Protocol of pickle, 2 to 4. Default: 4.
        **configs: Have no effect.

    Raises:
        ValueError: If ``model_path`` does not end in a name.

    Examples:
        >>> import tempfile
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 3, weight_attr="w_saved", bias_attr=False)
        >>> exe = bireme.static.Executor()
        >>> _ = exe.run(startup)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.static.save(main, folder + "/net")
        ...     list(bireme.static.load_program_state(folder + "/net"))
        ['w_saved']
        >>> bireme.disable_static()
    """
    program = _program("save", program)
    if not isinstance(model_path, (str, os.PathLike)) or not os.path.basename(os.fspath(model_path)):
        raise errors.bad("save(model_path)", "a path that ends in a name", model_path)
    path, scope = os.fspath(model_path), scopes.global_scope()
    with building.suspended():
        for mode, ending in (("param", PARAMETERS), ("opt", OPTIMIZERS)):
            state = {name: t.numpy() for name, t in program.state_dict(mode, scope).items()}
            save_file(state, path + ending, protocol)


def load(program: Program, model_path: str, executor: Any = None, var_list: Sequence[Tensor] | None = None) -> None:
    """Set parameters, buffers and the state of optimizers of a program to what ``save`` wrote.

    Args:
        program: The program.
        model_path: Path without an ending.
        executor: Has no effect. Default: None.
        var_list: The parameters and buffers that are set. Default: None, all of the program.

    Raises:
        FileNotFoundError: If there is no such file.
        RuntimeError: If a parameter is not in the file.
        ValueError: If a value does not have the shape of its parameter.

    Examples:
        >>> import tempfile
        >>> bireme.enable_static()
        >>> main, startup = bireme.static.Program(), bireme.static.Program()
        >>> with bireme.static.program_guard(main, startup):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 3)
        >>> exe = bireme.static.Executor()
        >>> _ = exe.run(startup)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.static.save(main, folder + "/net")
        ...     bireme.static.load(main, folder + "/net", exe)
        >>> bireme.disable_static()
    """
    program = _program("load", program)
    state = load_program_state(model_path)
    wanted = program.tensors if var_list is None else {t.name: t for t in var_list}
    for name, t in wanted.items():
        if name not in state:
            raise errors.failure(f"load(model_path): expected a value for {name} in the file, got none")
        if list(np.shape(state[name])) != t.shape:
            raise errors.bad(
                "load(model_path)",
                f"shape {t.shape} for {name}",
                described=f"shape {list(np.shape(state[name]))}",
                kind=errors.ShapeError,
            )
    left_out = set(program.tensors) - set(wanted)
    program.set_state_dict({k: v for k, v in state.items() if k not in left_out}, scopes.global_scope())


def load_program_state(model_path: str, var_list: Sequence[Tensor] | None = None) -> dict[str, np.ndarray]:
    """Read what ``save`` wrote.

    Args:
        model_path: Path without an ending.
        var_list: Variables whose values are wanted. Default: None, all.

    Returns:
        A dict of arrays by name.

    Raises:
        FileNotFoundError: If there is no such file.

    Examples:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     bireme.static.save(bireme.static.Program(), folder + "/net")
        ...     bireme.static.load_program_state(folder + "/net")
        {}
    """
    path = os.fspath(model_path)
    for ending in (PARAMETERS, OPTIMIZERS):
        path = path.removesuffix(ending)
    if not os.path.exists(path + PARAMETERS):
        raise errors.as_told(FileNotFoundError(f"load(model_path): there is no file {path + PARAMETERS}"))
    with building.suspended():
        state = load_file(path + PARAMETERS, return_numpy=True)
        if os.path.exists(path + OPTIMIZERS):
            state |= load_file(path + OPTIMIZERS, return_numpy=True)
    if var_list is None:
        return state
    names = {t.name for t in var_list}
    return {name: value for name, value in state.items() if name in names}


def set_program_state(program: Program, state_dict: dict[str, Any]) -> None:
    """Set parameters, buffers and the state of optimizers of a program.

    Args:
        program: The program.
        state_dict: Arrays by name, as ``load_program_state`` returns. Names that the program does not have are warned
            about.

    Raises:
        ValueError: If a value does not have the shape of its parameter.

    Examples:
        >>> bireme.static.set_program_state(bireme.static.Program(), {})
    """
    program = _program("set_program_state", program)
    for name, t in program.tensors.items():
        if name in state_dict and list(np.shape(state_dict[name])) != t.shape:
            raise errors.bad(
                f"set_program_state(state_dict[{name!r}])",
                f"shape {t.shape}",
                described=f"shape {list(np.shape(state_dict[name]))}",
                kind=errors.ShapeError,
            )
    program.set_state_dict(state_dict, scopes.global_scope())
    unknown = [name for name in state_dict if name not in program.tensors]
    if unknown and not program.optimizers:
        errors.warn(f"the program has no parameters of these names: {', '.join(unknown)}")


def load_vars(
    executor: Any,
    dirname: str,
    main_program: Program | None = None,
    vars: Sequence[Tensor | str] | None = None,
    predicate: Callable[[Tensor], bool] | None = None,
    filename: str | None = None,
) -> None:
    """Set parameters and buffers to what files of Paddle's older programs hold.

    Args:
        executor: Has no effect.
        dirname: Folder of the files, one for each name.
        main_program: The program. Default: None, the default main program.
        vars: The parameters and buffers that are set, or their names. Default: None, those that ``predicate`` chooses.
        predicate: Function that says of a parameter or buffer whether it is set. Default: None, all are.
        filename: One file in the folder that holds all values, in the order of the names. Default: None.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a file is damaged, or a value does not have the shape of its parameter.

    Examples:
        >>> bireme.static.load_vars(None, ".", bireme.static.Program())
    """
    program = default_main_program() if main_program is None else _program("load_vars", main_program)
    if vars is None:
        wanted = [t for t in program.tensors.values() if predicate is None or predicate(t)]
    else:
        wanted = [program.var(x) if isinstance(x, str) else x for x in vars]
    if filename is not None:
        with open(os.path.join(dirname, filename), "rb") as file:
            unpack(file.read(), wanted)
        return
    for t in wanted:
        with open(os.path.join(dirname, t.name), "rb") as file:
            unpack(file.read(), [t])


def pack(tensors: Sequence[Tensor]) -> bytes:
    """Values in Paddle's combined form, in the order of the names."""
    made = io.BytesIO()
    with building.suspended():
        for t in sorted(tensors, key=lambda t: t.name):
            binary_tensor.write(made, scopes.global_scope().tensor(t).numpy())
    return made.getvalue()


def unpack(data: bytes, tensors: Sequence[Tensor]) -> None:
    """Set tensors to values in Paddle's combined form."""
    source = Source(io.BytesIO(data), len(data))
    for t in sorted(tensors, key=lambda t: t.name):
        value = binary_tensor.read(source)
        if list(value.shape) != t.shape:
            raise errors.bad(
                "load_vars(vars)", f"shape {t.shape} for {t.name}", described=f"shape {list(value.shape)}",
                kind=errors.ShapeError,
            )  # fmt: skip
        scopes.global_scope().find(t).set(value)


def _program(where: str, given: Any) -> Program:
    given = getattr(given, "program", given)
    if not isinstance(given, Program):
        raise errors.bad(f"{where}(program)", "a Program", given, kind=errors.ArgumentTypeError)
    return given


guard_functions(globals())
