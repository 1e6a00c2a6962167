"""Traced graphs on disk: what an earlier process has traced and lowered is read instead of being traced again.

jax's cache keeps programs under the text that they were compiled from, and making that text of a training step takes
longer than reading its program. So the text of a large graph is kept too, under a name that is a digest of all that it
depends on: the calls of the graph, the source of this package, versions, settings and the machine. What is compiled is
always the text that came back from its bytes, so a program is the same whether it was traced in this process or in an
earlier one.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
from jax import export

from bireme.core.base import flags, registry, workers
from bireme.core.base.device import Device
from bireme.core.base.dtype import DType
from bireme.core.graph.bound import Bound, GradBound
from bireme.core.graph.graph import Graph, Sig
from bireme.core.xla_exec import compile_cache, private

MIN_CALLS = 64  # calls: fewer are traced in some 20 ms
HEAD = b"a graph traced by bireme, 2\n"
_BEGAN = time.time()
_PLAIN = (bool, int, float, complex, str, type(None))


class NoStableName(Exception):
    """A part of a graph has no name that is the same in another process."""


def lower(
    jitted: Any, donated: tuple, args: tuple, name: str | None, platform: str, options_of: Callable[[Any], dict]
) -> tuple[Any, dict]:
    """A function lowered for arguments of these shapes, and the compiler's options for it; by its name on disk, if it
    has one.
    """
    if name is None:
        traced = jitted.trace(*args)
        return traced.lower(), options_of(traced.jaxpr)
    known = _read(name)
    if known is None:
        known = options_of(jitted.trace(*args).jaxpr), _text_of(jitted, args, platform)
        _write(name, *known)
    options, text = known
    if not text:
        return jitted.trace(*args).lower(), options
    return jax.jit(export.deserialize(bytearray(text)).call, donate_argnums=donated).trace(*args).lower(), options


def _text_of(jitted: Any, args: tuple, platform: str) -> bytes:
    """The lowered function as bytes; none where it calls what jax does not write down."""
    try:
        return bytes(export.export(jitted, platforms=(platform,))(*args).serialize())
    except (ValueError, NotImplementedError):  # what jax raises for a custom call without guarantees
        return b""


# ------------------------------------------------------------ files


def _read(name: str) -> tuple[dict, bytes] | None:
    try:
        with compile_cache.opened(whole=False) as root:
            if root is None:
                return None
            path = root / compile_cache.TRACED / name
            found = private.read(path)
            with contextlib.suppress(OSError):
                os.utime(path)  # used last are kept longest
    except OSError:
        return None
    head, digest, rest = found[: len(HEAD)], found[len(HEAD) :][:32], found[len(HEAD) + 32 :]
    if head != HEAD or _digest(name, rest) != digest:
        return None  # half written, of another name, or by another version: it is traced, and written again
    options, _, text = rest.partition(b"\n")
    return json.loads(options), text


def is_stored(name: str) -> bool:
    """Whether there is a whole file for it."""
    return _read(name) is not None


def _digest(name: str, rest: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\n" + rest).digest()


def _write(name: str, options: dict, text: bytes) -> None:
    rest, part = json.dumps(options).encode() + b"\n" + text, None
    with compile_cache.opened() as root:
        if root is None:
            return
        folder = root / compile_cache.TRACED
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            _make_room(folder)
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                part = Path(file.name)
                file.write(HEAD + _digest(name, rest) + rest)
            part.replace(folder / name)
        except OSError:  # a full disk is no reason to stop: the next process traces it
            with contextlib.suppress(OSError):
                if part is not None:
                    part.unlink(missing_ok=True)


def _make_room(folder: Path) -> None:
    """Drop what was used longest ago, where there are too many files or they are too large."""
    files = [(info.st_mtime_ns, info.st_size, entry.path) for entry in os.scandir(folder) for info in (entry.stat(),)]
    left, room = compile_cache.MOST, flags.compile_cache_bytes.value // 8
    for _, size, path in sorted(files, reverse=True):
        left, room = left - 1, room - size
        if left <= 0 or room <= 0:
            Path(path).unlink(missing_ok=True)


# ------------------------------------------------------------ names


def name(
    graph: Graph, live: tuple[int, ...], donate: tuple[int, ...], device: Device, part: str = "whole"
) -> str | None:
    """The digest of a graph or a part and of all that its text depends on; None where it is small, has no name, or
    nothing is kept.
    """
    if len(graph.nodes) < MIN_CALLS or not _writable() or not compile_cache.at_hand():
        return None
    bounds: dict[Any, str] = {}
    try:
        parts = [*_package(), *surroundings(device), part, repr(live), repr(donate)]
        for node in graph.nodes:
            told = bounds.get(node.bound)
            if told is None:
                told = bounds[node.bound] = _call(node.bound)
            parts.append(f"{told} {_value(node.key[1:])}")
    except (NoStableName, OSError):  # OSError: the source cannot be read
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@functools.cache
def _writable() -> bool:
    """Whether jax can write programs down: what it does that with may be missing where nothing can be installed."""
    return importlib.util.find_spec("flatbuffers") is not None


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
    digest, root = hashlib.sha256(), Path(__file__).parents[2]
    for path in sorted(root.rglob("*.py")):
        if path.stat().st_ctime > _BEGAN:  # edited or replaced since: what runs is no longer what it says
            raise NoStableName
        digest.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return (
        digest.hexdigest(),
        jax.__version__,
        jaxlib.__version__,
        np.__version__,
        platform.machine(),
        str(workers.processors()),
    )


def surroundings(device: Device) -> list[str]:
    """Where it runs, and what lowering may look at; not where programs are kept: that changes while another compiles."""
    values = jax.config.values  # made anew whenever it is asked for
    seen = sorted(values.keys() - compile_cache.SETTINGS.keys())
    of_jax = [(option, getattr(jax.config, option, values[option])) for option in seen]
    ours = list(flags.get_flags(flags.known()).items())
    at = [device.platform, device.jax.device_kind, device.jax.client.platform_version]
    return [*at, *[f"{option} {value!r}" for option, value in of_jax + ours if value.__class__ in _PLAIN]]
