"""Attention with several heads and what is built of it: masks, caches, options, and what is drawn at random."""

import numpy as np
import pytest

import bireme
from bireme import nn
from bireme.nn.transformer import (
    MultiHeadAttention,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)


def some(*shape, seed=0):
    return bireme.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))


def formula(layer, query, key, value, added):
    """Attention in NumPy with `added` to the scores."""
    split = [
        (p, x.numpy() @ p.weight.numpy() + p.bias.numpy())
        for p, x in ((layer.q_proj, query), (layer.k_proj, key), (layer.v_proj, value))
    ]
    q, k, v = (x.reshape(*x.shape[:2], layer.num_heads, layer.head_dim) for _, x in split)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(layer.head_dim) + added
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    out = np.einsum("bhqk,bkhd->bqhd", weights, v).reshape(query.shape)
    return out @ layer.out_proj.weight.numpy() + layer.out_proj.bias.numpy(), weights


KEEP = np.random.default_rng(4).random((2, 1, 3, 5)) > 0.4
KEEP[..., 0] = True
MASKS = [
    (KEEP, np.where(KEEP, 0, -np.inf)),
    (KEEP.astype("int64"), np.where(KEEP, 0, -np.inf)),
    (KEEP.astype("float32"), KEEP),
    (None, 0.0),
]


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("which", range(4), ids=["bool", "int", "float", "none"])
def test_attention_is_the_formula(which, need_weights):
    mask, added = MASKS[which]
    layer = MultiHeadAttention(4, 2, need_weights=need_weights)
    query, key, value = some(2, 3, 4), some(2, 5, 4, seed=1), some(2, 5, 4, seed=2)
    made = layer(query, key, value, None if mask is None else bireme.to_tensor(mask))
    out, weights = formula(layer, query, key, value, added)
    np.testing.assert_allclose((made[0] if need_weights else made).numpy(), out, rtol=1e-5, atol=1e-5)
    if need_weights:
        np.testing.assert_allclose(made[1].numpy(), weights, rtol=1e-5, atol=1e-6)


def test_what_is_left_out_is_the_query():
    layer, x, other = MultiHeadAttention(4, 2), some(1, 3, 4), some(1, 3, 4, seed=1)
    for given, full in (((), (x, x)), ((other,), (other, x)), ((None, other), (x, other))):
        assert layer(x, *given).tolist() == layer(x, *full).tolist()


def test_a_row_that_keeps_nothing_weighs_everything_alike():
    layer = MultiHeadAttention(4, 2, need_weights=True)
    _, weights = layer(some(1, 2, 4), attn_mask=bireme.zeros([2, 2], "bool"))
    assert weights.tolist() == [[[[0.5, 0.5]] * 2] * 2]


def steps(layer, x, cache, *rest):
    outs = []
    for i in range(x.shape[1]):
        out, cache = layer(x[:, i : i + 1], *rest, cache=cache)
        outs.append(out)
    return bireme.concat(outs, 1), cache


@pytest.mark.parametrize("normalize_before", [False, True])
def test_step_by_step_with_a_cache_is_all_at_once_with_a_causal_mask(normalize_before):
    x, memory = some(2, 4, 4), some(2, 3, 4, seed=1)
    causal = bireme.to_tensor(np.tril(np.ones((4, 4), bool)))
    attention = MultiHeadAttention(4, 2)
    encoder = TransformerEncoder(
        TransformerEncoderLayer(4, 2, 6, normalize_before=normalize_before), 2, nn.LayerNorm(4)
    )
    decoder = TransformerDecoder(TransformerDecoderLayer(4, 2, 6, normalize_before=normalize_before), 2)
    encoder.eval()
    decoder.eval()
    cases = [
        (steps(attention, x, attention.gen_cache(x)), attention(x, attn_mask=causal)),
        (steps(encoder, x, encoder.gen_cache(x)), encoder(x, causal)),
        (steps(decoder, x, decoder.gen_cache(memory), memory), decoder(x, memory, causal)),
    ]
    for (made, _), want in cases:
        np.testing.assert_allclose(made.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    assert cases[0][0][1].k.shape == [2, 2, 4, 2]
    own, fixed = cases[2][0][1][1]
    assert (type(own), type(fixed)) == (MultiHeadAttention.Cache, MultiHeadAttention.StaticCache)
    assert (own.k.shape, fixed.k.shape) == ([2, 2, 4, 2], [2, 2, 3, 2])


def test_the_cache_of_a_memory_stays():
    layer, x, memory = MultiHeadAttention(4, 2), some(1, 2, 4), some(1, 3, 4, seed=1)
    cache = layer.gen_cache(memory, memory, layer.StaticCache)
    out, kept = layer(x, cache=cache)
    assert kept is cache
    np.testing.assert_allclose(out.numpy(), layer(x, memory, memory).numpy(), rtol=1e-5, atol=1e-6)
    k, v = layer.compute_kv(memory, memory)
    given = layer.gen_cache(k, v)
    assert type(given) is layer.Cache and given.k is k and given.v is v


def test_zipped_caches():
    decoder = TransformerDecoder(TransformerDecoderLayer(4, 2, 6), 3)
    own, fixed = decoder.gen_cache(some(1, 2, 4), do_zip=True)
    assert [type(c).__name__ for c in (*own, *fixed)] == ["Cache"] * 3 + ["StaticCache"] * 3


def test_names_of_parameters():
    both = ["weight", "bias"]
    attention = [f"{n}_proj.{kind}" for n in ("q", "k", "v", "out") for kind in both]
    rest = [f"{n}.{kind}" for n in ("linear1", "linear2", "norm1", "norm2") for kind in both]
    encoder = [f"self_attn.{n}" for n in attention] + rest
    decoder = (
        [f"{part}.{n}" for part in ("self_attn", "cross_attn") for n in attention]
        + rest
        + ["norm3.weight", "norm3.bias"]
    )
    model = [f"encoder.layers.0.{n}" for n in encoder] + ["encoder.norm.weight", "encoder.norm.bias"]
    model += [f"decoder.layers.{i}.{n}" for i in range(2) for n in decoder] + [
        "decoder.norm.weight",
        "decoder.norm.bias",
    ]
    assert list(MultiHeadAttention(4, 2).state_dict()) == attention
    assert list(TransformerEncoderLayer(4, 2, 6).state_dict()) == encoder
    assert list(TransformerDecoderLayer(4, 2, 6).state_dict()) == decoder
    assert list(Transformer(4, 2, 1, 2, 6).state_dict()) == model


def test_nothing_to_attend_to():
    layer = MultiHeadAttention(4, 2)
    assert layer(some(0, 3, 4)).shape == [0, 3, 4]
    assert layer(some(2, 0, 4)).shape == [2, 0, 4]
    assert layer(some(1, 2, 4), some(1, 0, 4), some(1, 0, 4)).tolist() == [[[0.0] * 4] * 2]


def biases(layer):
    return {name.split(".")[0] for name, _ in layer.named_parameters() if name.endswith("bias") and "norm" not in name}


def test_attributes_by_part():
    assert biases(TransformerEncoderLayer(4, 2, 6, bias_attr=[False, None])) == {"linear1", "linear2"}
    assert biases(TransformerDecoderLayer(4, 2, 6, bias_attr=[False, None, False])) == {"cross_attn"}
    assert biases(TransformerDecoderLayer(4, 2, 6, bias_attr=False)) == set()
    for attr, encoder, decoder in [
        ([False], set(), set()),
        ([False, None], {"linear1", "linear2"}, {"linear1", "linear2"}),
        ([None, False, None], {"self_attn", "linear1", "linear2"}, {"self_attn", "linear1", "linear2"}),
    ]:
        made = Transformer(4, 2, 1, 1, 6, bias_attr=attr)
        assert (biases(made.encoder.layers[0]), biases(made.decoder.layers[0])) == (encoder, decoder)


def test_layers_of_a_stack_have_numbers_of_their_own():
    first = TransformerEncoderLayer(4, 2, 6, activation="gelu", attn_dropout=0.2, act_dropout=0.3)
    stack = TransformerEncoder(first, 2)
    assert stack.layers[0] is first
    assert stack.layers[1].linear1.weight.tolist() != first.linear1.weight.tolist()
    second = stack.layers[1]
    assert (second.activation, second.self_attn.dropout, second.dropout.p, second.dropout1.p) == (
        nn.functional.gelu,
        0.2,
        0.3,
        0.1,
    )


@pytest.mark.parametrize("need_weights", [False, True])
def test_dropout_of_weights(need_weights):
    layer, x = MultiHeadAttention(4, 2, 0.5, need_weights=need_weights), some(2, 6, 4)
    made = [layer(x) for _ in range(2)]
    one, two = ((m[0] if need_weights else m).numpy() for m in made)
    assert (one != two).any()
    if need_weights:
        assert 0.2 < (made[0][1].numpy() == 0).mean() < 0.8
    layer.eval()
    one, two = ((m[0] if need_weights else m).numpy() for m in (layer(x), layer(x)))
    assert (one == two).all()


def test_own_encoder_and_decoder():
    class Double(nn.Layer):
        def forward(self, x, *rest):
            return 2 * x

    x = some(1, 2, 4)
    model = Transformer(4, 2, custom_encoder=Double(), custom_decoder=Double())
    assert model(x, x).tolist() == (2 * x).tolist()
    assert (
        model.generate_square_subsequent_mask(bireme.to_tensor(3)).tolist()
        == np.where(np.tril(np.ones((3, 3))), 0, -np.inf).tolist()
    )


@pytest.mark.parametrize("name", ["_prepare_qkv", "compute_kv"])
def test_queries_keys_and_values_of_a_programs_own(name):
    class Mine(MultiHeadAttention):
        pass

    def doubled(self, *args):
        *q, k, v = getattr(MultiHeadAttention, name)(self, *args)[:3]
        return (*q, k, v * 2)

    plain, mine, x = MultiHeadAttention(4, 2, bias_attr=False), Mine(4, 2, bias_attr=False), some(1, 3, 4)
    mine.set_state_dict(plain.state_dict())
    np.testing.assert_allclose(mine(x).numpy(), plain(x).numpy(), rtol=1e-5, atol=1e-6)
    setattr(Mine, name, doubled)
    np.testing.assert_allclose(mine(x).numpy(), plain(x).numpy() * 2, rtol=1e-5, atol=1e-6)


def test_what_classes_of_programs_build_on():
    """Programs derive their own attention and layers: they call Paddle's inner functions, which have no other name."""
    from bireme.nn.transformer import _convert_attention_mask, _convert_param_attr_to_list

    layer, x = MultiHeadAttention(4, 2), some(1, 3, 4)
    q, k, v = layer._prepare_qkv(x, x, x)
    assert q.shape == [1, 2, 3, 2]
    weights = nn.functional.softmax(bireme.matmul(q * 2**-0.5, k, transpose_y=True))
    made = layer.out_proj(bireme.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([1, 3, 4]))
    np.testing.assert_allclose(made.numpy(), layer(x).numpy(), rtol=1e-5, atol=1e-6)
    cache = layer._prepare_qkv(x, x, x, layer.gen_cache(x))[3]
    assert (type(cache), cache.k.shape) == (MultiHeadAttention.Cache, [1, 2, 3, 2])

    assert _convert_attention_mask(None, "float32") is None
    assert _convert_attention_mask(bireme.to_tensor([True, False]), "float32").tolist() == [0.0, -1e9]
    assert _convert_attention_mask(bireme.to_tensor([1.0, 0.0]), "float64").dtype == bireme.float64

    assert [a.name for a in _convert_param_attr_to_list(bireme.ParamAttr("w"), 2)] == ["w_0", "w_1"]
    assert _convert_param_attr_to_list(False, 2) == [False, False]
    assert [a if a is False else a.name for a in bireme.ParamAttr._to_attr(["w", None, False])] == ["w", None, False]


def test_attention_without_a_rate_drops_nothing():
    x = bireme.to_tensor(np.arange(8.0, dtype=np.float32).reshape(1, 2, 4))
    layer = nn.MultiHeadAttention(4, 2, None, need_weights=True)
    out, weights = layer(x)
    np.testing.assert_allclose(weights.sum(-1).numpy(), 1.0, rtol=1e-6)
    layer.need_weights = False
    np.testing.assert_allclose(layer(x).numpy(), out.numpy(), rtol=1e-5)
