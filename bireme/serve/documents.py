"""The reader of documents over HTTP: an image or a PDF is posted, its lines come back as JSON."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
from typing import Any

from bireme.core.base.boundary import guard_functions
from bireme.core.base.extras import extra

MOST_BYTES = 64 * 2**20  # of a request
QUEUE = 16  # requests that wait while one is read


class _Refused(Exception):
    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def add_reader(
    app: Any, reader: Any, token: str | None = None, path: str = "/ocr", most_bytes: int = MOST_BYTES
) -> Any:
    """Let an ASGI application read documents.

    ``POST /ocr`` takes an image or a PDF as its body, or JSON with its contents in base64, ``{"file": "..."}``. It answers
    ``{"pages": [...]}``, each page as ``Page.to_dict``, or ``{"error": "..."}``.

    Args:
        app: An application of ``serve.application``, or any of Starlette's.
        reader: A ``bireme.ocr.Reader``; with ``wait=True`` in most servers.
        token: What clients send as ``Authorization: Bearer TOKEN``. Default: None, nothing.
        path: Path of the endpoint. Default: ``"/ocr"``.
        most_bytes: Size of a request, at most. Default: 64 MiB.

    Returns:
        The application.

    Raises:
        ImportError: If Starlette is not installed.

    Examples:
        >>> app = bireme.serve.application(bireme.serve.Repository({}))
        >>> bireme.serve.add_reader(app, bireme.ocr.Reader("models"))  # doctest: +SKIP
    """
    responses = extra("starlette.responses", "serve", "to serve a reader")
    routing = extra("starlette.routing", "serve", "to serve a reader")
    waiting, turn = [0], asyncio.Semaphore(1)  # a page uses all cores

    async def answer(request: Any) -> dict[str, Any]:
        given = request.headers.get("authorization", "")
        if token is not None and not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise _Refused(401, "expected the server's token as Authorization: Bearer TOKEN")
        if waiting[0] > QUEUE:
            raise _Refused(503, f"{QUEUE} requests wait already")
        waiting[0] += 1
        try:
            parts, size = [], 0
            async for part in request.stream():
                size += len(part)
                if size > most_bytes:
                    raise _Refused(413, f"a request has at most {most_bytes} bytes")
                parts.append(part)
            data = _contents(b"".join(parts), request.headers.get("content-type", ""))
            async with turn:
                return await asyncio.get_running_loop().run_in_executor(None, _read, reader, data)
        finally:
            waiting[0] -= 1

    async def endpoint(request: Any) -> Any:
        try:
            told, status = await answer(request), 200
        except _Refused as e:
            told, status = {"error": str(e)}, e.status
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        text = json.dumps(told, ensure_ascii=False)
        return responses.Response(text, status, media_type="application/json", headers=headers)

    app.router.routes.append(routing.Route(path, endpoint, methods=["POST"]))
    return app


def reading_application(reader: Any, token: str | None = None) -> Any:
    """An application that reads documents and does nothing else."""
    return add_reader(extra("starlette.applications", "serve", "to serve a reader").Starlette(), reader, token)


def _contents(body: bytes, kind: str) -> bytes:
    """The file of a request."""
    if not kind.startswith("application/json"):
        data = body
    else:
        try:
            data = base64.b64decode(json.loads(body)["file"], validate=True)
        except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
            raise _Refused(400, 'expected JSON with a file in base64, {"file": "..."}') from None
    if not data:
        raise _Refused(400, "expected an image or a PDF, got nothing")
    return data


def _read(reader: Any, data: bytes) -> dict[str, Any]:
    try:
        return {"pages": [page.to_dict() for page in reader.read(data)]}
    except (ValueError, OSError) as e:
        raise _Refused(400, str(e).splitlines()[0]) from None


guard_functions(globals())
