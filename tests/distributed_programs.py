"""What the processes of tests/test_distributed_processes.py run. An assertion that fails in one is an error of the test."""

import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading

import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.core.processes import connection, watch

OPS = {"SUM": [3, 5], "MAX": [2, 3], "MIN": [1, 2], "PROD": [2, 6], "AVG": [1.5, 2.5]}  # of [1, 3] and [2, 2]
LARGE = 700  # elements: more than the first message of a collective carries, in every dtype


def tensor(values, dtype="float32"):
    return bireme.to_tensor(np.array(values, "float32")).astype(dtype)


def said(error):
    return str(error.value).splitlines()[0]


def collectives():
    """All of them among two processes; where Paddle 3.2.2 answers on gloo, what is expected is its answer."""
    started_before = bireme.to_tensor([1.0]) + 1  # connecting is possible after the device was used
    group = dist.init_parallel_env()
    me = dist.get_rank()
    assert dist.init_parallel_env() is group and started_before.item() == 2
    assert repr(group) == f"rank: {me}, nranks: 2, id: 0, ranks: 0, 1; name: _default_pg"
    assert (dist.get_world_size(), dist.get_backend(), dist.ParallelEnv().local_rank) == (2, "GLOO", me)
    for check in (reductions, movements, parts, objects, messages, subgroups, order, tasks):
        check(me)


def reductions(me):
    for dtype in ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"):
        for name, expected in OPS.items():
            if name == "AVG" and not dtype.startswith(("float", "bfloat")):
                expected = [1, 2]
            for repeat in (1, LARGE) if dtype in ("float32", "bfloat16", "int64") else (1,):
                x = tensor([1 + me, 3 - me] * repeat, dtype)
                dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
                assert x.astype("float32").tolist() == expected * repeat, (dtype, name, repeat)
                assert x.dtype == getattr(bireme, dtype)
    x = tensor([1 + me, 2])
    dist.reduce(x, dst=0)
    assert x.tolist() == ([3, 4] if me == 0 else [2, 2])
    flags = bireme.to_tensor([me == 0, True] * LARGE * 2)
    dist.all_reduce(flags, op=dist.ReduceOp.MIN)
    assert flags.tolist() == [False, True] * LARGE * 2
    wave = bireme.to_tensor(np.full(LARGE, 1 + me * 1j, "complex64"))
    dist.all_reduce(wave)
    assert wave.tolist() == [2 + 1j] * LARGE


def movements(me):
    for repeat in (1, LARGE):
        x = tensor([1 + me, -0.0] * repeat)
        dist.broadcast(x, src=1)
        assert x.tolist() == [2, 0] * repeat and np.signbit(x.numpy()[1])  # its very bits
        found = []
        dist.all_gather(found, tensor([1 + me, 2] * repeat))
        assert [t.tolist() for t in found] == [[1, 2] * repeat, [2, 2] * repeat] and found[0].stop_gradient
        dist.all_gather(found, tensor([me, me] * repeat))
        assert [t.tolist() for t in found] == [[0, 0] * repeat, [1, 1] * repeat]
        whole = tensor([0] * 4 * repeat)
        dist.stream.all_gather(whole, tensor([me, 5] * repeat))
        assert whole.tolist() == [0, 5] * repeat + [1, 5] * repeat
        x = tensor([0] * 2 * repeat)
        dist.scatter(x, [tensor([1, 2] * repeat), tensor([3, 4] * repeat)] if me == 0 else None, src=0)
        assert x.tolist() == ([3, 4] if me else [1, 2]) * repeat
    found = []
    dist.all_gather(found, tensor(3.0 + me))
    assert [(t.item(), t.shape) for t in found] == [(3, []), (4, [])]
    found = [] if me == 0 else None
    dist.gather(tensor([1 + me, 2]), found, dst=0)
    assert me == 1 or [t.tolist() for t in found] == [[1, 2], [2, 2]]


def parts(me):
    for repeat in (1, LARGE):
        found = []
        dist.alltoall(found, [tensor([10 * me + i] * repeat) for i in range(2)])
        assert [t.tolist() for t in found] == [[me] * repeat, [10 + me] * repeat]
        x = tensor([0] * repeat)
        dist.reduce_scatter(x, [tensor([1 + me] * repeat), tensor([3 + me] * repeat)])
        assert x.tolist() == [7 if me else 3] * repeat
    x = tensor([0, 0])
    dist.alltoall_single(x, tensor([10 * me, 10 * me + 1]))
    assert x.tolist() == [me, 10 + me]
    # rank 0 sends 1 and 2 rows, rank 1 sends 3 and 0
    rows = tensor([[me * 10 + i] * 2 for i in range(3)])
    x = tensor(np.zeros((4 if me == 0 else 2, 2)))
    dist.alltoall_single(x, rows, [1, 2] if me == 0 else [3, 0], [1, 3] if me == 0 else [2, 0])
    assert x[:, 0].tolist() == ([0, 10, 11, 12] if me == 0 else [1, 2])


def objects(me):
    found = [7]
    dist.all_gather_object(found, {"rank": me, "text": "x" * 3000 * me})
    assert found[0] == 7 and [len(o["text"]) for o in found[1:]] == [0, 3000]
    given = [me, {"a": tensor([me])}]
    dist.broadcast_object_list(given, src=1)
    assert given[0] == 1 and given[1]["a"].tolist() == [1]
    out = []
    dist.scatter_object_list(out, [{"x": 1}, {"y": 2}] if me == 0 else None, src=0)
    assert out == [{"y": 2} if me else {"x": 1}]


def messages(me):
    x = tensor([5 + me])
    dist.send(x, 1) if me == 0 else dist.recv(x, 0)
    assert x.tolist() == [5]
    # both send first, more than the service takes in one piece
    x, y = bireme.full([2_000_000], float(me)), bireme.zeros([2_000_000])
    ops = [dist.P2POp(dist.isend, x, 1 - me), dist.P2POp(dist.irecv, y, 1 - me)]
    assert [task.wait() for task in dist.batch_isend_irecv(ops)] == [True, True]
    assert y.mean().item() == 1 - me
    for i in range(20):  # more than may be under way
        dist.send(tensor([i]), 1) if me == 0 else dist.recv(y := tensor([0]), 0)
        assert me == 0 or y.tolist() == [i]
    y = tensor([0])
    if me == 0:
        dist.send_object_list([{"z": 1}, 2], dst=1)
        dist.isend(tensor([4]), 1)
    else:
        given = [None, None]
        dist.recv_object_list(given, src=0)
        assert given == [{"z": 1}, 2]
        task = dist.irecv(y, 0)
        assert not task.is_completed()
        dist.wait(y)
        assert task.is_completed() and y.tolist() == [4]
    if me == 0:
        dist.send(tensor([1, 2]), 1)
    else:
        with pytest.raises(RuntimeError) as error:
            dist.recv(tensor([1]), 0)
        assert said(error) == "recv(tensor): expected a tensor of float32[2], which rank 0 has sent, got float32[1]"


def subgroups(me):
    alone, both = dist.new_group([1]), dist.new_group([1, 0])
    assert (alone.id, both.id, alone.nranks, both.ranks) == (10, 11, 1, [0, 1])
    assert (alone.rank, alone.is_member()) == ((0, True) if me else (-1, False))
    assert (dist.get_rank(alone), dist.get_world_size(alone)) == ((0, 1) if me else (-1, -1))
    x = tensor([1 + me])
    if me == 0:
        with pytest.warns(UserWarning, match="expected a group of this process, rank 0"):
            assert dist.all_reduce(x, group=alone) is None
    else:
        dist.all_reduce(x, group=alone)
    assert x.tolist() == [1 + me]
    dist.all_reduce(x, group=both)
    assert x.tolist() == [3]
    dist.barrier(both)
    dist.destroy_process_group(both)


def order(me):
    """What one process alone reads, prints, catches or leaves pending changes no collective."""
    x, seen = tensor([1 + me, 2]), []
    for step in range(6):
        y = x * 2 + step
        if me == 0 and step % 2:
            seen.append(str(y))
            bireme.debug.flush()
        z = y.exp()  # pending in one process, computed in the other
        if me == step % 2:
            z.numpy()
            try:
                bireme.ones([2]) + bireme.ones([3])
            except ValueError as e:
                seen.append(e)
        dist.all_reduce(y)
        x = y / 4
    expected = np.array([[1.0, 2], [2, 2]])
    for step in range(6):
        expected = (expected * 2 + step).sum(0) / 4 + np.zeros((2, 2))
    np.testing.assert_allclose(x.numpy(), expected[me], rtol=1e-6)


def tasks(me):
    x = tensor([1 + me])
    task = dist.all_reduce(x, sync_op=False)
    assert task.wait() and task.is_completed() and x.tolist() == [3]
    task = dist.stream.broadcast(x, src=0, sync_op=True, use_calc_stream=True)
    assert task.is_sync()


# ------------------------------------------------------------ errors that all processes see, and go on from


def wrong_calls():
    dist.init_parallel_env()
    me = dist.get_rank()
    with pytest.raises(RuntimeError) as error:
        dist.all_reduce(bireme.ones([4 + me]))
    calls = [f"all_reduce(float32[{4 + r}], SUM) at {_line(error)} in rank {r} on {_host()}" for r in range(2)]
    assert said(error) == f"all_reduce(): expected the same call in all processes of group 0, got {'; '.join(calls)}"
    with pytest.raises(RuntimeError, match=r"broadcast\(float32\[2\], src=0\) at .* in rank 1 on"):
        dist.broadcast(tensor([1, 2]), 0) if me else dist.all_reduce(tensor([1, 2]))
    # an index that only the program finds wrong, in one process: the other hears of it in its place
    index = bireme.to_tensor([1, 5 if me else 2]) + 0
    with pytest.raises((IndexError, RuntimeError), match="index_select") as error:
        dist.all_reduce(bireme.index_select(bireme.ones([3]), index))
    assert isinstance(error.value, IndexError) == bool(me)
    assert me or f"in rank 1 on {_host()}" in said(error)
    with pytest.raises((AttributeError, RuntimeError), match="pickle"):
        dist.all_gather_object([], (lambda: 1) if me else 1)
    x = tensor([1 + me])
    dist.all_reduce(x)
    assert x.tolist() == [3]


def _line(error):
    return str(error.value).splitlines()[-1].removeprefix("  at ")


def _host():
    return os.uname().nodename


# ------------------------------------------------------------ ends


def ends(how, path):
    """Let a process end, or wait for what never comes; what both print goes to a file."""
    os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), 2)
    os.environ["TOLD"] = path
    watch.PATIENCE, watch.LOOK, watch.SILENT = 0.3, 0.1, 2.0
    dist.init_parallel_env()
    x = tensor([1])
    dist.all_reduce(x)
    ways = {"kill": _kill, "stop": _stop, "slow": _slow, "raise": _raise, "return": _return, "groups": _groups,
            "receive": _receive}  # fmt: skip
    ways[how](dist.get_rank(), x)


def _kill(me, x):
    if me == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)


def _stop(me, x):
    if me == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    dist.all_reduce(x)


def _slow(me, x):
    """One process comes only after the other has said that it waits, and fails then."""
    watch.SLOW = 0.5
    while me == 1:
        with open(os.environ["TOLD"]) as file:
            if "has waited" in file.read():
                raise ValueError("of rank 1")
    dist.all_reduce(x)


def _raise(me, x):
    if me == 1:
        raise ValueError("of rank 1")
    dist.all_reduce(x)


def _return(me, x):
    if me == 0:
        dist.all_reduce(x)


def _groups(me, x):
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    dist.barrier(groups[me])


def _receive(me, x):
    dist.recv(x, 1 - me)


def by_hand_killed(rank, address, path):
    """Without a launcher the first process is killed, and the service outlives it."""
    os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), 2)
    os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM="2", PADDLE_MASTER=address)
    dist.init_parallel_env()
    dist.all_reduce(x := tensor([1]))
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)


def by_hand(rank, address):
    """Without a launcher the first process runs the service, and is the last to go."""
    os.environ.update(PADDLE_TRAINER_ID=str(rank), PADDLE_TRAINERS_NUM="2", PADDLE_MASTER=address)
    dist.init_parallel_env()
    x = tensor([1 + rank])
    dist.all_reduce(x)
    assert x.tolist() == [3]
    if rank == 1:
        while 0 not in connection.current().told("ended/"):
            pass
        assert connection.current().hosts == {0: _host(), 1: _host()}  # and the service is still there
        assert set(connection.current().told("host/")) == {0, 1}
    connection.close()
    assert rank == 1 or connection.current()._left


# ------------------------------------------------------------ training


class Block(nn.Layer):
    """Two convolutions and a way around them."""

    def __init__(self, before, after, stride):
        super().__init__()
        self.first = nn.Conv2D(before, after, 3, stride, 1, bias_attr=False)
        self.norm = nn.GroupNorm(2, after)
        self.second = nn.Conv2D(after, after, 3, 1, 1)
        self.around = nn.Conv2D(before, after, 1, stride)

    def forward(self, x):
        y = self.second(nn.functional.relu(self.norm(self.first(x))))
        return nn.functional.relu(y + self.around(x))


def networks():
    mlp = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 5))
    tail = [nn.AdaptiveAvgPool2D(1), nn.Flatten(), nn.Linear(8, 5)]
    return {
        "mlp": (mlp, (6,)),
        "resnet": (nn.Sequential(nn.Conv2D(3, 4, 3), Block(4, 4, 1), Block(4, 8, 2), *tail), (3, 6, 6)),
    }


def losses(steps, path):
    """Train on parts of the same batches, and write the mean loss of each step."""
    dist.init_parallel_env()
    me, size = dist.get_rank(), dist.get_world_size()
    bireme.seed(7 + me)  # every process begins with the parameters of the first
    found = {}
    for name, (net, shape) in networks().items():
        model = bireme.DataParallel(net, comm_buffer_size=1e-3, last_comm_buffer_size=1e-4)
        assert size == 1 or len(model._reducer.buckets) > 1
        optimizer = bireme.optimizer.Momentum(0.05, parameters=model.parameters())
        rng, found[name] = np.random.default_rng(0), []
        for _ in range(steps):
            part = slice(me * 8 // size, (me + 1) * 8 // size)
            x, y = rng.standard_normal((8, *shape), "float32")[part], rng.integers(0, 5, 8)[part]
            loss = nn.functional.cross_entropy(model(bireme.to_tensor(x)), bireme.to_tensor(y))
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            total = loss.detach()
            dist.all_reduce(total, op=dist.ReduceOp.AVG)
            found[name].append(total.item())
    if size == 2:
        gradients(me)
        statistics(me)
    if me == 0:
        with open(path, "w") as file:
            json.dump(found, file)


class Branches(nn.Layer):
    """A layer of which each process uses a part."""

    def __init__(self):
        super().__init__()
        self.parts = nn.LayerList([nn.Linear(1, 1, bias_attr=False) for _ in range(3)])
        self.register_buffer("offset", bireme.full([1], float(dist.get_rank())))

    def forward(self, x, index):
        return self.parts[index](x) + self.offset


def gradients(me):
    """Parameters that not all processes reach, buffers, and passes without an exchange."""
    model = bireme.DataParallel(Branches(), find_unused_parameters=True)
    net = model._layers
    assert net.offset.item() == 0  # that of the first process
    model(tensor([[2.0 + me]]), me).sum().backward()
    assert [None if p.grad is None else p.grad.item() for p in net.parameters()] == [1, 1.5, None]
    model.clear_gradients()
    with model.no_sync():
        model(tensor([[2.0 + me]]), 0).sum().backward()
    assert net.parts[0].weight.grad.item() == 2 + me
    held = net.parts[0].weight.grad
    model(tensor([[1.0]]), 0).sum().backward()
    assert held.item() == 3.5  # the mean of 3 and 4
    with bireme.no_grad():
        model(tensor([[1.0]]), 0)


def statistics(me):
    """SyncBatchNorm on parts of a batch is BatchNorm2D on the batch."""
    rng = np.random.default_rng(3)
    whole, weights = (rng.standard_normal((5, 3, 2, 2)).astype("float32") + mean for mean in (5, 0))
    part = slice(0, 2) if me == 0 else slice(2, 5)
    found = []
    for layer, rows in ((nn.BatchNorm2D(3), slice(None)), (nn.SyncBatchNorm(3), part)):
        x = bireme.to_tensor(whole[rows], stop_gradient=False)
        y = layer(x)
        (y * bireme.to_tensor(weights[rows]) * y).sum().backward()
        if rows == part:
            for p in layer.parameters():
                if p.grad is not None:
                    dist.all_reduce(p.grad)
        mine = [y, x.grad] if rows == part else [y[part], x.grad[part]]
        found.append([*mine, layer.weight.grad, layer.bias.grad, layer._mean, layer._variance])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-4)
    layer.eval()
    assert layer(x).shape == [part.stop - part.start, 3, 2, 2]


def fitted(folder, preempted=-1):
    """The parameters after `Model.fit` with checkpoints; a process gets SIGTERM after so many steps."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((48, 4)).astype("float32")
    data = bireme.io.TensorDataset([bireme.to_tensor(x), bireme.to_tensor(x.sum(1, keepdims=True))])
    batches = dist.elastic.GlobalBatchSampler(data, 8, shuffle=True)
    bireme.seed(3)
    with bireme.utils.unique_name.guard():
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    model = bireme.Model(net)
    model.prepare(bireme.optimizer.Adam(0.05, parameters=net.parameters()), nn.MSELoss())
    saved = bireme.callbacks.Checkpoint(folder, preemption=True)
    callbacks = [Preempted(preempted), saved]
    model.fit(bireme.io.DataLoader(data, batch_sampler=batches), epochs=2, verbose=0, callbacks=callbacks)
    return [p.numpy() for p in net.parameters()]


class Preempted(bireme.callbacks.Callback):
    """Sends the last process SIGTERM after some steps."""

    def __init__(self, left):
        super().__init__()
        self.left = left

    def on_train_batch_end(self, step, logs=None):
        self.left -= 1
        if self.left == 0 and dist.get_rank() == dist.get_world_size() - 1:
            os.kill(os.getpid(), signal.SIGTERM)


# ------------------------------------------------------------ calls of functions in other processes


def where_am_i(x, scale=1):
    return dist.rpc.get_current_worker_info().name, x * scale


def calls_back(name, depth):
    """A function that calls the process which called it, and so on."""
    if depth == 0:
        return [name]
    other = f"w{1 - int(name[1])}"
    return [name, *dist.rpc.rpc_sync(other, calls_back, args=(other, depth - 1))]


def fails(kind):
    raise {"value": ValueError("of the other"), "own": OwnError("mine")}[kind]


class OwnError(Exception):
    pass


def waits_forever():
    threading.Event().wait()


def calls(path):
    """Functions by name, values of every kind, errors, and the end of one process."""
    me = int(os.environ["PADDLE_TRAINER_ID"])
    rpc, name, other = dist.rpc, f"w{me}", f"w{1 - me}"
    rpc.init_rpc(name)
    assert [info.name for info in rpc.get_all_worker_infos()] == ["w0", "w1"]
    assert rpc.get_worker_info(other).rank == 1 - me
    found = rpc.rpc_sync(other, where_am_i, args=(tensor([1, 2]),), kwargs={"scale": 3})
    assert found[0] == other and found[1].tolist() == [3, 6]
    assert rpc.rpc_sync(other, calls_back, args=(other, 20)) == [other, name] * 10 + [other]
    value = {"a": (1, None, b"x"), 2: [1.5, True, {3}], "half": bireme.ones([2], "bfloat16"), "n": np.arange(3)}
    back = rpc.rpc_sync(other, dict, args=(value,))
    assert back["a"] == (1, None, b"x") and back[2] == [1.5, True, {3}] and back["half"].dtype == bireme.bfloat16
    assert isinstance(back["n"], np.ndarray) and back["n"].tolist() == [0, 1, 2]
    replies = [rpc.rpc_async(other, where_am_i, args=(i,)) for i in range(5)]
    assert [reply.wait()[1] for reply in replies] == list(range(5))
    with pytest.raises(ValueError, match=rf"^of the other\n  in rpc_sync\(fails\) at .* of worker '{other}', rank"):
        rpc.rpc_sync(other, fails, args=("value",))
    with pytest.raises(RuntimeError, match=r"^OwnError: mine"):
        rpc.rpc_sync(other, fails, args=("own",))
    with pytest.raises(TimeoutError, match=r"expected an answer within 0.1 s, got none"):
        rpc.rpc_sync(other, waits_forever, timeout=0.1)
    with pytest.raises(ValueError, match="expected a function or class that a module has under its name"):
        rpc.rpc_sync(other, lambda: 1)
    with pytest.raises(TypeError, match=r"expected tensors, arrays, numbers, .* got OwnError"):
        rpc.rpc_sync(other, dict, args=(OwnError(),))
    info = rpc.get_worker_info(other)
    with pytest.raises((EOFError, OSError, multiprocessing.AuthenticationError)):  # without the secret
        multiprocessing.connection.Client((info.ip, info.port), authkey=b"guessed").recv_bytes()
    if me == 0:
        reply = rpc.rpc_async("w1", os._exit, args=(3,))
        with pytest.raises(
            bireme.errors.ProcessLostError, match=r"worker 'w1', rank 1 on 127\.0\.0\.1: the process is gone"
        ):
            reply.wait()
        with open(path, "w") as file:
            file.write("told")
    rpc.shutdown()


def calls_by_hand(rank, address):
    """Without a launcher: the first process makes the secret and is where the others find each other."""
    dist.rpc.init_rpc(f"w{rank}", rank, 2, address)
    assert dist.rpc.rpc_sync("w0", pow, args=(2, 5)) == 32
    dist.rpc.shutdown()


# ------------------------------------------------------------ a program for the launcher


def main():
    dist.init_parallel_env()
    x = tensor([1 + dist.get_rank()])
    dist.all_reduce(x)
    found = {name: value for name, value in os.environ.items() if name.startswith("PADDLE_")}
    sys.stdout.write(json.dumps([x.item(), dist.ParallelEnv().device_id, sys.argv[1:], found]) + "\n")


if __name__ == "__main__":
    main()
