"""Views of views of views: NumPy's elements, strides and sharing, at a cost that does not grow with the chain."""

import numpy as np
import pytest

import bireme
from bireme.core.tensor import view

# ---------------------------------------------------------------- random chains


def one_of(rng, *choices):
    return choices[rng.integers(len(choices))]


def slice_of(rng, n):
    start, stop = [one_of(rng, None, None, int(rng.integers(-n - 1, n + 2))) for _ in range(2)]
    return slice(start, stop, one_of(rng, None, None, 1, 2, -1, -2, 3))


def reshaped(rng, size):
    """A shape of so many elements, with axes of one element here and there."""
    dims, left = [], size
    while left > 1 and rng.integers(4):
        n = one_of(rng, *[k for k in range(1, left + 1) if left % k == 0])
        dims.append(n)
        left //= n
    return [*dims, left] if size else [0, *dims]


def diagonal(x):
    """NumPy's own is a view that cannot be written to."""
    n = min(x.shape[:2])
    return np.einsum("ii...->...i", x[:n, :n]) if isinstance(x, np.ndarray) else x.diagonal()


def step_of(rng, a):
    """One view operator, for NumPy and for Bireme."""
    kind = one_of(
        rng, "slice", "slice", "slice", "integer", "transpose", "reshape", "reshape", "new axis", "squeeze", "diagonal"
    )
    if kind == "slice":
        key = tuple(slice_of(rng, n) for n in a.shape[: rng.integers(1, 4)])
        return lambda x: x[key]
    if kind == "integer" and a.ndim > 1 and a.size:
        axis = int(rng.integers(a.ndim))
        key = (*[slice(None)] * axis, int(rng.integers(-a.shape[axis], a.shape[axis])))
        return lambda x: x[key]
    if kind == "transpose":
        perm = [int(i) for i in rng.permutation(a.ndim)]
        return lambda x: x.transpose(perm)
    if kind == "reshape":
        dims = one_of(rng, [-1] if a.size else [0], reshaped(rng, a.size), list(a.shape))
        return lambda x: x.reshape(dims)
    if kind == "new axis" and a.ndim < 5:
        key = (*[slice(None)] * int(rng.integers(a.ndim + 1)), None)
        return lambda x: x[key]
    if kind == "squeeze" and 1 in a.shape:
        axis = a.shape.index(1)
        return lambda x: x.squeeze(axis)
    if kind == "diagonal" and a.ndim > 1 and a.size:
        return diagonal
    return lambda x: x[...]


def chain_of(seed):
    """A shape and the view operators of a chain, which shares storage to its end in NumPy."""
    rng = np.random.default_rng(seed)
    dims = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
    a, steps = np.zeros(dims, "float32"), []
    base = a
    for _ in range(rng.integers(1, 14)):
        step = step_of(rng, a)
        made = step(a)
        if np.shares_memory(made, base) or (made.size == 0 and rng.integers(8) == 0):
            a = made
            steps.append(step)
    return dims, steps


def walked(x, steps):
    for step in steps:
        x = step(x)
    return x


def numbered(dims):
    return np.arange(1, np.prod(dims) + 1, dtype="float32").reshape(dims)


@pytest.mark.parametrize("seed", range(150))
def test_a_chain_is_what_it_is_in_numpy(seed):
    dims, steps = chain_of(seed)
    base = numbered(dims)
    a = walked(base, steps)
    x = bireme.to_tensor(base)
    v = walked(x, steps)
    np.testing.assert_array_equal(v.numpy(), a)
    assert v.shape == list(a.shape)
    x = bireme.to_tensor(base)  # reading has parted the one above from its storage, if nobody else holds that
    v = walked(x, steps)
    if steps:
        assert len(v._view.path) <= view.MAX_PATH
    long = [i for i, n in enumerate(a.shape) if n > 1]
    if a.size:
        assert [v.get_strides()[i] * 4 for i in long] == [a.strides[i] for i in long]
        assert v.offset == a.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    x.scale_(3.0)
    base *= 3
    np.testing.assert_array_equal(v.numpy(), a)
    v.scale_(10.0)
    a *= 10
    np.testing.assert_array_equal(x.numpy(), base)
    np.testing.assert_array_equal(v.numpy(), a)
    if a.ndim and a.size:
        v[-1] = 7.0
        a[-1] = 7
        np.testing.assert_array_equal(x.numpy(), base)


@pytest.mark.parametrize("seed", range(150, 250))
def test_gradients_go_through_a_chain(seed):
    dims, steps = chain_of(seed)
    weights = np.random.default_rng(seed).standard_normal(walked(numbered(dims), steps).shape).astype("float32")
    want = np.zeros(dims, "float32")
    part = walked(want, steps)
    part += weights

    def gradient(change):
        x = bireme.to_tensor(numbered(dims), stop_gradient=False)
        h = x * 2.0
        v = walked(h, steps)
        change(h, v)
        (v * bireme.to_tensor(weights)).sum().backward()
        return x.grad.numpy()

    np.testing.assert_allclose(gradient(lambda h, v: None), 2 * want)
    # found again from the root, by the short path
    np.testing.assert_allclose(gradient(lambda h, v: h.scale_(3.0)), 6 * want)
    np.testing.assert_allclose(gradient(lambda h, v: v.scale_(5.0)), 10 * want)
    x = bireme.to_tensor(numbered(dims), stop_gradient=False)
    h = x * 2.0
    walked(h, steps).scale_(5.0)
    h.sum().backward()
    whole = np.full(dims, 2.0, "float32")
    part = walked(whole, steps)
    part *= 5
    np.testing.assert_allclose(x.grad.numpy(), whole)


# ---------------------------------------------------------------- long chains

N = 60
LONG = {
    "v[1:]": ((N + 5,), lambda x: x[1:]),
    "v[:-1]": ((N + 7,), lambda x: x[:-1]),
    "v[1:-1]": ((2 * N + 3, 2), lambda x: x[1:-1]),
    "v[::-1]": ((5, 3), lambda x: x[::-1]),
    "v[::-1][1:]": ((N + 5,), lambda x: x[::-1][1:]),
    "v[:, 1:]": ((2, N + 5), lambda x: x[:, 1:]),
    "v[None, 1:][0]": ((N + 5,), lambda x: x[None, 1:][0, 0:] if x.ndim > 1 else x[1:][None][0]),
    "transposed": ((2, 3), lambda x: x.transpose([1, 0])),
    "transposed, v[1:]": ((N + 5, N + 5), lambda x: x.transpose([1, 0])[1:]),
    "three axes": ((N, 2, N), lambda x: x.transpose([2, 0, 1])[:, :, : -1 if x.shape[1] > 2 else None]),
    "reshaped": ((4, 6), lambda x: x.reshape([6, 4] if x.shape[0] == 4 else [4, 6])),
    "reshaped, v[1:]": ((2 * N + 10,), lambda x: x.reshape([-1, 2])[1:].reshape([-1])),
    "new axis, v[1:]": ((N + 5,), lambda x: x.reshape([-1, 1])[1:].reshape([-1])),
    "flattened": ((N + 5, 3), lambda x: x.reshape([-1])[3:].reshape([-1, 3])),
}


@pytest.mark.parametrize("name", LONG)
def test_a_loop_of_views_costs_the_same_in_each_round(name):
    dims, step = LONG[name]
    base = numbered(dims)
    a, x = base, bireme.to_tensor(base)
    v, marks = x, []
    for _ in range(N):
        a, v = step(a), step(v)
        marks.append(len(v._view.path))
    assert np.shares_memory(a, base)
    assert max(marks) <= view.MAX_PATH
    x.scale_(2.0)
    base *= 2
    np.testing.assert_array_equal(v.numpy(), a)
    v[0] = -1.0
    a[0] = -1
    np.testing.assert_array_equal(x.numpy(), base)
    w = bireme.to_tensor(numbered(dims), stop_gradient=False)
    h = w * 2.0
    part = h
    for _ in range(N):
        part = step(part)
    part[0] = 0.0
    h.sum().backward()
    want = np.full(dims, 2.0, "float32")
    b = want
    for _ in range(N):
        b = step(b)
    b[0] = 0
    np.testing.assert_array_equal(w.grad.numpy(), want)


def test_views_by_halves():
    a = np.arange(1 << 14, dtype="float32")
    x = bireme.to_tensor(a)
    v, b = x, a
    for _ in range(12):
        v, b = v[::2], b[::2]
    x.add_(bireme.to_tensor(1.0))
    a += 1
    assert v.tolist() == b.tolist() and len(v._view.path) <= view.MAX_PATH


def test_types_on_the_way_stay():
    """Parts of complex numbers, and bytes in another type: what comes before them is kept, what comes after is
    shortened.
    """
    a = (np.arange(40) + 1j * np.arange(40, 80)).astype("complex64")
    x = bireme.to_tensor(a)
    v, b = x[1:].imag()[1:], a[1:].imag[1:]
    for _ in range(20):
        v, b = v[1:], b[1:]
    assert len(v._view.path) <= 2 + view.MAX_PATH
    x.scale_(2.0)
    a *= 2
    np.testing.assert_array_equal(v.numpy(), b)
    v.fill_(-1.0)
    b[:] = -1
    np.testing.assert_array_equal(x.numpy(), a)
