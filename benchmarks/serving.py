"""A served model under load: requests per second and latencies of 1, 16 and 256 clients.

    python -m benchmarks.serving [--seconds 1.5] [--rounds 1] [--clients 1 16 256]
    python -m benchmarks.serving --minutes 10             # whether memory stays flat, under 64 clients

The same network of dense layers is asked for one row at a time, as raw float32: by `bireme serve`, by `bireme serve --batch 1`,
which runs each request alone, and by an application of FastAPI's, or of Starlette's where that is not installed, which runs the
same predictor in its thread pool. Where BentoML is installed it runs that predictor in batches of its own; it is asked in JSON, and
beside it `bireme serve` is too. Clients are connections of one process, each of which asks again when it has its answer.
Servers take turns; the last two columns, time of the processor, are usable where others use the machine too.
Floor: at 256 clients batches give at least twice the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import Floors, cell, head, median, table
from tools.server_process import ServerProcess

SERVERS = ("batched", "one by one", "plain", "batched, JSON", "BentoML, JSON")
WIDTH, LAYERS = 1024, 4
LENGTH = "inference-header-content-length"
FLAT = 32 << 20  # bytes that the server may grow by between the first quarter and the end


def network(folder: str, width: int) -> str:
    """Save a network of dense layers; its path."""
    import bireme
    from bireme import nn

    bireme.seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(width, width), nn.ReLU())]
    net = nn.Sequential(*layers, nn.Linear(width, 10), nn.Softmax())
    net.eval()
    path = os.path.join(folder, "net")
    bireme.jit.save(net, path, [bireme.static.InputSpec([None, width], "float32", "x")])
    return path


# ---------------------------------------------------------------- the plain server


def plain(path: str, width: int) -> None:
    """Serve the model as a few lines of an application do: a predictor, a lock, and the pool of threads."""
    import uvicorn

    from bireme import inference

    predictor, lock = inference.create_predictor(inference.Config(path)), threading.Lock()
    handle = predictor.get_input_handle("x")
    output = predictor.get_output_handle(predictor.get_output_names()[0])

    def run(body: bytes) -> bytes:
        with lock:
            handle.copy_from_cpu(np.frombuffer(body, "float32").reshape(-1, width))
            predictor.run()
            return output.copy_to_cpu().tobytes()

    try:
        from fastapi import FastAPI, Request, Response
    except ImportError:
        from starlette.applications import Starlette as FastAPI
        from starlette.requests import Request
        from starlette.responses import Response
    from starlette.concurrency import run_in_threadpool

    async def answer(request: Request) -> Response:
        made = await run_in_threadpool(run, await request.body())
        return Response(made, media_type="application/octet-stream")

    application = FastAPI()
    application.add_route("/infer", answer, methods=["POST"])
    config = uvicorn.Config(application, port=0, log_level="warning", access_log=False)
    server = uvicorn.Server(config)

    async def go() -> None:
        work = asyncio.ensure_future(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        print(server.servers[0].sockets[0].getsockname()[1], flush=True)
        await work

    asyncio.run(go())


class Plain:
    """The plain server, as a process of its own."""

    def __init__(self, path: str, width: int):
        command = [sys.executable, "-m", "benchmarks.serving", "--plain", path, "--width", str(width)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait()


class Bento:
    """BentoML's server, whose process has others."""

    def __init__(self, path: str, width: int):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-m", "bentoml", "serve", "benchmarks.serving_bento:Net", "--port", str(self.port)]
        own = {"BIREME_BENCHMARK_MODEL": path, "BENTOML_DO_NOT_TRACK": "True"}
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **own},
            start_new_session=True,
        )
        end = time.monotonic() + 120
        while True:
            try:
                asyncio.run(load(self.port, request("BentoML, JSON", width), 1, 0))
                return
            except (OSError, RuntimeError):  # it is not there yet
                if self.process.poll() is not None or time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def __enter__(self) -> Bento:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.terminate()  # it ends its own
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


# ---------------------------------------------------------------- clients


def request(name: str, width: int) -> bytes:
    """What a client sends, all of it."""
    row = np.random.default_rng(0).standard_normal((1, width)).astype("float32")
    if name.endswith("JSON"):
        ours = {"inputs": [{"name": "x", "shape": [1, width], "datatype": "FP32", "data": row[0].tolist()}]}
        told = json.dumps(ours if name.startswith("batched") else {"x": row.tolist()})
        path = "/v2/models/net/infer" if name.startswith("batched") else "/infer"
        lines = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(told)}"
        return f"{lines}\r\n\r\n{told}".encode()
    x = row.tobytes()
    if name == "plain":
        return f"POST /infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(x)}\r\n\r\n".encode() + x
    one = {"name": "x", "shape": [1, width], "datatype": "FP32", "parameters": {"binary_data_size": len(x)}}
    told = json.dumps({"inputs": [one], "parameters": {"binary_data_output": True}})
    lines = f"POST /v2/models/net/infer HTTP/1.1\r\nhost: x\r\n{LENGTH}: {len(told)}\r\ncontent-length: {len(told) + len(x)}"
    return f"{lines}\r\n\r\n{told}".encode() + x


class Client(asyncio.Protocol):
    """A connection that asks again as soon as it is answered, until the time is over. What the client takes of the processor,
    the server does not have: it looks at no more than the lengths of answers.
    """

    def __init__(self, sent: bytes, until: float, seconds: list[float]):
        self._sent, self._until, self._seconds = sent, until, seconds
        self._found, self._start, self._size = b"", 0.0, 0
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._found, self._size, self._start = b"", 0, time.perf_counter()
        self._transport.write(self._sent)

    def data_received(self, data: bytes) -> None:
        self._found = self._found + data if self._found else data
        if not self._size:
            at = self._found.find(b"\r\n\r\n")
            if at < 0:
                return
            self._size = at + 4 + int(self._found[:at].lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._found) < self._size:
            return
        now = time.perf_counter()
        if not self._found.startswith(b"HTTP/1.1 200"):
            self.done.set_exception(RuntimeError(self._found.decode("latin-1")))
        elif now >= self._until:
            self._transport.close()
            self.done.set_result(None)
        else:
            self._seconds.append(now - self._start)
            self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or RuntimeError("the server closed a connection"))


async def load(port: int, sent: bytes, clients: int, seconds: float) -> tuple[float, list[float]]:
    """Requests per second, and the seconds that each took."""
    loop = asyncio.get_running_loop()
    took: list[float] = []
    start = time.perf_counter()
    made = [
        (await loop.create_connection(lambda: Client(sent, start + seconds, took), "127.0.0.1", port))[1]
        for _ in range(clients)
    ]
    await asyncio.gather(*[one.done for one in made])
    return len(took) / (time.perf_counter() - start), took


# ---------------------------------------------------------------- the tables


def processor(server: Any) -> float:
    """Seconds that a server's processes have had of the processor."""
    total, left = 0, [server.process.pid]
    while left:
        one = left.pop()
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
        for thread in Path(f"/proc/{one}/task").iterdir():
            left += map(int, (thread / "children").read_text().split())
    return total / os.sysconf("SC_CLK_TCK")


def started(name: str, path: str, width: int) -> Any:
    if name == "plain":
        return Plain(path, width)
    if name.startswith("BentoML"):
        return Bento(path, width)
    return ServerProcess(f"net={path}", "--quiet", "--warm", *(["--batch", "1"] if name == "one by one" else []))


def measure(options: argparse.Namespace) -> int:
    head(
        "serving",
        f"a network of {LAYERS} dense layers of width {options.width}, asked for single rows; {options.seconds} s of each server",
    )
    floors, rows = Floors(), []
    with tempfile.TemporaryDirectory() as folder:
        path = network(folder, options.width)
        servers: dict[str, Any] = {}
        for name in options.servers:
            if name.startswith("BentoML") and importlib.util.find_spec("bentoml") is None:
                print("BentoML is not installed\n")
                continue
            shared = servers.get("batched") if name == "batched, JSON" else None
            servers[name] = shared or started(name, path, options.width)
        try:
            for name, server in servers.items():
                asyncio.run(load(server.port, request(name, options.width), 16, min(0.5, options.seconds)))
            for clients in options.clients:
                rates: dict[str, list[float]] = {name: [] for name in servers}
                took: dict[str, list[float]] = {name: [] for name in servers}
                busy, own = dict.fromkeys(servers, 0.0), dict.fromkeys(servers, 0.0)
                for _ in range(options.rounds):
                    for name, server in servers.items():
                        before, mine = processor(server), time.process_time()
                        rate, each = asyncio.run(
                            load(server.port, request(name, options.width), clients, options.seconds)
                        )
                        rates[name].append(rate)
                        took[name] += each
                        busy[name] += processor(server) - before
                        own[name] += time.process_time() - mine
                best = {name: "batched, JSON" if name.endswith("JSON") else "batched" for name in servers}
                by = {name: median(rates[best[name]]) / median(rates[name]) for name in servers if best[name] in rates}
                for name in servers:
                    p50, p99 = np.percentile(took[name], [50, 99]) * 1e3
                    costs = [cell(spent[name] / len(took[name]) * 1e3) for spent in (busy, own)]
                    cells = [
                        f"{median(rates[name]):,.0f}",
                        f"{p50:.1f}",
                        f"{p99:.1f}",
                        cell(by.get(name, float("nan"))),
                        *costs,
                    ]
                    rows.append([f"{clients} clients, {name}", *cells])
                if clients == max(options.clients) and "one by one" in by:
                    floors.at_most(f"{clients} clients: one by one / batched", 1 / by["one by one"], 0.5)
        finally:
            for server in servers.values():
                server.__exit__(None, None, None)
    table(("server", "requests/s", "p50 ms", "p99 ms", "batched / it", "processor ms/request", "the client's"), rows)
    return floors.show()


def endure(options: argparse.Namespace) -> int:
    """Load for minutes, and the memory of the server at intervals."""
    head("serving, memory", f"64 clients for {options.minutes:g} minutes; MiB of the server")
    floors, seen = Floors(), []
    with (
        tempfile.TemporaryDirectory() as folder,
        started("batched", network(folder, options.width), options.width) as server,
    ):
        for n in range(20):
            rate, _ = asyncio.run(load(server.port, request("batched", options.width), 64, options.minutes * 3))
            seen.append(server.memory)
            print(
                f"{(n + 1) * options.minutes / 20:6.1f} min  {server.memory / 2**20:8.1f} MiB  {rate:8,.0f} requests/s",
                flush=True,
            )
    print()
    floors.at_most("growth of memory after the first quarter", (seen[-1] - seen[4]) / 2**20, FLAT / 2**20, " MiB")
    return floors.show()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each server and number of clients")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=list(SERVERS))
    parser.add_argument("--width", type=int, default=WIDTH, help="of the layers (default: %(default)s)")
    parser.add_argument("--minutes", type=float, help="load for so long, and look at memory")
    parser.add_argument("--plain", metavar="MODEL", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.plain:
        plain(options.plain, options.width)
        return 0
    return endure(options) if options.minutes else measure(options)


if __name__ == "__main__":
    sys.exit(main())
