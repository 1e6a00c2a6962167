"""Optimizers against their formulas; groups, decay, clipping, states, skipped steps."""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.optimizer import (
    ASGD,
    LBFGS,
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Lamb,
    Momentum,
    Muon,
    NAdam,
    RAdam,
    RMSProp,
    Rprop,
    lr,
)  # fmt: skip
from bireme.regularizer import L1Decay, L2Decay
from tests.optimizer_reference import Reference, clip_by_global_norm


def parameter(value, **attr):
    value = np.asarray(value, "float32")
    attr = bireme.ParamAttr(initializer=nn.initializer.Assign(value), **attr)
    return nn.Layer().create_parameter(list(value.shape), attr=attr)


def give(p, g):
    """Make `g` the gradient of `p`, by way of backward."""
    p.clear_gradient(False)
    (p * bireme.to_tensor(np.asarray(g, "float32")).astype(p.dtype)).sum().backward()


def run(opt, p, g):
    give(p, g)
    opt.step()
    return p.numpy()


RULES = [
    ("sgd", {}, lambda p: SGD(0.1, parameters=p)),
    ("sgd", {"decay": 0.3}, lambda p: SGD(0.1, parameters=p, weight_decay=0.3)),
    ("sgd", {"decay": 0.3, "l1": True}, lambda p: SGD(0.1, parameters=p, weight_decay=L1Decay(0.3))),
    ("momentum", {}, lambda p: Momentum(0.1, parameters=p)),
    (
        "momentum",
        {"momentum": 0.5, "nesterov": True, "decay": 0.2},
        lambda p: Momentum(0.1, 0.5, p, use_nesterov=True, weight_decay=L2Decay(0.2)),
    ),
    ("adam", {}, lambda p: Adam(0.1, parameters=p)),
    (
        "adam",
        {"decay": 0.2, "epsilon": 1e-2, "beta1": 0.8, "beta2": 0.9},
        lambda p: Adam(0.1, 0.8, 0.9, 1e-2, p, weight_decay=0.2),
    ),
    ("adam", {"decay": 0.2, "l1": True}, lambda p: Adam(0.1, parameters=p, weight_decay=L1Decay(0.2))),
    ("adam", {"amsgrad": True}, lambda p: Adam(0.1, parameters=p, amsgrad=True)),
    ("adamw", {"decay": 0.01}, lambda p: AdamW(0.1, parameters=p)),
    ("adamw", {"decay": 0.2, "amsgrad": True}, lambda p: AdamW(0.1, parameters=p, weight_decay=0.2, amsgrad=True)),
    ("adagrad", {"decay": 0.2}, lambda p: Adagrad(0.1, parameters=p, weight_decay=0.2)),
    ("adagrad", {"start": 0.5, "epsilon": 1e-2}, lambda p: Adagrad(0.1, 1e-2, p, initial_accumulator_value=0.5)),
    ("adadelta", {"decay": 0.2}, lambda p: Adadelta(0.1, parameters=p, weight_decay=0.2)),
    ("adadelta", {"rho": 0.7, "epsilon": 1e-2}, lambda p: Adadelta(0.1, 1e-2, 0.7, p)),
    ("adamax", {"decay": 0.2, "l1": True}, lambda p: Adamax(0.1, parameters=p, weight_decay=L1Decay(0.2))),
    ("adamax", {"beta1": 0.7, "beta2": 0.8, "epsilon": 1e-2}, lambda p: Adamax(0.1, 0.7, 0.8, 1e-2, p)),
    ("rmsprop", {"decay": 0.2}, lambda p: RMSProp(0.1, parameters=p, weight_decay=0.2)),
    (
        "rmsprop",
        {"rho": 0.8, "epsilon": 1e-2, "momentum": 0.5, "centered": True},
        lambda p: RMSProp(0.1, 0.8, 1e-2, 0.5, True, p),
    ),
    ("nadam", {"decay": 0.2}, lambda p: NAdam(0.1, parameters=p, weight_decay=0.2)),
    (
        "nadam",
        {"beta1": 0.7, "beta2": 0.8, "momentum_decay": 0.1},
        lambda p: NAdam(0.1, 0.7, 0.8, momentum_decay=0.1, parameters=p),
    ),
    ("radam", {"decay": 0.2}, lambda p: RAdam(0.1, parameters=p, weight_decay=0.2)),
    ("radam", {"beta1": 0.7, "beta2": 0.8, "epsilon": 1e-2}, lambda p: RAdam(0.1, 0.7, 0.8, 1e-2, p)),
    ("lamb", {}, lambda p: Lamb(0.1, parameters=p)),
    ("lamb", {"decay": 0.0}, lambda p: Lamb(0.1, 0.0, parameters=p)),
    (
        "lamb",
        {"decay": 0.0, "always": True},
        lambda p: Lamb(0.1, parameters=p, exclude_from_weight_decay_fn=lambda w: True, always_adapt=True),
    ),
    ("rprop", {}, lambda p: Rprop(0.1, parameters=p)),
    ("asgd", {"batch_num": 4, "decay": 0.2}, lambda p: ASGD(0.1, 4, p, weight_decay=0.2)),
]


@pytest.mark.parametrize(("rule", "settings", "make"), RULES)
def test_rules_follow_their_formulas(rule, settings, make):
    rng = np.random.default_rng(0)
    starts = [rng.normal(size=s).astype("float32") for s in ((3, 4), (), (5,))]
    params = [parameter(s) for s in starts]
    opt, refs = make(params), [Reference(rule, s, 0.1, **settings) for s in starts]
    for i in range(6):
        grads = [rng.normal(size=s.shape).astype("float32") * (5.0 if i % 2 else 1.0) for s in starts]
        for p, g in zip(params, grads, strict=True):
            give(p, g)
        opt.step()
        opt.clear_grad()
        for p, ref, g in zip(params, refs, grads, strict=True):
            np.testing.assert_allclose(p.numpy(), ref.step(g), rtol=2e-5, atol=5e-6)


def test_float64_keeps_its_precision():
    p = nn.Layer().create_parameter([2], dtype="float64", default_initializer=nn.initializer.Constant(1.0))
    opt, ref = Adam(0.1, parameters=[p]), Reference("adam", [1.0, 1.0], 0.1)
    for g in ([1.0, -2.0], [0.5, 0.25], [3.0, 1e-3]):
        np.testing.assert_allclose(run(opt, p, g), ref.step(np.float32(g)), rtol=1e-12)
    assert {v.dtype for v in opt.state_dict().values()} == {bireme.float64}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("make", [SGD, Momentum, Adam, AdamW, ASGD, Lamb, Rprop])
def test_half_precision_with_master_weights(make, dtype):
    p = nn.Layer().create_parameter([2], dtype=dtype, default_initializer=nn.initializer.Constant(1.0))
    opt = make(1e-4, parameters=[p], multi_precision=True)
    steps = 16
    for _ in range(steps):
        run(opt, p, [1.0, 1.0])
    # each step alone is below the parameter's precision
    master = opt.state_dict()["master_weights"][p.name]
    assert master.dtype is bireme.float32 and p.dtype.name == dtype
    assert (master.numpy() < 1 - 0.9e-4 * steps).all()
    assert np.array_equal(p.numpy(), master.astype(dtype).numpy())


def test_low_precision_moments_are_asked_for():
    for low, expected in (False, bireme.float32), (True, bireme.bfloat16):
        p = nn.Layer().create_parameter([2], dtype="bfloat16", default_initializer=nn.initializer.Constant(1.0))
        opt = AdamW(0.1, parameters=[p], use_lowprecision_moment=low)
        run(opt, p, [1.0, 1.0])
        assert opt.state_dict()[f"{p.name}_moment1_0"].dtype is expected


STATES = {
    SGD: [], Momentum: ["velocity"], Adam: ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"], Adagrad: ["moment"],
    Adadelta: ["_avg_squared_grad", "_avg_squared_update"], Adamax: ["moment", "inf_norm", "beta1_pow_acc"],
    RMSProp: ["momentum", "mean_square", "mean_grad"], Rprop: ["prevs", "learning_rates"], ASGD: ["d", "y", "m"],
    Lamb: ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"],
    NAdam: ["momentum_decay_pow", "beta2_pow", "mu_product", "moment1", "moment2"],
    RAdam: ["beta1_pow", "beta2_pow", "rho", "moment1", "moment2"], Muon: ["momentum"],
}  # fmt: skip
GRADS = [np.random.default_rng(k).normal(size=(2, 3)) for k in range(7)]


@pytest.mark.parametrize("make", STATES)
def test_states_have_paddles_names_and_a_run_resumes_from_them(make):
    p = parameter(np.ones((2, 3)), name=f"state_of_{make.__name__}")
    opt = make(learning_rate=0.1, parameters=[p])
    for g in GRADS[:3]:
        run(opt, p, g)
    state = {key: np.array(value.numpy()) for key, value in opt.state_dict().items()}
    assert sorted(state) == sorted(f"{p.name}_{name}_0" for name in STATES[make])
    middle = p.numpy().copy()
    for g in GRADS[3:]:
        run(opt, p, g)
    q = bireme.Parameter(middle, name=p.name)
    other = make(learning_rate=0.1, parameters=[q])
    other.set_state_dict(state)
    for g in GRADS[3:]:
        run(other, q, g)
    assert np.array_equal(q.numpy(), p.numpy())


@pytest.mark.parametrize("make", [Momentum, Adam, NAdam])
def test_the_name_of_an_optimizer_is_part_of_its_states(make):
    p = parameter([1.0, 2.0])
    opt = make(0.1, parameters=[p], name="mine")
    run(opt, p, [1.0, 2.0])
    names = [f"{p.name}_mine_{name}_0" for name in STATES[make]]
    assert opt.get_opti_var_name_list() == names == list(opt.state_dict())
    other = make(0.1, parameters=[p], name="mine")
    other.set_state_dict(opt.state_dict())
    assert [x.tolist() for x in other.state_dict().values()] == [x.tolist() for x in opt.state_dict().values()]


@pytest.mark.parametrize("make", STATES)
def test_a_skipped_step_leaves_everything_as_it_was(make):
    p, q = parameter(np.ones((2, 3))), parameter(np.ones((2, 3)))
    opt, other = (make(learning_rate=0.1, parameters=[w]) for w in (p, q))
    for k, g in enumerate(GRADS):
        give(p, g)
        opt._step(skip=bireme.to_tensor(k in (0, 3)))
        if k not in (0, 3):
            run(other, q, g)
    assert np.array_equal(p.numpy(), q.numpy())
    mine, theirs = opt.state_dict(), other.state_dict()
    for name in STATES[make]:
        assert np.array_equal(mine[f"{p.name}_{name}_0"].numpy(), theirs[f"{q.name}_{name}_0"].numpy())


def test_a_skipped_step_leaves_master_weights_alone():
    p = nn.Layer().create_parameter([2], dtype="float16", default_initializer=nn.initializer.Constant(1.0))
    opt = AdamW(0.1, parameters=[p], multi_precision=True)
    give(p, [1.0, 1.0])
    opt._step(skip=bireme.to_tensor(True))
    assert p.tolist() == opt.state_dict()["master_weights"][p.name].tolist() == [1.0, 1.0]
    opt._step(skip=bireme.to_tensor(False))
    assert p.numpy() == pytest.approx(0.9, rel=1e-2)


def test_nothing_is_computed_before_it_is_asked_for():
    p = parameter(np.ones((2, 3)))
    opt = NAdam(0.1, parameters=[p])
    skip = bireme.to_tensor(1.0) > 2.0
    for g in GRADS:
        give(p, g)
        opt._step(skip=skip)
    with bireme.debug.no_recompile():
        give(p, GRADS[0])
        opt._step(skip=skip)
        assert np.isfinite(p.numpy()).all()


def test_muon_evens_out_singular_values():
    for shape in ((4, 4), (6, 3), (3, 6), (4, 2, 3, 1)):
        p = parameter(np.zeros(shape))
        run(Muon(1.0, parameters=[p]), p, np.random.default_rng(0).normal(size=shape))
        sizes = np.linalg.svd(p.numpy().reshape(shape[0], -1), compute_uv=False)
        assert (np.abs(sizes / max(1.0, shape[0] / np.prod(shape[1:])) ** 0.5 - 1) < 0.5).all()
    p = parameter(np.ones((2, 2)))
    run(Muon(0.5, parameters=[p], weight_decay=0.5), p, np.zeros((2, 2)))
    assert p.numpy() == pytest.approx(0.75)


def test_gradients_given_by_hand():
    p, q = parameter([1.0]), parameter([1.0], regularizer=L2Decay(0.5))
    opt = SGD(0.5, parameters=[p, q], weight_decay=0.25)
    loss = (p * 2.0 + q * 4.0).sum()
    loss.backward()
    pairs = opt.backward(loss)
    assert [(w is e, g.item()) for (w, g), e in zip(pairs, (p, q), strict=True)] == [(True, 2.0), (True, 4.0)]
    assert [g.item() for _, g in opt.append_regularization_ops(pairs, L2Decay(0.25))] == [2.25, 4.5]
    assert (
        opt.backward(loss, parameters=[q]) == opt.backward(loss, no_grad_set={p.name})
        and len(opt.backward(loss, parameters=[q])) == 1
    )
    opt.apply_gradients([(p, bireme.to_tensor([1.0])), (q, None)])
    assert (p.item(), q.item()) == (1 - 0.5 * 1.25, 1.0)
    with pytest.raises(ValueError, match="parameters of this optimizer"):
        opt.apply_gradients([(parameter([1.0]), bireme.to_tensor([1.0]))])


# ---------------------------------------------------------------- which parameters, which settings


def test_groups_have_settings_of_their_own():
    p, q = parameter([1.0]), parameter([1.0])
    groups = [{"params": [p], "learning_rate": 0.1, "weight_decay": 0.5}, {"params": q}]
    opt = SGD(1.0, parameters=groups, weight_decay=0.25)
    give(p, [0.0])
    give(q, [0.0])
    opt.step()
    assert (p.item(), q.item()) == pytest.approx((0.95, 0.75))


def test_a_group_is_added_later():
    first, second = bireme.Parameter(np.ones(1, "float32")), bireme.Parameter(np.ones(1, "float32"))
    sgd = SGD(0.5, parameters=[{"params": [first]}])
    sgd._add_param_group({"params": [second], "learning_rate": 0.5})
    (first + second).backward()
    sgd.step()
    assert (first.item(), second.item()) == (0.5, 0.75)
    with pytest.raises(ValueError, match="of no other group"):
        sgd._add_param_group({"params": [first]})
    with pytest.raises(TypeError, match="made with groups"):
        SGD(0.5, parameters=[first])._add_param_group({"params": [second]})


class Signed(bireme.optimizer.Optimizer):
    """A rule as programs write them for Paddle: parameter by parameter, with an accumulator of its own."""

    def _create_accumulators(self, block, parameters):
        for p in parameters:
            self._add_accumulator("velocity", p, fill_value=1.0)

    def _append_optimize_op(self, block, param_and_grad):
        p, g = param_and_grad
        velocity = self._get_accumulator("velocity", p)
        velocity.set_value(velocity * 0.5 + g.sign())
        p.set_value(p - self._create_param_lr(param_and_grad) * velocity)


def test_a_rule_that_a_program_writes():
    p = bireme.Parameter(np.ones(2, "float32"))
    opt = Signed(0.5, parameters=[p], weight_decay=0.0)
    assert opt.type == "signed"
    opt.type = "sign"
    give(p, [3.0, -2.0])
    opt.step()
    assert p.tolist() == [0.25, 1.25]
    (key, kept), *rest = opt.state_dict().items()
    assert key == f"{p.name}_velocity_0" and kept.tolist() == [1.5, -0.5] and not rest
    again = Signed(0.5, parameters=[p])
    again.set_state_dict({key: kept.numpy()})
    again.step()
    assert p.tolist() == [-0.625, 1.875]


def test_a_rule_that_a_program_writes_has_the_settings_of_groups():
    class Scaled(bireme.optimizer.Optimizer):
        def _update_param_group(self, parameters):
            self.factor = parameters.get("factor", 1.0)
            return parameters["params"]

        def _append_optimize_op(self, block, param_and_grad):
            p, g = self._update_param_group(param_and_grad)
            p.set_value(p - self._create_param_lr((p, g)) * g * self.factor)

    p, q = parameter([1.0]), parameter([1.0])
    give(p, [1.0])
    give(q, [1.0])
    Scaled(0.5, parameters=[{"params": [p], "factor": 2.0}, {"params": [q], "learning_rate": 0.5}]).step()
    assert (p.item(), q.item()) == (0.0, 0.75)


def test_a_rule_may_be_called_for_one_parameter():
    class Halved(SGD):
        def _append_optimize_op(self, block, param_and_grad):
            p, g = param_and_grad
            return super()._append_optimize_op(block, (p, g * 0.5))

    p, q = parameter([1.0]), parameter([1.0])
    give(p, [1.0])
    give(q, [2.0])
    Halved(0.5, parameters=[p, q]).step()
    assert (p.item(), q.item()) == (0.75, 0.5)
    scaler = bireme.amp.GradScaler(init_loss_scaling=2.0)
    opt = Halved(0.5, parameters=[p])
    give(p, [np.inf])
    scaler.step(opt)
    assert p.item() == 0.75


def test_betas_of_a_group():
    p, q = parameter([1.0]), parameter([1.0])
    opt = AdamW(1.0, parameters=[{"params": [p], "beta1": 0.5, "weight_decay": 0.0}, {"params": [q]}], weight_decay=0.5)
    refs = Reference("adamw", [1.0], 1.0, beta1=0.5), Reference("adamw", [1.0], 1.0, decay=0.5)
    for g in (1.0, 3.0, -1.0):
        give(p, [g])
        give(q, [g])
        opt.step()
        for held, ref in zip((p, q), refs, strict=True):
            np.testing.assert_allclose(held.numpy(), ref.step([g]), rtol=1e-5, atol=1e-6)


def test_momentum_of_a_group():
    p, q = parameter([1.0]), parameter([1.0])
    opt = Momentum(1.0, parameters=[{"params": [p], "momentum": 0.5, "use_nesterov": True}, {"params": [q]}])
    refs = Reference("momentum", [1.0], 1.0, momentum=0.5, nesterov=True), Reference("momentum", [1.0], 1.0)
    for _ in range(2):
        for held, ref in zip((p, q), refs, strict=True):
            give(held, [1.0])
            ref.step([1.0])
        opt.step()
    assert (p.item(), q.item()) == pytest.approx([r.w.item() for r in refs])


@pytest.mark.parametrize(
    ("attr", "settings", "grouped", "expected"),
    [
        ({"learning_rate": 0.5}, {}, False, 1 - 0.5 * 2),
        ({"learning_rate": 0.5}, {}, True, 1 - 2),
        ({"regularizer": L2Decay(0.5)}, {"weight_decay": 0.1}, False, 1 - 2 - 0.5),
        ({"regularizer": L2Decay(0.5)}, {"weight_decay": 0.1}, True, 1 - 2 - 0.1),
        ({"regularizer": L1Decay(0.25)}, {"weight_decay": L2Decay(0.5)}, False, 1 - 2 - 0.25),
        ({"trainable": False}, {}, False, 1.0),
    ],
)
def test_what_param_attr_says(attr, settings, grouped, expected):
    p = parameter([1.0], **attr)
    if attr.get("trainable", True):
        give(p, [2.0])
    SGD(1.0, parameters=[{"params": [p]}] if grouped else [p], **settings).step()
    assert p.item() == pytest.approx(expected)


def test_settings_of_a_group_stand_at_its_parameters():
    p = parameter([1.0], regularizer=L1Decay(0.75))
    q = parameter([3.0], learning_rate=0.25)
    plain = bireme.to_tensor([1.0], stop_gradient=False)
    opt = SGD(0.5, parameters=[{"params": [p, plain], "learning_rate": 0.5}, {"params": [q]}], weight_decay=0.5)
    assert (p.optimize_attr["learning_rate"], q.optimize_attr["learning_rate"]) == (0.5, 1.0)
    assert p.regularizer is q.regularizer is opt.regularization
    for x in (p, q, plain):
        give(x, [2.0])
    opt.step()
    assert (p.item(), q.item(), plain.item()) == (1 - 0.25 * 2.5, 3 - 0.5 * 3.5, 1 - 0.25 * 2.5)
    q.optimize_attr["learning_rate"], q.regularizer = 0.0, L1Decay(1.0)  # programs change them between steps
    opt.step()
    assert q.item() == 1.25
    q.optimize_attr["learning_rate"] = 1.0
    opt.step()
    assert q.item() == 1.25 - 0.5 * 3.0


def test_decays_that_belong_to_the_rule_stay_there():
    p, q = parameter([1.0]), parameter([1.0], regularizer=L1Decay(0.25))
    Momentum(0.1, parameters=[{"params": [p], "weight_decay": 0.5}])
    assert p.regularizer is None
    adamw = AdamW(0.1, parameters=[{"params": [q], "weight_decay": 0.5}])
    run(adamw, q, [1.0])
    assert adamw.state_dict()[f"{q.name}_moment1_0"].item() == pytest.approx(0.1 * 1.25)


def test_adamw_settings_per_parameter():
    p, q = parameter([1.0], learning_rate=0.5), parameter([1.0])
    opt = AdamW(
        1.0,
        parameters=[p, q],
        weight_decay=0.25,
        lr_ratio=lambda w: 0.5 if w is q else 1.0,
        apply_decay_param_fun=lambda name: name == p.name,
    )
    give(p, [0.0])
    give(q, [2.0])
    opt.step()
    assert (p.item(), q.item()) == pytest.approx((1 - 0.5 * 0.25, 1 - 0.5), rel=1e-5)


def test_adamw_adds_the_decay_of_param_attr_to_the_gradient():
    p = parameter([1.0], regularizer=L1Decay(0.25))
    opt = AdamW(1.0, parameters=[p], weight_decay=0.5)
    run(opt, p, [1.0])
    assert opt.state_dict()[f"{p.name}_moment1_0"].item() == pytest.approx(0.1 * 1.25)


def test_a_parameter_without_gradient_is_left_alone():
    p, q = parameter([1.0]), parameter([1.0])
    opt = Adam(0.1, parameters=[p, q])
    refs = Reference("adam", [1.0], 0.1), Reference("adam", [1.0], 0.1)
    give(p, [1.0])
    give(q, [1.0])
    opt.step()
    opt.clear_grad()
    give(p, [2.0])
    opt.step()  # q's gradient was cleared to zeros, so its moments still move it
    opt.clear_grad(set_to_zero=False)
    assert q.grad is None
    give(p, [3.0])
    opt.step()  # q has none
    give(p, [1.0])
    give(q, [5.0])
    opt.step()
    for ref, grads in zip(refs, ((1.0, 2.0, 3.0, 1.0), (1.0, 0.0, 5.0)), strict=True):
        for g in grads:
            ref.step([g])
    assert (p.item(), q.item()) == pytest.approx([r.w.item() for r in refs], rel=1e-5)
    state = opt.state_dict()
    assert state[f"{p.name}_beta1_pow_acc_0"].tolist() == pytest.approx([0.9**5])
    assert state[f"{q.name}_beta1_pow_acc_0"].tolist() == pytest.approx([0.9**4])


def test_parameters_that_start_later():
    p, q = parameter([1.0]), parameter([1.0])
    opt = Adam(0.1, parameters=[p, q])
    for _ in range(3):
        run(opt, p, [1.0])
    q.stop_gradient = False
    give(q, [4.0])
    opt.step()
    assert q.item() == pytest.approx(Reference("adam", [1.0], 0.1).step([4.0]).item())


def test_plain_tensors_are_trained_too():
    x = bireme.to_tensor([1.0], stop_gradient=False)
    assert run(SGD(0.5, parameters=[x]), x, [2.0]).tolist() == [0.0]


def test_betas_may_be_tensors():
    beta = bireme.to_tensor([0.5])
    p, ref = parameter([1.0]), Reference("adam", [1.0], 0.1, beta1=0.5)
    opt = Adam(0.1, beta1=beta, parameters=[p])
    for g in (1.0, 2.0, -3.0):
        np.testing.assert_allclose(run(opt, p, [g]), ref.step([g]), rtol=1e-5)


def test_minimize_uses_the_gradients_there_are():
    p, q = parameter([1.0]), parameter([1.0])
    opt = SGD(1.0, parameters=[p, q])
    loss = (p * 2.0 + q * 3.0).sum()
    assert opt.minimize(loss) == ([], [])
    loss.backward()
    ops, pairs = opt.minimize(loss, parameters=[p])
    assert ops == [] and [held for held, _ in pairs] == [p]
    assert (p.item(), q.item()) == (-1.0, 1.0)
    opt.minimize(loss, no_grad_set={p})
    assert (p.item(), q.item()) == (-1.0, -2.0)


# ---------------------------------------------------------------- decay and clipping


def test_clipping_of_ones_own():
    class Halved(nn.ClipGradByGlobalNorm):
        @bireme.no_grad()
        def _dygraph_clip(self, params_grads):
            return [(p, g / 2) for p, g in params_grads]

    w = parameter([1.0])
    (w * 4.0).sum().backward()
    SGD(0.25, parameters=[w], grad_clip=Halved(1.0)).step()
    assert w.tolist() == [0.5]


def test_the_clip_may_change_between_steps():
    p = parameter([0.0])
    opt = SGD(1.0, parameters=[p], grad_clip=nn.ClipGradByValue(0.5))
    for clip, after in ((opt._grad_clip, -0.5), (None, -2.5), (nn.ClipGradByValue(1.0), -3.5)):
        opt._grad_clip = clip
        give(p, [2.0])
        opt.step()
        assert p.item() == after


def test_clipping_comes_before_decay():
    p = parameter([1.0, 2.0])
    opt = SGD(1.0, parameters=[p], weight_decay=0.5, grad_clip=nn.ClipGradByValue(0.1))
    assert run(opt, p, [1.0, -1.0]).tolist() == pytest.approx([1 - 0.1 - 0.5, 2 + 0.1 - 1.0])
    assert p.grad.tolist() == [1.0, -1.0]  # the user's gradient stays as it was


def test_rescaling_comes_before_decay():
    p = parameter([1.0])
    opt = Momentum(1.0, parameters=[p], rescale_grad=0.5, weight_decay=0.25)
    assert run(opt, p, [1.0]).tolist() == pytest.approx([1 - 0.5 - 0.25])


def test_global_norm():
    rng = np.random.default_rng(0)
    grads = [rng.normal(size=s).astype("float32") for s in ((3, 4), (), (5,))]
    params = [parameter(np.zeros(g.shape)) for g in grads]
    for limit in (0.5, 100.0):
        clipped = nn.ClipGradByGlobalNorm(limit)([(p, bireme.to_tensor(g)) for p, g in zip(params, grads, strict=True)])
        for (_, found), expected, g in zip(clipped, clip_by_global_norm(grads, limit), grads, strict=True):
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)
            assert limit < 100.0 or np.array_equal(found.numpy(), g)  # what needs no clipping keeps its bits


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        (nn.ClipGradByGlobalNorm(1.0), [3 / 13**0.5, 4.0, 2 / 13**0.5]),
        (nn.ClipGradByNorm(1.0), [1.0, 4.0, 1.0]),
        (nn.ClipGradByValue(2.5, -1.0), [2.5, 4.0, 2.0]),
    ],
)
def test_need_clip(clip, expected):
    params = [parameter([0.0]), parameter([0.0], need_clip=False), parameter([0.0])]
    pairs = clip(
        [(p, bireme.to_tensor([g])) for p, g in zip(params, (3.0, 4.0, 2.0), strict=True)] + [(params[0], None)]
    )
    assert [g.item() for _, g in pairs] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("clip", "after"),
    [
        (nn.ClipGradByGlobalNorm(1.0), [0.6, 0.8]),
        (nn.ClipGradByNorm(1.0), [3.0, 4.0]),
        (nn.ClipGradByValue(1.0), [3.0, 4.0]),
    ],
)
def test_after_a_step_grad_holds_what_paddle_leaves_there(clip, after):
    w = bireme.Parameter(np.zeros(2, "float32"))
    opt = SGD(1.0, parameters=[w], grad_clip=clip)
    bireme.debug.reset_stats()
    for _ in range(6):
        w.clear_grad()
        (w * bireme.to_tensor([3.0, 4.0])).sum().backward()
        held = w.grad
        opt.step()
        np.testing.assert_allclose(w.grad.numpy(), after, rtol=1e-6)
        np.testing.assert_allclose(held.numpy(), after, rtol=1e-6)
    assert len(bireme.debug.explain()) <= 3
    (w * 5.0).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), np.array(after) + 5, rtol=1e-6)


def test_each_group_has_its_own_norm():
    p, q = parameter([0.0]), parameter([0.0])
    opt = SGD(1.0, parameters=[{"params": [p]}, {"params": [q]}], grad_clip=nn.ClipGradByGlobalNorm(1.0))
    give(p, [3.0])
    give(q, [4.0])
    opt.step()
    assert (p.item(), q.item()) == pytest.approx((-1.0, -1.0))


def test_norms_of_half_precision_do_not_overflow():
    p = nn.Layer().create_parameter([2], dtype="float16", default_initializer=nn.initializer.Constant(0.0))
    g = bireme.to_tensor([3000.0, 4000.0]).astype("float16")
    for clip in nn.ClipGradByGlobalNorm(5.0), nn.ClipGradByNorm(5.0):
        found = clip([(p, g)])[0][1]
        assert found.dtype is bireme.float16 and found.tolist() == pytest.approx([3.0, 4.0], rel=1e-2)


# ---------------------------------------------------------------- states


def trained(make, steps=2):
    with bireme.utils.unique_name.guard():
        p, q = parameter([1.0, 2.0]), parameter([3.0])
    opt = make([p, q])
    for i in range(steps):
        give(p, [1.0 + i, -1.0])
        give(q, [0.5])
        opt.step()
        opt.clear_grad()
    return opt, p, q


@pytest.mark.parametrize(("rule", "settings", "make"), RULES)
def test_a_loaded_state_goes_on_as_if_nothing_had_happened(rule, settings, make):
    opt, p, q = trained(make)
    state = {k: v.numpy() for k, v in opt.state_dict().items()}
    other, p2, q2 = trained(make, 0)
    p2.set_value(p.numpy())
    q2.set_value(q.numpy())
    other.set_state_dict(state)
    for held in (p, q, p2, q2):
        give(held, [2.0] * held.size)
    opt.step()
    other.step()
    assert np.array_equal(p.numpy(), p2.numpy()) and np.array_equal(q.numpy(), q2.numpy())


def test_the_keys_are_paddles():
    opt, p, q = trained(lambda params: AdamW(lr.StepDecay(0.1, 2), parameters=params, amsgrad=True))
    names = ["moment1", "moment2", "moment2_max", "beta1_pow_acc", "beta2_pow_acc"]
    state = opt.state_dict()
    assert list(state) == [f"{held.name}_{n}_0" for n in names for held in (p, q)] + ["LR_Scheduler"]
    assert state[f"{p.name}_beta1_pow_acc_0"].shape == [1]
    assert state["LR_Scheduler"] == {"last_epoch": 0, "last_lr": 0.1}
    assert list(trained(lambda params: Momentum(0.1, parameters=params))[0].state_dict()) == [
        f"{p.name}_velocity_0",
        f"{q.name}_velocity_0",
    ]
    assert trained(lambda params: Adam(0.1, parameters=params), 0)[0].state_dict() == {}


def test_the_number_at_the_end_of_a_key_does_not_matter():
    def make(params):
        return Momentum(0.1, parameters=params)

    opt, p, _ = trained(make)
    other, p2, _ = trained(make, 0)
    other.set_state_dict({k[:-1] + "7": v for k, v in opt.state_dict().items()})
    assert other.state_dict()[f"{p2.name}_velocity_0"].tolist() == opt.state_dict()[f"{p.name}_velocity_0"].tolist()


def test_states_that_do_not_fit():
    def make(params):
        return Adam(0.1, parameters=params)

    opt, p, q = trained(make)
    state = opt.state_dict()
    other, *_ = trained(make, 0)
    with pytest.raises(ValueError, match=rf"expected the state of {p.name}, got that of other_0.w_0_moment1_0"):
        other.set_state_dict({k.replace("layer_", "other_"): v for k, v in state.items()})
    with pytest.raises(AssertionError, match=rf"expected moment2 of {p.name}, got only moment1"):
        other.set_state_dict({k: v for k, v in state.items() if k != f"{p.name}_moment2_0"})
    with pytest.raises(ValueError, match=rf"{p.name}_moment1_0: expected shape \[2\], got shape \[3\]"):
        other.set_state_dict(state | {f"{p.name}_moment1_0": np.zeros(3, "float32")})
    assert other.state_dict() == {}
    other.set_state_dict({k: v for k, v in state.items() if q.name not in k})  # q starts afresh
    scheduled, *_ = trained(lambda params: Adam(lr.StepDecay(0.1, 2), parameters=params), 0)
    with pytest.raises(AssertionError, match="the state of the schedule under LR_Scheduler"):  # as Paddle asserts it
        scheduled.set_state_dict(state)


# ---------------------------------------------------------------- arguments and rates


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda p: SGD(1, parameters=[p]), TypeError, r"SGD\(learning_rate\): expected a float or a schedule"),
        (lambda p: SGD(0.1), AttributeError, r"SGD\(parameters\)"),
        (lambda p: SGD(0.1, parameters=p), TypeError, r"SGD\(parameters\)"),
        (lambda p: SGD(0.1, parameters={"params": [p]}), TypeError, r"SGD\(parameters\)"),
        (lambda p: SGD(0.1, parameters=[3]), TypeError, r"SGD\(parameters\)"),
        (lambda p: SGD(0.1, parameters=[{"params": {p}}]), TypeError, "a set has no order"),
        (lambda p: SGD(0.1, parameters=[{"x": 1}]), ValueError, "dicts that have 'params'"),
        (lambda p: SGD(0.1, parameters=[{"params": [p]}, p]), ValueError, "dicts that have 'params'"),
        (lambda p: SGD(0.1, parameters=[{"params": [p]}, {"params": [p]}]), ValueError, "in one group"),
        (lambda p: NAdam(-0.1, parameters=[p]), ValueError, r"NAdam\(learning_rate\): expected a non-negative number"),
        (
            lambda p: Adam(0.1, epsilon=None, parameters=[p]),
            AssertionError,
            r"Adam\(epsilon\): expected a non-negative number, got None",
        ),
        (lambda p: RAdam(0.1, beta1="x", parameters=[p]), TypeError, r"RAdam\(beta1\): expected a number in"),
        (lambda p: SGD(0.1, parameters=[p], weight_decay="1"), TypeError, r"SGD\(weight_decay\)"),
        (lambda p: SGD(0.1, parameters=[p], grad_clip=3), TypeError, r"SGD\(grad_clip\)"),
        (lambda p: AdamW(0.1, parameters=[p], weight_decay=L2Decay(0.1)), TypeError, r"AdamW\(weight_decay\)"),
        (lambda p: AdamW(0.1, parameters=[p], weight_decay=None), TypeError, r"AdamW\(weight_decay\)"),
        (lambda p: Adam(0.1, beta1=1.0, parameters=[p]), ValueError, r"Adam\(beta1\): expected a number in \[0, 1\)"),
        (lambda p: Adam(0.1, epsilon=-1.0, parameters=[p]), ValueError, r"Adam\(epsilon\)"),
        (lambda p: Momentum(0.1, None, parameters=[p]), ValueError, r"Momentum\(momentum\)"),
        (lambda p: Adamax(0.1, 1.5, parameters=[p]), ValueError, r"Adamax\(beta1\)"),
        (lambda p: Adamax(0.1, epsilon=-1.0, parameters=[p]), ValueError, r"Adamax\(epsilon\)"),
        (lambda p: Adagrad(0.1, None, [p]), ValueError, r"Adagrad\(epsilon\)"),
        (lambda p: RMSProp(0.1, -0.5, parameters=[p]), ValueError, r"RMSProp\(rho\)"),
        (lambda p: Rprop(0.1, (0.2, 0.3), [p]), ValueError, r"Rprop\(learning_rate_range\)"),
        (lambda p: Rprop(0.1, parameters=[p], etas=(1.5, 2.0)), ValueError, r"Rprop\(etas\)"),
        (lambda p: ASGD(0.1, 0, [p]), ValueError, r"ASGD\(batch_num\)"),
        (lambda p: NAdam(0.1, momentum_decay=-1.0, parameters=[p]), ValueError, r"NAdam\(momentum_decay\)"),
        (lambda p: RAdam(0.1, 2.0, parameters=[p]), ValueError, r"RAdam\(beta1\)"),
        (
            lambda p: Lamb(0.1, parameters=[p], exclude_from_weight_decay_fn=3),
            TypeError,
            r"Lamb\(exclude_from_weight_decay_fn\)",
        ),
        (lambda p: Muon(0.1, parameters=[p]), ValueError, "give the others to AdamW"),
        (lambda p: Muon(0.1, parameters=[], weight_decay=L2Decay(0.1)), TypeError, r"Muon\(weight_decay\)"),
        (lambda p: nn.ClipGradByValue(-1.0), ValueError, r"ClipGradByValue\(max\)"),
        (lambda p: SGD(0.1, parameters=[p]).set_lr("1"), TypeError, r"set_lr\(value\)"),
        (lambda p: SGD(lr.StepDecay(0.1, 2), parameters=[p]).set_lr(0.1), RuntimeError, "StepDecay"),
        (
            lambda p: SGD(0.1, parameters=[p]).minimize(np.ones(2)),
            AssertionError,
            r"minimize\(loss\): expected a Tensor",
        ),
        (lambda p: L2Decay(None), AssertionError, r"L2Decay\(coeff\): expected a number, got None"),
        (lambda p: SGD(0.1, parameters=[p]).set_lr_scheduler(3), TypeError, r"set_lr_scheduler\(scheduler\)"),
    ],
)
def test_bad_arguments(make, kind, message):
    with pytest.raises(kind, match=message):
        make(parameter([1.0]))


def test_a_parameter_given_twice_is_updated_once():
    p = parameter([1.0])
    with pytest.warns(UserWarning, match="twice"):
        opt = SGD(1.0, parameters=[p, p])
    assert run(opt, p, [1.0]).tolist() == [0.0]


def test_the_rate_of_the_moment_is_used():
    p = parameter([0.0])
    opt = SGD(1.0, parameters=[p])
    run(opt, p, [1.0])
    opt.set_lr(2)
    run(opt, p, [1.0])
    opt.set_lr_scheduler(lr.StepDecay(0.25, 1, 0.5))
    run(opt, p, [1.0])
    opt._learning_rate.step()
    assert opt.get_lr() == 0.125
    assert run(opt, p, [1.0]).tolist() == [-(1.0 + 2.0 + 0.25 + 0.125)]


def test_a_changing_rate_compiles_nothing_new():
    net = nn.Linear(4, 4)
    opt = AdamW(lr.ExponentialDecay(0.1, 0.9), parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0))

    def step():
        (net(bireme.ones([2, 4])) ** 2).mean().backward()
        opt.step()
        opt.clear_grad()
        opt._learning_rate.step()

    for _ in range(6):
        step()
    with bireme.debug.no_recompile():
        for _ in range(3):
            step()


# ---------------------------------------------------------------- L-BFGS


def rosenbrock(line_search, **settings):
    p = bireme.to_tensor(np.array([-1.2, 1.0]), stop_gradient=False)
    opt = LBFGS(line_search_fn=line_search, parameters=[p], **settings)

    def loss():
        opt.clear_grad()
        value = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        value.backward()
        return value

    return opt, p, loss


def test_lbfgs_finds_the_minimum():
    opt, p, loss = rosenbrock("strong_wolfe", max_iter=60, max_eval=200)
    assert opt.step(loss).item() == pytest.approx(24.2)
    np.testing.assert_allclose(p.numpy(), [1.0, 1.0], rtol=1e-4)
    assert opt.state["n_iter"] < 60


def test_lbfgs_is_newton_on_a_line():
    # a quadratic in one dimension: after the first step the curvature is known, and the second arrives
    p = parameter([5.0])
    opt = LBFGS(0.5, max_iter=2, max_eval=9, parameters=[p])

    def loss():
        opt.clear_grad()
        value = (p * p).sum() * 2.0
        value.backward()
        return value

    opt.step(loss)
    first = 5.0 - min(1.0, 1 / 20.0) * 0.5 * 20.0
    assert p.item() == pytest.approx(first * 0.5, rel=1e-5)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_lbfgs_resumes(line_search):
    opt, p, loss = rosenbrock(line_search, learning_rate=1.0 if line_search else 1e-3, max_iter=3, history_size=4)
    for _ in range(3):
        opt.step(loss)
    state, middle = opt.state_dict(), p.numpy().copy()
    other, q, again = rosenbrock(line_search, learning_rate=1.0 if line_search else 1e-3, max_iter=3, history_size=4)
    q.set_value(middle)
    other.set_state_dict(state)
    for _ in range(2):
        assert other.step(again).item() == pytest.approx(opt.step(loss).item(), rel=1e-9)
    assert q.tolist() == pytest.approx(p.tolist(), rel=1e-9) and len(opt.state["old_yk"]) <= 4


def test_lbfgs_refuses():
    wrong, _, loss = rosenbrock("armijo")
    with pytest.raises(RuntimeError, match=r"LBFGS\(line_search_fn\)"):
        wrong.step(loss)
    opt, _, loss = rosenbrock(None)
    with pytest.raises(NotImplementedError, match=r"step\(closure\)"):
        opt.minimize(loss())
    with pytest.raises(ValueError, match="the key state"):
        opt.set_state_dict({})


def test_accumulators_and_master_weights_by_name():
    w = bireme.nn.Linear(2, 2).weight
    adam = bireme.optimizer.Adam(0.1, parameters=[w])
    with pytest.raises(RuntimeError, match="expected one of none yet, got 'moment1'"):
        adam._get_accumulator("moment1", w)
    (w * w).sum().backward()
    adam.step()
    assert adam._get_accumulator(adam._moment1_acc_str, w) is adam._slots[id(w)].state["moment1"]
    assert adam._get_accumulator("beta1_pow_acc", w).item() == pytest.approx(0.9**2)
    held = adam._accumulators
    assert list(held) == ["moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc"] and list(held["moment2"]) == [w.name]
    assert held["moment1"][w.name] is adam._slots[id(w)].state["moment1"]
    nadam = NAdam(0.1, parameters=[w])
    nadam.step()
    assert all(held[w.name].shape == [2, 2] for held in nadam._accumulators.values())
    half = bireme.Parameter(w.detach().astype("float16"))
    sgd = bireme.optimizer.Momentum(0.1, parameters=[half], multi_precision=True)
    (half * half).sum().backward()
    sgd.step()
    assert sgd._master_weights[half.name].dtype is bireme.float32 and sgd._get_accumulator("velocity", half).shape == [
        2,
        2,
    ]


def test_settings_that_programs_read():
    w = parameter([1.0])
    assert str(Adam(0.1, parameters=[w], weight_decay=0.1).regularization) == "L2Decay, coeff=0.100000"
    assert SGD(0.1, parameters=[w]).regularization is None
    assert Adagrad(0.1, parameters=[w], initial_accumulator_value=0.25).initial_accumulator_value == 0.25


@pytest.mark.parametrize("amsgrad", [False, True])
def test_lazy_mode_moves_rows_that_were_read(amsgrad):
    table, other = (
        bireme.nn.Embedding(4, 2, sparse=sparse, weight_attr=bireme.nn.initializer.Constant(1.0))
        for sparse in (True, False)
    )
    opt = bireme.optimizer.Adam(
        0.5, parameters=[*table.parameters(), *other.parameters()], lazy_mode=True, amsgrad=amsgrad
    )
    for read in ([1, 1, 3], [3]):
        before = table.weight.numpy()
        moments = opt.state_dict().get(f"{table.weight.name}_moment1_0", bireme.zeros([4, 2])).numpy()
        rows = bireme.to_tensor(read)
        (table(rows).sum() + other(rows).sum()).backward()
        opt.step()
        opt.clear_grad()
        still = [row for row in range(4) if row not in read]
        assert (table.weight.numpy()[still] == before[still]).all()
        assert (opt.state_dict()[f"{table.weight.name}_moment1_0"].numpy()[still] == moments[still]).all()
        assert (table.weight.numpy()[read] < before[read]).all()
    assert other.weight.numpy()[1, 0] < table.weight.numpy()[1, 0]  # a dense gradient moves by its moments, read or not


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_settings_may_be_numbers_of_numpy(kind):
    made = [
        (bireme.optimizer.Adam, {"beta1": 0.5, "beta2": 0.75, "epsilon": 0.125}),
        (bireme.optimizer.Adamax, {"beta1": 0.5, "beta2": 0.75, "epsilon": 0.125}),
        (bireme.optimizer.NAdam, {"beta1": 0.5, "momentum_decay": 0.25}),
        (bireme.optimizer.RMSProp, {"rho": 0.5, "epsilon": 0.125, "momentum": 0.25}),
        (bireme.optimizer.Adadelta, {"rho": 0.5, "epsilon": 0.125}),
        (bireme.optimizer.Lamb, {"beta1": 0.5, "epsilon": 0.125}),
    ]
    for optimizer, settings in made:
        ends = []
        for numbers in (settings, {key: kind(value) for key, value in settings.items()}):
            p = bireme.Parameter(np.array([1.0, -2.0], np.float32))
            opt = optimizer(0.125, parameters=[p], **numbers)
            for _ in range(2):
                (p * p).sum().backward()
                opt.step()
                opt.clear_grad()
            ends.append(p.tolist())
        assert ends[0] == ends[1], optimizer
        assert p.dtype == bireme.float32


def test_parameters_that_join_later_are_updated():
    """A head that grows: programs add to the list that the optimizer has."""
    old, new = [bireme.to_tensor([1.0], stop_gradient=False) for _ in range(2)]
    for optimizer, params in (
        ((one := bireme.optimizer.SGD(0.5, parameters=[old])), one._parameter_list),
        ((two := bireme.optimizer.SGD(0.5, parameters=[{"params": [old]}])), two._param_groups[0]["params"]),
    ):
        params.append(new)
        before = new.item()
        (old + new).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        assert new.item() == before - 0.5
        assert optimizer._parameter_list == [old, new]
    one._parameter_list = [old]
    (old + new).sum().backward()
    before = new.item(), old.item()
    one.step()
    assert (new.item(), old.item()) == (before[0], before[1] - 0.5)
    with pytest.raises(AttributeError, match="an optimizer without groups, got one with groups"):
        two._parameter_list = [old]


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (bireme.optimizer.SGD, "regularization", bireme.regularizer.L2Decay(1.0)),
        (bireme.optimizer.SGD, "regularization", bireme.regularizer.L1Decay(0.5)),
        (bireme.optimizer.Momentum, "_regularization_coeff", 1.0),
        (bireme.optimizer.AdamW, "_weight_decay", 1.0),
        (bireme.optimizer.SGD, "regularization", None),
    ],
)
def test_a_decay_that_is_changed_between_steps_is_the_next_ones(make, name, value):
    def moved(start, later):
        w = bireme.to_tensor([1.0, -2.0], stop_gradient=False)
        optimizer = make(0.1, parameters=[w], weight_decay=start)
        if later:
            setattr(optimizer, name, value)
        (w * w).sum().backward()
        optimizer.step()
        assert getattr(optimizer, name) == value or not later
        return w.tolist()

    decay = value if value is None or name == "regularization" else float(value)
    assert moved(0.25, True) == moved(decay, False) != moved(0.25, False)
