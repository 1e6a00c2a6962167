"""Kernels for losses over many classes: interpreted on this machine, beside the operator that they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bireme.core.declare.op import on_mesh
from bireme.core.xla_exec import xla
from bireme.ops._shared import loss_kernels
from bireme.ops.nn import loss
from tests.without_gpu import lowered


@pytest.mark.parametrize(("rows", "classes", "dtype"), [(3, 300, "bfloat16"), (5, 128, "float32"), (4, 517, "float32")])
def test_sums_and_slopes(monkeypatch, rows, classes, dtype):
    """Of whole blocks and of a part of one; a row begins with a block of which nothing is left."""
    monkeypatch.setattr(loss_kernels, "BLOCK", 128)
    numbers = np.random.default_rng(0).normal(size=(rows, classes)) * 10
    numbers[0, : classes - 20] = -np.inf
    numbers[1] += 1e4
    x = jnp.asarray(numbers, dtype)
    top, rest = loss_kernels.log_sums(x, interpret=True)
    for got, want in zip((top, rest), loss._lse(x.astype(jnp.float32)), strict=True):
        np.testing.assert_allclose(got, want[:, 0], rtol=1e-5, atol=1e-6)
    label = jnp.asarray([classes - 1, 7, -100, 0, 5][:rows], jnp.int32)
    g = jnp.asarray(np.arange(rows) + 1.0, dtype)
    scale = jnp.where(label == -100, 0, g).astype(jnp.float32)
    got = loss_kernels.slopes(x, top, rest, label, scale, interpret=True)
    want = loss._nll_grad(g, x, label, -100)[0]
    assert got.dtype == want.dtype
    np.testing.assert_allclose(np.float32(got), np.float32(want), rtol=1e-2 if dtype == "bfloat16" else 1e-5, atol=1e-6)


def test_large_logits_are_for_them_on_one_device_alone():
    bound = loss.nll_of_logits.bind((1, 1), (-100,))
    given = [jax.ShapeDtypeStruct((2, 256, 50304), jnp.bfloat16), jax.ShapeDtypeStruct((2, 256), jnp.int64)]
    grad = loss.nll_of_logits.grad_lowerings

    def kernels(platform, rows=256):
        x, label = [jax.ShapeDtypeStruct((2, rows, *s.shape[2:]), s.dtype) for s in given]
        g = jax.ShapeDtypeStruct(label.shape, x.dtype)
        with xla.x64():
            forward = jax.make_jaxpr(bound.lower(platform))(x, label)
            backward = jax.make_jaxpr(lambda *a: grad[platform](*a, -100)[0])(g, x, label)
        return str(forward).count("pallas_call"), str(backward).count("pallas_call")

    assert kernels("cuda") == (1, 2)
    assert kernels("cuda", rows=8) == (0, 0)
    assert kernels(on_mesh("cuda")) == (0, 0)


def test_what_a_gpu_would_be_given():
    x, one = jax.ShapeDtypeStruct((64, 50257), jnp.bfloat16), jax.ShapeDtypeStruct((64,), jnp.float32)
    for form, given in (
        (loss_kernels.log_sums, (x,)),
        (loss_kernels.slopes, (x, one, one, jax.ShapeDtypeStruct((64,), jnp.int32), one)),
    ):
        assert "log_sums" in lowered(form, *given)
