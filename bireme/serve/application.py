"""The server over HTTP, an ASGI application: the Open Inference Protocol, models loaded and unloaded, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from bireme.core.base.extras import extra
from bireme.serve import openai_form, protocol
from bireme.serve.clients import LARGE, LargeAnswer, aside, authorize, body, while_connected
from bireme.serve.language import LanguageModels
from bireme.serve.logs import tell
from bireme.serve.metrics import Metrics
from bireme.serve.openai import OpenAI
from bireme.serve.refusals import BROKEN, NO_TOKEN, UNKNOWN, Refused
from bireme.serve.repository import Repository
from bireme.version import full_version

EXTENSIONS = ["binary_tensor_data", "model_repository"]
OPEN = ("/v2/health/live", "/v2/health/ready")  # what needs no token
Route = tuple[str, str, Callable[[Any], Awaitable[Any]]]  # path, methods, and what answers


def application(repository: Repository, token: str | None = None, language: LanguageModels | None = None) -> Any:
    """Make the ASGI application of a server, to be run by uvicorn or any other ASGI server.

    Args:
        repository: The models.
        token: What clients send as ``Authorization: Bearer TOKEN``. Default: None, nothing.
        language: Language models, which are served in OpenAI's form. Default: None, none.

    Returns:
        An application of Starlette's.

    Raises:
        ImportError: If Starlette or prometheus_client is not installed.

    Examples:
        >>> app = bireme.serve.application(bireme.serve.Repository({}))
        >>> callable(app)
        True
    """
    server = _Server(repository, token, language)
    applications, routing = (
        extra("starlette.applications", "serve", "to serve models"),
        extra("starlette.routing", "serve", "to serve models"),
    )
    routes: list[Route] = [  # those that are asked for most stand first
        ("/v2/models/{model}/infer", "POST", server.infer),
        ("/v2", "GET", server.about),
        ("/v2/health/live", "GET", server.live),
        ("/v2/health/ready", "GET", server.ready),
        ("/v2/repository/index", "GET POST", server.index),
        ("/v2/repository/models/{model}/load", "POST", server.load),
        ("/v2/repository/models/{model}/unload", "POST", server.unload),
        ("/v2/models/{model}", "GET", server.metadata),
        ("/v2/models/{model}/ready", "GET", server.model_ready),
        ("/v2/models/{model}/versions/{version}", "GET", server.metadata),
        ("/v2/models/{model}/versions/{version}/ready", "GET", server.model_ready),
        ("/v2/models/{model}/versions/{version}/infer", "POST", server.infer),
        ("/metrics", "GET", server.metrics),
    ]
    if language is not None:
        routes += OpenAI(language, repository.limits.json, server.body).routes()

    @contextlib.asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        await repository.close()
        if language is not None:
            await asyncio.get_running_loop().run_in_executor(None, language.close)

    not_found = extra("starlette.exceptions", "serve", "to serve models").HTTPException
    return applications.Starlette(
        routes=[
            routing.Route(path, server.guarded(answer), methods=methods.split()) for path, methods, answer in routes
        ],
        exception_handlers={not_found: server.no_route, BROKEN: server.broken},
        lifespan=lifespan,
    )


class _Server:
    def __init__(self, repository: Repository, token: str | None, language: LanguageModels | None):
        self._repository, self._token, self._language = repository, token, language
        self._counted = Metrics(repository, language)
        self._responses = extra("starlette.responses", "serve", "to serve models")

    def guarded(self, answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """An endpoint that asks for the token, counts and logs, and tells of what is refused."""

        async def endpoint(request: Any) -> Any:
            start = time.perf_counter()
            try:
                if request.scope["path"] not in OPEN:
                    authorize(request, self._token)
                response = await answer(request)
            except Refused as e:
                response = self._refused(request, e)
                if e.status == NO_TOKEN:
                    response.headers["WWW-Authenticate"] = "Bearer"
            self._told(request, response.status_code, start)
            return response

        return endpoint

    def _refused(self, request: Any, e: Refused) -> Any:
        openai = request.scope["path"].startswith("/v1/")
        return self._json(openai_form.error(e) if openai else {"error": str(e)}, e.status)

    def _told(self, request: Any, status: int, start: float) -> None:
        model, seconds = request.path_params.get("model", ""), time.perf_counter() - start
        self._repository.on_request(model, status, seconds)
        client = request.scope.get("client")
        tell(request.method, request.scope["path"], status, seconds, client[0] if client else "")

    async def no_route(self, request: Any, error: Any) -> Any:
        """What Starlette refuses: paths and methods that there are not."""
        self._told(request, error.status_code, time.perf_counter())
        message = f"{request.method} {request.scope['path'][:200]}: {error.detail}"
        return self._refused(request, openai_form.Wrong(message, code="unknown_url", status=error.status_code))

    async def broken(self, request: Any, error: Any) -> Any:
        """An error that nobody expected; the server that runs the application logs it."""
        self._told(request, BROKEN, time.perf_counter())
        return self._refused(request, Refused(BROKEN, "the server failed; its log says why"))

    def _json(self, told: Any, status: int = 200) -> Any:
        return self._responses.Response(json.dumps(told), status, media_type="application/json")

    async def about(self, request: Any) -> Any:
        return self._json({"name": "bireme", "version": full_version, "extensions": EXTENSIONS})

    async def live(self, request: Any) -> Any:
        return self._responses.Response()

    async def ready(self, request: Any) -> Any:
        return self._responses.Response(
            status_code=200 if self._repository.ready and (self._language is None or self._language.ready) else 503
        )

    async def index(self, request: Any) -> Any:
        return self._json(self._repository.index())

    async def load(self, request: Any) -> Any:
        await self._repository.load(request.path_params["model"])
        return self._json({})

    async def unload(self, request: Any) -> Any:
        await self._repository.unload(request.path_params["model"])
        return self._json({})

    def _served(self, request: Any) -> Any:
        name = request.path_params["model"]
        try:
            return self._repository.get(name, request.path_params.get("version", ""))
        except Refused:
            if self._language is None or name not in [spoken.name for spoken in self._language.all()]:
                raise
            told = f"{name} is a language model: ask /v1/chat/completions or /v1/completions"
            raise Refused(UNKNOWN, told) from None

    async def metadata(self, request: Any) -> Any:
        served = self._served(request)
        return self._json(served.metadata(self._repository.versions(served.name)))

    async def model_ready(self, request: Any) -> Any:
        return self._responses.Response(status_code=200 if self._served(request).ready else 503)

    async def infer(self, request: Any) -> Any:
        served, header = self._served(request), request.headers.get(protocol.LENGTH)
        async with self.body(request) as sent:
            asked = await aside(len(sent), protocol.request, sent, header, self._repository.limits.json)
            made = await while_connected(request, served.infer(asked.inputs, asked.outputs))
            large = sum(array.nbytes for array in made.values())
            told, size = await aside(large, protocol.answer, served.name, served.version, made, asked)
        kind = "application/json" if size is None else "application/octet-stream"
        headers = {"content-type": kind, **({} if size is None else {protocol.LENGTH: str(size)})}
        if len(told) >= LARGE:
            return LargeAnswer(told, headers, self._repository.held)
        return self._responses.Response(told, headers=headers)

    def body(self, request: Any) -> AbstractAsyncContextManager[bytes]:
        """A request's body, within this server's limits."""
        limits = self._repository.limits
        return body(request, limits.body, limits.timeout, self._repository.held)

    async def metrics(self, request: Any) -> Any:
        return self._responses.Response(*self._counted.shown())
