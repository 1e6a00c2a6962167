"""Devices and places: which chip an array lives on, and how another chip registers itself.

A PJRT plug-in becomes a Paddle device by one call, `register_device("npu", platform="npu")`; everything else
(compiling, moving, naming) follows from the platform name that jax knows it by.
"""

from __future__ import annotations

import os
import re
import threading
from typing import Any, ClassVar

import jax

from bireme.core.base import errors, host_memory
from bireme.core.base.boundary import guarded


class Device:
    """One device. Interned: there is one object for ``gpu:0``, so devices compare by identity."""

    __slots__ = ("kind", "index", "_jax", "name")
    _all: ClassVar[dict[tuple[str, int], Device]] = {}

    several = False  # whether it stands for all devices of a mesh, see `base.mesh`
    kind: str
    index: int
    name: str
    _jax: Any

    def __new__(cls, kind: str, index: int) -> Device:
        found = cls._all.get((kind, index))
        if found is None:
            found = object.__new__(cls)
            found.kind, found.index, found._jax = kind, index, None
            found.name = kind if kind == "cpu" else f"{kind}:{index}"
            cls._all[kind, index] = found
        return found

    @property
    def jax(self) -> Any:
        """The jax device; asking for it starts its backend."""
        if self._jax is None:
            self.ensure()
        return self._jax

    @property
    def platform(self) -> str:
        """The name jax knows it by."""
        return _PLATFORMS.get(self.kind, self.kind)

    def ensure(self, where: str = "set_device(device)") -> None:
        """Raise now if this machine does not have it, not at the first operator."""
        if self._jax is None:
            _prepare_backend()
            try:
                self._jax = jax.devices(self.platform)[self.index]
            except (RuntimeError, IndexError):
                raise errors.bad(where, f"a device of this machine ({', '.join(available())})", self.name) from None

    @property
    def capacity(self) -> int:
        """Bytes that one array can have at most: the device's memory or the host's, which tensors can be moved to."""
        host = host_memory.capacity()
        told = None if self.kind == "cpu" else self.jax.memory_stats()
        return max(host, (told or {}).get("bytes_limit", 0))

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def place(self) -> Place:
        kind = self.kind if self.kind in _OWN_PLACES else "custom"
        return _place(_OWN_PLACES.get(kind, CustomPlace), kind, self)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return Device, (self.kind, self.index)


class Place:
    """Where a tensor is stored: a device, or host memory that another device copies from."""

    _kind: str = "undefined"
    _device: Device | None = None

    def __init__(self) -> None:
        """Create a place that is undefined until ``set_place``."""

    def _at(self, kind: str, device: Device) -> Place:
        self._kind, self._device = kind, device
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._kind == other._kind and self._device is other._device

    def __hash__(self) -> int:
        return hash((self._kind, self._device))

    def __repr__(self) -> str:
        if self._device is None:
            return "Place(undefined:0)"
        return f"Place({self._device.name if self._kind in (self._device.kind, 'custom') else self._kind})"

    def __reduce__(self) -> Any:
        return _place, (type(self), self._kind, self._device)

    def set_place(self, place: Place, /) -> None:
        """Become another place.

        Args:
            place: The other place.
        """
        if not isinstance(place, Place):
            raise errors.bad("set_place(place)", "a Place", place, kind=errors.ArgumentTypeError)
        self._kind, self._device = place._kind, place._device

    def _equals(self, other: Place, /) -> bool:
        """Return whether it is the same place, as Paddle's older code asks."""
        return self == other

    def get_device_id(self) -> int:
        """Return the index of the device among those of its type."""
        return 0 if self._device is None else self._device.index

    def get_device_type(self) -> str:
        """Return the type of the device."""
        return "undefined" if self._device is None else self._device.kind

    def _id_as(self, kind: str) -> int:
        return self.get_device_id() if self._kind == kind else 0

    def gpu_device_id(self) -> int:
        """Return the index of the GPU; 0 for other places."""
        return self._id_as("gpu")

    def xpu_device_id(self) -> int:
        """Return the index of the XPU; 0 for other places."""
        return self._id_as("xpu")

    def ipu_device_id(self) -> int:
        """Return the index of the IPU; 0 for other places."""
        return self._id_as("ipu")

    def custom_device_id(self) -> int:
        """Return the index of the plug-in's device; 0 for other places."""
        return self._id_as("custom")

    def custom_device_type(self) -> str:
        """Return the type of the plug-in's device; empty for other places."""
        return self.get_device_type() if self._kind == "custom" else ""

    def _type(self) -> int:
        """Return its number in Paddle's enumeration."""
        return {"cpu": 1, "gpu": 2, "gpu_pinned": 3, "xpu": 4, "ipu": 7, "custom": 9}.get(self._kind, 0)

    def is_cpu_place(self) -> bool:
        """Return whether it is host memory."""
        return self._kind == "cpu"

    def is_gpu_place(self) -> bool:
        """Return whether it is a GPU."""
        return self._kind == "gpu"

    def is_xpu_place(self) -> bool:
        """Return whether it is an XPU."""
        return self._kind == "xpu"

    def is_ipu_place(self) -> bool:
        """Return whether it is an IPU."""
        return self._kind == "ipu"

    def is_custom_place(self) -> bool:
        """Return whether it is a device that a plug-in has registered."""
        return self._kind == "custom"

    def is_cuda_pinned_place(self) -> bool:
        """Return whether it is host memory that GPUs copy from."""
        return self._kind == "gpu_pinned"

    def is_xpu_pinned_place(self) -> bool:
        """Return whether it is host memory that XPUs copy from."""
        return self._kind == "xpu_pinned"


def _place(cls: type[Place], kind: str, device: Device) -> Place:
    return cls.__new__(cls)._at(kind, device)


class CPUPlace(Place):
    """The host memory.

    Examples:
        >>> bireme.CPUPlace()
        Place(cpu)
    """

    def __init__(self) -> None:
        self._at("cpu", Device("cpu", 0))


class CUDAPlace(Place):
    """A GPU.

    Args:
        id: Index of the GPU. Default: 0.

    Raises:
        ValueError: If this machine does not have the GPU.

    Examples:
        >>> bireme.CUDAPlace(0)  # doctest: +SKIP
        Place(gpu:0)
    """

    def __init__(self, id: int = 0) -> None:
        self._at("gpu", _existing("gpu", id, "CUDAPlace(id)"))


class CUDAPinnedPlace(Place):
    """Host memory that GPUs copy from; XLA stages copies itself, so a tensor there is plainly on the host.

    Examples:
        >>> bireme.CUDAPinnedPlace()
        Place(gpu_pinned)
    """

    def __init__(self) -> None:
        self._at("gpu_pinned", Device("cpu", 0))


class XPUPlace(Place):
    """An XPU.

    Args:
        dev_id: Index of the XPU.

    Raises:
        ValueError: If this machine does not have the XPU.

    Examples:
        >>> bireme.device.XPUPlace(0)  # doctest: +SKIP
        Place(xpu:0)
    """

    def __init__(self, dev_id: int) -> None:
        self._at("xpu", _existing("xpu", dev_id, "XPUPlace(dev_id)"))


class XPUPinnedPlace(Place):
    """Host memory that XPUs copy from; a tensor there is plainly on the host.

    Examples:
        >>> bireme.XPUPinnedPlace()
        Place(xpu_pinned)
    """

    def __init__(self) -> None:
        self._at("xpu_pinned", Device("cpu", 0))


class IPUPlace(Place):
    """An IPU.

    Examples:
        >>> bireme.device.IPUPlace()
        Place(ipu:0)
    """

    def __init__(self) -> None:
        self._at("ipu", Device("ipu", 0))


class CustomPlace(Place):
    """A device of a type that a plug-in has registered.

    Args:
        device_type: The type.
        id: Index of the device. Default: 0.

    Examples:
        >>> bireme.CustomPlace("npu", 0)
        Place(npu:0)
    """

    def __init__(self, device_type: str, id: int = 0) -> None:
        if not isinstance(device_type, str):
            raise errors.bad(
                "CustomPlace(device_type)", "a device type as a str", device_type, kind=errors.ArgumentTypeError
            )
        self._at("custom", Device(device_type, _index(id, "CustomPlace(id)")))


_OWN_PLACES: dict[str, type[Place]] = {"cpu": CPUPlace, "gpu": CUDAPlace, "xpu": XPUPlace}


def _index(id: Any, where: str) -> int:
    if isinstance(id, bool) or not isinstance(id, int) or id < 0:
        raise errors.bad(where, "a non-negative device id", id, kind=errors.for_integer(id))
    return id


def _existing(kind: str, id: Any, where: str) -> Device:
    device = Device(kind, _index(id, where))
    device.ensure(where)
    return device


_PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}
_REGISTERED: list[str] = []


@guarded
def register_device(kind: str, platform: str | None = None) -> None:
    """Make the devices of a PJRT plug-in available under a name.

    Call it before any tensor or place uses the name; ``set_device("npu:0")`` then selects such a device.

    Args:
        kind: The name of the device type.
        platform: Name of the platform in JAX. Default: None, the same as ``kind``.

    Examples:
        >>> bireme.device.register_device("npu", platform="my_npu")  # doctest: +SKIP
    """
    _PLATFORMS[kind] = platform or kind
    if kind not in _REGISTERED:
        _REGISTERED.append(kind)


class Fork:
    """Whether this process is a fork of one whose devices had started: it has none of XLA's threads and would hang."""

    child = False

    @classmethod
    def happened(cls) -> None:
        cls.child = cls.child or started()

    @classmethod
    def error(cls) -> Exception:
        return errors.failure(
            "this process was forked after a device had started: compiled programs cannot run in it",
            hint="start workers by spawn or forkserver, multiprocessing.get_context('spawn')",
        )


def started() -> bool:
    """Whether this package has started the backend of a device; asking for the default one does."""
    return bool(_default) or any(d._jax is not None for d in Device._all.values())


def _prepare_backend() -> None:
    host_memory.keep_pages()
    # jax takes 75 % of a GPU at start unless told otherwise; the variable is read when the backend starts
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class _State(threading.local):
    device: Device | None = None


_state = _State()
_default: list[Device] = []


def current() -> Device:
    """The device new tensors are made on: what this thread set, else the process default."""
    return _state.device or (_default[0] if _default else _choose_default())


def use(device: Device | None) -> Device | None:
    """Make new tensors of this thread on `device` (None: on the process default); returns what it was before."""
    before, _state.device = _state.device, device
    return before


def registered() -> list[str]:
    """Kinds of devices that plug-ins registered."""
    return list(_REGISTERED)


def _choose_default() -> Device:
    _prepare_backend()
    platform = jax.default_backend()
    kind = next((k for k, p in _PLATFORMS.items() if p == platform), None) or (
        "gpu" if platform in ("gpu", "rocm") else "cpu"
    )
    device = Device(kind, 0)
    _default.append(device)
    return device


_NAME = re.compile(r"([a-z_][a-z0-9_]*)(?::(\d+))?")


DeviceLike = Device | Place | str  # what `parse` reads, as annotations name it


def parse(spec: Any, where: str = "set_device(device)") -> Device:
    """The Device that a name, Place or Device means; `cuda` is another word for `gpu`."""
    if isinstance(spec, Device):
        return spec
    if isinstance(spec, Place) and spec._device is not None:
        return spec._device
    if isinstance(spec, str):
        match = _NAME.fullmatch(spec.strip().lower())
        if match:
            kind = "gpu" if match[1] == "cuda" else match[1]
            if kind in _PLATFORMS:
                return Device(kind, int(match[2] or 0))
    raise errors.bad(where, "a device such as 'cpu', 'gpu' or 'gpu:0'", spec)


def available() -> list[str]:
    """Names of the devices of this machine that Bireme can use."""
    _prepare_backend()
    found = []
    for kind, platform in _PLATFORMS.items():
        try:
            found += [Device(kind, i).name for i in range(len(jax.devices(platform)))]
        except RuntimeError:
            continue
    return found


@guarded
def set_device(device: Any) -> Place:
    """Set the device of new tensors.

    Args:
        device: A name such as ``"cpu"``, ``"gpu"`` or ``"gpu:1"``, or a place.

    Returns:
        The place of the device.

    Raises:
        ValueError: If this machine does not have the device.

    Examples:
        >>> bireme.set_device("cpu")
        Place(cpu)
    """
    found = parse(device)
    found.ensure()
    _state.device = found
    if not _default:
        _default.append(found)
    _default[0] = found
    return found.place


def get_device() -> str:
    """Return the name of the device of new tensors.

    Returns:
        A str such as ``"cpu"`` or ``"gpu:0"``.

    Examples:
        >>> bireme.get_device()
        'cpu'
    """
    return current().name


def all_of(kind: str) -> list[Any]:
    """The jax devices of a kind."""
    _prepare_backend()
    return list(jax.devices(_PLATFORMS.get(kind, kind)))


def count(kind: str) -> int:
    """Number of devices of a kind."""
    _prepare_backend()
    try:
        return len(jax.devices(_PLATFORMS.get(kind, kind)))
    except RuntimeError:
        return 0
