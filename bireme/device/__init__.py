"""Devices: which there are, which is used, and how a plug-in adds another."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import (
    IPUPlace,
    Place,
    XPUPlace,
    available,
    count,
    get_device,
    register_device,
    registered,
    set_device,
)
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
    "Event", "IPUPlace", "Stream", "XPUPlace", "cuda", "current_stream", "device_count", "device_guard",
    "get_all_custom_device_type", "get_all_device_type", "get_available_custom_device", "get_available_device",
    "get_cudnn_version", "get_device", "get_device_properties", "is_compiled_with_cinn", "is_compiled_with_cuda",
    "is_compiled_with_custom_device", "is_compiled_with_distribute", "is_compiled_with_ipu", "is_compiled_with_rocm",
    "is_compiled_with_xpu", "register_device", "register_executor", "set_device", "set_stream", "stream_guard",
    "synchronize", "xpu",
]  # fmt: skip


def get_available_device() -> list[str]:
    """Return the names of the devices of this machine.

    Returns:
        A list such as ``["cpu", "gpu:0"]``.

    Examples:
        >>> "cpu" in bireme.device.get_available_device()
        True
    """
    return available()


def get_all_device_type() -> list[str]:
    """Return the types of the devices of this machine.

    Returns:
        A sorted list such as ``["cpu", "gpu"]``.

    Examples:
        >>> "cpu" in bireme.device.get_all_device_type()
        True
    """
    return sorted({name.split(":")[0] for name in available()})


def device_count(dev_type: str | None = None) -> int:
    """Return the number of devices of a type.

    Args:
        dev_type: Type such as ``"gpu"``. Default: None, GPUs.

    Returns:
        An int.

    Examples:
        >>> bireme.device.device_count("cpu") >= 1
        True
    """
    return count(dev_type or "gpu")


def get_available_custom_device() -> list[str]:
    """Return the names of the devices of this machine whose type a plug-in has registered.

    Returns:
        A list of names.

    Examples:
        >>> bireme.device.get_available_custom_device()
        []
    """
    return [name for name in available() if name.split(":")[0] in registered()]


def get_all_custom_device_type() -> list[str]:
    """Return the device types that plug-ins have registered.

    Returns:
        A list of types.

    Examples:
        >>> bireme.device.get_all_custom_device_type()
        []
    """
    return registered()


def is_compiled_with_cuda() -> bool:
    """Return whether a GPU can be used.

    Returns:
        A bool.

    Examples:
        >>> isinstance(bireme.device.is_compiled_with_cuda(), bool)
        True
    """
    return count("gpu") > 0


def is_compiled_with_rocm() -> bool:
    """Return whether a GPU can be used through ROCm.

    Returns:
        A bool.

    Examples:
        >>> isinstance(bireme.device.is_compiled_with_rocm(), bool)
        True
    """
    return count("rocm") > 0


def is_compiled_with_xpu() -> bool:
    """Return whether an XPU can be used.

    Returns:
        A bool.

    Examples:
        >>> isinstance(bireme.device.is_compiled_with_xpu(), bool)
        True
    """
    return count("xpu") > 0


def is_compiled_with_ipu() -> bool:
    """Return whether an IPU can be used.

    Returns:
        A bool.

    Examples:
        >>> isinstance(bireme.device.is_compiled_with_ipu(), bool)
        True
    """
    return count("ipu") > 0


def is_compiled_with_cinn() -> bool:
    """Return whether Paddle's compiler CINN is used: never, XLA compiles all programs.

    Returns:
        False.

    Examples:
        >>> bireme.device.is_compiled_with_cinn()
        False
    """
    return False


def is_compiled_with_distribute() -> bool:
    """Return whether distributed training is available.

    Returns:
        A bool.

    Examples:
        >>> isinstance(bireme.device.is_compiled_with_distribute(), bool)
        True
    """
    return importlib.util.find_spec("bireme.distributed") is not None


def is_compiled_with_custom_device(device_type: str) -> bool:
    """Return whether a plug-in has registered devices of a type.

    Args:
        device_type: The type.

    Returns:
        A bool.

    Examples:
        >>> bireme.device.is_compiled_with_custom_device("npu")
        False
    """
    if not isinstance(device_type, str):
        raise errors.bad(
            "is_compiled_with_custom_device(device_type)",
            "a device type as a str",
            device_type,
            kind=errors.ArgumentTypeError,
        )
    return device_type in registered()


def get_cudnn_version() -> int | None:
    """Return the version of cuDNN.

    Returns:
        The version as one int, 91002 for 9.10.2; None if cuDNN is not used.

    Examples:
        >>> bireme.device.is_compiled_with_cuda() or bireme.device.get_cudnn_version() is None
        True
    """
    found = library_version("cudnn") if is_compiled_with_cuda() else None
    if found is None:
        return None
    major, minor, patch = (*map(int, found.split(".")[:3]), 0, 0, 0)[:3]
    return major * 10000 + minor * 100 + patch


def library_version(library: str) -> str | None:
    """Return the version of one of NVIDIA's libraries among the installed packages, or None."""
    pattern = re.compile(rf"nvidia-{library}(-cu\d+)?")
    for package in importlib.metadata.distributions():
        if pattern.fullmatch((package.metadata["Name"] or "").lower()):
            return package.version
    return None


def get_device_properties(device: str | Place | int | None = None) -> cuda.Properties:
    """Return the properties of a device.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        A named tuple with ``name``, ``major``, ``minor`` (compute capability), ``total_memory`` in bytes and
        ``multi_processor_count``.

    Raises:
        ValueError: If the device is the CPU.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.get_device_properties("gpu:0").total_memory > 0
        True
    """
    return cuda.properties(cuda.gpu(device, "get_device_properties"))


def synchronize(device: str | Place | int | None = None) -> None:
    """Run what the current thread has recorded and wait until the device has finished.

    Args:
        device: A name such as ``"gpu:0"``, a place, or the index of a GPU. Default: None, the current device.

    Examples:
        >>> y = bireme.ones([2]) + 1
        >>> bireme.device.synchronize()
        >>> y.tolist()
        [2.0, 2.0]
    """
    stream.finish(stream.device_of(device, "synchronize(device)"))


class device_guard:
    """Context manager that sets the device of new tensors.

    Args:
        device: A name such as ``"gpu:0"``, or a place.

    Examples:
        >>> with bireme.device.device_guard("cpu"):
        ...     bireme.zeros([1]).place
        Place(cpu)
    """

    def __init__(self, device: str | Place) -> None:
        self._device = devices.parse(device, "device_guard(device)")
        self._device.ensure()
        self._before: list[devices.Device | None] = []

    def __enter__(self) -> None:
        self._before.append(devices.use(self._device))

    def __exit__(self, *exc: Any) -> None:
        devices.use(self._before.pop())


def _convert_to_place(device: Any) -> Place:
    """Return the place of a device name."""
    return devices.parse(device, "device").place


guard_functions(globals())
