"""Operators of users: they are found where they were declared, replaced by a second declaration, and hide nothing."""

import jax.numpy as jnp
import numpy as np
import pytest

import bireme
from bireme import Tensor
from bireme.core.base import registry
from bireme.core.declare.public import PUBLIC
from bireme.extension import op


@pytest.fixture(autouse=True)
def clean():
    known, methods = set(registry.OPS), set(vars(Tensor))
    yield
    for name in set(registry.OPS) - known:
        del registry.OPS[name]
    for name in set(vars(Tensor)) - methods:
        delattr(Tensor, name)


def declare(factor):
    @op(method=True, inplace=True, floats=True)
    def scaled_by_hand(x: Tensor) -> Tensor:
        """A multiple of x."""
        return jnp.multiply(x, factor)

    return scaled_by_hand


def test_it_is_found_where_it_was_declared():
    made = declare(2.0)
    assert made.public.__module__ == __name__
    assert not {"scaled_by_hand", "scaled_by_hand_"} & set(PUBLIC)
    assert not hasattr(bireme.ops, "scaled_by_hand")
    x = bireme.to_tensor([1.0, 2.0], stop_gradient=False)
    made(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 2])


def test_a_second_declaration_takes_its_place():
    for factor in (2.0, 3.0):
        declare(factor)
        x = bireme.to_tensor([1.0, 2.0])
        for _ in range(4):  # remembered calls and compiled programs are not those of the first
            np.testing.assert_array_equal(x.scaled_by_hand().numpy(), [factor, 2 * factor])
        np.testing.assert_array_equal(x.scaled_by_hand_().numpy(), [factor, 2 * factor])


def test_names_of_bireme_stay():
    with pytest.raises(ValueError, match="op\\(name\\): expected a name that no operator of Bireme has, got 'add'"):

        @op()
        def add(x: Tensor) -> Tensor:
            return x

    for taken in ("shape", "matmul"):
        with pytest.raises(
            ValueError, match=f"op\\(method\\): expected a name that Tensor does not have, got '{taken}'"
        ):

            @op(method=taken)
            def refused(x: Tensor) -> Tensor:
                return x

    assert bireme.to_tensor([1.0]).shape == [1]
