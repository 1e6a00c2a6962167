"""Negative controls: for each check a deliberately wrong operator that it must catch, beside a right one that it
passes.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from bireme.core.declare.composite import Composite
from bireme.core.declare.op import Op, Tensor
from bireme.core.graph.graph import sig_of
from tests.table.checks import CHECKS, problems, unmatched
from tests.table.harness import ALL, FLOAT, REAL, Row, call
from tests.table.samples import unary


def square(body=None, grad=None, infer=None, kind=Op, **options) -> Op:
    """A right operator, x * x, but for what the caller changes. It is not registered."""

    def right(x: Tensor) -> Tensor:
        return x * x

    made = kind(
        body or right,
        {"name": "square_of_control", "method": True, "inplace": True, "out": True, "torch": True, **options},
    )
    if kind is Op:
        made.grad(grad or (lambda g, x: g * jnp.conj(2 * x)))
        made.infer(infer or (lambda x: x))
        made.on("cuda")(lambda x: x * x)
    made.twin = _twin(made)
    made.public = _public(made)
    return made


def _public(made):
    return lambda *args, **kwargs: made.call(made.signature.bind(args, kwargs))


def _twin(made, factor=1.0, same=True):
    def twin(x, *args, **kwargs):
        new = _public(made)(x, *args, **kwargs) * factor
        if not same:
            return new
        x._value, x._edge, x.stop_gradient = new._value, new._edge, new.stop_gradient
        return x

    return twin


def row_of(op, samples=None, **changes) -> Row:
    bools = frozenset(d for d in ALL if d.kind == "b")
    usual = {"ref": np.square, "dtypes": ALL - bools, "unchecked": ALL - REAL, "op": op}
    return Row("square_of_control", unary() if samples is None else samples, **usual | changes)


def patched(**attributes) -> Op:
    made = square()
    for name, x in attributes.items():
        setattr(made, name, x(made))
    return made


def value_of_body(x: Tensor) -> Tensor:
    return x * float(x.sum().item() * 0 + 1) * x


def half_as_double(x: Tensor) -> Tensor:
    return (x.astype(jnp.float64) * x).astype(x.dtype)


def summed_in_half(x: Tensor) -> Tensor:
    return x * x + 0 * jnp.sum(x) if x.dtype == jnp.bfloat16 else x * x


def nearly(x: Tensor) -> Tensor:
    return x * x * (1.001 if jnp.issubdtype(x.dtype, jnp.inexact) else 1)


def wrong_if(condition):
    """The body, wrong on operands of which the condition holds."""

    def body(x: Tensor) -> Tensor:
        return x if condition(x) else x * x

    return square(body)


def grown_if_empty(x: Tensor) -> Tensor:
    return x * x if x.size else jnp.zeros((1,), x.dtype)


CONTROLS = {
    "forward": lambda: row_of(square(nearly)),
    "zero size": lambda: row_of(square(grown_if_empty)),
    "0-d": lambda: row_of(wrong_if(lambda x: x.ndim == 0)),
    "dtypes": lambda: row_of(wrong_if(lambda x: x.dtype == jnp.int16)),
    "gradient": lambda: row_of(square(grad=lambda g, x: g * 2.001 * x)),
    "second order": lambda: row_of(square(grad=lambda g, x: g * 2 * lax.stop_gradient(x))),
    "gradient dtypes": lambda: row_of(square(grad=lambda g, x: g * 2 * x * (1.2 if x.dtype == jnp.bfloat16 else 1))),
    "no gradient": lambda: row_of(square(), grad=0),
    "static": lambda: row_of(square(value_of_body, kind=Composite)),
    "compiled": lambda: row_of(square(numpy=lambda x: x * x * 1.001)),
    "method": lambda: row_of(square()),
    "in-place": lambda: row_of(patched(twin=lambda made: _twin(made, factor=1.001))),
    "out": lambda: row_of(patched(public=lambda made: lambda *a, out=None, **k: _public(made)(*a, **k))),
    "aliases": lambda: row_of(
        patched(
            public=lambda made: (
                lambda *a, **k: _public(made)(k["input"] * 2) if "input" in k else _public(made)(*a, **k)
            )
        )
    ),
    "bad input": lambda: row_of(patched(public=lambda made: lambda x, **k: _public(made)(x))),
    "inference": lambda: row_of(square(infer=lambda x: sig_of((*x.shape, 1), x.dtype))),
    "width": lambda: row_of(square(half_as_double)),
    "half precision": lambda: row_of(square(summed_in_half)),
    "gradient rule": lambda: row_of(square(grad=lambda g, x: g * 2 * x), dtypes=ALL),  # right for real numbers only
    "lowerings": lambda: row_of(patched(lowerings=lambda made: {"cuda": lambda x: x * x * 1.001})),
}


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The control's method, as a declaration would install it."""
    monkeypatch.setattr(Tensor, "square_of_control", lambda x: x * x, raising=False)


def test_every_check_has_a_control():
    assert set(CONTROLS) == set(CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_check_passes_a_right_operator(check):
    smooth = check != "no gradient"
    assert problems(row_of(square(differentiable=smooth), grad=2 if smooth else 0), only=check) == []


@pytest.mark.parametrize("check", CONTROLS)
def test_check_catches_a_wrong_operator(check, monkeypatch):
    if check == "method":
        monkeypatch.setattr(Tensor, "square_of_control", lambda x: x * x * 1.001)
    found = problems(CONTROLS[check](), only=check)
    assert found and found[0].startswith(check)


@pytest.mark.parametrize("wrong", [{"factor": 1.0, "same": False}], ids=["another tensor"])
def test_in_place_twin_must_return_its_operand(wrong):
    assert problems(row_of(patched(twin=lambda made: _twin(made, **wrong))), only="in-place")


def test_a_type_that_is_taken_must_be_declared():
    unchecked = frozenset(d for d in ALL if d.name not in ("int8", "float32"))
    assert "int8 is taken" in problems(row_of(square(), dtypes=FLOAT, unchecked=unchecked), only="dtypes")[0]


def test_ties_are_compared_with_their_own_reference():
    assert problems(row_of(square(), grad_ref=lambda w, x: w * 2.001 * x), only="gradient")


def test_a_rule_for_ties_gives_a_gradient_for_each_operand():
    for nothing in (lambda w, x: None, lambda w, x: (), lambda w, x: (2 * w * x, w)):
        assert problems(row_of(square(), grad_ref=nothing), only="gradient")
    assert problems(row_of(square(), grad_ref=lambda w, x: 2 * w * x), only="gradient") == []


# samples with which a check would have nothing to compare
TIED, INTEGERS, NOTHING, NUMBER = np.ones((2, 2)), np.arange(3), np.zeros((0, 2)), np.array(2.0)
IDLE = {
    "forward": [call(NOTHING), call(NUMBER)],
    "zero size": [call(TIED)],
    "0-d": [call(TIED)],
    "dtypes": [call(INTEGERS)],
    "gradient": [call(TIED), call(INTEGERS)],
    "second order": [call(TIED), call(INTEGERS)],
    "gradient dtypes": [call(INTEGERS), call(NOTHING)],
    "no gradient": [call(NOTHING)],
    "static": [],
    "compiled": [],
    "method": [call(NOTHING)],
    "in-place": [call(NOTHING)],
    "out": [call(NOTHING)],
    "aliases": [],
    "inference": [],
    "width": [call(NOTHING)],
    "half precision": [call(NOTHING)],
    "gradient rule": [call(TIED), call(INTEGERS)],
    "lowerings": [call(NOTHING)],
}


@pytest.mark.parametrize("check", IDLE)
def test_check_fails_if_it_has_nothing_to_compare(check):
    assert set(IDLE) == set(CHECKS) - {"bad input"}  # there, a keyword that does not exist is always one more
    smooth = check != "no gradient"
    op, grad = square(differentiable=smooth), 2 if smooth else 0
    assert problems(row_of(op, IDLE[check], grad=grad), only=check)
    assert problems(row_of(op, [*IDLE[check], *unary()], grad=grad), only=check) == []


def test_a_row_without_types_that_are_compared_fails():
    assert problems(row_of(square(), dtypes=FLOAT, unchecked=ALL), only="dtypes") == [
        "dtypes: no type that is compared"
    ]


def test_laws_are_checked():
    assert problems(row_of(square(), law=lambda out, x: False), only="forward")


def test_a_skip_that_is_not_needed_fails():
    assert problems(row_of(square(), skip={"forward": "a sentence"}), only="forward") == [
        "skip of 'forward' is not needed: the check holds"
    ]


def test_a_skip_that_is_needed_passes():
    assert problems(row_of(square(nearly), skip={"forward": "a sentence"}), only="forward") == []


def test_a_skip_of_no_check_fails():
    assert problems(row_of(square(), skip={"fowrard": "a sentence"}), only="forward") == [
        "skip of 'fowrard': no such check for this operator"
    ]


def test_rows_and_registry_are_compared_both_ways():
    rows = [Row("a", []), Row("b", []), Row("b", [])]
    assert unmatched(rows, {"a": 0, "b": 0, "c": 0}) == ["no row for c", "two rows for b"]
    assert unmatched(rows[:2], {"a": 0}) == ["row for b, which is no operator"]
