"""`bireme serve`: saved models behind HTTP and gRPC, until a signal ends it."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import logging
import os
import sys
from pathlib import Path

from bireme.command import port
from bireme.core.base import errors
from bireme.device import set_device
from bireme.inference.saved import PROGRAMS, WEIGHTS, is_language_model
from bireme.serve import LanguageModels, Limits, Repository, application, process
from bireme.serve.grpc_service import add_service

DEFAULT = Limits()
OPTIONS = ("host", "port", "grpc_port", "certificate", "key", "connections", "stopping")

EXAMPLES = """  bireme serve mnist=models/mnist
  bireme serve digits=models/digits talker=models/llama --grpc-port 8001 --warm
  BIREME_TOKEN=secret bireme serve mnist=models/mnist --host 0.0.0.0 --certificate cert.pem --key key.pem
  curl localhost:8000/v2/models/mnist
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument(
        "models",
        nargs="+",
        metavar="[NAME=]MODEL",
        help="saved model, a folder with versions 1, 2, ... of one, or one of a language model",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address (default: %(default)s)")
    parser.add_argument("--port", type=port, default=8000, help="of HTTP (default: %(default)s; 0: any that is free)")
    parser.add_argument("--grpc-port", type=port, help="of gRPC (default: none)")
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
    limits.add_argument(
        "--memory",
        type=int,
        default=DEFAULT.memory,
        metavar="BYTES",
        help="size of all requests that are being answered",
    )
    limits.add_argument(
        "--connections", type=int, default=4096, metavar="N", help="that are open at once (default: %(default)s)"
    )
    limits.add_argument(
        "--stopping",
        type=float,
        default=30,
        metavar="S",
        help="seconds to finish what was accepted (default: %(default)s)",
    )
    language = parser.add_argument_group("language models")
    language.add_argument(
        "--max-batch", type=int, default=16, metavar="N", help="requests that run together (default: 16)"
    )
    language.add_argument(
        "--max-length", type=int, default=2048, metavar="N", help="tokens of a prompt and its text (default: 2048)"
    )
    language.add_argument("--cache-bytes", type=int, metavar="N", help="size of the cache of keys and values")
    language.add_argument("--quantize", choices=["int8", "int4"], help="keep matrices as integers")
    parser.add_argument("--device", help="where models run, as gpu:0 (default: what bireme.get_device() says)")
    parser.add_argument(
        "--warm",
        action="store_true",
        help="compile for all sizes of batches, and kinds of texts, before requests are taken",
    )
    parser.add_argument("--quiet", action="store_true", help="no line of JSON for each request")


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; what was accepted is finished."""
    token = arguments.token or os.environ.get("BIREME_TOKEN") or None
    if token is None and not _is_loopback(arguments.host):
        message = f"{arguments.host} can be reached from other machines, so clients need a token"
        raise errors.failure(message, hint="--token, or BIREME_TOKEN in the environment", kind=ValueError)
    limits = Limits(
        **{name: getattr(arguments, name) for name in ("batch", "delay", "queue", "timeout", "body", "memory")}
    )
    calls = 2 * limits.queue * len(arguments.models)
    given = {name: getattr(arguments, name) for name in OPTIONS}
    options = process.Options(calls=calls, message=limits.body, **given)
    with process.bound(options.host, options.port) as listening:
        named: dict[str, str] = {}
        for name, path in map(_named, arguments.models):
            if name in named:
                raise errors.failure(
                    f"two models are named {name!r}: {named[name]} and {path}", hint="NAME=MODEL", kind=ValueError
                )
            named[name] = path
        spoken = {name: path for name, path in named.items() if is_language_model(path)}
        if arguments.device is not None:
            set_device(arguments.device)
        models = {name: path for name, path in named.items() if name not in spoken}
        repository = Repository(models, limits, warm=arguments.warm, device=arguments.device)
        for model in repository.index():
            sys.stderr.write(f"{model['name']}, version {model['version']}: {model['reason'] or 'ready'}\n")
        sizes = {name: getattr(arguments, name) for name in ("max_batch", "max_length", "cache_bytes", "quantize")}
        language = LanguageModels(spoken, queue=limits.queue, warm=arguments.warm, **sizes) if spoken else None
        for model in language.index() if language else []:
            sys.stderr.write(f"{model['name']}, a language model: {model['reason'] or 'ready'}\n")
        if all(model["reason"] for model in (*repository.index(), *(language.index() if language else []))):
            raise errors.failure("there is no model to serve, as none could be loaded", kind=ValueError)
        logging.basicConfig(level=logging.WARNING if arguments.quiet else logging.INFO, format="%(message)s")
        made = application(repository, token, language)
        asyncio.run(
            process.serve(made, listening, options, lambda server: add_service(server, repository, token, language))
        )
    return 0


def _named(text: str) -> tuple[str, str]:
    name, between, path = text.partition("=")
    if between and "/" not in name and not Path(text).exists():
        return name, path
    known = Path(os.path.abspath(text))
    # of others a point is a part of the name, as in llama-3.2
    if known.suffix in PROGRAMS + WEIGHTS and not known.is_dir():
        known = known.with_suffix("")
    return (known.parent.name if known.name == "inference" and known.parent.name else known.name), text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
