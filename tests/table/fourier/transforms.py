"""Rows of Fourier transforms and their frequencies."""

import numpy as np
from scipy import fft

from bireme.core.base import dtype as dtypes
from tests.table.harness import ALL, COMPLEX, INT, Bad, Row, call, floating, real
from tests.table.samples import floats, unary

NONE: frozenset = frozenset()
WIDE = frozenset((dtypes.float32, dtypes.float64)) | INT  # half precision and bools are refused, as in Paddle
NO_AXIS = {"0-d": "there is no axis to transform"}


def _complex(d):
    return dtypes.complex_of(floating(d))


def _real(d):
    return real(floating(d))


def _matrix(n, norm, forward):
    """The transform of n elements as a matrix, from its definition."""
    k = np.arange(n)
    scale = {"ortho": n**-0.5, "backward": 1.0 if forward else 1 / n, "forward": 1 / n if forward else 1.0}[norm]
    return scale * np.exp((-2j if forward else 2j) * np.pi * np.outer(k, k) / n)


def _sized(x, axis, n):
    x = np.moveaxis(x, axis, -1)[..., :n]
    return np.moveaxis(np.concatenate([x, np.zeros((*x.shape[:-1], n - x.shape[-1]))], -1), -1, axis)


def _along(x, axis, matrix):
    return np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis)


def _whole(x, axes, sizes, norm, forward):
    for a, n in zip(axes, sizes, strict=True):
        x = _along(_sized(x, a, n), a, _matrix(n, norm, forward))
    return x


def _half(x, axes, sizes, norm, forward):
    found = _whole(x, axes, sizes, norm, forward)
    return np.moveaxis(np.moveaxis(found, axes[-1], 0)[: sizes[-1] // 2 + 1], 0, axes[-1])


def _folded(x, axes, sizes, norm, forward):
    """Complex along all axes but the last, along which half a spectrum stands for a whole one."""
    n, last = sizes[-1], axes[-1]
    x = _whole(x, axes[:-1], sizes[:-1], norm, forward)
    x = np.moveaxis(_sized(x, last, n // 2 + 1), last, -1)
    mirrored = np.conj(x[..., 1 : (n + 1) // 2][..., ::-1])
    ends = x.copy()
    ends[..., 0] = ends[..., 0].real
    if n % 2 == 0:
        ends[..., -1] = ends[..., -1].real
    return np.moveaxis((np.concatenate([ends, mirrored], -1) @ _matrix(n, norm, forward).T).real, -1, last)


def _kinds():
    x, cube = floats(3, 5), floats(2, 3, 4)
    found = [call(cube, (0, 2), (3, 3), "ortho", False), call(x, (1,), (7,), "forward", True), call(x, (1, 0), (4, 3), "backward", True),
             call(x, (0,), (2,), "forward", False), call(np.zeros((0, 3)), (1,), (3,), "backward", True)]  # fmt: skip
    return [*found, call(floats(2, 1, 2, 2, 3), (4, 0, 1, 2, 3), (3, 2, 1, 2, 2), "ortho", True)]


def _one(first):
    """Cut, filled, either end, every norm, one element."""
    return [call(first), call(floats(3, 5), 4, 0), call(floats(3, 5), 3), call(floats(3, 4), 6, -1, "ortho"), call(floats(3, 4), norm="forward"),
            call(floats(2, 3, 2), n=5, axis=1), call(np.zeros((0, 3))), call(np.zeros((2, 0, 3)), 4, 1)]  # fmt: skip


def _two():
    return [call(floats(3, 4, 5)), call(floats(3, 4, 5), [2, 6], (0, 1)), call(floats(3, 4), norm="ortho"),
            call(floats(3, 4), [4, 3], [1, 0], "forward"), call(np.zeros((0, 2, 3)))]  # fmt: skip


def _many():
    return [call(floats(3, 4)), call(floats(2, 3, 4), [4, 3]), call(floats(2, 3, 4), axes=[2, 0]), call(floats(2, 3, 4), (2, 2), (-1, 1), "ortho"),
            call(floats(2, 1, 2, 2, 3)), call(floats(5), norm="forward"), call(np.zeros((0, 2, 3)))]  # fmt: skip


def _listed(ref):
    """SciPy wants tuples, and no None for all axes where there are sizes."""

    def call(x, s=None, axes=None, norm="backward"):
        given = {} if axes is None else {"axes": tuple(axes)}
        if x.size == 0:
            return ref(np.ones((1, *x.shape[1:])), s=s, **given, norm=norm)[:0]
        return ref(x, s=s, **given, norm=norm)

    return call


def _sure(ref):
    """What SciPy does not take: nothing to transform beside the axis, or nothing along it."""

    def call(x, n=None, axis=-1, norm="backward"):
        if x.size:
            return ref(x, n, axis, norm)
        there = [max(m, 1) if (a - axis) % x.ndim else m for a, m in enumerate(x.shape)]
        filled = np.zeros([m if m else 1 for m in there])
        found = ref(filled, n, axis, norm)
        return found[:0] if x.shape[0] == 0 else found

    return call


def _spaced(ref):
    return lambda n, d=1.0, dtype="float32": ref(n, d).astype(dtype)


def _shifted(ref):
    return lambda x, axes=None: ref(x, axes) if x.ndim else np.copy(x)


def _bad(name):
    return [
        Bad(call(floats(3), norm="x"), f"{name}(norm): expected 'backward', 'ortho' or 'forward', got 'x'"),
        Bad(call(floats(3), 0), f"{name}(n): expected a positive size, got 0"),
        Bad(call(floats(3), axis=1), f"{name}(axis): expected an axis in [-1, 0], got 1"),
        Bad(call(floats()), f"{name}(x): expected a tensor with at least 1 dimension, got a Tensor of shape []"),
    ]


def _bad_two(name):
    return [
        Bad(call(floats(3)), f"{name}(x): expected a tensor with at least 2 dimensions, got a Tensor of shape [3]"),
        Bad(call(floats(3, 4), [3]), f"{name}(s): expected two integers, got "),
        Bad(call(floats(3, 4), axes=[0, 0]), f"{name}(axes): expected one or more different axes, got [0, 0]"),
    ]


def _bad_many(name):
    return [
        Bad(call(floats(3, 4), [3], [0, 1]), f"{name}(s): expected 2 sizes, one for each of axes, got [3]"),
        Bad(call(floats(3, 4), [3, 3, 3]), f"{name}(s): expected at most 2 sizes, one for each axis, got [3, 3, 3]"),
        Bad(call(floats(3, 4), 3), f"{name}(s): expected a sequence of integers, got 3"),
        Bad(call(floats(3, 4), [0, 2]), f"{name}(s): expected positive sizes, got "),
    ]


C, R = {"dtypes": WIDE | COMPLEX, "out": _complex, "skip": NO_AXIS}, {"dtypes": WIDE, "out": _complex, "skip": NO_AXIS}
BACK = {"dtypes": WIDE | COMPLEX, "out": _real, "skip": NO_AXIS}
KIND = frozenset((dtypes.float32, dtypes.float64))
REST = ALL - KIND - COMPLEX  # the functions of the module choose the types, these operators take what they get
SPACED = [call(1), call(4), call(5, 0.5), call(8, d=2.0, dtype="float64"), call(3, -0.25)]
SHIFTS = [
    *unary(nonfinite=False)[:4],
    call(floats(3, 4, 5), 1),
    call(floats(3, 4, 5), axes=[0, -1]),
    call(floats(4, 5), (1, 0)),
]

TABLE = [
    Row("fft_c2c", _kinds(), _whole, dtypes=KIND | COMPLEX, out=_complex, unchecked=REST, skip=NO_AXIS),
    Row("fft_r2c", _kinds(), _half, dtypes=KIND, out=_complex, unchecked=REST | COMPLEX, skip=NO_AXIS),
    Row("fft_c2r", _kinds(), _folded, dtypes=KIND | COMPLEX, out=_real, unchecked=REST, skip=NO_AXIS),
    Row("fft", _one(floats(3, 5)), _sure(fft.fft), **C, bad=_bad("fft")),
    Row("ifft", _one(floats(3, 5)), _sure(fft.ifft), **C, bad=_bad("ifft")),
    Row("rfft", _one(floats(3, 5)), _sure(fft.rfft), **R, bad=_bad("rfft")),
    Row("irfft", _one(floats(3, 5)), _sure(fft.irfft), **BACK,
        bad=[*_bad("irfft"), Bad(call(np.zeros(0)), "irfft(x): expected at least one element along axis 0")]),
    Row("hfft", _one(floats(3, 5)), _sure(fft.hfft), **BACK, bad=_bad("hfft")),
    Row("ihfft", _one(floats(3, 5)), _sure(fft.ihfft), **R, bad=_bad("ihfft")),
    *[Row(n, _two(), _listed(getattr(fft, n)), **k, bad=_bad_two(n)) for n, k in (("fft2", C), ("ifft2", C), ("rfft2", R), ("irfft2", BACK),
        ("hfft2", BACK), ("ihfft2", R))],
    *[Row(n, _many(), _listed(getattr(fft, n)), **k, bad=_bad_many(n)) for n, k in (("fftn", C), ("ifftn", C), ("rfftn", R), ("irfftn", BACK),
        ("hfftn", BACK), ("ihfftn", R))],
    *[Row(n, SPACED, _spaced(getattr(fft, n)), dtypes=NONE, out="ref", grad=0,
        bad=[Bad(call(0), f"{n}(n): expected a positive integer, got 0"), Bad(call(3, 0.0), f"{n}(d): expected a nonzero number, got 0.0"),
        Bad(call(3, dtype="int32"), f"{n}(dtype): expected a floating-point dtype, got int32", TypeError)]) for n in ("fftfreq", "rfftfreq")],
    *[Row(n, SHIFTS, _shifted(getattr(fft, n)), dtypes=ALL, bad=[Bad(call(floats(3), 1), f"{n}(axes): expected an axis in [-1, 0], got 1"),
        Bad(call(floats(3), [0, 0]), f"{n}(axes): expected different axes, got ")]) for n in ("fftshift", "ifftshift")],
]  # fmt: skip
