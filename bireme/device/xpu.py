"""XPUs, where a PJRT plug-in registered them under that name: `bireme.device.register_device("xpu", platform=...)`."""

from __future__ import annotations

from typing import Any

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.device import memory, stream

__all__ = [
    "Event", "Stream", "device_count", "empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "memory_total", "memory_used", "reset_max_memory_allocated", "reset_max_memory_reserved", "synchronize",
]  # fmt: skip


def _xpu(device: Any, name: str) -> devices.Device:
    where = f"{name}(device)"
    if devices.count("xpu") == 0:
        raise errors.bad(where, "an XPU", "none on this machine", hint="this machine's devices: " + ", ".join(devices.available()))
    if device is None:
        return devices.current() if devices.current().kind == "xpu" else devices.Device("xpu", 0)
    found = devices.parse(f"xpu:{device}" if isinstance(device, int) else device, where)
    found.ensure()
    return found


class Event(stream.Event):
    """A point in the work of an XPU; an error where there is none."""

    def __init__(self) -> None:
        super().__init__(_xpu(None, "Event"))


class Stream(stream.Stream):
    """The queue of an XPU; an error where there is none."""

    def __init__(self) -> None:
        super().__init__(_xpu(None, "Stream"))


def device_count() -> int:
    """Number of XPUs.

    >>> bireme.device.xpu.device_count() >= 0
    True
    """
    return devices.count("xpu")


def synchronize(device: Any = None) -> None:
    """Run what is pending in this thread and wait until the XPU is done."""
    stream.finish(_xpu(device, "synchronize"))


def empty_cache() -> None:
    """Let go of results nobody holds; memory that XLA keeps for later stays with it."""
    _xpu(None, "empty_cache")
    memory.release()


def memory_allocated(device: Any = None) -> int:
    """Bytes of an XPU that arrays use now."""
    return memory.now(_xpu(device, "memory_allocated"), "bytes_in_use")


def memory_reserved(device: Any = None) -> int:
    """Bytes of an XPU that XLA took from it, used or not."""
    return memory.now(_xpu(device, "memory_reserved"), "pool_bytes")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of an XPU that arrays have used."""
    return memory.most(_xpu(device, "max_memory_allocated"), "bytes_in_use")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of an XPU that XLA has taken from it."""
    return memory.most(_xpu(device, "max_memory_reserved"), "pool_bytes")


def reset_max_memory_allocated(device: Any = None) -> None:
    """Start `max_memory_allocated` anew; see `bireme.device.cuda.reset_max_memory_allocated`."""
    memory.reset(_xpu(device, "reset_max_memory_allocated"), "bytes_in_use")


def reset_max_memory_reserved(device: Any = None) -> None:
    """Start `max_memory_reserved` anew."""
    memory.reset(_xpu(device, "reset_max_memory_reserved"), "pool_bytes")


def memory_total(device: Any = None) -> int:
    """Bytes of an XPU that XLA may use."""
    return int(memory.stats(_xpu(device, "memory_total"), "memory_total").get("bytes_limit", 0))


def memory_used(device: Any = None) -> int:
    """Bytes of an XPU that are taken, by arrays or kept for later."""
    return memory.now(_xpu(device, "memory_used"), "pool_bytes")
