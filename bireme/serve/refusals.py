"""A request that is not carried out: a status of HTTP, and one sentence."""

from __future__ import annotations

# the client's fault, and the server's
BAD, NO_TOKEN, FORBIDDEN, UNKNOWN, SLOW, TOO_LARGE, UNREADABLE, GONE = 400, 401, 403, 404, 408, 413, 415, 499
BROKEN, BUSY, LATE = 500, 503, 504


class Refused(Exception):
    """What the client is told instead of a result."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def sentence(error: BaseException) -> str:
    """What went wrong in the words of who raised it, without the server's line."""
    lines = [line.strip() for line in str(error).splitlines() if not line.startswith("  at ")]
    return " ".join([f"({line})" if line.startswith("hint: ") else line for line in lines]) or type(error).__name__


class Held:
    """Bytes of requests that are read and not answered yet, and of large answers that are not sent yet, at most `most`: what comes
    beyond is refused.
    """

    def __init__(self, most: int):
        self.most, self.bytes = most, 0

    def take(self, size: int) -> None:
        """Hold so many more."""
        if self.bytes + size > self.most:
            raise Refused(BUSY, f"{self.bytes} bytes of requests and answers are held already, and {self.most} at most")
        self.bytes += size

    def give(self, size: int) -> None:
        """Hold so many less."""
        self.bytes -= size
