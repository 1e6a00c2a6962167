"""Tensors on a mesh: they are made there, change their placements, and come back; layers with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bireme.autograd import PyLayer
from bireme.core.base import errors
from bireme.core.tensor import on_mesh
from bireme.core.tensor.grad_mode import no_grad
from bireme.core.tensor.parameter import Parameter
from bireme.core.tensor.tensor import Tensor, read, store, wrap
from bireme.distributed.auto_parallel import placing
from bireme.distributed.auto_parallel.placement_type import Partial, Placement, Replicate, Shard
from bireme.distributed.auto_parallel.process_mesh import ProcessMesh, check_mesh
from bireme.distributed.communication.group import check_tensor
from bireme.nn.layer import Layer
from bireme.ops import assign, concat, stack, to_tensor

__all__ = [
    "dtensor_from_fn", "dtensor_from_local", "dtensor_to_local", "reshard", "shard_layer", "shard_tensor",
    "unshard_dtensor",
]  # fmt: skip


def adopt(tensor: Tensor, made: Tensor) -> Tensor:
    """Let a tensor that others hold, as a parameter, lie where another does."""
    store(tensor, read(made))
    if (parts := made.__dict__.get("_parts")) is not None:
        tensor.__dict__["_parts"] = parts
    return tensor


def shard_tensor(
    data: Any,
    mesh: ProcessMesh,
    placements: Sequence[Placement],
    dtype: Any = None,
    place: Any = None,
    stop_gradient: bool | None = None,
) -> Tensor:
    """Return a tensor that lies on a mesh. Every process gives all of the data, and keeps its part.

    Args:
        data: A tensor, or what ``to_tensor`` takes, the same in all processes. A parameter is returned itself.
        mesh: The mesh.
        placements: How the tensor lies on each axis of the mesh.
        dtype: Data type. Default: None, that of the data.
        place: Device. Default: None, the current one.
        stop_gradient: Whether gradients stop at the tensor. Default: None, as at the data.

    Returns:
        The tensor. Its shape is that of the whole.

    Raises:
        ValueError: If an axis to divide is out of range, or the mesh has devices that are not there.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> x = bireme.distributed.shard_tensor([[1.0, 2.0]], mesh, [bireme.distributed.Shard(0)])
        >>> x.tolist(), x.placements, x.is_dist()
        ([[1.0, 2.0]], [Shard(dim=0)], True)
    """
    keeps = isinstance(data, Parameter) and dtype is None
    if not isinstance(data, Tensor):
        source = to_tensor(data, dtype=dtype, place=place)
    else:
        source = data if dtype is None else data.detach().astype(dtype)
    found = placing.check("shard_tensor", mesh, placements, source.ndim)
    with no_grad():
        if on_mesh.is_there(source):
            made = reshard(source, mesh, found).detach()
        else:
            made = placing.put("shard_tensor", source, mesh, found)
    made = adopt(data, made) if keeps else made
    if stop_gradient is not None:
        made.stop_gradient = stop_gradient
    elif isinstance(data, Tensor):
        made.stop_gradient = data.stop_gradient
    return made


def dtensor_from_fn(
    fn: Callable, mesh: ProcessMesh, placements: Sequence[Placement], *args: Any, **kwargs: Any
) -> Tensor:
    """Return the tensor that a function makes, on a mesh.

    Args:
        fn: The function, as ``bireme.ones``.
        mesh: The mesh.
        placements: How the tensor lies on each axis of the mesh.
        *args: Arguments of the function.
        **kwargs: Keyword arguments of the function.

    Returns:
        The tensor.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> bireme.distributed.dtensor_from_fn(bireme.ones, mesh, [bireme.distributed.Replicate()], shape=[2]).tolist()
        [1.0, 1.0]
    """
    errors.check_function("dtensor_from_fn(fn)", fn)
    return shard_tensor(fn(*args, **kwargs), mesh, placements)


def reshard(dist_tensor: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """Return a tensor with other placements, or on another mesh; gradients pass through.

    Args:
        dist_tensor: The tensor. One that is on no mesh is taken to be the same in all processes.
        mesh: The mesh.
        placements: How the result lies on each axis of the mesh.

    Returns:
        The tensor.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> x = bireme.distributed.shard_tensor([1.0, 2.0], mesh, [bireme.distributed.Shard(0)])
        >>> bireme.distributed.reshard(x, mesh, [bireme.distributed.Replicate()]).placements
        [Replicate()]
    """
    check_tensor("reshard(dist_tensor)", dist_tensor)
    found = placing.check("reshard", mesh, placements, dist_tensor.ndim)
    plain: list[Placement] = [Replicate() if p.is_partial() else p for p in found]
    to = placing.layout("reshard", mesh, plain, dist_tensor.ndim)
    if dist_tensor._value.device is not to.devices:
        dist_tensor = _Moved.apply(dist_tensor, to)
    if not any(p.is_partial() for p in found):
        return placing.with_layout(dist_tensor, to)
    held = placing.parts_of(dist_tensor)
    if held is not None and held.placements == found and held.mesh == mesh:
        return placing.reduced(held.stacked, mesh, found)
    return placing.split_up(dist_tensor, mesh, found)


class _Moved(PyLayer):
    """A tensor on other devices than before: from no mesh, or from another one; gradients go the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, to: Any) -> Tensor:
        before = x._value.device
        ctx.back = before
        ctx.layout = on_mesh.layout(x) if before.several else None
        return wrap(on_mesh.put(x, to), x.stop_gradient)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        if ctx.layout is None:
            return g._to_device(ctx.back)
        return wrap(on_mesh.put(g, ctx.layout))


def unshard_dtensor(dist_tensor: Tensor) -> Tensor:
    """Return the whole tensor, on no mesh. All processes of the mesh call it.

    Args:
        dist_tensor: The tensor.

    Returns:
        The tensor.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> x = bireme.distributed.shard_tensor([1.0, 2.0], mesh, [bireme.distributed.Shard(0)])
        >>> bireme.distributed.unshard_dtensor(x).is_dist()
        False
    """
    check_tensor("unshard_dtensor(dist_tensor)", dist_tensor)
    if not on_mesh.is_there(dist_tensor):
        return assign(dist_tensor)
    devices: Any = dist_tensor._value.device
    with no_grad():
        whole = placing.with_layout(dist_tensor, devices.whole())
    return on_mesh.local(whole._host(), whole._sig, dist_tensor.stop_gradient)


def mesh_of(where: str, tensors: Sequence[Any], mesh: ProcessMesh | None) -> ProcessMesh | None:
    """The mesh that the tensors of a call lie on, unless it names one."""
    if mesh is not None:
        check_mesh(where, mesh)
        return mesh
    return next((t.process_mesh for t in tensors if isinstance(t, Tensor) and on_mesh.is_there(t)), None)


def dtensor_from_local(local_tensor: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """Return the tensor whose parts the processes of a mesh have; gradients pass through.

    Args:
        local_tensor: The part of this process, of the same shape in all. Where one process has all devices, each of
            them has this part.
        mesh: The mesh.
        placements: How the result lies on each axis of the mesh. A divided axis is as many times as long as the part's.

    Returns:
        The tensor.

    Examples:
        >>> from bireme.distributed.auto_parallel.tensors import dtensor_from_local
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> dtensor_from_local(bireme.ones([2]), mesh, [bireme.distributed.Shard(0)]).shape
        [2]
    """
    check_tensor("dtensor_from_local(local_tensor)", local_tensor)
    found = placing.check("dtensor_from_local", mesh, placements, local_tensor.ndim)
    if mesh._devices("dtensor_from_local(mesh)").channel is None:
        return assembled([local_tensor] * mesh.size, mesh, found)
    return _FromLocal.apply(local_tensor, mesh, found)


def dtensor_to_local(dist_tensor: Tensor, mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """Return the part of a tensor that this process has; gradients pass through.

    Args:
        dist_tensor: The tensor.
        mesh: Its mesh.
        placements: The placements by which parts are taken.

    Returns:
        The part, on no mesh. Where one process has all devices, that of the first.

    Examples:
        >>> from bireme.distributed.auto_parallel.tensors import dtensor_to_local
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> x = bireme.distributed.shard_tensor([1.0, 2.0], mesh, [bireme.distributed.Shard(0)])
        >>> dtensor_to_local(x, mesh, [bireme.distributed.Shard(0)]).tolist()
        [1.0, 2.0]
    """
    check_tensor("dtensor_to_local(dist_tensor)", dist_tensor)
    found = placing.check("dtensor_to_local", mesh, placements, dist_tensor.ndim)
    return _ToLocal.apply(reshard(dist_tensor, mesh, found), mesh, found)


class _FromLocal(PyLayer):
    """The parts of several processes as one tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mesh: ProcessMesh, placements: list[Placement]) -> Tensor:
        ctx.mesh, ctx.placements = mesh, placements
        return joined(x, mesh, placements)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        kept = [Replicate() if p.is_partial() else p for p in ctx.placements]
        return dtensor_to_local(g, ctx.mesh, kept).detach()


class _ToLocal(PyLayer):
    """What this process has of a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mesh: ProcessMesh, placements: list[Placement]) -> Tensor:
        ctx.mesh, ctx.placements, ctx.shape = mesh, placements, x.shape
        return placing.local_value(x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        # what every process has whole has as many gradients: they are parts of the sum
        parts = [Partial() if p.is_replicated() else Replicate() if p.is_partial() else p for p in ctx.placements]
        made = joined(g, ctx.mesh, parts, ctx.shape)
        return reshard(made, ctx.mesh, [Replicate() if p.is_partial() else p for p in parts])


def joined(
    local: Tensor, mesh: ProcessMesh, placements: Sequence[Placement], shape: Sequence[int] | None = None
) -> Tensor:
    """The tensor of the parts that processes have; `shape` where it does not follow from one part."""
    devices = mesh._devices("dtensor_from_local(mesh)")
    whole = list(local.shape) if shape is None else list(shape)
    if shape is None:
        for n, p in zip(mesh.shape, placements):
            if isinstance(p, Shard):
                whole[p.get_dim()] *= n
    lengths = [n for n, p in zip(mesh.shape, placements) if p.is_partial()]
    full = placing.layout("dtensor_from_local", mesh, placements, local.ndim, stacked=True)
    part = local._host()[(None,) * len(lengths)]
    stacked = (*lengths, *whole)
    sizes = full.sharding.shard_shape(full.padded(stacked))
    part = np.pad(part, [(0, n - m) for n, m in zip(sizes, part.shape)])
    made = wrap(on_mesh.joined([(d, part) for d in devices.own], stacked, local, full), local.stop_gradient)
    return placing.reduced(made, mesh, placements) if lengths else made


def assembled(parts: Sequence[Tensor], mesh: ProcessMesh, placements: Sequence[Placement]) -> Tensor:
    """The tensor of the parts of all devices, which one process has: joined by recorded calls, axis by axis."""
    devices = mesh._devices("dtensor_from_local(mesh)")
    grid = np.empty(len(parts), object)
    grid[:] = [t if t._value.device is devices else _Moved.apply(t, devices.whole()) for t in parts]
    grid = grid.reshape(mesh.shape)
    front = 0
    for p in reversed(placements):
        rows = grid.reshape(-1, grid.shape[-1])
        made = np.empty(len(rows), object)
        for i, row in enumerate(rows):
            if isinstance(p, Shard):
                made[i] = concat(list(row), axis=p.get_dim() + front)
            else:
                made[i] = stack(list(row)) if p.is_partial() else row[0]
        front += p.is_partial()
        grid = made.reshape(grid.shape[:-1])
    whole = grid.item()
    to = placing.layout("dtensor_from_local", mesh, placements, whole.ndim - front, stacked=True)
    whole = placing.with_layout(whole, to)
    return placing.reduced(whole, mesh, placements) if front else whole


def shard_layer(
    layer: Layer,
    process_mesh: ProcessMesh,
    shard_fn: Callable | None = None,
    input_fn: Callable | None = None,
    output_fn: Callable | None = None,
) -> Layer:
    """Put the parameters of a layer on a mesh.

    Args:
        layer: The layer.
        process_mesh: The mesh.
        shard_fn: Called with name, sublayer and mesh for each sublayer, to place its parameters. Default: None. What it
            leaves is whole in every process.
        input_fn: Called with the inputs and the mesh before ``forward``; returns the inputs. Default: None.
        output_fn: Called with the outputs and the mesh after ``forward``; returns the outputs. Default: None.

    Returns:
        The layer itself.

    Examples:
        >>> mesh = bireme.distributed.ProcessMesh([0], dim_names=["x"])
        >>> layer = bireme.distributed.shard_layer(bireme.nn.Linear(2, 3), mesh)
        >>> layer.weight.placements
        [Replicate()]
    """
    if not isinstance(layer, Layer):
        raise errors.bad("shard_layer(layer)", "a Layer", layer, kind=errors.MissingAttributeError)
    check_mesh("shard_layer(process_mesh)", process_mesh)
    for name, sublayer in layer.named_sublayers(include_self=True):
        if shard_fn is not None:
            shard_fn(name, sublayer, process_mesh)
    for tensor in [*layer.parameters(), *layer.buffers()]:
        if not on_mesh.is_there(tensor):
            adopt(tensor, shard_tensor(tensor.detach(), process_mesh, []))
    if input_fn is not None:
        layer.register_forward_pre_hook(lambda _, inputs: input_fn(inputs, process_mesh))
    if output_fn is not None:
        layer.register_forward_post_hook(lambda _, inputs, outputs: output_fn(outputs, process_mesh))
    return layer
