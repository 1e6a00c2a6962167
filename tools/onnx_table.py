"""Which rows of the tables of operators and layers export to ONNX, and give there what they give here.

    python -m tools.onnx_table                 # all rows of operators and layers
    python -m tools.onnx_table --only conv     # those whose name contains it
    python -m tools.onnx_table --why           # and why the others do not

A row counts if each of its samples (at most six that differ in kind, of finite numbers: ONNX leaves open what nodes that
compare do with others) exports, passes ONNX's checker, runs in onnxruntime, and agrees to 1e-4.
"""

from __future__ import annotations

import argparse
import collections
import sys
from typing import Any

import numpy as np

import bireme
from bireme.core.base import dtype as dtypes
from bireme.core.program.building import into
from bireme.core.program.program import Program, leaves
from bireme.core.program.program_model import Model
from bireme.core.tensor.tensor import Tensor
from bireme.onnx.writing.model import written
from tests.table.harness import Row, Sample, same
from tests.table.layer_harness import LayerRow

TOLERANCE = 1e-4


def session(proto: Any) -> Any:
    """A file's contents, ready to run."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def captured(fn: Any, sample: Sample, arrays: list[np.ndarray], shapes: list[Any] | None = None) -> Model:
    """A call on inputs of these shapes."""
    program = Program()
    with into(program):
        symbols = []
        for i, a in enumerate(arrays):
            shape = a.shape if shapes is None else shapes[i]
            symbols.append(program._declared(f"input_{i}", shape, dtypes.from_numpy(a.dtype)))
            symbols[-1].is_data = True
        args, kwargs = sample.fill([program._var(s) for s in symbols])
        made = fn(*args, **kwargs)
    return Model(program, symbols, made, None)


def compare(fn: Any, sample: Sample, shapes: list[Any] | None = None) -> None:
    """Raise unless the exported call gives what the call gives."""
    arrays = [np.asarray(a) for a in sample.leaves()]
    bireme.seed(1)
    args, kwargs = sample.fill([bireme.to_tensor(a) for a in arrays])
    want = [t.numpy() for t in leaves(fn(*args, **kwargs)) if isinstance(t, Tensor)]
    runs = session(written(captured(fn, sample, arrays, shapes)))
    wanted = {i.name for i in runs.get_inputs()}
    feed = {f"input_{i}": a for i, a in enumerate(arrays) if f"input_{i}" in wanted}
    got = runs.run(None, feed)
    assert len(got) == len(want), f"{len(got)} results instead of {len(want)}"
    for g, expected in zip(got, want):
        same(g, expected, TOLERANCE, "onnxruntime")


def samples_of(row: Row) -> list[Sample]:
    """Samples in float32, or in the first type that the row takes."""
    floats = dtypes.float32 in row.dtypes or not row.dtypes
    kind = dtypes.float32 if floats else min(row.dtypes, key=lambda d: (d.kind == "c", d.name))
    return [s.at(kind) for s in row.varied() if s.is_finite]


def problem(row: Row | LayerRow) -> str | None:
    """Why a row does not count; None if it does."""
    try:
        if isinstance(row, LayerRow):
            layer = row.build()
            layer.eval()
            for s in row.samples():
                if all(a.size for a in s.leaves()):
                    compare(layer, s.at(dtypes.float32))
        else:
            for s in samples_of(row):
                compare(row.fn, s)
    except Exception as e:  # noqa: BLE001  # whatever it is, the row does not count
        return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
    return None


def main(argv: list[str]) -> int:
    from tests.table.test_layer_table import LAYERS
    from tests.table.test_table import TABLE

    parser = argparse.ArgumentParser(prog="python -m tools.onnx_table")
    parser.add_argument("--only", default="")
    parser.add_argument("--why", action="store_true")
    given = parser.parse_args(argv)
    for title, rows in (("operators", TABLE), ("layers", LAYERS)):
        found = {row.name: problem(row) for row in rows if given.only in row.name}
        if given.why:
            for name, why in found.items():
                if why is not None:
                    print(f"{name}: {why}")
        counts = collections.Counter([why is None for why in found.values()])
        print(f"{title}: {counts[True]} of {len(found)} rows export and agree")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
