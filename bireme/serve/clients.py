"""Clients over HTTP: their tokens and bodies are read within limits, those that go away are given up, and what is sent to one that
reads slowly is held no longer than it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from bireme.core.base.extras import extra
from bireme.serve.refusals import FORBIDDEN, GONE, NO_TOKEN, SLOW, TOO_LARGE, UNREADABLE, Held, Refused

LARGE = 2**16  # bytes that are read or written in a thread, and sent in pieces
PIECE = 2**18  # bytes of a large answer that are handed on at once
PATIENCE = 0.05  # seconds after which a client that waits is looked after


def authorize(request: Any, token: str | None) -> None:
    """Refuse who does not send the token; where there is none, pages of other sites that a browser on this machine shows."""
    if token is None:
        if request.headers.get("sec-fetch-site") == "cross-site":
            raise Refused(FORBIDDEN, "a page of another site asked: a server without a token answers no such pages")
        return
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise Refused(NO_TOKEN, "expected the server's token as Authorization: Bearer TOKEN")


@contextlib.asynccontextmanager
async def body(request: Any, most: int, seconds: float, held: Held) -> AsyncIterator[bytes]:
    """The request's body, held while it is answered; given up as soon as it is too large or takes too long."""
    encoding, length = request.headers.get("content-encoding", "identity"), request.headers.get("content-length", "0")
    if encoding != "identity":
        raise Refused(UNREADABLE, f"a body is sent as it is, got content-encoding {encoding[:40]}")
    if length.isdigit() and (len(length) > 19 or int(length) > most):  # it is not waited for
        raise Refused(TOO_LARGE, f"a request has at most {most} bytes")
    parts, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                if size + len(part) > most:
                    raise Refused(TOO_LARGE, f"a request has at most {most} bytes")
                held.take(len(part))
                size += len(part)
                parts.append(part)
        yield parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise Refused(SLOW, f"the request was not there within {seconds:g} s") from None
    except _disconnect():
        raise Refused(GONE, "the client went away") from None
    finally:
        held.give(size)


@functools.cache
def _disconnect() -> type[Exception]:
    return extra("starlette.requests", "serve", "to serve models").ClientDisconnect


class LargeAnswer:
    """An answer of many bytes, which are held until the client has taken them. It is handed on in pieces, each when most of the one
    before is sent: all at once, it would lie in the buffer of a connection that nobody reads, and nobody would count it.
    """

    status_code = 200

    def __init__(self, told: bytes, headers: dict[str, str], held: Held):
        held.take(len(told))
        self._told, self._held = told, held
        self._headers = [(k.encode(), v.encode()) for k, v in {**headers, "content-length": str(len(told))}.items()]

    async def __call__(self, scope: Any, receive: Any, send: Callable[[dict[str, Any]], Any]) -> None:
        size = len(self._told)
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self._headers})
            for start in range(0, size, PIECE):
                piece = self._told[start : start + PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": start + PIECE < size})
        finally:
            self._held.give(size)


async def aside(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """A function's result; where there is much to read or write, from a thread, so that other clients do not wait."""
    if size < LARGE:
        return function(*arguments)
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


async def while_connected(request: Any, work: Coroutine[Any, Any, Any]) -> Any:
    """The result of what is done for a client; if it goes away meanwhile, that is cancelled. Most work is done before
    anybody looks after the client, and takes no task of its own.
    """
    own, watching = asyncio.current_task(), _Watching()
    assert own is not None

    def went(task: asyncio.Future[None]) -> None:
        if not task.cancelled() and not watching.over:
            watching.gone = True
            own.cancel()

    def look() -> None:
        watching.task = asyncio.ensure_future(_gone(request))
        watching.task.add_done_callback(went)

    timer = asyncio.get_running_loop().call_later(PATIENCE, look)
    try:
        return await work
    except asyncio.CancelledError:
        if not watching.gone:
            raise
        own.uncancel()
        raise Refused(GONE, "the client went away") from None
    finally:
        watching.over = True
        timer.cancel()
        if watching.task is not None:
            watching.task.cancel()


class _Watching:
    """What is known of a client whose answer takes long."""

    def __init__(self) -> None:
        self.over = self.gone = False
        self.task: asyncio.Future[None] | None = None


async def _gone(request: Any) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
