"""Negative controls of the layer table: for each check a layer that it must catch, beside a right one that it passes."""

import dataclasses

import numpy as np
import pytest

import bireme
from bireme.core.xla_exec import xla
from bireme.nn import functional as F
from tests.table.harness import Bad, call
from tests.table.layer_harness import CHECKS, LayerRow, problems
from tests.table.test_controls import square
from tests.table.test_table import LOWEST


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(xla, "OPTIONS", LOWEST)


class Right(bireme.nn.Linear):
    """What the row says; the others change one thing."""


class Renamed(bireme.nn.Layer):
    def __init__(self, *sizes):
        super().__init__()
        self.scale, self.bias = self.create_parameter(list(sizes)), self.create_parameter(list(sizes[1:]), is_bias=True)

    def forward(self, x):
        return F.linear(x, self.scale, self.bias)


class Nameless(Right):
    def __repr__(self):
        return "a layer"


class Shifted(Right):
    def forward(self, x):
        return super().forward(x) + 1e-6


class ShiftedInEval(Right):
    def forward(self, x):
        return super().forward(x) + (0.0 if self.training else 1e-6)


class Stopped(Right):
    """The weight gets no gradient."""

    def forward(self, x):
        return F.linear(x, self.weight.detach(), self.bias)


class StoppedInput(Right):
    def forward(self, x):
        return super().forward(x.detach())


class Secretive(Right):
    """A number that is not in the state dict."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.secret = float(bireme.rand([]))

    def forward(self, x):
        return super().forward(x) * self.secret


class Uncopied(Right):
    def __deepcopy__(self, memo):
        return Right(self.weight.shape[0], self.weight.shape[1])


class Downhill(Right):
    """The right result with the opposite gradient."""

    def forward(self, x):
        out = super().forward(x)
        return 2 * out.detach() - out


class Rounded(Right):
    """Wrong in half precision."""

    def forward(self, x):
        out = bireme.matmul(x, self.weight)
        return out * 1.3 if out.dtype is bireme.bfloat16 else out


class Counting(Right):
    """Another result at each call: what is recorded is not what was computed before."""

    calls = 0

    def forward(self, x):
        Counting.calls += 1
        return super().forward(x) + 0.01 * Counting.calls


class Reading(Right):
    """Asks for a value, which a recorded call has not."""

    def forward(self, x):
        return super().forward(x) * (1.0 + 0.0 * float(x.sum()))


class TwoForms(Right):
    """One operator whose forms for NumPy and XLA differ."""

    squared = square(numpy=lambda x: x * x * 1.01)

    def forward(self, x):
        return TwoForms.squared.public(super().forward(x))


class Lenient(Right):
    """Takes more columns than it has rows."""

    def forward(self, x):
        return super().forward(x[:, :4])


class Unclear(Right):
    def forward(self, x):
        if x.shape[-1] != 4:
            raise ValueError("no")
        return super().forward(x)


WIDE = Bad(
    call(np.ones((2, 5))),
    "linear(x): expected 4 features in the last dimension to match weight of shape [4, 3], got shape [2, 5]",
)
CONTROLS = {
    "parameters": [Renamed, Nameless],
    "forward": [Shifted, ShiftedInEval],
    "gradient": [Stopped, StoppedInput, Downhill],
    "state dict": [Secretive, Uncopied],
    "training": [Downhill],
    "mixed precision": [Rounded],
    "static": [Counting, Reading],
    "compiled": [TwoForms],
    "refusals": [Lenient, Unclear],
}


def row_of(make, **changes):
    params = {"weight": (4, 3), "bias": (3,)}
    row = LayerRow(
        "Linear", call(4, 3), [(3, 4), (0, 4)], params, lambda x, weight, bias: x @ weight + bias, bad=[WIDE], make=make
    )
    return dataclasses.replace(row, **changes)


def test_every_check_has_a_control():
    assert set(CONTROLS) == set(CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_check_passes_a_right_layer(check):
    assert problems(row_of(Right), only=check) == []


@pytest.mark.parametrize(("check", "make"), [(check, make) for check, wrong in CONTROLS.items() for make in wrong])
def test_check_catches_a_wrong_layer(check, make):
    found = problems(row_of(make), only=check)
    assert found and found[0].startswith(f"{check}: ")


def test_a_skip_that_is_not_needed_fails():
    assert problems(row_of(Right, skip={"forward": "a sentence"}), only="forward")
    assert problems(row_of(Shifted, skip={"forward": "a sentence"}), only="forward") == []
    assert problems(row_of(Right, skip={"fowrard": "a sentence"}), only="forward") == ["skip: no check named fowrard"]


class Silent(bireme.nn.Layer):
    """Gives nothing that could be compared."""

    def forward(self, x):
        return []


class Constant(bireme.nn.Layer):
    """Nothing of its result can be differentiated."""

    def forward(self, x):
        return bireme.ones([2])


class Anything(Right):
    def forward(self, x):
        return super().forward(x) if isinstance(x, bireme.Tensor) else x


IDLE = {
    "forward": [row_of(Right, ref=None), row_of(Right, inputs=[(0, 4)]), row_of(Right, modes=())],
    "gradient": [row_of(Silent), row_of(Constant)],
    "state dict": [row_of(Silent)],
    "training": [row_of(Silent), row_of(Constant)],
    "mixed precision": [row_of(Silent), row_of(Constant)],
    "static": [row_of(Silent)],
    "compiled": [row_of(Silent), row_of(Constant)],
    "refusals": [row_of(Anything, bad=[])],
}


@pytest.mark.parametrize(("check", "row"), [(check, row) for check, rows in IDLE.items() for row in rows])
def test_check_fails_if_it_has_nothing_to_compare(check, row):
    row.init = row.init if issubclass(row.make, Right) else call()
    assert problems(row, only=check)
