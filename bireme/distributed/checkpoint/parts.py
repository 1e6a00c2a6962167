"""Between tensors and pieces: which blocks of a logical tensor this process has, and how loaded ones go back."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bireme.core.base import errors
from bireme.core.processes.collectives import Call
from bireme.core.record import flush
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor, Value, read, store, wrap
from bireme.distributed.auto_parallel import placing, tensors
from bireme.distributed.checkpoint import boxes
from bireme.distributed.checkpoint.boxes import Box
from bireme.distributed.checkpoint.index import Version
from bireme.distributed.checkpoint.sharded_weight import ShardedWeight, part_of


class Held(NamedTuple):
    """A block of a tensor that this process has: of flattened ones, the numbers in ``flat``."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    flat: tuple[int, int] | None
    array: Any  # of NumPy or of jax; nobody changes it


def lies_on_mesh(x: Any) -> bool:
    """Whether it is a tensor whose placements say which parts this process has."""
    return isinstance(x, Tensor) and on_mesh.is_there(x)


def whole_shape(name: str, x: Any) -> tuple[int, ...]:
    """The shape of the logical tensor."""
    return tuple(x.shape) if lies_on_mesh(x) else part_of(name, x).global_shape


def held(name: str, x: Any, call: Call) -> list[Held]:
    """The blocks that this process has of a tensor, as it is now: what training changes later is not in them.

    An error in computing it is kept in the call, for the other processes to hear of it.
    """
    try:
        if lies_on_mesh(x):
            return [Held(offset, tuple(array.shape), None, array) for offset, array in on_mesh.parts(x)]
        part = part_of(name, x)
        array = flush.pin(read(part.local_tensor))
    except errors.TELLING as e:
        call.failed = e
        return []
    flat = _range(part)
    if flat is not None:
        array = array.reshape(-1)[: flat[1] - flat[0]]
    return [Held(part.global_offset, part.local_shape, flat, array)]


def _range(part: ShardedWeight) -> tuple[int, int] | None:
    """Which numbers of the flattened block a part has; the rest of it, if it is longer, is padding."""
    if not part.is_flattened:
        return None
    count = math.prod(part.local_shape)
    start, stop, _ = (part.flattened_range or slice(None)).indices(count)
    return start, min(max(start, stop), start + part.local_tensor.size)


def check(name: str, x: Any, version: Version) -> None:
    """Check that a version has all that this process needs of a tensor."""
    if lies_on_mesh(x):
        for offset, array in on_mesh.parts(x):
            version.check(name, Box(offset, tuple(array.shape)))
        return
    part = part_of(name, x)
    flat = _range(part)
    inner = [Box((0,) * len(part.local_shape), part.local_shape)]
    for box in inner if flat is None else boxes.of_range(part.local_shape, *flat):
        version.check(name, boxes.moved(box, part.global_offset))


def fill(name: str, x: Any, version: Version) -> None:
    """Give a tensor the numbers that a version has for its parts."""
    if lies_on_mesh(x):
        parts = placing.parts_of(x)
        on_mesh.refill(x, lambda offset, out: version.read(name, offset, out))
        if parts is not None:  # they were parts of a reduction, and are again
            made = wrap(read(x), x.stop_gradient)
            tensors.adopt(x, tensors.reshard(made, parts.mesh, parts.placements))
        return
    part = part_of(name, x)
    target, flat = part.local_tensor, _range(part)
    if flat is None:
        out = np.empty(part.local_shape, target.dtype.np)
        version.read(name, part.global_offset, out)
    else:
        out = np.zeros(target.size, target.dtype.np)
        for box in boxes.of_range(part.local_shape, *flat):
            moved = boxes.moved(box, part.global_offset)
            version.read(name, moved.offset, out[box.at : box.at + box.size].reshape(box.shape))
    out = out.reshape(target.shape)
    v = read(target)
    if v.device.is_cpu:
        store(target, Value(v.sig, out, v.device))  # nobody else has the array: no copy
    else:
        target.set_value(out)
