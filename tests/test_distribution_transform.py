"""Transforms: inverses, Jacobians beside differences, shapes, domains, composition, and densities after them."""

import numpy as np
import pytest
from scipy import integrate, stats

import bireme
from bireme import distribution as D
from bireme.distribution import constraint, variable


def double(x):
    return bireme.to_tensor(np.asarray(x, "float64"))


def affine(loc=1.0, scale=-2.0):
    return D.AffineTransform(double(loc), double(scale))


X = np.array([[0.3, 1.2, 0.8], [2.0, 0.1, 1.5]])
ELEMENTWISE = {
    "Exp": D.ExpTransform,
    "Sigmoid": D.SigmoidTransform,
    "Tanh": D.TanhTransform,
    "Affine": affine,
    "Affine, broadcast": lambda: affine([1.0, 2.0, 3.0], [[2.0], [4.0]]),
    "Power": lambda: D.PowerTransform(double(2.5)),
    "Chain": lambda: D.ChainTransform([affine(0.1, 0.5), D.ExpTransform(), D.TanhTransform()]),
    "Stack": lambda: D.StackTransform([D.ExpTransform(), affine(), D.TanhTransform()], 1),
    "Stack, last axis": lambda: D.StackTransform([D.ExpTransform(), affine(), D.TanhTransform()], -1),
    "Stack, rows": lambda: D.StackTransform([D.ExpTransform(), D.PowerTransform(double(2.0))]),
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name):
    t, h = ELEMENTWISE[name](), 1e-6
    y = t.forward(double(X))
    np.testing.assert_allclose(t.inverse(y).numpy(), X, rtol=1e-9)
    slope = (t.forward(double(X + h)).numpy() - t.forward(double(X - h)).numpy()) / (2 * h)
    jacobian = t.forward_log_det_jacobian(double(X))
    assert jacobian.shape == [2, 3]
    np.testing.assert_allclose(jacobian.numpy(), np.log(abs(slope)), atol=1e-8)
    np.testing.assert_allclose(t.inverse_log_det_jacobian(y).numpy(), -np.log(abs(slope)), atol=1e-8)
    assert tuple(t.forward_shape((2, 3))) == tuple(t.inverse_shape((2, 3))) == (2, 3)
    assert t._domain.event_rank == t._codomain.event_rank == 0


def numeric_jacobian(f, x, h=1e-6):
    return np.stack([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(x.size)], -1)


VECTORS = {
    "StickBreaking": (D.StickBreakingTransform, 1),
    "Chain, numbers before": (lambda: D.ChainTransform([affine(), D.StickBreakingTransform()]), 1),
    "Independent": (lambda: D.IndependentTransform(affine(1.0, [1.0, 2.0, 3.0]), 1), 0),
    "Independent of a number": (lambda: D.IndependentTransform(affine(), 1), 0),
    "Chain, reshaped": (lambda: D.ChainTransform([D.ReshapeTransform((3,), (3, 1)), D.ExpTransform()]), 0),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name):
    make, extra = VECTORS[name]
    t = make()
    jacobian = t.forward_log_det_jacobian(double(X))
    assert jacobian.shape == [2]
    y = t.forward(double(X))
    assert tuple(y.shape) == tuple(t.forward_shape((2, 3))) and tuple(t.inverse_shape(y.shape)) == (2, 3)
    np.testing.assert_allclose(t.inverse(y).numpy(), X, rtol=1e-9)
    for row, found in zip(X, jacobian.numpy(), strict=True):
        # a simplex has one coordinate less than elements
        matrix = numeric_jacobian(lambda x: t.forward(double(x)).numpy().ravel()[: x.size], row)
        np.testing.assert_allclose(found, np.linalg.slogdet(matrix)[1], rtol=1e-7)
    np.testing.assert_allclose(t.inverse_log_det_jacobian(y).numpy(), -jacobian.numpy(), rtol=1e-7)
    assert t._domain.event_rank == 1
    if extra:
        np.testing.assert_allclose(y.numpy().sum(-1), 1, rtol=1e-12)
        assert t._codomain.constraint(y).numpy().all()


def test_gradients_pass_through_transforms():
    scale = double(0.7)
    scale.stop_gradient = False
    t = D.ChainTransform([D.AffineTransform(double(0.1), scale), D.StickBreakingTransform()])
    (slope,) = bireme.grad(t.forward_log_det_jacobian(double(X)).sum(), scale)

    def at(s):
        chain = D.ChainTransform([affine(0.1, s), D.StickBreakingTransform()])
        return chain.forward_log_det_jacobian(double(X)).numpy().sum()

    np.testing.assert_allclose(slope.item(), (at(0.7 + 1e-6) - at(0.7 - 1e-6)) / 2e-6, rtol=1e-7)


def test_far_out_the_jacobians_stay_finite():
    far = double([-300.0, 300.0])
    np.testing.assert_allclose(D.SigmoidTransform().forward_log_det_jacobian(far).numpy(), [-300, -300])
    expected = 2 * np.log(2) - 600
    np.testing.assert_allclose(D.TanhTransform().forward_log_det_jacobian(far).numpy(), [expected, expected])


def test_softmax_and_abs_have_no_inverse():
    soft = D.SoftmaxTransform()
    np.testing.assert_allclose(soft.forward(double(X)).numpy(), np.exp(X) / np.exp(X).sum(-1, keepdims=True))
    np.testing.assert_allclose(soft.forward(soft.inverse(double([0.2, 0.8]))).numpy(), [0.2, 0.8])
    low, high = D.AbsTransform().inverse(double([1.0, 2.0]))
    assert (low.tolist(), high.tolist()) == ([-1.0, -2.0], [1.0, 2.0])
    assert D.AbsTransform().forward(double([-1.0])).tolist() == [1.0]
    assert [j.item() for j in D.AbsTransform().inverse_log_det_jacobian(double([1.0]))] == [0, 0]
    for t in (soft, D.AbsTransform(), D.ChainTransform([D.AbsTransform(), D.ExpTransform()])):
        with pytest.raises(NotImplementedError, match="expected an injective transform, got"):
            t.forward_log_det_jacobian(double(X))


def test_calls_compose():
    exp, tanh = D.ExpTransform(), D.TanhTransform()
    assert exp(double([0.0])).tolist() == [1.0]
    chain = exp(tanh)
    assert isinstance(chain, D.ChainTransform) and list(chain.transforms) == [exp, tanh]
    np.testing.assert_allclose(chain(double(X)).numpy(), np.tanh(np.exp(X)))
    made = exp(D.Normal(0.0, 1.0))
    assert isinstance(made, D.TransformedDistribution)


def test_shapes_of_transformed_distributions():
    base = D.Normal(double(np.zeros((4, 3))), double(np.ones((4, 3))))
    for transforms, batch, event in (
        ([D.ExpTransform()], (4, 3), ()),
        ([D.StickBreakingTransform()], (4,), (4,)),
        ([D.ReshapeTransform((3,), (3, 1))], (4,), (3, 1)),
        ([D.ReshapeTransform((4, 3), (2, 6)), D.TanhTransform()], (), (2, 6)),
        ([D.IndependentTransform(D.ExpTransform(), 1)], (4,), (3,)),
        (D.ChainTransform([D.ExpTransform(), D.TanhTransform()]), (4, 3), ()),
        ([], (4, 3), ()),
    ):
        d = D.TransformedDistribution(base, transforms)
        assert (d.batch_shape, d.event_shape) == (batch, event)
        drawn = d.sample([2])
        assert tuple(drawn.shape) == (2, *batch, *event)
        assert tuple(d.log_prob(drawn).shape) == (2, *batch)
        assert tuple(d.rsample((2, 1)).shape) == (2, 1, *batch, *event)


def test_densities_after_transforms():
    squashed = D.TransformedDistribution(D.Normal(double(0.3), double(1.2)), [affine(0.5, 2.0), D.SigmoidTransform()])
    grid = np.linspace(1e-9, 1 - 1e-9, 100001)
    np.testing.assert_allclose(integrate.simpson(squashed.prob(double(grid)).numpy(), x=grid), 1, rtol=1e-6)
    stick = D.TransformedDistribution(D.Normal(double([0.3]), double([1.2])), [D.StickBreakingTransform()])
    both = np.stack([grid, 1 - grid], -1)
    np.testing.assert_allclose(integrate.simpson(stick.prob(double(both)).numpy(), x=grid), 1, rtol=1e-6)
    base = D.MultivariateNormal(double([0.0, 1.0]), covariance_matrix=double([[2.0, 0.3], [0.3, 1.0]]))
    moved = D.TransformedDistribution(base, [affine(1.0, 3.0)])
    theirs = stats.multivariate_normal([1.0, 4.0], 9 * np.array([[2.0, 0.3], [0.3, 1.0]]))
    value = np.array([[0.5, 2.0], [3.0, 3.0]])
    np.testing.assert_allclose(moved.log_prob(double(value)).numpy(), theirs.logpdf(value), rtol=1e-12)


def test_constraints_and_variables():
    values = double([[-1.0, 0.0, 2.0], [0.2, 0.3, 0.5]])
    assert constraint.real(double([1.0, np.nan])).tolist() == [True, False]
    assert constraint.positive.check(values).tolist() == [[False, True, True], [True] * 3]
    assert constraint.Range(0.0, 1.0)(values).tolist() == [[False, True, False], [True] * 3]
    assert constraint.simplex(values).tolist() == [False, True]
    with pytest.raises(NotImplementedError, match=r"Constraint.__call__: expected an implementation"):
        constraint.Constraint()(values)
    vectors = variable.Independent(variable.positive, 1)
    assert (vectors.event_rank, vectors.is_discrete) == (1, False)
    assert vectors.constraint(values).tolist() == [False, True]
    assert variable.Independent(variable.real, 0).constraint(values).shape == [2, 3]
    with pytest.raises(ValueError, match="at least 1 axes"):
        vectors.constraint(double(1.0))
    rows = variable.Stack([variable.real, variable.positive])
    assert rows.constraint(-values).tolist() == [[True] * 3, [False] * 3]
    with pytest.raises(ValueError, match="expected 2 elements along axis 0"):
        rows.constraint(values[:1])
    points = variable.Variable(False, 1, constraint.simplex)
    assert [variable.Stack([points] * 2, axis).event_rank for axis in (0, -1, -2)] == [1, 2, 1]
    assert not rows.is_discrete and variable.Stack([variable.Variable(True)]).is_discrete


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: D.AffineTransform(1.0, double(2.0)), TypeError, r"AffineTransform\(loc\): expected a Tensor, got 1.0"),
        (lambda: D.AffineTransform(double(1.0), 2.0), TypeError, r"AffineTransform\(scale\): expected a Tensor"),
        (lambda: D.PowerTransform(2.0), TypeError, r"PowerTransform\(power\): expected a Tensor, got 2.0"),
        (
            lambda: D.ReshapeTransform(3, (3,)),
            TypeError,
            r"ReshapeTransform\(in_event_shape\): expected a list of integers",
        ),
        (lambda: D.ReshapeTransform((2, 3), (4,)), ValueError, "expected a shape of 6 elements, as in_event_shape has"),
        (lambda: D.ReshapeTransform((5,), (5, 1)).forward(double(X)), ValueError, r"a shape that ends with \[5\]"),
        (
            lambda: D.ReshapeTransform((3,), (3, 1)).inverse_shape((2, 3)),
            ValueError,
            r"a shape that ends with \[3, 1\]",
        ),
        (lambda: D.ChainTransform("a"), TypeError, r"ChainTransform\(transforms\): expected a list of Transforms"),
        (lambda: D.ChainTransform([1]), TypeError, r"ChainTransform\(transforms\): expected a list of Transforms"),
        (lambda: D.IndependentTransform("a", 1), TypeError, r"IndependentTransform\(base\): expected a Transform"),
        (lambda: D.IndependentTransform(D.ExpTransform(), 0), ValueError, "expected a positive integer, got 0"),
        (lambda: D.StackTransform([], 0), ValueError, "expected at least one Transform"),
        (lambda: D.StackTransform(["a"], 0), TypeError, "expected a list of Transforms"),
        (lambda: D.StackTransform([D.ExpTransform()], "a"), TypeError, r"StackTransform\(axis\): expected an integer"),
        (
            lambda: D.StackTransform([D.ExpTransform()], 1).forward(double(X)),
            ValueError,
            "expected 1 elements along axis 1",
        ),
        (lambda: D.ExpTransform().forward(0.5), TypeError, r"forward\(x\): expected a Tensor, got 0.5"),
        (lambda: D.ExpTransform()("a"), TypeError, r"forward\(x\): expected a Tensor, got 'a'"),
        (
            lambda: D.StickBreakingTransform().forward(double(1.0)),
            ValueError,
            r"forward\(x\): expected at least 1 axes",
        ),
        (lambda: D.SoftmaxTransform().forward_shape(()), ValueError, "expected at least one axis"),
        (
            lambda: D.Transform().forward(double(X)),
            NotImplementedError,
            "Transform._forward: expected an implementation",
        ),
        (lambda: D.Transform().forward_log_det_jacobian(double(X)), NotImplementedError, "_forward_log_det_jacobian"),
        (lambda: D.TransformedDistribution("a", []), TypeError, r"\(base\): expected a Distribution, got 'a'"),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.ExpTransform()),
            TypeError,
            "expected a list of Transforms",
        ),
        (
            lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [D.StickBreakingTransform()]),
            ValueError,
            r"expected at least 1 axes, got a Normal of shape \[\]",
        ),
    ],
)
def test_wrong_arguments(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
