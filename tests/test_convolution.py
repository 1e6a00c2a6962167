"""Convolutions by XLA, compiled, in each of their forms, against the windows and products of NumPy."""

import functools
import types

import jax
import numpy as np
import pytest

from bireme.core.numpy_exec import convolution
from bireme.ops._shared import conv_kernels
from bireme.ops.nn import conv_cudnn, conv_lowering
from tests.without_gpu import lowered

KERNELS = ("window_sums", "weight_sums")

# extents, channels, outputs, window, stride, padding, dilation, groups
FORMS = {
    "operator": ((9, 8), 3, 4, (3, 2), (1, 1), (1, 0), (1, 1), 1),
    "operator with steps and holes": ((20, 21), 2, 3, (3, 3), (2, 2), (2, 1), (2, 1), 1),
    "few places": ((5, 6), 3, 4, (3, 3), (2, 1), (1, 1), (1, 2), 1),
    "many outputs": ((8, 8), 2, 256, (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "one element": ((9, 9), 5, 3, (1, 1), (2, 2), (0, 0), (1, 1), 1),
    "one element and padding": ((9, 9), 5, 3, (1, 1), (2, 2), (1, 1), (1, 1), 1),
    "one channel a group": ((9, 8), 6, 6, (3, 3), (2, 1), (1, 1), (1, 1), 6),
    "one channel a group, many shifts": ((9, 8), 6, 6, (5, 4), (2, 1), (2, 1), (1, 2), 6),
    "one channel a group, two outputs": ((9, 8), 3, 6, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "few groups": ((9, 8), 6, 3, (3, 3), (1, 1), (1, 1), (1, 1), 3),
    "many groups": ((9, 8), 18, 27, (3, 3), (1, 2), (1, 1), (1, 1), 9),
    "one axis": ((70,), 4, 3, (5,), (1,), (2,), (1,), 1),
    "one axis, one channel a group": ((70,), 4, 4, (11,), (2,), (4,), (1,), 4),
    "three axes": ((4, 9, 8), 2, 3, (2, 3, 3), (2, 1, 1), (1, 1, 0), (1, 1, 1), 1),
    "three axes, many groups": ((4, 5, 4), 18, 9, (2, 2, 2), (1, 1, 1), (0, 1, 0), (1, 1, 1), 9),
    "three axes, few groups": ((4, 5, 4), 4, 4, (2, 2, 2), (1, 1, 1), (0, 1, 0), (1, 1, 1), 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_form(form):
    _compare(*FORMS[form], conv_lowering, last=len(form) % 2)


@pytest.mark.full
@pytest.mark.parametrize("form", FORMS)
def test_operator_alone(form):
    """What CUDA uses at all shapes."""
    _compare(*FORMS[form], conv_cudnn.ON_MESH, last=len(form) % 2)


@pytest.mark.parametrize("window", [(3, 3), (5, 4), (5, 5)])
def test_one_channel_a_group_and_the_channels_last(window):
    _compare((9, 8), 6, 6, window, (2, 1), (1, 1), (1, 2), 6, conv_lowering, last=True)


@pytest.mark.parametrize(
    ("dims", "channels", "window", "stride", "padding", "dilation"),
    [
        ((14, 14), 96, (7, 7), (1, 1), (3, 3), (1, 1)),
        ((9, 23), 40, (5, 5), (2, 1), (1, 2), (1, 2)),
        ((12, 7), 3, (5, 6), (1, 2), (0, 0), (2, 1)),
    ],
)
def test_kernel_of_a_large_window(dims, channels, window, stride, padding, dilation):
    """The sums of an NVIDIA GPU, interpreted; what it would be given is written down for that device."""
    rng = np.random.default_rng(0)
    rest = (stride, tuple((p, p) for p in padding), dilation)
    x = rng.standard_normal((2, *dims, channels)).astype(np.float32)
    w = np.zeros((channels, 1, *window), np.float32)
    g = rng.standard_normal(convolution.forward(x, w, *rest, channels, True).shape).astype(np.float32)
    got = conv_kernels.weight_sums(x, g, window, *rest, interpret=True)
    want = convolution.weight_grad(x, g, window, *rest, channels, True)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    assert "depthwise_weight_sums" in lowered(
        lambda x, g: conv_cudnn.ALONE.weight_grad(x, g, window, *rest, channels, True), x, g
    )
    w = rng.standard_normal(w.shape).astype(np.float32)
    want = convolution.forward(x, w, *rest, channels, True)
    got = conv_kernels.window_sums(x, w, *rest, interpret=True)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    assert "depthwise_window_sums" in lowered(lambda x, w: conv_cudnn.ALONE.forward(x, w, *rest, channels, True), x, w)


@pytest.mark.parametrize("padding", [(3, 3), (0, 0), (6, 1), (8, 9)])
def test_kernel_of_the_gradient_of_an_image(padding, monkeypatch):
    """A window that moves by one place: its gradient is a convolution too, whatever the padding."""
    kernels = {name: functools.partial(getattr(conv_kernels, name), interpret=True) for name in KERNELS}
    monkeypatch.setattr(conv_cudnn, "conv_kernels", types.SimpleNamespace(takes=conv_kernels.takes, **kernels))
    _compare((11, 12), 40, 40, (7, 5), (1, 1), padding, (1, 2), 40, conv_cudnn.ALONE, last=False)


def test_without_wide_vectors(monkeypatch):
    monkeypatch.setattr(conv_lowering, "_WIDE", False)
    _compare((9, 8), 16, 2, (3, 3), (1, 1), (1, 1), (1, 1), 1, conv_lowering, last=False)


def _compare(dims, channels, outputs, window, stride, padding, dilation, groups, by, last):
    rng = np.random.default_rng(0)
    rest = (stride, tuple((p, p) for p in padding), dilation, groups, bool(last))
    x = rng.standard_normal((2, *dims, channels) if last else (2, channels, *dims)).astype(np.float32)
    w = rng.standard_normal((outputs, channels // groups, *window)).astype(np.float32)
    want = convolution.forward(x, w, *rest)
    g = rng.standard_normal(want.shape).astype(np.float32)

    @jax.jit
    def program(x, w, g):
        return by.forward(x, w, *rest), by.input_grad(g, w, dims, *rest), by.weight_grad(x, g, window, *rest)

    wanted = (want, convolution.input_grad(g, w, dims, *rest), convolution.weight_grad(x, g, window, *rest))
    for name, a, b in zip(
        ("result", "gradient of the image", "gradient of the kernel"), program(x, w, g), wanted, strict=True
    ):
        assert a.shape == b.shape, name
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max(), err_msg=name)


def work_of(x, w, compute, read):
    """Arithmetic operations in the compiled program of a convolution and of what reads its result."""
    return jax.jit(lambda x, w: read(compute(x, w))).lower(x, w).compile().cost_analysis()["flops"]


def normalized(y):
    """Read it three times, one after the other."""
    mean = y.mean((0, 2, 3), keepdims=True)
    return (y - mean) / ((y - mean) ** 2).mean((0, 2, 3), keepdims=True)


def test_a_sum_of_shifted_images_is_computed_once_for_all_readers():
    def compute(g, w):
        return conv_lowering.input_grad(g, w, (8, 8), (2, 2), ((1, 1), (1, 1)), (1, 1), 1, False)

    g, w = np.ones((4, 32, 4, 4), np.float32), np.ones((32, 16, 4, 4), np.float32)
    alone, read = work_of(g, w, compute, lambda y: y), work_of(g, w, compute, normalized)
    assert read - alone < 8 * jax.eval_shape(compute, g, w).size  # the reader's own
    second = jax.grad(lambda g, w: (jax.grad(lambda g, w: (compute(g, w) ** 2).sum())(g, w) ** 2).sum(), 1)(g, w)
    assert second.shape == w.shape


def _by_numpy(dims, channels, outputs, window, stride, padding, dilation, groups, batch):
    rng = np.random.default_rng(1)
    rest = (stride, tuple((p, p) for p in padding), dilation, groups, False)
    x = rng.standard_normal((batch, channels, *dims)).astype(np.float32)
    w = rng.standard_normal((outputs, channels // groups, *window)).astype(np.float32)
    out = convolution.forward(x, w, *rest)
    g = rng.standard_normal(out.shape).astype(np.float32)
    return out, convolution.input_grad(g, w, dims, *rest), convolution.weight_grad(x, g, window, *rest)


@pytest.mark.parametrize("batch", [1, 2, 4, 5])
@pytest.mark.parametrize("form", FORMS)
def test_numpy_row_by_row(form, batch, monkeypatch):
    """A block that holds one row of windows, and gradients of images by shares, give what is made at once."""
    want = _by_numpy(*FORMS[form], batch)
    convolution._placement.cache_clear()
    convolution._flipped.cache_clear()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(convolution, "BLOCK", 1)
            patched.setattr(convolution, "_flips", lambda at: not at.whole)
            for a, b in zip(want, _by_numpy(*FORMS[form], batch), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
            patched.setattr(convolution, "_flips", lambda at: False)
            np.testing.assert_allclose(want[1], _by_numpy(*FORMS[form], batch)[1], rtol=1e-4, atol=1e-4)
    finally:
        convolution._placement.cache_clear()
        convolution._flipped.cache_clear()


def test_numpy_leaves_kernels_as_they_lie():
    """What an optimizer adds to a kernel lies in memory as the kernel does, and images channel by channel."""
    for form in ("operator", "one element", "one channel a group", "many groups"):
        out, dx, dw = _by_numpy(*FORMS[form], 2)
        assert dw.flags.c_contiguous
        assert out.transpose(1, 2, 3, 0).flags.c_contiguous
        if form == "operator":
            assert dx.transpose(1, 2, 3, 0).flags.c_contiguous


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize(
    "height, window, stride, padding, dilation", [(2, 5, 1, 2, 1), (1, 3, 2, (0, 4), 1), (2, 3, 1, 4, 3)]
)
def test_elements_of_a_kernel_that_meet_only_padding_are_left_out(height, window, stride, padding, dilation, groups):
    rng = np.random.RandomState(0)
    x, w = [rng.standard_normal(s).astype("float32") for s in ((1, height, 6, 4), (4, 4 // groups, window, 1))]
    edges = (padding, padding) if isinstance(padding, int) else padding
    rest = ((stride, 1), (edges, (0, 0)), (dilation, 1), groups, True)
    wanted = conv_lowering.by_operator(x, w, *rest, "out")
    kernel, _ = conv_lowering._reaching(x, w, *rest[:3], True)
    assert kernel.shape[2] < window
    np.testing.assert_allclose(conv_lowering.forward(x, w, *rest), wanted, rtol=1e-5, atol=1e-5)
