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

from bireme.core import errors, malloc


class Device:
    """One device. Interned: there is one object for `gpu:0`, so devices compare by identity."""

    __slots__ = ("kind", "index", "_jax", "name")
    _all: ClassVar[dict[tuple[str, int], Device]] = {}

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
            _prepare_backend()
            try:
                self._jax = jax.devices(self.platform)[self.index]
            except (RuntimeError, IndexError):
                raise errors.bad("set_device(device)", f"a device of this machine ({', '.join(available())})", self.name) from None
        return self._jax

    @property
    def platform(self) -> str:
        """The name jax knows it by."""
        return _PLATFORMS.get(self.kind, self.kind)

    def ensure(self) -> None:
        """Raise now if this machine does not have it, not at the first operator."""
        assert self.jax is not None

    @property
    def is_cpu(self) -> bool:
        return self.kind == "cpu"

    @property
    def place(self) -> Place:
        if self.kind == "cpu":
            return CPUPlace()
        return CUDAPlace(self.index) if self.kind == "gpu" else CustomPlace(self.kind, self.index)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self):
        return Device, (self.kind, self.index)


class Place:
    """Where a tensor lives, as users name it."""

    def __init__(self, device: Device):
        self._device = device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._device is other._device

    def __hash__(self) -> int:
        return hash(self._device)

    def __repr__(self) -> str:
        return f"Place({self._device.name})"

    def get_device_id(self) -> int:
        return self._device.index

    def get_device_type(self) -> str:
        return self._device.kind

    def is_cpu_place(self) -> bool:
        return self._device.kind == "cpu"

    def is_gpu_place(self) -> bool:
        return self._device.kind == "gpu"

    def is_custom_place(self) -> bool:
        return self._device.kind not in ("cpu", "gpu")


class CPUPlace(Place):
    """The host's memory.

    >>> bireme.CPUPlace()
    Place(cpu)
    """

    def __init__(self):
        super().__init__(Device("cpu", 0))


class CUDAPlace(Place):
    """One GPU.

    >>> bireme.CUDAPlace(0)
    Place(gpu:0)
    """

    def __init__(self, id: int = 0):
        super().__init__(Device("gpu", _index(id, "CUDAPlace(id)")))


class CustomPlace(Place):
    """One device of a kind that a plug-in registered.

    >>> bireme.CustomPlace("npu", 0)
    Place(npu:0)
    """

    def __init__(self, device_type: str, id: int = 0):
        super().__init__(Device(device_type, _index(id, "CustomPlace(id)")))


def _index(id: Any, where: str) -> int:
    if isinstance(id, bool) or not isinstance(id, int) or id < 0:
        raise errors.bad(where, "a device number of 0 or more", id)
    return id


_PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}
_REGISTERED: list[str] = []


def register_device(kind: str, platform: str | None = None) -> None:
    """Make the devices of a PJRT platform available under the name `kind`, as `set_device("kind:0")`."""
    _PLATFORMS[kind] = platform or kind
    if kind not in _REGISTERED:
        _REGISTERED.append(kind)


class Fork:
    """Whether this process is a fork of one whose devices had started: XLA's threads do not exist here, so it would hang."""

    child = False

    @classmethod
    def happened(cls) -> None:
        cls.child = cls.child or started()

    @classmethod
    def error(cls) -> RuntimeError:
        return RuntimeError(
            "this process was forked after a device had started: compiled programs cannot run in it\n"
            "  hint: start workers by spawn or forkserver, multiprocessing.get_context('spawn')"
        )


def started() -> bool:
    """Whether this package has started the backend of a device; asking for the default one does."""
    return bool(_default) or any(d._jax is not None for d in Device._all.values())


def _prepare_backend() -> None:
    malloc.keep_pages()
    # jax takes 75 % of a GPU at start unless told otherwise; the variable is read when the backend starts
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


class _State(threading.local):
    device: Device | None = None


_state = _State()
_default: list[Device] = []


def current() -> Device:
    """The device new tensors are made on: what this thread set, else the process default."""
    return _state.device or (_default[0] if _default else _choose_default())


def _choose_default() -> Device:
    _prepare_backend()
    platform = jax.default_backend()
    kind = next((k for k, p in _PLATFORMS.items() if p == platform), None) or ("gpu" if platform in ("gpu", "rocm") else "cpu")
    device = Device(kind, 0)
    _default.append(device)
    return device


_NAME = re.compile(r"([a-z_][a-z0-9_]*)(?::(\d+))?")


def parse(spec: Any, where: str = "set_device(device)") -> Device:
    """The Device that a name, Place or Device means; `cuda` is another word for `gpu`."""
    if isinstance(spec, Device):
        return spec
    if isinstance(spec, Place):
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


def set_device(device: Any) -> Place:
    """Make new tensors on `device` from now on; an error if this machine does not have it.

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
    """Name of the device new tensors are made on.

    >>> bireme.get_device()
    'cpu'
    """
    return current().name


def count(kind: str) -> int:
    """Number of devices of a kind."""
    _prepare_backend()
    try:
        return len(jax.devices(_PLATFORMS.get(kind, kind)))
    except RuntimeError:
        return 0
