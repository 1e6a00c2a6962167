"""Parameter servers: tables by id, pushes and pulls over loopback, files, and what happens when a server dies."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import bireme
from bireme.distributed import entry_attr, fleet, world
from bireme.distributed.ps import client, lookup, messages, rules, table_files
from bireme.distributed.ps.client import Client
from bireme.distributed.ps.id_index import IdIndex
from bireme.distributed.ps.lookup import TABLES, Found
from bireme.distributed.ps.server import Server
from bireme.distributed.ps.sparse_table import SparseTable
from bireme.distributed.ps.worker import AsyncWorker, GeoWorker, Worker
from bireme.errors import ArgumentError, FileFormatError, ProcessLostError

ROOT = Path(__file__).resolve().parent.parent
UNIFORM = {"kind": "uniform", "low": -1.0, "high": 1.0, "seed": 3}
SGD = {"kind": "sgd"}


def config(**changed):
    return {"name": "t", "width": 4, "rule": SGD, "initial": UNIFORM, "entry": "", "storage": False, **changed}


def some_ids(n, seed=0, high=2**63):
    return np.unique(np.random.default_rng(seed).integers(0, high, n).astype(np.uint64))


# ---------------------------------------------------------------- tables


def test_the_index_agrees_with_a_dict():
    index, expected, rng = IdIndex(), {}, np.random.default_rng(0)
    for _ in range(20):  # ids come several times in a call, and fill the same low bits
        ids = rng.integers(0, 3000, 500).astype(np.uint64) << np.uint64(48)
        rows, new = index.add(ids)
        for one in new.tolist():
            expected[one] = len(expected)
        assert rows.tolist() == [expected[one] for one in ids.tolist()]
    asked = rng.integers(0, 6000, 500).astype(np.uint64) << np.uint64(48)
    assert index.find(asked).tolist() == [expected.get(one, -1) for one in asked.tolist()]
    assert index.size == len(expected) > 1024, "it has grown"
    extremes = np.array([0, 2**64 - 1], np.uint64)
    assert IdIndex().add(extremes)[0].tolist() == [0, 1]


def test_rows_start_the_same_in_any_order_and_follow_their_initializer():
    ids = some_ids(2000)
    forth, back = SparseTable(config(width=8)), SparseTable(config(width=8))
    values = forth.pull(ids)
    halves = [back.pull(ids[1000:]), back.pull(ids[:1000])]
    assert (np.concatenate(halves[::-1]) == values).all()
    assert abs(values.mean()) < 0.03 and values.min() < -0.99 and values.max() > 0.99
    normal = {"kind": "normal", "mean": 1.0, "std": 2.0, "low": -np.inf, "high": np.inf, "seed": 0}
    drawn = SparseTable(config(width=8, initial=normal)).pull(ids)
    assert abs(drawn.mean() - 1) < 0.06 and abs(drawn.std() - 2) < 0.06
    assert (SparseTable(config()).pull(ids, train=False) == 0).all()


@pytest.mark.parametrize("kind", ["SGD", "Adagrad", "Adam"])
def test_rules_are_those_of_the_optimizers(kind):
    weight = bireme.to_tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), stop_gradient=False)
    optimizer = getattr(bireme.optimizer, kind)(0.1, parameters=[weight])
    rule = rules.made(rules.described(optimizer))
    rows = np.full((3, 4 + rule.state(4)), rule.initial(), np.float32)
    rows[:, :4] = weight.numpy()
    for step in range(3):
        grads = np.random.default_rng(step).standard_normal((3, 4)).astype(np.float32)
        weight.grad = bireme.to_tensor(grads)
        optimizer.step()
        rule.apply(rows, grads, 0.1)
        np.testing.assert_allclose(rows[:, :4], weight.numpy(), rtol=2e-5, atol=1e-6)


def test_optimizers_that_servers_do_not_have_are_refused():
    weight = bireme.ones([2])
    for made in (
        bireme.optimizer.Lamb(0.1, parameters=[weight]),
        bireme.optimizer.SGD(0.1, parameters=[weight], weight_decay=0.1),
        bireme.optimizer.Adam(0.1, parameters=[weight], grad_clip=bireme.nn.ClipGradByNorm(1.0)),
    ):
        with pytest.raises(ArgumentError, match="expected SGD, Adagrad or Adam without clipping"):
            rules.described(made)


def test_entry_policies():
    counted = SparseTable(config(entry="count_filter_entry:3"))
    ids = some_ids(100)
    assert [(counted.pull(ids) != 0).any() for _ in range(3)] == [False, False, True]
    drawn = SparseTable(config(entry="probability_entry:0.25"))
    sizes = []
    for _ in range(2):
        drawn.pull(some_ids(4000))
        sizes.append(drawn.size / 4000)
    assert abs(sizes[0] - 0.25) < 0.03 and abs(sizes[1] - 0.4375) < 0.03
    for wrong in ("count_filter_entry:0", "count_filter_entry:x", "probability_entry:2", "nosuch:1", 7):
        with pytest.raises(ArgumentError, match="the description of an entry policy"):
            entry_attr.parsed(wrong)
    for make in (
        lambda: bireme.distributed.CountFilterEntry(0),
        lambda: bireme.distributed.ProbabilityEntry(1.0),
        lambda: bireme.distributed.ShowClickEntry("show", 1),
    ):
        with pytest.raises(ValueError, match="expected"):
            make()


def test_shrink_drops_what_is_seldom_seen():
    table = SparseTable(config())
    ids = some_ids(30)
    table.pull(ids)
    for _ in range(10):
        table.push(ids[:10], np.zeros((10, 4), np.float32), 0.1)
    clicked = np.tile(np.float32([1, 1]), (10, 1))
    table.push(ids[10:20], np.zeros((10, 4), np.float32), 0.1, clicked)
    before = table.pull(ids, train=False)
    assert table.shrink(0.8) == 10, "those that were never updated"
    assert (table.pull(ids[:20], train=False) == before[:20]).all() and (table.pull(ids[20:], train=False) == 0).all()
    table.day += 40
    assert table.shrink(0.0) == 20, "and after 30 days all"


def test_rows_on_disk_are_the_same_rows(tmp_path):
    pytest.importorskip("rocksdict")
    adagrad = {"kind": "adagrad", "epsilon": 1e-6, "initial": 0.0}
    disk = SparseTable(config(rule=adagrad, storage=True), str(tmp_path / "rocks"), rows=300)
    memory = SparseTable(config(rule=adagrad))
    for step in range(12):
        ids = some_ids(100, step, 800)
        assert (disk.pull(ids) == memory.pull(ids)).all()
        for table in (disk, memory):
            table.push(ids, np.ones((ids.size, 4), np.float32), 0.1)
    assert disk.size == memory.size > 300 >= disk._index.size
    ids = np.concatenate([part[0] for part in disk.parts()])
    assert sorted(ids.tolist()) == sorted(memory._index.ids.tolist())
    assert disk.shrink(0.2) == memory.shrink(0.2) > 0
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    with pytest.raises(ArgumentError, match="an empty folder, or one of RocksDB"):
        SparseTable(config(storage=True), str(tmp_path / "full"))
    assert (disk.pull(some_ids(500, 99, 800)) == memory.pull(some_ids(500, 99, 800))).all()


# ---------------------------------------------------------------- files and messages


def test_files_are_whole_or_an_error_in_one_sentence(tmp_path):
    table = SparseTable(config())
    table.pull(some_ids(50))
    path = table_files.write(str(tmp_path), 0, 2, 7, [({"config": table.config}, list(table.parts()[0]))])
    assert table_files.stamps(str(tmp_path)) == {}, "the other server has not written"
    table_files.write(str(tmp_path), 1, 2, 7, [])
    assert list(table_files.stamps(str(tmp_path))) == [7]
    ((told, (ids, rows, beside)),) = table_files.read(path)
    other = SparseTable(config())
    other.load(ids, rows, beside)
    assert told == {"config": table.config} and (other.pull(ids) == table.pull(ids)).all()
    with pytest.raises(ArgumentError, match=r"load\(t\): expected rows of 6 floats, 6 of them values, got rows of 4"):
        SparseTable(config(width=6)).load(ids, rows, beside)
    whole = Path(path).read_bytes()
    for damaged in (whole[:-1], whole[:5], whole[:30], b"", whole + b"x", whole.replace(b"uint64", b"object")):
        Path(path).write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"expected a whole file of tables: .*"):
            list(table_files.read(path))
    Path(path).write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(FileFormatError, match=r"checksum|head"):
        list(table_files.read(path))


def test_malformed_messages_are_refused():
    arrays = [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 4), np.uint64)]
    data = messages.encode({"a": 1}, arrays)
    head, found = messages.decode(data)
    assert head == {"a": 1} and [a.tolist() for a in found] == [a.tolist() for a in arrays]
    deep = b"[" * 100_000
    for wrong in (
        *[data[:n] for n in range(0, len(data), 5)], data + b"x", b"", b"BPS1\xff\xff\xff\xff",
        data.replace(b"float32", b"objects"), data.replace(b"[2, 3]", b"[-2,3]"), data.replace(b"[2, 3]", b"[9, 9]"),
        data.replace(b'{"a": 1}', b"[1, 2, 3"), b"BPS1" + len(deep).to_bytes(4, "little") + deep,
    ):  # fmt: skip
        with pytest.raises(FileFormatError, match="expected a message of a parameter server, got"):
            messages.decode(wrong)


# ---------------------------------------------------------------- servers


class Servers:
    def __init__(self, count=2, workers=2):
        self.addresses = [f"127.0.0.1:{port}" for port in world.free_ports(count)]
        self.all = [Server(address, i, count, workers) for i, address in enumerate(self.addresses)]
        for server in self.all:
            server.start()
        self.clients = [Client(self.addresses, rank) for rank in range(workers)]

    def stop(self):
        for one in self.clients:
            one.close()
        for server in self.all:
            server.stop()


@pytest.fixture
def servers():
    made = Servers()
    yield made
    made.stop()


def test_servers_answer_and_refuse_by_name(servers, monkeypatch):
    one = servers.clients[0]
    one.all("Make", {"tables": [config()], "dense": []})
    ids = some_ids(1000)
    rows = one.pull("t", ids, 4, True)
    assert (rows == SparseTable(config()).pull(ids)).all(), "whichever server made them"
    sizes = [len(server.shard.tables["t"]._index.ids) for server in servers.all]
    assert sum(sizes) == ids.size and min(sizes) > 400
    one.push({"t": (ids, np.ones_like(rows), np.ones((ids.size, 2), np.float32))}, {}, 0.5)
    assert np.allclose(servers.clients[1].pull("t", ids, 4, True), rows - 0.5)
    monkeypatch.setattr(client, "PART", 32 * 300)  # in parts
    one.push({"t": (ids, -np.ones_like(rows), np.ones((ids.size, 2), np.float32))}, {}, 0.5)
    assert np.allclose(one.pull("t", ids, 4, True), rows)
    one.push({"t": (ids, np.ones_like(rows), np.ones((ids.size, 2), np.float32))}, {}, 0.5)
    wide = (ids, np.ones((ids.size, 5), np.float32), np.ones((ids.size, 2), np.float32))
    where = rf"worker 0: {{}} at server \d on {servers.addresses[0].split(':')[0]}:\d+: "
    for call, expected in (
        (lambda: one.pull("nosuch", ids, 4, True), where.format("Pull") + "table: expected one of t, got 'nosuch'"),
        (lambda: one.push({"t": wide}, {}, 0.5), where.format("Push") + r"push\(t\): expected ids, rows of 4 float32"),
        (lambda: one.all("Make", {"tables": [config(width=5)], "dense": []}), "table t: expected width 4, got width 5"),
        (lambda: one.all("Make", {"tables": [config(width=10**9)], "dense": []}), "table t: expected width 4"),
        (lambda: one.call(0, "Push", {}), "expected its fields"),
        (lambda: one._call(0, "Pull", b"rubbish"), "expected a message of a parameter server, got no head"),
        (lambda: one.call(0, "Gather", {"key": "k", "worker": 9}, [ids]), "worker: expected a rank below 2, got 9"),
        (lambda: one.call(0, "Load", {"folder": "nosuch", "only": None}), "a folder with saved tables"),
    ):
        with pytest.raises(ArgumentError, match=expected) as error:
            call()
        assert len(str(error.value).splitlines()) <= 2
    assert np.allclose(one.pull("t", ids, 4, True), rows - 0.5), "what was refused changed nothing"
    one.timeout = 2.0
    with pytest.raises(TimeoutError, match=r"meeting 1: expected 2 workers within [\d.]+ s, got ranks 0 alone"):
        one.gather(b"")
    one.timeout = 0.5
    servers.all[1].stop()
    with pytest.raises(ProcessLostError, match=rf"Pull at server 1 on {servers.addresses[1]}: expected an answer"):
        one.pull("t", ids, 4, True)


def test_a_push_that_is_sent_twice_counts_once(servers):
    one = servers.clients[0]
    one.call(0, "Make", {"tables": [], "dense": [["w", SGD]]}, [np.zeros(2, np.float32)])
    head = {
        "worker": 0, "session": 5, "number": 0, "together": False, "add": False, "lr": 1.0, "tables": [],
        "dense": ["w"], "wanted": ["w"],
    }  # fmt: skip
    for session, expected in ((5, -1), (5, -1), (6, -2)):
        _, (values,) = one.call(0, "Push", {**head, "session": session}, [np.ones(2, np.float32)])
        assert values.tolist() == [expected, expected]


def test_nobody_is_served_without_the_secret(servers, monkeypatch):
    monkeypatch.setattr(servers.all[0], "_token", b"known to others")
    with pytest.raises(RuntimeError, match="expected the secret of the job"):
        servers.clients[0].call(0, "Hello", {})
    with pytest.raises(ArgumentError, match=r"not a loopback address, got none"):
        Server("10.0.0.1:5000", 0, 1, 1)


def test_saves_load_into_another_number_of_servers(servers, tmp_path):
    one = servers.clients[0]
    one.all("Make", {"tables": [config()], "dense": []})
    for name in ("a", "b"):
        for server in range(2):
            if server == world_home(name):
                one.call(server, "Make", {"tables": [], "dense": [[name, SGD]]}, [np.full(3, 7, np.float32)])
    ids = some_ids(300)
    rows = one.pull("t", ids, 4, True)
    one.save(str(tmp_path))
    one.save(str(tmp_path))
    assert len(os.listdir(tmp_path)) == 2, "the earlier save is gone"
    more = Servers(3, 1)
    try:
        first = more.clients[0]
        first.all("Load", {"folder": str(tmp_path), "only": None})
        assert (first.pull("t", ids, 4, False) == rows).all()
        assert sum(len(server.shard.dense) for server in more.all) == 2
    finally:
        more.stop()


def world_home(name):
    from bireme.distributed.ps.shard import home

    return home(name, 2)


@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_two_workers_converge(servers, mode, monkeypatch):
    """Rows and a dense vector are found again from their products, by two workers that see different ids."""
    monkeypatch.setitem(TABLES, "r", {k: v for k, v in config(name="r", width=2).items() if k != "rule"})
    target = np.sin(np.arange(40, dtype=np.float32)).reshape(20, 2)
    make = {
        "sync": lambda *given: Worker(*given),
        "async": lambda *given: AsyncWorker(*given, 4),
        "geo": lambda *given: GeoWorker(*given, 5),
    }[mode]
    failures = []

    def train(rank):
        bias = bireme.zeros([2])
        bias.name, bias.stop_gradient = "bias", False
        worker = make(servers.clients[rank], 2, bireme.optimizer.SGD(0.5, parameters=[bias]))
        worker.join([bias])
        rng, errors = np.random.default_rng(rank), []
        # rows that are pulled may be old, on a busy machine: how many steps that takes is open
        while len(errors) < 60 or (mode == "async" and len(errors) < 2000 and max(errors[-20:]) > 0.02):
            ids = rng.integers(0, 20, 16)
            found = Found("r", ids, None, None, None)
            rows = found.spread(worker.pull("r", found.ids, 2, True))
            error = (rows + bias.numpy() - target[ids] - 3) / 4
            worker.step([(bias, bireme.to_tensor(error.mean(axis=0)))], [(found, bireme.to_tensor(error))])
            errors.append(np.abs(error).max())
        worker.flush()

    def caught(rank):
        try:
            train(rank)
        except (ValueError, RuntimeError, OSError) as e:
            failures.append(e)

    threads = [threading.Thread(target=caught, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    rows = servers.clients[0].pull("r", np.arange(20, dtype=np.uint64), 2, False)
    _, (bias,) = servers.clients[0].call(world_home("bias"), "PullDense", {"names": ["bias"]})
    assert np.abs(rows + bias - target - 3).max() < 0.2


@pytest.fixture
def worker():
    """Fleet as the only worker of two servers, asynchronous."""
    running = Servers(2, 1)
    kept = dict(TABLES)
    TABLES.clear()
    made = fleet.Fleet()
    role = fleet.UserDefinedRoleMaker(current_id=0, worker_num=1, server_endpoints=running.addresses)
    made.init(role)
    yield made
    if lookup.Current.worker is not None:
        made.stop_worker()
    running.stop()
    TABLES.update(kept)


def test_a_program_is_trained_saved_and_run(worker, tmp_path, capsys):
    bireme.enable_static()
    try:
        with bireme.static.program_guard(bireme.static.Program(), bireme.static.Program()):
            program_of(worker, str(tmp_path), capsys)
    finally:
        bireme.disable_static()


def program_of(worker, folder, capsys):
    ids, y = bireme.static.data("ids", [None, 1], "int64"), bireme.static.data("y", [None, 1])
    _show, _click = bireme.static.data("show", [None, 1]), bireme.static.data("click", [None, 1])
    entry = bireme.distributed.ShowClickEntry("show", "click")
    rows = bireme.static.nn.sparse_embedding(ids, [50, 4], padding_idx=0, entry=entry)
    assert rows.shape == [-1, 4]
    out = bireme.static.nn.fc(rows, 1)
    loss = ((out - y) ** 2).mean()
    worker.distributed_optimizer(bireme.optimizer.Adagrad(0.5)).minimize(loss)
    exe = bireme.static.Executor()
    with pytest.raises(RuntimeError, match=r"fleet\.init_worker"):
        worker.save_persistables(exe, folder)
    exe.run(bireme.static.default_startup_program())
    worker.init_worker()
    count = np.arange(9).reshape(-1, 1)
    feed = {"ids": count, "y": np.ones((9, 1), np.float32), "show": np.full((9, 1), 20.0, np.float32)}
    feed["click"] = np.zeros((9, 1), np.float32)
    losses = [float(exe.run(feed=feed, fetch_list=[loss])[0]) for _ in range(30)]
    while losses[-1] > 0.2 * losses[0] and len(losses) < 1000:  # how soon a server has taken what is sent, nobody knows
        losses.append(float(exe.run(feed=feed, fetch_list=[loss])[0]))
    assert losses[-1] < 0.2 * losses[0]
    lookup.Current.worker.flush()
    lookup.Current.worker.refresh()  # the values that are saved

    infer = fleet.utils.DistributedInfer()
    test = infer.get_dist_infer_program()
    found, scores = exe.run(test, feed={"ids": np.array([[1], [0], [99]])}, fetch_list=[rows.name, out.name])
    assert (found[0] != 0).any() and (found[1:] == 0).all(), "padding, and an id that nobody has trained"
    assert worker.save_cache_table(0, 0) == 8
    worker.print_table_stat(0, 0, 0)
    assert capsys.readouterr().out.startswith("table 0, sparse_embedding_0.w_0: 8 rows, ")

    worker.save_inference_model(exe, os.path.join(folder, "model"), ["ids"], [out])
    program, names, targets = bireme.static.load_inference_model(os.path.join(folder, "model", "model"), exe)
    again = exe.run(program, feed={names[0]: np.array([[1], [0], [99]])}, fetch_list=targets)[0]
    np.testing.assert_allclose(again, scores, rtol=1e-6)
    worker.save_dense_params(exe, folder, None, None)
    assert len(bireme.load(os.path.join(folder, "dense.pdparams"))) == 2

    worker.save_one_table(0, os.path.join(folder, "one"), 0)
    worker.shrink(1000.0)
    assert worker.save_cache_table(0, 0) == 0
    worker.load_one_table(0, os.path.join(folder, "one"), 0)
    worker.shrink()
    worker.set_date(0, 40)
    assert worker.save_cache_table(0, 0) == 8, "all of them were shown often"
    worker.load_model(os.path.join(folder, "model"), 0)
    kept = exe.run(test, feed={"ids": np.array([[1], [0], [99]])}, fetch_list=[rows.name])[0]
    assert (kept == found).all()
    for call in (
        lambda: worker.save_persistables(exe, folder, mode=3), lambda: worker.save_one_table(7, folder, 0),
        lambda: worker.load_model(os.path.join(folder, "nosuch"), 0),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match="expected"):
            call()
    with pytest.raises(ArgumentError, match="as before, with width 4, "):
        bireme.static.nn.sparse_embedding(ids, [50, 5], entry=entry, param_attr="sparse_embedding_0.w_0")


def test_dynamic_code_is_trained(worker):
    layer = bireme.nn.Linear(4, 1)
    optimizer = worker.distributed_optimizer(bireme.optimizer.SGD(0.2, parameters=layer.parameters()))
    worker.init_worker()
    ids = bireme.to_tensor([[5, 6], [7, 5]])
    table = bireme.ParamAttr("dynamic")

    def loss_of():
        rows = bireme.static.nn.sparse_embedding(ids, [10, 4], param_attr=table)
        assert rows.shape == [2, 2, 4]
        return ((layer(rows.sum(axis=1)) - 1) ** 2).mean()

    losses = []
    for _ in range(25):
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        lookup.Current.worker.flush()
        losses.append(float(loss))
    assert losses[-1] < 0.05 * losses[0]
    loss_of().backward()
    optimizer.clear_grad()
    assert lookup.Current.worker.take_kept() == []
    with pytest.raises(ArgumentError, match="the name of the table in dynamic mode"):
        bireme.static.nn.sparse_embedding(ids, [10, 4])
    for wrong in ({"input": bireme.ones([2])}, {"table_class": "x"}, {"dtype": "float64"}, {"size": [3]}, {"entry": 1}):
        with pytest.raises(ValueError, match=r"sparse_embedding\(.*\): expected"):
            bireme.static.nn.sparse_embedding(**{"input": ids, "size": [10, 4], "param_attr": table, **wrong})


# ---------------------------------------------------------------- processes

SERVER = """
import os, sys
from bireme.distributed import fleet
fleet.init(is_collective=False)
fleet.init_server(*sys.argv[1:])
print("ready", flush=True)
fleet.run_server()
"""


def test_what_was_saved_survives_a_kill(tmp_path):
    address = f"127.0.0.1:{world.free_ports(1)[0]}"
    environment = {
        **os.environ, "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": address.split(":")[1],
        "PADDLE_PSERVERS_IP_PORT_LIST": address, "PADDLE_TRAINERS_NUM": "1", "PYTHONPATH": str(ROOT),
    }  # fmt: skip

    def started(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, *arguments], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        return process

    server, folder = started(), str(tmp_path / "saved")
    worker = Client([address], 0)
    try:
        worker.all("Make", {"tables": [config()], "dense": []})
        ids = some_ids(500)
        rows = worker.pull("t", ids, 4, True)
        worker.save(folder)
        worker.pull("t", some_ids(100, 1), 4, True)  # rows after the save
        server.send_signal(signal.SIGKILL)
        server.wait()
        # a save that the kill has interrupted
        (name,) = os.listdir(folder)
        Path(folder, f"{name}.1.tmp").write_bytes(b"half of it")
        server = started(folder)
        assert (worker.pull("t", ids, 4, False) == rows).all(), "the same client finds it again"
        assert worker.all("Stat", {})[0]["tables"]["t"][0] == 500
        worker.all("Stop", {"worker": 0})
        assert server.wait(30) == 0
    finally:
        worker.close()
        server.kill()
        server.wait()


def test_training_in_step_equals_one_process(tmp_path):
    """Two servers and two workers, started by the launcher, with a static program."""
    done = subprocess.run(
        [
            sys.executable, "-m", "bireme.distributed.launch", "--server_num", "2", "--worker_num", "2", "--log_dir",
            str(tmp_path / "log"), str(ROOT / "tests" / "parameter_server_program.py"), str(tmp_path / "saved"),
        ],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("difference")[1]) < 1e-6
    assert len(os.listdir(tmp_path / "saved")) == 2
    assert sorted(os.listdir(tmp_path / "log")) == ["serverlog.0", "serverlog.1", "workerlog.0", "workerlog.1"]


GLOO = """
import sys
from bireme import distributed as dist
dist.gloo_init_parallel_env(1, 2, sys.argv[1])
dist.gloo_barrier()
print("met")
dist.gloo_release()
"""


def test_processes_meet_on_cpu():
    dist, address = bireme.distributed, f"127.0.0.1:{world.free_ports(1)[0]}"
    with pytest.raises(RuntimeError, match="gloo_init_parallel_env\\(\\) before"):
        dist.gloo_barrier()
    with pytest.raises(ArgumentError, match="a rank below rank_num=2"):
        dist.gloo_init_parallel_env(2, 2, address)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    other = subprocess.Popen([sys.executable, "-c", GLOO, address], env=environment, stdout=subprocess.PIPE, text=True)
    dist.gloo_init_parallel_env(0, 2, address)
    dist.gloo_barrier()
    dist.gloo_release()
    assert (other.communicate()[0], other.returncode) == ("met\n", 0)
    with pytest.raises(ValueError, match="expected"):
        dist.create_nccl_config({"nosuch": 1})


def test_roles_are_read_and_checked(monkeypatch):
    for name, value in {
        "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:7001,127.0.0.1:7002", "PADDLE_TRAINERS_NUM": "3",
        "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": "7002",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    role = fleet.PaddleCloudRoleMaker()
    assert (role._is_server(), role._server_index(), role._server_num(), role._worker_num()) == (True, 1, 2, 3)
    assert not role._is_first_worker()
    for name, value in (("PADDLE_PORT", "1"), ("TRAINING_ROLE", "NOSUCH"), ("PADDLE_PSERVERS_IP_PORT_LIST", "here")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            with pytest.raises(ArgumentError, match="expected"):
                fleet.PaddleCloudRoleMaker()
    with pytest.raises(ArgumentError, match="the addresses of the servers"):
        fleet.PaddleCloudRoleMaker(is_collective=True)
    made = fleet.UserDefinedRoleMaker(
        current_id=1, role=fleet.Role.SERVER, server_endpoints=["127.0.0.1:1", "127.0.0.1:2"]
    )
    assert made._server_index() == 1
    with pytest.raises(ArgumentError, match="a rank below 2, the number of servers"):
        fleet.UserDefinedRoleMaker(
            current_id=2, role=fleet.Role.SERVER, server_endpoints=["127.0.0.1:1", "127.0.0.1:2"]
        )
    fresh = fleet.Fleet()
    fresh._role_maker = made
    for call, expected in ((fresh.init_worker, "a call in a worker"), (fresh.run_server, "init_server() before")):
        with pytest.raises(RuntimeError, match="expected") as error:
            call()
        assert expected in str(error.value)
    fresh._role_maker = fleet.UserDefinedRoleMaker()
    with pytest.raises(RuntimeError, match=r"fleet.stop_worker\(\): expected parameter servers, got none"):
        fresh.stop_worker()
