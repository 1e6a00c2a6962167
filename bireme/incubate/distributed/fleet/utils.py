"""Programs as they are kept for parameter servers: written and read without values, compared, listed, drawn, tried."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from bireme.core.base import dtype as dtypes
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.program.program import Program
from bireme.core.program.variable import Symbol
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor
from bireme.distributed import programs
from bireme.distributed.fleet.utils.log_util import logger
from bireme.static import bare_programs
from bireme.static.executor import Executor
from bireme.static.saving import load_vars
from bireme.static.scopes import Scope, scope_guard

__all__ = [
    "check_pruned_program_vars",
    "check_saved_vars_try_dump",
    "graphviz",
    "load_program",
    "parse_program",
    "program_type_trans",
    "save_program",
]


def save_program(program: Program, model_filename: str = "__model__", is_text: bool = False) -> None:
    """Write a program to a file, without the values of its parameters.

    As text it is JSON with a line for each operation; the binary form is the same, compressed. ``load_program`` reads both.
    Paddle's own text cannot be read again.

    Args:
        program: The program. Gradients and updates are no part of the file: for a program that trains, save
            ``program.clone(for_test=True)``.
        model_filename: Path of the file. Folders that are missing are made. Default: ``"__model__"``.
        is_text: Write text. Default: False.

    Raises:
        RuntimeError: If the program has gradients or updates.

    Examples:
        >>> import tempfile
        >>> from bireme.incubate.distributed.fleet import utils
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.data("x", [None, 2]) * 3
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     utils.save_program(main, folder + "/net.txt", is_text=True)
        ...     loaded = utils.load_program(folder + "/net.txt", is_text=True)
        >>> bireme.static.Executor().run(loaded, feed={"x": [[1.0, 2.0]]}, fetch_list=[y.name])[0].tolist()
        [[3.0, 6.0]]
        >>> bireme.disable_static()
    """
    bare_programs.write(
        _path("save_program(model_filename)", model_filename), _program("save_program", program), is_text
    )


def load_program(model_filename: str, is_text: bool = False) -> Program:
    """Read a program from a file, without values.

    Args:
        model_filename: Path of a file that ``save_program`` wrote, or of a program that Paddle has saved: ``__model__``,
            ``.pdmodel``, or ``.json``.
        is_text: Whether the file is text. Default: False.

    Returns:
        A program. Parameters that another program has under the same name are shared with it; the others are zeros, until
        ``static.load_vars`` or ``static.set_program_state`` set them.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged or of the other form.

    Examples:
        >>> import tempfile
        >>> from bireme.incubate.distributed.fleet import utils
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 3, weight_attr="w_loaded")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     utils.save_program(main, folder + "/__model__")
        ...     loaded = utils.load_program(folder + "/__model__")
        >>> [p.name for p in loaded.all_parameters() if p.ndim == 2]
        ['w_loaded']
        >>> bireme.disable_static()
    """
    where = "load_program(model_filename)"
    return bare_programs.read(_there(where, _path(where, model_filename)), is_text, where)


def program_type_trans(prog_dir: str, prog_fn: str, is_text: bool) -> str:
    """Write a program in the other form: text as binary, binary as text.

    Args:
        prog_dir: Folder of the file.
        prog_fn: Name of the file.
        is_text: Whether the file is text.

    Returns:
        The name of the new file in the same folder: the old one and ``.bin``, or ``.pbtxt``.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged or of the other form.

    Examples:
        >>> import tempfile
        >>> from bireme.incubate.distributed.fleet import utils
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.data("x", [None, 2]) * 3
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     utils.save_program(main, folder + "/net")
        ...     utils.program_type_trans(folder, "net", is_text=False)
        'net.pbtxt'
        >>> bireme.disable_static()
    """
    where = "program_type_trans(prog_fn)"
    path = _there(where, os.path.join(_path("program_type_trans(prog_dir)", prog_dir), _path(where, prog_fn)))
    program = bare_programs.read(path, is_text, where)
    made = f"{prog_fn}{'.bin' if is_text else '.pbtxt'}"
    bare_programs.write(os.path.join(prog_dir, made), program, not is_text)
    return made


def parse_program(program: Program, output_dir: str) -> None:
    """List the variables and operations of a program in files.

    Args:
        program: The program.
        output_dir: Folder for ``vars_all.log``, ``vars_persistable.log`` and ``ops.log``; it is made if it is missing.

    Examples:
        >>> import tempfile
        >>> from bireme.incubate.distributed.fleet import utils
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.data("x", [None, 2]) * 3
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     utils.parse_program(main, folder)
        ...     print(open(folder + "/vars_all.log").readlines()[1].strip())
        {'name': 'x', 'shape': '(-1, 2)', 'lod_level': 0, 'dtype': 'bireme.float32'}
        >>> bireme.disable_static()
    """
    program = _program("parse_program", program)
    folder = _path("parse_program(output_dir)", output_dir)
    os.makedirs(folder, exist_ok=True)
    variables = program.list_vars()
    kept = [{**_told(v), "type": "VarType.DENSE_TENSOR"} for v in variables if v.persistable]
    ops = [
        {"type": o.type, "input_arg_names": str(_names(o.reads)), "output_arg_names": str(_names(o.makes))}
        for o in program.operations
    ]
    listed = {"vars_all": [_told(v) for v in variables], "vars_persistable": kept, "ops": ops}
    heads = {"vars_all": "all vars", "vars_persistable": "persistable vars", "ops": "ops"}
    for name, lines in listed.items():
        with open(os.path.join(folder, f"{name}.log"), "w", encoding="utf-8") as file:
            file.writelines([f"{line}\n" for line in (f"{heads[name]}:", *lines)])


def _told(variable: Tensor) -> dict[str, Any]:
    return {
        "name": variable.name,
        "shape": str(_shape(variable)),
        "lod_level": getattr(variable, "lod_level", 0),
        "dtype": str(variable.dtype),
    }


def _shape(variable: Tensor) -> tuple[int, ...]:
    """Its sizes, -1 where they are not known."""
    return tuple([n if type(n) is int else -1 for n in variable.shape])


def _names(values: Sequence[Any]) -> list[str]:
    return [x.name for x in values]


def check_pruned_program_vars(train_prog: Program, pruned_prog: Program) -> bool:
    """Return whether all parameters and buffers of a program are in the one that it was made from, with the same shape and
    data type. Each one that is not is told by the logger of fleet.

    Args:
        train_prog: The program that trains.
        pruned_prog: The part of it that is kept.

    Returns:
        True if all are.

    Examples:
        >>> from bireme.incubate.distributed.fleet import utils
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.nn.fc(bireme.static.data("x", [None, 2]), 3)
        >>> utils.check_pruned_program_vars(main, main.clone(for_test=True))
        True
        >>> utils.check_pruned_program_vars(bireme.static.Program(), main)
        False
        >>> bireme.disable_static()
    """
    trained = {t.name: t for t in _program("check_pruned_program_vars", train_prog, "train_prog").tensors.values()}
    pruned = _program("check_pruned_program_vars", pruned_prog, "pruned_prog").tensors.values()
    logger.info("persistable vars in pruned program: %s", [t.name for t in pruned])
    fits = True
    for t in pruned:
        other = trained.get(t.name)
        if other is None:
            logger.error("the variable %r is not in the program that trains", t.name)
        elif (other.shape, other.dtype) != (t.shape, t.dtype):
            told = (t.name, t.shape, t.dtype.name, other.shape, other.dtype.name)
            logger.error("the variable %r has shape %s, %s; in the program that trains %s, %s", *told)
        else:
            continue
        fits = False
    return fits


def graphviz(block: Program, output_dir: str = "", filename: str = "debug") -> None:
    """Draw a block: a file for the program ``dot`` of Graphviz, and a picture if that is installed.

    Args:
        block: The block, ``program.global_block()``.
        output_dir: Folder for the files; it is made if it is missing. Default: ``""``, the present one.
        filename: Name of the files, to which ``.dot`` and ``.pdf`` are added. Default: ``"debug"``.

    Examples:
        >>> import tempfile
        >>> from bireme.incubate.distributed.fleet import utils
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.data("x", [None, 2]) * 3
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     utils.graphviz(main.global_block(), folder)
        ...     print(open(folder + "/debug.dot").readline().strip())
        digraph G {
        >>> bireme.disable_static()
    """
    program = _program("graphviz", block, "block")
    path = os.path.join(_path("graphviz(output_dir)", output_dir), _path("graphviz(filename)", filename))
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(f"{path}.dot", "w", encoding="utf-8") as file:
        file.write(_drawn(program))
    if shutil.which("dot"):
        code, said = programs.output("graphviz()", ["dot", "-Tpdf", f"{path}.dot", "-o", f"{path}.pdf"], 300.0)
        if code:
            raise errors.failure(f"graphviz(): dot has failed with exit code {code}: {said}")


def _drawn(program: Program) -> str:
    """Values as rounded boxes, parameters with their shapes, and operations as dark ones."""
    lines = ["digraph G {", 'rankdir="TB";', 'node [fontname="Arial"];']
    nodes: dict[int, str] = {}

    def node(x: Symbol | Tensor) -> str:
        if id(x) not in nodes:
            nodes[id(x)] = f"value_{len(nodes)}"
            look = 'style="rounded,filled", fillcolor="#dddddd"'
            label = x.name
            if isinstance(x, Parameter) or x.persistable:
                look = 'style="rounded,filled", fillcolor="#148b97", fontcolor="#ffffff"'
                label = f"{x.name}\n{x.dtype.name} {list(x.shape)}"
            lines.append(f'{nodes[id(x)]} [label={_quoted(label)}, shape="box", {look}];')
        return nodes[id(x)]

    for at, operation in enumerate(program.operations):
        look = 'shape="box", style="filled", fillcolor="#303a3a", fontcolor="#ffffff"'
        lines.append(f"op_{at} [label={_quoted(operation.type)}, {look}];")
        lines += [f"{node(x)} -> op_{at};" for x in dict.fromkeys(operation.reads)]
        lines += [f"op_{at} -> {node(x)};" for x in operation.makes]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def check_saved_vars_try_dump(
    dump_dir: str,
    dump_prog_fn: str,
    is_text_dump_program: bool,
    feed_config: Any,
    fetch_config: Any,
    batch_size: int = 1,
    save_filename: str | None = None,
) -> list[np.ndarray]:
    """Load a saved program with its values, and run it once.

    Args:
        dump_dir: Folder of the program and of the values.
        dump_prog_fn: Name of the file of the program.
        is_text_dump_program: Whether it is text.
        feed_config: An object with lists: ``feeded_vars_names``, ``feeded_vars_dims`` (sizes without the batch),
            ``feeded_vars_types`` (data types), and ``feeded_vars_filelist``, files with a line of numbers for each sample,
            or None for random numbers.
        fetch_config: An object with the list ``fetch_vars_names``.
        batch_size: Number of samples. Default: 1.
        save_filename: File in the folder that holds all values, in the order of the names. Default: None, a file for each.

    Returns:
        What was fetched, as arrays. The program and its values are in a scope of their own.

    Raises:
        FileNotFoundError: If a file is missing.
        RuntimeError: If sizes that are fed do not fit the program.
        ValueError: If a file is damaged, or a value does not fit the program.

    Examples:
        >>> import tempfile, types
        >>> from bireme.incubate.distributed.fleet import utils
        >>> bireme.enable_static()
        >>> main = bireme.static.Program()
        >>> with bireme.static.program_guard(main, bireme.static.Program()):
        ...     y = bireme.static.data("x", [None, 2]) * 0 + 7
        >>> feed = types.SimpleNamespace(
        ...     feeded_vars_names=["x"], feeded_vars_dims=[[2]], feeded_vars_types=["float32"], feeded_vars_filelist=None)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     utils.save_program(main, folder + "/__model__")
        ...     fetch = types.SimpleNamespace(fetch_vars_names=[y.name])
        ...     utils.check_saved_vars_try_dump(folder, "__model__", False, feed, fetch)[0].tolist()
        [[7.0, 7.0]]
        >>> bireme.disable_static()
    """
    where = "check_saved_vars_try_dump"
    folder = _path(f"{where}(dump_dir)", dump_dir)
    path = _there(f"{where}(dump_prog_fn)", os.path.join(folder, _path(f"{where}(dump_prog_fn)", dump_prog_fn)))
    program = bare_programs.read(path, is_text_dump_program, f"{where}(dump_prog_fn)")
    logger.info("persistable vars in dump program: %s", list(program.tensors))
    with scope_guard(Scope()):
        executor = Executor()
        load_vars(executor, folder, program, list(program.tensors.values()), filename=save_filename)
        fed = _fed(where, program, feed_config, batch_size)
        found = executor.run(program, feed=fed, fetch_list=list(fetch_config.fetch_vars_names))
    for name, value in zip(fetch_config.fetch_vars_names, found):
        logger.info("%s: %s", name, value)
    return found


def _fed(where: str, program: Program, given: Any, batch: int) -> dict[str, np.ndarray]:
    """The arrays that are fed: from files, or random."""
    files = given.feeded_vars_filelist or [None] * len(given.feeded_vars_names)
    rng = np.random.default_rng()
    fed = {}
    for name, sizes, kind, path in zip(
        given.feeded_vars_names, given.feeded_vars_dims, given.feeded_vars_types, files, strict=True
    ):
        declared = _shape(program.var(name))[1:]
        if len(declared) != len(sizes) or any(n not in (-1, m) for n, m in zip(declared, sizes)):
            raise errors.failure(
                f"{where}(feed_config): expected sizes {list(declared)} of {name!r}, got {list(sizes)}"
            )
        shape, wanted = (batch, *sizes), dtypes.of(kind).np
        if path is None:
            values = rng.random(shape) if wanted.kind in "fcV" else rng.integers(0, 2, shape)
        else:
            values = np.loadtxt(path, max_rows=batch, ndmin=2).reshape(shape)
        fed[name] = values.astype(wanted)
    return fed


def _program(where: str, given: Any, argument: str = "program") -> Program:
    given = getattr(given, "program", given)
    if not isinstance(given, Program):
        raise errors.bad(f"{where}({argument})", "a Program", given, kind=errors.ArgumentTypeError)
    return given


def _path(where: str, given: Any) -> str:
    if not isinstance(given, (str, os.PathLike)):
        raise errors.bad(where, "a path", given, kind=errors.ArgumentTypeError)
    return os.fsdecode(os.fspath(given))


def _there(where: str, path: str) -> str:
    if not os.path.isfile(path):
        raise errors.bad(where, "a file that is there", described=path, kind=FileNotFoundError)
    return path


guard_functions(globals())
