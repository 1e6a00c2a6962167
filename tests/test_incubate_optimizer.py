"""Slow weights and averages of parameters, against their definitions; states and bad arguments."""

import numpy as np
import pytest

import bireme
from bireme import incubate, nn
from bireme.optimizer import SGD, Adam


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
