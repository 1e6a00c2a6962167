"""Rows of what repeats elements or changes their order."""

import numpy as np

from tests.table.harness import ALL, Bad, Row, call
from tests.table.samples import floats

NONE = np.zeros((2, 0, 3))


def _repeat(x, *repeats):
    return np.tile(x, repeats[0] if isinstance(repeats[0], list) else repeats)


TABLE = [
    Row("tile", [call(floats(2, 3), [2, 1]), call(floats(2, 3), [2]), call(floats(2), [2, 3]), call(floats(), [2]), call(floats(2, 3), [0, 1]),
        call(NONE, [1, 2, 1])], np.tile, dtypes=ALL,
        bad=[Bad(call(floats(2), [-1]), "tile(repeat_times): expected non-negative integers, got [-1]")]),
    Row("flip", [call(floats(2, 3), 0), call(floats(2, 3), [-1]), call(floats(2, 3, 2), axis=[0, 2]), call(floats(), []), call(NONE, 0)],
        lambda x, axis: np.flip(x, tuple(axis) if isinstance(axis, list) else axis), dtypes=ALL,
        bad=[Bad(call(floats(2, 3), 2), "flip(axis): expected an axis in [-2, 1], got 2"),
             Bad(call(floats(), 0), "flip(axis): expected no axes, as x has none, got 0")]),
    Row("roll", [call(floats(2, 3), 1), call(floats(2, 3), 1, axis=0), call(floats(2, 3), [1, -2], axis=[0, -1]), call(floats(), 1),
        call(NONE, 2, axis=0), call(floats(2, 3), [1, 2], range(2))], np.roll, dtypes=ALL,
        bad=[Bad(call(floats(2, 3), [1, 2], axis=0), "roll(shifts): expected 1 shifts, one for each axis, got [1, 2]"),
             Bad(call(floats(), 1, axis=0), "roll(axis): expected no axes, as x has none, got 0"),
             Bad(call(floats(2, 3), 1, axis=2), "roll(axis): expected an axis in [-2, 1], got 2")]),
    Row("repeat", [call(floats(2, 3), [2, 1]), call(floats(2, 3), 2, 1, 1), call(floats(), 2), call(NONE, [1, 2, 1])], _repeat, dtypes=ALL,
        bad=[Bad(call(floats(2), -1), "repeat(repeats): expected non-negative integers, got [-1]"),
             Bad(call(floats(2), None), "repeat(repeats): expected integers, got None", TypeError)]),
    Row("repeat_each", [call(floats(2, 3), 2, 0), call(floats(2, 3), 3, -1), call(NONE, 2, 0)], np.repeat, dtypes=ALL,
        skip={"0-d": "there is no axis to repeat along"}),
    Row("repeat_interleave", [call(floats(2, 3), 2), call(floats(2, 3), 2, axis=0), call(floats(2, 3), np.array([1, 0, 2]), -1), call(floats(), 3),
        call(floats(3), np.array([0, 2, 1], np.int32)), call(NONE, 2, 0), call(floats(3), 2, output_size=6),
        call(floats(), np.array(2))],
        lambda x, repeats, axis=None, output_size=None: np.repeat(x, repeats, axis), dtypes=ALL, skip={"static": "its size depends on values"},
        bad=[Bad(call(floats(3), -1), "repeat_interleave(repeats): expected a positive integer, got -1"),
             Bad(call(floats(3), 10**13), "repeat_interleave(): expected a result that fits into ", MemoryError),
             Bad(call(floats(2), np.array([1, -1])), "repeat_interleave(repeats): expected non-negative integers that sum to at most 1,099,511,627,776, got -1 to 1"),
             Bad(call(floats(2), np.array([2**62, 2**62])), "repeat_interleave(repeats): expected non-negative integers that sum to at most 1,099,511,627,776, got "),
             Bad(call(floats(2), np.array([[1, 1]])), "repeat_interleave(repeats): expected 2 integers, one for each slice along axis 0, got "),
             Bad(call(floats(2), 1.5), "repeat_interleave(repeats): expected an integer or an integer tensor, got 1.5", TypeError),
             Bad(call(floats(2), 2, 1), "repeat_interleave(axis): expected an axis in [-1, 0], got 1", IndexError),
             Bad(call(floats(), 2, 0), "repeat_interleave(axis): expected no axis for a 0-D tensor, got 0", IndexError),
             Bad(call(floats(3), 2, output_size=5), "repeat_interleave(output_size): expected 6, what the repeats add up to, got 5")]),
    Row("rot90", [call(floats(2, 3)), call(floats(2, 3), 2), call(floats(2, 3), -1), call(floats(2, 3, 2), 1, [0, -1]), call(floats(2, 3), 4),
        call(NONE, 3, (0, 2)), call(floats(2, 3), 1, range(2))], np.rot90, dtypes=ALL, skip={"0-d": "there are no two axes to turn"},
        bad=[Bad(call(floats(3)), "rot90(x): expected at least 2 dimensions, got a Tensor of shape [3]"),
             Bad(call(floats(2, 3), 1, [0, -2]), "rot90(axes): expected two different axes, got [0, -2]"),
             Bad(call(floats(2, 3), 1, [0, 1, 2]), "rot90(axes): expected two axes, got (0, 1, 2)"),
             Bad(call(floats(2, 3), "a"), "rot90(k): expected an integer, got 'a'", TypeError),
             Bad(call(floats(2, 3), 1, [0, 5]), "rot90(axes): expected an axis in [-2, 1], got 5")]),
]  # fmt: skip
