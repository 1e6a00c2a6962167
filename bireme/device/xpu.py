"""XPUs, where a PJRT plug-in registered them under that name: `bireme.device.register_device("xpu", platform=...)`."""

from __future__ import annotations

import os
from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.device import Place
from bireme.device import memory, stream

__all__ = [
    "Event", "Stream", "device_count", "empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_total", "memory_used", "reset_max_memory_allocated", "reset_max_memory_reserved",
    "set_debug_level", "synchronize",
]  # fmt: skip


def _xpu(device: Any, name: str) -> devices.Device:
    where = f"{name}(device)"
    if devices.count("xpu") == 0:
        raise errors.bad(
            where,
            "an XPU",
            described="none on this machine",
            hint="this machine's devices: " + ", ".join(devices.available()),
        )
    if device is None:
        return devices.current() if devices.current().kind == "xpu" else devices.Device("xpu", 0)
    found = devices.parse(f"xpu:{device}" if isinstance(device, int) else device, where)
    found.ensure()
    return found


class Event(stream.Event):
    """A point in the work of an XPU; an error if there is none.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.Event().query()
        True
    """

    def __init__(self) -> None:
        super().__init__(_xpu(None, "Event").place)


class Stream(stream.Stream):
    """The queue of an XPU; an error if there is none.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.Stream().query()
        True
    """

    def __init__(self) -> None:
        super().__init__(_xpu(None, "Stream").place)


def device_count() -> int:
    """Return the number of XPUs.

    Returns:
        An int.

    Examples:
        >>> bireme.device.xpu.device_count() >= 0
        True
    """
    return devices.count("xpu")


def synchronize(device: str | Place | int | None = None) -> None:
    """Run what the current thread has recorded and wait until the XPU has finished.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Examples:
        >>> if bireme.device.xpu.device_count():
        ...     bireme.device.xpu.synchronize()
    """
    stream.finish(_xpu(device, "synchronize"))


def empty_cache() -> None:
    """Release results that nobody holds; memory that XLA keeps for reuse stays reserved.

    Examples:
        >>> if bireme.device.xpu.device_count():
        ...     bireme.device.xpu.empty_cache()
    """
    _xpu(None, "empty_cache")
    memory.release()


def memory_allocated(device: str | Place | int | None = None) -> int:
    """Return the memory of an XPU that arrays use now.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.memory_allocated() >= 0
        True
    """
    return memory.now(_xpu(device, "memory_allocated"), "bytes_in_use")


def memory_reserved(device: str | Place | int | None = None) -> int:
    """Return the memory of an XPU that XLA has reserved, used or not.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.memory_reserved() >= 0
        True
    """
    return memory.now(_xpu(device, "memory_reserved"), "pool_bytes")


def max_memory_allocated(device: str | Place | int | None = None) -> int:
    """Return the peak of the memory of an XPU that arrays have used.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.max_memory_allocated() >= 0
        True
    """
    return memory.most(_xpu(device, "max_memory_allocated"), "bytes_in_use")


def max_memory_reserved(device: str | Place | int | None = None) -> int:
    """Return the peak of the memory of an XPU that XLA has reserved.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.max_memory_reserved() >= 0
        True
    """
    return memory.most(_xpu(device, "max_memory_reserved"), "pool_bytes")


def reset_max_memory_allocated(device: str | Place | int | None = None) -> None:
    """Reset the peak that ``max_memory_allocated`` returns; see ``bireme.device.cuda.reset_max_memory_allocated``.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Examples:
        >>> if bireme.device.xpu.device_count():
        ...     bireme.device.xpu.reset_max_memory_allocated()
    """
    memory.reset(_xpu(device, "reset_max_memory_allocated"), "bytes_in_use")


def reset_max_memory_reserved(device: str | Place | int | None = None) -> None:
    """Reset the peak that ``max_memory_reserved`` returns.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Examples:
        >>> if bireme.device.xpu.device_count():
        ...     bireme.device.xpu.reset_max_memory_reserved()
    """
    memory.reset(_xpu(device, "reset_max_memory_reserved"), "pool_bytes")


def memory_total(device: str | Place | int | None = None) -> int:
    """Return the memory of an XPU that XLA may use.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.memory_total() > 0
        True
    """
    return int(memory.stats(_xpu(device, "memory_total"), "memory_total").get("bytes_limit", 0))


def memory_used(device: str | Place | int | None = None) -> int:
    """Return the memory of an XPU that is reserved, by arrays or for reuse.

    Args:
        device: A name such as ``"xpu:0"``, a place or an index. Default: None, the current XPU or the first.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.xpu.device_count() == 0 or bireme.device.xpu.memory_used() >= 0
        True
    """
    return memory.now(_xpu(device, "memory_used"), "pool_bytes")


def set_debug_level(level: int = 0) -> None:
    """Set what the maker's library of kernels for XPUs writes about its calls.

    The library reads the level from the environment variable ``XPUAPI_DEBUG`` when it is loaded, so this comes before the
    first tensor on an XPU. ``bireme.profiler`` and ``bireme.debug`` tell the same of Bireme itself, on any device.

    Args:
        level: Sum of 0x1 for calls, 0x10 for checksums of tensors, 0x100 for tensors in files and 0x1000 for times.
            Default: 0, nothing.

    Raises:
        ValueError: If there is no XPU, or another bit is set.

    Examples:
        >>> if bireme.device.xpu.device_count():
        ...     bireme.device.xpu.set_debug_level(0)
    """
    _xpu(None, "set_debug_level")
    if isinstance(level, bool) or not isinstance(level, int) or level & ~0x1111:
        raise errors.bad(
            "set_debug_level(level)", "a sum of 0x1, 0x10, 0x100 and 0x1000", level, kind=errors.for_integer(level)
        )
    os.environ["XPUAPI_DEBUG"] = hex(level)
