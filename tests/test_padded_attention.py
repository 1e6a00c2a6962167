"""Attention where lengths keep changing on an accelerator: by a form of its own for arrays of which only beginnings are
valid, whatever lies behind these.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import bireme
from bireme.core.graph.bound import ANY
from bireme.core.run import padding
from bireme.ops.nn import attention as lowering

F = bireme.nn.functional


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def exact(q, k, v, mask, causal, g):
    """Results and gradients without padding."""
    given = [bireme.to_tensor(a, stop_gradient=False) for a in (q, k, v)]
    mask = None if mask is None else bireme.to_tensor(mask)
    out = F.scaled_dot_product_attention(*given, attn_mask=mask, is_causal=causal)
    return [out.numpy(), *[t.numpy() for t in bireme.grad([out], given, [bireme.to_tensor(g)])]]


MASKS = {
    "none": lambda b, rows, keys: None,
    "bools": lambda b, rows, keys: normal(b, 1, rows, keys, seed=3) > -1,
    "keys": lambda b, rows, keys: normal(b, 1, 1, keys, seed=3) > -1,
    "numbers": lambda b, rows, keys: normal(1, 4, rows, keys, seed=3),
    "rows": lambda b, rows, keys: normal(1, 1, rows, 1, seed=3),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("batch", "rows", "keys", "shared"), [(2, 5, 5, 1), (3, 7, 7, 2), (2, 3, 9, 1), (1, 1, 6, 4)])
def test_what_lies_behind_has_no_part_in_it(mask, causal, batch, rows, keys, shared):
    heads = 4
    q, g = normal(batch, rows, heads, 8), normal(batch, rows, heads, 8, seed=1)
    k, v = normal(2, batch, keys, heads // shared, 8, seed=2)
    given = MASKS[mask](batch, rows, keys)
    want = exact(q, k, v, given, causal, g)

    def larger(a, sizes):
        """The same with room along axes of these sizes, filled with NaN or True."""
        room = [(0, {batch: 1, rows: 3, keys: 2}.get(n, 0) if axis in sizes else 0) for axis, n in enumerate(a.shape)]
        return np.pad(a, room, constant_values=True if a.dtype == bool else np.nan)

    def valid(a, sizes):
        return tuple([n if axis in sizes else None for axis, n in enumerate(a.shape)])

    names = {"query": q, "key": k, "value": v, "g": g}
    if given is not None:
        names["mask"] = given
    axes = {n: (1,) if n != "mask" else [i for i in (2, 3) if a.shape[i] > 1] for n, a in names.items()}
    if batch not in (1, rows, keys):
        axes = {n: (0, 1) if n != "mask" else [i for i in (0, 2, 3) if a.shape[i] > 1] for n, a in names.items()}
    lengths = {n: valid(a, axes[n]) for n, a in names.items()}
    arrays = {n: jnp.asarray(larger(a, axes[n])) for n, a in names.items()}
    arrays.setdefault("mask", None)
    more = arrays.pop("g")
    op = lowering.attention
    made = [op.padded_forms[ANY](lengths, causal=causal, **arrays)]
    made += op.padded_grad_forms[ANY](lengths, more, causal=causal, **arrays)[:3]
    for found, expected in zip(made, want, strict=True):
        found = np.asarray(found)[tuple([slice(n) for n in expected.shape])]
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_steps_of_changing_lengths_with_more_scores_than_a_block(padding_applies, monkeypatch):
    monkeypatch.setattr(lowering, "BLOCK", 1 << 10)  # rows come in blocks, one after another
    table = bireme.to_tensor(normal(50, 16), stop_gradient=False)

    def step(n, batch=2):
        ids = bireme.to_tensor(np.random.default_rng(n).integers(0, 50, (batch, n)))
        x = bireme.nn.functional.embedding(ids, table)
        for _ in range(2):
            y = x.reshape([batch, n, 2, 8])
            x = x + F.scaled_dot_product_attention(y, y, y, is_causal=True).reshape([batch, n, 16]) * 0.5
        loss = (x * x).mean()
        (slope,) = bireme.grad(loss, table)
        return loss.numpy(), slope.numpy()

    for n, batch in ((41, 2), (60, 2), (50, 2), (37, 2), (55, 2)):
        got = step(n, batch)
        with bireme.debug.use_executor("interpreter"):
            want = step(n, batch)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    sizes = [size for family in padding.families() for size, made in family.padded.items() if made is not None]
    assert (64,) in sizes


def test_a_form_that_does_not_apply_leaves_it_to_the_steps():
    with pytest.raises(lowering.Inapplicable):
        lowering._Beginnings(
            {"query": (None, 3, 2, None), "key": (None,) * 4, "value": (None,) * 4}, *[None] * 4, causal=False
        )
