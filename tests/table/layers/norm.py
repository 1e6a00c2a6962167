"""Rows of normalisation layers."""

import numpy as np

from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow


def _affine(y, scale, shift):
    shape = [-1 if i == 1 else 1 for i in range(y.ndim)]
    return y * scale.reshape(shape) + shift.reshape(shape)


def _by_statistics(x, weight, bias, _mean, _variance):
    shape = [-1 if i == 1 else 1 for i in range(x.ndim)]
    return _affine((x - _mean.reshape(shape)) / np.sqrt(_variance.reshape(shape) + np.float32(1e-5)), weight, bias)


def _groups(x, groups, scale, shift):
    rows = x.reshape(x.shape[0], groups, -1) if x.size else x
    y = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + np.float32(1e-5))
    return _affine(y.reshape(x.shape), scale, shift)


def _response(x):
    total = sum(np.pad(x**2, ((0, 0), (1, 1), (0, 0)))[:, i : i + x.shape[1]] for i in range(3))
    return x / (1 + 1e-4 * total / 3) ** 0.75


def _spectral(x, weight_u, weight_v):
    u, v = weight_u, weight_v
    for _ in range(2):
        v = x.T @ u
        v = v / np.linalg.norm(v)
        u = x @ v
        u = u / np.linalg.norm(u)
    return x / (u @ x @ v)


def _instance(x, scale, bias):
    return _groups(x, x.shape[1], scale, bias)


STATE = {"weight": (3,), "bias": (3,), "_mean": (3,), "_variance": (3,)}
AFFINE = {"scale": (3,), "bias": (3,)}
NUMBERS = (1e4, "the numbers of the formula travel in float32")
LAYERS = [
    LayerRow("BatchNorm1D", call(3), [(4, 3), (2, 3, 4), (0, 3)], STATE, _by_statistics, modes=("eval",),
        bad=[Bad(call(np.ones((1, 3, 2, 2))), "BatchNorm1D(input): expected a 2-D or 3-D tensor, got shape [1, 3, 2, 2]")]),
    LayerRow("BatchNorm2D", call(3), [(4, 3, 2, 2), (0, 3, 2, 2)], STATE, _by_statistics, modes=("eval",),
        bad=[Bad(call(np.ones((2, 3))), "BatchNorm2D(input): expected a 4-D tensor, got shape [2, 3]"),
             Bad(call(np.ones((2, 4, 1, 1))), "batch_norm(x): expected 3 channels in axis 1, as running_mean has, got shape [2, 4, 1, 1]")]),
    LayerRow("BatchNorm3D", call(3), [(4, 3, 2, 1, 2)], STATE, _by_statistics, modes=("eval",),
        bad_init=[Bad(call(3, data_format="NCL"), "BatchNorm3D(data_format): expected one of 'NCDHW', 'NDHWC', 'NCHW', 'NHWC', got 'NCL'")]),
    LayerRow("BatchNorm", call(3), [(4, 3), (4, 3, 2, 2)], STATE, _by_statistics, modes=("eval",),
        bad_init=[Bad(call(3, act="no_such"), "BatchNorm(act): expected the name of an activation, got 'no_such'")]),
    LayerRow("SyncBatchNorm", call(3), [(4, 3, 2, 2), (4, 3)], STATE, _by_statistics, modes=("eval",)),
    LayerRow("GroupNorm", call(2, 4), [(2, 4, 3), (2, 4, 2, 2), (0, 4, 2)], {"weight": (4,), "bias": (4,)},
        lambda x, weight, bias: _groups(x, 2, weight, bias) if x.size else x,
        bad=[Bad(call(np.ones((2, 3, 2))), "group_norm(num_groups): expected a divisor of the 3 channels, got 2")]),
    LayerRow("InstanceNorm1D", call(3), [(2, 3, 4)], AFFINE, _instance,
        bad_init=[Bad(call(3, weight_attr=False), "InstanceNorm1D(weight_attr, bias_attr): expected both False or neither")]),
    LayerRow("InstanceNorm2D", call(3), [(2, 3, 2, 4)], AFFINE, _instance,
        bad=[Bad(call(np.ones((2, 3, 4))), "InstanceNorm2D(input): expected a 4-D tensor, got shape [2, 3, 4]")]),
    LayerRow("InstanceNorm3D", call(3), [(2, 3, 2, 2, 2)], AFFINE, _instance,
        bad=[Bad(call(np.ones((2, 3, 4))), "InstanceNorm3D(input): expected a 5-D tensor, got shape [2, 3, 4]")]),
    LayerRow("LocalResponseNorm", call(3), [(2, 4, 3), (0, 4, 3)], ref=_response, loose=NUMBERS),
    LayerRow("SpectralNorm", call([3, 4], power_iters=2), [(3, 4)], {"weight_u": (3,), "weight_v": (4,)}, _spectral,
        bad=[Bad(call(np.ones((4, 3))), "SpectralNorm(x): expected shape [3, 4], got shape [4, 3]")],
        skip={"gradient": "the vectors of the power iterations are taken as given"}),
]  # fmt: skip
