"""One test per row of the operator table; and the table and the registry compared in both directions."""

import dataclasses
import importlib
import zlib
from pathlib import Path

import pytest

from bireme.core.declare.op import Op
from bireme.core.xla_exec import xla
from tests.table import checks

HERE = Path(__file__).parent
PARTS = [
    importlib.import_module(f"tests.table.{path.parent.name}.{path.stem}") for path in sorted(HERE.glob("*/*.py")) if path.parent.name != "layers"
]
TABLE = [row for part in PARTS for row in part.TABLE]
LOWEST = {"cpu": {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True, **xla.EXACT}}


@pytest.fixture(autouse=True)
def options(request, monkeypatch, full):
    """Programs are compiled at the lowest optimisation, but for a tenth of the rows, or all of them with --full."""
    row = getattr(request.node, "callspec", None) and request.node.callspec.params.get("row")
    if not (full or (row and _in_the_sample(row))):
        monkeypatch.setattr(xla, "OPTIONS", LOWEST)


def _in_the_sample(row):
    """A tenth of the rows, always the same."""
    return zlib.crc32(row.name.encode()) % 10 == 0


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_row(row, full):
    waits = () if full or isinstance(row.target, Op) or _in_the_sample(row) else checks.OF_PARTS
    found = checks.problems(row if full or not row.slow else dataclasses.replace(row, grad=1, cache={}), without=waits)
    assert not found, "\n".join([f"{row.name}:", *[f"  {p}" for p in found]])


def test_every_operator_has_one_row():
    assert checks.unmatched(TABLE) == []


@pytest.mark.full
@pytest.mark.parametrize("row", [row for row in TABLE if row.dtypes], ids=lambda row: row.name)
def test_every_type_compiled(row):
    """Every declared type, compiled: the interpreter's numbers."""
    checks.compiled_types(row)
