"""Kernels for the newest token of each text: interpreted on this machine, beside the operators that they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bireme
from bireme.llm import Configuration, Network
from bireme.ops._shared import gpu_kernels
from bireme.ops.fused import decoding


@pytest.fixture
def half():
    rng = np.random.default_rng(0)
    return lambda *shape: jnp.asarray(rng.standard_normal(shape), jnp.bfloat16)


def close(got, wanted, most=0.006):
    got, wanted = [np.asarray(t, np.float32) for t in (got, wanted)]
    assert got.shape == wanted.shape and np.linalg.norm(got - wanted) <= most * np.linalg.norm(wanted)


@pytest.mark.parametrize(("rows", "inner", "columns", "transposed"), [(1, 128, 192, False), (20, 64, 128, True)])
def test_a_product_of_few_rows(half, rows, inner, columns, transposed):
    x, matrix = half(rows, inner), half(columns, inner) if transposed else half(inner, columns)
    got = gpu_kernels.few_rows(x, matrix, transposed, interpret=True)
    close(got, decoding.few_rows_product.body(x, matrix, transposed))


def test_a_gated_product(half):
    x, matrix = half(3, 64), half(64, 128)
    close(gpu_kernels.gated(x, matrix, interpret=True), decoding.gated_product.body(x, matrix))


def test_a_product_added_and_normalised(half):
    """Of a width that is no power of two."""
    given = half(3, 64), half(64, 192), half(3, 192), half(192)
    for got, wanted in zip(
        gpu_kernels.product_added(*given, 1e-5, interpret=True), decoding.product_added.body(*given, 1e-5), strict=True
    ):
        close(got, wanted)


@pytest.mark.parametrize(
    ("turns", "pages", "window", "places"), [(True, 2, 0, (5, 31)), (False, 40, 0, (-1, 600)), (True, 2, 9, (0, 30))]
)
def test_attention_to_pages(half, turns, pages, window, places):
    """Rows that are empty and rows that have one token; texts for one block of threads and for several."""
    pool, made = half(2 * pages + 1, 4, 16, 32), half(2, 8, 32)
    tables = jnp.asarray(np.random.default_rng(1).permutation(2 * pages).reshape(2, pages), jnp.int32)
    angle = half(2, 32).astype(jnp.float32)
    given = made, [jnp.cos(angle), jnp.sin(angle)] if turns else [], pool, tables, jnp.asarray(places, jnp.int32)
    (got, new), (wanted, kept) = [
        jax.jit(lambda *a, f=f: f(*a, 0.25, window))(*given)
        for f in (lambda *a: gpu_kernels.attend_pages(*a, interpret=True), decoding.attend_newest.body)
    ]
    close(got, wanted, 0.02)
    close(new, kept, 1e-3)


@pytest.mark.parametrize("kind", ["takes_few_rows", "takes_pages"])
def test_kernels_take_half_precision_alone(kind):
    given = {"takes_few_rows": (8, 2048, 2048), "takes_pages": (8, (100, 4, 16, 64))}[kind]
    takes = getattr(gpu_kernels, kind)
    assert takes(*given, jnp.dtype("bfloat16")) and takes(*given, np.dtype("float16"))
    assert not takes(*given, np.dtype("float32")) and not takes(*given, np.dtype("int16"))


def test_a_network_computes_the_same_by_kernels_for_few_rows(monkeypatch):
    config = Configuration(architecture="llama", vocabulary=32, width=16, layers=2, heads=4, shared_heads=2, inner=24)
    network, tokens = Network(config), bireme.to_tensor([[3, 1, 4]])
    with bireme.no_grad():
        wanted = network(tokens).numpy()
        monkeypatch.setattr(decoding, "applies", lambda *args: True)
        np.testing.assert_allclose(network(tokens).numpy(), wanted, rtol=1e-4, atol=1e-6)
