"""Damaged and hostile requests over real sockets: mutates requests to a server of `bireme serve` and looks at what it answers.

    python -m tools.fuzz_server                            # 10,000 requests of all kinds
    python -m tools.fuzz_server json grpc --requests 50000 --seed 7
    python -m tools.fuzz_server binary --seed 7 --start 1234 --requests 1

Kinds are the bodies of HTTP as JSON and with raw tensors, messages of gRPC, prompts in OpenAI's form, and whole requests of
HTTP, byte by byte. What is done follows from the kind, the seed and the number of the request, which each failure is printed
with. A request is either answered, or refused with a status of 400 to 499 and a sentence; the server neither fails, nor hangs,
nor grows, and right requests in between are answered as ever.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import json
import random
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bireme
from bireme import nn
from bireme.static import InputSpec
from tests.served_language import write_folder
from tools.fuzz_files import arguments, bytes_changed, finish, json_changed, progress
from tools.server_process import ServerProcess

SECONDS = 30  # that an answer may take
MEMORY = 64 << 20  # bytes that the server may grow by after the first tenth of the requests
BETWEEN = 100  # requests between two that are right
LENGTH = "inference-header-content-length"
REFUSED = {"INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED"}


class Lookup(nn.Layer):
    """Rows of a table by numbers, which may be out of range."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)

    def forward(self, ids: Any) -> Any:
        return self.table(ids)


def models(folder: Path) -> list[str]:
    """Write a few small models; the arguments that name them."""
    bireme.seed(0)
    nets: dict[str, tuple[nn.Layer, list[int | None], str]] = {
        "double": (nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), [None, 4], "float32"),
        "lookup": (Lookup(), [None, None], "int64"),
        "fixed": (nn.Softmax(), [2, 2], "float32"),
    }
    for name, (net, shape, dtype) in nets.items():
        net.eval()
        bireme.jit.save(net, str(folder / name), [InputSpec(shape, dtype, "x")])
    return [f"{name}={folder / name}" for name in nets]


# ---------------------------------------------------------------- right requests


def _seeds() -> list[tuple[str, str, np.ndarray]]:
    return [
        ("double", "FP32", np.ones((2, 4), "float32")),
        ("lookup", "INT64", np.array([[0, 1, 4], [2, 3, 3]])),
        ("fixed", "FP32", np.ones((2, 2), "float32")),
    ]


def json_body(model: str, datatype: str, x: np.ndarray) -> bytes:
    """A request as JSON."""
    one = {"name": "x", "shape": list(x.shape), "datatype": datatype, "data": x.tolist(), "parameters": {}}
    return json.dumps({"id": "a", "inputs": [one], "parameters": {"binary_data_output": False}}).encode()


def binary_body(model: str, datatype: str, x: np.ndarray) -> tuple[bytes, int]:
    """A request with a raw tensor, and the size of its JSON."""
    one = {"name": "x", "shape": list(x.shape), "datatype": datatype, "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [one], "parameters": {"binary_data_output": True}}).encode()
    return head + x.tobytes(), len(head)


def _field(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def grpc_message(model: str, datatype: str, x: np.ndarray, typed: bool = False) -> bytes:
    """A request as a message of gRPC, with a raw tensor or with numbers in a field of their kind."""
    tensor = _field(1, b"x") + _field(2, datatype.encode()) + _field(3, bytes(x.shape))
    if typed:
        numbers = _field(6, x.tobytes()) if x.dtype == np.float32 else _field(3, bytes(x.reshape(-1).tolist()))
        return _field(1, model.encode()) + _field(5, tensor + _field(5, numbers))
    return _field(1, model.encode()) + _field(3, b"a") + _field(5, tensor) + _field(7, x.tobytes())


# ---------------------------------------------------------------- sending


class Client:
    """Connections to a server, made anew when they break."""

    def __init__(self, server: ServerProcess, grpc: Any):
        self._server = server
        self._http: http.client.HTTPConnection | None = None
        self._channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        self._infer = self._channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        self._grpc = grpc

    def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Status and body of an answer; a connection that the server closed meanwhile is made anew."""
        for last in (False, True):
            if self._http is None:
                self._http = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=SECONDS)
            try:
                self._http.request("POST", path, body, headers)
                answer = self._http.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, ConnectionError):
                self.close()
                if last:
                    raise
        raise AssertionError("one of two attempts returns or raises")

    def raw(self, data: bytes) -> int:
        """The status that bytes on a connection of their own are answered with; 0: the server closed it without any."""
        with socket.create_connection(("127.0.0.1", self._server.port), timeout=SECONDS) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            found = b""
            with contextlib.suppress(ConnectionError):
                while part := connection.recv(65536):
                    found += part
        return int(found[9:12]) if found.startswith(b"HTTP/1.1 ") else 0

    def infer(self, message: bytes) -> tuple[str, bytes]:
        """The code of gRPC and the answer or what is told."""
        try:
            return "OK", self._infer(message, timeout=SECONDS)
        except self._grpc.RpcError as e:
            return e.code().name, e.details().encode()

    def close(self) -> None:
        """Close the connection over HTTP."""
        if self._http is not None:
            self._http.close()
            self._http = None


# ---------------------------------------------------------------- kinds


def _infer_path(model: str) -> str:
    return f"/v2/models/{model}/infer"


def _changed(data: bytes, rng: random.Random, text: bool) -> bytes:
    for _ in range(rng.randrange(1, 4)):
        data = bytes_changed(data, rng, text)
    return data


def _wrong_http(status: int, body: bytes) -> str | None:
    if status == 200:
        return None
    if not 400 <= status < 500:
        return f"status {status}: {body[:200]!r}"
    told = json.loads(body).get("error")
    return None if told and len(str(told)) < 2000 else f"status {status} without a sentence: {body[:200]!r}"


def _json(client: Client, rng: random.Random) -> str | None:
    seed = rng.choice(_seeds())
    body = json_body(*seed)
    body = json_changed(body, rng) if rng.random() < 0.7 else _changed(body, rng, text=True)
    return _wrong_http(*client.post(_infer_path(seed[0]), body, {}))


def _binary(client: Client, rng: random.Random) -> str | None:
    seed = rng.choice(_seeds())
    body, size = binary_body(*seed)
    kind = rng.randrange(3)
    if kind == 0:  # the JSON, whose size is told right
        head = json_changed(body[:size], rng)
        body, size = head + body[size:], len(head)
    elif kind == 1:
        body = _changed(body, rng, text=False)
    told = (
        str(size)
        if rng.random() < 0.8
        else rng.choice(["", "-1", "0", "0" * 5000, "9" * 30, "1e3", "x", str(size + 1)])
    )
    return _wrong_http(*client.post(_infer_path(seed[0]), body, {LENGTH: told}))


def _grpc(client: Client, rng: random.Random) -> str | None:
    seed = rng.choice(_seeds())
    message = _changed(grpc_message(*seed, typed=rng.random() < 0.5), rng, text=False)
    code, told = client.infer(message)
    return None if code == "OK" or (code in REFUSED and told) else f"{code}: {told[:200]!r}"


def _raw(client: Client, rng: random.Random) -> str | None:
    seed = rng.choice(_seeds())
    body, size = binary_body(*seed)
    lines = [f"POST {_infer_path(seed[0])} HTTP/1.1", "host: x", f"{LENGTH}: {size}", f"content-length: {len(body)}"]
    if rng.random() < 0.2:
        lines = [f"GET /v2/models/{seed[0]} HTTP/1.1", "host: x"]
    data = _changed("\r\n".join([*lines, "", ""]).encode() + body, rng, text=rng.random() < 0.5)
    status = client.raw(data)
    return None if status in (0, 100, 200) or 400 <= status < 500 else f"status {status}"


_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"w1": [2]}'}}
TALK = [
    {"role": "user", "content": "w1"},
    {"role": "assistant", "content": None, "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "c", "content": "w2"},
]
_SCHEMA = {"type": "object", "properties": {"x": {"enum": [1, "w2"]}, "y": {"$ref": "#/$defs/z"}}, "required": ["x"]}
_FUNCTION = {"name": "f", "description": "w3", "parameters": {**_SCHEMA, "$defs": {"z": {"type": "integer"}}}}
TOOLS = [{"type": "function", "function": _FUNCTION}, {"type": "function", "function": {"name": "g", "strict": True}}]


def openai_request(rng: random.Random, logprobs: bool = True) -> tuple[str, bytes]:
    """A mutated request in OpenAI's form: path and body. `logprobs` asks for them, which takes programs of their own."""
    both = {
        "model": "tiny",
        "max_tokens": 3,
        "temperature": 0.5,
        "top_p": 0.9,
        "n": 2,
        "stop": ["w3"],
        "seed": 1,
        "stream": False,
    }
    seeds: list[tuple[str, dict[str, Any]]] = [
        (
            "/v1/chat/completions",
            {**both, "messages": [{"role": "user", "content": "w1"}], "temperature": 0.5, "logprobs": False},
        ),
        (
            "/v1/completions",
            {
                **both,
                "prompt": ["w1 w2", "w3"],
                "logprobs": 1 if logprobs else None,
                "echo": False,
                "stream_options": None,
            },
        ),
        ("/v1/chat/completions", {**both, "messages": TALK, "tools": TOOLS, "tool_choice": "auto"}),
        ("/v1/embeddings", {"model": "tiny", "input": ["w1", "w2"], "encoding_format": "base64"}),
        ("/v1/chat/completions", {**both, "messages": TALK[:1], "logit_bias": {"3": -100, "7": 1.5}}),
        (
            "/v1/responses",
            {"model": "tiny", "input": TALK[:1], "instructions": "w3", "max_output_tokens": 3, "text": None},
        ),
    ]
    path, told = rng.choice(seeds)
    body = json.dumps(told).encode()
    return path, json_changed(body, rng) if rng.random() < 0.8 else _changed(body, rng, text=True)


def _openai(client: Client, rng: random.Random) -> str | None:
    path, body = openai_request(rng)
    return wrong_openai(*client.post(path, body, {}))


def wrong_openai(status: int, body: bytes) -> str | None:
    """What is wrong with an answer in OpenAI's form; None: nothing is."""
    if status == 200:
        return f"an error in a stream: {body[-300:]!r}" if b'"server_error"' in body else None
    if not 400 <= status < 500:
        return f"status {status}: {body[:200]!r}"
    told = json.loads(body)["error"]
    right = set(told) == {"message", "type", "param", "code"} and 0 < len(told["message"]) < 2000
    return None if right else f"status {status} in another form: {body[:200]!r}"


KINDS: dict[str, Callable[[Client, random.Random], str | None]] = {
    "json": _json,
    "binary": _binary,
    "grpc": _grpc,
    "raw": _raw,
}
if all(importlib.util.find_spec(name) for name in ("tokenizers", "jinja2")):  # what language models need
    KINDS["openai"] = _openai


# ---------------------------------------------------------------- running


def _right(client: Client) -> str | None:
    """What is wrong with answers to right requests."""
    for model, datatype, x in _seeds():
        status, plain = client.post(_infer_path(model), json_body(model, datatype, x), {})
        body, size = binary_body(model, datatype, x)
        status_raw, raw = client.post(_infer_path(model), body, {LENGTH: str(size)})
        codes = [client.infer(grpc_message(model, datatype, x, typed))[0] for typed in (False, True)]
        if (status, status_raw, codes) != (200, 200, ["OK", "OK"]):
            return f"right requests to {model}: {status} {status_raw} {codes} {plain[:200]!r} {raw[:200]!r}"
        data = json.loads(plain)["outputs"][0]["data"]
        if not np.allclose(np.frombuffer(raw[-4 * len(data) :], "<f4"), data, rtol=1e-6):
            return f"right requests to {model} have different results"
    return None


@contextlib.contextmanager
def started() -> Iterator[tuple[ServerProcess, Client]]:
    """A server of a few small models, and a client."""
    import grpc

    with tempfile.TemporaryDirectory() as folder:
        named = models(Path(folder))
        if "openai" in KINDS:
            write_folder(Path(folder) / "tiny")
            named += [f"tiny={folder}/tiny", "--max-batch", "4", "--max-length", "64", "--warm"]
        with ServerProcess(*named, "--grpc-port", "0", "--quiet") as server:
            yield server, Client(server, grpc)


def check(
    server: ServerProcess, client: Client, kinds: list[str], requests: int, seed: int, start: int = 0,
    told: Callable[[int], None] | None = None,
) -> list[str]:  # fmt: skip
    """Send mutated requests; what went wrong, in a line each."""
    failures, memory = [], 0
    for n in range(start, start + requests):
        kind = kinds[n % len(kinds)]
        try:
            wrong = KINDS[kind](client, random.Random(f"{kind} {seed} {n}"))
            if n % BETWEEN == 0 or n == start + requests - 1:
                wrong = wrong or _right(client)
        except (OSError, http.client.HTTPException, ValueError) as e:
            wrong = f"{type(e).__name__}: {e}"
        if wrong is not None:
            failures.append(f"{kind} --seed {seed} --start {n} --requests 1  # {wrong}")
            if server.process.poll() is not None:
                return [*failures, f"the server ended: {''.join(server.lines[-20:])}"]
        if n - start == requests // 10:
            memory = server.memory
        if told is not None and n % 100 == 0:
            told(n - start)
    grown = server.memory - memory
    if requests >= 1000 and grown > MEMORY:
        failures.append(f"--seed {seed}  # the server grew by {grown >> 20} MiB, from {memory >> 20}")
    return failures


def main() -> None:
    given = arguments(__doc__, KINDS, "requests", 10_000)
    with started() as (server, client):
        before = server.memory
        failures = check(server, client, given.kinds, given.count, given.seed, given.start, progress(given.count))
        if server.process.poll() is None:
            grown = f"{before >> 20} MiB at first, {server.memory >> 20} at last"
            print(f"\r{given.count} requests, {len(failures)} failures; {grown}")
    finish(failures)


if __name__ == "__main__":
    main()
