"""What backward and grad do beyond numbers: accumulation, freeing, hooks, modes, in-place changes, threads."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import bireme
import bireme.nn.functional as F
from bireme.core.graph.bound import GradBound


def leaf(*values):
    return bireme.to_tensor(list(values) or [1.0, 2.0], stop_gradient=False)


def constant(*values):
    return bireme.to_tensor(list(values) or [1.0, 2.0])


# ---------------------------------------------------------------- backward


def test_gradients_accumulate_in_one_storage():
    x = leaf()
    (x * x).sum().backward()
    held = x.grad
    assert held.tolist() == [2.0, 4.0]
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    assert held.tolist() == [5.0, 7.0]
    assert not x.grad.stop_gradient  # as in Paddle


def test_clearing():
    x = leaf()
    (x * x).sum().backward()
    held = x.grad
    x.clear_grad()
    assert x.grad.tolist() == held.tolist() == [0.0, 0.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == held.tolist() == [2.0, 4.0]
    x.clear_gradient(False)
    assert x.grad is None
    x.clear_grad()
    assert x.grad is None


def test_a_gradient_that_is_set_is_a_copy():
    x, w = bireme.to_tensor([1.0], stop_gradient=False), bireme.to_tensor([3.0], stop_gradient=False)
    given = bireme.to_tensor([1.0])
    x.grad = given
    given.add_(bireme.to_tensor([10.0]))
    (x * 5.0).backward()
    assert given.item() == 11.0 and x.grad.item() == 6.0
    held = x.grad
    x.grad = w * 2.0  # a held gradient sees what is set, which has no history here
    assert x.grad is held and held.item() == 6.0 and held.is_leaf
    x.grad *= 0.5
    assert held.item() == 3.0
    x.grad = bireme.ones([2])
    assert x.grad.shape == [2] and held.shape == [1]
    x.grad = None
    assert x.grad is None


def test_gradients_are_set_by_hand():
    x = leaf()
    x.grad = constant(5.0, 5.0)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]
    x.grad = None
    (x * 2).sum().backward()
    assert x.gradient().tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match="grad: expected a Tensor or None, got 3"):
        x.grad = 3


def test_a_graph_is_freed():
    x = leaf()
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"(?s)has been freed.*retain_graph=True.*at test_autograd.py:"):
        y.backward()
    h = x * x
    h.sum().backward()
    with pytest.raises(
        RuntimeError, match="expected a graph that was kept, got one through multiply that has been freed"
    ):
        h.mean().backward()


def test_a_graph_is_retained():
    x = leaf()
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_what_a_freed_graph_held_is_let_go():
    gc.disable()
    try:
        x = leaf()
        h = bireme.exp(x)
        y = (h * h).sum()
        held = weakref.ref(h._value)
        del h
        assert held() is not None
        y.backward()
        assert held() is None
    finally:
        gc.enable()


def test_non_scalars():
    x = leaf()
    (x * x).backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x = leaf()
    (x * x).backward(constant(1.0, 3.0))
    assert x.grad.tolist() == [2.0, 12.0]
    x = leaf()
    x.backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_several_roots():
    x = leaf()
    y = x * x
    bireme.autograd.backward([y, x * 3, y * 1], [constant(1.0, 1.0), None, None])
    assert x.grad.tolist() == [7.0, 11.0]
    with pytest.raises(AssertionError, match=r"backward\(tensors\): expected no duplicate, got a tensor twice"):
        bireme.autograd.backward([y, y])
    with pytest.raises(RuntimeError, match=r"grad\(inputs\): expected no duplicate, got a tensor twice"):
        bireme.grad(x * 2, [x, x])


@pytest.mark.parametrize(
    "wrong", ["create_graph", "retain_graph", "allow_unused", "only_inputs", "no_grad_vars", "grad_outputs"]
)
def test_arguments_of_grad_that_are_no_switch_and_no_tensor(wrong):
    x = leaf()
    with pytest.raises(AssertionError, match=rf"grad\({wrong}\)"):
        bireme.grad(x * 2, x, **{wrong: 3})


@pytest.mark.parametrize(
    ("seed", "kind", "message"),
    [
        (lambda: constant(1.0, 2.0, 3.0), ValueError, "expected the output's shape [2], got shape [3]"),
        (lambda: [1.0, 2.0], TypeError, "expected a Tensor or None"),
    ],
)
def test_bad_seeds(seed, kind, message):
    with pytest.raises(kind) as caught:
        (leaf() * 2).backward(seed())
    assert message in str(caught.value)
    with pytest.raises(ValueError, match="expected 1 gradients, got 2"):
        bireme.autograd.backward([leaf()], [None, None])


def test_backward_of_what_needs_no_gradient_warns():
    for y in (constant().sum(), leaf().argmax()):
        with pytest.warns(UserWarning, match="nothing to do") as told:
            y.backward()
        assert told[0].filename == __file__  # at the user's line


def test_backward_works_under_no_grad():
    x = leaf()
    y = (x * x).sum()
    with bireme.no_grad():
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_deep_graphs_need_no_stack():
    x = leaf(1.0)
    y = x
    for _ in range(10_000):
        y = y * 1.0001
    y.backward()
    assert x.grad.item() == pytest.approx(1.0001**10_000, rel=1e-2)
    x = leaf(1.0)
    y = x
    for _ in range(10_000):
        y = y + 1.0
    del y  # dropping a deep graph needs none either


def test_zero_size():
    x = bireme.zeros([0, 3])
    x.stop_gradient = False
    (x * x).sum().backward()
    assert x.grad.shape == [0, 3]


# ---------------------------------------------------------------- grad


def test_grad_touches_no_grad_attribute():
    x = leaf()
    y = x * x
    (g,) = bireme.grad(y, x)
    assert g.tolist() == [2.0, 4.0]
    assert g.stop_gradient
    assert x.grad is None


def test_grad_of_intermediates():
    x = leaf()
    y = x * x
    z = (y * y).sum()
    assert [g.tolist() for g in bireme.grad(z, [x, y])] == [[4.0, 32.0], [2.0, 8.0]]
    assert bireme.grad(x, x)[0].tolist() == [1.0, 1.0]


def test_grad_keeps_the_graph_unless_told_otherwise():
    x = leaf()
    y = (x * x).sum()
    bireme.grad(y, x)
    bireme.grad(y, x, retain_graph=False)
    with pytest.raises(RuntimeError, match="freed"):
        y.backward()


PIECES = {
    "relu": F.relu,
    "leaky_relu": lambda h: F.leaky_relu(h, 0.1),
    "abs": bireme.abs,
    "clip": lambda h: bireme.clip(h, -1, 1),
    "maximum": lambda h: bireme.maximum(h, bireme.zeros_like(h)),
    "where": lambda h: bireme.where(h > 0, h, -h),
    "a number": lambda h: h * 3.0 / 7.0,
    "a product": lambda h: h @ bireme.ones([3, 3], h.dtype),
}


@pytest.mark.parametrize("name", PIECES)
def test_a_gradient_that_only_compares_passes_none_on(name):
    """As in Paddle: zeros would move what an optimizer decays."""
    before, weight = bireme.to_tensor(np.linspace(-2.0, 1.0, 9).reshape(3, 3), stop_gradient=False), leaf(2.0)
    h = before + 0.1
    y = PIECES[name](h)
    (g,) = bireme.grad(y, h, y.detach() * weight, create_graph=True)
    assert not g.stop_gradient
    (g * g).sum().backward()
    assert before.grad is None
    assert weight.grad is not None
    with pytest.raises(ValueError, match=r"inputs\[0\]"):
        bireme.grad(bireme.grad(PIECES[name](before).sum(), before, create_graph=True), before)
    row = bireme.to_tensor([-1.0, 2.0, 3.0], stop_gradient=False)
    assert bireme.autograd.hessian(PIECES[name](row.reshape([1, 3])).sum(), row)[:].tolist() == [[0.0] * 3] * 3


def test_what_is_only_compared_is_found_once_for_all_lengths(monkeypatch):
    found = GradBound._find_constants
    traced = []
    monkeypatch.setattr(GradBound, "_find_constants", lambda self: traced.append(self) or found(self))
    for n in range(40, 44):
        x = bireme.to_tensor(np.ones((2, n)), stop_gradient=False)
        bireme.grad(F.softplus(bireme.tanh(x), beta=1.5).sum(), x, create_graph=True)
        assert len(traced) <= 3


def test_of_a_product_of_tensors_zeros_are_passed_on():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    for f, wanted in ((lambda: x * y, [6.0, 8.0]), (lambda: x / y, [-2 / 27, -2 / 64])):
        (g,) = bireme.grad(f().sum(), x, create_graph=True)
        (g * g).sum().backward()
        assert x.grad.tolist() == [0.0, 0.0]
        np.testing.assert_allclose(y.grad.numpy(), wanted, rtol=1e-6)
        x.clear_gradient()
        y.clear_gradient()


@pytest.mark.parametrize("f", [bireme.matmul, bireme.outer, lambda x, y: bireme.tensordot(x, y, 1)])
def test_of_two_factors_one_that_alone_wants_a_gradient_is_not_kept(f):
    x, y = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False), bireme.to_tensor([[5.0, 6.0], [7.0, 8.0]])
    for a, b, kept in ((x, y, (False, True)), (y, x, (True, False)), (x, x * 2, (True, True))):
        (edge, _) = f(a, b)._edge
        assert tuple([v is not None for v in edge.saved]) == kept
    f(x, y).sum().backward()
    expected = bireme.ones([2, 2]) @ y.T if f is not bireme.outer else bireme.full([2, 2], y.sum().item())
    assert x.grad.tolist() == expected.tolist()


def test_unused_inputs():
    x, z, stopped = leaf(), leaf(), constant()
    found = bireme.grad((x * stopped).sum(), [x, z, stopped], allow_unused=True)
    assert [None if g is None else g.tolist() for g in found] == [[1.0, 2.0], None, None]
    with pytest.raises(ValueError, match=r"grad\(inputs\[1\]\): expected a tensor that the outputs depend on"):
        bireme.grad(x.sum(), [x, z])


def test_grad_outputs():
    x = leaf()
    (g,) = bireme.grad([x * x, x * 3], [x], grad_outputs=[None, constant(5.0, 5.0)])
    assert g.tolist() == [17.0, 19.0]


@pytest.mark.parametrize("form", [lambda y: [y], lambda y: y, lambda y: {y}])
def test_no_grad_vars(form):
    x = leaf()
    y = x * x
    assert bireme.grad(y * x, x, no_grad_vars=form(y))[0].tolist() == [1.0, 4.0]


def test_gradients_to_differentiate_are_tensors_of_their_own():
    x, y, seed = (bireme.to_tensor([1.0, 2.0], stop_gradient=False) for _ in range(3))
    gs = bireme.grad([x + y], [x, y], [seed], create_graph=True)
    assert len({id(t) for t in (*gs, seed)}) == 3 and not gs[0].is_leaf
    (found,) = bireme.grad(gs, [seed], [x, y])
    assert found.tolist() == [2.0, 4.0]


def test_create_graph():
    x = leaf()
    (g,) = bireme.grad((x**3).sum(), x, create_graph=True)
    assert not g.stop_gradient
    (h,) = bireme.grad(g.sum(), x, create_graph=True)
    assert h.tolist() == [6.0, 12.0]
    h.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_gradient_penalty_reaches_the_weights():
    w, x = leaf(2.0, 3.0), leaf()
    (g,) = bireme.grad(((w * x) ** 2).sum(), x, create_graph=True)
    (g * g).sum().backward()  # (2 w^2 x)^2, by w: 16 w^3 x^2
    assert w.grad.tolist() == [16 * 8.0, 16 * 27.0 * 4]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: bireme.grad(3, x), TypeError, "grad(outputs): expected a Tensor, got 3"),
        (lambda x: bireme.grad(x, [3]), TypeError, "grad(inputs): expected a Tensor, got 3"),
        (lambda x: bireme.grad(x, []), ValueError, "grad(inputs): expected at least one Tensor"),
        (lambda x: bireme.grad(x, x, [None, None]), ValueError, "grad(grad_outputs): expected 1 gradients, got 2"),
        (lambda x: bireme.grad(x, x, only_inputs=False), ValueError, "grad(only_inputs): expected True, got False"),
        (lambda x: bireme.grad(x, x, no_grad_vars=[3]), TypeError, "grad(no_grad_vars): expected a Tensor, got 3"),
    ],
)
def test_bad_arguments_of_grad(call, kind, message):
    with pytest.raises(kind) as caught:
        call(leaf())
    assert message in str(caught.value)


# ---------------------------------------------------------------- hooks


def test_hooks_on_leaves_see_the_whole_gradient_once():
    seen = []
    x = leaf()
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [[5.0, 5.0]]
    assert x.grad.tolist() == [5.0, 5.0]


def test_hooks_replace_in_order_and_are_removed():
    x = leaf()
    first = x.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [21.0, 21.0]
    assert first.remove()
    assert not first.remove()
    x.clear_grad()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_hooks_on_intermediates():
    x = leaf()
    y = x * 2
    handle = y.register_hook(lambda g: g * 10)
    z = (y * 2).sum()
    assert [g.tolist() for g in bireme.grad(z, [x, y])] == [[40.0, 40.0], [20.0, 20.0]]
    handle.remove()
    assert bireme.grad(z, x)[0].tolist() == [4.0, 4.0]


def test_hooks_of_a_leaf_belong_to_its_grad_attribute():
    x = leaf()
    x.register_hook(lambda g: g * 10)
    assert bireme.grad((x * 2).sum(), x)[0].tolist() == [2.0, 2.0]


def test_hooks_survive_in_place_changes_of_their_tensor():
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.scale_(3.0)
    y.sum().backward()
    assert x.grad.tolist() == [60.0, 60.0]


def test_hooks_run_in_the_callers_mode_and_may_differentiate():
    seen = []

    def hook(g):
        seen.append(bireme.is_grad_enabled())
        z = leaf(3.0, 3.0)
        (z * z).sum().backward()
        (w,) = bireme.grad((x * x * x).sum(), x)
        return g * z.grad * w.numpy()

    x = leaf()
    y = x * x
    y.register_hook(hook)
    y.sum().backward()
    assert seen == [True]
    assert x.grad.tolist() == [36.0, 288.0]


def test_an_error_in_a_hook_leaves_everything_usable():
    def hook(g):
        raise KeyError("no")

    x = leaf()
    y = x * 2
    handle = y.register_hook(hook)
    with pytest.raises(KeyError):
        y.sum().backward()
    assert bireme.is_grad_enabled()
    assert x.grad is None
    handle.remove()
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_hook_gets_a_gradient_that_requires_gradients():
    seen = []
    x = leaf()
    x.register_hook(lambda g: seen.append((g.stop_gradient, g.is_leaf)))
    (x * 2).sum().backward()
    assert seen == [(False, True)]


@pytest.mark.parametrize(
    "scaled", [lambda a: a * 2, lambda a: 2 * a, lambda a: a * 2.0, lambda a: a / 0.5, lambda a: a.scale(2.0)]
)
def test_what_only_scales_may_be_written_over(scaled):
    x = leaf()
    a = x * 1
    b = scaled(a)
    a[0] = b[1]
    a.sum().backward()
    assert x.grad.tolist() == [0.0, 3.0]


def test_a_factor_may_not_be_written_over():
    x = leaf()
    a = x * 1
    b = a * a
    a[0] = b[1]
    with pytest.raises(RuntimeError, match="tensor that multiply saved for backward"):
        a.sum().backward()


def test_a_hook_that_changes_its_gradient_changes_no_other():
    x, z = leaf(), leaf()
    y = x * 1
    y.register_hook(bireme.no_grad()(lambda g: g.scale_(3.0)))
    (y + z).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert z.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("result", "kind", "message"),
    [
        (3, TypeError, "expected a hook that returns a Tensor or None, got 3"),
        (constant(1.0, 2.0, 3.0), ValueError, "expected a hook that returns shape [2], got shape [3]"),
    ],
)
def test_hooks_that_return_nonsense(result, kind, message):
    x = leaf()
    y = x * 2
    y.register_hook(lambda g: result)
    with pytest.raises(kind) as caught:
        y.sum().backward()
    assert message in str(caught.value)


def test_where_hooks_cannot_go():
    with pytest.raises(RuntimeError, match="stop_gradient=True"):
        constant().register_hook(lambda g: g)
    with pytest.raises(TypeError, match="expected a callable, got 3"):
        leaf().register_hook(3)


def test_retained_gradients():
    x = leaf()
    y = x * 2
    y.retain_grads()
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward(retain_graph=True)
    assert y.grad.tolist() == [4.0, 8.0]
    assert x.grad.tolist() == [80.0, 160.0]
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]  # the latest: only leaves accumulate
    other = leaf() * 2
    other.sum().backward()
    assert other.grad is None
    used, unused = bireme.split(leaf() * 2, 2)
    unused.retain_grads()
    used.sum().backward()
    assert unused.grad.tolist() == [0.0]
    fixed = constant()
    fixed.retain_grads()
    (fixed * leaf()).sum().backward()
    assert fixed.grad is None


@pytest.mark.parametrize("fill", [lambda y: y.fill_(1.0), lambda y: y.zero_(), lambda y: y.uniform_()])
def test_what_was_filled_over_has_gradient_zero(fill):
    x = leaf()
    y = x * 2
    y.retain_grads()
    fill(y)
    y.sum().backward()
    assert y.grad.tolist() == x.grad.tolist() == [0.0, 0.0]


# ---------------------------------------------------------------- who requires gradients


def test_stop_gradient():
    x, s = leaf(), constant()
    assert not (x * s).stop_gradient
    assert (s * s).stop_gradient
    assert (x > 1).stop_gradient
    assert (x.is_leaf, (x * 2).is_leaf, s.is_leaf, (s * 2).is_leaf) == (True, False, True, True)
    assert not bireme.nn.Linear(2, 2).weight.stop_gradient


def test_stopping_an_intermediate():
    x = leaf()
    y = x * 2
    y.stop_gradient = True
    (y * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    x = leaf()
    y = x * 2
    z = (y * x).sum()
    y.stop_gradient = True  # too late for what is recorded
    z.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_a_result_becomes_a_leaf():
    y = constant() * 2
    y.stop_gradient = False
    (y * y).sum().backward()
    assert y.grad.tolist() == [4.0, 8.0]


def test_detach_and_clone():
    x = leaf()
    y = x * 1
    d = y.detach()
    assert d.stop_gradient
    d.add_(constant(1.0, 1.0))
    assert y.tolist() == [2.0, 3.0]
    c = x.clone()
    assert not c.stop_gradient
    (c * c).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_integers_have_gradients_where_somebody_asks():
    n = bireme.to_tensor([[1, 2], [3, 4]], stop_gradient=False)
    y = n[0] * 3
    y.retain_grads()
    y.sum().backward()
    assert y.grad.tolist() == [1, 1] and y.grad.dtype == bireme.int64
    assert n.grad.tolist() == [[3, 3], [0, 0]] and n.grad.dtype == bireme.int64
    m = bireme.to_tensor([1, 2], stop_gradient=False)
    x = leaf()
    (x * m.astype("float32") * 2.5).sum().backward()
    assert x.grad.tolist() == [2.5, 5.0]
    assert m.grad.tolist() == [2, 5]  # towards zero, as a cast does


def test_where_integers_end_the_way():
    x = leaf()
    (x.astype("int64") * 3).sum().backward()  # Paddle's cast gives on what comes in, whatever the types
    assert x.grad.tolist() == [3.0, 3.0]
    x.clear_grad()
    at = bireme.to_tensor([1, 1], stop_gradient=False)
    assert constant()[at].stop_gradient
    x[at].sum().backward()
    assert x.grad.tolist() == [0.0, 2.0] and at.grad is None  # looked up by them, not made of them


def test_gradients_come_back_in_the_inputs_type():
    x = leaf()
    (g,) = bireme.grad((x.astype("float64") ** 2).sum(), x)
    assert g.dtype == bireme.float32


def test_ties_are_shared():
    x = leaf(1.0, 1.0, 0.0)
    x.max().backward()
    assert x.grad.tolist() == [0.5, 0.5, 0.0]
    x = bireme.to_tensor([[1.0, 1.0, 0.0], [2.0, 1.0, 3.0]], stop_gradient=False)
    x.min(axis=0).sum().backward()
    assert x.grad.tolist() == [[1.0, 0.5, 1.0], [0.0, 0.5, 0.0]]
    x, y = leaf(1.0, 1.0), leaf(1.0, 0.0)
    bireme.maximum(x, y).sum().backward()
    assert x.grad.tolist() == [0.5, 1.0]
    assert y.grad.tolist() == [0.5, 0.0]


# ---------------------------------------------------------------- changes in place


def test_in_place_operators_have_gradients():
    x = leaf()
    y = x * 1
    y.multiply_(x)
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.add_(constant()),
        lambda y: y.__setitem__(0, 5.0),
        lambda y: y.detach().add_(constant()),
        lambda y: y[0:1].scale_(2.0),
    ],
    ids=["operator", "item", "through detach", "through a slice"],
)
def test_a_saved_tensor_that_changed_is_refused(change):
    x = leaf()
    y = x * 1
    z = y * y
    change(y)
    with pytest.raises(
        RuntimeError,
        match="inplace operator has modified since: received tensor_version:1 != wrapper_version_snapshot:0",
    ):
        z.sum().backward()


@pytest.mark.parametrize("call", [
    lambda h: bireme.einsum("ij->i", h), lambda h: bireme.einsum("ij,jk->ik", h, h.detach() * 2), bireme.sort, bireme.var, bireme.std,
    lambda h: bireme.quantile(h, 0.3), lambda h: bireme.nn.functional.cross_entropy(h, bireme.to_tensor([0, 1])), bireme.sign, bireme.sinc,
    bireme.nn.functional.selu, bireme.nan_to_num,
])  # fmt: skip
def test_where_a_change_does_no_harm(call):
    """The gradient is that of the values as they were, as if nothing had been changed."""
    found = []
    for changes in (False, True):
        x = bireme.to_tensor([[1.0, -2.0], [0.5, 3.0]], stop_gradient=False)
        h = x * 1.0
        made = call(h)
        if changes:
            h.add_(bireme.ones([2, 2]))
        (made * made).sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == found[1]


def test_changes_of_what_nobody_saved_are_fine():
    x = leaf()
    y = x * 1
    z = bireme.exp(y + y)
    y.add_(constant())
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([2.0, 4.0]), rtol=1e-6)
    x = leaf()
    z = bireme.exp(x * 1)
    z.add_(constant())
    with pytest.raises(RuntimeError, match="tensor that exp saved for backward"):
        z.sum().backward()


def test_leaves_change_only_under_no_grad():
    x = leaf()
    with pytest.raises(ValueError, match="a leaf Tensor that requires grad"):
        x.add_(constant())
    with bireme.no_grad():
        x.add_(constant())
    assert x.tolist() == [2.0, 4.0]
    assert x.inplace_version == 1
    assert x.is_leaf
    assert not x.stop_gradient


@pytest.mark.parametrize("through", [lambda y: y, lambda y: y[:]], ids=["itself", "a view"])
def test_under_no_grad_numbers_change_and_history_stays(through):
    x = leaf()
    y = x * 2
    with bireme.no_grad():
        through(y).add_(constant(1.0, 1.0))
    (y * y).sum().backward()
    assert x.grad.tolist() == [12.0, 20.0]


def test_a_view_read_under_no_grad_keeps_its_history():
    x = leaf()
    y = x * 2
    v = y[0:1]
    y.scale_(3.0)
    with bireme.no_grad():
        assert v.tolist() == [6.0]
        fresh = y[0:1]
    v.sum().backward()
    assert x.grad.tolist() == [6.0, 0.0]
    assert fresh.stop_gradient


def test_writing_into_a_view_is_differentiated():
    x = leaf(1.0, 2.0, 3.0, 4.0)
    h = x * 2
    h[0:2].scale_(10.0)
    h.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0, 2.0, 2.0]


def test_an_old_graph_keeps_the_old_value():
    x = leaf()
    z = x * x
    x.set_value(np.array([9.0, 9.0], np.float32))
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


# ---------------------------------------------------------------- modes


def test_no_grad_in_every_form():
    x = leaf()
    with bireme.no_grad():
        assert not bireme.is_grad_enabled()
        assert (x * 2).stop_gradient
        with bireme.enable_grad():
            assert not (x * 2).stop_gradient
        assert (x * 2).stop_gradient

    @bireme.no_grad()
    def called(a, *, b=1):
        """Doubles."""
        return (x * a * b).stop_gradient

    @bireme.enable_grad()
    def enabled():
        return (x * 2).stop_gradient

    assert called(2, b=3)
    assert called.__doc__ == "Doubles."
    with bireme.no_grad():
        assert not enabled()
    assert bireme.is_grad_enabled()


def test_set_grad_enabled_as_function_context_and_decorator():
    with bireme.set_grad_enabled(False):
        assert not bireme.is_grad_enabled()
        with bireme.set_grad_enabled(True):
            assert bireme.is_grad_enabled()
        assert not bireme.is_grad_enabled()
    assert bireme.is_grad_enabled()
    try:
        bireme.set_grad_enabled(False)
        assert not bireme.is_grad_enabled()
    finally:
        bireme.set_grad_enabled(True)
    assert bireme.is_grad_enabled()

    @bireme.set_grad_enabled(False)
    def decorated():
        return bireme.is_grad_enabled()

    assert bireme.is_grad_enabled()
    assert not decorated()
    assert bireme.is_grad_enabled()


def test_generators_have_the_mode_and_their_callers_do_not():
    @bireme.no_grad()
    def numbers():
        got = []
        try:
            while True:
                try:
                    got.append((yield bireme.is_grad_enabled()))
                except KeyError:
                    got.append("thrown")
                if len(got) == 3:
                    return got
        finally:
            closed.append(bireme.is_grad_enabled())

    closed = []
    it = numbers()
    assert next(it) is False
    assert bireme.is_grad_enabled()
    assert it.send("sent") is False
    assert it.throw(KeyError()) is False
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == ["sent", "thrown", None]
    it = numbers()
    next(it)
    it.close()
    assert closed == [False, False]
    assert bireme.is_grad_enabled()


def test_modes_are_restored_after_errors():
    with pytest.raises(KeyError), bireme.no_grad():
        raise KeyError
    assert bireme.is_grad_enabled()


def test_modes_belong_to_a_thread():
    seen = []
    with bireme.no_grad():
        thread = threading.Thread(target=lambda: seen.append(bireme.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_threads_go_backward_side_by_side():
    found = {}

    def work(n):
        x = leaf(float(n))
        for _ in range(5):
            y = x
            for _ in range(20):
                y = y * 1.0 + x
            y.backward()
        found[n] = x.grad.item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == dict.fromkeys(range(4), 105.0)


# ---------------------------------------------------------------- what is saved


def test_saved_tensors_hooks():
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.tolist())
        return t.numpy()

    def unpack(a):
        unpacked.append(a.tolist())
        return bireme.to_tensor(a)

    x = leaf()
    with bireme.autograd.saved_tensors_hooks(pack, unpack):
        y = bireme.multiply(x, x)
        z = bireme.exp(y)
    (z * z).sum().backward()  # recorded outside: not packed
    assert packed[:2] == [[1.0, 2.0], [1.0, 2.0]]
    assert len(packed) == 3
    assert sorted(unpacked) == sorted(packed)
    np.testing.assert_allclose(x.grad.numpy(), 4 * np.array([1, 2]) * np.exp([2.0, 8.0]), rtol=1e-5)


@pytest.mark.parametrize("call", [bireme.matmul, lambda x, y: bireme.matmul(y, x)])
def test_a_factor_that_alone_wants_a_gradient_is_not_kept(call):
    x = bireme.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
    frozen = bireme.to_tensor([[5.0, 6.0], [7.0, 8.0]])
    h = x * 1.0
    held = weakref.ref(h._value)
    y = call(h, frozen)
    del h
    assert held() is None
    y.sum().backward()
    both = bireme.to_tensor(x.numpy(), stop_gradient=False)
    frozen.stop_gradient = False
    call(both, frozen).sum().backward()
    assert x.grad.tolist() == both.grad.tolist()


def test_a_gradient_that_reads_one_factor_has_none_for_the_other():
    x, w = leaf(), leaf()
    (g,) = bireme.grad(bireme.matmul(x, w), x, create_graph=True)
    assert bireme.grad(g.sum(), [x, w], allow_unused=True)[0] is None


def test_saved_tensors_are_seen_as_they_were():
    seen, x = [], leaf()

    def pack(t):
        seen.append(t.stop_gradient)
        half = t.astype("float16")
        assert half.stop_gradient  # what is packed is no part of the graph
        return half

    with bireme.autograd.saved_tensors_hooks(pack, lambda t: t.astype("float32")):
        y = bireme.multiply(x, constant()) * x
    assert seen == [False, True, False, False]
    y.sum().backward()
    assert x.grad.tolist() == (2 * x * constant()).tolist()


def test_offloading_to_the_host_and_second_order():
    x = leaf()
    with bireme.autograd.saved_tensors_hooks(lambda t: t.cpu().numpy(), lambda a: bireme.to_tensor(a)):
        y = (bireme.tanh(x) * x).sum()
        (g,) = bireme.grad(y, x, create_graph=True)
    (h,) = bireme.grad(g.sum(), x)
    t = np.tanh([1.0, 2.0])
    np.testing.assert_allclose(g.numpy(), t + np.array([1, 2]) * (1 - t**2), rtol=1e-5)
    np.testing.assert_allclose(h.numpy(), 2 * (1 - t**2) * (1 - np.array([1, 2]) * t), rtol=1e-4, atol=1e-6)


def test_saved_tensors_hooks_nest_and_end():
    log = []
    x = leaf()
    outer = bireme.autograd.saved_tensors_hooks(lambda t: log.append("outer") or t, lambda t: t)
    inner = bireme.autograd.saved_tensors_hooks(lambda t: log.append("inner") or t, lambda t: t)
    with outer:
        with inner:
            x * x
        x * x
    x * x
    assert log == ["inner", "inner", "outer", "outer"]


def test_backward_warns_of_nothing_else():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = leaf()
        (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_labels_of_one_operator_losses_are_constants():
    F = bireme.nn.functional
    losses = {
        "kl_div": lambda x, y: F.kl_div(x.log(), y),
        "kl_div of logarithms": lambda x, y: F.kl_div(x.log(), y.log(), log_target=True),
        "binary_cross_entropy": F.binary_cross_entropy,
        "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
        "with pos_weight": lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=y),
        "log_loss": F.log_loss,
        "cross_entropy": lambda x, y: F.cross_entropy(x, y, soft_label=True),
        "with label_smoothing": lambda x, y: F.cross_entropy(x, y, soft_label=True, label_smoothing=0.1),
    }
    for name, loss in losses.items():
        x, y = (bireme.to_tensor([[0.25], [0.5]], stop_gradient=False) for _ in range(2))
        loss(x, y * 1.0).sum().backward()
        assert x.grad is not None and (y.grad is None or not y.grad.numpy().any()), name
    x, y = (bireme.to_tensor([0.25, 0.5], stop_gradient=False) for _ in range(2))
    F.mse_loss(x, y + 1.0).backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_labels_of_losses_get_no_gradient_at_all():
    F = bireme.nn.functional
    x, y = bireme.full([3], 0.25), bireme.full([3], 0.5)
    x.stop_gradient = y.stop_gradient = False
    losses = [
        F.kl_div(x.log(), y),
        F.binary_cross_entropy(x, y),
        F.binary_cross_entropy_with_logits(x, y),
        F.cross_entropy(x, y, soft_label=True),
    ]
    for loss in losses:
        loss.backward()
    assert x.grad is not None
    assert y.grad is None
    assert F.binary_cross_entropy(x.detach(), y).stop_gradient


@pytest.mark.parametrize(
    "find",
    [lambda x: x.topk(2), lambda x: x.kthvalue(2), lambda x: x.mode(), lambda x: bireme.cummax(x, axis=1),
     lambda x: bireme.cummin(x, axis=1, dtype="int32"), lambda x: bireme.linalg.lu(x[:, :2])],
)  # fmt: skip
def test_indices_beside_values_belong_to_the_graph_without_a_gradient(find):
    x = bireme.to_tensor([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]], stop_gradient=False)
    values, indices = find(x)[:2]
    assert (values.stop_gradient, indices.stop_gradient, indices.is_leaf) == (False, False, False)
    assert (indices + 1).stop_gradient is False
    assert (indices > 0).stop_gradient is True
    by_values = bireme.grad(values.sum(), x)[0].tolist()
    (values.sum() + (indices.astype("float32") * 2).sum()).backward()
    assert x.grad.tolist() == by_values
    assert find(x.detach())[1].stop_gradient is True
    with bireme.no_grad():
        assert find(x)[1].stop_gradient is True


def test_indices_of_medians_are_not_part_of_the_graph():
    x = bireme.to_tensor([[3.0, 1.0, 2.0]], stop_gradient=False)
    for find in (bireme.median, bireme.nanmedian):
        values, indices = find(x, axis=1, mode="min")
        assert (values.stop_gradient, indices.stop_gradient) == (False, True)


@pytest.mark.parametrize("interpret", [True, False])
def test_beyond_a_limit_that_is_a_tensor_the_limit_has_the_gradient(interpret):
    """As a learned range of quantization has it; where both limits are passed, the upper one is the result."""
    bireme.set_flags({"FLAGS_interpret": interpret})
    try:
        x = bireme.to_tensor([-2.0, -1.0, 0.5, 1.0, 2.0], stop_gradient=False)
        low, high = (bireme.to_tensor(v, stop_gradient=False) for v in (-1.0, [1.0]))
        (bireme.clip(x, low, high) * bireme.to_tensor([1.0, 2.0, 3.0, 4.0, 5.0])).sum().backward()
        assert x.grad.tolist() == [0.0, 2.0, 3.0, 4.0, 0.0]
        assert low.grad.item() == 1.0 and high.grad.tolist() == [5.0]
        low, high = (bireme.to_tensor(v, stop_gradient=False) for v in (1.0, -1.0))
        bireme.clip(x.detach(), low, high).sum().backward()
        assert low.grad.item() == 0.0 and high.grad.item() == 5.0
    finally:
        bireme.set_flags({"FLAGS_interpret": True})
