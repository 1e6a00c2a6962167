"""Kernels that a declaration names with `c_ops`: the function with its arguments in another order, under other names."""

import inspect

import numpy as np
import pytest

import bireme
from bireme.core.declare import kernels

C = bireme._C_ops


def test_order_names_and_defaults_are_the_kernels():
    assert str(inspect.signature(C.index_add)).startswith(
        "(x: 'Tensor', index: 'Tensor', add_value: 'Tensor', axis: 'int' = 0)"
    )
    x, index = bireme.zeros([3]), bireme.to_tensor([0, 2])
    assert C.index_add(x, index, bireme.ones([2])).tolist() == [1.0, 0.0, 1.0]
    assert C.index_add_(x, index, add_value=bireme.ones([2]), axis=0) is x and x.tolist() == [1.0, 0.0, 1.0]


def test_what_the_function_does_not_take_is_not_handed_on():
    x = bireme.to_tensor([0.5, -1.0])
    np.testing.assert_array_equal(C.mish(x, 20.0).numpy(), bireme.nn.functional.mish(x).numpy())


def test_what_stands_after_the_semicolon_is_given_besides():
    x, y = bireme.to_tensor([0.2, 0.7]), bireme.to_tensor([0.0, 1.0])
    expected = bireme.nn.functional.binary_cross_entropy(x, y, reduction="none")
    np.testing.assert_array_equal(C.bce_loss(x, y).numpy(), expected.numpy())


@pytest.mark.parametrize("name", kernels.names())
def test_every_kernel_names_parameters_of_its_function(name):
    function, spec = kernels._SPECS[name]
    made = kernels.find(name)
    public = kernels.PUBLIC.get(function) or kernels.INTERNAL[function]
    known = set(inspect.signature(public).parameters)
    words, _, besides = spec.partition(";")
    owns = [word.partition("=")[0].partition(":") for word in words.split()]
    assert {own if renamed else name for name, renamed, own in owns} - {""} <= known
    assert {word.partition("=")[0] for word in besides.split()} <= known
    assert (made.__module__, made.__name__) == ("bireme._C_ops", name) and name in dir(C)
    assert made.__doc__.count("\n    ") >= len(owns) and "Kernel of ``" in made.__doc__


def test_an_error_of_the_arguments_is_pythons():
    with pytest.raises(TypeError, match="missing a required argument"):
        C.index_add(bireme.zeros([3]))
