"""What stands under `bireme.tensor` alone, as under `paddle.tensor`: filling by type, and arrays of tensors."""

import numpy as np
import pytest

import bireme
from bireme import tensor


def test_names_of_operators_and_of_others():
    assert tensor.mod is bireme.mod and tensor.broadcast_to is bireme.broadcast_to and tensor.inverse is bireme.inverse
    assert tensor.is_tensor is bireme.is_tensor and tensor.create_parameter is bireme.create_parameter
    for name in ("nn", "no_such_name"):
        with pytest.raises(AttributeError, match=name):
            getattr(tensor, name)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ("7", "int64", [7, 7]),
        ("inf", "float32", [float("inf")] * 2),
        ("-3", "float32", [-3.0] * 2),
        (True, "bool", [True] * 2),
    ],
)
def test_fill_constant(value, dtype, expected):
    assert tensor.fill_constant([2], dtype, value).tolist() == expected
    out = bireme.zeros([3])
    assert tensor.fill_constant(shape=bireme.to_tensor([2]), dtype=dtype, value=value, force_cpu=True, out=out) is out
    assert out.tolist() == expected and out.dtype.name == dtype


def test_normal_numbers_in_place():
    x = bireme.zeros([2, 3])
    assert tensor.gaussian_(x, mean=2.0, std=0.0) is x and x.tolist() == [[2.0] * 3] * 2
    with pytest.raises(AttributeError, match="normal_"):
        tensor.gaussian_("x")


def test_arrays_of_tensors():
    array = tensor.create_array("float32")
    for i in range(3):
        assert tensor.array_write(bireme.full([i + 1], i), bireme.to_tensor([i]), array) is array
    tensor.array_write(bireme.zeros([5]), bireme.to_tensor([1]), array)
    assert tensor.array_length(array) == 3
    assert tensor.array_read(array, bireme.to_tensor([1])).shape == [5]
    joined, extents = tensor.tensor_array_to_tensor(array, axis=0)
    assert joined.shape == [9] and extents.tolist() == [1, 5, 3]
    stacked, extents = tensor.tensor_array_to_tensor([bireme.ones([2, 3])] * 2, axis=0, use_stack=True)
    assert stacked.shape == [2, 2, 3] and extents.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: tensor.create_array("float32", [1]),
            TypeError,
            "create_array(initialized_list): expected only Tensors, got 1",
        ),
        (
            lambda: tensor.array_write(1, bireme.to_tensor([0])),
            AssertionError,
            "array_write(x): expected a Tensor, got 1",
        ),
        (
            lambda: tensor.array_write(bireme.ones([1]), 0),
            AssertionError,
            "array_write(i): expected a Tensor of shape [1], got 0",
        ),
        (
            lambda: tensor.array_write(bireme.ones([1]), bireme.to_tensor([1])),
            AssertionError,
            "array_write(i): expected an index in [0, 0], got 1",
        ),
        (
            lambda: tensor.array_read([], bireme.to_tensor([0])),
            IndexError,
            "array_read(i): expected an index in [0, -1], got 0",
        ),
        (
            lambda: tensor.array_length(bireme.ones([1])),
            AssertionError,
            "array_length(array): expected a list of Tensors",
        ),
    ],
)
def test_bad_arrays(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)


def test_variables_that_wait_for_values():
    made = tensor.create_tensor("int64", persistable=True)
    assert made.persistable and bireme.assign(bireme.ones([2], "int64"), made) is made and made.tolist() == [1, 1]
    kept = tensor.create_global_var([2], 0.5, "float32", persistable=True)
    assert kept.persistable and kept.tolist() == [0.5, 0.5]
    drawn = tensor.uniform_random_batch_size_like(
        bireme.zeros([3, 4]), [5, -1], input_dim_idx=1, output_dim_idx=1, min=2.0, max=3.0
    )
    assert drawn.shape == [5, 4] and 2 <= drawn.min().item() <= drawn.max().item() < 3


def test_arithmetic_along_an_axis():
    x, y = bireme.ones([2, 3, 4]), bireme.arange(2, dtype="float32")
    assert bireme.tensor._multiply_with_axis(x, y, axis=0)[:, 0, 0].tolist() == [0.0, 1.0]
    assert bireme.tensor._add_with_axis(x, bireme.arange(4.0), axis=-1)[0, 0].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert bireme.tensor._subtract_with_axis(x, bireme.arange(3.0), axis=1)[0, :, 0].tolist() == [1.0, 0.0, -1.0]
    assert bireme.tensor._divide_with_axis(x, y + 1, axis=0)[:, 0, 0].tolist() == [1.0, 0.5]
    with pytest.raises(ValueError, match=r"_add_with_axis\(axis\): expected -1, or an axis in \[0, 2\], got 3"):
        bireme.tensor._add_with_axis(x, y, axis=3)


@pytest.mark.parametrize(
    ("kind", "value"), [("int64", np.float32([1.5])), ("bool", np.ones(1)), ("float32", np.complex64([1j]))]
)
def test_set_value_loses_no_fractions(kind, value):
    x = bireme.zeros([1], kind)
    for change in (x.set_value, x.copy_):
        with pytest.raises(AssertionError, match=rf"\(\w+\): expected {kind}, got {value.dtype}"):
            change(value)
    assert x.tolist() == [0]
    y = bireme.zeros([2])
    y.set_value(np.array([1, 2]))
    assert y.tolist() == [1, 2]
    y.set_value(np.array([1.5, 2.5]))
    assert y.tolist() == [1.5, 2.5]
