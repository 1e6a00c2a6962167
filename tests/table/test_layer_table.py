"""One test per row of the layer table; and the table and `bireme.nn` compared in both directions."""

import importlib
from pathlib import Path

import pytest

from bireme.core.xla_exec import xla
from tests.table import layer_harness
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
