"""Addresses for processes of this machine."""

from __future__ import annotations

import contextlib
import socket

from bireme.core.base import errors

__all__ = ["find_free_ports", "get_host_name_ip"]


def find_free_ports(num: int) -> set[int]:
    """Return ports of this machine that nobody uses now.

    Args:
        num: How many.

    Returns:
        The ports.

    Examples:
        >>> len(bireme.distributed.utils.launch_utils.find_free_ports(2))
        2
    """
    errors.check_integer("find_free_ports(num)", num)
    with contextlib.ExitStack() as stack:
        # all are held until the last is found, so that none is found twice
        found = [stack.enter_context(contextlib.closing(socket.socket())) for _ in range(num)]
        for s in found:
            s.bind(("", 0))
        return {s.getsockname()[1] for s in found}


def get_host_name_ip() -> tuple[str, str] | None:
    """Return name and address of this machine.

    Returns:
        The two, None if the name has no address.

    Examples:
        >>> found = bireme.distributed.utils.launch_utils.get_host_name_ip()
        >>> found is None or len(found) == 2
        True
    """
    name = socket.gethostname()
    try:
        return name, socket.gethostbyname(socket.getfqdn(name))
    except OSError:
        return None
