"""Tensors on a mesh: values are put there, divided by a layout, and parts of them are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bireme.core.base import device as devices
from bireme.core.base import mesh
from bireme.core.base.mesh import Layout, layout_of
from bireme.core.graph.graph import Sig, Value, sig_of
from bireme.core.record import flush
from bireme.core.run.mesh_run import Rehearsal
from bireme.core.tensor.tensor import Tensor, read, store, wrap


def is_there(t: Tensor) -> bool:
    """Whether a tensor lies on a mesh; asks nothing of what is pending."""
    return t._value.device.several


def put(t: Tensor, layout: Layout) -> Value:
    """The numbers of a tensor that this process has whole, on the devices of a layout."""
    v = read(t)
    if layout.devices.virtual:
        if v.device.several:
            Rehearsal.moved.append(v.sig.nbytes)
        made = Value(v.sig, layout.abstract(v.sig.shape, v.sig.dtype.np), layout.devices)
        made.bounds = (0, 0) if v.sig.dtype.kind == "i" else None  # in range, as those of real batches are
        return made
    host = t._host()
    made = Value(v.sig, mesh.place(host, layout), layout.devices)
    made.bounds = v.bounds
    if made.bounds is None and v.sig.dtype.kind == "i" and host.size:
        made.bounds = (int(host.min()), int(host.max()))  # while it is at hand: what is looked up by it checks it
    return made


def joined(parts: Sequence[tuple[Any, np.ndarray]], shape: tuple[int, ...], like: Tensor, layout: Layout) -> Value:
    """A value of parts that the devices of this process have; others have theirs."""
    sig = sig_of(shape, like.dtype)
    if layout.devices.virtual:
        return Value(sig, layout.abstract(shape, sig.dtype.np), layout.devices)
    return Value(sig, mesh.assemble(layout.padded(shape), layout, parts, like.dtype.np), layout.devices)


def layout(t: Tensor) -> Layout:
    """How a tensor on a mesh lies there; computes it if it is pending, since XLA decides."""
    v = read(t)
    array = flush.force(v)
    devices: Any = v.device
    return devices.whole() if isinstance(array, np.ndarray) else layout_of(array, devices)


def like(t: Tensor, p: Tensor) -> Tensor:
    """A tensor that is kept for another, as the state of an optimizer, where that is: divided alike if it has its shape."""
    if not is_there(p) or is_there(t):
        return t
    on: Any = p._value.device
    return wrap(put(t, layout(p) if t.shape == p.shape else on.whole()), t._stop_gradient)


def part(t: Tensor, device: Any = None) -> np.ndarray:
    """What a device has of a tensor: the first of this process unless another one is named."""
    v = read(t)
    array = flush.force(v)
    if isinstance(array, np.ndarray):
        return array
    on: Any = v.device
    return mesh.part(array, v.sig.shape, layout_of(array, on), device or on.own[0])


def local(array: np.ndarray, sig: Sig, stop_gradient: bool = True) -> Tensor:
    """An array as a tensor of this process alone."""
    made = Value(sig_of(array.shape, sig.dtype), np.array(array), devices.current())
    return wrap(made, stop_gradient)


def parts(t: Tensor) -> list[tuple[tuple[int, ...], Any]]:
    """What this process has of a tensor: where each part begins, and its array, of which nobody reuses the buffer."""
    v = read(t)
    array = flush.force(v)
    if isinstance(array, np.ndarray):
        return [((0,) * array.ndim, array)]
    flush.pin(v)
    found: dict[tuple[int, ...], Any] = {}
    for d, offset, sizes in _places(v, layout(t)):
        if offset not in found and 0 not in sizes:
            own = next(s.data for s in array.addressable_shards if s.device == d)
            found[offset] = own if own.shape == sizes else own[tuple([slice(n) for n in sizes])]
    return list(found.items())


def refill(t: Tensor, fill: Callable[[tuple[int, ...], np.ndarray], None]) -> None:
    """Give a tensor new numbers where it lies: each part of this process is filled once, where it begins."""
    v, to = read(t), layout(t)
    whole = to.padded(v.sig.shape)
    sizes = to.sharding.shard_shape(whole)
    made: dict[tuple[int, ...], np.ndarray] = {}
    owned = []
    for d, offset, kept in _places(v, to):
        if offset not in made:
            made[offset] = np.zeros(sizes, v.sig.dtype.np)
            if 0 not in kept:
                inside: Any = (..., *[slice(n) for n in kept])  # a view also where there are no axes
                fill(offset, made[offset][inside])
        owned.append((d, made[offset]))
    store(t, Value(v.sig, mesh.assemble(whole, to, owned, v.sig.dtype.np), v.device))


def _places(v: Value, to: Layout) -> Iterator[tuple[Any, tuple[int, ...], tuple[int, ...]]]:
    """Of each device of this process: where its part of a value begins, and its sizes without padding."""
    whole, real = to.padded(v.sig.shape), v.sig.shape
    for d, index in to.sharding.addressable_devices_indices_map(whole).items():
        spans = [span.indices(n)[:2] for span, n in zip(index or (), whole)]
        yield d, tuple([a for a, _ in spans]), tuple([max(0, min(b, n) - a) for (a, b), n in zip(spans, real)])
