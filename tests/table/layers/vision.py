"""Rows of layers on images: other sizes, pixels and channels moved, padding."""

import numpy as np

from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow

IMAGE = [(2, 4, 3, 2), (0, 4, 3, 2)]


def _twice(x):
    for axis in range(2, x.ndim):
        x = np.repeat(x, 2, axis=axis)
    return x


def _corners(x):
    """Each image of 2 by 2 as 3 by 3, with what is halfway in between."""
    half = np.array([[1, 0], [0.5, 0.5], [0, 1]])
    return np.einsum("ai,bj,ncij->ncab", half, half, x)


def _shuffled(x):
    n, c, h, w = x.shape
    return x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // 4, 2 * h, 2 * w)


def _unshuffled(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 3, 5, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


def _pad(*widths, mode="constant", **rest):
    return lambda x: np.pad(x, [(0, 0)] * (x.ndim - len(widths)) + list(widths), mode=mode, **rest)


LAYERS = [
    LayerRow("Upsample", call(scale_factor=2), IMAGE, ref=_twice,
        bad=[Bad(call(np.ones((2, 3))), "interpolate(x): expected a 3-D or 4-D or 5-D tensor for mode 'nearest', got shape [2, 3]")]),
    LayerRow("UpsamplingNearest2D", call(scale_factor=2), IMAGE, ref=_twice,
        bad=[Bad(call(np.ones((2, 3, 3))), "UpsamplingNearest2D(x): expected a 4-D tensor, got shape [2, 3, 3]")]),
    LayerRow("UpsamplingBilinear2D", call(size=3), [(2, 1, 2, 2)], ref=_corners,
        bad=[Bad(call(np.ones((2, 3, 3))), "UpsamplingBilinear2D(x): expected a 4-D tensor, got shape [2, 3, 3]")]),
    LayerRow("PixelShuffle", call(2), IMAGE, ref=_shuffled,
        bad_init=[Bad(call(2.0), "PixelShuffle(upscale_factor): expected a positive integer, got 2.0", TypeError),
                  Bad(call(2, "NCL"), "PixelShuffle(data_format): expected 'NCHW' or 'NHWC', got 'NCL'")]),
    LayerRow("PixelUnshuffle", call(2), [(2, 1, 4, 2), (0, 1, 2, 2)], ref=_unshuffled,
        bad_init=[Bad(call(0), "PixelUnshuffle(downscale_factor): expected a positive integer, got 0")]),
    LayerRow("ChannelShuffle", call(2), IMAGE, ref=lambda x: x[:, [0, 2, 1, 3]],
        bad=[Bad(call(np.ones((1, 3, 1, 1))), "channel_shuffle(groups): expected a divisor of the 3 channels, got 2")]),
    LayerRow("Pad1D", call([1, 2], mode="reflect"), [(2, 3, 4), (0, 3, 4)], ref=_pad((1, 2), mode="reflect"),
        bad_init=[Bad(call("a"), "Pad1D(padding): expected an integer or a list of integers", TypeError)]),
    LayerRow("Pad2D", call([1, 2, 0, 1], value=2.0), IMAGE, ref=_pad((0, 1), (1, 2), constant_values=2.0)),
    LayerRow("Pad3D", call(1, mode="replicate"), [(1, 2, 2, 3, 2)], ref=_pad((1, 1), (1, 1), (1, 1), mode="edge")),
    LayerRow("ZeroPad1D", call([1, 2]), [(2, 3, 4), (0, 3, 4)], ref=_pad((1, 2))),
    LayerRow("ZeroPad2D", call(1), IMAGE, ref=_pad((1, 1), (1, 1))),
    LayerRow("ZeroPad3D", call([0, 1, 1, 0, 2, 0]), [(1, 2, 2, 3, 2)], ref=_pad((2, 0), (1, 0), (0, 1))),
]  # fmt: skip
