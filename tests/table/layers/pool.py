"""Rows of pooling layers, their inverses, and windows cut out and put together."""

import numpy as np

from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow


def _halves(reduce):
    """Windows of two elements along each spatial axis."""

    def ref(x):
        shape, axes = list(x.shape[:2]), []
        for n in x.shape[2:]:
            axes.append(len(shape) + 1)
            shape += [n // 2, 2]
        return reduce(x.reshape(shape), axis=tuple(axes))

    return ref


def _length(x, axis):
    return np.sqrt((x**2).sum(axis=axis))


def _columns(x):
    n, c, h, w = x.shape
    parts = [x[:, :, i : i + h - 1, j : j + w - 1].reshape(n, c, 1, -1) for i in range(2) for j in range(2)]
    return np.concatenate(parts, axis=2).reshape(n, c * 4, -1)


def _put_back(x, indices):
    out = np.zeros((*x.shape[:2], 2 ** (x.ndim - 2) * np.prod(x.shape[2:])))
    for at in np.ndindex(*x.shape):
        out[at[0], at[1], indices[at]] = x[at]
    return out.reshape(*x.shape[:2], *[2 * n for n in x.shape[2:]])


def _tiles(x):
    """Columns of windows of 2 by 2 that do not overlap, as an image of 4 by 4."""
    n = x.shape[0]
    return x.reshape(n, -1, 2, 2, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(n, -1, 4, 4)


_rng = np.random.default_rng(2)
LINES, IMAGES, VOLUMES = [(2, 3, 6), (0, 3, 6)], [(2, 3, 4, 6), (0, 3, 4, 4)], [(1, 2, 2, 4, 2)]
LAYERS = [
    LayerRow("MaxPool1D", call(2), LINES, ref=_halves(np.max),
        bad=[Bad(call(np.ones((2, 3))), "max_pool1d(x): expected shape [batch, channels, length]")]),
    LayerRow("MaxPool3D", call(2), VOLUMES, ref=_halves(np.max)),
    LayerRow("AvgPool1D", call(2), LINES, ref=_halves(np.mean)),
    LayerRow("AvgPool3D", call(2), VOLUMES, ref=_halves(np.mean)),
    LayerRow("LPPool1D", call(2, 2), LINES[:1], ref=_halves(_length)),
    LayerRow("LPPool2D", call(2, 2), IMAGES[:1], ref=_halves(_length)),
    LayerRow("AdaptiveAvgPool1D", call(3), LINES, ref=_halves(np.mean)),
    LayerRow("AdaptiveAvgPool2D", call([2, 3]), IMAGES[:1], ref=_halves(np.mean)),
    LayerRow("AdaptiveAvgPool3D", call([1, 2, 1]), VOLUMES, ref=_halves(np.mean)),
    LayerRow("AdaptiveMaxPool1D", call(3), LINES, ref=_halves(np.max)),
    LayerRow("AdaptiveMaxPool2D", call([2, 3]), IMAGES[:1], ref=_halves(np.max)),
    LayerRow("AdaptiveMaxPool3D", call([1, 2, 1]), VOLUMES, ref=_halves(np.max)),
    LayerRow("FractionalMaxPool2D", call([2, 3], kernel_size=2, random_u=0.5), IMAGES[:1], out=lambda s: (*s[:2], 2, 3)),
    LayerRow("FractionalMaxPool3D", call([1, 2, 1], kernel_size=[2, 2, 2], random_u=0.5), VOLUMES, out=lambda s: (*s[:2], 1, 2, 1)),
    LayerRow("MaxUnPool1D", call(2), [call(_rng.standard_normal((1, 2, 2)), np.array([[[1, 2], [0, 3]]]))], ref=_put_back),
    LayerRow("MaxUnPool2D", call(2), [call(_rng.standard_normal((1, 1, 1, 2)), np.array([[[[5, 2]]]]))], ref=_put_back),
    LayerRow("MaxUnPool3D", call(2), [call(_rng.standard_normal((1, 1, 1, 1, 2)), np.array([[[[[5, 14]]]]]))], ref=_put_back),
    LayerRow("Unfold", call(2), [(2, 3, 3, 4)], ref=_columns),
    LayerRow("Fold", call([4, 4], 2, strides=2), [(2, 8, 4)], ref=_tiles),
]  # fmt: skip
