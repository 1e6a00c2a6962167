"""A call is remembered by the kinds of its arguments: values that decide something must not be."""

import numpy as np
import pytest

import bireme

F = bireme.nn.functional


def t(x, **kwargs):
    return bireme.to_tensor(x, **kwargs)


def test_a_tensor_as_an_attribute_is_read_every_time():
    x = t([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert bireme.sum(x, axis=t(0)).tolist() == [3.0, 5.0, 7.0]
    assert bireme.sum(x, axis=t(1)).tolist() == [3.0, 12.0]
    assert bireme.reshape(x, t([3, 2])).shape == [3, 2]
    assert bireme.reshape(x, t([1, 6])).shape == [1, 6]
    assert bireme.tile(t([1.0]), t([2])).shape == [2]
    assert bireme.tile(t([1.0]), t([3])).shape == [3]


def test_the_same_tensor_twice_does_not_stand_for_two():
    a, b = t([2.0]), t([5.0])
    assert bireme.multiply(a, a).item() == 4.0
    assert bireme.multiply(a, b).item() == 10.0
    assert bireme.subtract(y=a, x=b).item() == 3.0


def test_numbers_that_travel_are_not_remembered():
    x = t([1.0, 2.0])
    for alpha, y in ((3.0, 2.0), (3.0, 2.0), (3.0, 5.0), (1.0, 5.0)):
        assert bireme.add(x, y, alpha=alpha).tolist() == [1 + alpha * y, 2 + alpha * y]
    assert [bireme.scale(x, s).tolist() for s in (2.0, 3.0)] == [[2.0, 4.0], [3.0, 6.0]]


def test_what_is_decided_by_the_numbers_in_a_tensor():
    assert F.one_hot(t([1]), -1).shape == [1, 2]
    assert F.one_hot(t([5]), -1).shape == [1, 6]
    assert bireme.floor_divide(t([4]), t([3])).tolist() == [1]
    for divide in (lambda x, y: bireme.floor_divide(x, y), lambda x, y: x // y, lambda x, y: x % y):
        with pytest.raises(ZeroDivisionError):
            divide(t([4]), t([0]))


def test_types_of_equal_numbers_are_told_apart():
    x = t([4, 9])
    assert bireme.pow(x, 2).dtype is bireme.int64
    assert (x**0.5).dtype is bireme.float32
    assert (x * True).dtype is bireme.int64
    assert (x * 1.0).dtype is bireme.float32


def test_an_error_shows_the_users_frames_and_one_more():
    try:
        bireme.matmul(bireme.ones([2, 4]), bireme.ones([5, 4]))
    except ValueError as e:
        frames = []
        tb = e.__traceback__
        while tb is not None:
            frames.append(tb.tb_frame.f_code.co_filename)
            tb = tb.tb_next
    assert len(frames) == 2 and np.char.endswith(frames[1], "shortcut.py")
