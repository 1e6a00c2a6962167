"""GPUs: their number, properties and memory, from PJRT."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from bireme.core.base import device as devices
from bireme.core.base import errors
from bireme.core.base.boundary import guard_functions
from bireme.core.base.device import Place
from bireme.device import memory, stream
from bireme.device.stream import current_stream

__all__ = [
    "Event", "Stream", "current_stream", "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved",
    "reset_max_memory_allocated", "reset_max_memory_reserved", "stream_guard", "synchronize",
]  # fmt: skip


class Event(stream.Event):
    """A point in the work of the current GPU; see ``bireme.device.Event``.

    Args:
        enable_timing: Kept as an attribute: the time is always measured. Default: False.
        blocking: Has no effect.
        interprocess: Must be False: XLA shares no events between processes.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.Event(enable_timing=True).query()
        True
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        _need_gpu("Event")
        super().__init__(None, enable_timing, blocking, interprocess)


class Stream(stream.Stream):
    """The queue of a GPU; see ``bireme.device.Stream``.

    Args:
        device: A name such as ``"gpu:0"``, a place, or the index of a GPU. Default: None, the current device.
        priority: 1 or 2, without effect. Default: 2.

    Raises:
        RuntimeError: If this machine has no GPU.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.Stream().query()
        True
    """

    def __init__(self, device: str | Place | int | None = None, priority: int = 2) -> None:
        _need_gpu("Stream")
        super().__init__(device, priority)


def _need_gpu(name: str) -> None:
    if not device_count():
        found = ", ".join(devices.available())
        raise errors.bad(f"{name}()", "a machine with a GPU", described=f"one with {found}", kind=RuntimeError)


def device_count() -> int:
    """Return the number of GPUs.

    Returns:
        An int.

    Examples:
        >>> bireme.device.cuda.device_count() >= 0
        True
    """
    return devices.count("gpu")


def synchronize(device: str | Place | int | None = None) -> None:
    """Run what the current thread has recorded and wait until the device has finished.

    Args:
        device: A name such as ``"gpu:0"``, a place, or the index of a GPU. Default: None, the current device.

    Examples:
        >>> bireme.device.cuda.synchronize()
    """
    stream.finish(stream.device_of(device, "synchronize(device)"))


def stream_guard(stream: stream.Stream | None) -> AbstractContextManager[None]:
    """Context manager that uses a stream and its device.

    Args:
        stream: The stream; None changes nothing.

    Returns:
        A context manager.

    Examples:
        >>> with bireme.device.cuda.stream_guard(None):
        ...     bireme.ones([1]).tolist()
        [1.0]
    """
    return _guard(stream)


_guard = stream.stream_guard


class Properties(NamedTuple):
    """Properties of a GPU; ``total_memory`` is in bytes, as far as XLA may use it."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int

    def __repr__(self) -> str:
        size = f"{self.total_memory // (1 << 20)}MB"
        return (
            f"_gpuDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={size}, multi_processor_count={self.multi_processor_count})"
        )


def gpu(device: Any, name: str) -> devices.Device:
    """Return the GPU of a user's argument, the current one for None; an error if it is not a GPU."""
    found = (
        stream.device_of(device, f"{name}(device)")
        if device is not None or devices.current().kind != "cpu"
        else devices.current()
    )
    if found.kind == "cpu":
        raise errors.bad(
            f"{name}(device)",
            "a GPU",
            found.name,
            hint="this machine's devices: " + ", ".join(devices.available()),
        )
    return found


def get_device_properties(device: str | Place | int | None = None) -> Properties:
    """Return the properties of a GPU.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        A named tuple with ``name``, ``major``, ``minor`` (compute capability), ``total_memory`` in bytes and
        ``multi_processor_count``.

    Raises:
        ValueError: If there is no such GPU.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.get_device_properties(0).major > 0
        True
    """
    return properties(gpu(device, "get_device_properties"))


def properties(device: devices.Device) -> Properties:
    """Return the properties of any device but the CPU."""
    chip = device.jax
    major, _, minor = str(getattr(chip, "compute_capability", "0.0")).partition(".")
    total = memory.stats(device, "get_device_properties").get("bytes_limit", 0)
    return Properties(chip.device_kind, int(major), int(minor or 0), total, int(getattr(chip, "core_count", 0)))


def get_device_name(device: str | Place | int | None = None) -> str:
    """Return the name of a GPU.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        A str.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bool(bireme.device.cuda.get_device_name(0))
        True
    """
    return properties(gpu(device, "get_device_name")).name


def get_device_capability(device: str | Place | int | None = None) -> tuple[int, int]:
    """Return the compute capability of a GPU.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        The tuple ``(major, minor)``.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.get_device_capability(0) > (0, 0)
        True
    """
    found = properties(gpu(device, "get_device_capability"))
    return found.major, found.minor


def empty_cache() -> None:
    """Release results that nobody holds; memory that XLA keeps for reuse stays reserved.

    Examples:
        >>> bireme.device.cuda.empty_cache()
    """
    memory.release()


def memory_allocated(device: str | Place | int | None = None) -> int:
    """Return the memory of a GPU that arrays use now.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.memory_allocated(0) >= 0
        True
    """
    return memory.now(gpu(device, "memory_allocated"), "bytes_in_use")


def memory_reserved(device: str | Place | int | None = None) -> int:
    """Return the memory of a GPU that XLA has reserved, used or not.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.memory_reserved(0) >= 0
        True
    """
    return memory.now(gpu(device, "memory_reserved"), "pool_bytes")


def max_memory_allocated(device: str | Place | int | None = None) -> int:
    """Return the peak of the memory of a GPU that arrays have used.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.max_memory_allocated(0) >= 0
        True
    """
    return memory.most(gpu(device, "max_memory_allocated"), "bytes_in_use")


def max_memory_reserved(device: str | Place | int | None = None) -> int:
    """Return the peak of the memory of a GPU that XLA has reserved.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Returns:
        Bytes, an int.

    Examples:
        >>> bireme.device.cuda.device_count() == 0 or bireme.device.cuda.max_memory_reserved(0) >= 0
        True
    """
    return memory.most(gpu(device, "max_memory_reserved"), "pool_bytes")


def reset_max_memory_allocated(device: str | Place | int | None = None) -> None:
    """Reset the peak that ``max_memory_allocated`` returns.

    PJRT knows only the peak of the whole run. Until a later one exceeds it, the value is the largest that was seen at a
    call of these functions: a lower bound.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Examples:
        >>> if bireme.device.cuda.device_count():
        ...     bireme.device.cuda.reset_max_memory_allocated(0)
    """
    memory.reset(gpu(device, "reset_max_memory_allocated"), "bytes_in_use")


def reset_max_memory_reserved(device: str | Place | int | None = None) -> None:
    """Reset the peak that ``max_memory_reserved`` returns; see ``reset_max_memory_allocated``.

    Args:
        device: A name such as ``"gpu:0"``, a place or an index. Default: None, the current GPU.

    Examples:
        >>> if bireme.device.cuda.device_count():
        ...     bireme.device.cuda.reset_max_memory_reserved(0)
    """
    memory.reset(gpu(device, "reset_max_memory_reserved"), "pool_bytes")


guard_functions(globals())
