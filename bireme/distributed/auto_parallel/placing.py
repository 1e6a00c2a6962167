"""From placements to layouts of the engine and back, and values that are parts of a reduction.

A tensor with a `Partial` placement holds its parts stacked: one more dimension in front for each such axis of the mesh,
divided by it. Its value is the reduction of them, pending until somebody uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bireme import ops
from bireme.autograd import PyLayer
from bireme.core.base import errors
from bireme.core.base.mesh import Layout, Reader
from bireme.core.graph.graph import Value
from bireme.core.tensor import on_mesh
from bireme.core.tensor.tensor import Tensor, read, wrap
from bireme.distributed.auto_parallel.placement_type import Partial, Placement, ReduceType, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh
from bireme.ops.manipulation.layout import lay_out

REDUCE: dict[ReduceType, Callable[..., Tensor]] = {
    ReduceType.kRedSum: ops.sum,
    ReduceType.kRedMax: ops.max,
    ReduceType.kRedMin: ops.min,
    ReduceType.kRedProd: ops.prod,
    ReduceType.kRedAvg: ops.mean,
    ReduceType.kRedAny: ops.any,
    ReduceType.kRedAll: ops.all,
}
# what the other processes have where one has the value; where it is not here, all have it
_NEUTRAL = {ReduceType.kRedSum: 0, ReduceType.kRedProd: 1}


class Parts(NamedTuple):
    """The parts of a tensor that is their reduction, and its value: once it has another one, they mean nothing."""

    value: Value
    stacked: Tensor
    mesh: ProcessMesh
    placements: list[Placement]


def check(where: str, mesh: Any, placements: Any, ndim: int) -> list[Placement]:
    """The placements of a tensor with so many axes, one for each axis of the mesh."""
    check_mesh(f"{where}(mesh)", mesh)
    if not isinstance(placements, (list, tuple)) or not all(isinstance(p, Placement) for p in placements):
        raise errors.bad(f"{where}(placements)", "a list of placements", placements, kind=errors.ArgumentTypeError)
    if len(placements) > mesh.ndim:
        raise errors.bad(f"{where}(placements)", f"at most one per axis of the mesh, {mesh.ndim}", list(placements))
    found: list[Placement] = [*placements, *[Replicate()] * (mesh.ndim - len(placements))]
    for i, p in enumerate(found):
        if isinstance(p, Shard):
            if not -ndim <= p.get_dim() < ndim:
                raise errors.bad(f"{where}(placements)", f"axes of a tensor with {ndim} axes", list(placements))
            found[i] = p if p.get_dim() >= 0 else Shard(p.get_dim() + ndim)
    return found


def layout(where: str, mesh: ProcessMesh, placements: Sequence[Placement], ndim: int, stacked: bool = False) -> Layout:
    """The layout of a tensor; `stacked`: with one more dimension in front for each axis of the mesh that has parts."""
    dims: list[tuple[str, ...]] = [()] * ndim
    front = []
    for axis, p in enumerate(placements):
        if isinstance(p, Shard):
            dims[p.get_dim()] += (str(axis),)
        elif p.is_partial() and stacked:
            front.append((str(axis),))
    return Layout(mesh._devices(where), (*front, *dims))


def with_layout(t: Tensor, to: Layout) -> Tensor:
    """A tensor with a layout on the devices that it is on; gradients pass through."""
    return lay_out(t, layout=to)


def parts_of(t: Tensor) -> Parts | None:
    """The parts that a tensor is the reduction of, if it is one."""
    found = t.__dict__.get("_parts")
    return found if found is not None and found.value is read(t) else None


def reduced(stacked: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """The tensor that stacked parts are those of."""
    t = stacked
    for p in placements:
        if isinstance(p, Partial):
            kind = p.reduce_type()
            t = REDUCE[kind](t, axis=0) if t.dtype.kind != "b" or kind > 4 else _of_bools(t, kind)
    if t.dtype != stacked.dtype:
        t = t.astype(stacked.dtype)
    made = with_layout(t, layout("reshard", mesh, placements, t.ndim))
    made.__dict__["_parts"] = Parts(read(made), stacked, mesh, list(placements))
    return made


def _of_bools(t: Tensor, kind: ReduceType) -> Tensor:
    return ops.all(t, axis=0) if kind in (ReduceType.kRedMin, ReduceType.kRedProd) else ops.any(t, axis=0)


def split_up(t: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """A tensor as parts of a reduction: the first process along an axis has it, the others what changes nothing."""
    front = 0
    for i in reversed(range(mesh.ndim)):
        p = placements[i]
        if isinstance(p, Partial):
            n, kind = mesh.shape[i], p.reduce_type()
            if kind in _NEUTRAL:
                first = ops.to_tensor(np.arange(n).reshape([n] + [1] * t.ndim) == 0)
                t = ops.where(first, t.unsqueeze(0), ops.full_like(t, _NEUTRAL[kind]))
            else:
                t = t.unsqueeze(0).expand([n, *t.shape])
            front += 1
    full = layout("reshard", mesh, placements, t.ndim - front, stacked=True)
    return reduced(with_layout(t, full), mesh, placements)


def with_gradient(t: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """A tensor whose gradient lies so; parts of a reduction are reduced, as gradients are whole tensors."""
    to = layout("grad_dist_attrs", mesh, check("grad_dist_attrs", mesh, placements, t.ndim), t.ndim)
    return _PlacedGradient.apply(t, to)


class _PlacedGradient(PyLayer):
    @staticmethod
    def forward(ctx: Any, x: Tensor, to: Layout) -> Tensor:
        ctx.to = to
        made = ops.assign(x)
        parts = parts_of(x)
        if parts is not None:
            made.__dict__["_parts"] = parts._replace(value=read(made))
        return made

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return with_layout(g, ctx.to)


# ------------------------------------------------------------ what Tensor asks


def distribution(t: Tensor) -> tuple[ProcessMesh, list[Placement]]:
    """Mesh and placements of a tensor on a mesh."""
    parts = parts_of(t)
    if parts is not None:
        return parts.mesh, list(parts.placements)
    found = on_mesh.layout(t)
    devices = found.devices
    mesh = ProcessMesh(np.array(devices.ranks).reshape(devices.shape), list(devices.names))
    divides = {int(axis): dim for dim, axes in enumerate(found.dims) for axis in axes}
    return mesh, [Shard(divides[axis]) if axis in divides else Replicate() for axis in range(mesh.ndim)]


def local_value(t: Tensor) -> Tensor:
    """What this process has of a tensor on a mesh; of the parts of a reduction, its own."""
    parts = parts_of(t)
    if parts is None:
        return on_mesh.local(on_mesh.part(t), t._sig, t.stop_gradient)
    own = on_mesh.part(parts.stacked)
    return on_mesh.local(own.reshape(own.shape[own.ndim - t.ndim :]), t._sig, t.stop_gradient)


def told(t: Tensor) -> str:
    """Mesh and placements as they are printed."""
    mesh, placements = distribution(t)
    names, ids = ",".join(mesh.dim_names), ",".join(map(str, mesh.process_ids))
    where = f"process_mesh={{shape: {mesh.shape}, process_ids: [{ids}], dim_names: [{names}]}}"
    return f"{where}, placements={placements}, GlobalDenseTensor="


Reader.placements, Reader.local, Reader.told = distribution, local_value, told


def put(where: str, t: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """The numbers of a tensor of this process alone, on a mesh: a new tensor without history."""
    plain = [Replicate() if p.is_partial() else p for p in placements]
    made = wrap(on_mesh.put(t, layout(where, mesh, plain, t.ndim)), t.stop_gradient)
    return split_up(made, mesh, placements) if any(p.is_partial() for p in placements) else made
