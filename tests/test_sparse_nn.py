"""Layers of sparse tensors, against the dense layers on the same numbers: values, gradients, points of the result."""

import numpy as np
import pytest

import bireme
from bireme import sparse
from bireme.sparse.nn import functional as F
from bireme.sparse.nn import rulebook

DENSE = bireme.nn.functional


def points(axes, count=20, channels=2, size=4, seed=0):
    """Points in a batch of two: indices, and values in float64 that take a gradient."""
    rng = np.random.default_rng(seed)
    dims = (2,) + (size,) * axes
    keys = np.sort(rng.choice(int(np.prod(dims)), count, replace=False))
    index, values = np.stack(np.unravel_index(keys, dims)), rng.standard_normal((count, channels))
    given = bireme.to_tensor(values, stop_gradient=False)
    return sparse.sparse_coo_tensor(index, given, [*dims, channels], stop_gradient=False), given


def kernel(axes, size=3, channels=2, out=3):
    rng = np.random.default_rng(1)
    return bireme.to_tensor(rng.standard_normal((*(size,) * axes, channels, out)), stop_gradient=False)


def dense_conv(x, weight, **settings):
    """The same by a dense convolution; channels last."""
    axes = x.ndim - 2
    first, back = [0, axes + 1, *range(1, axes + 1)], [0, *range(2, axes + 2), 1]
    turned = weight.transpose([axes + 1, axes, *range(axes)])
    return getattr(DENSE, f"conv{axes}d")(x.transpose(first), turned, **settings).transpose(back)


SETTINGS = [
    {}, {"padding": 1}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": 2}, {"padding": "SAME"}, {"stride": 2},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("axes", [2, 3])
def test_convolution(axes, settings):
    x, values = points(axes)
    weight = kernel(axes)
    y = getattr(F, f"conv{axes}d")(x, weight, **settings)
    want = dense_conv(x.to_dense().detach(), weight.detach(), **settings)
    np.testing.assert_allclose(y.to_dense().numpy(), want.numpy(), atol=1e-12)
    ones = dense_conv((x.to_dense().detach() != 0).astype("float64"), bireme.ones_like(weight).detach(), **settings)
    stored = np.argwhere(ones.numpy()[..., 0] > 1e-9).T
    np.testing.assert_array_equal(y.indices().numpy(), stored)  # windows with a point in them, in order
    sparse.square(y).backward()
    d, w = (
        bireme.to_tensor(x.to_dense().numpy(), stop_gradient=False),
        bireme.to_tensor(weight.numpy(), stop_gradient=False),
    )
    bireme.square(dense_conv(d, w, **settings)).sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), w.grad.numpy(), rtol=1e-9)
    np.testing.assert_allclose(values.grad.numpy(), d.grad.numpy()[tuple(x.indices().numpy())], rtol=1e-9)


@pytest.mark.parametrize(("axes", "size", "dilation"), [(2, 3, 1), (3, 3, 1), (3, 1, 1), (2, 5, 1), (2, 3, 2)])
def test_submanifold_convolution(axes, size, dilation):
    """The points of the result are those of the input."""
    x, values = points(axes)
    weight, bias = kernel(axes, size), bireme.to_tensor([1.0, 2.0, 3.0], dtype="float64", stop_gradient=False)
    y = getattr(F, f"subm_conv{axes}d")(x, weight, bias, dilation=dilation)
    assert y._pattern is x._pattern and y.shape == [*x.shape[:-1], 3]
    at, pad = tuple(x.indices().numpy()), size // 2 * dilation
    d, w = (
        bireme.to_tensor(x.to_dense().numpy(), stop_gradient=False),
        bireme.to_tensor(weight.numpy(), stop_gradient=False),
    )
    want = bireme.gather_nd(dense_conv(d, w, padding=pad, dilation=dilation), bireme.to_tensor(np.stack(at, 1)))
    np.testing.assert_allclose(y.values().numpy(), want.numpy() + [1, 2, 3], atol=1e-12)
    y.backward()
    want.sum().backward()
    assert bias.grad.tolist() == [20.0, 20.0, 20.0]
    np.testing.assert_allclose(weight.grad.numpy(), w.grad.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(values.grad.numpy(), d.grad.numpy()[at], rtol=1e-9, atol=1e-12)


def test_points_keep_their_order_unless_one_is_stored_twice():
    x, _ = points(2)
    order = np.random.default_rng(0).permutation(20)
    mixed = sparse.sparse_coo_tensor(x.indices().numpy()[:, order], x.values().numpy()[order], x.shape)
    weight = kernel(2)
    np.testing.assert_allclose(
        F.subm_conv2d(mixed, weight).values().numpy(), F.subm_conv2d(x, weight).values().numpy()[order], atol=1e-12
    )
    np.testing.assert_allclose(
        F.conv2d(mixed, weight).to_dense().numpy(), F.conv2d(x, weight).to_dense().numpy(), atol=1e-12
    )
    twice = sparse.sparse_coo_tensor([[0, 0], [1, 1], [1, 1]], [[1.0], [2.0]], [1, 3, 3, 1])
    assert F.subm_conv2d(twice, bireme.ones([3, 3, 1, 1])).values().tolist() == [[3.0]]


def test_layers_of_one_pattern_search_for_neighbours_once(monkeypatch):
    found = []
    monkeypatch.setattr(
        rulebook,
        "_steps",
        lambda window, dilation, steps=rulebook._steps: found.append(window) or steps(window, dilation),
    )
    x, _ = points(3)
    x = x.astype("float32")
    net = bireme.nn.Sequential(sparse.nn.SubmConv3D(2, 4, 3), sparse.nn.ReLU(), sparse.nn.SubmConv3D(4, 4, 3))
    net(x)
    net(x)
    assert len(found) == 1


@pytest.mark.parametrize(
    "settings",
    [{"kernel_size": 2}, {"kernel_size": 2, "stride": 1}, {"kernel_size": 3, "stride": 2, "padding": 1},
     {"kernel_size": [2, 2, 1], "stride": [2, 1, 1]}, {"kernel_size": 3, "stride": 2, "ceil_mode": True}],
    ids=str,
)  # fmt: skip
def test_pooling(settings):
    x, values = points(3)
    low = np.full(x.shape, -1e9)
    low[tuple(x.indices().numpy())] = values.numpy()
    d = bireme.to_tensor(low, stop_gradient=False)
    want = DENSE.max_pool3d(d, data_format="NDHWC", **settings)
    y = F.max_pool3d(x, **settings)
    assert y.shape == want.shape
    np.testing.assert_array_equal(y.indices().numpy(), np.argwhere(want.numpy()[..., 0] > -1e8).T)
    at = tuple(y.indices().numpy())
    np.testing.assert_allclose(y.values().numpy(), want.numpy()[at])
    sparse.square(y).backward()
    bireme.square(bireme.gather_nd(want, bireme.to_tensor(np.stack(at, 1)))).sum().backward()
    np.testing.assert_allclose(values.grad.numpy(), d.grad.numpy()[tuple(x.indices().numpy())], rtol=1e-12)


def test_equal_maxima_all_get_the_gradient():
    """As in Paddle."""
    v = bireme.to_tensor([[1.0], [3.0], [3.0], [2.0]], stop_gradient=False)
    x = sparse.sparse_coo_tensor(
        [[0] * 4, [0] * 4, [0, 0, 1, 1], [0, 1, 0, 1]], v, [1, 2, 2, 2, 1], stop_gradient=False
    )
    sparse.nn.MaxPool3D(2)(x).backward()
    assert v.grad.tolist() == [[0.0], [1.0], [1.0], [0.0]]


def test_batch_normalization_is_that_of_the_stored_values():
    x, values = points(3)
    layer, dense = sparse.nn.BatchNorm(2), bireme.nn.BatchNorm1D(2)
    x = x.astype("float32")
    for training in (True, False):
        layer.training = dense.training = training
        np.testing.assert_allclose(layer(x).values().numpy(), dense(x.values()).numpy(), rtol=1e-5)
    np.testing.assert_allclose(layer._mean.numpy(), dense._mean.numpy(), rtol=1e-6)
    assert list(layer.state_dict()) == ["weight", "bias", "_mean", "_variance"]
    sync = sparse.nn.SyncBatchNorm(2)
    np.testing.assert_allclose(sync(x).values().numpy(), sparse.nn.BatchNorm(2)(x).values().numpy(), rtol=1e-5)
    sparse.square(layer(x)).backward()
    assert values.grad is not None and layer.weight.grad is not None


def test_conversion_to_synchronized_layers():
    net = bireme.nn.Sequential(sparse.nn.Conv3D(2, 3, 3), sparse.nn.BatchNorm(3), bireme.nn.BatchNorm2D(3))
    weight = net[1].weight
    made = sparse.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert (
        type(made[1]) is sparse.nn.SyncBatchNorm
        and type(made[2]) is bireme.nn.SyncBatchNorm
        and made[1].weight is weight
    )


def test_how_layers_print():
    """As in Paddle."""
    nn = sparse.nn
    assert [repr(layer) for layer in (
        nn.ReLU(), nn.ReLU(name="a"), nn.BatchNorm(3), nn.SyncBatchNorm(3), nn.Conv3D(2, 3, 3, padding=1),
        nn.SubmConv2D(2, 3, 3), nn.Conv2D(2, 4, 3, stride=2, padding=1, dilation=2), nn.MaxPool3D(2),
    )] == [
        "ReLU()", "ReLU(name=a)", "BatchNorm(num_features=3, momentum=0.9, epsilon=1e-05, data_format=NDHWC)",
        "SyncBatchNorm(num_features=3, momentum=0.9, epsilon=1e-05)",
        "Conv3D(2, 3, kernel_size=[3, 3, 3], padding=1, data_format=NDHWC)",
        "SubmConv2D(2, 3, kernel_size=[3, 3], data_format=NHWC)",
        "Conv2D(2, 4, kernel_size=[3, 3], stride=[2, 2], padding=1, dilation=[2, 2], data_format=NHWC)",
        "MaxPool3D(kernel_size=2, stride=None, padding=0)",
    ]  # fmt: skip


def test_layers_have_the_parameters_of_paddle():
    bireme.seed(0)
    layer = sparse.nn.Conv3D(2, 64, 3)
    assert layer.weight.shape == [3, 3, 3, 2, 64] and layer.bias.tolist() == [0.0] * 64
    assert abs(float(layer.weight.std()) - np.sqrt(2 / 54)) < 0.01
    assert sparse.nn.SubmConv2D(2, 4, 3, bias_attr=False, key="a", backend="igemm").bias is None
    x, _ = points(3)
    x = x.astype("float32")
    assert layer(x).shape == [2, 2, 2, 2, 64] and sparse.nn.SubmConv3D(2, 5, 3)(x).shape == [2, 4, 4, 4, 5]
    y, _ = points(2)
    assert sparse.nn.Conv2D(2, 5, 3, 2)(y.astype("float32")).shape == [2, 1, 1, 5]


def test_softmax():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 4)) * (rng.random((2, 3, 4)) < 0.6)
    hidden = np.where(x == 0, -np.inf, x)
    for form, axis in (("csr", -1), ("coo", -1), ("coo", 1), ("coo", 0)):
        d = bireme.to_tensor(x, stop_gradient=False)
        s = d.to_sparse_csr() if form == "csr" else d.to_sparse_coo(3)
        y = F.softmax(s, axis)
        with np.errstate(invalid="ignore"):
            e = np.exp(hidden - hidden.max(axis, keepdims=True))
            p = np.nan_to_num(e / e.sum(axis, keepdims=True))
        np.testing.assert_allclose(y.to_dense().numpy(), p, atol=1e-12)
        sparse.square(y).backward()
        slope = 2 * p * (p - (p * p).sum(axis, keepdims=True))
        np.testing.assert_allclose(d.grad.numpy(), slope, atol=1e-12)
    y = F.softmax(sparse.sparse_coo_tensor([[0, 2]], [[1.0, 2.0], [3.0, 4.0]], [3, 2]), 0)  # told by paddlepaddle 3.2.2
    np.testing.assert_allclose(y.values().numpy(), [[0.11920292, 0.11920292], [0.88079703, 0.88079703]], rtol=1e-6)


@pytest.mark.parametrize("masks", [(False, False), (True, False), (True, True)])
def test_attention(masks):
    rng = np.random.default_rng(0)
    batch, heads, n, width = 2, 3, 5, 4
    q, k, v = (rng.standard_normal((batch, heads, n, width)) for _ in range(3))
    listed = rng.random((batch * heads, n, n)) < 0.6
    shown = listed.reshape(batch, heads, n, n)
    padding = (rng.random((batch, n)) < 0.7).astype(float) if masks[0] else None
    pairs = (rng.random((n, n)) < 0.7).astype(float) if masks[1] else None
    shown = shown if padding is None else shown & (padding != 0)[:, None, None]
    shown = shown if pairs is None else shown & (pairs != 0)
    tensors = [bireme.to_tensor(t, stop_gradient=False) for t in (q, k, v)]
    mask = bireme.to_tensor(listed.astype(float)).to_sparse_csr()
    rest = [None if m is None else bireme.to_tensor(m) for m in (padding, pairs)]
    got = F.attention(*tensors, mask, *rest)
    scores = np.where(shown, q @ np.swapaxes(k, 2, 3) / 2, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = np.nan_to_num(e / e.sum(-1, keepdims=True))
    np.testing.assert_allclose(got.numpy(), p @ v, atol=1e-12)
    got.sum().backward()
    np.testing.assert_allclose(
        tensors[2].grad.numpy(), np.swapaxes(p, 2, 3).sum(-1, keepdims=True) * np.ones(width), atol=1e-12
    )


BAD = {
    "conv3d(x): expected a sparse COO tensor, got a dense tensor of shape [1]": lambda x, w: F.conv3d(bireme.ones([1]), w),
    "conv3d(data_format): expected 'NDHWC', got 'NCDHW'": lambda x, w: F.conv3d(x, w, data_format="NCDHW"),
    "conv3d(groups): expected 1, got 2": lambda x, w: F.conv3d(x, w, groups=2),
    "conv3d(weight): expected shape [kernel sizes of 3 axes, 2, M] to match x": lambda x, w: F.conv3d(x, bireme.ones([3, 3, 3, 5, 2])),
    "conv3d(weight): expected a kernel that fits into the padded sizes of [4, 4, 4]": lambda x, w: F.conv3d(x, bireme.ones([7, 7, 7, 2, 2], "float64")),
    "conv3d(bias): expected shape [3], got shape [2]": lambda x, w: F.conv3d(x, w, bireme.ones([2])),
    "subm_conv2d(x): expected [N, H, W, C] of which all but the channels are sparse": lambda x, w: F.subm_conv2d(x, w),
    "max_pool3d(data_format): expected 'NDHWC', got 'NCDHW'": lambda x, w: F.max_pool3d(x, 2, data_format="NCDHW"),
    "softmax(axis): expected -1, since x is a sparse CSR tensor, got 0": lambda x, w: F.softmax(bireme.ones([2, 2]).to_sparse_csr(), 0),
    "relu(x): expected a sparse tensor, got a dense tensor of shape [2]": lambda x, w: F.relu(bireme.ones([2])),
    "BatchNorm(input): expected 3 channels that are the one dense axis": lambda x, w: sparse.nn.BatchNorm(3)(x),
    "Conv3D(groups): expected 1, got 2": lambda x, w: sparse.nn.Conv3D(2, 4, 3, groups=2),
    "Conv2D(padding_mode): expected 'zeros', got 'reflect'": lambda x, w: sparse.nn.Conv2D(2, 4, 3, padding_mode="reflect"),
    "SubmConv3D(backend): expected None or 'igemm', got 'x'": lambda x, w: sparse.nn.SubmConv3D(2, 4, 3, backend="x"),
    "attention(sparse_mask): expected a sparse CSR tensor, got a dense tensor": lambda x, w: F.attention(*[bireme.ones([1, 1, 2, 2])] * 4),
}  # fmt: skip


@pytest.mark.parametrize("message", BAD)
def test_errors(message):
    with pytest.raises((ValueError, TypeError)) as caught:
        BAD[message](points(3)[0], kernel(3))
    assert str(caught.value).startswith(message)


def test_a_network_of_points_learns():
    bireme.seed(0)
    x, _ = points(3, count=40)
    x = x.astype("float32").detach()
    net = bireme.nn.Sequential(
        sparse.nn.SubmConv3D(2, 8, 3),
        sparse.nn.BatchNorm(8),
        sparse.nn.LeakyReLU(),
        sparse.nn.Conv3D(8, 8, 2, stride=2),
        sparse.nn.ReLU6(),
    )
    head = bireme.nn.Linear(8, 1)
    optimizer = bireme.optimizer.Adam(0.02, parameters=[*net.parameters(), *head.parameters()])
    losses = []
    for _ in range(12):
        loss = ((head(net(x).values()) - 1.0) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
