"""Networks of language models: the logits of transformers, from folders as it writes them."""

import json

import numpy as np
import pytest

import bireme
import bireme.llm
from bireme.llm.network import bytes_of
from tests import language_models as models

# told by transformers 5.23.0: logits of [1, -1, (0, 7, 19, 38)] and [0, 5, (3, 11)] of the tokens of language_models
LOGITS = {
    "gpt2": [-1.70056, -2.653, 2.31399, 1.07642, 0.09081, -1.47969],
    "llama": [0.52003, -0.5908, 0.25842, -0.09859, -0.33018, 0.20486],
    "llama, biases": [0.4116, -0.44158, 0.23126, -0.03446, -0.24259, 0.05695],
    "llama, linear": [0.26329, -0.5136, -0.08927, -0.40888, -0.28898, 0.1692],
    "llama, dynamic": [0.47225, -0.56903, 0.20131, -0.14395, -0.3427, 0.22241],
    "llama, llama3": [0.41385, -0.54977, 0.12396, -0.21168, -0.35028, 0.2341],
    "llama, yarn": [0.44252, -0.55775, 0.16344, -0.17597, -0.35274, 0.23571],
    "qwen2": [-0.11148, -0.02757, -0.21367, -0.23698, -0.67586, 0.64011],
    "qwen2, windows": [-0.11, -0.0283, -0.21194, -0.23565, -0.67537, 0.6396],
    "mistral": [0.29113, -0.53103, -0.06086, -0.39039, -0.31593, 0.19872],
}
HUGE = {"num_attention_heads": 2**40, "hidden_size": -1, "vocab_size": 1.5, "num_hidden_layers": True}


def logits(folder, **settings):
    with bireme.no_grad():
        return bireme.llm.load(folder, **settings).network(bireme.to_tensor(models.TOKENS)).numpy()


@pytest.mark.parametrize("name", models.CONFIGS)
def test_logits_are_those_of_transformers(name, tmp_path):
    found = logits(models.write(tmp_path, models.CONFIGS[name]))
    told = np.concatenate([found[1, -1, [0, 7, 19, 38]], found[0, 5, [3, 11]]])
    np.testing.assert_allclose(told, LOGITS[name], atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("name", models.CONFIGS)
def test_all_logits_beside_transformers(name, tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: numbers of it are above")
    torch = pytest.importorskip("torch")
    folder = models.write(tmp_path, models.CONFIGS[name])
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval().float()
    with torch.no_grad():
        told = model(torch.tensor(models.TOKENS)).logits.numpy()
    np.testing.assert_allclose(logits(folder), told, rtol=1e-4, atol=1e-4 * np.abs(told).max())


def test_weights_in_several_files_and_dtypes(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    one.mkdir()
    many.mkdir()
    models.write(one, models.LLAMA)
    models.write(many, models.LLAMA, shards=3)
    np.testing.assert_array_equal(logits(one), logits(many))
    half = bireme.llm.load(one, dtype="bfloat16").network
    assert {p.dtype.name for p in half.parameters()} == {"bfloat16"}


@pytest.mark.parametrize(("kind", "share"), [("int8", 0.45), ("int4", 0.4)])
def test_weights_as_integers(kind, share, tmp_path):
    config = models.LLAMA | {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
    folder = models.write(tmp_path, config)
    plain, whole = bireme.llm.load(folder).network, bireme.llm.load(folder, quantize=kind).network
    assert bytes_of(whole) < share * bytes_of(plain)
    quant, group = bireme.nn.quant, 64 if kind == "int4" else -1
    for name, layer in plain.named_sublayers():
        if isinstance(layer, bireme.nn.Linear) and name != "head":
            made = quant.weight_quantize(layer.weight, f"weight_only_{kind}", group_size=group)
            layer.weight.set_value(quant.weight_dequantize(*made, f"weight_only_{kind}", "float32", group))
    with bireme.no_grad():
        told = plain(bireme.to_tensor(models.TOKENS)).numpy()
    np.testing.assert_allclose(logits(folder, quantize=kind), told, rtol=1e-3, atol=1e-3)


def test_the_network_trains():
    config = bireme.llm.Configuration(
        architecture="qwen2", vocabulary=20, width=16, layers=1, heads=2, inner=24, attention_bias=True
    )
    network = bireme.llm.Network(config)
    loss = bireme.nn.functional.cross_entropy(
        network(bireme.to_tensor([[1, 2, 3]])).reshape([3, 20]), bireme.to_tensor([2, 3, 4])
    )
    loss.backward()
    assert all(p.grad is not None for p in network.parameters())


# ---------------------------------------------------------------- folders that are wrong


def refusal(folder, **settings):
    with pytest.raises(ValueError) as refused:
        bireme.llm.load(folder, **settings)
    return str(refused.value).splitlines()[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "bert"},
            "load(folder): expected a model_type among gpt2, llama, mistral, qwen2 in config.json, got 'bert'",
        ),
        (
            {"rope_scaling": {"rope_type": "longrope"}},
            "load(folder): expected a rope_type among default, linear, dynamic, llama3, yarn",
        ),
        (
            {"rope_scaling": {"rope_type": "linear"}},
            "load(folder): expected factor to be a non-negative number in config.json, got None",
        ),
        (
            {"rope_scaling": {"rope_type": "linear", "factor": float("nan")}},
            "load(folder): expected factor to be a non-negative number",
        ),
        ({"hidden_act": "mish"}, "load(folder): expected hidden_act to be one of silu, gelu"),
        ({"num_key_value_heads": 3}, "Configuration(shared_heads): expected a factor of the 4 heads, got 3"),
        ({"tie_word_embeddings": "yes"}, "load(folder): expected tie_word_embeddings to be true or false"),
        (
            {"num_hidden_layers": 3},
            "load(folder): expected the tensor model.layers.2.input_layernorm.weight, got none of that name",
        ),
        (
            {"intermediate_size": 2**20},
            "load(folder): expected shape [1048576, 16] of model.layers.0.mlp.gate_proj.weight, got shape [24, 16]",
        ),
        ({"eos_token_id": "end"}, "load(folder): expected an integer or a list of integers as eos_token_id"),
        *[
            ({name: value}, f"load(folder): expected {name} to be an integer in [1, 16777216] in config.json")
            for name, value in HUGE.items()
        ],
    ],
)
def test_wrong_configurations_are_refused_in_a_sentence(change, message, tmp_path):
    models.write(tmp_path, models.LLAMA)
    (tmp_path / "config.json").write_text(json.dumps(models.LLAMA | change))
    assert refusal(tmp_path).startswith(message)


@pytest.mark.parametrize("file", ["../outside.safetensors", "/etc/passwd", "a\\b.safetensors", "weights.bin", ".."])
def test_an_index_names_files_of_its_folder_alone(file, tmp_path):
    models.write(tmp_path, models.LLAMA, shards=2)
    index = tmp_path / "model.safetensors.index.json"
    given = json.loads(index.read_text())
    given["weight_map"]["lm_head.weight"] = file
    index.write_text(json.dumps(given))
    assert refusal(tmp_path).startswith(
        "load(folder): expected names of safetensors files of the folder itself in model.safetensors.index.json"
    )


def test_damaged_folders_are_refused_in_a_sentence(tmp_path):
    assert refusal(tmp_path / "nowhere").startswith("load(folder): expected a folder, got")
    assert refusal(tmp_path).startswith("load(folder): expected config.json in the folder, got none")
    (tmp_path / "config.json").write_text("[" * 100_000)
    assert refusal(tmp_path) == "load(folder): expected JSON in config.json, got something else"
    (tmp_path / "config.json").write_bytes(b"\xff\xfe")
    assert refusal(tmp_path) == "load(folder): expected UTF-8 in config.json, got other bytes"
    (tmp_path / "config.json").write_text("[]")
    assert refusal(tmp_path).startswith("load(folder): expected a JSON object in config.json")
    (tmp_path / "config.json").write_text(json.dumps(models.LLAMA))
    assert refusal(tmp_path).startswith("load(folder): expected model.safetensors or model.safetensors.index.json")
    (tmp_path / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"model.norm.weight": "gone.safetensors"}})
    )
    assert refusal(tmp_path).startswith("load(folder): expected the tensor model.embed_tokens.weight")
    (tmp_path / "model.safetensors.index.json").unlink()
    models.write(tmp_path, models.LLAMA)
    arrays = models.weights(models.LLAMA)
    bireme.save(arrays | {"model.norm.weight": np.arange(16)}, f"{tmp_path}/model.safetensors")
    assert refusal(tmp_path).startswith(
        "load(folder): expected model.norm.weight in floating point of 16 to 64 bits, got int64"
    )
    bireme.save(arrays, f"{tmp_path}/model.safetensors")
    (tmp_path / "tokenizer.json").write_text("{}")
    assert refusal(tmp_path).startswith("Tokenizer(text): expected the contents of a tokenizer.json")
    assert refusal(tmp_path, quantize="int2").startswith(
        "load(quantize): expected None or one of 'int8', 'int4', got 'int2'"
    )
    assert refusal(tmp_path, dtype="int32").startswith("load(dtype): expected float32, bfloat16 or float16")
