"""Virtual devices: clients of XLA that have any number of CPU devices, for which programs are compiled and never run."""

from __future__ import annotations

import functools
from typing import Any

from jaxlib import xla_client


@functools.lru_cache(maxsize=4)
def devices(count: int) -> list[Any]:
    """So many devices of a client of their own: the process' own devices stay as they are."""
    client: Any = xla_client.make_cpu_client(num_devices=count)
    return sorted(client.devices(), key=lambda device: device.id)
