"""Graphs: what Paddle gives for messages and their gradients, chances of weighted sampling, speed without loops.

The expected numbers were told by paddlepaddle 3.2.2; the rows of the table compare with formulas.
"""

import collections

import numpy as np
import pytest

import bireme
from bireme import geometric
from bireme.core.numpy_exec import grouping, row_sums

X = [[0.0, 2.0, 3.0], [1.0, 4.0, 5.0], [2.0, 6.0, 7.0]]
EDGES = [[1.0], [2.0], [3.0], [4.0]]
SRC, DST = [0, 1, 2, 0], [1, 2, 1, 0]
# message, reduction: result, gradient of the nodes, gradient of the edges
TOLD = {
    ("add", "mean"): (
        [[4.0, 6.0, 7.0], [3.0, 6.0, 7.0], [3.0, 6.0, 7.0]],
        [[1.5, 1.5, 1.5], [1.0, 1.0, 1.0], [0.5, 0.5, 0.5]],
        [[1.5], [3.0], [1.5], [3.0]],
    ),
    ("sub", "max"): (
        [[-4.0, -2.0, -1.0], [-1.0, 3.0, 4.0], [-1.0, 2.0, 3.0]],
        [[2.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],  # both of two equal maxima get the gradient
        [[-1.0], [-3.0], [-3.0], [-3.0]],
    ),
    ("mul", "min"): (
        [[0.0, 8.0, 12.0], [0.0, 2.0, 3.0], [2.0, 8.0, 10.0]],
        [[5.0, 5.0, 5.0], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]],
        [[5.0], [10.0], [0.0], [5.0]],
    ),
    ("div", "sum"): (
        [[0.0, 0.5, 0.75], [0.6666667, 4.0, 5.3333335], [0.5, 2.0, 2.5]],
        [[1.25, 1.25, 1.25], [0.5, 0.5, 0.5], [0.33333334, 0.33333334, 0.33333334]],
        [[-5.0], [-2.5], [-1.6666666], [-0.3125]],
    ),
}


def tensors(dtype="int32"):
    leaves = [bireme.to_tensor(data, stop_gradient=False) for data in (X, EDGES)]
    return *leaves, *[bireme.to_tensor(index, dtype=dtype) for index in (SRC, DST)]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("ops", TOLD, ids=" ".join)
def test_messages_as_in_paddle(ops, dtype):
    x, y, src, dst = tensors(dtype)
    out = geometric.send_ue_recv(x, y, src, dst, *ops)
    out.sum().backward()
    for got, want in zip((out, x.grad, y.grad), TOLD[ops], strict=True):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_nodes_and_ends_as_in_paddle():
    x, _, src, dst = tensors()
    out = geometric.send_u_recv(x, src, dst, "mean", out_size=bireme.to_tensor([4]))
    out.sum().backward()
    assert out.tolist() == [[0, 2, 3], [1, 4, 5], [1, 4, 5], [0, 0, 0]]
    assert x.grad.tolist() == [[1.5] * 3, [1.0] * 3, [0.5] * 3]
    y = bireme.to_tensor([[2.0]] * 3, stop_gradient=False)
    got = geometric.send_uv(x, y, src, dst, "div")
    got.sum().backward()
    assert got.tolist() == [[0.0, 1.0, 1.5], [0.5, 2.0, 2.5], [1.0, 3.0, 3.5], [0.0, 1.0, 1.5]]
    assert y.grad.tolist() == [[-1.25], [-5.0], [-2.5]]
    assert geometric.send_u_recv(x.astype("int64"), src, dst, "mean").dtype == bireme.int64


def test_segments_are_those_of_incubate():
    for name in ("segment_sum", "segment_mean", "segment_max", "segment_min"):
        assert getattr(geometric, name) is getattr(bireme.incubate, name)


def test_chances_follow_the_weights():
    """Two of three neighbours with weights 1, 2 and 3, drawn one after the other from those that are left."""
    bireme.seed(0)
    n = 4000
    row = bireme.to_tensor(np.tile([5, 6, 7], n))
    weight = bireme.to_tensor(np.tile([1.0, 2.0, 3.0], n).astype(np.float32))
    found, counts = geometric.weighted_sample_neighbors(
        row, bireme.arange(0, 3 * n + 1, 3), weight, bireme.arange(n), 2
    )
    assert counts.tolist() == [2] * n
    pairs = collections.Counter(map(tuple, np.sort(found.numpy().reshape(n, 2))))
    for pair, chance in (((5, 6), 0.15), ((5, 7), 0.26667), ((6, 7), 0.58333)):
        assert abs(pairs[pair] / n - chance) < 0.03


def test_the_same_seed_draws_the_same_neighbours():
    row, colptr, nodes = bireme.arange(1000), bireme.arange(0, 1001, 100), bireme.arange(10)
    drawn = []
    for seed in (1, 1, 2):
        bireme.seed(seed)
        drawn.append(geometric.sample_neighbors(row, colptr, nodes, 5)[0].tolist())
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(node * 100 <= n < node * 100 + 100 for node in range(10) for n in drawn[0][node * 5 : node * 5 + 5])


def test_several_types_of_edges_as_in_paddle():
    x, first = bireme.to_tensor([0, 1, 2]), bireme.to_tensor([8, 9, 0, 4, 7, 6, 7])
    counts = [bireme.to_tensor(c, dtype="int32") for c in ([2, 3, 2], [1, 3, 1])]
    src, dst, nodes = geometric.reindex_heter_graph(x, [first, bireme.to_tensor([0, 2, 3, 5, 1])], counts)
    assert src.tolist() == [3, 4, 0, 5, 6, 7, 6, 0, 2, 8, 9, 1]
    assert dst.tolist() == [0, 0, 1, 1, 1, 2, 2, 0, 1, 1, 1, 2]
    assert nodes.tolist() == [0, 1, 2, 8, 9, 4, 7, 6, 3, 5]
    assert geometric.reindex_graph(x, first, counts[0])[2].tolist() == [0, 1, 2, 8, 9, 4, 7, 6]


def test_a_graph_network_learns():
    """Sampled neighbours, renumbered, and their messages: the whole way of a batch."""
    rng = np.random.default_rng(0)
    bireme.seed(0)
    row, colptr = bireme.to_tensor(rng.integers(0, 50, 300)), bireme.arange(0, 301, 6)
    features, labels = rng.standard_normal((50, 4)).astype(np.float32), rng.standard_normal((50, 1)).astype(np.float32)
    layer = bireme.nn.Linear(4, 1)
    optimizer = bireme.optimizer.Adam(0.1, parameters=layer.parameters())
    losses = []
    for _ in range(30):
        batch = bireme.arange(10)
        neighbors, count = geometric.sample_neighbors(row, colptr, batch, 3)
        src, dst, nodes = geometric.reindex_graph(batch, neighbors, count)
        hidden = layer(bireme.to_tensor(features[nodes.numpy()]))
        out = geometric.send_u_recv(hidden, src, dst, "mean", out_size=10)
        loss = ((out - bireme.to_tensor(labels[:10])) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def edges(n, m, seed=0):
    """Edges that repeat, in no order, with nodes that none of them reaches."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, n, m), rng.integers(0, n // 2, m)


def test_the_edges_of_a_graph_are_grouped_once(monkeypatch):
    made, real = [], grouping._grouped
    monkeypatch.setattr(grouping, "_grouped", lambda *given: made.append(given[1]) or real(*given))
    src, dst = map(bireme.to_tensor, edges(40, 600))
    x = bireme.to_tensor(np.ones((40, 8), "float32"), stop_gradient=False)
    for _ in range(4):
        loss = geometric.send_u_recv(x, src, dst, "mean").sum()
        loss.backward()
        assert loss.item() > 0 and x.grad.numpy().any()
    assert len(made) == 3, "by destination with and without sources, and by source"
    kept = len(grouping._kept)
    other = bireme.to_tensor(dst.numpy()[::-1].copy())
    found = geometric.send_u_recv(x, src, other).numpy()
    np.testing.assert_allclose(found, geometric.send_u_recv(x, src, bireme.to_tensor(other.numpy())).numpy())
    del src, dst, other, found
    assert len(grouping._kept) < kept, "those of a graph that is gone are forgotten"


@pytest.mark.parametrize("reduce_op", ["sum", "mean", "max", "min"])
def test_messages_of_a_larger_graph(reduce_op, monkeypatch):
    monkeypatch.setattr(row_sums, "PART", 100)
    monkeypatch.setattr(row_sums, "SHARED", 1)
    rng = np.random.default_rng(1)
    src, dst = edges(60, 900)
    ways = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}
    for dtype, dims in (("float32", (8,)), ("float64", (3, 4)), ("int32", (2,)), ("int64", ())):
        values = rng.integers(-9, 9, (60, *dims)).astype(dtype)
        with bireme.debug.use_executor("interpreter"):
            found = geometric.send_u_recv(*map(bireme.to_tensor, (values, src, dst)), reduce_op).numpy()
        for node in range(60):
            met = values[src[dst == node]]
            want = np.trunc(ways[reduce_op](met, axis=0)) if dtype.startswith("int") and len(met) else None
            want = np.zeros(dims) if not len(met) else ways[reduce_op](met, axis=0) if want is None else want
            np.testing.assert_allclose(found[node], want, rtol=1e-5, err_msg=f"{dtype}, node {node}")


@pytest.mark.parametrize("shapes", [((6,), ()), ((6,), (1,)), ((2, 3), (2, 1)), ((2, 3), (1, 1)), ((2, 3), (1, 3)),
                                    ((2, 3), (2, 3)), ((), ()), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 2, 3), (2, 2, 1))])  # fmt: skip
def test_numbers_of_edges_times_rows_of_nodes(shapes, monkeypatch):
    monkeypatch.setattr(row_sums, "PART", 50)
    monkeypatch.setattr(row_sums, "SHARED", 1)
    rng = np.random.default_rng(2)
    src, dst = edges(20, 150)
    x, y = rng.standard_normal((20, *shapes[0])), rng.standard_normal((150, *shapes[1]))
    rank = max(x.ndim, y.ndim, 2)
    wide = [t.reshape(len(t), *[1] * (rank - t.ndim), *t.shape[1:]) for t in (x, y)]
    want = np.zeros((20, *np.broadcast_shapes(wide[0].shape[1:], wide[1].shape[1:])))
    np.add.at(want, dst, wide[0][src] * wide[1])
    with bireme.debug.use_executor("xla" if shapes[1] == (2, 1) else "interpreter"):
        tx, ty = (bireme.to_tensor(t, stop_gradient=False) for t in (x, y))
        found = geometric.send_ue_recv(tx, ty, bireme.to_tensor(src), bireme.to_tensor(dst), "mul", "sum")
        weight = rng.standard_normal(want.shape)
        (found * bireme.to_tensor(weight)).sum().backward()
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-9, atol=1e-12)
        moved = 1e-6 * rng.standard_normal(x.shape), 1e-6 * rng.standard_normal(y.shape)
        after = np.zeros_like(want)
        np.add.at(after, dst, wide[0][src] * (wide[1] + moved[1].reshape(wide[1].shape)))
        np.testing.assert_allclose((ty.grad.numpy() * moved[1]).sum(), ((after - want) * weight).sum(), rtol=1e-5)
        after[:] = 0
        np.add.at(after, dst, (wide[0] + moved[0].reshape(wide[0].shape))[src] * wide[1])
        np.testing.assert_allclose((tx.grad.numpy() * moved[0]).sum(), ((after - want) * weight).sum(), rtol=1e-5)


@pytest.mark.parametrize("call", [
    lambda x, i, j: geometric.send_u_recv(x, i, j), lambda x, i, j: geometric.send_u_recv(x, i, j, "max"),
    lambda x, i, j: geometric.send_ue_recv(x, bireme.ones([2]), i, j, "mul", "sum"),
    lambda x, i, j: geometric.send_ue_recv(x, bireme.ones([2]), i, j, "add", "min"),
    lambda x, i, j: geometric.send_uv(x, x, i, j),
])  # fmt: skip
def test_nodes_are_counted_from_zero_alone(call):
    x, good = bireme.ones([3, 2]), bireme.to_tensor([0, 1])
    for wrong in (-1, 3):
        bad = bireme.to_tensor([1, wrong])
        with pytest.raises(IndexError, match=rf"\(src_index\): expected indices in \[0, 2\], got {wrong}"):
            call(x, bad, good).numpy()
        with pytest.raises(IndexError, match=rf"\(dst_index\): expected indices in \[0, 2\], got {wrong}"):
            call(x, good, bad).numpy()
        with pytest.raises(IndexError):  # known when it runs
            call(x, bad + 0 * good, good).numpy()


def test_neighbours_are_drawn_without_replacement_and_with_equal_chance():
    row, colptr = bireme.arange(9), bireme.to_tensor([0, 6, 6, 9])
    nodes = bireme.to_tensor([0, 1, 2] * 2000)
    found, count = (t.numpy() for t in geometric.sample_neighbors(row, colptr, nodes, 4))
    assert count.tolist() == [4, 0, 3] * 2000
    parts = np.split(found, np.cumsum(count)[:-1])
    assert all(part.tolist() == [6, 7, 8] for part in parts[2::3])
    drawn = np.stack(parts[::3])
    assert (drawn[:, 1:] > drawn[:, :-1]).all() and drawn.min() >= 0 and drawn.max() <= 5
    chosen = collections.Counter(map(tuple, drawn.tolist()))
    assert len(chosen) == 15 and max(chosen.values()) < 1.6 * min(chosen.values())
    assert geometric.sample_neighbors(row, colptr, nodes, 0)[0].shape == [0]


@pytest.mark.parametrize("spread", [1, 10**12], ids=["a table of IDs", "IDs that are far apart"])
def test_new_ids_are_in_order_of_appearance(spread):
    rng = np.random.default_rng(3)
    x, near = rng.permutation(50)[:20] * spread, rng.integers(0, 50, 300) * spread
    count = bireme.to_tensor(np.full(20, 15, "int32"))
    src, dst, nodes = geometric.reindex_graph(bireme.to_tensor(x), bireme.to_tensor(near), count)
    want = list(dict.fromkeys([*x.tolist(), *near.tolist()]))
    assert nodes.tolist() == want
    assert src.tolist() == [want.index(v) for v in near.tolist()]
    assert dst.tolist() == np.repeat(np.arange(20), 15).tolist()
