"""Rows of convolution layers, plain and transposed."""

import numpy as np

from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow


def _conv(x, weight, bias):
    """A convolution without padding, with steps of one."""
    size = weight.shape[2:]
    out = np.zeros((x.shape[0], weight.shape[0], *[n - k + 1 for n, k in zip(x.shape[2:], size, strict=True)]))
    for at in np.ndindex(*size):
        part = x[(slice(None), slice(None), *[slice(i, i + m) for i, m in zip(at, out.shape[2:], strict=True)])]
        out += np.einsum("nc...,oc->no...", part, weight[(slice(None), slice(None), *at)])
    return out + bias.reshape(-1, *[1] * len(size))


def _back(x, weight, bias):
    """A transposed convolution with steps of one."""
    size = weight.shape[2:]
    out = np.zeros((x.shape[0], weight.shape[1], *[n + k - 1 for n, k in zip(x.shape[2:], size, strict=True)]))
    for at in np.ndindex(*size):
        place = tuple(slice(i, i + n) for i, n in zip(at, x.shape[2:], strict=True))
        out[(slice(None), slice(None), *place)] += np.einsum("nc...,co->no...", x, weight[(slice(None), slice(None), *at)])
    return out + bias.reshape(-1, *[1] * len(size))


def _circular(x, weight, bias):
    return _conv(np.pad(x, [(0, 0), (0, 0), (1, 1)], mode="wrap"), weight, bias)


LINES, IMAGES, VOLUMES = [(2, 2, 5), (0, 2, 5)], [(2, 2, 4, 3), (0, 2, 4, 3)], [(1, 2, 3, 2, 3)]
LAYERS = [
    LayerRow("Conv1D", call(2, 3, 3, padding=1, padding_mode="circular"), LINES, {"weight": (3, 2, 3), "bias": (3,)}, _circular,
        bad_init=[Bad(call(3, 2, 3, groups=2), "Conv1D(in_channels): expected a multiple of groups = 2, got 3"),
                  Bad(call(2, 2, [3, 3]), "Conv1D(kernel_size): expected an integer, got [3, 3]"),
                  Bad(call(2, 2, 3, data_format="NCHW"), "Conv1D(data_format): expected 'NCL' or 'NLC', got 'NCHW'"),
                  Bad(call(2, 2, 3, padding="SAME", padding_mode="reflect"), "Conv1D(padding): expected an integer with padding_mode 'reflect'", TypeError)]),
    LayerRow("Conv1d", call(2, 3, 3), LINES, {"weight": (3, 2, 3), "bias": (3,)}, _conv),
    LayerRow("Conv2d", call(2, 3, [2, 3]), IMAGES, {"weight": (3, 2, 2, 3), "bias": (3,)}, _conv),
    LayerRow("Conv3D", call(2, 3, 2, data_format="NCHW"), VOLUMES, {"weight": (3, 2, 2, 2, 2), "bias": (3,)}, _conv,
        bad_init=[Bad(call(2, 2, 3, data_format="NHWC"), "Conv3D(data_format): expected 'NCDHW' or 'NDHWC', got 'NHWC'")]),
    LayerRow("Conv3d", call(2, 1, 2), VOLUMES, {"weight": (1, 2, 2, 2, 2), "bias": (1,)}, _conv),
    LayerRow("Conv1DTranspose", call(2, 3, 3), LINES, {"weight": (2, 3, 3), "bias": (3,)}, _back),
    LayerRow("Conv2DTranspose", call(2, 3, [2, 3]), IMAGES, {"weight": (2, 3, 2, 3), "bias": (3,)}, _back,
        bad_init=[Bad(call(2, 3, 3, groups=2), "Conv2DTranspose(out_channels): expected a multiple of groups = 2, got 3"),
                  Bad(call(2, 3, 3, stride=0), "Conv2DTranspose(stride): expected positive integers, got [0, 0]")]),
    LayerRow("Conv3DTranspose", call(2, 3, 2), VOLUMES, {"weight": (2, 3, 2, 2, 2), "bias": (3,)}, _back),
]  # fmt: skip
