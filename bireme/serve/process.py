"""A server as a process: its sockets, what runs on them, and how it ends. A signal lets HTTP and gRPC finish what they accepted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.serve.grpc_service import add_service
from bireme.serve.repository import Repository

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LONGEST_HEAD = 2**16  # bytes of a request's path and headers


@dataclass(frozen=True)
class Options:
    """Where a server listens, and for how long it ends."""

    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None
    certificate: str | None = None
    key: str | None = None
    connections: int = 4096  # that HTTP holds open, at most
    idle: float = 5.0  # seconds that a connection stays open between requests
    silent: float = 20.0  # seconds that it may take to send the head of one
    stopping: float = 30.0  # seconds to finish what was accepted


def bound(host: str, port: int) -> socket.socket:
    """A socket that has its port, and does not listen yet: a port that is taken is known before models are loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of a server that was just killed
        made.bind(address)
    except (OSError, OverflowError) as e:
        message = f"nothing can listen on port {port} of {host}: {e}"
        raise errors.failure(message, hint="--port 0 takes one that is free", kind=OSError) from None
    return made


async def serve(
    application: Any, repository: Repository, listening: socket.socket, token: str | None, o: Options
) -> None:
    """Answer requests until a signal comes, and finish what was accepted."""
    uvicorn: Any = extra("uvicorn", "serve", "to serve models")

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # gRPC ends by the same signals

    server = Server(
        uvicorn.Config(
            application,
            http=_protocol(),
            log_level="warning",
            access_log=False,
            ws="none",
            limit_concurrency=o.connections,
            timeout_keep_alive=o.idle,
            ssl_certfile=o.certificate,
            ssl_keyfile=o.key,
            timeout_graceful_shutdown=o.stopping,
        )
    )
    rpc = await _rpc(repository, token, o) if o.grpc_port is not None else None
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def end() -> None:
        server.should_exit, server.force_exit = True, ended.is_set()  # the second signal does not wait
        ended.set()

    for number in SIGNALS:
        loop.add_signal_handler(number, end)
    work = asyncio.ensure_future(server.serve([listening]))
    watching = asyncio.ensure_future(hang_up(server.server_state.connections, o.silent))
    try:
        while not server.started and not work.done():
            await asyncio.sleep(0.01)
        if server.started:
            _say(f"{'https' if o.certificate else 'http'}://{o.host}:{listening.getsockname()[1]}/v2")
        await asyncio.wait({work, waiting := asyncio.ensure_future(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if rpc is not None:
            await rpc.stop(0 if server.force_exit else o.stopping)
        await work
    finally:
        watching.cancel()
        for number in SIGNALS:
            loop.remove_signal_handler(number)


def _protocol() -> Any:
    """uvicorn's protocol with a limit of a request's head: what it reads of one it keeps, however long it is."""
    package: Any = extra("uvicorn.protocols.http.httptools_impl", "serve", "to serve models")

    class Protocol(package.HttpToolsProtocol):
        def __init__(self, *given: Any, **named: Any):
            super().__init__(*given, **named)
            self._begun, self._size, self._parts = False, 0, 0  # of a head

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._begun, self._size, self._parts = True, 0, 0

        def on_url(self, url: bytes) -> None:
            self._count(len(url))
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count(len(name) + len(value))
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._begun = False
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            begun = self._begun
            super().data_received(data)
            if begun and self._begun:  # a header is told when it is whole, and kept until then
                self._parts += len(data)
                if self._parts > LONGEST_HEAD:
                    self.send_400_response("the head of a request is too long")

        def _count(self, size: int) -> None:
            self._size += size
            if self._size > LONGEST_HEAD:
                raise ValueError("the head of a request is too long")  # the parser ends, and 400 is answered

    return Protocol


async def hang_up(connections: set[Any], seconds: float) -> None:
    """Close connections of uvicorn's that have no request for so long. It waits for the head of a request for ever, so that
    clients which send nothing, or a letter from time to time, would take all connections there can be.
    """
    loop = asyncio.get_running_loop()
    seen: dict[Any, tuple[float, Any]] = {}  # since when there is nothing, and the request before that
    while True:
        await asyncio.sleep(seconds / 4)
        now, before, seen = loop.time(), seen, {}
        for connection in list(connections):
            request = connection.cycle
            if request is not None and not request.response_complete:
                continue
            since, last = before.get(connection, (now, request))
            seen[connection] = (since if last is request else now, request)
            if now - seen[connection][0] >= seconds:
                connection.transport.close()


async def _rpc(repository: Repository, token: str | None, o: Options) -> Any:
    grpc = extra("grpc", "serve", "to serve models")
    sizes = [
        ("grpc.max_receive_message_length", repository.limits.body + 2**16),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),  # else a second server takes half of the requests, and nobody is told
    ]
    most = repository.limits.queue * max(len(repository.all()), 1)
    server = extra("grpc.aio", "serve", "to serve models").server(options=sizes, maximum_concurrent_rpcs=2 * most)
    add_service(server, repository, token)
    address = f"[{o.host}]:{o.grpc_port}" if ":" in o.host else f"{o.host}:{o.grpc_port}"
    try:
        if o.certificate and o.key:
            pair = (Path(o.key).read_bytes(), Path(o.certificate).read_bytes())
            port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        else:
            port = server.add_insecure_port(address)
    except RuntimeError:
        message = f"gRPC cannot listen on port {o.grpc_port} of {o.host}"
        raise errors.failure(message, hint="--grpc-port 0 takes one that is free", kind=OSError) from None
    await server.start()
    _say(f"gRPC on {o.host}:{port}")
    return server


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
