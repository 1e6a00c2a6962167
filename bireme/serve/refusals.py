"""A request that is not carried out: a status of HTTP, and one sentence."""

from __future__ import annotations

BAD, UNKNOWN, SLOW, TOO_LARGE, GONE, BROKEN, BUSY, LATE = 400, 404, 408, 413, 499, 500, 503, 504


class Refused(Exception):
    """What the client is told instead of a result."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


class Held:
    """Bytes of requests that are read and not answered yet, at most `most`: what comes beyond is refused."""

    def __init__(self, most: int):
        self.most, self.bytes = most, 0

    def take(self, size: int) -> None:
        """Hold so many more."""
        if self.bytes + size > self.most:
            raise Refused(BUSY, f"requests of {self.bytes} bytes are being answered, and {self.most} are held at most")
        self.bytes += size

    def give(self, size: int) -> None:
        """Hold so many less."""
        self.bytes -= size
