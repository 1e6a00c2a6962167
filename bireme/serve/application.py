"""The server over HTTP, an ASGI application: the Open Inference Protocol, models loaded and unloaded, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

from bireme.core.base.extras import extra
from bireme.serve import openai_form, protocol
from bireme.serve.language import LanguageModels
from bireme.serve.logs import tell
from bireme.serve.metrics import Metrics
from bireme.serve.openai import OpenAI
from bireme.serve.refusals import BROKEN, GONE, SLOW, TOO_LARGE, Refused
from bireme.serve.repository import Repository
from bireme.version import full_version

EXTENSIONS = ["binary_tensor_data", "model_repository"]
LARGE = 2**16  # bytes that are read or written in a thread
OPEN = ("/v2/health/live", "/v2/health/ready")  # what needs no token
Route = tuple[str, str, Callable[[Any], Awaitable[Any]]]  # path, methods, and what answers
PATIENCE = 0.05  # seconds after which a client that waits is looked after


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
        routes += OpenAI(language, repository.limits.json, server.body, aside, while_connected).routes()

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


class _Server:
    def __init__(self, repository: Repository, token: str | None, language: LanguageModels | None):
        self._repository, self._token, self._language = repository, token, language
        self._counted = Metrics(repository, language)
        self._responses = extra("starlette.responses", "serve", "to serve models")
        self._gone = extra("starlette.requests", "serve", "to serve models").ClientDisconnect

    def guarded(self, answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        """An endpoint that asks for the token, counts and logs, and tells of what is refused."""

        async def endpoint(request: Any) -> Any:
            start = time.perf_counter()
            try:
                self._authorize(request)
                response = await answer(request)
            except Refused as e:
                response = self._refused(request, e)
                if e.status == 401:
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

    def _authorize(self, request: Any) -> None:
        if self._token is None or request.scope["path"] in OPEN:
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
        return self._repository.get(request.path_params["model"], request.path_params.get("version", ""))

    async def metadata(self, request: Any) -> Any:
        served = self._served(request)
        return self._json(served.metadata(self._repository.versions(served.name)))

    async def model_ready(self, request: Any) -> Any:
        return self._responses.Response(status_code=200 if self._served(request).ready else 503)

    async def infer(self, request: Any) -> Any:
        served, header = self._served(request), request.headers.get(protocol.LENGTH)
        async with self.body(request) as body:
            asked = await aside(len(body), protocol.request, body, header, self._repository.limits.json)
            made = await while_connected(request, served.infer(asked.inputs, asked.outputs))
            large = sum(array.nbytes for array in made.values())
            told, size = await aside(large, protocol.answer, served.name, served.version, made, asked)
        if size is None:
            return self._responses.Response(told, media_type="application/json")
        headers = {protocol.LENGTH: str(size)}
        return self._responses.Response(told, media_type="application/octet-stream", headers=headers)

    @contextlib.asynccontextmanager
    async def body(self, request: Any) -> AsyncIterator[bytes]:
        """The request's body, held while it is answered; given up as soon as it is too large or takes too long."""
        most, held, parts, size = self._repository.limits.body, self._repository.held, [], 0
        try:
            async with asyncio.timeout(self._repository.limits.timeout):
                async for part in request.stream():
                    if size + len(part) > most:
                        raise Refused(TOO_LARGE, f"a request has at most {most} bytes")
                    held.take(len(part))
                    size += len(part)
                    parts.append(part)
            yield parts[0] if len(parts) == 1 else b"".join(parts)
        except TimeoutError:
            raise Refused(SLOW, f"the request was not there within {self._repository.limits.timeout:g} s") from None
        except self._gone:
            raise Refused(GONE, "the client went away") from None
        finally:
            held.give(size)

    async def metrics(self, request: Any) -> Any:
        return self._responses.Response(*self._counted.shown())
