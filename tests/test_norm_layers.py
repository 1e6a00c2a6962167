"""Batch normalisation beyond its rows: running statistics, their place in a step, and conversion to the synchronised
form.
"""

import numpy as np
import pytest

import bireme
from bireme import nn


@pytest.mark.parametrize("axes", [(0,), (0, 2), (0, 2, 3)])
def test_running_statistics_follow_the_batches(axes):
    rng = np.random.default_rng(0)
    layer = {1: nn.BatchNorm1D, 2: nn.BatchNorm1D, 3: nn.BatchNorm2D}[len(axes)](3, momentum=0.75)
    mean, variance = np.zeros(3), np.ones(3)
    for _ in range(3):
        x = rng.standard_normal((4, 3, 2, 5)[: len(axes) + 1])
        layer(bireme.to_tensor(x.astype(np.float32)))
        mean, variance = 0.75 * mean + 0.25 * x.mean(axes), 0.75 * variance + 0.25 * x.var(axes)
    np.testing.assert_allclose(layer._mean.numpy(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer._variance.numpy(), variance, rtol=1e-5)
    layer.eval()
    before = layer._mean.numpy()
    layer(bireme.to_tensor(x.astype(np.float32)))
    assert np.array_equal(layer._mean.numpy(), before)


@pytest.mark.parametrize("shape", [[1, 3], [1, 3, 1], [1, 3, 1, 1]])
def test_one_element_a_channel_is_handed_on(shape):
    layer, x = getattr(bireme.nn, f"BatchNorm{max(len(shape) - 2, 1)}D")(3), bireme.full(shape, 2.0)
    x.stop_gradient = False
    y = layer(x)
    y.sum().backward()
    assert y.tolist() == x.tolist() and x.grad.tolist() == bireme.ones(shape).tolist()
    assert layer.weight.grad.tolist() == layer.bias.grad.tolist() == [0.0] * 3
    assert layer._mean.tolist() == [0.0] * 3


def test_statistics_are_in_the_state_and_not_trained():
    layer = nn.BatchNorm2D(2)
    assert list(layer.state_dict()) == ["weight", "bias", "_mean", "_variance"]
    assert [p.stop_gradient for p in layer.parameters()] == [False, False, True, True]
    x = bireme.randn([2, 2, 3, 3])
    (layer(x) ** 3).sum().backward()
    assert layer._mean.grad is None and layer.weight.grad is not None


def test_global_statistics_stay_while_training():
    layer = nn.BatchNorm1D(2, use_global_stats=True)
    layer(bireme.ones([3, 2]) * 4)
    assert layer._mean.tolist() == [0.0, 0.0]


def test_half_precision_keeps_statistics_in_single():
    layer = nn.BatchNorm1D(2)
    out = layer(bireme.to_tensor(np.array([[1, 2], [3, 6]], np.float16)))
    assert out.dtype is bireme.float16 and layer._mean.dtype is bireme.float32
    np.testing.assert_allclose(layer._mean.numpy(), [0.2, 0.4], rtol=1e-6)


def test_conversion_takes_the_parameters_over():
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1D(2)))
    inner = net[1][0]
    made = nn.SyncBatchNorm.convert_sync_batchnorm(net)
    assert (
        isinstance(made[1][0], nn.SyncBatchNorm)
        and made[1][0].weight is inner.weight
        and made[1][0]._mean is inner._mean
    )


def test_a_converted_layer_keeps_the_name_that_was_given():
    layer = nn.BatchNorm2D(2, weight_attr=bireme.ParamAttr(name="converted.scale"), bias_attr=False)
    made = nn.SyncBatchNorm.convert_sync_batchnorm(layer)
    assert made.weight is layer.weight and made.weight.name == "converted.scale"
    assert made.bias.tolist() == [0.0, 0.0] and made.bias.stop_gradient


def test_group_norm_without_attributes_keeps_its_keys():
    layer = nn.GroupNorm(2, 4, weight_attr=False, bias_attr=False)
    assert list(layer.state_dict()) == ["weight", "bias"] and all(p.stop_gradient for p in layer.parameters())


def test_parameter_of_a_tensor():
    layer = nn.Layer()
    layer.scale = nn.Parameter(bireme.to_tensor([2.0]))
    assert list(layer.state_dict()) == ["scale"] and not layer.scale.stop_gradient
    assert nn.Parameter().shape == [0]
    with pytest.raises(TypeError, match="Parameter\\(data\\): expected a Tensor"):
        nn.Parameter([1.0])


def test_layer_norm_takes_its_axes_as_an_array_or_a_tensor():
    x = bireme.ones([2, 3, 4])
    for axes in (np.array([3, 4]), bireme.to_tensor([3, 4])):
        layer = nn.LayerNorm(axes)
        assert layer(x).shape == [2, 3, 4] and repr(layer) == "LayerNorm(normalized_shape=[3, 4], epsilon=1e-05)"
    with pytest.raises(TypeError, match=r"LayerNorm\(normalized_shape\): expected an integer or a list of integers"):
        nn.LayerNorm(np.array([[3, 4]]))
