"""The server: requests in every form, batches, limits, what is refused, versions, and a process that finishes its work.

Most tests call the ASGI application itself, without sockets. tritonclient, where it is installed, is a foreign client.
"""

import asyncio
import json
import shutil
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.command import main
from bireme.command.serve import _named
from bireme.inference import loading
from bireme.serve import Limits, Repository, application, batching, grpc_service, protocol
from bireme.serve.batching import Batcher, nothing
from bireme.serve.refusals import Refused
from bireme.static import InputSpec

pytest.importorskip("starlette", reason="Starlette is not installed")
pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")


class Net(nn.Layer):
    """Two outputs, each with a row for each row."""

    def forward(self, x):
        return x * 2, x.sum(1)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    for version, width in (("2", 3), ("10", 4)):
        path = folder / "net" / version / "inference"
        bireme.jit.save(Net(), str(path), [InputSpec([None, width], "float32", "x")])
    bireme.jit.save(nn.ReLU(), str(folder / "fixed"), [InputSpec([2, 2], "float32", "x")])
    (folder / "broken.json").write_text("{")
    return folder


@pytest.fixture
def repository(models):
    return Repository({"net": models / "net", "fixed": models / "fixed", "broken": models / "broken"})


def call(app, method, path, body=b"", headers=(), gone=None):
    """Status, headers and body of an answer of an ASGI application, in the loop that runs. `gone`: when the client goes."""

    async def talk():
        sent, parts = [], [body[i : i + 1000] for i in range(0, len(body), 1000)] or [b""]

        async def receive():
            if not parts:  # the client waits
                await (gone or asyncio.Event()).wait()
                return {"type": "http.disconnect"}
            part = parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(parts)}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(), "scheme": "http",
            "query_string": b"", "headers": [(k.lower().encode(), v.encode()) for k, v in headers], "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80), "root_path": "",
        }  # fmt: skip
        await app(scope, receive, send)
        head = {k.decode(): v.decode() for k, v in sent[0]["headers"]}
        return sent[0]["status"], head, b"".join(m.get("body", b"") for m in sent[1:])

    return talk()


def ask(repository, *requests, token=None):
    """Answers to requests that are sent at the same time."""
    app = application(repository, token)

    async def all_of_them():
        found = await asyncio.gather(*[call(app, *request) for request in requests])
        await repository.close()
        return found

    return asyncio.run(all_of_them())


def body(x, datatype="FP32", name="x", **more):
    one = {"name": name, "shape": list(np.shape(x)), "datatype": datatype, "data": np.asarray(x).tolist()}
    return json.dumps({"inputs": [one], **more}).encode()


INFER = "/v2/models/net/infer"


# ---------------------------------------------------------------- the protocol


def test_what_there_is(repository):
    paths = [
        "/v2",
        "/v2/health/live",
        "/v2/health/ready",
        "/v2/models/net",
        "/v2/models/net/versions/2",
        "/v2/models/net/ready",
    ]
    about, live, ready, newest, old, there = ask(repository, *[("GET", path) for path in paths])
    assert json.loads(about[2])["extensions"] == ["binary_tensor_data", "model_repository"]
    assert live[0] == 200 and live[2] == b"" and ready[0] == 503 and there[0] == 200  # one model is broken
    told = json.loads(newest[2])
    assert told["versions"] == ["2", "10"] and told["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert [x["shape"] for x in told["outputs"]] == [[-1, 4], [-1]]
    assert json.loads(old[2])["inputs"][0]["shape"] == [-1, 3]


def test_json(repository):
    x = np.arange(8, dtype="float32").reshape(2, 4)
    ((status, _, answer),) = ask(repository, ("POST", INFER, body(x, id="seven")))
    told = json.loads(answer)
    assert status == 200 and told["id"] == "seven" and told["model_name"] == "net" and told["model_version"] == "10"
    doubled, summed = told["outputs"]
    assert (
        doubled["shape"] == [2, 4] and doubled["data"] == (x * 2).reshape(-1).tolist() and summed["data"] == [6.0, 22.0]
    )


def test_numbers_that_json_has_no_form_for(repository):
    """They are strings, in both directions, so that an answer can be read by every client and sent to another model."""
    sent = body(np.zeros((2, 4))).replace(b"0.0, 0.0, 0.0, 0.0", b'"NaN", "Infinity", "-Infinity", 1', 1)
    ((status, _, answer),) = ask(repository, ("POST", INFER, sent))
    doubled, summed = json.loads(answer, parse_constant=pytest.fail)["outputs"]
    assert doubled["data"] == ["NaN", "Infinity", "-Infinity", 2.0, 0.0, 0.0, 0.0, 0.0] and summed["data"] == [
        "NaN",
        0.0,
    ]
    again = protocol.request(body(np.zeros((2, 4))).replace(b"0.0", b'"-Infinity"')).inputs["x"]
    assert status == 200 and (again == -np.inf).all()


def test_bodies_that_are_not_waited_for(repository):
    """One that is said to be too large, or is compressed, is refused before it is there."""
    large = ("POST", INFER, b"{", [("content-length", str(2**40))])
    longer = ("POST", INFER, b"{", [("content-length", "9" * 400)])
    packed = ("POST", INFER, b"\x1f\x8b", [("content-encoding", "gzip")])
    (one, two, three) = ask(repository, large, longer, packed)
    assert one[0] == two[0] == 413 and three[0] == 415 and "content-encoding gzip" in json.loads(three[2])["error"]


def test_large_answers_are_held_until_they_are_sent(models):
    """In pieces, so that what nobody reads stays here, where it is counted."""
    x = np.ones((2**15, 4), "float32")
    one = {"name": "x", "shape": list(x.shape), "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}
    head = json.dumps({"inputs": [one], "parameters": {"binary_data_output": True}}).encode()
    request = ("POST", INFER, head + x.tobytes(), [(protocol.LENGTH, str(len(head)))])

    def asked(memory):
        repository, pieces = Repository({"net": models / "net"}, Limits(memory=memory)), []
        app = application(repository)

        async def watched(scope, receive, send):
            def told(message):
                pieces.append((len(message.get("body", b"")), repository.held.bytes))
                return send(message)

            await app(scope, receive, told)

        async def go():
            found = await call(watched, *request)
            await repository.close()
            return found

        found = asyncio.run(go())
        assert repository.held.bytes == 0
        return *found, pieces

    status, headers, answer, pieces = asked(2**20)
    assert status == 200 and len(answer) == int(headers["content-length"]) == pieces[0][1]
    assert [size for size, _ in pieces[1:3]] == [2**18, 2**18] and len({held for _, held in pieces}) == 1
    assert asked(len(answer) - 1)[0] == 503


def test_raw_tensors(repository):
    x = np.arange(8, dtype="float32").reshape(2, 4)
    (name,) = [o["name"] for o in json.loads(ask(repository, ("GET", "/v2/models/net"))[0][2])["outputs"]][:1]
    one = {"name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": {"binary_data_size": 32}}
    wanted = [{"name": name, "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": [one], "outputs": wanted}).encode()
    again = Repository({"net": repository.all()[1].path})
    ((status, headers, answer),) = ask(again, ("POST", INFER, head + x.tobytes(), [(protocol.LENGTH, str(len(head)))]))
    size = int(headers[protocol.LENGTH])
    assert status == 200 and len(json.loads(answer[:size])["outputs"]) == 1
    assert (np.frombuffer(answer[size:], "float32") == 2 * x.reshape(-1)).all()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (b"", "not JSON"),
        (b"[1]", "the request: expected an object"),
        (b"[" * 100_000, "nested too deeply"),
        ({"inputs": 3}, "inputs: expected a list"),
        ({"inputs": [3]}, "an element of inputs: expected an object"),
        ({"inputs": []}, "expected the inputs x, got none"),
        ({"name": "y"}, "expected the inputs x, got y"),
        ({"name": 3}, "the name of an input: expected a string"),
        ({"datatype": "FP99"}, "datatype 'FP99' is not one of"),
        ({"datatype": "INT32", "data": [1, 2, 3, 4]}, "x: expected FP32 of shape [-1, 4], got INT32 of shape [1, 4]"),
        ({"datatype": "INT8", "data": [1, 2, 3, 400]}, "out of the range of INT8"),
        ({"datatype": "INT8"}, "expected integers as data of datatype INT8"),
        ({"shape": [1, 5]}, "4 numbers are no tensor of shape [1, 5]"),
        ({"shape": [4]}, "got FP32 of shape [4]"),
        ({"shape": [-1, 4]}, "non-negative integers"),
        ({"shape": [True, 4]}, "non-negative integers"),
        ({"shape": [2**39] * 8}, "are no tensor of shape"),
        ({"shape": [1] * 40}, "at most 32 sizes"),
        ({"data": [[1, 2], [3]]}, "not a regular list of numbers"),
        ({"data": ["1", "2", "3", "4"]}, "expected numbers as data"),
        ({"data": [None] * 4}, "expected numbers as data"),
        ({"data": ["nan", 1, 2, 3]}, "expected numbers as data"),
        ({"data": "abcd"}, "expected data, a list"),
        ({"data": [10**400, 1, 2, 3]}, "out of the range of FP32"),
        ({"data": ["a" * 1000, *[""] * 1000]}, "expected numbers as data"),
        ({"data": [1, [2, 3, 4]]}, "not a regular list of numbers"),
        ({"data": [True, 2.0, 3.0, 4.0]}, "expected numbers as data"),
        ({"name": "x" * 600}, "at most 512 characters"),
        ({"parameters": {"binary_data_size": 16}}, "is not within the 0 bytes that follow"),
        ({"parameters": {"binary_data_size": -1}}, "is not within"),
        ({"parameters": 3}, "parameters of x: expected an object"),
        ({"outputs": [{"name": "z"}]}, "there is no output z"),
        ({"id": 3}, "id: expected a string"),
    ],
)
def test_what_is_wrong_is_told(models, change, told):
    if isinstance(change, bytes):
        sent = change
    else:
        one = {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1.5, 2.5, 3.5, 4.5]}
        whole = {"inputs": [one]}
        for key, value in change.items():
            (whole if key in ("inputs", "outputs", "id") else one)[key] = value
        sent = json.dumps(whole).encode()
    ((status, _, answer),) = ask(Repository({"net": models / "net"}), ("POST", INFER, sent))
    assert status == 400 and told in json.loads(answer)["error"]


def test_paths_that_are_not_there(repository):
    requests = [
        ("GET", "/v2/models/none"), ("GET", "/v2/models/net/versions/3"), ("POST", "/v2/models/broken/infer", body([1.0])),
        ("GET", INFER), ("GET", "/v3"),
    ]  # fmt: skip
    none, version, broken, method, other = ask(repository, *requests)
    assert [x[0] for x in (none, version, broken, method, other)] == [404, 404, 503, 405, 404]
    assert json.loads(other[2])["error"] == "GET /v3: Not Found"
    assert "there is no version 3 of model net; there are 2, 10" in json.loads(version[2])["error"]
    assert "it could not be loaded" in json.loads(broken[2])["error"]


def mutated(data, rng):
    """A body with a few bytes changed, cut, repeated or put in."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(0, max(len(data), 1)))
        match rng.integers(0, 4):
            case 0:
                data[at : at + 1] = bytes([rng.integers(0, 256)])
            case 1:
                del data[at : at + int(rng.integers(1, 9))]
            case 2:
                data[at:at] = data[at : at + int(rng.integers(1, 20))]
            case _:
                data[at:at] = rng.choice([b"null", b"-1", b"1e999", b"[", b"}", b'"', b"99999999999999999999", b"NaN"])
    return bytes(data)


def test_fuzzed_bodies_are_read_or_refused(full):
    rng = np.random.default_rng(0)
    head = json.dumps(
        {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}]}
    )
    seeds = [(body([[1.0, 2.0]], outputs=[{"name": "y"}], id="1"), None), (head.encode() + bytes(8), str(len(head)))]
    read = 0
    for i in range(50_000 if full else 3000):
        data, header = seeds[i % 2]
        try:
            protocol.request(mutated(data, rng), header if rng.integers(0, 4) else str(rng.integers(0, 400)))
            read += 1
        except Refused as e:
            assert e.status == 400
    assert read  # some mutations change nothing that matters


# ---------------------------------------------------------------- batches


def batches(requests, limits, together=True, run=None):
    """What each request gives, or why it is refused, and the sizes of the batches."""
    sizes = []

    def double(inputs):
        sizes.append(len(inputs["x"]))
        if (inputs["x"] < 0).any():
            raise ValueError("a negative number\n  at server.py:3")
        return {"y": inputs["x"] * 2}

    async def go():
        batcher = Batcher(run or double, limits, together, nothing)
        found = await asyncio.gather(*[batcher.submit({"x": x}) for x in requests], return_exceptions=True)
        await batcher.close()
        return [x["y"] if isinstance(x, dict) else x for x in found]

    return asyncio.run(go()), sizes


def test_requests_are_joined_and_taken_apart():
    requests = [np.full((n, 2), n, "float32") for n in (1, 2, 3, 1, 1)]
    found, sizes = batches(requests, Limits(batch=6, delay=0.05))
    assert sizes == [6, 2]
    assert all((made == 2 * x).all() and made.shape == x.shape for made, x in zip(found, requests, strict=True))


def test_joined_batches_have_one_of_a_few_sizes():
    requests = [np.full((n, 2), n, "float32") for n in (1, 2, 2, 0)]
    found, sizes = batches(requests, Limits(batch=32))
    assert sizes == [6] and [x.tolist() for x in found] == [(2 * x).tolist() for x in requests]
    assert batching.sizes(32) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] and batching.sizes(1) == [1]


def test_a_client_alone_does_not_wait():
    async def go():
        batcher = Batcher(lambda inputs: inputs, Limits(delay=1000), True, nothing)
        await asyncio.wait_for(batcher.submit({"y": np.ones((1, 1))}), 20)
        several = [asyncio.ensure_future(batcher.submit({"y": np.ones((1, 1))})) for _ in range(4)]
        await asyncio.wait_for(asyncio.gather(*several), 20)
        first = [asyncio.ensure_future(batcher.submit({"y": np.ones((1, 1))})) for _ in range(3)]
        done, _ = await asyncio.wait(first, timeout=0.05)  # four came together last time
        more = [asyncio.ensure_future(batcher.submit({"y": np.ones((1, 1))}))]
        await asyncio.wait_for(asyncio.gather(*first, *more), 20)
        await batcher.close()
        return len(done)

    assert asyncio.run(go()) == 0


def test_only_like_shapes_are_joined():
    requests = [np.ones((1, 2)), np.ones((1, 3)), np.ones((1, 2), "float32"), np.ones((2, 2))]
    found, sizes = batches(requests, Limits(delay=0.01))
    assert sorted(sizes) == [1, 1, 3] and [x.shape for x in found] == [(1, 2), (1, 3), (1, 2), (2, 2)]


def test_without_batches_each_runs_alone():
    _, sizes = batches([np.ones((1, 2))] * 3, Limits(), together=False)
    assert sizes == [1, 1, 1]


def test_one_that_fails_leaves_its_neighbours():
    found, sizes = batches([np.ones((1, 1)), -np.ones((1, 1)), np.ones((2, 1))], Limits(delay=0.01))
    assert sizes == [4, 1, 3, 1, 2] and found[0] == 2 and found[2].shape == (2, 1)
    assert isinstance(found[1], Refused) and found[1].status == 400 and str(found[1]) == "a negative number"


def test_whatever_a_model_raises_the_queue_goes_on():
    def broken(inputs):
        if inputs["x"][0, 0] < 0:
            raise OSError("a file is gone")
        return {"y": inputs["x"]}

    found, _ = batches([-np.ones((1, 1)), np.ones((1, 1))], Limits(batch=1), run=broken)
    assert (
        isinstance(found[0], Refused) and found[0].status == 500 and str(found[0]) == "a file is gone" and found[1] == 1
    )


def test_a_full_queue_refuses():
    go_on = threading.Event()

    def slow(inputs):
        go_on.wait(20)
        return {"y": inputs["x"]}

    async def go():
        batcher = Batcher(slow, Limits(batch=1, queue=2), False, nothing)
        first = asyncio.ensure_future(batcher.submit({"x": np.ones((1, 1))}))
        while batcher.waiting or (not first.get_coro().cr_running and not batcher._task):
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        waiting = [asyncio.ensure_future(batcher.submit({"x": np.ones((1, 1))})) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="2 requests wait already") as told:
            await batcher.submit({"x": np.ones((1, 1))})
        go_on.set()
        await asyncio.gather(first, *waiting)
        await batcher.close()
        with pytest.raises(Refused, match="being unloaded"):
            await batcher.submit({"x": np.ones((1, 1))})
        return told.value.status

    assert asyncio.run(go()) == 503


def test_a_request_is_given_up_in_time():
    go_on = threading.Event()

    async def go():
        batcher = Batcher(
            lambda inputs: go_on.wait(20) and {"y": inputs["x"]}, Limits(batch=1, timeout=0.05), False, nothing
        )
        refused = await asyncio.gather(
            *[batcher.submit({"x": np.ones((1, 1))}) for _ in range(3)], return_exceptions=True
        )
        go_on.set()
        await batcher.close()
        return [(e.status, str(e)) for e in refused]

    assert asyncio.run(go()) == [(504, "there was no result within 0.05 s")] * 3


def test_limits(models):
    with pytest.raises(ValueError, match=r"Limits\(batch\): expected a positive number, got 0"):
        Limits(batch=0)
    with pytest.raises(ValueError, match=r"Limits\(delay\)"):
        Limits(delay=float("nan"))
    small = Repository({"net": models / "net"}, Limits(body=300, elements=7))
    large, many = ask(small, ("POST", INFER, body(np.zeros((99, 4)))), ("POST", INFER, body(np.zeros((2, 4), "int32"))))
    texts = Repository({"net": models / "net"}, Limits(json=50, memory=1000))
    long, heavy = ask(texts, ("POST", INFER, body(np.zeros((1, 4)))), ("POST", INFER, b" " * 1001))
    assert long[0] == 413 and "at most 50 bytes of JSON" in json.loads(long[2])["error"]
    assert (
        heavy[0] == 503
        and "are held already, and 1000 at most" in json.loads(heavy[2])["error"]
        and texts.held.bytes == 0
    )
    assert large[0] == 413 and json.loads(large[2])["error"] == "a request has at most 300 bytes"
    assert many[0] == 413 and "8 numbers, and at most 7" in json.loads(many[2])["error"]


def test_results_in_batches_are_those_alone(models):
    rng = np.random.default_rng(0)
    requests = [rng.standard_normal((n, 4)).astype("float32") for n in (1, 3, 2, 1, 4)]
    sent = [("POST", INFER, body(x)) for x in requests]
    together = ask(Repository({"net": models / "net"}, Limits(delay=0.05)), *sent)
    alone = ask(Repository({"net": models / "net"}, Limits(batch=1)), *sent)
    assert [x[2] for x in together] == [x[2] for x in alone]


# ---------------------------------------------------------------- models, tokens, metrics


def test_load_and_unload(models):
    repository = Repository({"net": models / "net", "fixed": models / "fixed"}, lazy=True)
    app = application(repository)

    async def go():
        before = await call(app, "POST", INFER, body(np.zeros((1, 4))))
        loaded = await call(app, "POST", "/v2/repository/models/net/load")
        there = await call(app, "POST", INFER, body(np.zeros((1, 4))))
        listed = json.loads((await call(app, "POST", "/v2/repository/index"))[2])
        unloaded = await call(app, "POST", "/v2/repository/models/net/unload")
        after = await call(app, "GET", "/v2/models/net/ready")
        unknown = await call(app, "POST", "/v2/repository/models/etc/load")
        return [x[0] for x in (before, loaded, there, unloaded, after, unknown)], listed

    statuses, listed = asyncio.run(go())
    assert statuses == [503, 200, 200, 200, 503, 404]
    assert [(x["name"], x["version"], x["state"]) for x in listed] == [
        ("net", "2", "READY"), ("net", "10", "READY"), ("fixed", "1", "UNAVAILABLE"),
    ]  # fmt: skip


def test_what_a_folder_has_now_is_loaded(models, tmp_path):
    folder = tmp_path / "net"
    shutil.copytree(models / "net" / "2", folder / "2")
    repository = Repository({"net": folder})
    app = application(repository)
    wide, narrow = body(np.ones((1, 4))), body(np.ones((1, 3)))

    async def go():
        before = await call(app, "POST", INFER, wide)
        shutil.copytree(models / "net" / "10", folder / "10")
        busy = [
            asyncio.ensure_future(call(app, "POST", INFER.replace("infer", "versions/2/infer"), narrow))
            for _ in range(20)
        ]
        await call(app, "POST", "/v2/repository/models/net/load")
        during = [status for status, *_ in await asyncio.gather(*busy)]
        after = await call(app, "POST", INFER, wide)
        kept = repository.get("net", "10").runner
        shutil.rmtree(folder / "2")
        (folder / "10" / "inference.json").touch()
        await call(app, "POST", "/v2/repository/models/net/load")
        changed = repository.get("net", "10").runner
        (folder / "10" / "inference.json").write_text("{")
        refused = await call(app, "POST", "/v2/repository/models/net/load")
        still = await call(app, "POST", INFER, wide)
        await repository.close()
        return [before[0], after[0], refused[0], still[0]], during, kept is changed

    assert asyncio.run(go()) == ([400, 200, 400, 200], [200] * 20, False)
    assert repository.versions("net") == ["10"]


def test_requests_while_a_model_is_loaded_and_unloaded(models):
    repository = Repository({"net": models / "net"})
    app = application(repository)

    async def go():
        seen = []
        for _ in range(3):
            sent = [asyncio.ensure_future(call(app, "POST", INFER, body(np.ones((1, 4))))) for _ in range(10)]
            await asyncio.sleep(0)
            await call(app, "POST", "/v2/repository/models/net/unload")
            seen += [status for status, *_ in await asyncio.gather(*sent)]
            await call(app, "POST", "/v2/repository/models/net/load")
        last = await call(app, "POST", INFER, body(np.ones((1, 4))))
        await repository.close()
        return seen, last[0]

    seen, last = asyncio.run(go())
    assert set(seen) <= {200, 503} and last == 200


def test_a_model_is_read_once(models, monkeypatch):
    read, count = loading.read, []
    monkeypatch.setattr(loading, "read", lambda *given: count.append(given) or read(*given))
    Repository({"fixed": models / "fixed"})
    assert len(count) == 1


def test_batches_are_compiled_beforehand(models):
    repository = Repository({"net": models / "net" / "10"}, Limits(batch=4), warm=True)
    assert len(repository.get("net").runner._shared._compiled) == 4


def test_a_client_that_goes_away(models):
    """What it waited for is cancelled, and not run any more."""
    go_on, ran = threading.Event(), []
    repository = Repository({"fixed": models / "fixed"})

    def run(inputs):
        ran.append(inputs["x"][0, 0])
        go_on.wait(20)
        return dict.fromkeys(repository.get("fixed").runner.outputs, inputs["x"])

    repository.get("fixed").runner.run = run
    served = repository.get("fixed")
    served.batcher = Batcher(run, Limits(), False, nothing)
    app, path = application(repository), "/v2/models/fixed/infer"

    async def go():
        first = asyncio.ensure_future(call(app, "POST", path, body(np.full((2, 2), 1.0))))
        gone = asyncio.Event()
        second = asyncio.ensure_future(call(app, "POST", path, body(np.full((2, 2), 2.0)), gone=gone))
        while not served.batcher.waiting:
            await asyncio.sleep(0)
        gone.set()
        status = (await second)[0]
        go_on.set()
        await first
        await repository.close()
        return status

    assert asyncio.run(go()) == 499 and ran == [1.0]


def test_a_model_of_fixed_sizes_is_not_batched(repository):
    sent = ("POST", "/v2/models/fixed/infer", body(-np.ones((2, 2))))
    assert [json.loads(x[2])["outputs"][0]["data"] for x in ask(repository, sent, sent)] == [[0.0] * 4] * 2


def test_names(models):
    assert _named("a=b/c.json") == ("a", "b/c.json") and _named("b/c.json")[0] == "c"
    assert _named("models/ocr/inference.pdmodel")[0] == "ocr" and _named("models/ocr/inference")[0] == "ocr"
    assert _named("models/llama-3.2")[0] == "llama-3.2" and _named(".")[0] == Path.cwd().name
    with pytest.raises(ValueError, match="names of letters, digits"):
        Repository({"../x": models / "fixed"})


def test_the_token(models):
    repository = Repository({"fixed": models / "fixed"})
    sent = [("GET", "/v2"), ("GET", "/v2", b"", [("Authorization", "Bearer no")]), ("GET", "/v2/health/live")]
    right = ("GET", "/v2", b"", [("Authorization", "Bearer yes")])
    assert [x[0] for x in ask(repository, *sent, right, token="yes")] == [401, 401, 200, 200]
    # without one, pages that a browser of this machine shows are not answered
    other = [("GET", path, b"", [("Sec-Fetch-Site", "cross-site")]) for path in ("/v2", "/v2/health/live")]
    own = ("GET", "/v2", b"", [("Sec-Fetch-Site", "same-origin")])
    assert [x[0] for x in ask(repository, *other, own)] == [403, 200, 200]


def test_metrics(models):
    repository = Repository({"net": models / "net"})
    app = application(repository)

    async def go():
        for _ in range(3):
            await call(app, "POST", INFER, body(np.zeros((2, 4))))
        await call(app, "GET", "/v2/models/" + "x" * 50)
        shown = await call(app, "GET", "/metrics")
        await repository.close()
        return shown

    _, headers, shown = asyncio.run(go())
    text = shown.decode()
    assert headers["content-type"].startswith("text/plain")
    assert 'bireme_requests_total{model="net",status="200"} 3.0' in text and "xxx" not in text
    assert 'bireme_batch_rows_sum{model="net"} 6.0' in text


def test_off_loopback_a_token_is_needed(models, capsys):
    assert main(["serve", str(models / "fixed"), "--host", "0.0.0.0"]) == 1
    assert "so clients need a token" in capsys.readouterr().err
    assert main(["serve", str(models / "fixed"), "--certificate", "x"]) == 1


def test_what_cannot_be_served_is_told(tmp_path, capsys):
    assert main(["serve", "x=/nowhere", "--port", "0"]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("x, version 1: it could not be loaded: there is no model /nowhere")
    assert told[1:] == ["bireme serve: there is no model to serve, as none could be loaded"]
    for name, text in (("config.json", "{"), ("tokenizer.json", "{}")):
        (tmp_path / name).write_text(text)
    assert main(["serve", str(tmp_path), "--port", "0"]) == 1
    assert (
        "a language model: it could not be loaded: load(folder): expected JSON in config.json"
        in capsys.readouterr().err
    )
    for port in ("65536", "-1", "x"):
        with pytest.raises(SystemExit):
            main(["serve", str(tmp_path), "--port", port])
        assert f"argument --port: expected a number of 0 to 65535, got {port}" in capsys.readouterr().err


# ---------------------------------------------------------------- gRPC


def message(*fields):
    """Fields (number, text, bytes or list of integers) on the wire."""
    written = b""
    for number, value in fields:
        data = value.encode() if isinstance(value, str) else value
        data = b"".join(map(grpc_service._varint, data)) if isinstance(data, list) else data
        written += grpc_service._bytes(number, data)
    return written


def test_messages_of_grpc(models):
    service = grpc_service._Service(repository := Repository({"net": models / "net"}))
    x = np.arange(4, dtype="<f4")
    tensor = [(1, "x"), (2, "FP32"), (3, [1, 4])]
    raw = message((1, "net"), (3, "id"), (5, message(*tensor)), (7, x.tobytes()))
    typed = message((1, "net"), (5, message(*tensor, (5, message((6, x.tobytes()))))))

    async def go():
        found = [grpc_service._Message(await service.ModelInfer(grpc_service._Message(m))) for m in (raw, typed)]
        with pytest.raises(Refused, match="2 raw tensors are given for 1 inputs"):
            await service.ModelInfer(grpc_service._Message(raw + message((7, b""))))
        for wrong in (b"\x08\x01" * 20_000, raw + message((7, b"")) * 2):
            with pytest.raises(Refused, match=r"at most 16384 fields|raw tensors"):
                await service.ModelInfer(grpc_service._Message(wrong))
        with pytest.raises(Refused, match="there is no model none"):
            await service.ModelMetadata(grpc_service._Message(message((1, "none"))))
        told = grpc_service._Message(await service.ModelMetadata(grpc_service._Message(message((1, "net")))))
        await repository.close()
        return found, told

    (first, second), told = asyncio.run(go())
    assert (np.frombuffer(first.raw(6)[0], "<f4") == 2 * x).all() and first.text(3) == "id"
    assert bytes(second.raw(6)[1]) == struct.pack("<f", 6)
    numbers = [0, 1, 127, 128, 2**31, 2**63 - 1, -1, -(2**63)]
    packed = grpc_service._Message(message((3, numbers)) + grpc_service._varint(3 << 3) + grpc_service._varint(300))
    assert packed.integers(3).tolist() == [*numbers, 300]
    for wrong in (b"\x80", b"\x80" * 10 + b"\x01", b"\xff" * 20):
        with pytest.raises(Refused, match="an invalid number"):
            grpc_service._Message(message((3, wrong))).integers(3)
    assert told.texts(2) == ["2", "10"] and told.parts(4)[0].sizes(3) == [-1, 4]
