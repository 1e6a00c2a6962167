"""Negative controls of the rows' references: what they are there to tell apart, they do."""

import dataclasses

import numpy as np
import pytest

import bireme
from tests.table.checks import forward, problems
from tests.table.nn import conv, pool


def changed(row, change):
    """The row of an operator that gives something else."""
    return dataclasses.replace(row, op=lambda *args, **kwargs: change(row.fn(*args, **kwargs)), cache={})


LARGEST = [row for row in pool.TABLE if "max" in row.name and row.law is not None]


@pytest.mark.parametrize("row", LARGEST, ids=lambda row: row.name)
def test_pooling_is_compared_exactly_and_with_its_indices(row):
    masked = any(s.kwargs.get("return_mask") for s in row.samples) or row.name.endswith("_of")
    assert masked and len(LARGEST) == 11
    forward(changed(row, lambda out: out))

    def next_number(out):
        one = out[0] if isinstance(out, (list, tuple)) else out
        moved = bireme.to_tensor(np.nextafter(one.numpy(), np.asarray(np.inf, one.dtype.np)))
        return [moved, *out[1:]] if isinstance(out, (list, tuple)) else moved

    for wrong in (next_number, lambda out: [out[0], out[1] + 1] if isinstance(out, (list, tuple)) else out):
        with pytest.raises(AssertionError, match=r"result [01]"):
            forward(changed(row, wrong))


@pytest.mark.parametrize("row", LARGEST, ids=lambda row: row.name)
def test_the_last_of_equals_is_not_the_first(row, monkeypatch):
    monkeypatch.setattr(pool, "_first", lambda part, places, bounds: (part.max(-1), places[::-1][part[..., ::-1].argmax(-1)]))
    with pytest.raises(AssertionError, match="result 1"):
        forward(row)


def _is_same(sample):
    return any(isinstance(x, str) and x == "SAME" for x in (*sample.args, *sample.kwargs.values()))


SAME = [row for row in (*conv.TABLE, *pool.TABLE) if any(_is_same(s) for s in row.samples)]


@pytest.mark.parametrize("row", SAME, ids=lambda row: row.name)
def test_where_the_odd_element_of_same_padding_goes_is_seen(row, monkeypatch):
    assert problems(row, only="forward") == []
    right = conv.same_pads
    monkeypatch.setattr(conv, "same_pads", lambda *args: right(*args)[::-1])
    assert problems(row, only="forward")


def test_same_padding_by_hand():
    # length, window, stride -> before, after; the windows of a few cases counted on paper
    cases = {
        (7, 2, 2): (0, 1),
        (5, 3, 2): (1, 1),
        (4, 3, 2): (0, 1),
        (6, 3, 1): (1, 1),
        (6, 4, 1): (1, 2),
        (5, 1, 3): (0, 0),
        (10, 3, 4): (0, 1),
        (0, 3, 2): (0, 0),
    }
    assert {case: conv.same_pads(*case) for case in cases} == cases
    assert len(SAME) >= 12
