"""The server as a process: hostile requests over real sockets, signals, ports, TLS, and foreign clients."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.command import main
from bireme.serve.process import _protocol, hang_up
from bireme.static import InputSpec
from tests import language_models, served_language
from tools import fuzz_server
from tools.server_process import ServerProcess

for package in ("starlette", "prometheus_client", "uvicorn"):
    pytest.importorskip(package, reason=f"{package} is not installed")
grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

CLIENTS = os.environ.get("BIREME_CLIENTS_PYTHON", sys.executable)  # an interpreter that has foreign clients


class Count(nn.Layer):
    """Takes its time: counts up to a number."""

    def forward(self, x):
        i = x * 0
        while i < x:
            i = i + 1
        return i


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Arguments that name models, one of which is broken."""
    folder = tmp_path_factory.mktemp("served")
    bireme.jit.save(Count(), str(folder / "count"), [InputSpec([1], "float32", "x")])
    (folder / "broken.json").write_text("{")
    return [*fuzz_server.models(folder), f"count={folder / 'count'}", f"broken={folder / 'broken'}"]


@pytest.fixture(scope="module")
def server(named):
    with ServerProcess(*named, "--grpc-port", "0") as running:
        yield running


def get(server, path, context=None, headers=()):
    kind = http.client.HTTPSConnection if context else http.client.HTTPConnection
    given = {"context": context} if context else {}
    connection = kind("127.0.0.1", server.port, timeout=60, **given)
    connection.request("GET", path, headers=dict(headers))
    answer = connection.getresponse()
    return answer.status, answer.read()


def count(n):
    return fuzz_server.json_body("count", "FP32", np.array([n], "float32"))


def test_a_model_that_fails_leaves_the_others_up(server):
    assert server.lines[:2] == ["double, version 1: ready\n", "lookup, version 1: ready\n"]
    assert "broken, version 1: it could not be loaded" in server.lines[4]
    assert get(server, "/v2/models/double/ready")[0] == 200 and get(server, "/v2/models/broken/ready")[0] == 503
    assert get(server, "/v2/health/live")[0] == 200 and get(server, "/v2/health/ready")[0] == 503


def test_hostile_requests_are_answered_or_refused(server):
    client = fuzz_server.Client(server, grpc)
    assert fuzz_server.check(server, client, ["json", "binary", "grpc", "raw"], 152, seed=1) == []


@pytest.mark.full
def test_many_hostile_requests():
    with fuzz_server.started() as (server, client):
        assert fuzz_server.check(server, client, list(fuzz_server.KINDS), 10_000, seed=2) == []


def test_each_request_is_a_line_of_json(server):
    get(server, "/v2/models/double?x=%0aevil")
    grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}").unary_unary("/inference.GRPCInferenceService/ServerLive")(
        b""
    )
    get(server, "/v2")
    told = [json.loads(line) for line in list(server.lines) if line.startswith("{")]
    assert {"path": "/v2/models/double", "method": "GET", "status": 200}.items() <= told[-3].items() | told[-2].items()
    assert any(x["method"] == "gRPC" and x["path"].endswith("/ServerLive") and x["ms"] >= 0 for x in told[-3:])


def test_metrics_count_both_protocols(server):
    def requests():
        shown = get(server, "/metrics")[1].decode().splitlines()
        return sum(
            float(x.split()[1]) for x in shown if x.startswith('bireme_requests_total{model="double",status="200"')
        )

    before, client = requests(), fuzz_server.Client(server, grpc)
    _, datatype, x = fuzz_server._seeds()[0]
    assert client.infer(fuzz_server.grpc_message("double", datatype, x))[0] == "OK"
    assert client.post("/v2/models/double/infer", fuzz_server.json_body("double", datatype, x), {})[0] == 200
    assert requests() == before + 2


def needs(package):
    """Skip where the interpreter for foreign clients has no such package."""
    if subprocess.run([CLIENTS, "-c", f"import {package}"], capture_output=True).returncode:
        pytest.skip(f"{package} is not installed beside {CLIENTS}: name another interpreter with BIREME_CLIENTS_PYTHON")


def talk(kind, port):
    """Run a foreign client against a port."""
    script = Path(__file__).parent / "served_clients.py"
    ended = subprocess.run([CLIENTS, script, kind, f"127.0.0.1:{port}"], capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_tritonclient(server, kind):
    needs(f"tritonclient.{kind}")
    talk(f"triton_{kind}", server.port if kind == "http" else server.grpc_port)


def test_openai_client(named, tmp_path):
    needs("openai")
    for package in ("tokenizers", "jinja2"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    served_language.write_folder(tmp_path / "tiny")
    language_models.write_caller(tmp_path / "caller")
    folders = [f"{name}={tmp_path / name}" for name in ("tiny", "caller")]
    models = named[0], *folders, f"lost={tmp_path}"
    with ServerProcess(
        *models, "--max-batch", "4", "--max-length", "1024", environment={"BIREME_TOKEN": "secret"}
    ) as server:
        assert "tiny, a language model: ready\n" in server.lines
        talk("openai_client", server.port)
        told = [json.loads(line) for line in list(server.lines) if line.startswith("{")]
        assert any(x["path"] == "/v1/embeddings" and x["status"] == 200 for x in told)


def test_curl(server):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    model, datatype, x = fuzz_server._seeds()[0]
    sent = fuzz_server.json_body(model, datatype, x)
    address = f"http://127.0.0.1:{server.port}/v2/models/double/infer"
    told = subprocess.run(["curl", "-s", "-d", "@-", address], input=sent, capture_output=True, timeout=60).stdout
    assert json.loads(told)["outputs"][0]["shape"] == [2, 2]


def test_heads_of_requests_have_a_limit(server):
    """In one piece or many, in one header or many, or in the path: refused, and the connection is closed."""
    assert get(server, "/v2/health/live", headers={"x": "a" * 10_000}.items())[0] == 200
    line = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n"
    for sent in (
        line + b"x: " + b"a" * 2**20,
        line + b"x: a\r\n" * 40_000,
        b"GET /" + b"a" * 2**20,
    ):
        client = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        with client, contextlib.suppress(ConnectionError):  # closed meanwhile
            for start in range(0, len(sent), 2**14):
                client.sendall(sent[start : start + 2**14])
            assert client.recv(100).startswith(b"HTTP/1.1 400")
    assert get(server, "/v2/health/live")[0] == 200


def test_connections_that_send_or_read_nothing_are_closed():
    """One that has a request, or had one meanwhile, or reads, stays."""

    class Connection:
        def __init__(self, cycle, unsent=0):
            self.cycle, self.transport, self.unsent, self.ended = cycle, self, unsent, None
            self.closed = asyncio.Event()

        def close(self):
            self.ended = "closed"
            self.closed.set()

        def abort(self):
            self.ended = "aborted"
            self.closed.set()

        def get_write_buffer_size(self):
            return self.unsent

        def get_extra_info(self, name):
            return None

    def request(complete):
        return types.SimpleNamespace(response_complete=complete)

    silent, done, _, asking = made = [Connection(x) for x in (None, request(True), request(False), request(True))]
    stuck, stuck_at_the_end, reading = more = [Connection(request(x), 1000) for x in (False, True, True)]

    async def go():
        watching = asyncio.ensure_future(hang_up({*made, *more}, 0.04))

        async def ask():
            while True:
                asking.cycle = request(True)
                reading.unsent -= 1
                await asyncio.sleep(0)

        asks = asyncio.ensure_future(ask())
        await asyncio.gather(*[one.closed.wait() for one in (silent, done, stuck, stuck_at_the_end)])
        watching.cancel()
        asks.cancel()

    asyncio.run(asyncio.wait_for(go(), 60))
    assert [one.ended for one in (*made, *more)] == ["closed", "closed", None, None, "aborted", "aborted", None]


def test_requests_that_were_on_their_way_when_it_ends_are_answered():
    """On a connection that has none when it is told to end, the next one is the last."""
    uvicorn = pytest.importorskip("uvicorn")

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def go():
        config = uvicorn.Config(app, http=_protocol(), lifespan="off", access_log=False)
        config.load()
        state = uvicorn.server.ServerState()
        made = await asyncio.get_running_loop().create_server(
            lambda: config.http_protocol_class(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        reader, writer = await asyncio.open_connection(*made.sockets[0].getsockname())
        found = []
        for last in (False, True):
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            found.append(await (reader.read() if last else reader.readuntil(b"ok")))
            if not last:
                (connection,) = state.connections
                connection.shutdown()
        writer.close()
        made.close()
        return found

    first, second = asyncio.run(asyncio.wait_for(go(), 60))
    assert b"connection: close" not in first and b"connection: close" in second and second.endswith(b"ok")


def test_a_port_that_is_taken(server, named, capsys):
    assert main(["serve", named[0], "--port", str(server.port)]) == 1
    told = capsys.readouterr().err
    assert f"nothing can listen on port {server.port} of 127.0.0.1" in told and "version 1" not in told


def test_it_finishes_what_it_accepted(named):
    """Over HTTP and gRPC, and ends with status 0."""
    with ServerProcess(*named[-2:-1], "--grpc-port", "0") as server:
        client, found = fuzz_server.Client(server, grpc), {}
        message = fuzz_server.grpc_message("count", "FP32", np.array([2001], "float32"))
        threads = [
            threading.Thread(target=lambda: found.update(http=client.post("/v2/models/count/infer", count(2000), {}))),
            threading.Thread(target=lambda: found.update(grpc=client.infer(message))),
        ]
        for thread in threads:
            thread.start()
        held = len(count(2000)) + len(message)
        while f"bireme_request_bytes {held:.1f}" not in get(server, "/metrics")[1].decode():
            pass  # until both are accepted
        assert server.end(signal.SIGTERM) == 0
        for thread in threads:
            thread.join()
    assert found["http"][0] == 200 and json.loads(found["http"][1])["outputs"][0]["data"] == [2000.0]
    assert found["grpc"][0] == "OK" and np.float32(2001).tobytes() in found["grpc"][1]


@pytest.mark.full
def test_ports_after_it_was_killed(named):
    with ServerProcess(named[0], "--grpc-port", "0") as server:
        assert get(server, "/v2")[0] == 200
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        ports = "--port", str(server.port), "--grpc-port", str(server.grpc_port)
        with ServerProcess(named[0], *ports) as again:
            assert get(again, "/v2")[0] == 200


@pytest.mark.full
def test_tls_and_a_token(named, tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes a certificate, is not installed")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([*made, *names], check=True, capture_output=True)
    options = ["--grpc-port", "0", "--certificate", certificate, "--key", key]
    with ServerProcess(named[0], *options, environment={"BIREME_TOKEN": "secret"}) as server:
        context = ssl.create_default_context(cafile=certificate)
        assert get(server, "/v2", context)[0] == 401
        assert get(server, "/v2", context, {"authorization": "Bearer secret"})[0] == 200
        credentials = grpc.ssl_channel_credentials(Path(certificate).read_bytes())
        channel = grpc.secure_channel(f"127.0.0.1:{server.grpc_port}", credentials)
        ready = channel.unary_unary("/inference.GRPCInferenceService/ServerReady")
        for metadata, code in [((), grpc.StatusCode.UNAUTHENTICATED), ([("authorization", "Bearer secret")], None)]:
            if code is None:
                assert ready(b"", metadata=metadata) == b"\x08\x01"
            else:
                with pytest.raises(grpc.RpcError) as refused:
                    ready(b"", metadata=metadata)
                assert refused.value.code() is code
