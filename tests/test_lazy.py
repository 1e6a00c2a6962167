"""Parameters made inside LazyGuard draw their values when they are asked to; parameters of no layer."""

import numpy as np
import pytest

import bireme
from bireme import nn


def test_values_come_when_asked_for():
    with bireme.LazyGuard():
        layer = nn.Linear(3, 2)
        norm = nn.BatchNorm1D(2)
    assert layer.weight.shape == [3, 2] and layer.weight.dtype == bireme.float32 and not layer.weight.stop_gradient
    x = bireme.ones([4, 3])
    with pytest.raises(
        RuntimeError,
        match=r"a parameter created inside LazyGuard, which is not initialized yet\n  hint: call initialize\(\)",
    ):
        layer(x).numpy()
    for p in [*layer.parameters(), *norm.parameters()]:
        p.initialize()
    assert norm(layer(x)).shape == [4, 2]
    assert layer.bias.tolist() == [0.0, 0.0] and norm.weight.tolist() == [1.0, 1.0]
    assert len(set(layer.weight.flatten().tolist())) == 6
    with pytest.raises(AssertionError, match="a parameter created inside LazyGuard that is not initialized yet"):
        layer.weight.initialize()


def test_the_same_values_as_at_once():
    bireme.seed(7)
    at_once = nn.Linear(3, 2).weight.numpy()
    with bireme.LazyGuard():
        layer = nn.Linear(3, 2)
    bireme.seed(7)
    layer.weight.initialize()
    np.testing.assert_array_equal(layer.weight.numpy(), at_once)


def test_a_state_dict_gives_values():
    source = nn.Linear(3, 2)
    with bireme.LazyGuard(), bireme.LazyGuard():
        layer = nn.Linear(3, 2)
    assert layer.set_state_dict(source.state_dict()) == ([], [])
    np.testing.assert_array_equal(layer.weight.numpy(), source.weight.numpy())
    assert nn.Linear(1, 1).bias.tolist() == [0.0]


def test_lazy_parameters_train():
    with bireme.LazyGuard():
        layer = nn.Linear(1, 1)
    optimizer = bireme.optimizer.SGD(0.1, layer.parameters())
    for p in layer.parameters():
        p.initialize()
    losses = []
    for _ in range(3):
        loss = (layer(bireme.ones([1, 1])) - 3).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_parameters_of_no_layer():
    with bireme.utils.unique_name.guard():
        assert bireme.create_parameter([2, 3], "float32").name == "create_parameter_0.w_0"
        bias = bireme.create_parameter(shape=[2], dtype="float32", is_bias=True)
        assert bias.name == "create_parameter_1.b_0" and bias.tolist() == [0.0, 0.0]
        assert bireme.create_parameter([2], "float32", name="abc").name == "abc"
        attr = bireme.ParamAttr(name="xyz", trainable=False, initializer=nn.initializer.Constant(3.0))
        fixed = bireme.create_parameter([2], "float32", attr=attr)
        assert (fixed.name, fixed.tolist(), fixed.stop_gradient) == ("xyz", [3.0, 3.0], True)
        assert (
            bireme.create_parameter([2], "float32", name="nm", attr=bireme.ParamAttr(learning_rate=0.5)).name
            == "nm.w_0"
        )
    assert bireme.create_parameter([2], "float32", attr=False) is None
    assert bireme.create_parameter([2], "int32", default_initializer=nn.initializer.Constant(3)).tolist() == [3, 3]
    for bad in ({"shape": 2, "dtype": "float32"}, {"shape": [2], "dtype": "foo"}, {"shape": [2], "dtype": "int64"}):
        with pytest.raises(TypeError, match="create_parameter"):
            bireme.create_parameter(**bad)
    with pytest.raises(ValueError, match="non-negative sizes"):
        bireme.create_parameter([-1], "float32")


def test_parameters_from_tensors():
    p = nn.Parameter.from_tensor(bireme.to_tensor([1.0]), name="p", trainable=False)
    assert (p.name, p.stop_gradient, type(p)) == ("p", True, nn.Parameter)
    with pytest.raises(TypeError, match="from_tensor"):
        nn.Parameter.from_tensor(bireme.to_tensor([1.0]), color="red")
