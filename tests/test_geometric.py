"""Graphs: what Paddle gives for messages and their gradients, chances of weighted sampling, speed without loops.

The expected numbers were told by paddlepaddle 3.2.2; the rows of the table compare with formulas.
"""

import collections

import numpy as np
import pytest

import bireme
from bireme import geometric

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
