"""The server over HTTP, an ASGI application: the Open Inference Protocol, models loaded and unloaded, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from bireme.core.base.extras import extra
from bireme.serve import protocol
from bireme.serve.metrics import Metrics
from bireme.serve.refusals import TOO_LARGE, Refused
from bireme.serve.repository import Repository
from bireme.version import full_version

EXTENSIONS = ["binary_tensor_data", "model_repository"]
LARGE = 2**16  # bytes that are read or written in a thread
OPEN = ("/v2/health/live", "/v2/health/ready")  # what needs no token
log = logging.getLogger("bireme.serve")


def application(repository: Repository, token: str | None = None) -> Any:
    """Make the ASGI application of a server, to be run by uvicorn or any other ASGI server.

    Args:
        repository: The models.
        token: What clients send as ``Authorization: Bearer TOKEN``. Default: None, nothing.

    Returns:
        An application of Starlette's.

    Raises:
        ImportError: If Starlette or prometheus_client is not installed.

    Examples:
        >>> app = bireme.serve.application(bireme.serve.Repository({}))
        >>> callable(app)
        True
    """
    server = _Server(repository, token)
    applications, routing = (
        extra("starlette.applications", "serve", "to serve models"),
        extra("starlette.routing", "serve", "to serve models"),
    )
    routes = [
        ("/v2", "GET", server.about),
        ("/v2/health/live", "GET", server.live),
        ("/v2/health/ready", "GET", server.ready),
        ("/v2/repository/index", "GET POST", server.index),
        ("/v2/repository/models/{model}/load", "POST", server.load),
        ("/v2/repository/models/{model}/unload", "POST", server.unload),
        ("/v2/models/{model}", "GET", server.metadata),
        ("/v2/models/{model}/ready", "GET", server.model_ready),
        ("/v2/models/{model}/infer", "POST", server.infer),
        ("/v2/models/{model}/versions/{version}", "GET", server.metadata),
        ("/v2/models/{model}/versions/{version}/ready", "GET", server.model_ready),
        ("/v2/models/{model}/versions/{version}/infer", "POST", server.infer),
        ("/metrics", "GET", server.metrics),
    ]

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        await repository.close()

    return applications.Starlette(
        routes=[
            routing.Route(path, server.guarded(answer), methods=methods.split()) for path, methods, answer in routes
        ],
        lifespan=lifespan,
    )


async def _aside(size: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """A function's result; where there is much to read or write, from a thread, so that other clients do not wait."""
    if size < LARGE:
        return function(*arguments)
    return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


class _Server:
    def __init__(self, repository: Repository, token: str | None):
        self._repository, self._token = repository, token
        self._counted = Metrics(repository)
        self._responses = extra("starlette.responses", "serve", "to serve models")

    def guarded(self, answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """An endpoint that asks for the token, counts and logs, and tells of what is refused."""

        async def endpoint(request: Any) -> Any:
            start = time.perf_counter()
            try:
                self._authorize(request)
                response = await answer(request)
            except Refused as e:
                response = self._json({"error": str(e)}, e.status)
                if e.status == 401:
                    response.headers["WWW-Authenticate"] = "Bearer"
            seconds = time.perf_counter() - start
            model = request.path_params.get("model", "")
            self._counted.request(model, response.status_code, seconds)
            log.info(
                json.dumps(
                    {
                        "method": request.method,
                        "path": request.url.path,
                        "status": response.status_code,
                        "ms": round(seconds * 1e3, 3),
                        "client": request.client.host if request.client else "",
                    }
                )
            )
            return response

        return endpoint

    def _authorize(self, request: Any) -> None:
        if self._token is None or request.url.path in OPEN:
            return
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            raise Refused(401, "expected the server's token as Authorization: Bearer TOKEN")

    def _json(self, told: Any, status: int = 200) -> Any:
        return self._responses.Response(json.dumps(told), status, media_type="application/json")

    async def about(self, request: Any) -> Any:
        return self._json({"name": "bireme", "version": full_version, "extensions": EXTENSIONS})

    async def live(self, request: Any) -> Any:
        return self._responses.Response()

    async def ready(self, request: Any) -> Any:
        return self._responses.Response(status_code=200 if self._repository.ready else 503)

    async def index(self, request: Any) -> Any:
        return self._json(self._repository.index())

    async def load(self, request: Any) -> Any:
        await self._repository.load(request.path_params["model"])
        return self._json({})

    async def unload(self, request: Any) -> Any:
        await self._repository.unload(request.path_params["model"])
        return self._json({})

    def _served(self, request: Any) -> Any:
        return self._repository.get(request.path_params["model"], request.path_params.get("version", ""))

    async def metadata(self, request: Any) -> Any:
        served = self._served(request)
        return self._json(served.metadata(self._repository.versions(served.name)))

    async def model_ready(self, request: Any) -> Any:
        return self._responses.Response(status_code=200 if self._served(request).ready else 503)

    async def infer(self, request: Any) -> Any:
        served = self._served(request)
        body, header = await self._body(request), request.headers.get(protocol.LENGTH)
        asked = await _aside(len(body), protocol.request, body, header)
        made = await served.infer(asked.inputs, asked.outputs)
        large = sum(array.nbytes for array in made.values())
        told, size = await _aside(large, protocol.answer, served.name, served.version, made, asked)
        if size is None:
            return self._responses.Response(told, media_type="application/json")
        headers = {protocol.LENGTH: str(size)}
        return self._responses.Response(told, media_type="application/octet-stream", headers=headers)

    async def _body(self, request: Any) -> bytes:
        """The request's body, given up as soon as it is too large."""
        most, parts, size = self._repository.limits.body, [], 0
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise Refused(TOO_LARGE, f"a request has at most {most} bytes")
            parts.append(part)
        return b"".join(parts)

    async def metrics(self, request: Any) -> Any:
        return self._responses.Response(*self._counted.shown())
