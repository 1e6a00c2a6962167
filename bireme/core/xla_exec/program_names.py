"""Names of programs on disk: the digest of all that a program depends on, the same in every process.

That is the calls of its graph, the source of this package, versions, settings and the machine. Nothing has to be traced
for it: reading a program takes less time than making the text that it was compiled from.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import time
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np

from bireme.core.base import flags, registry, turns, workers
from bireme.core.base.device import Device
from bireme.core.base.dtype import DType
from bireme.core.graph.bound import Bound, GradBound
from bireme.core.graph.graph import Graph, Sig
from bireme.core.graph.pieces import Piece
from bireme.core.xla_exec import compile_cache

_BEGAN = time.time()
_PLAIN = (bool, int, float, complex, str, type(None))
FILES = 300  # of the package that are read in one go, where that is done in turns


class NoStableName(Exception):
    """A part of a graph has no name that is the same in another process."""


class Names:
    """Names of what runs on a device under the settings of now; None for what has none, or where nothing is kept."""

    def __init__(self, device: Device):
        self._around: str | None = None
        self._calls: dict[Any, str] = {}
        if compile_cache.at_hand():
            try:
                self._around = _digest([*_package(), *surroundings(device)])
            except (NoStableName, OSError):  # OSError: the source cannot be read
                return

    def graph(self, graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], part: str = "whole") -> str | None:
        """Of a graph, or of a part of it."""
        told = f"{part} {live} {donate}"
        return self._name(told, [(node.bound, node.key[1:]) for node in graph.nodes])

    def piece(self, piece: Piece, short: bool) -> str | None:
        """Of a piece, whatever graph it comes from; `short`: see `xla.lower`."""
        made = {i: place for place, i in enumerate(piece.made)}
        told = f"{'piece' if short else 'large piece'} {[made[i] for i in piece.gives]} {piece.donate} {piece.turned}"
        return self._name(told, [(bound, rest) for bound, *rest in piece.wiring])

    def text(self, lowered: Any, options: dict[str, Any], args: tuple) -> str | None:
        """Of what has no other name, once it is lowered for such arguments: those that are not read are not in the text."""
        if self._around is None:
            return None
        text = lowered.as_text()
        if "@xla_ffi_python" in text or "@xla_python" in text:
            return None  # which function it calls back is a number that another process gives to another one
        return _digest([self._around, "text", repr(sorted(options.items())), repr(args), text])

    def _name(self, told: str, calls: list[tuple[Any, Any]]) -> str | None:
        if self._around is None:
            return None
        parts = [self._around, told]
        try:
            for bound, rest in calls:
                call = self._calls.get(bound)
                if call is None:
                    call = self._calls[bound] = _call(bound)
                parts.append(f"{call} {_value(tuple(rest))}")
        except NoStableName:
            return None
        return _digest(parts)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _call(bound: Any) -> str:
    if bound.__class__ is GradBound:
        return f"grad {_value((bound.given, bound.needs, bound.sigs, bound.outs))} of {_call(bound.base)}"
    if bound.__class__ is not Bound or not _ours(bound.op):
        raise NoStableName
    return f"{bound.op.name} {_value((bound.layout, bound.attrs))}"


def _value(x: Any) -> str:
    if x.__class__ is int or x.__class__ is Sig:
        return repr(x)
    if x.__class__ in _PLAIN or isinstance(x, np.generic):
        return f"{type(x).__name__} {x!r}"
    if x.__class__ is tuple:
        return f"({', '.join(map(_value, x))})"
    if isinstance(x, DType):
        return x.name
    raise NoStableName


def is_ours(bound: Any) -> bool:
    """Whether a call is of an operator of this package."""
    while bound.__class__ is GradBound:
        bound = bound.base
    return bound.__class__ is Bound and _ours(bound.op)


@functools.cache
def _ours(op: Any) -> bool:
    """Whether an operator is what this package's source says: another's may be a different one tomorrow."""
    rules = [op.body, op.grad_rule, *op.lowerings.values(), *op.grad_lowerings.values()]
    return registry.OPS.get(op.name) is op and all(
        r is None or getattr(r, "__module__", "").startswith("bireme.") for r in rules
    )


@functools.cache
def _package() -> tuple[str, ...]:
    """The source of this package and the versions of what it stands on."""
    digest, root, read = hashlib.sha256(), str(Path(__file__).parents[2]), 0
    for folder, folders, files in os.walk(
        root
    ):  # a thousand files: a `Path` for each would take as long as to read them
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), "rb") as file:
                    state = os.fstat(file.fileno())
                    if state.st_ctime > _BEGAN:  # edited or replaced since: what runs is no longer what it says
                        raise NoStableName
                    digest.update(f"{folder[len(root) :]}/{name} {state.st_size}\n".encode() + file.read())
                read += 1
                if read % FILES == 0:
                    turns.pause()
    return (
        digest.hexdigest(),
        jax.__version__,
        jaxlib.__version__,
        np.__version__,
        _processor(),
        str(workers.processors()),
    )


@functools.cache
def _processor() -> str:
    """What kind of processor programs for the host are made for: one with other instructions could not run them."""
    try:
        with open("/proc/cpuinfo") as file:
            told = {line for line in file if line.startswith(("flags", "Features", "model name", "CPU part"))}
    except OSError:
        told = {platform.processor()}
    return f"{platform.machine()} {sorted(told)}"


def surroundings(device: Device) -> list[str]:
    """Where it runs, and what lowering and the compiler may look at; not where jax keeps programs of its own."""
    of_jax = [
        (option, getattr(jax.config, option, value))
        for option, value in sorted(jax.config.values.items())
        if "_cache" not in option
    ]
    ours = list(flags.get_flags(flags.known()).items())
    at = [device.platform, device.jax.device_kind, device.jax.client.platform_version]
    at += [f"{name}={os.environ.get(name)}" for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    return [*at, *[f"{option} {value!r}" for option, value in of_jax + ours if value.__class__ in _PLAIN]]
