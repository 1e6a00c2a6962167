"""Devices: which there are, which is used, and how a plug-in adds another."""

from __future__ import annotations

from bireme.core.device import available, count, current, get_device, register_device, set_device
from bireme.core.executor import register as register_executor
from bireme.core.flush import flush
from bireme.core.xla import wait

__all__ = [
    "get_all_device_type", "get_available_device", "get_device", "is_compiled_with_cuda", "register_device", "register_executor", "set_device",
    "synchronize",
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


def is_compiled_with_cuda() -> bool:
    """Whether a GPU can be used here.

    >>> isinstance(bireme.device.is_compiled_with_cuda(), bool)
    True
    """
    return count("gpu") > 0


def synchronize(device: object = None) -> None:
    """Run what is pending in this thread and wait until the device is done.

    >>> bireme.device.synchronize()
    """
    flush()
    wait(current())
