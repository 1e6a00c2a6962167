"""A request that is not carried out: a status of HTTP, and one sentence."""

from __future__ import annotations

BAD, UNKNOWN, TOO_LARGE, BUSY, LATE = 400, 404, 413, 503, 504


class Refused(Exception):
    """What the client is told instead of a result."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status
