"""Several devices as one: what tensors that lie on a mesh have as their device, and how their arrays are divided there.

A `Layout` says which axes of a mesh divide which dimension of a tensor. XLA wants parts of equal size, so the array of a
tensor whose sizes do not divide is padded at the end; the padding is cut off again where a program begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bireme.core.base import errors
from bireme.core.base.device import Device

Dims = tuple[tuple[str, ...], ...]  # for each dimension of a tensor, the axes of a mesh that divide it, "0" and so on
OPEN = ("?",)  # in their place: XLA decides


class Devices(Device):
    """The devices of a mesh in their order. Interned by their ranks and the mesh's shape, whatever its axes are called."""

    __slots__ = ("ranks", "all", "channel", "own", "shape", "names", "virtual")
    _known: ClassVar[dict[tuple, Devices]] = {}

    several = True
    is_cpu = False  # NumPy has only the whole, and no part of it
    ranks: tuple[int, ...]
    all: tuple[Any, ...]  # of jax
    channel: Any  # to the other processes that have some of them; None where this process has all
    own: list[Any]  # those that this process has
    shape: tuple[int, ...]
    names: tuple[str, ...]  # as the last mesh of them has named its axes; here axis 0 is "0"
    virtual: bool  # programs are compiled for them and never run: values have no numbers

    def __new__(
        cls,
        kind: str,
        ranks: Sequence[int],
        all: Sequence[Any],
        shape: Sequence[int],
        names: Sequence[str],
        channel: Any = None,
        virtual: bool = False,
    ) -> Devices:
        key = (kind, tuple(ranks), tuple(all), tuple(shape))
        found = cls._known.get(key)
        if found is None:
            found = object.__new__(cls)
            found.kind, found.index, found.ranks, found.all, found.channel = kind, 0, key[1], key[2], channel
            found.own = [d for d in all if d.process_index == d.client.process_index()]
            found.shape, found.virtual = tuple(shape), virtual
            found._jax = (found.own or list(all))[0]
            found.name = f"{kind}:{','.join(map(str, ranks))}"
            cls._known[key] = found
        found.names = tuple(names)
        return found

    @property
    def jax(self) -> Any:
        return self._jax

    def ensure(self, where: str = "") -> None:
        """They are there."""

    @property
    def place(self) -> Any:
        return Device(self.kind, 0).place

    def __reduce__(self) -> Any:
        raise errors.bad("pickle", "a tensor on one device", described=f"devices {self.name}", kind=RuntimeError)

    def whole(self) -> Layout:
        """The layout of what every device has whole."""
        return Layout(self, ())


class Layout:
    """How an array lies on devices: they are a mesh of some shape, and axes of it divide dimensions. Interned."""

    __slots__ = ("devices", "dims", "sharding", "__weakref__")
    _known: ClassVar[dict[tuple, Layout]] = {}

    devices: Devices
    dims: Dims
    sharding: NamedSharding

    def __new__(cls, devices: Devices, dims: Dims) -> Layout:
        while dims and not dims[-1]:
            dims = dims[:-1]
        found = cls._known.get((devices, dims))
        if found is None:
            found = object.__new__(cls)
            found.devices, found.dims = devices, dims
            grid = np.array(devices.all, object).reshape(devices.shape)
            mesh = Mesh(grid, tuple(map(str, range(grid.ndim))))
            found.sharding = NamedSharding(mesh, PartitionSpec(*[_entry(axes) for axes in dims]))
            cls._known[devices, dims] = found
        return found

    def abstract(self, shape: Sequence[int], dtype: Any) -> Any:
        """What stands for an array of a tensor that lies so on virtual devices: its shape, dtype and sharding."""
        return jax.ShapeDtypeStruct(self.padded(shape), dtype, sharding=self.sharding)

    @property
    def settled(self) -> bool:
        """Whether it says how each dimension lies."""
        return OPEN not in self.dims

    def parts(self, dim: int) -> int:
        """Into how many parts a dimension is divided."""
        axes = self.dims[dim] if dim < len(self.dims) else ()
        return math.prod(self.devices.shape[int(axis)] for axis in axes)

    def padded(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of the array of a tensor of this shape: each part has the same size."""
        return tuple([-(-n // self.parts(i)) * self.parts(i) for i, n in enumerate(shape)])

    def __repr__(self) -> str:
        return f"Layout({self.devices.shape}; {', '.join('*'.join(d) or '-' for d in self.dims)})"


def _entry(axes: tuple[str, ...]) -> Any:
    if axes == OPEN:
        return PartitionSpec.UNCONSTRAINED
    return axes[0] if len(axes) == 1 else axes or None


def layout_of(array: Any, devices: Devices) -> Layout:
    """The layout of a jax array on these devices."""
    dims = tuple([() if d is None else (d,) if isinstance(d, str) else tuple(d) for d in array.sharding.spec])
    return Layout(devices, dims)


def place(host: Any, layout: Layout) -> Any:
    """An array that this process has whole, on the devices of a layout: each gets its part."""
    host = np.asarray(host)
    full = layout.padded(host.shape)
    if full != host.shape:
        host = np.pad(host, [(0, n - m) for n, m in zip(full, host.shape)])
    places = layout.sharding.addressable_devices_indices_map(full)
    return assemble(full, layout, [(d, host[index]) for d, index in places.items()], host.dtype)


def assemble(shape: tuple[int, ...], layout: Layout, parts: Sequence[tuple[Any, Any]], dtype: Any) -> Any:
    """An array of parts, each on its device; of what other processes have, they hold the parts."""
    with jax.enable_x64(True):
        # a copy: jax aliases aligned NumPy memory
        made = [jax.device_put(np.array(part, order="C"), d, may_alias=False) for d, part in parts]
        found = jax.make_array_from_single_device_arrays(shape, layout.sharding, made, dtype=dtype)
    if layout.dims and layout.devices.channel is not None:
        layout.devices.channel.divided(found, layout.devices)
    return found


def host(array: Any, shape: tuple[int, ...], where: str) -> np.ndarray:
    """The numbers of an array on a mesh, whole. Nothing is asked of other processes: they may not be here."""
    if not (array.is_fully_addressable or array.is_fully_replicated):
        raise errors.bad(
            where,
            "a tensor that this process has whole",
            described=f"one whose parts are in other processes, {array.sharding.spec}",
            hint="call unshard_dtensor(x) in all processes, or read x._local_value()",
            kind=errors.ArgumentError,
        )
    found = np.asarray(array)
    return found if found.shape == shape else found[tuple([slice(n) for n in shape])]


def part(array: Any, shape: tuple[int, ...], layout: Layout, device: Any) -> np.ndarray:
    """What one device has of an array, without padding."""
    index = layout.sharding.devices_indices_map(array.shape)[device]
    found = next(s.data for s in array.addressable_shards if s.device == device)
    kept = [
        max(0, min(span.indices(n)[1], real) - span.indices(n)[0]) for span, n, real in zip(index, array.shape, shape)
    ]
    return np.asarray(found)[tuple([slice(n) for n in kept])]


class Reader:
    """What `distributed` knows of tensors on a mesh, which the properties of Tensor ask for."""

    placements: ClassVar[Callable[[Any], tuple[Any, Any]] | None] = None
    local: ClassVar[Callable[[Any], Any] | None] = None
    told: ClassVar[Callable[[Any], str] | None] = None
