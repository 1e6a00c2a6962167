"""PyLayer: the user's own forward and backward as one operator on the tape."""

import gc
import weakref

import numpy as np
import pytest

import bireme
from bireme.autograd import PyLayer
from bireme.autograd.py_layer import once_differentiable
from bireme.incubate import autograd as functional


def layer(forward, backward):
    return type("Custom", (PyLayer,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def leaf(*values):
    return bireme.to_tensor(list(values) or [1.0, 2.0], stop_gradient=False)


class Cube(PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensor()
        return g * 3 * x * x


class Exp(PyLayer):
    @staticmethod
    def forward(ctx, x):
        y = bireme.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensor()[0]


def test_forward_and_backward():
    x = leaf()
    y = Cube.apply(x)
    assert y.tolist() == [1.0, 8.0]
    assert not y.stop_gradient
    assert not y.is_leaf
    (y * 2).sum().backward()
    assert x.grad.tolist() == [6.0, 24.0]


def test_forward_does_not_record_and_attributes_travel():
    seen = []

    def forward(ctx, x, factor, *, shift=0.0):
        seen.append((bireme.is_grad_enabled(), (x * 2).stop_gradient))
        ctx.factor = factor
        return x * factor + shift

    x = leaf()
    y = layer(forward, lambda ctx, g: g * ctx.factor).apply(x, 3.0, shift=1.0)
    assert seen == [(False, True)]
    assert bireme.is_grad_enabled()
    y.sum().backward()
    assert y.tolist() == [4.0, 7.0]
    assert x.grad.tolist() == [3.0, 3.0]


def test_without_gradients_nothing_is_recorded():
    assert Cube.apply(bireme.to_tensor([1.0])).stop_gradient
    with bireme.no_grad():
        assert Cube.apply(leaf()).stop_gradient
    x = bireme.to_tensor([1.0])
    assert layer(lambda ctx, x: x, lambda ctx, g: g).apply(x) is x
    assert layer(lambda ctx, n: bireme.ones([n]), lambda ctx, g: g).apply(2).tolist() == [1.0, 1.0]


# ---------------------------------------------------------------- inputs


def test_tensors_by_keyword_count_in_the_order_given():
    a, b = leaf(), leaf()
    layer(lambda ctx, x, y: x + y, lambda ctx, g: (g, g * 2)).apply(y=a, x=b).sum().backward()
    assert a.grad.tolist() == [1.0, 1.0]
    assert b.grad.tolist() == [2.0, 2.0]


def test_a_list_of_tensors_is_one_place():
    a, b, c = leaf(), leaf(), leaf()
    double = layer(lambda ctx, xs, y: xs[0] + xs[1] + y, lambda ctx, g: ([g, g * 2], g * 3))
    double.apply([a, b], c).sum().backward()
    assert [t.grad.tolist() for t in (a, b, c)] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    alone = layer(lambda ctx, xs: xs[0] + xs[2], lambda ctx, g: [g * 4, None])
    a, b = leaf(), leaf()
    alone.apply([a, None, b]).sum().backward()
    assert a.grad.tolist() == [4.0, 4.0]
    assert b.grad is None


def test_tensors_deeper_inside_get_no_gradient():
    a = leaf()
    assert layer(lambda ctx, d: d["a"] * 2, lambda ctx, g: g).apply({"a": a}).stop_gradient
    assert layer(lambda ctx, xs: xs[0][0] * 2, lambda ctx, g: g).apply([[a]]).stop_gradient


def test_the_same_tensor_twice():
    a = leaf()
    layer(lambda ctx, x, y: x + y, lambda ctx, g: (g, g * 2)).apply(a, a).sum().backward()
    assert a.grad.tolist() == [3.0, 3.0]


def test_stopped_inputs():
    a, b = leaf(), bireme.to_tensor([1.0, 2.0])
    layer(lambda ctx, x, y: x + y, lambda ctx, g: (None, g * 5)).apply(b, a).sum().backward()
    assert a.grad.tolist() == [5.0, 5.0]
    a = leaf()
    layer(lambda ctx, x, y: x + y, lambda ctx, g: g * 6).apply(a, b).sum().backward()
    assert a.grad.tolist() == [6.0, 6.0]
    a = leaf()
    layer(lambda ctx, x, y: x + y, lambda ctx, g: (g * 7, g)).apply(a, b).sum().backward()
    assert a.grad.tolist() == [7.0, 7.0]
    assert b.grad is None


# ---------------------------------------------------------------- results


def test_several_results_of_which_some_are_unused():
    seen = []

    def backward(ctx, *gs):
        seen.append([g.tolist() for g in gs])
        return gs[0] * 2 + gs[1] * 3

    x = leaf()
    out = layer(lambda ctx, x: (x * 2, "text", x * 3, None, 5), backward).apply(x)
    assert isinstance(out, tuple)
    assert out[1:2] + out[3:] == ("text", None, 5)
    out[0].sum().backward()
    assert seen == [[[1.0, 1.0], [0.0, 0.0]]]
    assert x.grad.tolist() == [2.0, 2.0]


def test_lists_among_the_results():
    x = leaf()
    out = layer(lambda ctx, x: [x * 2, [x * 3, x * 4]], lambda ctx, g, gs: g * 2 + gs[0] * 3 + gs[1] * 4).apply(x)
    assert isinstance(out, list)
    (out[0] + out[1][0] * 10).sum().backward()
    assert x.grad.tolist() == [32.0, 32.0]


def test_unused_results_as_none():
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    seen = []
    x = leaf()
    first, _ = layer(forward, lambda ctx, *gs: (seen.append(gs[1]), gs[0])[1]).apply(x)
    first.sum().backward()
    assert seen == [None]


def test_integer_and_marked_results_have_no_gradient():
    def forward(ctx, x):
        marked = x * 3
        ctx.mark_non_differentiable(marked)
        return x * 2, marked, x.argmax()

    seen = []
    x = leaf()
    y, marked, index = layer(forward, lambda ctx, *gs: (seen.extend(g.tolist() for g in gs), gs[0] * 2)[1]).apply(x)
    assert (y.stop_gradient, marked.stop_gradient, index.stop_gradient) == (False, True, True)
    y.sum().backward()
    assert seen == [[1.0, 1.0], [0.0, 0.0], 0]
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_result_is_the_tensor_that_forward_made():
    made = []

    def forward(ctx, x):
        made.append(x * 2)
        return made[0]

    assert layer(forward, lambda ctx, g: g).apply(leaf()) is made[0]


def test_an_input_that_comes_back_was_changed_in_place():
    x = leaf()
    h = x * 1
    y = layer(lambda ctx, x: x.scale_(3.0), lambda ctx, g: g * 3).apply(h)
    assert y is h
    assert h.inplace_version == 2
    (y * h).sum().backward()
    assert x.grad.tolist() == [18.0, 36.0]
    with pytest.raises(ValueError, match="a leaf Tensor that requires grad"):
        layer(lambda ctx, x: x, lambda ctx, g: g).apply(leaf())


def test_an_input_that_comes_back_as_a_tensor_of_its_own():
    def forward(ctx, x):
        ctx.mark_not_inplace(x)
        return x

    x = leaf()
    y = layer(forward, lambda ctx, g: g * 7).apply(x)
    assert y is not x
    assert x.is_leaf
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


def test_results_that_are_views_of_the_input():
    x = leaf()
    y = layer(lambda ctx, x: x[0:1], lambda ctx, g: bireme.concat([g, g]) * 7).apply(x * 1)
    (y * 2).sum().backward()
    assert x.grad.tolist() == [14.0, 14.0]
    x = leaf()
    y = layer(lambda ctx, x: x.detach(), lambda ctx, g: g * 7).apply(x * 1)
    y.sum().backward()
    assert x.grad.tolist() == [7.0, 7.0]


# ---------------------------------------------------------------- what is saved


def test_saved_tensors_are_themselves():
    seen = []

    def forward(ctx, x):
        assert ctx.saved_tensor() is None
        ctx.save_for_backward(None, 3)
        ctx.save_for_backward(x, [x, "a"], None)  # replaces the first
        return x * 2

    def backward(ctx, g):
        seen.extend(ctx.saved_tensor())
        return g

    x = leaf()
    h = x * 1
    layer(forward, backward).apply(h).sum().backward()
    assert seen[0] is h
    assert seen[1][0] is h
    assert seen[1][1:] == ["a"]
    assert seen[2] is None


def test_saved_tensors_keep_the_value_they_had():
    x = leaf()
    h = x * 1
    y = Cube.apply(h)
    h.add_(bireme.to_tensor([10.0, 10.0]))
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]


def test_what_forward_does_in_place_is_part_of_what_is_saved():
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.scale_(3.0)

    x = leaf()
    layer(forward, lambda ctx, g: g * ctx.saved_tensor()[0]).apply(x * 1).sum().backward()
    assert x.grad.tolist() == [3.0, 6.0]


def test_saved_tensors_hooks():
    log = []

    def pack(t):
        log.append("pack")
        return t.numpy()

    def unpack(a):
        log.append("unpack")
        return bireme.to_tensor(a)

    x = leaf()
    with bireme.autograd.saved_tensors_hooks(pack, unpack):
        y = Cube.apply(x)
        z = Exp.apply(x)
    assert log == ["pack", "pack"]
    (first,) = bireme.grad((y + z).sum(), x, create_graph=True)
    assert log == ["pack", "pack", "unpack", "unpack"]
    np.testing.assert_allclose(first.numpy(), 3 * np.array([1, 4]) + np.exp([1, 2]), rtol=1e-6)
    (second,) = bireme.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * np.array([1, 2]) + np.exp([1, 2]), rtol=1e-6)


def test_nothing_keeps_a_dropped_graph_alive():
    gc.disable()
    try:
        x = leaf()
        y = Exp.apply(x)
        edge = weakref.ref(y._edge[0])
        del y
        assert edge() is None
    finally:
        gc.enable()


# ---------------------------------------------------------------- higher order, forward mode


@pytest.mark.parametrize(("custom", "derivatives"), [(Cube, [12.0, 12.0, 6.0]), (Exp, [np.exp(2.0)] * 3)])
def test_higher_derivatives(custom, derivatives):
    x = leaf(2.0)
    y = custom.apply(x)
    for expected in derivatives:
        (y,) = bireme.grad(y.sum(), x, create_graph=True)
        assert y.item() == pytest.approx(expected, rel=1e-6)


def test_backward_follows_create_graph():
    seen = []

    def backward(ctx, g):
        seen.append(bireme.is_grad_enabled())
        return g

    custom = layer(lambda ctx, x: x * 1, backward)
    x = leaf()
    custom.apply(x).sum().backward()
    bireme.grad(custom.apply(x).sum(), x)
    bireme.grad(custom.apply(x).sum(), x, create_graph=True)
    assert seen == [False, False, True]


def test_forward_mode_goes_through():
    x = leaf(2.0)
    _, tangent = functional.jvp(lambda x: Cube.apply(x * x), x)
    assert tangent.item() == pytest.approx(6 * 2.0**5)
    _, second = functional.jvp(lambda x: functional.jvp(Cube.apply, x)[1], x)
    assert second.item() == pytest.approx(12.0)


# ---------------------------------------------------------------- backward is the user's code


def test_twice_through_one_graph():
    x = leaf()
    y = Cube.apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [6.0, 24.0]
    with pytest.raises(RuntimeError, match="freed"):
        y.backward()


def test_backward_may_run_differentiate_and_go_backward_itself():
    inner = leaf(3.0, 3.0)

    def backward(ctx, g):
        assert g.numpy().tolist() == [1.0, 1.0]
        with bireme.enable_grad():
            (slope,) = bireme.grad((inner * inner).sum(), inner)
            (inner * 5).sum().backward()
        return g * slope

    x = leaf()
    layer(lambda ctx, x: x * 2, backward).apply(x * 1).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    assert inner.grad.tolist() == [5.0, 5.0]
    assert bireme.is_grad_enabled()


def test_recomputation():
    """The pattern of recompute: run forward again inside backward and differentiate that."""

    class Recompute(PyLayer):
        @staticmethod
        def forward(ctx, function, x):
            ctx.function = function
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensor()
            again = x.detach()
            again.stop_gradient = x.stop_gradient
            with bireme.enable_grad():
                y = ctx.function(again)
            bireme.autograd.backward([y], [g])
            return again.grad

    weight = leaf(0.5, 0.3)
    x = leaf()
    Recompute.apply(lambda x: bireme.tanh(x * weight), x * 1).sum().backward()
    slope = 1 - np.tanh([0.5, 0.6]) ** 2
    np.testing.assert_allclose(x.grad.numpy(), slope * [0.5, 0.3], rtol=1e-5)
    np.testing.assert_allclose(weight.grad.numpy(), slope * [1, 2], rtol=1e-5)


def test_an_error_in_backward_leaves_the_graph_usable():
    fails = [True]

    def backward(ctx, g):
        if fails.pop():
            raise KeyError("no")
        return g * 2

    x = leaf()
    y = layer(lambda ctx, x: x * 2, backward).apply(x * 3)
    with pytest.raises(KeyError, match="no"):
        y.sum().backward()
    assert bireme.is_grad_enabled()
    assert x.grad is None
    fails.append(False)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_changing_a_gradient_in_place_stays_in_backward():
    x, z = leaf(), leaf()
    y = layer(lambda ctx, x: x * 2, lambda ctx, g: g.scale_(10.0)).apply(x)
    (y + z).sum().backward()
    assert x.grad.tolist() == [10.0, 10.0]
    assert z.grad.tolist() == [1.0, 1.0]


def test_hooks_on_results():
    x = leaf()
    y = Cube.apply(x)
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert x.grad.tolist() == [30.0, 120.0]


def test_no_gradient_at_all():
    x = leaf()
    layer(lambda ctx, x: x * 2, lambda ctx, g: None).apply(x).sum().backward()
    assert x.grad is None


def test_the_gradients_type_is_the_inputs():
    x = leaf()
    layer(lambda ctx, x: x * 2, lambda ctx, g: g.astype("float64")).apply(x).sum().backward()
    assert x.grad.dtype == bireme.float32


TWO = (lambda ctx, x, y: x + y, 2)


@pytest.mark.parametrize(
    ("forward", "arguments", "backward", "message"),
    [
        (*TWO, lambda ctx, g: g, "Custom.backward: expected 2 gradients, one per Tensor that forward took, got 1"),
        (*TWO, lambda ctx, g: (g, g, None), "expected 2 gradients, one per Tensor that forward took, got 3"),
        (*TWO, lambda ctx, g: (g, 3.0), "expected a Tensor or None as gradient 1, got 3.0"),
        (*TWO, lambda ctx, g: (g, g[0]), "expected gradient 1 of the input's shape [2], got shape []"),
        (lambda ctx, x: x * 2, 1, lambda ctx, g: [g], "expected a Tensor or None as gradient 0"),
        (lambda ctx, xs: xs[0] * 2, 0, lambda ctx, g: [g], "expected a list of 2 gradients for a list of 2 Tensors"),
    ],
)
def test_wrong_gradients(forward, arguments, backward, message):
    given = [leaf() for _ in range(arguments)] or [[leaf(), leaf()]]
    y = layer(forward, backward).apply(*given)
    with pytest.raises(ValueError) as caught:
        y.sum().backward()
    assert message in str(caught.value)


def test_missing_parts():
    with pytest.raises(NotImplementedError, match="forward"):
        type("Empty", (PyLayer,), {}).apply(leaf())
    half = type("Half", (PyLayer,), {"forward": staticmethod(lambda ctx, x: x * 2)})
    with pytest.raises(NotImplementedError, match="backward"):
        half.apply(leaf()).sum().backward()
    with pytest.raises(ValueError, match="at least one Tensor among the results, got 3"):
        layer(lambda ctx, x: 3, lambda ctx, g: g).apply(leaf())


def test_a_backward_that_is_not_differentiable():
    class Square(PyLayer):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensor()
            return g * 2 * x

    x = bireme.to_tensor([3.0], stop_gradient=False)
    (g,) = bireme.grad(Square.apply(x), x, create_graph=True)
    assert g.tolist() == [6.0]
    with pytest.raises(ValueError, match="not used in the graph"):
        bireme.grad(g, x)


class Doubled(PyLayer):
    """Hands on what `made` computes from its gradient."""

    @staticmethod
    def forward(ctx, x, made=lambda g: g * 2):
        ctx.made = made
        return x * 2

    @staticmethod
    def backward(ctx, g):
        ctx.made.seen = g.stop_gradient
        return ctx.made(g)


def stopped_after(made, *, hook=None, again=False):
    x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    if hook is not None:
        x.register_hook(hook)
    Doubled.apply(x, made).sum().backward()
    if again:
        (x * x).sum().backward()
    return x.grad.stop_gradient


def test_a_gradient_keeps_the_flag_that_backward_gave_it():
    def computed(g):
        return g * 2

    def differentiable(g):
        with bireme.enable_grad():
            return g * 2

    assert stopped_after(computed) is True
    assert computed.seen is False
    assert stopped_after(lambda g: g) is False
    assert stopped_after(differentiable) is False
    assert stopped_after(lambda g: g.detach()) is True
    assert stopped_after(computed, again=True) is True
    assert stopped_after(computed, hook=lambda g: None) is True
    assert stopped_after(computed, hook=lambda g: bireme.ones([2])) is True
    assert stopped_after(lambda g: g, hook=lambda g: g * 2) is False
    assert stopped_after(lambda g: g, hook=lambda g: g.detach()) is True


def test_operators_and_what_they_follow_give_gradients_that_may_be_differentiated():
    x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    h = x * 3
    h.retain_grads()
    y = Doubled.apply(h)
    y.retain_grads()
    seen = []
    y.register_hook(lambda g: seen.append(g.stop_gradient))
    h.register_hook(lambda g: seen.append(g.stop_gradient))
    (y * y).sum().backward()
    assert seen == [False, True]
    assert [t.grad.stop_gradient for t in (y, h, x)] == [False, True, False]
    assert [g.stop_gradient for g in bireme.grad(Doubled.apply(x), x)] == [True]
