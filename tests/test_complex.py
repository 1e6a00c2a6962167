"""Complex gradients in Paddle's convention: dL/dRe + i dL/dIm of a real loss, g conj(f') of a holomorphic function."""

import numpy as np
import pytest

import bireme
from bireme.incubate import autograd as functional

RNG = np.random.RandomState(0)


def complexes(*shape):
    return RNG.randn(*shape) + 1j * RNG.randn(*shape)


A, B = complexes(2, 3), complexes(2, 3)
M, N, R, S = complexes(3, 4), complexes(4, 2), RNG.randn(2, 3), RNG.randn(2, 3)
MASK = R > 0

# name: function, the same in NumPy, operands
FUNCTIONS = {
    "abs": (bireme.abs, np.abs, [A]),
    "real": (bireme.real, np.real, [A]),
    "imag": (bireme.imag, np.imag, [A]),
    "conj": (bireme.conj, np.conj, [A]),
    "complex": (bireme.complex, lambda x, y: x + 1j * y, [R, S]),
    "add": (lambda x, y: x + y, np.add, [A, B]),
    "subtract": (lambda x, y: x - y, np.subtract, [A, B]),
    "multiply": (lambda x, y: x * y, np.multiply, [A, B]),
    "divide": (lambda x, y: x / y, np.divide, [A, B]),
    "multiply by real": (lambda x, y: x * y, np.multiply, [A, R]),
    "divide by real": (lambda x, y: x / y, np.divide, [A, R]),
    "real by complex": (lambda x, y: x / y, np.divide, [R, A]),
    "real times a number": (lambda x: x * (2 + 3j), lambda x: x * (2 + 3j), [R]),
    "matmul": (bireme.matmul, np.matmul, [M, N]),
    "matmul, transposed": (lambda x, y: bireme.matmul(x, y, transpose_y=True), lambda x, y: x @ y.T, [A, B]),
    "matmul of stacks": (bireme.matmul, np.matmul, [complexes(2, 3, 4), complexes(2, 4, 2)]),
    "matrix by vector": (bireme.matmul, np.matmul, [M, complexes(4)]),
    "exp": (bireme.exp, np.exp, [A]),
    "expm1": (bireme.expm1, np.expm1, [A]),
    "log": (bireme.log, np.log, [A]),
    "log1p": (bireme.log1p, np.log1p, [A]),
    "sqrt": (bireme.sqrt, np.sqrt, [A]),
    "rsqrt": (bireme.rsqrt, lambda x: 1 / np.sqrt(x), [A]),
    "square": (bireme.square, np.square, [A]),
    "reciprocal": (bireme.reciprocal, lambda x: 1 / x, [A]),
    "pow 3": (lambda x: x**3, lambda x: x**3, [A]),
    "pow 2.5": (lambda x: bireme.pow(x, 2.5), lambda x: x**2.5, [A]),
    "pow of tensors": (bireme.pow, np.power, [A, B]),
    "sin": (bireme.sin, np.sin, [A]),
    "cos": (bireme.cos, np.cos, [A]),
    "tanh": (bireme.tanh, np.tanh, [A]),
    "sigmoid": (bireme.nn.functional.sigmoid, lambda x: 1 / (1 + np.exp(-x)), [A]),
    "sign": (bireme.sign, lambda x: x / np.abs(x), [A]),
    "negative": (lambda x: -x, np.negative, [A]),
    "scale": (lambda x: bireme.scale(x, 2.0, 1.0), lambda x: x * 2 + 1, [A]),
    "lerp": (lambda x, y: bireme.lerp(x, y, 0.3), lambda x, y: x + 0.3 * (y - x), [A, B]),
    "sum": (bireme.sum, np.sum, [A]),
    "mean": (bireme.mean, np.mean, [A]),
    "sum along": (lambda x: bireme.sum(x, axis=1), lambda x: x.sum(1), [A]),
    "prod": (bireme.prod, np.prod, [A]),
    "cumsum": (lambda x: bireme.cumsum(x, axis=1), lambda x: x.cumsum(1), [A]),
    "squared modulus": (lambda x: bireme.real(x * bireme.conj(x)), lambda x: (x * np.conj(x)).real, [A]),
    "transpose": (lambda x: x.T * 2, lambda x: x.T * 2, [A]),
    "index": (lambda x: x[0, ::2], lambda x: x[0, ::2], [A]),
    "concat": (lambda x, y: bireme.concat([x, y]), lambda x, y: np.concatenate([x, y]), [A, B]),
    "where": (lambda x, y: bireme.where(bireme.to_tensor(MASK), x, y), lambda x, y: np.where(MASK, x, y), [A, B]),
    "from real": (lambda x: x.astype("complex128") * (1 + 2j), lambda x: x * (1 + 2j), [R]),
}


def as_tensors(operands):
    return [bireme.to_tensor(a, stop_gradient=False) for a in operands]


def like(y, seed):
    rng = np.random.RandomState(seed)
    w = np.asarray(rng.randn(*np.shape(y)))
    return np.asarray(w + 1j * rng.randn(*np.shape(y))) if np.iscomplexobj(y) else w


def inner(a, b):
    """The real inner product that the convention stands on."""
    return np.sum(np.real(np.conj(a) * b))


def numeric(f, operands, place, w, step=1e-6):
    """dL/dRe + i dL/dIm of L = <w, f> by central differences."""
    x = operands[place]
    found = np.zeros(x.shape, x.dtype)
    for i in np.ndindex(x.shape):
        for unit in (1, 1j) if np.iscomplexobj(x) else (1,):
            d = np.zeros_like(x)
            d[i] = unit * step
            ends = [inner(w, f(*operands[:place], x + s * d, *operands[place + 1 :])) for s in (1, -1)]
            found[i] += unit * (ends[0] - ends[1]) / (2 * step)
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_and_gradient(name):
    f, reference, operands = FUNCTIONS[name]
    xs = as_tensors(operands)
    y = f(*xs)
    expected = reference(*operands)
    assert y.numpy().dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-10)
    w = like(expected, 1)
    grads = bireme.grad(y, xs, grad_outputs=bireme.to_tensor(w))
    for i, g in enumerate(grads):
        assert g.numpy().dtype == operands[i].dtype
        np.testing.assert_allclose(g.numpy(), numeric(reference, operands, i, w), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_mode(name):
    """<w, J v> = <J' w, v> in the real inner product."""
    f, reference, operands = FUNCTIONS[name]
    vs = [like(a, 2 + i) for i, a in enumerate(operands)]
    w = like(reference(*operands), 1)
    xs = [bireme.to_tensor(a) for a in operands]
    _, tangent = functional.jvp(f, xs, [bireme.to_tensor(v) for v in vs])
    _, pulled = functional.vjp(f, xs, bireme.to_tensor(w))
    assert inner(w, tangent.numpy()) == pytest.approx(sum(inner(g.numpy(), v) for g, v in zip(pulled, vs, strict=True)), rel=1e-10)


HOLOMORPHIC = {
    "exp": (bireme.exp, [np.exp, np.exp]),
    "x^3": (lambda x: x**3, [lambda z: 3 * z**2, lambda z: 6 * z]),
    "1/x": (bireme.reciprocal, [lambda z: -1 / z**2, lambda z: 2 / z**3]),
    "sin": (bireme.sin, [np.cos, lambda z: -np.sin(z)]),
    "log": (bireme.log, [lambda z: 1 / z, lambda z: -1 / z**2]),
}


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_holomorphic_functions_to_the_second_order(name):
    """The gradient is the conjugate of the derivative; that of its conjugate is the conjugate of the second."""
    f, (first, second) = HOLOMORPHIC[name]
    (x,) = as_tensors([A])
    (g,) = bireme.grad(f(x), x, create_graph=True)
    np.testing.assert_allclose(g.numpy(), np.conj(first(A)), rtol=1e-10)
    (h,) = bireme.grad(bireme.conj(g), x)
    np.testing.assert_allclose(h.numpy(), np.conj(second(A)), rtol=1e-10)


def test_modulus_at_zero():
    (x,) = as_tensors([np.zeros(2, np.complex128)])
    bireme.abs(x).sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_descent_follows_the_gradient():
    """x - lr * grad goes downhill: that is what the convention is for."""
    (x,) = as_tensors([A])
    target = bireme.to_tensor(B)
    for _ in range(100):
        x.clear_gradient(False)
        (bireme.abs(x - target) ** 2).sum().backward()
        with bireme.no_grad():
            x.subtract_(x.grad * 0.1)
    np.testing.assert_allclose(x.numpy(), B, atol=1e-6)


def test_the_conjugate_would_be_seen():
    xs = as_tensors([A])
    (g,) = bireme.grad(bireme.exp(xs[0]), xs, grad_outputs=bireme.to_tensor(like(A, 1)))
    expected = numeric(np.exp, [A], 0, like(A, 1))
    assert abs(np.conj(g.numpy()) - expected).max() > 0.1


def test_parts_lie_between_each_other():
    x = bireme.to_tensor([[1 + 2j, 3 + 4j]])
    for part in (bireme.real(x), bireme.imag(x)):
        assert part.strides == [4, 2] and not part.is_contiguous() and x._is_shared_buffer_with(part)
    assert bireme.as_real(x).is_contiguous()
