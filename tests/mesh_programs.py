"""What tests/test_mesh.py runs: checks on eight devices of one process, and on processes that share a mesh."""

import itertools
import json
import os
import runpy
import sys
import tempfile

import numpy as np
import pytest

import bireme
from bireme import distributed as dist
from bireme import nn
from bireme.core.run import graphs, mesh_run
from bireme.distributed import Partial, ProcessMesh, ReduceType, Replicate, Shard
from bireme.distributed.auto_parallel.api import dtensor_from_local, dtensor_to_local
from bireme.nn import functional as F

EXAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "examples", "gpt_on_a_mesh.py")
X = np.arange(35, dtype="float32").reshape(5, 7)


def mesh_of(*shape):
    return ProcessMesh(np.arange(np.prod(shape)).reshape(shape), dim_names=["dp", "mp"][: len(shape)])


def raised(call):
    with pytest.raises((ValueError, RuntimeError)) as e:
        call()
    return f"{e.type.__name__}: {str(e.value).splitlines()[0]}"


def counts():
    """The collectives of the largest program of a mesh that ran last."""
    entries = [e for e in graphs.known.values() if e.graph.device.several and e.compiled]
    last = max(entries, key=lambda e: len(e.graph.nodes))
    return len(last.compiled), dict(mesh_run.collectives(last.compiled[-1]))


# ------------------------------------------------------------ models


class Net(nn.Layer):
    """A convolution with normalisation and a shortcut, then two linear layers."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2D(1, 4, 3, padding=1), nn.BatchNorm2D(4)
        self.second = nn.Conv2D(4, 4, 3, padding=1)
        self.up, self.down = nn.Linear(64, 8), nn.Linear(8, 3)

    def forward(self, x):
        y = F.relu(self.norm(self.first(x)))
        y = y + self.second(y)
        return self.down(F.relu(self.up(y.flatten(1))))


class Mlp(nn.Layer):
    """Two linear layers."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.down(F.relu(self.up(x.flatten(1))))


PLAN = {"up": dist.ColWiseParallel, "down": dist.RowWiseParallel}


def losses(steps, mesh=None, stage=0, lone_reads=(), grads=False, net=Net):
    """The losses of some steps, by process alone or on a mesh. `lone_reads`: ranks that read the loss early."""
    bireme.seed(3)
    model = net()
    optimizer = bireme.optimizer.Adam(1e-2, parameters=model.parameters())
    if mesh is not None:
        config = {
            "mp_config": {"parallelize_plan": {name: plan() for name, plan in PLAN.items()}},
            "dp_config": {"sharding_level": stage},
        }
        dist.parallelize(model, optimizer, mesh, config)
    rng, found = np.random.RandomState(0), []
    for step in range(steps):
        x = bireme.to_tensor(rng.rand(8, 1, 4, 4).astype("float32"))
        y = bireme.to_tensor(rng.randint(0, 3, [8]))
        loss = F.cross_entropy(model(x), y)
        if dist.get_rank() in lone_reads and step % 2:
            assert 0 < loss.item() < 10
        loss.backward()
        if grads and dist.get_rank() == 1 and step == 1:
            assert np.isfinite(model.up.weight.grad.numpy()).all()
        optimizer.step()
        optimizer.clear_grad()
        found.append(loss)
    return [loss.item() for loss in found], model, optimizer


# ------------------------------------------------------------ one process, eight devices


def reshards(every=False):
    """Between pairs of placements on one axis, all if `every`, of sizes that do not divide; and on two axes."""
    one, two = ProcessMesh([0, 1, 2], ["x"]), mesh_of(2, 2)
    kinds = [Replicate(), Shard(0), Shard(1), *[Partial(ReduceType(k)) for k in range(5)]]
    for before, after in list(itertools.product(kinds, kinds))[:: 1 if every else 9]:
        x = dist.shard_tensor(X, one, [before])
        assert x.placements == [before] and x.shape == [5, 7]
        y = dist.reshard(x, one, [after])
        assert y.placements == [after], (before, after, y.placements)
        np.testing.assert_allclose(y.numpy(), X, rtol=1e-6)
    for before, after in [((Shard(0), Shard(0)), (Shard(1), Partial())), ((Partial(), Shard(1)), (Shard(1), Shard(0)))]:
        y = dist.reshard(dist.shard_tensor(X, two, before), two, after)
        assert y.placements == list(after)
        np.testing.assert_allclose(y.numpy(), X, rtol=1e-6)
    x = dist.shard_tensor(X, one, [Partial()])
    assert x._local_value().tolist() == X.tolist() and (x * 2).numpy().tolist() == (X * 2).tolist()
    for kind, want in (
        (ReduceType.kRedSum, 3),
        (ReduceType.kRedMax, 1),
        (ReduceType.kRedAvg, 1),
        (ReduceType.kRedProd, 1),
    ):
        assert dtensor_from_local(bireme.ones([2]), one, [Partial(kind)]).tolist() == [want] * 2
    flags = dtensor_from_local(bireme.to_tensor([True, False]), one, [Partial(ReduceType.kRedAll)])
    assert flags.tolist() == [True, False]


def cumulative():
    """Sums along a divided axis are no loop that gathers in each of its turns."""
    x = dist.shard_tensor(np.ones((16, 64), "float32"), ProcessMesh(list(range(8)), ["x"]), [Shard(0)])
    y = x.cumsum(0) + bireme.cumprod(x, 0)
    assert y.numpy()[-1, 0] == 17
    entries = [e for e in graphs.known.values() if e.graph.device.several and e.compiled]
    assert " while(" not in entries[-1].compiled[-1].source.as_text()


def uneven():
    """Sizes that do not divide: parts, reductions, products, gradients, and what an optimizer keeps."""
    mesh = ProcessMesh([0, 1, 2], ["x"])
    x = dist.shard_tensor(X, mesh, [Shard(0)], stop_gradient=False)
    assert x._local_shape == [2, 7] and x._value.array.shape == (6, 7)
    w = dist.shard_tensor(np.ones((7, 2), "float32"), mesh, [Shard(0)], stop_gradient=False)
    for made, want in (
        (x.min(0), X.min(0)),
        (x.mean(), X.mean()),
        (x.std(1), X.std(1, ddof=1)),
        (x @ w, X @ np.ones((7, 2))),
    ):
        np.testing.assert_allclose(made.numpy(), want, rtol=1e-5)
    ((x @ w) ** 2).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * X.T @ (X @ np.ones((7, 2))), rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), np.tile(4 * (X @ np.ones((7, 1))), [1, 7]), rtol=1e-5)
    p = bireme.create_parameter([7, 2], "float32")
    before = p.numpy()
    assert dist.shard_tensor(p, mesh, [Shard(0)]) is p
    adam = bireme.optimizer.Adam(0.1, parameters=[p])
    (x.detach() @ p).sum().backward()
    adam.step()
    adam.clear_grad()
    assert p.placements == [Shard(0)] == adam._get_accumulator("moment1", p).placements
    np.testing.assert_allclose(p.numpy(), before - 0.1, rtol=1e-4)
    assert dist.unshard_dtensor(x).numpy().tolist() == X.tolist()
    assert dist.shard_tensor(X[:1], mesh, [Shard(0)]).sum().item() == X[:1].sum()


def meshes():
    """Between meshes, of other shapes and of other devices; and what does not go."""
    a, b = ProcessMesh([0, 1], ["x"]), ProcessMesh([4, 2, 7], ["x"])
    x = dist.shard_tensor(X, a, [Shard(0)], stop_gradient=False)
    y = dist.reshard(x * 2, b, [Shard(1)])
    (y * y).sum().backward()
    assert y.process_mesh == b and x.grad.process_mesh == a
    np.testing.assert_allclose(x.grad.numpy(), 8 * X)
    assert "operands: expected tensors on one mesh, got cpu:0,1, cpu:4,2,7" in raised(lambda: x + y)
    flat, square = ProcessMesh([0, 1, 2, 3], ["x"]), mesh_of(2, 2)
    z = dist.reshard(dist.shard_tensor(X, flat, [Shard(0)]), square, [Shard(1), Shard(0)]) + 1
    np.testing.assert_allclose(z.numpy(), X + 1)
    assert "the 8 devices of this one" in raised(lambda: dist.shard_tensor(X, ProcessMesh([0, 8]), []))
    plain = bireme.to_tensor(X[:4])
    x = dist.shard_tensor(plain, a, [Shard(0)])
    assert ((x + plain).placements, plain.is_dist(), (plain + 1).is_dist()) == ([Shard(0)], False, False)


def functions():
    """local_map, LocalLayer and parts: called for each device."""
    mesh = ProcessMesh([0, 1, 2, 3], ["x"])
    x = dist.shard_tensor(np.arange(8, dtype="float32"), mesh, [Shard(0)], stop_gradient=False)
    seen = []
    total = dist.local_map(lambda a: (seen.append(a.shape), a.sum() * 2)[1], [[Partial()]], [[Shard(0)]])(x)
    assert (total.item(), seen, total.placements) == (56, [[2]] * 4, [Partial()])
    total.backward()
    assert x.grad.tolist() == [2] * 8
    y = dist.reshard(x, mesh, [Replicate()])
    call = dist.local_map(lambda a: a + 1, [[Shard(0)]], [[Shard(0)]])
    assert "reshard_inputs" not in raised(lambda: call(y)) and "expected a tensor with [Shard(dim=0)]" in raised(
        lambda: call(y)
    )
    again = dist.local_map(lambda a: a + 1, [[Shard(0)]], [[Shard(0)]], reshard_inputs=True)(y)
    assert (again.placements, again.tolist()) == ([Shard(0)], (np.arange(8) + 1.0).tolist())

    class Largest(dist.LocalLayer):
        def forward(self, a):
            return a.max()

    layer = Largest([(mesh, [Partial(ReduceType.kRedMax)])], [(mesh, [Replicate()])])
    assert (layer(x).item(), dtensor_to_local(x, mesh, [Shard(0)]).tolist()) == (7, [0, 1])


def training():
    """Losses of one device and of a mesh; and the collectives of the program."""
    return {"one": losses(4)[0], "mesh": losses(4, mesh_of(2, 4))[0], "counts": counts()}


def example(*options):
    """The losses of examples/gpt_on_a_mesh.py."""
    with tempfile.TemporaryDirectory() as folder:
        path, before = os.path.join(folder, "losses.json"), sys.argv
        sys.argv = ["gpt_on_a_mesh.py", "--steps", "4", "--json", path, *options]
        try:
            runpy.run_path(EXAMPLE, run_name="__main__")
        finally:
            sys.argv = before
        with open(path) as file:
            return json.load(file)


def divided():
    """The same with what belongs to the optimizer divided."""
    found = {"one": losses(4)[0]}
    for stage in (1, 2, 3):
        found[str(stage)], model, optimizer = losses(4, mesh_of(4, 2), stage)
        moment = optimizer._get_accumulator("moment1", model.first.weight)
        assert moment.placements == [Shard(0), Replicate()]
        assert model.first.weight.placements == ([Shard(0), Replicate()] if stage == 3 else [Replicate()] * 2)
    return found


def plans():
    """Plans for sequences, attention, convolutions and stages compute what the layers compute without."""
    mesh, x = (
        ProcessMesh(np.arange(4).reshape(2, 2), ["dp", "mp"]),
        np.random.RandomState(1).rand(2, 4, 6).astype("float32"),
    )
    for plan in (dist.SequenceParallelEnable(), dist.ColWiseParallel(gather_output=True), dist.RowWiseParallel(False)):
        layer = nn.Linear(6, 6)
        want = layer(bireme.to_tensor(x)).numpy()
        model, _ = dist.parallelize(nn.Sequential(layer), None, mesh, {"mp_config": {"parallelize_plan": {"0": plan}}})
        np.testing.assert_allclose(model(bireme.to_tensor(x)).numpy(), want, rtol=1e-5, atol=1e-6)
    model = nn.Sequential(nn.ReLU(), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2))
    want = model(bireme.to_tensor(x)).numpy()
    steps = {"0": dist.SequenceParallelBegin(), "2": dist.SequenceParallelDisable(), "3": dist.SequenceParallelEnd()}
    dist.parallelize(model, None, mesh, {"mp_config": {"parallelize_plan": steps}})
    np.testing.assert_allclose(model(bireme.to_tensor(x)).numpy(), want, rtol=1e-5, atol=1e-6)
    conv = nn.Conv2D(1, 2, 3, padding=1)
    image = bireme.to_tensor(x[:, None])
    want = conv(image).numpy()
    dist.ConvParallel().apply(conv, mesh, None)
    np.testing.assert_allclose(conv(image).numpy(), want, rtol=1e-5, atol=1e-6)

    class Attention(nn.Layer):
        def forward(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    qkv = [bireme.to_tensor(np.random.RandomState(i).rand(1, 4, 2, 3).astype("float32")) for i in range(3)]
    want = Attention()(*qkv).numpy()
    for backend in ("p2p", "all2all"):
        layer = Attention()
        dist.ContextParallel(backend).apply(layer, ProcessMesh([0, 1], ["sep"]), None)
        np.testing.assert_allclose(layer(*qkv).numpy(), want, rtol=1e-5, atol=1e-6)


def stages():
    """A pipeline of two stages on halves of a mesh trains as one device does."""

    def run(mesh):
        bireme.seed(5)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 1))
        sgd = bireme.optimizer.Momentum(0.1, parameters=model.parameters())
        if mesh is not None:
            spec = {"split_spec": {"1": dist.SplitPoint.END}}
            dist.parallelize(model, sgd, mesh, {"pp_config": spec, "dp_config": {"sharding_level": 0}})
            assert (model[0].weight.process_mesh.process_ids, model[2].weight.process_mesh.process_ids) == (
                [0, 1],
                [2, 3],
            )
        found = []
        for i in range(3):
            loss = (model(bireme.full([2, 4], i + 1.0)) ** 2).mean()
            loss.backward()
            sgd.step()
            sgd.clear_grad()
            found.append(loss.item())
        return found

    mesh = ProcessMesh([[0, 1], [2, 3]], ["pp", "dp"])
    np.testing.assert_allclose(run(mesh), run(None), rtol=1e-5)


def steps():
    """DistModel and Engine: gradient merge and parts of a batch give the losses of a plain loop."""
    x, y = np.random.RandomState(0).rand(8, 4).astype("float32"), np.zeros((8, 1), "float32")

    def model(mesh=None, **groups):
        bireme.seed(7)
        layer = nn.Linear(4, 1)
        if mesh is not None:
            dist.shard_layer(layer, mesh)
        sgd = bireme.optimizer.Adam(0.1, parameters=layer.parameters())
        return dist.to_static(layer, None, nn.MSELoss(), sgd, dist.Strategy(groups)), layer

    data = [bireme.to_tensor(a) for a in (x, y)]
    one, layer = model()
    plain = [one(*data).item() for _ in range(3)]
    mesh = ProcessMesh([0, 1], ["dp"])
    batch = [dist.shard_tensor(t, mesh, [Shard(0)]) for t in data]
    for groups in ({"sharding": {"enable": True, "stage": 2}}, {"pipeline": {"enable": True, "accumulate_steps": 2}}):
        other, _ = model(mesh, **groups)
        np.testing.assert_allclose([other(*batch).item() for _ in range(3)], plain, rtol=1e-5)
    other, _ = model(mesh, gradient_merge={"enable": True, "k_steps": 2})
    twice = [other(*batch).item() for _ in range(4)]
    np.testing.assert_allclose([twice[0], twice[2]], plain[:2], rtol=1e-5)
    other, layer = model(mesh)
    state = {name: dist.unshard_dtensor(t) for name, t in other.state_dict("param").items()}
    other(*batch)
    other.set_state_dict(state)
    assert layer.weight.placements == [Replicate()] and layer.weight.tolist() == state["weight"].tolist()
    engine = dist.fleet.auto.Engine(layer, nn.MSELoss(), bireme.optimizer.Adam(0.1, parameters=layer.parameters()))
    history = engine.fit(bireme.io.TensorDataset(data), batch_size=4, epochs=2, verbose=0)
    assert len(history["loss"]) == 4 and engine.evaluate(bireme.io.TensorDataset(data), batch_size=8)["loss"] > 0


def some_on_eight():
    """One process for all of it: to start one, and to compile what several need, takes longer than the checks."""
    for check in (reshards, cumulative, uneven, meshes, functions, stages):
        check()
    return {"net": training(), "gpt": {"one": example(), "mesh": example("--mesh", "2", "4")}}


def all_on_eight():
    reshards(every=True)
    plans()
    steps()


# ------------------------------------------------------------ several processes


def shared(path, count):
    """Training on a mesh of processes; some read alone, early, what others do not."""
    dist.init_parallel_env()
    me, mesh = dist.get_rank(), mesh_of(count // 2, 2)
    found = {"mesh": losses(4, mesh, net=Mlp)[0]}
    found["read"] = losses(4, mesh, lone_reads=[0], grads=True, net=Mlp)[0]
    x = dist.shard_tensor(X, mesh, [Replicate(), Shard(0)])
    assert x._local_shape == ([3, 7] if me % 2 == 0 else [2, 7])
    np.testing.assert_allclose(x.numpy(), X)  # all processes read, as in Paddle
    np.testing.assert_allclose(dist.unshard_dtensor(x * 2).numpy(), X * 2)
    part = dtensor_from_local(bireme.full([2], me + 1.0), mesh, [Partial(), Shard(0)])
    np.testing.assert_allclose(part.numpy(), {2: [1, 1, 2, 2], 4: [4, 4, 6, 6]}[count])
    even = dist.shard_tensor(X[:4], mesh, [Replicate(), Shard(0)])
    most = dist.local_map(lambda a: a * (me + 1), [[Partial(ReduceType.kRedMax), Shard(0)]])(even)
    np.testing.assert_allclose(most.numpy(), X[:4] * np.array([count - 1] * 2 + [count] * 2)[:, None])
    if me == 0:
        caught = raised(lambda: bireme.ones([2]) + bireme.ones([3]))  # a process alone: no part of the mesh's programs
        assert "expected" in caught
        local = bireme.arange(3).sum()
    loader = bireme.io.DataLoader(bireme.io.TensorDataset([bireme.arange(8)]), batch_size=count)
    batches = [b[0].numpy().tolist() for b in dist.shard_dataloader(loader, mesh, shard_dims="dp")]
    assert batches == np.arange(8).reshape(-1, count).tolist()
    late = x * 3
    if me == 1:
        np.testing.assert_allclose(late.numpy(), X * 3)  # at the very end, and the others do not read it
    elif me == 0:
        assert local.item() == 3
        with open(path, "w") as file:
            json.dump(found, file)


def different_calls():
    """One process computes what the other does not, of parts that the other does not know of: it is told, and neither
    waits.
    """
    dist.init_parallel_env()
    x = dist.shard_tensor([1.0, 2.0], ProcessMesh([0, 1], ["x"]), [Shard(0)])
    if dist.get_rank() == 0:
        told = raised((x * 2).sum().item)
        assert told.startswith("RuntimeError: mesh: expected the same calls in all of its processes, got 2 calls to"), (
            told
        )
        assert told.endswith("in rank 0; the end of the process in rank 1"), told


def lone_calls():
    """What one process alone computes with tensors of a mesh changes nothing for the others."""
    dist.init_parallel_env()
    mesh, rank = ProcessMesh([0, 1], ["x"]), dist.get_rank()
    w = dist.shard_tensor(np.arange(6, dtype="float32").reshape(2, 3), mesh, [Shard(0)], stop_gradient=False)
    whole = dist.shard_tensor(np.ones(3, "float32"), mesh, [Replicate()])
    tens = dist.shard_tensor(np.full((2, 3), 10, "float32"), mesh, [Shard(0)])
    if rank == 0:  # the next call of all looks like these
        np.testing.assert_allclose([w.sum().item(), (tens * 7).sum().item()], [15, 420])
    np.testing.assert_allclose([tens.sum().item(), (tens * 3).sum().item()], [60, 180])
    sgd = bireme.optimizer.SGD(0.01, parameters=[w])
    curve, norms, sums = [], [], []
    for step in range(4):
        loss = (w * w * whole).sum()
        if rank == 0:
            np.testing.assert_allclose((loss * 2).item(), 2 * loss.item(), rtol=1e-6)  # of what it has whole
            with pytest.raises(IndexError):
                bireme.index_select(whole * loss, bireme.to_tensor([5]) + 0).numpy()
            unread = loss * 3
        loss.item()
        dist.barrier()
        loss.backward()
        if rank == 1:
            norms.append(w.grad.norm())  # of parts, read when all is over
            np.testing.assert_allclose(w.grad.abs().max().item(), np.abs(w.grad.numpy()).max(), rtol=1e-6)
        sgd.step()
        sgd.clear_grad()
        if rank == 1 and step < 3:  # then the other has ended, with its part of it
            assert (w.norm() + loss.detach() * 0).item() > 0  # of parts, while the other goes on
            sums.append(norms[-1] + w.sum())
        if rank == 0:
            np.testing.assert_allclose(unread.item(), 3 * loss.item(), rtol=1e-6)
        curve.append(loss.detach())
    np.testing.assert_allclose([one.item() for one in curve], [55 * 0.98 ** (2 * i) for i in range(4)], rtol=1e-5)
    want = [2 * 0.98**i * np.linalg.norm(np.arange(6)) for i in range(4)]
    np.testing.assert_allclose([norm.item() for norm in norms], want[: len(norms)], rtol=1e-5)
    want = [want[i] + 0.98 ** (i + 1) * 15 for i in range(3)]
    np.testing.assert_allclose([one.item() for one in sums], want[: len(sums)], rtol=1e-5)


if __name__ == "__main__":
    made = globals()[sys.argv[1]]()
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w") as file:
            json.dump(made, file)
