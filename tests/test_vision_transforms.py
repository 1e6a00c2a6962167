"""Transforms of images: the same picture from Pillow, arrays and tensors, Paddle's values for images of unusual modes,
and warps of arrays beside a reference that goes pixel by pixel.
"""

import numpy as np
import pytest
from PIL import Image

import bireme
from bireme.vision.transforms import arrays
from bireme.vision.transforms import functional as F

DRAWS = np.random.RandomState(0)
PICTURE = DRAWS.randint(0, 256, (6, 7, 3), dtype=np.uint8)
# name: call, and how far the values may be apart: Pillow and tensors cut fractions off, arrays round
SAME = {
    "hflip": (F.hflip, 0),
    "vflip": (F.vflip, 0),
    "crop": (lambda img: F.crop(img, 1, 2, 3, 4), 0),
    "center_crop": (lambda img: F.center_crop(img, (3, 5)), 0),
    "pad": (lambda img: F.pad(img, [1, 2, 3, 4]), 0),
    "pad, edge": (lambda img: F.pad(img, [1, 2, 3, 4], padding_mode="edge"), 0),
    "pad, reflect": (lambda img: F.pad(img, [1, 2], padding_mode="reflect"), 0),
    "resize, as large": (lambda img: F.resize(img, (6, 7)), 0),
    "adjust_brightness": (lambda img: F.adjust_brightness(img, 1.5), 1),
    "to_grayscale": (lambda img: F.to_grayscale(img, 3), 1),
    "rotate, a half turn": (lambda img: F.rotate(img, 180), 0),
    "erase": (lambda img: F.erase(img, 1, 2, 3, 3, 9), 0),
}


def pixels(img):
    """The values as ``[H, W, C]``."""
    if isinstance(img, bireme.Tensor):
        return np.moveaxis(img.numpy(), 0, -1).astype(int)
    return np.asarray(img).astype(int)


@pytest.mark.parametrize("name", SAME)
def test_all_kinds_of_images_give_the_same_picture(name):
    call, most = SAME[name]
    kinds = [Image.fromarray(PICTURE), PICTURE.copy(), bireme.to_tensor(np.moveaxis(PICTURE, -1, 0).copy())]
    first, *others = [pixels(call(img)) for img in kinds]
    if name.startswith("rotate"):  # an array is turned about the corner of its middle pixel, as OpenCV does it
        others = others[1:]
    for other in others:
        assert first.shape == other.shape and np.abs(first - other).max() <= most


@pytest.mark.parametrize("mode", ["RGBA", "CMYK"])
def test_a_fourth_band_outside_is_full(mode):
    """As in Paddle: a corner that a turn leaves empty is opaque black, and black in CMYK."""
    turned = F.rotate(Image.new(mode, (9, 9), (10, 20, 30, 40)), 45)
    assert turned.getpixel((0, 0)) == (0, 0, 0, 255) and turned.getpixel((4, 4)) == (10, 20, 30, 40)


def test_images_of_16_bits_become_integers():
    img = Image.fromarray(np.array([[0, 1, 40_000, 65_535]], np.uint16))
    made = F.to_tensor(img)
    assert made.dtype == bireme.int32 and made.tolist() == [[[0, 1, 40_000, 65_535]]]


@pytest.mark.parametrize(
    ("mode", "shape"), [("L", [1, 4, 5]), ("RGBA", [4, 4, 5]), ("P", [1, 4, 5]), ("CMYK", [4, 4, 5]), ("1", [1, 4, 5])]
)
def test_to_tensor_of_any_mode(mode, shape):
    img = Image.fromarray(PICTURE[:4, :5]).convert(mode)
    made = F.to_tensor(img)
    wanted = np.asarray(img, np.uint8) * (255 if mode == "1" else 1)
    assert made.shape == shape and made.dtype == bireme.float32
    expected = np.moveaxis(np.atleast_3d(wanted), -1, 0).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(made.numpy(), expected)


def test_normalize_keeps_float64_of_an_array():
    made = F.normalize(np.full((1, 2, 2), 0.75), [0.5], [0.5])
    assert made.dtype == np.float64 and made.tolist() == [[[0.5, 0.5], [0.5, 0.5]]]
    assert F.normalize(PICTURE, [0.5], [0.5], "HWC").dtype == np.float32


def test_normalize_of_a_tensor_has_a_gradient_where_one_is_wanted():
    x = F.to_tensor(PICTURE)
    plain = F.normalize(x, [0.5, 0.4, 0.3], [0.2, 0.25, 0.5])
    x.stop_gradient = False
    recorded = F.normalize(x, [0.5, 0.4, 0.3], [0.2, 0.25, 0.5])
    recorded.sum().backward()
    np.testing.assert_allclose(plain.numpy(), recorded.numpy(), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy()[:, 0, 0], [5, 4, 2], rtol=1e-6)


def sampled(img, x, y, how, color):
    """An image at positions in 32nds of a pixel, one tap at a time."""
    before = arrays.KERNELS[how][1]
    out = np.zeros((*x.shape, img.shape[2]), np.int64)
    for place in np.ndindex(x.shape):
        weights = arrays._weights(how)[y[place] % 32 * 32 + x[place] % 32]
        taps = int(len(weights) ** 0.5)
        for k, weight in enumerate(weights):
            row, column = y[place] // 32 - before + k // taps, x[place] // 32 - before + k % taps
            inside = 0 <= row < img.shape[0] and 0 <= column < img.shape[1]
            out[place] += weight * (img[row, column] if inside else color)
    return np.clip((out + (1 << 14)) >> 15, 0, 255)


@pytest.mark.parametrize("how", ["bilinear", "bicubic"])
def test_warps_of_arrays(how):
    x, y = (DRAWS.randint(-100, 400, (4, 5)) for _ in range(2))
    x[0, 0], y[0, 1] = 10**12, -(10**12)
    found = arrays._sampled(PICTURE, x, y, how, [7, 8, 9])
    np.testing.assert_array_equal(found, sampled(PICTURE, x, y, how, np.array([7, 8, 9])))
    whole = arrays._sampled(PICTURE.astype(np.float64), x, y, how, [7, 8, 9])
    np.testing.assert_allclose(np.clip(whole, 0, 255), found, atol=0.51)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 7, 3), (5, 1), (3, 4, 1)])
def test_small_arrays(shape):
    img = DRAWS.randint(0, 256, shape, dtype=np.uint8)
    assert F.hflip(img).tolist() == img[:, ::-1].tolist() and F.hflip(img[::-1]).tolist() == img[::-1, ::-1].tolist()
    padded = F.pad(img, [1, 0, 2, 1], fill=5)
    assert padded.shape[:2] == (shape[0] + 1, shape[1] + 3)
    assert padded[:-1, 1:-2].tolist() == img.tolist() and padded[-1].reshape(shape[1] + 3, -1)[:, 0].tolist() == [5] * (
        shape[1] + 3
    )
    bright = F.adjust_brightness(img, 2.0)
    assert bright.tolist() == np.minimum(img.astype(int) * 2, 255).tolist() and bright.flags.writeable
    assert F.rotate(img, 30, "bilinear", expand=True).dtype == np.uint8
