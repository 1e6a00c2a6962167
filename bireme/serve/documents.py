"""The reader of documents over HTTP: an image or a PDF is posted, its lines come back as JSON."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from typing import Any

from bireme.core.base.boundary import guard_functions
from bireme.core.base.extras import extra
from bireme.serve.clients import aside, authorize, body, while_connected
from bireme.serve.refusals import BAD, BUSY, NO_TOKEN, Held, Refused

MOST_BYTES = 64 * 2**20  # of a request
MEMORY = 2**30  # bytes of all of them
SECONDS = 30.0  # that a request may take to come
QUEUE = 16  # requests that wait while one is read


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
    waiting, turn, held = [0], asyncio.Semaphore(1), Held(MEMORY)  # a page uses all cores

    async def read(data: bytes) -> dict[str, Any]:
        waiting[0] += 1
        try:
            async with turn:
                return await asyncio.get_running_loop().run_in_executor(None, _read, reader, data)
        finally:
            waiting[0] -= 1

    async def answer(request: Any) -> dict[str, Any]:
        authorize(request, token)
        async with body(request, most_bytes, SECONDS, held) as sent:
            if waiting[0] > QUEUE:
                raise Refused(BUSY, f"{QUEUE} requests wait already")
            data = await aside(len(sent), _contents, sent, request.headers.get("content-type", ""))
            return await while_connected(request, read(data))

    async def endpoint(request: Any) -> Any:
        try:
            told, status = await answer(request), 200
        except Refused as e:
            told, status = {"error": str(e)}, e.status
        headers = {"WWW-Authenticate": "Bearer"} if status == NO_TOKEN else {}
        text = json.dumps(told, ensure_ascii=False)
        return responses.Response(text, status, media_type="application/json", headers=headers)

    app.router.routes.append(routing.Route(path, endpoint, methods=["POST"]))
    return app


def reading_application(reader: Any, token: str | None = None) -> Any:
    """An application that reads documents and does nothing else."""
    return add_reader(extra("starlette.applications", "serve", "to serve a reader").Starlette(), reader, token)


def _contents(sent: bytes, kind: str) -> bytes:
    """The file of a request."""
    if not kind.startswith("application/json"):
        data = sent
    else:
        try:
            data = base64.b64decode(json.loads(sent)["file"], validate=True)
        except (ValueError, KeyError, TypeError, binascii.Error, RecursionError):
            raise Refused(BAD, 'expected JSON with a file in base64, {"file": "..."}') from None
    if not data:
        raise Refused(BAD, "expected an image or a PDF, got nothing")
    return data


def _read(reader: Any, data: bytes) -> dict[str, Any]:
    try:
        return {"pages": [page.to_dict() for page in reader.read(data)]}
    except (ValueError, OSError) as e:
        raise Refused(BAD, str(e).splitlines()[0]) from None


guard_functions(globals())
