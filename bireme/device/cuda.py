"""GPUs: how many, what they are, and how much of their memory is used, as PJRT tells it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.device import memory, stream
from bireme.device.stream import current_stream

__all__ = [
    "Event", "Stream", "current_stream", "device_count", "empty_cache", "get_device_capability", "get_device_name", "get_device_properties",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_max_memory_allocated",
    "reset_max_memory_reserved", "stream_guard", "synchronize",
]  # fmt: skip


class Event(stream.Event):
    """A point in the work of the current device.

    >>> bireme.device.cuda.Event(enable_timing=True).query()
    True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        super().__init__(None, enable_timing, blocking, interprocess)


class Stream(stream.Stream):
    """The queue of a GPU, or of the current device.

    >>> bireme.device.cuda.Stream().query()
    True
    """

    def __init__(self, device: Any = None, priority: int = 2) -> None:
        super().__init__(device, priority)


def device_count() -> int:
    """Number of GPUs.

    >>> bireme.device.cuda.device_count() >= 0
    True
    """
    return devices.count("gpu")


def synchronize(device: Any = None) -> None:
    """Run what is pending in this thread and wait until the device is done.

    >>> bireme.device.cuda.synchronize()
    """
    stream.finish(stream.device_of(device, "synchronize(device)"))


def stream_guard(stream: stream.Stream | None) -> AbstractContextManager[None]:
    """Use a stream and its device inside a `with` block.

    >>> with bireme.device.cuda.stream_guard(None):
    ...     bireme.ones([1]).tolist()
    [1.0]
    """
    return _guard(stream)


_guard = stream.stream_guard


class Properties(NamedTuple):
    """What a GPU is; `total_memory` is in bytes, of what XLA may use."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int

    def __str__(self) -> str:
        size = f"{self.total_memory // (1 << 20)}MB"
        return (
            f"_gpuDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={size}, multi_processor_count={self.multi_processor_count})"
        )

    __repr__ = __str__


def gpu(device: Any, name: str) -> devices.Device:
    """The GPU that a user names, the current one for None; an error where it is none."""
    found = stream.device_of(device, f"{name}(device)") if device is not None or devices.current().kind != "cpu" else devices.current()
    if found.kind == "cpu":
        raise errors.bad(f"{name}(device)", "a GPU", found.name, hint="this machine's devices: " + ", ".join(devices.available()))
    return found


def get_device_properties(device: Any = None) -> Properties:
    """Name, compute capability, memory and number of multiprocessors of a GPU; an error where there is none.

    >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.get_device_properties(0).major > 0
    True
    """
    return properties(gpu(device, "get_device_properties"))


def properties(device: devices.Device) -> Properties:
    """The same of any device but the host."""
    chip = device.jax
    major, _, minor = str(getattr(chip, "compute_capability", "0.0")).partition(".")
    total = memory.stats(device, "get_device_properties").get("bytes_limit", 0)
    return Properties(chip.device_kind, int(major), int(minor or 0), total, int(getattr(chip, "core_count", 0)))


def get_device_name(device: Any = None) -> str:
    """Name of a GPU.

    >>> bireme.device.cuda.device_count() == 0 or bool(bireme.device.cuda.get_device_name(0))
    True
    """
    return properties(gpu(device, "get_device_name")).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """Compute capability of a GPU, major and minor.

    >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.get_device_capability(0) > (0, 0)
    True
    """
    found = properties(gpu(device, "get_device_capability"))
    return found.major, found.minor


def empty_cache() -> None:
    """Let go of what can be let go: results nobody holds. Memory that XLA keeps for later stays with it.

    >>> bireme.device.cuda.empty_cache()
    """
    memory.release()


def memory_allocated(device: Any = None) -> int:
    """Bytes of a GPU that arrays use now.

    >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.memory_allocated(0) >= 0
    True
    """
    return memory.now(gpu(device, "memory_allocated"), "bytes_in_use")


def memory_reserved(device: Any = None) -> int:
    """Bytes of a GPU that XLA took from it, used or not.

    >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.memory_reserved(0) >= 0
    True
    """
    return memory.now(gpu(device, "memory_reserved"), "pool_bytes")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of a GPU that arrays have used.

    >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.max_memory_allocated(0) >= 0
    True
    """
    return memory.most(gpu(device, "max_memory_allocated"), "bytes_in_use")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes of a GPU that XLA has taken from it.

    >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.max_memory_reserved(0) >= 0
    True
    """
    return memory.most(gpu(device, "max_memory_reserved"), "pool_bytes")


def reset_max_memory_allocated(device: Any = None) -> None:
    """Start `max_memory_allocated` anew.

    PJRT knows only the peak of the whole run. Until a later one exceeds it, the figure is the most that was seen when
    somebody asked: a lower bound.

    >>> if bireme.device.cuda.device_count(): bireme.device.cuda.reset_max_memory_allocated(0)
    """
    memory.reset(gpu(device, "reset_max_memory_allocated"), "bytes_in_use")


def reset_max_memory_reserved(device: Any = None) -> None:
    """Start `max_memory_reserved` anew, as `reset_max_memory_allocated` does.

    >>> if bireme.device.cuda.device_count(): bireme.device.cuda.reset_max_memory_reserved(0)
    """
    memory.reset(gpu(device, "reset_max_memory_reserved"), "pool_bytes")
