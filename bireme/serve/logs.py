"""The log of a server: a line of JSON for each request, whichever protocol it came by."""

from __future__ import annotations

import json
import logging
import time

log = logging.getLogger("bireme.serve")


def tell(method: str, path: str, status: int | str, seconds: float, client: str) -> None:
    """Log a request that was answered."""
    if log.isEnabledFor(logging.INFO):
        told = {"time": round(time.time(), 3), "method": method, "path": path, "status": status}
        log.info(json.dumps({**told, "ms": round(seconds * 1e3, 3), "client": client}))
