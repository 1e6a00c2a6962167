"""Memory statistics of a device, from PJRT."""

from __future__ import annotations

import gc
from typing import Any

from bireme.core.base import errors
from bireme.core.base.device import Device
from bireme.core.record.flush import flush

_resets: dict[tuple[Device, str], list[int]] = {}  # [the run's peak at the reset, the most seen since]


def stats(device: Device, caller: str) -> dict[str, Any]:
    """Return the memory statistics of a device from PJRT; an error if it has none."""
    found = device.jax.memory_stats()
    if found is None:
        raise errors.bad(f"{caller}(device)", "a device that reports memory statistics", described=device.name)
    return found


def now(device: Device, what: str) -> int:
    """Return the bytes in use (``bytes_in_use``) or reserved (``pool_bytes``)."""
    found = stats(device, "memory")
    seen = int(found.get(what, found["bytes_in_use"]))
    if (device, what) in _resets:
        _resets[device, what][1] = max(_resets[device, what][1], seen)
    return seen


def most(device: Device, what: str) -> int:
    """Return the peak since the start or since ``reset``."""
    current, peak = now(device, what), _peak(device, what)
    if (device, what) not in _resets:
        return max(peak, current)
    before, seen = _resets[device, what]
    return peak if peak > before else seen


def reset(device: Device, what: str) -> None:
    """Reset the peak to what is in use now."""
    _resets[device, what] = [_peak(device, what), now(device, what)]


def _peak(device: Device, what: str) -> int:
    found = stats(device, "memory")
    return int(found.get(f"peak_{what}", found.get("peak_bytes_in_use", 0)))


def release() -> None:
    """Run what is pending and drop results that only reference cycles hold, so that their memory is free."""
    flush()
    gc.collect()
