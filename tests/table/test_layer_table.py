"""One test per row of the layer table; and the table and `bireme.nn` compared in both directions."""

import importlib
from pathlib import Path

import pytest

import bireme
from bireme.core.xla_exec import xla
from tests.table import layer_harness
from tests.table.harness import Bad, call
from tests.table.layer_harness import LayerRow
from tests.table.test_table import LOWEST

PARTS = [importlib.import_module(f"tests.table.layers.{path.stem}") for path in sorted(Path(__file__).parent.glob("layers/*.py"))]
LAYERS = [row for part in PARTS for row in part.LAYERS]
# containers of layers are no functions of an input: their behaviour is tested in test_layer.py
CONTAINERS = {"LayerDict", "LayerList", "ParameterList", "ParameterDict"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(xla, "OPTIONS", LOWEST)


@pytest.mark.parametrize("row", LAYERS, ids=lambda row: row.name)
def test_layer(row):
    found = layer_harness.problems(row)
    assert not found, "\n".join([f"{row.name}:", *[f"  {p}" for p in found]])


def test_every_layer_has_a_row():
    names = {row.name for row in LAYERS}
    assert layer_harness.layers() - names - CONTAINERS == set(), "layers without a row"
    assert names - layer_harness.layers() == set(), "rows without a layer"


class Wrong(bireme.nn.Linear):
    """A layer that computes something else than it says."""

    def forward(self, input):
        return super().forward(input) + 1e-3


class Stopped(bireme.nn.Linear):
    """A layer whose weight gets no gradient."""

    def forward(self, input):
        return bireme.nn.functional.linear(input, self.weight.detach(), self.bias)


@pytest.mark.parametrize(("make", "caught"), [(Wrong, "forward"), (Stopped, "gradient")])
def test_controls(make, caught):
    row = LayerRow("Linear", call(4, 3), [(3, 4)], {"weight": (4, 3), "bias": (3,)}, lambda x, weight, bias: x @ weight + bias, make=make)
    assert [p for p in layer_harness.problems(row) if p.startswith(caught)]
    row.bad = [Bad(call(bireme.ones([2, 4]).numpy().astype(float)), "anything")]
    assert [p for p in layer_harness.problems(row) if p.startswith("refusals")]
