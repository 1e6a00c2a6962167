"""Attention in blocks of rows, with dropout, and the choice of kernels; masks themselves are in the table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bireme
from bireme.core.base import dtype as dtypes
from bireme.nn.functional import flash_attention as flash
from bireme.ops.nn import attention

F = bireme.nn.functional


def arrays(rows=20, keys=20, heads=4, shared=2, batch=2, width=8):
    rng = np.random.default_rng(0)
    shapes = [(batch, rows, heads, width), (batch, keys, shared, width), (batch, keys, shared, width)]
    return [rng.normal(size=s) for s in shapes]


def tensors(*args, **kwargs):
    return [bireme.to_tensor(a, stop_gradient=False) for a in arrays(*args, **kwargs)]


BOUNDS = np.random.default_rng(1).integers(3, 20, (2, 2, 20, 1)).astype(np.int32)
BOUNDS = np.concatenate([BOUNDS, BOUNDS + 5, BOUNDS * 0, BOUNDS * 0], -1)
MASK = np.random.default_rng(2).normal(size=(2, 1, 20, 20))


@pytest.mark.parametrize(
    "options", [{}, {"shift": 0}, {"mask": MASK}, {"mask": MASK[:, :, :1] > 0}, {"bounds": BOUNDS, "shift": 0}]
)
def test_blocks_of_rows_give_the_same(options, monkeypatch):
    qkv, found = arrays(), []
    with jax.enable_x64(True):
        for block in (1 << 24, 2 * 4 * 20 * 16):
            monkeypatch.setattr(attention, "BLOCK", block)
            out, back = jax.vjp(lambda q, k, v: attention.attend(q, k, v, **options), *qkv)
            lse = jnp.where(jnp.isfinite(out[1]), 1.0, 0.0)
            found.append([*out, *back((jnp.cos(out[0]), lse))])
    for whole, parts in zip(*found, strict=True):
        np.testing.assert_allclose(whole, parts, rtol=1e-9, atol=1e-12)


def test_long_sequences_keep_no_scores(monkeypatch):
    """The compiled backward pass needs a block of scores at a time, not all of them."""
    monkeypatch.setattr(attention, "BLOCK", 1 << 16)
    n = 1024
    x = jax.ShapeDtypeStruct((1, n, 2, 8), jnp.float32)
    gradient = jax.grad(lambda q, k, v: attention.attend(q, k, v, shift=0)[0].sum(), argnums=(0, 1, 2))
    used = jax.jit(gradient).lower(x, x, x).compile().memory_analysis().temp_size_in_bytes
    assert used < 2 * n * n * 4 / 2, f"{used} bytes beside {2 * n * n * 4} of all scores"


def test_rows_that_see_nothing_are_zero():
    q, k, v = tensors(3, 3)
    mask = bireme.to_tensor([[True, False, True], [False, False, False], [True, True, True]])
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert out[:, 1].abs().max().item() == 0.0
    grads = bireme.grad(out.square().sum(), [q, k, v])
    assert all(g.isfinite().all().item() for g in grads)
    assert grads[0][:, 1].abs().max().item() == 0.0
    assert F.scaled_dot_product_attention(q, k[:, :0], v[:, :0]).abs().max().item() == 0.0


def test_dropout():
    q, k, v = tensors(16, 64, 4, 4)
    plain = F.scaled_dot_product_attention(q, k, v * 0 + 1)
    bireme.seed(1)
    first = F.scaled_dot_product_attention(q, k, v * 0 + 1, dropout_p=0.25)
    bireme.seed(1)
    again = F.scaled_dot_product_attention(q, k, v * 0 + 1, dropout_p=0.25)
    other = F.scaled_dot_product_attention(q, k, v * 0 + 1, dropout_p=0.25)
    assert first.tolist() == again.tolist() != other.tolist()
    assert abs(first.mean().item() - plain.mean().item()) < 0.05
    assert F.scaled_dot_product_attention(q, k, v, dropout_p=1.0).abs().max().item() == 0.0
    assert (
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, training=False).tolist()
        == F.scaled_dot_product_attention(q, k, v).tolist()
    )


def test_a_seed_fixes_what_is_dropped():
    q, k, v = tensors(6, 6, 2, 2)
    seed = bireme.to_tensor([3, 4])

    def loss(value):
        out, used = F.flashmask_attention(q, k, value, dropout=0.5, fixed_seed_offset=seed, return_seed_offset=True)
        assert used.tolist() == [3, 4]
        return out.square().sum()

    assert loss(v).item() == loss(v).item()
    (slope,) = bireme.grad(loss(v), [v])
    step = bireme.zeros_like(v)
    step[0, 2, 1, 3] = 1e-5
    near = (loss(v + step) - loss(v - step)).item() / 2e-5
    np.testing.assert_allclose(slope[0, 2, 1, 3].item(), near, rtol=1e-5)


def test_lengths_and_weights_of_several_sequences():
    q = bireme.randn([5, 2, 4])
    cu = bireme.to_tensor([0, 2, 5], dtype="int32")
    out, weights = flash.flash_attn_unpadded(q, q, q, cu, cu, 3, 3, 0.5, causal=True, return_softmax=True)
    assert weights.shape == [2, 2, 3, 3] and weights[0, :, 2].abs().max().item() == 0.0
    for i, (a, b) in enumerate(((0, 2), (2, 5))):
        part = q[a:b].unsqueeze(0)
        want, p = flash.flash_attention(part, part, part, causal=True, return_softmax=True)
        np.testing.assert_allclose(out[a:b].numpy(), want[0].numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(weights[i, :, : b - a, : b - a].numpy(), p[0].numpy(), rtol=1e-5, atol=1e-6)
    used = flash.flash_attention_v3_varlen(
        q, q, q, cu, cu, 3, 3, seqused_k=bireme.to_tensor([1, 2], dtype="int32"), softmax_scale=0.5
    )[0]
    np.testing.assert_allclose(used[0].numpy(), q[0].numpy(), rtol=1e-6)


def test_one_kernel_at_least():
    with flash.sdp_kernel(enable_math=True, enable_flash=False, enable_mem_efficient=False):
        F.scaled_dot_product_attention(*tensors(2, 2))
    with pytest.raises(AssertionError, match="at least one enabled kernel"), flash.sdp_kernel(False, False, False):
        pass


def test_what_does_not_fit():
    q, k, v = tensors(3, 3)
    for wrong, message in (
        ((q, k[:, :, :, :5], v), "keys and values of equal length"),
        ((q, tensors(3, 3, 4, 3)[1], tensors(3, 3, 4, 3)[1]), "4 heads"),
    ):
        with pytest.raises(ValueError, match=message):
            F.scaled_dot_product_attention(*wrong)
    with pytest.raises(ValueError, match=r"a mask that broadcasts to \[2, 4, 3, 3\], got shape \[2, 3\]"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=bireme.zeros([2, 3]))
    with pytest.raises(TypeError, match="a bool or floating-point mask"):
        F.scaled_dot_product_attention(q, k, v, attn_mask=bireme.zeros([3, 3], "int64"))


def test_the_interpreter_goes_by_blocks_of_rows(monkeypatch):
    """Heads that share keys, a mask for each row and one for all: the same numbers whether scores come at once or not."""
    mask = np.random.default_rng(2).normal(size=(2, 1, 20, 20))

    def made(mask):
        parts = [*tensors(), bireme.to_tensor(mask, stop_gradient=False)]
        out = attention.attention(*parts, True)
        (out * out).sum().backward()
        return [t.numpy() for t in (out, *[p.grad for p in parts])]

    whole = [made(mask), made(mask[:, :, :1])]
    monkeypatch.setattr(attention, "BLOCK", 2 * 4 * 20 * 3)
    for one, other in zip(whole, [made(mask), made(mask[:, :, :1])], strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "length", "width", "dtype", "masked", "takes"),
    [
        (128, 128, 64, "bfloat16", False, True),
        (128, 96, 128, "float16", False, True),
        (1, 33, 64, "bfloat16", False, False),  # one query and a cache: jax refuses odd lengths
        (1, 64, 64, "bfloat16", False, False),
        (64, 33, 64, "bfloat16", False, False),
        (64, 64, 20, "bfloat16", False, False),
        (64, 64, 256, "bfloat16", False, False),
        (64, 64, 64, "float32", False, False),
        (64, 64, 64, "bfloat16", True, False),
        (0, 64, 64, "bfloat16", False, False),
        (64, 0, 64, "bfloat16", False, False),
    ],
)
def test_where_the_kernel_of_cudnn_applies(rows, length, width, dtype, masked, takes):
    query, key = (2, rows, 8, width), (2, length, 2, width)
    assert attention.cudnn_takes(query, key, key, dtypes.of(dtype).np, masked) is takes
