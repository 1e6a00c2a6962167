"""Derivatives of any order, against Cauchy's integral on NumPy functions; Jacobians, Hessians, and forward mode."""

import math

import jax
import numpy as np
import pytest
import scipy.special

import bireme
import bireme.nn.functional as F
from bireme.core.numpy_exec import planning
from bireme.incubate import autograd as functional

RNG = np.random.RandomState(3)


def cauchy(f, x, order, radius=0.4, points=64):
    """The derivative of an analytic NumPy function: its values on a circle, exact up to rounding."""
    turn = np.exp(2j * np.pi * np.arange(points) / points)
    values = np.stack([np.asarray(f(x + radius * z)) for z in turn])
    return (math.factorial(order) / radius**order * np.tensordot(turn**-order, values, 1) / points).real


def repeated(f, x, order):
    """The derivative by `bireme.grad` of `bireme.grad` of ..."""
    y = f(x)
    for _ in range(order):
        (y,) = bireme.grad(y.sum(), x, create_graph=True)
    return y


def pushed(f, order):
    """The derivative by forward mode over forward mode over ..."""
    for _ in range(order):
        f = _pushed_once(f)
    return f


def _pushed_once(f):
    return lambda x: functional.jvp(f, x)[1]


def float64(x, stop_gradient=True):
    return bireme.to_tensor(np.asarray(x, np.float64), stop_gradient=stop_gradient)


A, B, C, D = (RNG.randn(3, 3) for _ in range(4))
Q, K, V, W = (RNG.randn(1, 4, 2, 3) for _ in range(4))
LABELS = np.array([0, 2, 1])


def np_softmax(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis, keepdims=True)


def np_layer_norm(x):
    middle = x - x.mean(-1, keepdims=True)
    return middle / np.sqrt((middle * middle).mean(-1, keepdims=True) + 1e-5)


def np_attention(q, k, v):
    q, k, v = (x.transpose(0, 2, 1, 3) for x in (q, k, v))
    return (np_softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(3)) @ v).transpose(0, 2, 1, 3)


def np_cross_entropy(x):
    return (np.log(np.exp(x).sum(-1)) - x[np.arange(3), LABELS]).mean()


ELEMENTWISE = {
    "sin(x exp x)": (lambda x: bireme.sin(x * bireme.exp(x)), lambda x: np.sin(x * np.exp(x))),
    "tanh(x)^3": (lambda x: bireme.tanh(x) ** 3, lambda x: np.tanh(x) ** 3),
    "1/(1+x^2)": (lambda x: 1 / (1 + x * x), lambda x: 1 / (1 + x * x)),
    "reciprocal": (lambda x: bireme.reciprocal(1 + bireme.square(x)), lambda x: 1 / (1 + x * x)),
    "log(1+exp x)": (lambda x: bireme.log(1 + bireme.exp(x)), lambda x: np.log(1 + np.exp(x))),
    "x^5": (lambda x: x**5, lambda x: x**5),
    "x^5 by pow": (lambda x: bireme.pow(x * x, 2.5), lambda x: np.sqrt(x * x) ** 5),
    "sigmoid": (F.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "silu": (F.silu, lambda x: x / (1 + np.exp(-x))),
    "sqrt(1+x^2)": (lambda x: bireme.sqrt(1 + x * x), lambda x: np.sqrt(1 + x * x)),
    "rsqrt(1+x^2)": (lambda x: bireme.rsqrt(1 + x * x), lambda x: 1 / np.sqrt(1 + x * x)),
    "erf(x) cos(x)": (lambda x: bireme.erf(x) * bireme.cos(x), lambda x: scipy.special.erf(x) * np.cos(x)),
    "gelu": (F.gelu, lambda x: x * (1 + scipy.special.erf(x / np.sqrt(2))) / 2),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate=True),
        lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    ),
}
# of one number t: what is inside moves along a straight line
ALONG = {
    "matmul": (
        lambda t: bireme.matmul(bireme.tanh(float64(A) + t * float64(B)), float64(C) + t * float64(D)).sum(),
        lambda t: (np.tanh(A + t * B) @ (C + t * D)).sum(),
    ),
    "softmax of matmul": (
        lambda t: (F.softmax(bireme.matmul(float64(A) + t * float64(B), float64(C)), axis=0) * float64(D)).sum(),
        lambda t: (np_softmax((A + t * B) @ C, 0) * D).sum(),
    ),
    "log_softmax": (
        lambda t: (F.log_softmax(float64(A) + t * float64(B)) * float64(D)).sum(),
        lambda t: (np.log(np_softmax(A + t * B)) * D).sum(),
    ),
    "layer_norm": (
        lambda t: (F.layer_norm(float64(A) + t * float64(B), 3) * float64(D)).sum(),
        lambda t: (np_layer_norm(A + t * B) * D).sum(),
    ),
    "cross_entropy": (
        lambda t: F.cross_entropy(float64(A) + t * float64(B), bireme.to_tensor(LABELS)),
        lambda t: np_cross_entropy(A + t * B),
    ),
    "attention": (
        lambda t: (
            F.scaled_dot_product_attention(float64(Q) + t * float64(W), float64(K), float64(V) + t * t) ** 2
        ).sum(),
        lambda t: (np_attention(Q + t * W, K, V + t * t) ** 2).sum(),
    ),
    "mean, prod and exp": (
        lambda t: bireme.mean(bireme.exp(float64(A) * t)) * bireme.prod(float64(B) + t),
        lambda t: np.exp(A * t).mean() * (B + t).prod(),
    ),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_to_the_fourth_order(name):
    f, reference = ELEMENTWISE[name]
    points = np.array([-1.1, 0.6, 1.3])
    x = float64(points, stop_gradient=False)
    for order in range(1, 5):
        expected = cauchy(reference, points, order, radius=0.3)
        np.testing.assert_allclose(repeated(f, x, order).numpy(), expected, rtol=1e-7, atol=1e-7)
        if order < 3:
            np.testing.assert_allclose(pushed(f, order)(x).numpy(), expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", ALONG)
def test_compositions_to_the_fourth_order(name):
    f, reference = ALONG[name]
    t = float64(0.3, stop_gradient=False)
    for order in range(1, 5):
        expected = cauchy(reference, 0.3, order, radius=0.2)
        np.testing.assert_allclose(repeated(f, t, order).item(), expected, rtol=1e-6, atol=1e-7)
        if order < 3:
            np.testing.assert_allclose(pushed(f, order)(t).item(), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ALONG)
def test_modes_over_each_other(name):
    """Second derivatives as reverse over forward and as forward over reverse."""
    f, reference = ALONG[name]
    t = float64(0.3, stop_gradient=False)
    expected = cauchy(reference, 0.3, 2, radius=0.2)
    (over_forward,) = bireme.grad(functional.jvp(f, t)[1], t)
    np.testing.assert_allclose(over_forward.item(), expected, rtol=1e-6)
    _, over_reverse = functional.jvp(lambda t: functional.vjp(f, t)[1], t)
    np.testing.assert_allclose(over_reverse.item(), expected, rtol=1e-6)


def test_a_wrong_derivative_would_be_seen():
    points = np.array([0.6])
    assert abs(cauchy(np.tanh, points, 2, radius=0.3) - cauchy(np.sin, points, 2, radius=0.3)).max() > 0.1


# ---------------------------------------------------------------- networks


def network(w1, b1, w2, x):
    return bireme.matmul(bireme.tanh(bireme.matmul(x, w1) + b1), w2)


SIZES = [(2, 3), (3,), (3, 1)]
X = RNG.randn(5, 2)
TARGET = RNG.randn(5, 1)


def unpacked(flat, split, shape):
    parts = split(flat, [6, 3, 3])
    return [shape(part, size) for part, size in zip(parts, SIZES, strict=True)]


def loss(flat):
    w1, b1, w2 = unpacked(flat, lambda t, n: bireme.split(t, n), lambda t, s: t.reshape(list(s)))
    return ((network(w1, b1, w2, float64(X)) - float64(TARGET)) ** 2).mean()


def np_loss(flat):
    w1, b1, w2 = unpacked(flat, lambda t, n: np.split(t, np.cumsum(n)[:-1]), lambda t, s: t.reshape(s))
    return ((np.tanh(X @ w1 + b1) @ w2 - TARGET) ** 2).mean()


def differences(f, x, step):
    """The gradient of a NumPy function by central differences."""
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))])


def test_hessian_of_a_network():
    point = RNG.randn(12)
    expected = differences(lambda x: differences(np_loss, x, 1e-4), point, 1e-4)
    x = float64(point, stop_gradient=False)
    H = bireme.autograd.hessian(loss(x), x)
    assert H.shape == [12, 12]
    np.testing.assert_allclose(H[:].numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(H[:].numpy(), H[:].numpy().T, atol=1e-12)
    np.testing.assert_allclose(functional.Hessian(loss, x)[:].numpy(), H[:].numpy(), atol=1e-12)
    # forward over reverse, one column at a time
    for i in (0, 7):
        _, column = functional.jvp(lambda x: functional.vjp(loss, x)[1], x, float64(np.eye(12)[i]))
        np.testing.assert_allclose(column.numpy(), H[:, i].numpy(), atol=1e-12)


def test_jacobian_both_ways():
    w = float64(RNG.randn(2, 3))

    def f(x):
        return bireme.tanh(bireme.matmul(x.reshape([1, 2]), w)).reshape([3]) * x[0]

    x = float64([0.4, -0.7], stop_gradient=False)
    J = bireme.autograd.jacobian(f(x), x)[:].numpy()
    expected = differences(lambda v: np.tanh(v @ w.numpy()) * v[0], np.array([0.4, -0.7]), 1e-5).T
    np.testing.assert_allclose(J, expected, atol=1e-9)
    columns = [functional.jvp(f, x, float64(e))[1].numpy() for e in np.eye(2)]
    np.testing.assert_allclose(np.stack(columns, 1), J, atol=1e-13)


OPERATORS = {
    "matmul": (lambda x, y: bireme.matmul(x, y), [(3, 4), (4, 2)]),
    "broadcast": (lambda x, y: x * y + x / (y * y + 1), [(3, 1), (4,)]),
    "index": (lambda x: x[1:, ::2] * x[0, 0], [(3, 4)]),
    "concat": (lambda x, y: bireme.concat([x, y, x], axis=1), [(2, 3), (2, 1)]),
    "max": (lambda x: bireme.max(x, axis=1), [(3, 4)]),
    "maximum": (lambda x, y: bireme.maximum(x, y), [(3, 4), (3, 4)]),
    "cumsum": (lambda x: bireme.cumsum(x, axis=0), [(3, 4)]),
    "norm": (lambda x: F.layer_norm(x, 4), [(3, 4)]),
    "relu": (lambda x: F.relu(x), [(3, 4)]),
    "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), [(1, 2, 4, 4), (3, 2, 3, 3)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), [(1, 2, 4, 4)]),
    "split": (lambda x: bireme.split(x, 2, axis=1)[1] * bireme.split(x, 2, axis=1)[0], [(3, 4)]),
    "where": (lambda x, y: bireme.where(x > 0, x * y, y), [(3, 4), (3, 4)]),
    "gather": (lambda x: bireme.gather(x, bireme.to_tensor([2, 0, 2])), [(3, 4)]),
    "std": (lambda x: bireme.std(x, axis=1), [(3, 4)]),
    "clip": (lambda x: bireme.clip(x, -0.5, 0.5), [(3, 4)]),
    "two results": (lambda x: (x * 2, bireme.sin(x).sum()), [(3,)]),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_forward_mode_is_the_transpose_of_reverse_mode(name):
    """<u, J v> = <J' u, v> for every u and v."""
    f, shapes = OPERATORS[name]
    rng = np.random.RandomState(5)
    xs, vs = ([float64(rng.randn(*s)) for s in shapes] for _ in range(2))
    ys, tangents = functional.jvp(f, xs, vs)
    ys, tangents = (list(t) if isinstance(t, tuple) else [t] for t in (ys, tangents))
    us = [float64(rng.randn(*y.shape)) for y in ys]
    _, pulled = functional.vjp(f, xs, us)
    left = sum((u * t).sum().item() for u, t in zip(us, tangents, strict=True))
    right = sum((g * v).sum().item() for g, v in zip(pulled, vs, strict=True))
    assert left == pytest.approx(right, rel=1e-12)
    assert abs(left) > 1e-3


def test_forward_grad_of_a_recorded_graph():
    x = float64([1.0, 2.0], stop_gradient=False)
    y = bireme.exp(x)
    z = y * x
    np.testing.assert_allclose(functional.forward_grad(z, x).numpy(), np.exp([1, 2]) * [2, 3])
    moved = functional.forward_grad([z, x * 3], y, float64([1.0, 10.0]))
    assert moved[0].tolist() == [1.0, 20.0]
    assert moved[1].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(functional.grad(z, x).numpy(), np.exp([1, 2]) * [2, 3])
    z.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        functional.forward_grad(z, x)


def test_forward_mode_through_a_changed_tensor_refuses():
    x = float64([1.0, 2.0], stop_gradient=False)
    y = x * 1
    z = y * y
    y.add_(float64([1.0, 1.0]))
    with pytest.raises(RuntimeError, match="inplace"):
        functional.forward_grad(z, x)


# ---------------------------------------------------------------- lazy matrices


def test_jacobian_forms():
    x, z = float64([1.0, 2.0, 3.0], stop_gradient=False), float64([1.0, 2.0], stop_gradient=False)
    J = bireme.autograd.jacobian((x * x, x.sum() * z[1]), (x, z))
    assert [[j.shape for j in row] for row in J] == [[[3, 3], [3, 2]], [[3], [2]]]
    assert J[0][0][:].tolist() == [[2.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 6.0]]
    assert J[0][1][:].tolist() == [[0.0, 0.0]] * 3
    assert J[1][0][:].tolist() == [2.0, 2.0, 2.0]
    assert J[1][1][1].item() == 6.0
    number = float64(2.0, stop_gradient=False)
    assert bireme.autograd.jacobian(bireme.stack([number * number, number * 3]), number)[:].tolist() == [4.0, 3.0]


def test_jacobian_rows_are_computed_once_and_only_when_needed():
    x = float64([1.0, 2.0, 3.0], stop_gradient=False)
    J = bireme.autograd.jacobian(x * x, x)
    assert J[1].tolist() == [0.0, 4.0, 0.0]
    assert list(J._rows) == [1]
    assert J[-1, 2].item() == 6.0
    assert J[0:2, 1:].tolist() == [[0.0, 0.0], [4.0, 0.0]]
    assert sorted(J._rows) == [0, 1, 2]
    assert J[::2].tolist() == [[2.0, 0.0, 0.0], [0.0, 0.0, 6.0]]
    assert J[..., 0].tolist() == [2.0, 0.0, 0.0]
    with pytest.raises(IndexError, match="expected an index in"):
        J[3]


def test_jacobian_is_used_like_a_tensor():
    x = float64([1.0, 2.0], stop_gradient=False)
    J = bireme.autograd.jacobian(x * x, x)
    assert (J + 1.0).tolist() == [[3.0, 1.0], [1.0, 5.0]]
    assert (J @ x).tolist() == [2.0, 8.0]
    assert (J * J).sum().item() == 20.0
    assert (1.0 - J).tolist() == [[-1.0, 1.0], [1.0, -3.0]]
    assert J.T.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert len(J) == 2


def test_jacobian_by_batch():
    x = float64([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], stop_gradient=False)
    y = bireme.stack([x[:, 0] * x[:, 1], x.sum(axis=1)], axis=1)
    J = bireme.autograd.jacobian(y, x, batch_axis=0)
    assert J.shape == [3, 2, 2]
    assert J[:].tolist() == [[[2.0, 1.0], [1.0, 1.0]], [[4.0, 3.0], [1.0, 1.0]], [[6.0, 5.0], [1.0, 1.0]]]
    assert J[:, 0, 1].tolist() == [1.0, 3.0, 5.0]
    assert J[1].tolist() == [[4.0, 3.0], [1.0, 1.0]]
    H = bireme.autograd.hessian(x[:, 0] * x[:, 1] * x[:, 1], x, batch_axis=0)
    assert H[:].tolist() == [[[0.0, 4.0], [4.0, 2.0]], [[0.0, 8.0], [8.0, 6.0]], [[0.0, 12.0], [12.0, 10.0]]]


def test_hessian_of_several_inputs():
    x, z = float64([1.0, 2.0], stop_gradient=False), float64([3.0], stop_gradient=False)
    H = bireme.autograd.hessian((x * x).sum() * z[0], (x, z))
    assert [[h[:].tolist() for h in row] for row in H] == [
        [[[6.0, 0.0], [0.0, 6.0]], [[2.0], [4.0]]],
        [[[2.0, 4.0]], [[0.0]]],
    ]
    # a second derivative that is zero everywhere
    assert bireme.autograd.hessian(x.sum(), x)[:].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_functional_matrices():
    x = float64([[1.0, 2.0], [3.0, 4.0]])
    J = functional.Jacobian(bireme.matmul, [x, x])
    assert J.shape == (4, 8)
    assert J[1].tolist() == [2.0, 4.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0]
    assert J[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0]
    batched = functional.Jacobian(lambda x: x * x, x, is_batched=True)
    assert batched.shape == (2, 2, 2)
    assert batched[:].tolist() == [[[2.0, 0.0], [0.0, 4.0]], [[6.0, 0.0], [0.0, 8.0]]]
    H = functional.Hessian(lambda x, y: (x * y).sum(), [x[0], x[1]])
    assert H[:].tolist() == np.kron([[0, 1], [1, 0]], np.eye(2)).tolist()
    H = functional.Hessian(lambda x: (x**3).sum(axis=1), x, is_batched=True)
    assert H[:].tolist() == [[[6.0, 0.0], [0.0, 12.0]], [[18.0, 0.0], [0.0, 24.0]]]


def test_functional_products_leave_the_inputs_alone():
    x = float64([1.0, 2.0])
    y, pulled = functional.vjp(lambda x, z: (x * z, x), [x, x], [x, x])
    assert [t.tolist() for t in y] == [[1.0, 4.0], [1.0, 2.0]]
    assert [t.tolist() for t in pulled] == [[2.0, 6.0], [1.0, 4.0]]
    assert x.stop_gradient
    assert x.grad is None
    assert functional.vjp(lambda x, z: x * x, [x, x])[1][1].tolist() == [0.0, 0.0]
    assert functional.jvp(lambda x: float64([7.0]), x)[1].tolist() == [0.0]
    with bireme.no_grad():
        assert functional.jvp(lambda x: x * x, x)[1].tolist() == [2.0, 4.0]
    # the derivative is differentiable by the caller's own tensor
    x.stop_gradient = False
    (second,) = bireme.grad(functional.vjp(lambda x: x**3, x)[1].sum(), x)
    assert second.tolist() == [6.0, 12.0]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: bireme.autograd.jacobian(x * x, x, batch_axis=1), ValueError, "expected None or 0, got 1"),
        (lambda x: bireme.autograd.jacobian(x.reshape([1, 2]), x), ValueError, "a 0-D or 1-D tensor, got shape [1, 2]"),
        (lambda x: bireme.autograd.jacobian(3, x), TypeError, "jacobian(ys): expected a Tensor or a sequence"),
        (lambda x: bireme.autograd.hessian(x * x, x), ValueError, "expected one element, got shape [2]"),
        (lambda x: functional.Hessian(lambda x: x * x, x), RuntimeError, "returns one number, got shape [2]"),
        (lambda x: functional.vjp(3, x), TypeError, "vjp(func): expected a callable, got 3"),
        (lambda x: functional.jvp(lambda x: x, x, x[0]), RuntimeError, "jvp(v): expected shape [2], got shape []"),
        (lambda x: functional.vjp(lambda x: 3, x), TypeError, "vjp(func): expected a Tensor or a sequence"),
    ],
)
def test_bad_arguments(call, kind, message):
    with pytest.raises(kind) as caught:
        call(float64([1.0, 2.0], stop_gradient=False))
    assert message in str(caught.value)


def test_a_sampled_place_on_the_edge_moves_as_one_just_inside():
    x = bireme.to_tensor([[[[1.0, 3.0, 7.0]]]])
    for mode in ("border", "reflection"):
        grid = bireme.to_tensor([[[[-1.0, 0.0]]]], stop_gradient=False)
        F.grid_sample(x, grid, padding_mode=mode).backward()
        assert grid.grad[0, 0, 0, 0].item() == 2.0


@pytest.mark.parametrize("executor", ["interpreter", "xla"])
@pytest.mark.parametrize("exponent", [0, 1, 2])
@pytest.mark.parametrize("form", ["number", "0-d", "elementwise"])
def test_derivatives_of_whole_powers_at_zero(exponent, form, executor):
    x = bireme.to_tensor([0.0, -2.0, 1.0], stop_gradient=False)
    y = {
        "number": exponent,
        "0-d": bireme.to_tensor(float(exponent)),
        "elementwise": bireme.full([3], float(exponent)),
    }[form]
    with bireme.debug.use_executor(executor):
        found = bireme.pow(x, y)
        for order in range(1, exponent + 3):
            found = bireme.grad(found.sum(), x, create_graph=True, allow_unused=True)[0]
            wanted = np.polyval(np.polyder([1.0] + [0.0] * exponent, order), x.numpy())
            if found is None:  # of a constant
                assert not wanted.any()
                break
            np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)


def test_a_power_by_its_exponent_to_the_second_order():
    x, y = bireme.to_tensor([2.0, 0.0], stop_gradient=False), bireme.to_tensor([3.0, 2.0], stop_gradient=False)
    slope = bireme.grad(bireme.pow(x, y).sum(), y, create_graph=True)[0]
    assert slope.tolist() == pytest.approx([8 * math.log(2), 0])
    assert bireme.grad(slope.sum(), y, retain_graph=True)[0].tolist() == pytest.approx([8 * math.log(2) ** 2, 0])
    assert bireme.grad(slope.sum(), x)[0].tolist() == pytest.approx([12 * math.log(2) + 4, 0])


@pytest.mark.parametrize(
    "flat",
    [
        lambda x: x.abs(),
        lambda x: x.astype("complex64").abs(),
        lambda x: bireme.copysign(x, bireme.to_tensor(1.0)),
        lambda x: x**0 - 1,
    ],
)
@pytest.mark.parametrize("executor", ["interpreter", "xla"])
def test_where_a_slope_is_zero_an_infinite_gradient_ends(flat, executor):
    x = bireme.to_tensor([0.0, 4.0], stop_gradient=False)
    with bireme.debug.use_executor(executor):
        bireme.sqrt(flat(x)).sum().backward()
        assert x.grad.tolist()[0] == 0
        assert x.grad.tolist()[1] in (0, 0.25)


@pytest.mark.parametrize("executor", ["interpreter", "xla"])
@pytest.mark.parametrize("exponent", [-1, -2])
def test_derivatives_of_quotients_keep_the_range_of_their_type(exponent, executor):
    x = bireme.to_tensor([1e-6, 1e12, 3.0, math.inf], stop_gradient=False)
    with bireme.debug.use_executor(executor):
        slope = bireme.grad(bireme.pow(x, exponent).sum(), x, create_graph=True)[0]
        curvature = bireme.grad(slope.sum(), x)[0]
    wide = x.numpy().astype("float64")
    np.testing.assert_allclose(
        curvature.numpy(), exponent * (exponent - 1) * wide ** (exponent - 2), rtol=1e-5, atol=1e-37
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_second_derivatives_of_bessel_functions_near_zero(dtype):
    x = bireme.to_tensor([1e-15, 1e-7, -1e-4, 0.3, -0.999, 1.001, 4.0], dtype, stop_gradient=False)
    at = x.numpy().astype("float64")
    second = scipy.special.ivp(1, at, 2)  # of i1
    scaled = np.exp(-np.abs(at)) * (second - 2 * np.sign(at) * scipy.special.ivp(1, at, 1) + scipy.special.i1(at))
    for name, wanted in (("i1", second), ("i1e", scaled)):
        slope = bireme.grad(getattr(bireme, name)(x).sum(), x, create_graph=True)[0]
        np.testing.assert_allclose(bireme.grad(slope.sum(), x)[0].numpy(), wanted, rtol=1e-4, atol=1e-6)


def test_nothing_is_traced_for_second_derivatives_of_common_operators(monkeypatch):
    """A first step would wait for it: some 10 ms for each operator and shape, as in a network whose loss has
    derivatives by its inputs.
    """

    def trace(*args):
        raise AssertionError("traced")

    monkeypatch.setattr(planning, "traced", trace)
    monkeypatch.setattr(jax, "make_jaxpr", trace)
    x, t = float64(RNG.randn(5, 1), stop_gradient=False), float64(RNG.randn(5, 1), stop_gradient=False)
    weight, bias = float64(RNG.randn(2, 7), stop_gradient=False), float64(RNG.randn(7), stop_gradient=False)
    activations = (bireme.tanh, F.sigmoid, bireme.sin, F.relu, lambda y: F.leaky_relu(y, 0.3), bireme.exp)

    def loss(weight):
        total = 0.0
        for activation in activations:
            u = activation(bireme.matmul(bireme.concat([x, t], axis=1), weight) + bias).sum(axis=1)
            u_x, u_t = bireme.grad(u.sum(), [x, t], create_graph=True)
            (u_xx,) = bireme.grad(u_x.sum(), x, create_graph=True, allow_unused=True)
            u_xx = u_x if u_xx is None else u_xx  # of what is linear by parts
            total = total + (bireme.reshape(u_t, [5])[1:] * u[1:]).sum() + (u_xx * u_x).sum()
        return total

    with bireme.debug.use_executor("interpreter"):
        loss(weight).backward()
        step, found = 1e-6, weight.grad.numpy()
        for at in ((0, 0), (1, 3)):
            sides = []
            for sign in (1, -1):
                moved = weight.detach().clone()
                moved[at] += sign * step
                moved.stop_gradient = False
                sides.append(loss(moved).item())
            np.testing.assert_allclose(found[at], (sides[0] - sides[1]) / (2 * step), rtol=1e-5)


def test_second_derivatives_that_are_not_asked_for_of_a_product():
    """Of a product of tensors they are zeros, of a matrix product there are none, as in Paddle."""
    x, y = float64([2.0, 3.0], stop_gradient=False), float64([5.0, 7.0], stop_gradient=False)
    (g,) = bireme.grad((x * y).sum(), x, create_graph=True)
    assert [t.tolist() for t in bireme.grad((g * g).sum(), [x, y])] == [[0.0, 0.0], [10.0, 14.0]]
    (g,) = bireme.grad(bireme.matmul(x, y), x, create_graph=True)
    assert [t if t is None else t.tolist() for t in bireme.grad((g * g).sum(), [x, y], allow_unused=True)] == [
        None,
        [10.0, 14.0],
    ]
