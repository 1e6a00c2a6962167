"""Normalised weights, clipping in place, parameters as a vector, and the initializers with a law of their own."""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.nn import initializer, utils


def linear(seed=0):
    layer = nn.Linear(3, 4)
    layer.weight.set_value(np.random.default_rng(seed).normal(size=(3, 4)).astype("float32"))
    return layer


X = np.random.default_rng(1).normal(size=(2, 3)).astype("float32")


# ---------------------------------------------------------------- weight_norm


@pytest.mark.parametrize(("dim", "axes"), [(0, 1), (1, 0), (-2, 1), (None, None), (-1, None)])
def test_weight_norm_splits_length_and_direction(dim, axes):
    layer = linear()
    before = layer.weight.numpy().copy()
    expected = layer(bireme.to_tensor(X)).numpy()
    assert utils.weight_norm(layer, dim=dim) is layer
    assert [k for k, _ in layer.named_parameters()] == ["bias", "weight_v", "weight_g"]
    assert sorted(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    np.testing.assert_allclose(layer.weight_g.numpy(), np.sqrt((before**2).sum(axes)), rtol=1e-6)
    np.testing.assert_allclose(layer(bireme.to_tensor(X)).numpy(), expected, rtol=1e-5, atol=1e-6)
    layer.weight_v.set_value(before * 7)  # the length of the direction does not count
    np.testing.assert_allclose(layer(bireme.to_tensor(X)).numpy(), expected, rtol=1e-5, atol=1e-6)
    (layer(bireme.to_tensor(X)) ** 2).sum().backward()
    along = (layer.weight_v.grad.numpy() * layer.weight_v.numpy()).sum(axes)
    np.testing.assert_allclose(along, np.zeros_like(along), atol=1e-4)  # no gradient along the direction itself


def test_weight_norm_is_removed():
    layer = utils.weight_norm(linear())
    layer.weight_g.set_value(layer.weight_g.numpy() * 2)
    expected = layer(bireme.to_tensor(X)).numpy()
    utils.remove_weight_norm(layer)
    assert [k for k, _ in layer.named_parameters()] == ["bias", "weight"] and not layer._forward_pre_hooks
    np.testing.assert_allclose(layer(bireme.to_tensor(X)).numpy(), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"remove_weight_norm\(name\)"):
        utils.remove_weight_norm(layer)


def test_normalised_weights_train():
    for change in (utils.weight_norm, utils.spectral_norm):
        layer = change(linear())
        opt = bireme.optimizer.SGD(0.05, parameters=layer.parameters())
        losses = []
        for _ in range(20):
            loss = ((layer(bireme.to_tensor(X)) - 0.3) ** 2).mean()
            loss.backward()
            opt.step()
            opt.clear_grad()
            losses.append(loss)
        assert losses[-1].item() < 0.6 * losses[0].item()


# ---------------------------------------------------------------- spectral_norm


def test_spectral_norm_brings_the_largest_singular_value_to_one():
    layer = utils.spectral_norm(linear(), n_power_iterations=3)
    assert layer.weight_u.shape == [4] and layer.weight_v.shape == [3]
    for _ in range(10):
        layer(bireme.to_tensor(X))
    sizes = np.linalg.svd(layer.weight.numpy(), compute_uv=False)
    assert sizes[0] == pytest.approx(1.0, rel=1e-4)
    original = np.linalg.svd(layer.weight_orig.numpy(), compute_uv=False)
    np.testing.assert_allclose(sizes, original / original[0], rtol=1e-4)
    layer.eval()
    held = layer.weight_u.numpy().copy()
    layer(bireme.to_tensor(X))
    assert np.array_equal(layer.weight_u.numpy(), held)


def test_spectral_norm_takes_other_axes_and_two_forwards_before_one_backward():
    conv = utils.spectral_norm(nn.Conv2D(2, 3, 3))
    assert conv.weight_u.shape == [3] and conv.weight_v.shape == [18]
    assert utils.spectral_norm(nn.Conv2D(2, 3, 3), dim=1).weight_u.shape == [2]
    layer = utils.spectral_norm(linear())
    x = bireme.to_tensor(X)
    (layer(x).sum() + layer(x).sum()).backward()
    assert np.isfinite(layer.weight_orig.grad.numpy()).all()
    assert layer.weight_u.stop_gradient and layer.weight_v.grad is None


@pytest.mark.parametrize(
    ("act", "kind", "message"),
    [
        (lambda: utils.weight_norm(utils.weight_norm(linear())), RuntimeError, "a layer without weight_norm on weight"),
        (lambda: utils.spectral_norm(utils.spectral_norm(linear())), RuntimeError, "a layer without spectral_norm on weight"),
        (lambda: utils.weight_norm(linear(), "wait"), KeyError, "one of 'weight', 'bias'"),
        (lambda: utils.weight_norm(linear(), dim=2), AssertionError, r"weight_norm\(dim\)"),
        (lambda: utils.spectral_norm(linear(), dim=2), ValueError, r"spectral_norm\(dim\)"),
        (lambda: utils.spectral_norm(linear(), n_power_iterations=0), ValueError, r"spectral_norm\(n_power_iterations\)"),
        (lambda: utils.clip_grad_norm_(linear().parameters(), 1.0, 3), ValueError, r"clip_grad_norm_\(norm_type\)"),
        (lambda: utils.clip_grad_norm_(3, 1.0), TypeError, r"clip_grad_norm_\(parameters\)"),
        (lambda: utils.clip_grad_value_(linear().parameters(), -1.0), ValueError, r"clip_grad_value_\(clip_value\)"),
        (lambda: utils.vector_to_parameters(bireme.zeros([3]), linear().parameters()), ValueError, "at least 16 elements"),
        (lambda: utils.parameters_to_vector([]), IndexError, "at least one parameter"),
    ],
)
def test_bad_arguments(act, kind, message):
    with pytest.raises(kind, match=message):
        act()


# ---------------------------------------------------------------- gradients and vectors


def with_grads(*grads):
    params = [bireme.to_tensor(np.zeros_like(g), stop_gradient=False) for g in grads]
    sum((p * bireme.to_tensor(g)).sum() for p, g in zip(params, grads, strict=True)).backward()
    return params


GRADS = np.array([3.0, 0.0, -4.0], "float32"), np.array([[12.0]], "float32")


@pytest.mark.parametrize(("order", "total"), [(2, 13.0), (2.0, 13.0), (1, 19.0), (float("inf"), 12.0), (0, 2.0)])
@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_clip_grad_norm(order, total, limit):
    params = with_grads(*GRADS)
    found = utils.clip_grad_norm_(iter(params), limit, order)
    assert found.item() == pytest.approx(total) and found.shape == []
    for p, g in zip(params, GRADS, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), g * min(1, limit / total), rtol=1e-5)


def test_clip_grad_norm_of_what_is_not_finite():
    params = with_grads(np.array([np.inf, 1.0], "float32"))
    with pytest.raises(RuntimeError, match="error_if_nonfinite=False"):
        utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert params[0].grad.tolist() == [np.inf, 1.0]
    assert utils.clip_grad_norm_(params, 1.0).item() == np.inf
    assert utils.clip_grad_norm_([], 1.0).item() == utils.clip_grad_norm_([bireme.ones([2])], 1.0).item() == 0.0


def test_clip_grad_value():
    params = with_grads(*GRADS)
    assert utils.clip_grad_value_(params, 3.5) is None
    assert [p.grad.tolist() for p in params] == [[3.0, 0.0, -3.5], [[3.5]]]


def test_parameters_as_a_vector():
    layer, other = linear(0), linear(1)
    vector = utils.parameters_to_vector(layer.parameters())
    assert vector.shape == [16] and np.array_equal(vector.numpy()[:12], layer.weight.numpy().ravel())
    utils.vector_to_parameters(vector, other.parameters())
    assert np.array_equal(other.weight.numpy(), layer.weight.numpy()) and not other.weight.stop_gradient


# ---------------------------------------------------------------- initializers


def test_bilinear_kernels_enlarge_images():
    kernel = initializer.Bilinear().sample([2, 1, 4, 4], "float32").numpy()
    hat = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(kernel, np.broadcast_to(np.outer(hat, hat), kernel.shape))
    np.testing.assert_allclose(initializer.Bilinear().sample([1, 1, 3, 3], "float64").numpy()[0, 0, 0], np.array([0.25, 0.75, 0.75]) / 4)


@pytest.mark.parametrize(("shape", "groups"), [([4, 2, 3], 1), ([4, 2, 3, 3], 2), ([2, 4, 1, 3, 2], 1)])
def test_dirac_kernels_hand_on(shape, groups):
    kernel = initializer.Dirac(groups).sample(shape, "float32").numpy()
    assert set(np.unique(kernel)) <= {0.0, 1.0} and kernel.sum() == groups * min(shape[0] // groups, shape[1])
    middle = tuple(n // 2 for n in shape[2:])
    for out in range(shape[0]):
        channel = out % (shape[0] // groups)
        assert channel >= shape[1] or kernel[(out, channel, *middle)] == 1


@pytest.mark.parametrize(
    ("fill", "law"),
    [
        (lambda w: nn.init.kaiming_uniform_(w, a=5**0.5), lambda w: abs(w.std() * np.sqrt(200) - np.sqrt(1 / 3)) < 0.02),
        (lambda w: nn.init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"), lambda w: abs(w.std() * np.sqrt(300) - np.sqrt(2)) < 0.03),
        (lambda w: nn.init.xavier_uniform_(w, 2.0), lambda w: abs(w.std() - 2 * np.sqrt(2 / 500)) < 0.005),
        (lambda w: nn.init.xavier_normal_(w), lambda w: abs(w.std() - np.sqrt(2 / 500)) < 0.003),
        (lambda w: nn.init.uniform_(w, 2.0, 4.0), lambda w: w.min() >= 2 and w.max() <= 4 and abs(w.mean() - 3) < 0.02),
        (lambda w: nn.init.normal_(w, 1.0, 2.0), lambda w: abs(w.mean() - 1) < 0.05 and abs(w.std() - 2) < 0.05),
        (lambda w: nn.init.trunc_normal_(w, std=2.0, a=-1.0, b=0.5), lambda w: w.min() >= -1 and w.max() <= 0.5),
        (lambda w: nn.init.constant_(w, 3.0), lambda w: (w == 3).all()),
        (lambda w: nn.init.ones_(w), lambda w: (w == 1).all()),
        (lambda w: nn.init.zeros_(w), lambda w: (w == 0).all()),
        (lambda w: nn.init.eye_(w), lambda w: np.array_equal(w, np.eye(200, 300))),
        (lambda w: nn.init.orthogonal_(w), lambda w: np.allclose(w @ w.T, np.eye(200), atol=1e-4)),
    ],
)
def test_tensors_are_filled_in_place(fill, law):
    bireme.seed(3)
    p = nn.Layer().create_parameter([200, 300])
    assert fill(p) is p and not p.stop_gradient and law(p.numpy())


@pytest.mark.parametrize("shape", [[4, 3], [3, 4], [2, 3, 4], [3, 3]])
def test_orthogonal_rows_or_columns(shape):
    matrix = initializer.Orthogonal(2.0).sample(shape, "float32").numpy().reshape(shape[0], -1)
    product = matrix @ matrix.T if len(matrix) <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)
    assert initializer.Orthogonal().sample(shape, "bfloat16").dtype is bireme.bfloat16


@pytest.mark.parametrize(
    ("make", "shape", "kind"),
    [
        (lambda: initializer.Bilinear(), [2, 2, 3], ValueError),
        (lambda: initializer.Bilinear(), [2, 2, 3, 4], ValueError),
        (lambda: initializer.Dirac(), [2, 2], AssertionError),
        (lambda: initializer.Dirac(2), [3, 2, 3], AssertionError),
        (lambda: initializer.Dirac(0), [2, 2, 3], AssertionError),
        (lambda: initializer.Dirac("a"), [2, 2, 3], TypeError),
        (lambda: initializer.Orthogonal(), [3], AssertionError),
        (lambda: nn.init.eye_(bireme.zeros([2])), [3], AssertionError),
        (lambda: nn.init.ones_(3), [3], TypeError),
    ],
)
def test_shapes_that_have_no_such_values(make, shape, kind):
    with pytest.raises(kind, match="expected"):
        nn.Layer().create_parameter(shape, default_initializer=make())


@pytest.mark.parametrize("name", ["Bilinear", "KaimingUniform", "Normal", "Orthogonal", "TruncatedNormal", "Uniform", "XavierNormal"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64"])
def test_types_that_have_no_such_values(name, dtype):
    with pytest.raises(TypeError, match="expected a floating"):
        getattr(initializer, name)().sample([2, 2, 3, 3], dtype)
