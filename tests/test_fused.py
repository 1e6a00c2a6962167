"""Fused functions where a row of the table does not reach: what is left out, what is changed in place, what is
quantised.
"""

import numpy as np
import pytest

import bireme
from bireme.incubate.nn import functional as F
from bireme.incubate.nn import memory_efficient_attention
from tests.table import checks
from tests.table.fused import attention, fp8, kv_cache, matmul, moe, norm

PARTS = (matmul, attention, kv_cache, fp8, moe, norm)
rng = np.random.default_rng(4)


def tensor(*shape, grad=False):
    return bireme.to_tensor(rng.standard_normal(shape), stop_gradient=not grad)


@pytest.mark.parametrize("row", [row for part in PARTS for row in part.EXTRA], ids=lambda row: row.name)
def test_more_samples(row):
    """Every option has the reference's values: what the table does not compile."""
    checks.forward(row)


def test_rotary_embedding_leaves_out_what_is_not_given():
    q, k = tensor(1, 2, 2, 4), tensor(1, 2, 1, 4)
    for _ in range(2):  # the second call is replayed
        out_q, out_k, out_v = F.fused_rotary_position_embedding(q, k)
        assert out_v is None and out_q.shape == q.shape and out_k.shape == k.shape
        out_q, out_k, out_v = F.fused_rotary_position_embedding(q, None, q)
        assert out_k is None
        np.testing.assert_allclose(out_v.numpy(), out_q.numpy())
    # a turn keeps the length of each pair
    pairs = [t.numpy().reshape(1, 2, 2, 2, 2) for t in (q, out_q)]
    np.testing.assert_allclose(*[np.linalg.norm(p, axis=-1) for p in pairs])


def test_rotary_embedding_depends_on_the_distance_alone():
    q, k = [bireme.to_tensor(np.tile(rng.standard_normal((1, 1, 1, 8)), (1, 6, 1, 1))) for _ in range(2)]
    for style in (True, False):
        a, b, _ = F.fused_rotary_position_embedding(q, k, use_neox_rotary_style=style)
        scores = np.einsum("bqhd,bkhd->qk", a.numpy(), b.numpy())
        for shift in range(-3, 4):
            np.testing.assert_allclose(np.diagonal(scores, shift), np.diagonal(scores, shift)[0])


def test_masked_attention_step_by_step_is_causal_attention():
    n, heads, width = 4, 2, 3
    qkv = rng.standard_normal((n, 2, 3, heads, width))
    cache = bireme.zeros([2, 2, heads, n, width], "float64")
    steps = []
    for t in range(n):
        out, kept = F.masked_multihead_attention(
            bireme.to_tensor(qkv[t].reshape(2, -1)), cache, sequence_lengths=bireme.to_tensor([[t], [t]], dtype="int32")
        )
        assert kept is cache and out.stop_gradient
        steps.append(out.numpy().reshape(2, heads, width))
    q, k, v = [bireme.to_tensor(np.moveaxis(qkv[:, :, i], 0, 1)) for i in range(3)]
    want = bireme.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(np.stack(steps, 1), want.numpy(), rtol=1e-9)
    np.testing.assert_allclose(cache[0].numpy(), np.transpose(qkv[:, :, 1], (1, 2, 0, 3)))


def test_beams_read_the_cache_of_the_beam_they_came_from():
    cache = bireme.to_tensor(rng.standard_normal((2, 2, 1, 2, 3)))
    x, at = tensor(2, 9), bireme.to_tensor([[1], [1]], dtype="int32")
    swapped = bireme.to_tensor(np.concatenate([cache.numpy()[:, ::-1, :, :1], cache.numpy()[:, :, :, 1:]], 3))
    offsets = bireme.to_tensor([[[1, 1], [0, 0]]], dtype="int32")
    out, _, same = F.masked_multihead_attention(x, cache, sequence_lengths=at, beam_cache_offset=offsets)
    assert same is offsets
    np.testing.assert_allclose(out.numpy(), F.masked_multihead_attention(x, swapped, sequence_lengths=at)[0].numpy())


def test_blocks_step_by_step_are_one_prompt():
    """Prompt of 3 and two steps, against one prompt of 5; both caches end up the same."""
    n, width, block = 5, 4, 2
    qkv = rng.standard_normal((n, 3 * width))
    table = bireme.to_tensor([[2, 0, 3]], dtype="int32")

    def numbers(*values):
        return bireme.to_tensor(list(values), dtype="int32")

    def run(tokens, caches, prompt, done):
        count = len(tokens)
        lengths = (
            numbers(prompt),
            numbers(done),
            numbers(count),
            numbers(*[0] * count),
            numbers(0),
            numbers(0, count),
            numbers(0, count),
        )
        return F.block_multihead_attention(bireme.to_tensor(tokens), *caches, *lengths, table, block_size=block)[
            0
        ].numpy()

    def caches():
        return [bireme.zeros([4, 1, block, width], "float64") for _ in range(2)]

    one, many = caches(), caches()
    want = run(qkv, one, 5, 0)
    got = [run(qkv[:3], many, 3, 0), run(qkv[3:4], many, 0, 3), run(qkv[4:], many, 0, 4)]
    np.testing.assert_allclose(np.concatenate(got), want, rtol=1e-9)
    for a, b in zip(one, many, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy())


def test_blocks_of_bytes():
    """Caches of 8 bits give nearly what whole ones give."""
    qkv = rng.uniform(-1, 1, (3, 12)).astype("float32")
    lengths = [bireme.to_tensor(v, dtype="int32") for v in ([3], [0], [3], [0, 0, 0], [0], [0, 3], [0, 3], [[0, 1]])]
    scales = [bireme.full([1], s) for s in (1.0, 1.0, 1 / 127, 1 / 127)]
    names = ("cache_k_quant_scales", "cache_v_quant_scales", "cache_k_dequant_scales", "cache_v_dequant_scales")
    found = []
    for kind, given in (("float32", {}), ("uint8", dict(zip(names, scales, strict=True)))):
        caches = [bireme.zeros([2, 1, 2, 4], kind) for _ in range(2)]
        found.append(
            F.block_multihead_attention(bireme.to_tensor(qkv), *caches, *lengths, block_size=2, **given)[0].numpy()
        )
    assert caches[0].dtype.name == "uint8"
    np.testing.assert_allclose(found[1], found[0], atol=0.01)


def test_transformer_step_by_step_is_the_whole():
    bireme.seed(3)
    layer = bireme.incubate.nn.FusedMultiTransformer(
        4, 2, 8, num_layers=2, norm_type="rmsnorm", gqa_group_size=1, activation="swiglu"
    )
    x = bireme.to_tensor(rng.standard_normal((2, 4, 4)).astype("float32"))
    mask = bireme.to_tensor(np.where(np.tril(np.ones((1, 1, 4, 4))) > 0, 0, -1e9).astype("float32")).expand(
        [2, 1, 4, 4]
    )
    want = layer(x, mask).numpy()
    caches = [bireme.zeros([2, 2, 1, 6, 2]) for _ in range(2)]
    out, kept = layer(x[:, :3], mask[:, :, :3, :3], caches)
    np.testing.assert_allclose(out.numpy(), want[:, :3], rtol=1e-4, atol=1e-5)
    assert all(a is b for a, b in zip(kept, caches, strict=True))
    out, _ = layer(x[:, 3:], None, caches, time_step=bireme.to_tensor([3], dtype="int32"))
    np.testing.assert_allclose(out.numpy(), want[:, 3:], rtol=1e-4, atol=1e-5)


def test_attention_layer_with_a_cache():
    layer = bireme.incubate.nn.FusedTransformerEncoderLayer(4, 2, 8).eval()
    x = bireme.to_tensor(rng.standard_normal((1, 3, 4)).astype("float32"))
    lower = bireme.to_tensor(np.tril(np.ones((3, 3), bool)))
    want = layer(x, lower).numpy()
    cache = bireme.zeros([2, 1, 2, 0, 2])
    for t in range(3):
        out, cache = layer(x[:, t : t + 1], cache=cache)
        np.testing.assert_allclose(out.numpy(), want[:, t : t + 1], rtol=1e-4, atol=1e-5)


def test_experts_and_back():
    """Dispatch and combine are a sum over the chosen experts, and so are their gradients."""
    x, logits = tensor(6, 3, grad=True), tensor(6, 4, grad=True)
    gate = bireme.nn.functional.softmax(logits, -1)
    y, weights, places, offset, chosen = F.moe_gate_dispatch(x, gate, None, 2, 6, True)
    assert not y.stop_gradient and not weights.stop_gradient and places.stop_gradient and offset.stop_gradient
    scale = bireme.to_tensor(np.arange(1.0, 5.0)).reshape([4, 1, 1])  # expert e multiplies by e + 1
    back = F.moe_combine((y.reshape([4, 6, 3]) * scale).reshape([24, 3]), weights, places)
    hot = bireme.to_tensor((chosen.numpy()[:, :, None] == np.arange(4)).any(1).astype(float))
    want = x * ((gate * hot) * scale.reshape([1, 4])).sum(1, keepdim=True)
    np.testing.assert_allclose(back.numpy(), want.numpy(), rtol=1e-9)
    g = tensor(6, 3)
    for a, b in zip(bireme.grad(back, [x, logits], g), bireme.grad(want, [x, logits], g), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-12)


def test_the_loss_that_spreads_tokens():
    gate, counts = tensor(5, 3, grad=True), bireme.to_tensor([2, 2, 1])
    loss, tokens, share = F.cal_aux_loss(gate, counts, None, None, 3, False, 1, 1e-6)
    want = (gate.mean(0) * counts.astype("float64") / 5).sum() * 3
    assert loss.item() == pytest.approx(want.item())
    assert tokens.item() == 5 and tokens.stop_gradient and share.stop_gradient
    np.testing.assert_allclose(bireme.grad(loss, gate)[0].numpy(), bireme.grad(want, gate)[0].numpy())


def test_results_in_eight_bits():
    x = bireme.to_tensor([[1.0, -3.0, 0.25, 2.5]])
    out, total = F.fused_rms_norm(
        x, bireme.ones([4]), None, 0.0, quant_scale=1 / 127, quant_max_bound=127, quant_min_bound=-127
    )
    assert out.dtype.name == "int8" and total.dtype.name == "float32"
    plain = F.fused_rms_norm(x, bireme.ones([4]), None, 0.0)[0].numpy()
    np.testing.assert_array_equal(out.numpy(), np.rint(plain))
    eighth = F.fused_bias_act(x, act_method="relu", quant_scale=1 / 448, quant_max_bound=448.0, quant_min_bound=-448.0)
    assert eighth.dtype.name == "float8_e4m3fn"
    np.testing.assert_allclose(eighth.astype("float32").numpy(), [[1.0, 0.0, 0.25, 2.5]])
    back = F.fused_bias_act(
        bireme.to_tensor([[2, -2]], dtype="int32"),
        dequant_scales=bireme.to_tensor([0.5, 0.5]),
        act_method="relu",
        compute_dtype="fp16",
    )
    assert back.dtype.name == "float16" and back.tolist() == [[1.0, 0.0]]


def test_products_of_eight_bits_are_nearly_those_of_whole_numbers():
    a, b = [bireme.to_tensor(rng.standard_normal(s).astype("float32")) for s in ((4, 256), (130, 256))]
    (qa, sa), (qb, sb) = F.fp8_quant_blockwise(a), F.fp8_quant_blockwise(b, quant_method="128x128")
    out = bireme.ones([4, 130])
    made = F.fp8_gemm_blockwise(qa, sa, qb, sb, "float32", out, accumulate=True, is_b_1d_scaled=False)
    assert made is out
    # sums of 256 products with errors of 3 %
    np.testing.assert_allclose(out.numpy() - 1, a.numpy() @ b.numpy().T, atol=4)


def test_attention_with_masks_by_meaning():
    q, k, v = tensor(1, 5, 2, 4), tensor(1, 5, 2, 4), tensor(1, 5, 2, 4)
    attend, masks = memory_efficient_attention.memory_efficient_attention, memory_efficient_attention
    sdpa = bireme.nn.functional.scaled_dot_product_attention
    np.testing.assert_allclose(attend(q, k, v).numpy(), sdpa(q, k, v).numpy())
    lower = attend(q, k, v, masks.LowerTriangularMask(), scale=0.3).numpy()
    np.testing.assert_allclose(lower, sdpa(q * 0.6, k, v, is_causal=True).numpy())
    zero = masks.LowerTriangularMask().add_bias(bireme.zeros([5, 5], "float64"))
    np.testing.assert_allclose(attend(q, k, v, zero, scale=0.3).numpy(), lower)
    for mask in (
        masks.BlockDiagonalMask.from_seqlens([2, 3]),
        masks.BlockDiagonalMask.from_seqlens([2, 3]).make_causal(),
    ):
        causal = isinstance(mask, masks.BlockDiagonalCausalMask)
        want = np.concatenate(
            [sdpa(*[t[:, i:j] for t in (q, k, v)], is_causal=causal).numpy() for i, j in ((0, 2), (2, 5))], 1
        )
        np.testing.assert_allclose(attend(q, k, v, mask).numpy(), want, rtol=1e-9)
    with pytest.raises(TypeError, match="a Tensor, a mask of attn_bias, or None"):
        attend(q, k, v, "lower")


def test_dropout_draws_and_keeps_the_mean():
    bireme.seed(0)
    x, y = bireme.ones([1000]), bireme.zeros([1000])
    out = F.fused_dropout_add(x, y, 0.25)
    np.testing.assert_allclose(np.unique(out.numpy()), [0, 4 / 3], rtol=1e-6)
    assert abs(out.mean().item() - 1) < 0.1
    again = F.fused_dropout_add(x, y, 0.25)
    assert (out.numpy() != again.numpy()).any()
