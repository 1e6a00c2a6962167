"""Learning rate schedules against their formulas; states, messages, and the one that waits for a metric."""

import itertools
import math

import numpy as np
import pytest

import bireme
from bireme.optimizer import lr


def follow(schedule, n=12):
    rates = []
    for _ in range(n):
        rates.append(schedule())
        schedule.step()
    return rates


SCHEDULES = [
    (lambda: lr.StepDecay(0.7, 3, 0.5), lambda e: 0.7 * 0.5 ** (e // 3)),
    (lambda: lr.MultiStepDecay(0.7, [2, 5], 0.3), lambda e: 0.7 * 0.3 ** ((e >= 2) + (e >= 5))),
    (lambda: lr.ExponentialDecay(0.7, 0.9), lambda e: 0.7 * 0.9**e),
    (lambda: lr.LambdaDecay(0.7, lambda e: 1 / (1 + e)), lambda e: 0.7 / (1 + e)),
    (
        lambda: lr.CosineAnnealingDecay(0.7, 4, 0.1),
        lambda e: 0.1 + 0.6 * (1 + math.cos(math.pi * e / 4)) / 2,
    ),
    (lambda: lr.NoamDecay(64, 4, 2.0), lambda e: 2 / 8 * min(e**-0.5 if e else 1, e * 4**-1.5)),
    (lambda: lr.LinearWarmup(0.5, 4, 0.1, 0.9), lambda e: 0.1 + 0.2 * e if e < 4 else 0.5),
    (
        lambda: lr.LinearWarmup(lr.StepDecay(0.5, 3, 0.5), 4, 0.0, 0.5),
        lambda e: 0.125 * e if e < 4 else 0.5 * 0.5 ** ((e - 4) // 3),
    ),
]


def one_cycle(e, three):
    turns = [(0, 0.02), (6.5, 0.5), (13 if three else 24, 0.02 if three else 1e-4), (24, 1e-4)]
    (a, first), (b, last) = next((pair for pair in itertools.pairwise(turns) if e <= pair[1][0]), tuple(turns[-2:]))
    return last + (first - last) * (1 + math.cos(math.pi * (e - a) / (b - a))) / 2


SCHEDULES += [
    (lambda: lr.PiecewiseDecay([3, 6], [0.5, 0.2, 0.1]), lambda e: 0.5 if e < 3 else 0.2 if e < 6 else 0.1),
    (lambda: lr.NaturalExpDecay(0.5, 0.3), lambda e: 0.5 * math.exp(-0.3 * e)),
    (lambda: lr.InverseTimeDecay(0.5, 0.3), lambda e: 0.5 / (1 + 0.3 * e)),
    (lambda: lr.PolynomialDecay(0.5, 5, 0.1, 2.0), lambda e: 0.1 + 0.4 * (1 - min(e, 5) / 5) ** 2),
    (
        lambda: lr.PolynomialDecay(0.5, 5, 0.1, cycle=True),
        lambda e: 0.1 + 0.4 * (1 - e / (5 * max(1, -(-e // 5)))),
    ),
    (lambda: lr.MultiplicativeDecay(0.5, lambda e: 1 / (1 + e)), lambda e: 0.5 / math.factorial(e + 1)),
    (
        lambda: lr.CosineAnnealingWarmRestarts(0.5, 4, 1, 0.1),
        lambda e: 0.1 + 0.4 * (1 + math.cos(math.pi * (e % 4) / 4)) / 2,
    ),
    (
        lambda: lr.CosineAnnealingWarmRestarts(0.5, 2, 2),
        lambda e: 0.25 * (1 + math.cos(math.pi * (e / 2 if e < 2 else (e - 2) / 4 if e < 6 else (e - 6) / 8))),
    ),
    (lambda: lr.CyclicLR(0.1, 0.7, 2, 4), lambda e: 0.1 + 0.6 * (e % 6 / 2 if e % 6 <= 2 else (6 - e % 6) / 4)),
    (
        lambda: lr.CyclicLR(0.1, 0.7, 2, mode="triangular2"),
        lambda e: 0.1 + 0.6 * (1 - abs(e % 4 - 2) / 2) / 2 ** (e // 4),
    ),
    (
        lambda: lr.CyclicLR(0.1, 0.7, 2, mode="exp_range", exp_gamma=0.9),
        lambda e: 0.1 + 0.6 * (1 - abs(e % 4 - 2) / 2) * 0.9**e,
    ),
    (
        lambda: lr.CyclicLR(0.1, 0.7, 2, scale_fn=lambda c: 1 / c),
        lambda e: 0.1 + 0.6 * (1 - abs(e % 4 - 2) / 2) / (1 + e // 4),
    ),
    (lambda: lr.OneCycleLR(0.5, 25), lambda e: one_cycle(e, False)),
    (lambda: lr.OneCycleLR(0.5, 25, three_phase=True), lambda e: one_cycle(e, True)),
    (
        lambda: lr.OneCycleLR(1.0, 20, 4.0, 0.0, 0.5, "linear"),
        lambda e: 0.25 + 0.75 * e / 9 if e <= 9 else 1 - (e - 9) / 10,
    ),
]


@pytest.mark.parametrize(("make", "formula"), SCHEDULES)
def test_schedules(make, formula):
    assert follow(make()) == pytest.approx([formula(e) for e in range(12)])
    schedule = make()
    for epoch in (7, 0, 3):
        schedule.step(epoch)
        assert schedule() == pytest.approx(formula(epoch))
    other = make()
    other.set_state_dict(schedule.state_dict())
    assert other() == schedule() and follow(other, 3) == follow(schedule, 3)


@pytest.mark.parametrize(("steps", "start", "end"), [(5, 1 / 3, 1.0), (4, 1.0, 0.25), (20, 0.5, 0.5)])
def test_linear_schedules(steps, start, end):
    schedule = lr.LinearLR(0.5, steps, start, end)
    assert follow(schedule) == pytest.approx([0.5 * (start + (end - start) * min(e, steps) / steps) for e in range(12)])
    other = lr.LinearLR(0.5, steps, start, end)
    other.set_state_dict(schedule.state_dict())
    assert follow(other, 3) == follow(schedule, 3)


def plateau(metrics, **settings):
    schedule = lr.ReduceOnPlateau(1.0, factor=0.5, **settings)
    return [(schedule.step(m), schedule())[1] for m in metrics]


def test_a_plateau_lowers_the_rate():
    assert plateau([3.0, 2.0, 2.0, 2.0, 2.0], patience=1) == [1.0, 1.0, 1.0, 0.5, 0.5]
    assert plateau([3.0, 2.0, 2.0, 2.0, 2.0], patience=1, mode="max") == [1.0, 1.0, 0.5, 0.5, 0.25]
    assert plateau([1.0, 0.99995, 0.9], patience=0) == [1.0, 0.5, 0.5]  # the threshold is a part of the best
    assert plateau([1.0, 0.8, 0.6], patience=0, threshold=0.3, threshold_mode="abs") == [1.0, 0.5, 0.5]
    assert plateau([1.0] * 6, patience=0, cooldown=2) == [1.0, 0.5, 0.5, 0.5, 0.25, 0.25]
    assert plateau([1.0] * 4, patience=0, min_lr=0.4) == [1.0, 0.5, 0.4, 0.4]
    assert plateau([1.0] * 3, patience=0, epsilon=0.6) == [1.0, 1.0, 1.0]


def test_metrics_may_be_arrays_and_the_state_is_plain():
    schedule = lr.ReduceOnPlateau(1.0, patience=0)
    for metric in (bireme.to_tensor([3.0]), np.array(3.0), np.float32(3.0), 3):
        schedule.step(metric)
    state = schedule.state_dict()
    assert state == {
        "cooldown_counter": 0,
        "best": 3.0,
        "num_bad_epochs": 0,
        "last_epoch": 4,
        "last_lr": pytest.approx(1e-3),
    }
    other = lr.ReduceOnPlateau(1.0, patience=0)
    other.set_state_dict(state)
    other.step(3.0)
    assert other() == pytest.approx(1e-4)
    with pytest.raises(TypeError, match=r"step\(metrics\)"):
        schedule.step("low")
    with pytest.raises(AssertionError, match="take its mean first"):
        schedule.step(np.zeros(3))


def test_one_cycle_ends():
    schedule = lr.OneCycleLR(0.5, 3)
    with pytest.raises(ValueError, match="at most total_steps = 3 steps"):
        follow(schedule, 9)


def test_schedules_say_what_they_do(capsys):
    schedule = lr.StepDecay(0.5, 1, 0.5, verbose=True)
    schedule.step()
    assert capsys.readouterr().out.splitlines()[1] == "Epoch 1: StepDecay set learning rate to 0.25."
    with pytest.raises(RuntimeError, match="the key last_lr"):
        schedule.set_state_dict({"last_epoch": 3})


def test_own_schedules():
    class Half(lr.LRScheduler):
        def state_keys(self):
            self.keys = ["last_epoch", "last_lr", "memory"]

        def get_lr(self):
            self.memory = bireme.to_tensor(self.last_epoch)
            return self.base_lr / 2**self.last_epoch

    schedule = Half(1.0)
    assert follow(schedule, 3) == [1.0, 0.5, 0.25]
    assert schedule.state_dict() == {"last_epoch": 3, "last_lr": 0.125, "memory": 3}
    with pytest.raises(NotImplementedError):
        lr.LRScheduler(0.1)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: lr.StepDecay("a", 3), TypeError),
        (lambda: lr.StepDecay(-1.0, 3), ValueError),
        (lambda: lr.StepDecay(1.0, 3.5), TypeError),
        (lambda: lr.StepDecay(1.0, 0), ValueError),
        (lambda: lr.StepDecay(1.0, 3, 1.0), ValueError),
        (lambda: lr.MultiStepDecay(1.0, [5, 2]), ValueError),
        (lambda: lr.MultiStepDecay(1.0, 3), TypeError),
        (lambda: lr.ExponentialDecay(1.0, 1.5), ValueError),
        (lambda: lr.LambdaDecay(1.0, 3), TypeError),
        (lambda: lr.CosineAnnealingDecay(1.0, 4.5), TypeError),
        (lambda: lr.CosineAnnealingDecay(1.0, 4, "a"), TypeError),
        (lambda: lr.NoamDecay(0, 4), ValueError),
        (lambda: lr.LinearWarmup(0.5, 3, 1.0, 0.5), ValueError),
        (lambda: lr.LinearWarmup("a", 3, 0.0, 0.5), TypeError),
        (lambda: lr.LinearWarmup(0.5, 0, 0.0, 0.5), ValueError),
        (lambda: lr.PiecewiseDecay([], [0.1]), ValueError),
        (lambda: lr.PiecewiseDecay([1], [0.1]), ValueError),
        (lambda: lr.NaturalExpDecay(0.5, 0), AssertionError),
        (lambda: lr.PolynomialDecay(0.5, 0), AssertionError),
        (lambda: lr.PolynomialDecay(0.5, 3, power=0.0), AssertionError),
        (lambda: lr.MultiplicativeDecay(0.5, 3), TypeError),
        (lambda: lr.CosineAnnealingWarmRestarts(0.5, 0), ValueError),
        (lambda: lr.CosineAnnealingWarmRestarts(0.5, 2, 1.5), ValueError),
        (lambda: lr.LinearLR(0.5, 0), ValueError),
        (lambda: lr.LinearLR(0.5, 3, 0.0), ValueError),
        (lambda: lr.LinearLR(0.5, 3, 0.5, 2.0), ValueError),
        (lambda: lr.CyclicLR(0.1, "a", 3), TypeError),
        (lambda: lr.CyclicLR(0.1, 0.7, 3.0), TypeError),
        (lambda: lr.CyclicLR(0.1, 0.7, 3, 0), ValueError),
        (lambda: lr.CyclicLR(0.1, 0.7, 3, mode="square"), ValueError),
        (lambda: lr.CyclicLR(0.1, 0.7, 3, scale_mode="epoch"), ValueError),
        (lambda: lr.CyclicLR(0.1, 0.7, 3, exp_gamma=1), TypeError),
        (lambda: lr.OneCycleLR("a", 3), TypeError),
        (lambda: lr.OneCycleLR(0.5, 3, end_learning_rate=-1.0), ValueError),
        (lambda: lr.OneCycleLR(0.5, 3, "a"), TypeError),
        (lambda: lr.OneCycleLR(0.5, 3, phase_pct=1), TypeError),
        (lambda: lr.OneCycleLR(0.5, 3, phase_pct=1.5), ValueError),
        (lambda: lr.OneCycleLR(0.5, 3, phase_pct=0.5, three_phase=True), ValueError),
        (lambda: lr.OneCycleLR(0.5, 3, anneal_strategy="square"), ValueError),
        (lambda: lr.ReduceOnPlateau("a"), TypeError),
        (lambda: lr.ReduceOnPlateau(0.5, "middle"), ValueError),
        (lambda: lr.ReduceOnPlateau(0.5, factor=1.0), ValueError),
        (lambda: lr.ReduceOnPlateau(0.5, threshold_mode="both"), ValueError),
    ],
)
def test_bad_schedules(make, kind):
    with pytest.raises(kind, match=r"\w+\(\w+\): expected"):
        make()


def test_functions_that_older_programs_call():
    for schedule, kind in (
        (lr.noam_decay(4, 2), lr.NoamDecay),
        (lr.exponential_decay(0.5, 10, 0.9), lr.ExponentialDecay),
        (lr.natural_exp_decay(0.5, 10, 0.9), lr.NaturalExpDecay),
        (lr.inverse_time_decay(0.5, 10, 0.9), lr.InverseTimeDecay),
        (lr.polynomial_decay(0.5, 10), lr.PolynomialDecay),
        (lr.piecewise_decay([1], [0.5, 0.1]), lr.PiecewiseDecay),
        (lr.cosine_decay(0.5, 10, 4), lr.CosineAnnealingDecay),
        (lr.linear_lr_warmup(lr.piecewise_decay([1], [0.5, 0.1]), 2, 0.0, 0.5), lr.LinearWarmup),
    ):
        assert type(schedule) is kind
    for bad in (lambda: lr.cosine_decay("0.5", 10, 4), lambda: lr.linear_lr_warmup("0.5", 2, 0.0, 1.0)):
        with pytest.raises(TypeError, match="learning_rate"):
            bad()
