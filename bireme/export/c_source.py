"""A model as one file of C99 without dependencies: weights as arrays, memory planned when it is written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bireme.core.base import errors
from bireme.export import place as places
from bireme.export import rows as _rows  # noqa: F401 - registers them
from bireme.export.graph import Graph, Value
from bireme.export.memory import home, placed
from bireme.export.models import loaded, sized
from bireme.export.reading import graph_of
from bireme.files.atomic import replacing
from bireme.static import InputSpec

KERNELS = Path(__file__).with_name("kernels.c")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LINE = 8  # numbers in a line of an array


@dataclass(frozen=True)
class Written:
    """What was written.

    Args:
        path: The C file.
        weights: The file with the weights, or None if they are in the C file.
        bytes: Size of both.
        memory: Bytes of static memory that a run uses besides.
        calls: Calls that it makes.

    Examples:
        >>> bireme.export.c_source.Written("net.c", None, 1000, 64, 3).memory
        64
    """

    path: str
    weights: str | None
    bytes: int
    memory: int
    calls: int


def to_c(
    model: Any,
    path: str | os.PathLike,
    shapes: dict[str, tuple[int, ...]] | None = None,
    *,
    name: str | None = None,
    beside: bool = False,
    int8: bool = False,
    input_spec: list[InputSpec] | None = None,
) -> Written:
    """Write a model as one file of C99, which needs nothing but the standard library.

    The function ``NAME_run`` takes a pointer for each input, then one for each output, and returns 0, or 1 if an index is out of
    range. It uses static memory, so one thread at a time may run it. Compiled with ``-DNAME_MAIN`` the file is a program that reads the
    inputs from standard input and writes the outputs to standard output, as raw numbers.

    Args:
        model: Path of a saved model, or a ``Layer``.
        path: Path of the C file.
        shapes: Shapes of inputs whose sizes are open, by name. Default: None.
        name: Beginning of the names in C. Default: None, the file's name, with _ for what no name of C has.
        beside: Write the weights into a file of their own, which ``NAME_weights`` is given in memory. Default: False.
        int8: Keep filters, matrices and tables as integers of 8 bits with a scale for each filter, column or row, a quarter of
            their size; those of a quantized model are kept so, and multiplied as integers, without it. Default: False.
        input_spec: Inputs of a ``Layer``. Default: None, those of a saved model.

    Returns:
        What was written, with sizes.

    Raises:
        ValueError: If a size is open, or the name is none of C's.
        NotImplementedError: If an operator has no form in C.
        ImportError: If onnx or onnxruntime is not installed.

    Examples:
        >>> import tempfile
        >>> layer = bireme.nn.Linear(4, 2)
        >>> spec = bireme.static.InputSpec([1, 4], "float32", "x")
        >>> written = bireme.export.to_c(layer, tempfile.mkdtemp() + "/net.c", input_spec=[spec])
        >>> "int net_run(const float *x, float *output)" in open(written.path).read()
        True
    """
    path = os.fspath(path)
    name = re.sub(r"^(?![A-Za-z])", "m", re.sub(r"\W", "_", Path(path).stem, flags=re.ASCII)) if name is None else name
    if not _NAME.fullmatch(name):
        raise errors.bad("to_c(name)", "letters, digits and _, as a name of C", name)
    layer, specs = loaded(model, input_spec, "to_c")
    sizes = {key: tuple(shape) for key, shape in (shapes or {}).items()}
    graph = graph_of(layer, sizes, sized(specs, sizes, "to_c(shapes)"))
    source = _Source(graph, name, beside, int8)
    text = source.text()
    weights = None
    with replacing(path) as file:
        file.write(text.encode())
    if beside:
        weights = str(Path(path).with_suffix(".weights"))
        with replacing(weights) as file:
            file.write(bytes(source.data))
    return Written(path, weights, len(text) + len(source.data), source.memory, len(graph.calls))


class _Source:
    """The text of a file, made from a graph."""

    def __init__(self, graph: Graph, name: str, beside: bool, int8: bool):
        self._graph, self._name, self._beside, self._int8 = graph, name, beside, int8
        self._homes = home(graph)
        self._arrays: dict[tuple, str] = {}
        self._declared: list[str] = []
        self.data = bytearray()
        self.memory = 0
        self._names: dict[Value, str] = {}
        outside = {*(x.name for x in graph.inputs), *(x.name for x in graph.outputs)}
        self._pointers = dict(zip(sorted(outside), _identifiers(sorted(outside)), strict=True))
        for value in (*graph.inputs, *graph.outputs):
            self._names[value] = self._pointers[value.name]

    def text(self) -> str:
        """The whole file."""
        bodies = []
        for call in self._graph.calls:
            place = places.Place(self._name_of, self._constant, self._int8)
            places.write(place, call)
            bodies.append((call, place))
        offsets, scratch, self.memory = placed(self._graph, [place.scratch for _, place in bodies])
        lines = []
        for value, offset in offsets.items():
            kind = places.C_TYPES[str(value.dtype)]
            lines.append(f"    {kind} *const {self._names[value]} = ({kind} *)(memory.bytes + {offset});")
        for at, (call, place) in enumerate(bodies):
            lines.append(
                f"    /* {call.op}{' and ' + call.activation[0].lower() if call.activation else ''} -> {list(call.outputs[0].shape)} */"
            )
            if place.scratch:
                lines.append(f"    {{ float *const scratch = (float *)(memory.bytes + {scratch[at]});")
            lines += ["    " + line for line in place.lines]
            if place.scratch:
                lines.append("    }")
        kernels = _kernels([k for _, place in bodies for k in place.kernels])
        arguments = [f"const {places.C_TYPES[str(v.dtype)]} *{self._names[v]}" for v in self._graph.inputs]
        arguments += [f"{places.C_TYPES[str(v.dtype)]} *{self._names[v]}" for v in self._graph.outputs]
        return "\n".join([*self._head(), kernels, *self._declared, *self._weights(), *self._memory(),
                          f"int {self._name}_run({', '.join(arguments)}) {{", *lines, "    return 0;", "}", "", *self._main()])  # fmt: skip

    def _head(self) -> list[str]:
        described = [
            f"   {kind} {v.name}: {v.dtype} {list(v.shape)}"
            for kind, values in (("input", self._graph.inputs), ("output", self._graph.outputs))
            for v in values
        ]
        use = "cc -O3 -std=c99 FILE.c -lm"
        return [f"/* {self._name}, exported by Bireme as C99: {use}", *described, "*/", "#include <math.h>", "#include <stdint.h>",
                "#include <stddef.h>", "#include <string.h>", ""]  # fmt: skip

    def _memory(self) -> list[str]:
        if not self.memory:
            return []
        return [f"static union {{ double alignment; unsigned char bytes[{self.memory}]; }} memory;", ""]

    def _weights(self) -> list[str]:
        if not self._beside:
            return []
        return [f"/* to be called first: the contents of the weights' file, {len(self.data)} bytes, aligned as double is */",
                f"void {self._name}_weights(const void *bytes) {{ weights = (const unsigned char *)bytes; }}", ""]  # fmt: skip

    def _name_of(self, value: Value) -> str:
        if value.data is not None:
            return self._constant(value.data)
        owner = self._homes.get(value, value)
        if owner not in self._names:
            self._names[owner] = f"v{len(self._names)}"
        return self._names[owner]

    def _constant(self, array: np.ndarray) -> str:
        """The name of an array of numbers, one for equal ones."""
        array = np.ascontiguousarray(array)
        key = (str(array.dtype), array.tobytes())
        if key not in self._arrays:
            kind = places.C_TYPES[str(array.dtype)]
            name = self._arrays[key] = f"c{len(self._arrays)}"
            if self._beside:
                self.data += bytes(-len(self.data) % 16)
                if not self._declared:
                    self._declared.append("static const unsigned char *weights;\n")
                self._declared.append(f"#define {name} ((const {kind} *)(weights + {len(self.data)}))")
                self.data += array.tobytes()
            else:
                body = ",\n".join(_literals(array.reshape(-1), kind)) or "0"
                self._declared.append(f"static const {kind} {name}[{max(array.size, 1)}] = {{\n{body}}};\n")
        return self._arrays[key]

    def _main(self) -> list[str]:
        """A program around it, for tries."""
        own = f"{self._name.upper()}_MAIN"
        lines = [f"#ifdef {own}", "#include <stdio.h>", "#include <stdlib.h>", "int main(int argc, char **argv) {"]
        for value in (*self._graph.inputs, *self._graph.outputs):
            lines.append(f"    static {places.C_TYPES[str(value.dtype)]} {self._names[value]}[{max(value.size, 1)}];")
        lines.append("    long i, times = argc > 1 ? strtol(argv[1], NULL, 10) : 1;")
        if self._beside:
            size = len(self.data)
            lines += [
                '    FILE *file = argc > 2 ? fopen(argv[2], "rb") : NULL;',
                f"    static union {{ double alignment; unsigned char bytes[{max(size, 1)}]; }} held;",
                f"    if (!file || fread(held.bytes, 1, {size}, file) != {size}) return 3;",
                "    fclose(file);",
                f"    {self._name}_weights(held.bytes);",
            ]
        lines += [
            f"    if (fread({self._names[v]}, sizeof *{self._names[v]}, {v.size}, stdin) != {v.size}) return 2;"
            for v in self._graph.inputs
        ]
        names = ", ".join(self._names[v] for v in (*self._graph.inputs, *self._graph.outputs))
        lines += [f"    for (i = 0; i < times; i++) if ({self._name}_run({names})) return 1;"]
        lines += [
            f"    if (fwrite({self._names[v]}, sizeof *{self._names[v]}, {v.size}, stdout) != {v.size}) return 2;"
            for v in self._graph.outputs
        ]
        return [*lines, "    return 0;", "}", "#endif", ""]


def _literals(array: np.ndarray, kind: str) -> Iterator[str]:
    """Numbers as C has them, some to a line."""
    real = kind in ("float", "double")
    plain = not real or bool(np.isfinite(array).all())
    form = {"float": "%#.9gf", "double": "%#.17g", "int64_t": "%dLL"}.get(kind, "%d")
    for i in range(0, array.size, _LINE):
        part = array[i : i + _LINE].tolist()
        yield ", ".join([form] * len(part)) % tuple(part) if plain else ", ".join(map(places.number, part))


def _identifiers(names: list[str]) -> list[str]:
    """Names of C for names of tensors, each different."""
    found: list[str] = []
    for name in names:
        made = re.sub(r"\W", "_", name, flags=re.ASCII)
        made = made if made[:1].isalpha() else f"t{made}"
        while made in found or re.fullmatch(
            r"[vcir]\d+|memory|scratch|weights|times|file|held|argc|argv|sum|best|step|[giloqw]|int|float|double|long",
            made,
        ):
            made += "_"
        found.append(made)
    return found


def _kernels(wanted: list[str]) -> str:
    """The sections of kernels.c that are wanted, and what these need, in the file's order."""
    sections: dict[str, tuple[list[str], str]] = {}
    for part in re.split(r"^//: ", KERNELS.read_text(), flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        name, *needs = head.split()
        sections[name] = (needs, body)
    found: set[str] = set()
    queue = list(wanted)
    while queue:
        name = queue.pop()
        if name not in found:
            found.add(name)
            queue += sections[name][0]
    return "\n".join(body.rstrip() + "\n" for name, (_, body) in sections.items() if name in found)
