"""to_static: functions with control flow over tensors are captured whole, saved, loaded, and compute the same."""

import warnings

import numpy as np
import pytest

import bireme
from bireme import jit, nn
from bireme.core.program.program import leaves
from bireme.static import InputSpec
from tests.captured_functions import CASES


@pytest.fixture(autouse=True)
def dynamic():
    yield
    bireme.disable_static()
    jit.enable_to_static(True)


def given(args):
    return [bireme.to_tensor(x) if isinstance(x, np.ndarray) else x for x in args]


def values(made):
    return [x.numpy() if isinstance(x, bireme.Tensor) else np.asarray(x) for x in leaves(made)]


def assert_same(got, want):
    got, want = values(got), values(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-6, atol=1e-6)


def specs(args, sizes):
    return [
        InputSpec([None, *x.shape[1:]] if sizes else x.shape, str(x.dtype)) if isinstance(x, np.ndarray) else x
        for x in args
    ]


@pytest.mark.parametrize(("name", "fn", "calls", "sizes"), CASES, ids=[c[0] for c in CASES])
def test_captured_whole(name, fn, calls, sizes, tmp_path, capsys):
    """The graph gives what dynamic code gives, and so does the saved and loaded one."""
    wanted = [fn(*given(args)) for args in calls]
    made = jit.to_static(fn, full_graph=True, input_spec=specs(calls[0], sizes))
    assert_same(made(*given(calls[0])), wanted[0])
    jit.save(made, str(tmp_path / "f"))
    loaded = jit.load(str(tmp_path / "f"))
    target = made.forward if isinstance(made, nn.Layer) else made
    for args, want in zip(calls, wanted, strict=True):
        tensors = [x for x in given(args) if isinstance(x, bireme.Tensor)]
        assert_same(target.concrete_program.model.run(*tensors), want)
        assert_same(loaded(*tensors), want)
    if isinstance(made, nn.Layer):
        target.rollback()


def test_hundred_functions():
    assert len(CASES) >= 100
