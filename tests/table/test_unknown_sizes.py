"""Every row as a program with unknown sizes, fed at two sizes: values and gradients are those of dynamic mode."""

import zlib

import pytest

import bireme
from tests.table import unknown_sizes
from tests.table.harness import Row, call
from tests.table.samples import floats
from tests.table.test_layer_table import LAYERS
from tests.table.test_table import TABLE

ROWS = [(unknown_sizes.operator, row) for row in TABLE] + [(unknown_sizes.layer, row) for row in LAYERS]
# what has needed more than the sizes that every dimension is tried with, beside a part of the others
ALWAYS = {
    "batch_norm", "concat", "conv2d", "cross_entropy", "expand_as", "fused_stack_transpose_quant", "gather", "getitem",
    "linear", "lstsq", "matmul", "matrix_nms", "reindex_heter_graph", "slice_scatter", "softmax", "split", "topk", "unbind",
    "view_as", "zeros", "zeros_like", "BatchNorm2D", "Conv1DTranspose", "Linear", "RNN", "SpectralNorm",
}  # fmt: skip


def sampled(row):
    return row.name in ALWAYS or zlib.crc32(row.name.encode()) % 40 == 7


def of(make, row):
    return pytest.param(make, row, id=f"{make.__name__}-{row.name}", marks=() if sampled(row) else pytest.mark.full)


@pytest.mark.parametrize(("make", "row"), [of(make, row) for make, row in ROWS])
def test_row(make, row):
    found = unknown_sizes.report(make(row))
    assert not found.problems, "\n".join(found.problems)


def test_reasons_name_rows():
    names = {row.name for _, row in ROWS}
    assert {*unknown_sizes.FIXED, *unknown_sizes.NOT_TOGETHER, *unknown_sizes.GIVEN} <= names


# ---------------------------------------------------------------- the check itself


def control(fn, sample=None):
    """What the check says of a function that is recorded as a call of a program."""
    row = Row("exp", [sample or call(floats(2, 3))], op=fn)
    return unknown_sizes.report(unknown_sizes.operator(row)).problems


def test_what_looks_at_a_size_is_found():
    """A number that was read from a size when the program was built holds for no other."""
    assert not control(lambda x: bireme.exp(x) * x.shape[0])
    assert "instead of" in control(lambda x: bireme.exp(x) * abs(int(x.shape[0])))[0]


def test_a_wrong_gradient_is_found():
    def wrong(x):
        return bireme.exp(x) + (0.0 if isinstance(x, bireme.static.Variable) else x - x.detach())

    assert "gradient" in control(wrong)[0]


def test_a_row_without_a_reason_is_found():
    def square(x):
        bireme.reshape(x, [2, 3])
        return x

    assert control(square) == ["(float32[2, 3]): no dimension can vary, and no reason is given"]
