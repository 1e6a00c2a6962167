"""`bireme serve`: saved models behind HTTP and gRPC, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import sys
from pathlib import Path
from typing import Any

from bireme.core.base import errors
from bireme.core.base.extras import extra
from bireme.serve import Limits, Repository, application
from bireme.serve.grpc_service import add_service

DEFAULT = Limits()
STOPPING = 30  # seconds that a server has to finish what it accepted


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "models", nargs="+", metavar="[NAME=]MODEL", help="saved model, or a folder with versions 1, 2, ... of one"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="of HTTP (default: %(default)s; 0: any that is free)")
    parser.add_argument("--grpc-port", type=int, help="of gRPC (default: none)")
    parser.add_argument(
        "--token", help="what clients have to send; BIREME_TOKEN in the environment does the same. Needed off loopback"
    )
    parser.add_argument("--certificate", metavar="FILE", help="certificate, for TLS")
    parser.add_argument("--key", metavar="FILE", help="its private key")
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--batch", type=int, default=DEFAULT.batch, help="rows that run together; 1: none do (default: %(default)s)"
    )
    limits.add_argument(
        "--delay",
        type=float,
        default=DEFAULT.delay,
        metavar="S",
        help="seconds to wait for others (default: %(default)s)",
    )
    limits.add_argument(
        "--queue", type=int, default=DEFAULT.queue, help="requests of a model that wait (default: %(default)s)"
    )
    limits.add_argument(
        "--timeout",
        type=float,
        default=DEFAULT.timeout,
        metavar="S",
        help="seconds for a request (default: %(default)s)",
    )
    limits.add_argument(
        "--body", type=int, default=DEFAULT.body, metavar="BYTES", help="size of a request (default: %(default)s)"
    )
    parser.add_argument("--quiet", action="store_true", help="no line of JSON for each request")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; what was accepted is finished."""
    token = arguments.token or os.environ.get("BIREME_TOKEN") or None
    if token is None and not _is_loopback(arguments.host):
        message = f"{arguments.host} can be reached from other machines, so clients need a token"
        raise errors.failure(message, hint="--token, or BIREME_TOKEN in the environment", kind=ValueError)
    if (arguments.certificate is None) != (arguments.key is None):
        raise errors.failure("--certificate and --key belong together", kind=ValueError)
    limits = Limits(arguments.batch, arguments.delay, arguments.queue, arguments.timeout, arguments.body)
    repository = Repository(dict(_named(text) for text in arguments.models), limits)
    for model in repository.index():
        sys.stderr.write(f"{model['name']}, version {model['version']}: {model['reason'] or 'ready'}\n")
    logging.basicConfig(level=logging.WARNING if arguments.quiet else logging.INFO, format="%(message)s")
    asyncio.run(_serve(arguments, repository, token))
    return 0


def _named(text: str) -> tuple[str, str]:
    name, _, path = text.rpartition("=")
    if name:
        return name, path
    known = Path(path)
    return (known.parent.name if known.stem == "inference" and known.parent.name else known.stem), path


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _serve(arguments: argparse.Namespace, repository: Repository, token: str | None) -> None:
    uvicorn = extra("uvicorn", "serve", "to serve models")
    config = uvicorn.Config(
        application(repository, token),
        host=arguments.host,
        port=arguments.port,
        log_level="warning",
        access_log=False,
        ssl_certfile=arguments.certificate,
        ssl_keyfile=arguments.key,
        timeout_graceful_shutdown=STOPPING,
    )
    server = uvicorn.Server(config)
    rpc = await _rpc(arguments, repository, token) if arguments.grpc_port is not None else None
    telling = asyncio.create_task(_tell(server, "https" if arguments.certificate else "http", arguments.host))
    try:
        await server.serve()
    finally:
        telling.cancel()
        if rpc is not None:
            await rpc.stop(STOPPING)


async def _rpc(arguments: argparse.Namespace, repository: Repository, token: str | None) -> Any:
    grpc = extra("grpc", "serve", "to serve models")
    most = arguments.body + 2**16
    sizes = [("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", -1)]
    server = extra("grpc.aio", "serve", "to serve models").server(options=sizes)
    add_service(server, repository, token)
    address = (
        f"[{arguments.host}]:{arguments.grpc_port}"
        if ":" in arguments.host
        else f"{arguments.host}:{arguments.grpc_port}"
    )
    if arguments.certificate:
        pair = (Path(arguments.key).read_bytes(), Path(arguments.certificate).read_bytes())
        port = server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    else:
        port = server.add_insecure_port(address)
    await server.start()
    sys.stderr.write(f"gRPC on {arguments.host}:{port}\n")
    return server


async def _tell(server: Any, scheme: str, host: str) -> None:
    """Say where the server listens, once it does."""
    while not server.started:
        await asyncio.sleep(0.01)
    for listening in server.servers:
        for socket in listening.sockets:
            sys.stderr.write(f"{scheme}://{host}:{socket.getsockname()[1]}/v2\n")
    sys.stderr.flush()
