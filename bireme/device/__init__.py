"""Devices: which there are, which is used, and how a plug-in adds another."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.device import IPUPlace, Place, XPUPlace, available, count, get_device, register_device, registered, set_device
from bireme.core.graph.executor import register as register_executor
from bireme.device import cuda, stream, xpu
from bireme.device.cuda import empty_cache as empty_cache
from bireme.device.cuda import max_memory_allocated as max_memory_allocated
from bireme.device.cuda import max_memory_reserved as max_memory_reserved
from bireme.device.cuda import memory_allocated as memory_allocated
from bireme.device.cuda import memory_reserved as memory_reserved
from bireme.device.cuda import reset_max_memory_allocated as reset_max_memory_allocated
from bireme.device.cuda import reset_max_memory_reserved as reset_max_memory_reserved
from bireme.device.stream import Event, Stream, current_stream, set_stream, stream_guard

__all__ = [
    "Event", "IPUPlace", "Stream", "XPUPlace", "cuda", "current_stream", "device_count", "device_guard", "get_all_custom_device_type",
    "get_all_device_type",
    "get_available_custom_device", "get_available_device", "get_cudnn_version", "get_device", "get_device_properties", "is_compiled_with_cinn",
    "is_compiled_with_cuda", "is_compiled_with_custom_device", "is_compiled_with_distribute", "is_compiled_with_ipu", "is_compiled_with_rocm",
    "is_compiled_with_xpu", "register_device", "register_executor", "set_device", "set_stream", "stream_guard", "synchronize", "xpu",
]  # fmt: skip


def get_available_device() -> list[str]:
    """Names of the devices of this machine.

    >>> "cpu" in bireme.device.get_available_device()
    True
    """
    return available()


def get_all_device_type() -> list[str]:
    """Kinds of devices of this machine.

    >>> "cpu" in bireme.device.get_all_device_type()
    True
    """
    return sorted({name.split(":")[0] for name in available()})


def device_count(dev_type: str | None = None) -> int:
    """Number of devices of a kind, of GPUs if none is named.

    >>> bireme.device.device_count() >= 0
    True
    """
    return count(dev_type or "gpu")


def get_available_custom_device() -> list[str]:
    """Names of the devices of this machine that plug-ins registered.

    >>> bireme.device.get_available_custom_device()
    []
    """
    return [name for name in available() if name.split(":")[0] in registered()]


def get_all_custom_device_type() -> list[str]:
    """Kinds of devices that plug-ins registered.

    >>> bireme.device.get_all_custom_device_type()
    []
    """
    return registered()


def is_compiled_with_cuda() -> bool:
    """Whether a GPU can be used here.

    >>> isinstance(bireme.device.is_compiled_with_cuda(), bool)
    True
    """
    return count("gpu") > 0


def is_compiled_with_rocm() -> bool:
    """Whether a GPU can be used here through ROCm.

    >>> isinstance(bireme.device.is_compiled_with_rocm(), bool)
    True
    """
    return count("rocm") > 0


def is_compiled_with_xpu() -> bool:
    """Whether an XPU can be used here.

    >>> isinstance(bireme.device.is_compiled_with_xpu(), bool)
    True
    """
    return count("xpu") > 0


def is_compiled_with_ipu() -> bool:
    """Whether an IPU can be used here.

    >>> isinstance(bireme.device.is_compiled_with_ipu(), bool)
    True
    """
    return count("ipu") > 0


def is_compiled_with_cinn() -> bool:
    """Whether Paddle's own compiler is there: never, programs are compiled by XLA.

    >>> bireme.device.is_compiled_with_cinn()
    False
    """
    return False


def is_compiled_with_distribute() -> bool:
    """Whether several devices and machines can be used together.

    >>> isinstance(bireme.device.is_compiled_with_distribute(), bool)
    True
    """
    return importlib.util.find_spec("bireme.distributed") is not None


def is_compiled_with_custom_device(device_type: str) -> bool:
    """Whether a plug-in registered devices of a kind.

    >>> bireme.device.is_compiled_with_custom_device("npu")
    False
    """
    if not isinstance(device_type, str):
        raise errors.bad("is_compiled_with_custom_device(device_type)", "the name of a kind of device", device_type, kind=TypeError)
    return device_type in registered()


def get_cudnn_version() -> int | None:
    """Version of cuDNN as one number, 91002 for 9.10.2; None where it is not used.

    >>> bireme.device.is_compiled_with_cuda() or bireme.device.get_cudnn_version() is None
    True
    """
    found = library_version("cudnn") if is_compiled_with_cuda() else None
    if found is None:
        return None
    major, minor, patch = (*map(int, found.split(".")[:3]), 0, 0, 0)[:3]
    return major * 10000 + minor * 100 + patch


def library_version(library: str) -> str | None:
    """Version of one of NVIDIA's libraries among the installed packages, or None."""
    pattern = re.compile(rf"nvidia-{library}(-cu\d+)?")
    for package in importlib.metadata.distributions():
        if pattern.fullmatch((package.metadata["Name"] or "").lower()):
            return package.version
    return None


def get_device_properties(device: Any = None) -> cuda.Properties:
    """Name, compute capability, memory and number of multiprocessors of a device; an error for the host.

    >>> bireme.device.cuda.device_count() == 0 or bireme.device.get_device_properties("gpu:0").total_memory > 0
    True
    """
    return cuda.properties(cuda.gpu(device, "get_device_properties"))


def synchronize(device: Any = None) -> None:
    """Run what is pending in this thread and wait until the device is done.

    >>> bireme.device.synchronize()
    """
    stream.finish(stream.device_of(device, "synchronize(device)"))


class device_guard:
    """Make new tensors on a device inside a `with` block.

    >>> with bireme.device.device_guard("cpu"):
    ...     bireme.zeros([1]).place
    Place(cpu)
    """

    def __init__(self, device: Any) -> None:
        self._device = devices.parse(device, "device_guard(device)")
        self._device.ensure()
        self._before: list[devices.Device | None] = []

    def __enter__(self) -> None:
        self._before.append(devices.use(self._device))

    def __exit__(self, *exc: Any) -> None:
        devices.use(self._before.pop())


def _convert_to_place(device: Any) -> Place:
    """The place that a name means."""
    return devices.parse(device, "device").place
