"""A server as a process: its sockets, what runs on them, and how it ends. A signal lets HTTP and gRPC finish what they accepted."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bireme.core.base import errors
from bireme.core.base.extras import extra

try:
    import fcntl
    import termios
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]  # in place of a module

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LONGEST_HEAD = 2**16  # bytes of a request's path and headers
ON_THE_WAY = 0.5  # seconds in which requests that were sent before the server was told to end come in


@dataclass(frozen=True)
class Options:
    """Where a server listens, and for how long it ends."""

    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None
    certificate: str | None = None
    key: str | None = None
    connections: int = 4096  # that HTTP holds open, at most
    calls: int = 2048  # of gRPC that are answered at once, at most
    message: int = 64 * 2**20  # bytes of one of them, at most
    idle: float = 5.0  # seconds that a connection stays open between requests
    silent: float = 20.0  # seconds that it may take to send the head of one
    stopping: float = 30.0  # seconds to finish what was accepted
    path: str = "/v2"  # what is told of

    def __post_init__(self) -> None:
        if self.connections < 1:
            raise errors.bad("connections", "a positive number", self.connections)
        if not self.stopping >= 0:
            raise errors.bad("stopping", "a non-negative number", self.stopping)
        if (self.certificate is None) != (self.key is None):
            raise errors.failure(
                "a certificate and its key belong together", hint="--certificate and --key", kind=ValueError
            )
        for name in filter(None, (self.certificate, self.key)):
            Path(name).read_bytes()  # an error has its name, and comes before models are loaded

    def address(self, port: int) -> str:
        """Host and port, as they stand in a URL."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"


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
    application: Any, listening: socket.socket, o: Options, service: Callable[[Any], None] | None = None
) -> None:
    """Answer requests until a signal comes, and finish what was accepted. `service` adds what is asked over gRPC to a server."""
    uvicorn: Any = extra("uvicorn", "serve", "to serve models")

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # gRPC ends by the same signals

    config = uvicorn.Config(
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
    try:
        config.load()
    except ssl.SSLError as e:
        message = f"{o.certificate} and {o.key} are no certificate and its key in PEM: {e.reason or e}"
        raise errors.failure(message, kind=ValueError) from None
    server = Server(config)
    rpc = await _rpc(service, o) if service is not None and o.grpc_port is not None else None
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
            _say(f"{'https' if o.certificate else 'http'}://{o.address(listening.getsockname()[1])}{o.path}")
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
    """uvicorn's protocol with a limit of a request's head: what it reads of one it keeps, however long it is. And with an end that
    waits for requests on connections that have none at the moment: closed at once, half of the clients under load, whose next
    requests are sent and not read yet, would lose them.
    """
    package: Any = extra("uvicorn.protocols.http.httptools_impl", "serve", "to serve models")

    class Protocol(package.HttpToolsProtocol):
        def __init__(self, *given: Any, **named: Any):
            super().__init__(*given, **named)
            self._begun, self._size, self._parts = False, 0, 0  # of a head
            self._ends = False

        def shutdown(self) -> None:
            self._ends = True
            if self.cycle is None or self.cycle.response_complete:
                self.loop.call_later(ON_THE_WAY, super().shutdown)
            else:
                super().shutdown()

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
            if self._ends:
                self.cycle.keep_alive = False  # the last one

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
    """Close connections of uvicorn's that have no request for so long, or whose client has taken nothing of its answer for so long.
    It waits for the head of a request, and for who reads an answer, for ever, so that clients which send nothing, or a letter from
    time to time, or read nothing, would take all connections and all memory there can be.
    """
    loop = asyncio.get_running_loop()
    # since when nothing changed, and what the request and what is unsent were then
    seen: dict[Any, tuple[float, Any]] = {}
    while True:
        await asyncio.sleep(seconds / 4)
        now, before, seen = loop.time(), seen, {}
        for connection in list(connections):
            request, unsent = connection.cycle, _unsent(connection.transport)
            if request is not None and not request.response_complete and not unsent:
                continue  # it is being answered
            since, last = before.get(connection, (now, (request, unsent)))
            same = last[0] is request and last[1] == unsent
            seen[connection] = (since if same else now, (request, unsent))
            if now - seen[connection][0] < seconds:
                continue
            if unsent:
                connection.transport.abort()
            else:
                connection.transport.close()


def _unsent(transport: Any) -> int:
    """Bytes that a client has not taken: those that wait here, and those that the system holds."""
    waiting, connected = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    if connected is None or connected.fileno() < 0 or fcntl is None:
        return waiting
    return waiting + struct.unpack("i", fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4)))[0]


async def _rpc(service: Callable[[Any], None], o: Options) -> Any:
    grpc = extra("grpc", "serve", "to serve models")
    sizes = [
        ("grpc.max_receive_message_length", o.message + 2**16),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),  # else a second server takes half of the requests, and nobody is told
    ]
    server = extra("grpc.aio", "serve", "to serve models").server(options=sizes, maximum_concurrent_rpcs=o.calls)
    service(server)
    address = o.address(o.grpc_port or 0)
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
    _say(f"gRPC on {o.address(port)}")
    return server


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
