"""A buffer is reused only when nobody can see it any more: whatever the user holds stays what it was."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.core.graph.graph import Value
from bireme.core.run import lookup
from bireme.core.tensor.tensor import wrap

pytestmark = pytest.mark.usefixtures("compiled_when_met_again")
WIDTH = 96  # 36 KiB of weights: large enough to be kept on the device and donated


@pytest.fixture(params=["both tiers", "compiled"], autouse=True)
def tier(request):
    """Interpreted at first and compiled later, and compiled from the first meeting on."""
    bireme.set_flags({"FLAGS_interpret": request.param == "both tiers"})
    yield request.param
    bireme.set_flags({"FLAGS_interpret": True})


@pytest.fixture(autouse=True)
def as_on_an_accelerator(monkeypatch):
    """On CPU, updates write beside what they read, since XLA would copy it first; accelerators are tested here."""
    monkeypatch.setattr(lookup, "_copied_anyway", lambda graph: set())


class Trainer:
    def __init__(self, rule="Adam"):
        self.layer = nn.Linear(WIDTH, WIDTH)
        self.rule = getattr(bireme.optimizer, rule)(0.05, parameters=self.layer.parameters())
        self.x = bireme.to_tensor(np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype("float32"))

    def loss(self):
        return (self.layer(self.x) ** 2).mean()

    def step(self, times=1):
        for _ in range(times):
            self.loss().backward()
            self.rule.step()
            self.rule.clear_grad()

    @property
    def weight(self):
        return self.layer.weight


@pytest.fixture
def trainer():
    made = Trainer()
    made.step(4)
    return made


def unchanged(trainer, held, steps=4):
    """`held` gives the same numbers before and after steps that change the weight."""
    before, weight = np.array(held()), trainer.weight.numpy()
    trainer.step(steps)
    after = np.array(held())
    assert not np.array_equal(weight, trainer.weight.numpy())
    np.testing.assert_array_equal(before, after)


def test_steps_really_donate(trainer):
    array = trainer.weight._array()
    trainer.step(2)
    assert isinstance(array, jax.Array)
    assert array.is_deleted()


def test_a_clone_of_a_weight_stays(trainer):
    held = trainer.weight.clone()
    unchanged(trainer, held.numpy)


def test_a_pending_clone_stays(trainer):
    held = trainer.weight.clone()
    trainer.step(1)
    unchanged(trainer, held.numpy)


def test_a_deepcopy_stays(trainer):
    held = copy.deepcopy(trainer.layer)
    unchanged(trainer, held.weight.numpy)


def test_an_assigned_tensor_stays(trainer):
    held = bireme.assign(trainer.weight)
    unchanged(trainer, held.numpy)


def test_set_value_takes_a_copy(trainer):
    other = nn.Linear(WIDTH, WIDTH)
    other.weight.set_value(trainer.weight)
    unchanged(trainer, other.weight.numpy)


def test_a_parameter_made_of_a_weight_is_its_own(trainer):
    held = bireme.Parameter(trainer.weight)
    unchanged(trainer, held.numpy)


def test_to_tensor_of_a_weight_is_its_own(trainer):
    held = bireme.to_tensor(trainer.weight)
    unchanged(trainer, held.numpy)


def test_numpy_stays(trainer):
    held = trainer.weight.numpy()
    unchanged(trainer, lambda: held)


@pytest.mark.parametrize("copied", [None, True, False])
def test_an_array_by_the_protocol_stays(trainer, copied):
    held = np.asarray(trainer.weight) if copied is None else np.array(trainer.weight, copy=copied)
    unchanged(trainer, lambda: held)


def test_an_array_by_the_protocol_cannot_change_the_weight(trainer):
    held = np.asarray(trainer.weight)
    before = trainer.weight.numpy()
    if held.flags.writeable:
        held[:] = 0
    np.testing.assert_array_equal(before, trainer.weight.numpy())


def test_a_jax_array_stays(trainer):
    held = jnp.asarray(trainer.weight)
    unchanged(trainer, lambda: held)


def test_dlpack_to_numpy_stays(trainer):
    held = np.from_dlpack(trainer.weight.detach())
    unchanged(trainer, lambda: held)


def test_dlpack_to_jax_stays(trainer):
    held = jax.dlpack.from_dlpack(trainer.weight.detach())
    unchanged(trainer, lambda: held)


def test_dlpack_to_torch_stays(trainer):
    torch = pytest.importorskip("torch")
    held = torch.from_dlpack(trainer.weight.detach())
    unchanged(trainer, held.numpy)


def test_a_jax_array_given_as_input_stays(trainer):
    given = jnp.ones((WIDTH, WIDTH))
    for _ in range(4):
        x = bireme.to_tensor(given)
        y = x * 2.0 + 1.0
        del x
        y.numpy()
    np.testing.assert_array_equal(np.asarray(given), np.ones((WIDTH, WIDTH)))


def test_a_jax_array_given_as_weight_stays():
    given = jnp.ones((WIDTH, WIDTH))
    trainer = Trainer("SGD")
    trainer.weight.set_value(bireme.to_tensor(given))
    trainer.step(4)
    np.testing.assert_array_equal(np.asarray(given), np.ones((WIDTH, WIDTH)))


def test_a_numpy_array_given_is_copied():
    given = np.ones((WIDTH, WIDTH), "float32")
    trainer = Trainer("SGD")
    trainer.weight.set_value(given)
    x = bireme.to_tensor(given)
    given[:] = 7
    trainer.step(4)
    np.testing.assert_array_equal(x.numpy(), np.ones((WIDTH, WIDTH)))
    np.testing.assert_array_equal(given, np.full((WIDTH, WIDTH), 7))


def test_a_loader_may_reuse_its_buffer():
    buffer = np.zeros((WIDTH, WIDTH), "float32")
    total = []
    for i in range(5):
        buffer[:] = i
        x = bireme.to_tensor(buffer)
        total.append((x + 0.0).mean())
    assert [t.item() for t in total] == [0, 1, 2, 3, 4]


def test_an_old_tape_keeps_its_weight(trainer):
    old = trainer.loss()
    before, bias, x = trainer.weight.numpy(), trainer.layer.bias.numpy(), trainer.x.numpy()
    trainer.step(3)
    assert not np.array_equal(before, trainer.weight.numpy())
    old.backward()
    out = x @ before + bias
    np.testing.assert_allclose(trainer.weight.grad.numpy(), 2 * x.T @ out / out.size, rtol=1e-3, atol=1e-5)


def test_a_held_gradient_stays_when_cleared_to_none(trainer):
    trainer.loss().backward()
    held = trainer.weight.grad
    before = held.numpy()
    trainer.rule.step()
    trainer.rule.clear_grad(set_to_zero=False)
    trainer.step(3)
    np.testing.assert_array_equal(before, held.numpy())


def test_a_detached_weight_shares_storage_and_stays_valid(trainer):
    held = trainer.weight.detach()
    trainer.step(3)
    np.testing.assert_array_equal(held.numpy(), trainer.weight.numpy())
    copied = trainer.weight.detach().clone()
    unchanged(trainer, copied.numpy)


@pytest.mark.parametrize("view", ["transpose", "slice", "reshape", "flatten"])
def test_a_view_of_a_weight_stays_valid(trainer, view):
    make = {
        "transpose": lambda w: w.T,
        "slice": lambda w: w[1:5],
        "reshape": lambda w: w.reshape([-1]),
        "flatten": lambda w: w.flatten(),
    }[view]
    with bireme.no_grad():
        held = make(trainer.weight)
    trainer.step(3)
    np.testing.assert_array_equal(held.numpy(), make(trainer.weight).numpy())


def test_a_state_dict_that_was_copied_stays(trainer):
    held = {k: v.clone() for k, v in trainer.layer.state_dict().items()}
    unchanged(trainer, lambda: held["weight"].numpy())


def test_intermediate_results_stay(trainer):
    kept = []
    for _ in range(5):
        out = trainer.layer(trainer.x)
        loss = (out**2).mean()
        loss.backward()
        trainer.rule.step()
        trainer.rule.clear_grad()
        kept.append((out, loss))
    values = [(o.numpy(), v.item()) for o, v in kept]
    trainer.step(3)
    for (o, v), (host, number) in zip(kept, values, strict=True):
        np.testing.assert_array_equal(o.numpy(), host)
        assert v.item() == number


def test_two_optimizers_on_one_weight_do_not_delete_it(trainer):
    other = bireme.optimizer.SGD(0.01, parameters=trainer.layer.parameters())
    for _ in range(4):
        trainer.loss().backward()
        trainer.rule.step()
        other.step()
        trainer.rule.clear_grad()
    assert np.isfinite(trainer.weight.numpy()).all()


# ---------------------------------------------------------------- one array is one value


def arrays_of(*tensors):
    bireme.debug.flush()
    return [t._array() for t in tensors]


def pointer(array):
    return array.__array_interface__["data"][0] if isinstance(array, np.ndarray) else array.unsafe_buffer_pointer()


PASS_THROUGH = {
    "clone": lambda x: x.clone(),
    "assign": bireme.assign,
    "add zero twice": lambda x: (x.clone(), x.clone()),
    "clone of a clone": lambda x: (a := x.clone(), a.clone()),
    "reshape": lambda x: x.reshape([WIDTH * WIDTH]),
    "same cast": lambda x: x.astype("float32"),
    "full slice": lambda x: x[:],
    "transpose twice": lambda x: x.T.T,
    "expand": lambda x: x.expand([WIDTH, WIDTH]),
    "where": lambda x: bireme.where(x == x, x, x),
    "concat of one": lambda x: bireme.concat([x]),
    "split into one": lambda x: bireme.split(x, 1),
    "dropout off": lambda x: nn.functional.dropout(x, 0.0),
    "unbind": lambda x: x.unsqueeze(0).unbind(),
}


@pytest.mark.parametrize("name", PASS_THROUGH)
def test_results_never_share_memory_with_a_leaf(name):
    base = bireme.to_tensor(np.random.default_rng(2).standard_normal((WIDTH, WIDTH)).astype("float32"))
    for _ in range(3):  # interpreted first, compiled later
        x = base + 0.5
        x.numpy()
        out = PASS_THROUGH[name](x)
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        work = (x * 2.0).exp().sum()  # something to compute beside it
        found = arrays_of(x, *outs)
        want = found[0].copy() if isinstance(found[0], np.ndarray) else np.array(found[0])
        places = [pointer(a) for a in found]
        values = {id(t._value) for t in (x, *outs)}
        assert len(set(places)) == len(values)
        del x, work
        for t in outs:
            y = t.reshape([WIDTH, WIDTH]) * 1.0
            np.testing.assert_array_equal(y.numpy(), want)


def test_a_passed_through_leaf_survives_donation_of_the_leaf():
    for _ in range(4):
        x = bireme.ones([WIDTH, WIDTH]) * 3.0
        x.numpy()
        y = x.clone()
        z = (x + 1.0).exp()
        bireme.debug.flush()
        w = x * 2.0 + 1.0
        del x  # dead now: its buffer may be reused by what is pending
        w.numpy(), z.numpy()
        assert y.numpy().max() == 3.0


def test_a_held_leaf_of_a_program_that_donates_is_copied():
    def use(x):
        return (x * 2.0 + 1.0).tanh()

    for i in range(6):
        x = bireme.ones([WIDTH, WIDTH]) * float(i)
        x.numpy()
        kept = x if i >= 3 else None  # known as dead at first, held later
        y = use(x)
        del x
        np.testing.assert_allclose(y.numpy(), np.tanh(np.full((WIDTH, WIDTH), 2.0 * i + 1)), rtol=1e-5)
        if kept is not None:
            assert kept.numpy().min() == i


def test_a_held_host_leaf_of_a_program_that_donates_stays():
    host = np.full((WIDTH, WIDTH), 2.0, "float32")
    for i in range(6):
        x = bireme.to_tensor(host)
        kept = x if i >= 3 else None
        y = (x * 3.0 - 1.0).sin()
        del x
        y.numpy()
        if kept is not None:
            np.testing.assert_array_equal(kept.numpy(), host)


@pytest.mark.parametrize("dtype", ["float64", "int64", "bfloat16", "complex128", "bool"])
def test_every_type_is_copied_as_it_is(dtype):
    for i in range(6):
        x = bireme.to_tensor(np.arange(WIDTH * WIDTH).reshape(WIDTH, WIDTH) % 7).astype(dtype)
        before = x.numpy()
        kept = x if i >= 3 else None
        y = bireme.where(x == x, x, x).clone()
        del x
        np.testing.assert_array_equal(y.numpy(), before)
        if kept is not None:
            np.testing.assert_array_equal(kept.numpy(), before)


def test_one_array_read_as_two_values(tier):
    """Two tensors of one array, both gone when the step that reads them runs."""
    shape = [WIDTH, len(tier)]  # what one tier has run, the other would take from it
    a = bireme.full(shape, 2.0)
    a.sum().item()  # it has its array now; no assert: pytest would keep the tensor
    b = wrap(Value(a._value.sig, a._value.array, a._value.device))
    total = a * 2 + b
    del a, b
    np.testing.assert_array_equal(total.numpy(), np.full(shape, 6))


@pytest.mark.parametrize("rule", ["Momentum", "Adam", "AdamW"])
def test_the_first_step_with_master_weights_is_the_program_of_all(tier, rule):
    """Masters are made beside the step, from arrays that it reads too; a weight keeps its one place in the step."""
    layer = nn.Linear(WIDTH, WIDTH)
    made = getattr(bireme.optimizer, rule)(0.05, parameters=layer.parameters(), weight_decay=1e-4)
    layer, made = bireme.amp.decorate(layer, made, level="O2", dtype="bfloat16")
    x, before = bireme.rand([4, WIDTH]), bireme.debug.stats()["compiles"]
    for n in range(3):
        with bireme.amp.auto_cast(level="O2", dtype="bfloat16"):
            loss = (layer(x) ** 2).mean()
        loss.backward()
        made.step()
        made.clear_grad()
        loss.item()
        if n == (tier == "both tiers"):
            before = bireme.debug.stats()["compiles"]
    assert bireme.debug.stats()["compiles"] == before
