"""Rows of layers: linear maps, embedding, containers, normalisation, pooling."""

import numpy as np

import bireme
from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow

SHAPES = [(3, 4), (0, 4), (2, 1, 4)]
_rng = np.random.default_rng(0)
_labels = np.array([0, 2, 1])


def _layer_norm(x, weight, bias):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5) * weight + bias


def _conv2d(x, weight, bias):
    n, _, h, w = x.shape
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = np.zeros((n, weight.shape[0], h, w))
    for i in range(3):
        for j in range(3):
            out += np.einsum("nchw,oc->nohw", x[:, :, i : i + h, j : j + w], weight[:, :, i, j])
    return out + bias[:, None, None]


def _windows(x, reduce):
    n, c, h, w = x.shape
    return reduce(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=(3, 5))


LAYERS = [
    LayerRow("Linear", call(4, 3), SHAPES, {"weight": (4, 3), "bias": (3,)}, lambda x, weight, bias: x @ weight + bias,
        bad=[Bad(call(np.ones((2, 5))), "linear(x): expected 4 features in the last dimension to match weight of shape [4, 3], got shape [2, 5]")]),
    LayerRow("Embedding", call(5, 3, padding_idx=0), [call(np.array([[0, 2], [4, 2]])), call(np.zeros((0, 2), int))],
        {"weight": (5, 3)}, lambda x, weight: np.where((x == 0)[..., None], 0, weight[x]),
        bad=[Bad(call(np.array([5])), "expected indices in [0, 4], got 5", IndexError)]),
    LayerRow("Dropout", call(0.5), SHAPES, ref=lambda x: x, modes=("eval",)),
    LayerRow("Flatten", call(1, 2), [(2, 3, 4), (0, 3, 4), (2, 3, 4, 2)], ref=lambda x: x.reshape(x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:])),
    LayerRow("Identity", call(), SHAPES, ref=lambda x: x, skip={"refusals": "it takes anything"}),
    LayerRow("Conv2D", call(2, 3, 3, padding=1), [(2, 2, 4, 5), (0, 2, 4, 5)], {"weight": (3, 2, 3, 3), "bias": (3,)}, _conv2d,
        bad=[Bad(call(np.ones((1, 3, 4, 4))), "conv2d(x): expected 2 channels")]),
    LayerRow("LayerNorm", call(4), SHAPES, {"weight": (4,), "bias": (4,)}, _layer_norm),
    LayerRow("MaxPool2D", call(2), [(2, 3, 4, 6), (0, 3, 4, 4)], ref=lambda x: _windows(x, np.max)),
    LayerRow("AvgPool2D", call(2), [(2, 3, 4, 6), (0, 3, 4, 4)], ref=lambda x: _windows(x, np.mean)),
    LayerRow("Sequential", make=lambda: bireme.nn.Sequential(bireme.nn.Linear(4, 2), bireme.nn.Tanh()), inputs=SHAPES,
        params={"0.weight": (4, 2), "0.bias": (2,)}, ref=lambda x, **p: np.tanh(x @ p["0_weight"] + p["0_bias"])),
]  # fmt: skip
