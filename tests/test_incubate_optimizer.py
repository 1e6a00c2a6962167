"""Slow weights and averages of parameters, against their definitions; minima of functions; states and bad arguments."""

import numpy as np
import pytest

import bireme
from bireme import incubate, nn
from bireme.incubate.optimizer.functional import minimize_bfgs, minimize_lbfgs
from bireme.optimizer import SGD, Adam, lbfgs


def parameter(value, dtype="float32", name=None):
    attr = bireme.ParamAttr(initializer=nn.initializer.Assign(np.asarray(value, "float32")), name=name)
    return nn.Layer().create_parameter([len(value)], attr=attr, dtype=dtype)


def step(opt, p, also=()):
    ((p.astype("float32") - 3.0) ** 2).sum().backward()
    for o in (opt, *also):
        o.step()
    opt.clear_grad()
    return p.numpy().astype("float64")


@pytest.mark.parametrize(("alpha", "k"), [(0.5, 5), (0.25, 2), (1.0, 1), (0.0, 3)])
def test_look_ahead_follows_its_definition(alpha, k):
    p = parameter([1.0, -2.0])
    opt = incubate.LookAhead(SGD(0.1, parameters=[p]), alpha, k)
    fast, slow = np.array([1.0, -2.0]), None
    for t in range(1, 12):
        fast = fast - 0.1 * 2 * (fast - 3)
        slow = fast if slow is None else slow
        if t % k == 0:
            fast = slow = alpha * fast + (1 - alpha) * slow
        np.testing.assert_allclose(step(opt, p), fast, rtol=1e-5)


def test_look_ahead_resumes():
    p = parameter([1.0, -2.0])
    opt = incubate.LookAhead(Adam(0.1, parameters=[p]), 0.5, 3)
    for _ in range(4):
        step(opt, p)
    state = opt.state_dict()
    assert state["lookahead_step"] == 4 and f"{p.name}_slow_0" in state and f"{p.name}_moment1_0" in state
    q = bireme.Parameter(p.numpy(), name=p.name)
    other = incubate.LookAhead(Adam(0.1, parameters=[q]), 0.5, 3)
    other.set_state_dict(state)
    for _ in range(4):
        assert step(other, q).tolist() == step(opt, p).tolist()


@pytest.mark.parametrize("avg", [True, False])
def test_merged_gradients_are_those_of_the_large_batch(avg):
    p, q = parameter([1.0, -2.0]), parameter([1.0, -2.0])
    merge = incubate.optimizer.GradientMergeOptimizer(Adam(0.1, parameters=[p]), 3, avg)
    plain = Adam(0.1, parameters=[q])
    factors = [1.0, -2.0, 4.0, 0.5, 2.0, 1.0]
    for i, f in enumerate(factors):
        ((p - 3.0) ** 2 * f).sum().backward()
        merge.step()
        merge.clear_grad()
        if i % 3 == 2:
            ((q - 3.0) ** 2 * (sum(factors[i - 2 : i + 1]) / (3 if avg else 1))).sum().backward()
            plain.step()
            plain.clear_grad()
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-5)


def test_merged_gradients_resume_in_the_middle():
    p = parameter([1.0, -2.0])
    merge = incubate.optimizer.GradientMergeOptimizer(SGD(0.1, parameters=[p]), 3)
    for _ in range(4):
        step(merge, p)
    q = bireme.Parameter(p.numpy(), name=p.name)
    other = incubate.optimizer.GradientMergeOptimizer(SGD(0.1, parameters=[q]), 3)
    other.set_state_dict(merge.state_dict())
    for _ in range(4):
        assert step(other, q).tolist() == step(merge, p).tolist()


def test_look_ahead_moves_master_weights():
    p = parameter([1.0, -2.0], "float16")
    opt = incubate.LookAhead(Adam(0.1, parameters=[p], multi_precision=True), 0.5, 2)
    for _ in range(2):
        step(opt, p)
    master = opt.state_dict()["master_weights"][p.name]
    assert p.tolist() == master.astype("float16").tolist()
    assert master.tolist() == opt.state_dict()[f"{p.name}_slow_0"].tolist()


def test_a_skipped_step_of_the_inner_optimizer():
    p = parameter([1.0])
    opt = incubate.LookAhead(SGD(0.1, parameters=[p]), 0.5, 5)
    (p * 2.0).sum().backward()
    opt._step(skip=bireme.to_tensor(True))
    assert p.tolist() == [1.0]


@pytest.mark.parametrize(("rate", "least", "most"), [(1.0, 100, 100), (0.5, 2, 4), (0.15, 1, 100)])
def test_model_average_follows_its_definition(rate, least, most):
    p = parameter([1.0, -2.0])
    opt, mean = SGD(0.1, parameters=[p]), incubate.ModelAverage(rate, [p], least, most)
    window, before = [], []
    for t in range(1, 12):
        window.append(step(opt, p, [mean]))
        if len(window) >= least and len(window) >= min(most, int(t * rate)):
            window, before = [], window
        with mean.apply():
            np.testing.assert_allclose(p.numpy(), np.mean(before + window, 0), rtol=1e-5)
        assert p.numpy().tolist() == (window or before)[-1].tolist()


def test_model_average_stays_if_asked_and_resumes():
    p = parameter([1.0, -2.0])
    opt, mean = SGD(0.1, parameters=[p]), incubate.ModelAverage(0.5, [p], 2, 4)
    values = [step(opt, p, [mean]) for _ in range(3)]
    q = bireme.Parameter(p.numpy(), name=p.name)
    other = incubate.ModelAverage(0.5, [q], 2, 4)
    other.set_state_dict(mean.state_dict())
    with other.apply(need_restore=False):
        pass
    np.testing.assert_allclose(q.numpy(), np.mean(values, 0), rtol=1e-6)
    other.restore()
    assert q.tolist() == p.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda inner: incubate.LookAhead(None), r"LookAhead\(inner_optimizer\)"),
        (lambda inner: incubate.LookAhead(inner, 1.5), r"LookAhead\(alpha\)"),
        (lambda inner: incubate.LookAhead(inner, k=0), r"LookAhead\(k\)"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(AssertionError, match=message):
        make(SGD(0.1, parameters=[parameter([1.0])]))


# ---------------------------------------------------------------- functions of a vector


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize("minimize", [minimize_bfgs, minimize_lbfgs])
def test_minima_are_found(minimize):
    start = bireme.to_tensor([-1.2, 1.0], dtype="float64")
    converged, calls, place, value, grad, *hessian = minimize(rosenbrock, start, dtype="float64")
    assert converged.tolist() == [True] and 10 < calls.item() < 100 and start.tolist() == [-1.2, 1.0]
    np.testing.assert_allclose(place.numpy(), [1.0, 1.0], rtol=1e-6)
    assert value.item() < 1e-12 and np.abs(grad.numpy()).max() < 1e-5 and grad.stop_gradient
    for matrix in hessian:
        np.testing.assert_allclose(matrix.numpy(), np.linalg.inv([[802.0, -400.0], [-400.0, 200.0]]), rtol=0.05)
    assert minimize(rosenbrock, start, max_iters=2, dtype="float64")[0].tolist() == [False]


@pytest.mark.parametrize("minimize", [minimize_bfgs, minimize_lbfgs])
def test_a_good_first_estimate_of_the_curvature_takes_one_step(minimize):
    def loss(x):
        return (x * x * bireme.to_tensor([1.0, 50.0])).sum() / 2

    known = bireme.to_tensor([[1.0, 0.0], [0.0, 0.02]])
    converged, calls, place, *_ = minimize(loss, bireme.to_tensor([3.0, -2.0]), initial_inverse_hessian_estimate=known)
    assert converged.item() and calls.item() == 2
    np.testing.assert_allclose(place.numpy(), [0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize("minimize", [minimize_bfgs, minimize_lbfgs])
@pytest.mark.parametrize(
    ("start", "settings", "kind"),
    [
        ([0.0], {"dtype": "float16"}, ValueError),
        ([0.0], {"line_search_fn": "armijo"}, NotImplementedError),
        ([0.0], {"initial_inverse_hessian_estimate": bireme.to_tensor([[-1.0]])}, ValueError),
        ([0.0, 0.0], {"initial_inverse_hessian_estimate": bireme.to_tensor([[1.0, 2.0], [0.0, 1.0]])}, ValueError),
        ([[0.0]], {}, ValueError),
    ],
)
def test_bad_starts(minimize, start, settings, kind):
    with pytest.raises(kind, match=r"minimize_l?bfgs"):
        minimize(lambda x: (x * x).sum(), bireme.to_tensor(start), **settings)


def test_the_line_search_by_itself():
    """`f(x) = x^2` from 3 downwards: a step of 1/8 is too timid to flatten the slope, ten times that does."""

    def loss_and_gradient(x, step, direction):
        at = x + step * direction
        return (at * at).sum(), 2 * at

    at, down = bireme.to_tensor([3.0]), bireme.to_tensor([-1.0])
    begin = (bireme.to_tensor([9.0]), bireme.to_tensor([6.0]), bireme.to_tensor(-6.0))
    loss, grad, step, calls = lbfgs._strong_wolfe(loss_and_gradient, at, bireme.to_tensor([0.125]), down, *begin)
    assert (loss, grad.tolist(), step, calls) == (3.0625, [3.5], 1.25, 2)
    assert lbfgs._strong_wolfe(loss_and_gradient, at, 0.1, down, *begin, c2=0.99)[2:] == (0.1, 1)
    assert lbfgs._cubic_interpolate(2.0, 1.0, 0.0, 1.0, 2.0, 0.0, [0.1, 0.5]) == 0.5


def test_dropout_of_whole_slices():
    x = bireme.ones([4, 8, 2])
    kept = bireme.incubate.nn.FusedDropout(0.5, axis=1)(x).numpy()
    assert set(np.unique(kept)) <= {0.0, 2.0} and (kept == kept[:1, :, :1]).all()
    for arguments, kind in (
        ({"p": "a"}, TypeError),
        ({"p": 2}, ValueError),
        ({"mode": "a"}, ValueError),
        ({"axis": "a"}, TypeError),
    ):
        with pytest.raises(kind, match="expected"):
            bireme.incubate.nn.FusedDropout(**arguments)
