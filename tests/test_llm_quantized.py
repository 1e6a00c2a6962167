"""Folders of language models with integers: written, read again, those of others, and what is refused."""

import json

import numpy as np
import pytest

import bireme
import bireme.llm
from bireme.command import language, main
from bireme.llm import packed
from tests import language_models as models

WIDE = models.LLAMA | {
    "hidden_size": 128,
    "intermediate_size": 96,
    "head_dim": 8,
    "vocab_size": 257,
    "eos_token_id": 256,
}
CONFIGS = {
    "llama": WIDE,
    "gpt2": models.GPT2 | {"n_embd": 128},
    "qwen2": models.QWEN2,
}


@pytest.mark.parametrize(("kind", "bits"), [("int8", 8), ("int4", 4)])
def test_the_first_integer_of_a_word_is_in_its_lowest_bits(kind, bits):
    top = 2 ** (bits - 1)
    rows = np.random.default_rng(0).integers(-top, top, (3, 21)).astype(np.int8)
    words = packed.words(rows, kind)
    assert words.dtype == np.int32 and words.shape == (3, -(-21 * bits // 32))
    for i in range(3):
        whole = sum((int(v) + top) << bits * j for j, v in enumerate(rows[i]))
        assert [int(w) & 0xFFFFFFFF for w in words[i]] == [whole >> 32 * k & 0xFFFFFFFF for k in range(words.shape[1])]
    np.testing.assert_array_equal(packed.rows(words, 21, kind), rows)


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_has_what_load_makes_of_the_original(name, kind, tmp_path):
    (tmp_path / "plain").mkdir()
    plain = models.write(tmp_path / "plain", CONFIGS[name], tokenizer__json=models.byte_tokenizer(), notes__md="mine")
    before = {path.name: path.read_bytes() for path in plain.iterdir()}
    made = tmp_path / "new" / kind
    assert bireme.llm.quantize(plain, made, kind) == (8 if name == "gpt2" else 14)
    expected = bireme.llm.load(plain, quantize=kind).network.state_dict()
    found = bireme.llm.load(made)
    assert found.tokenizer is not None
    assert expected.keys() == found.network.state_dict().keys()
    for key, value in found.network.state_dict().items():
        assert value.dtype == expected[key].dtype
        np.testing.assert_array_equal(value.numpy(), expected[key].numpy())
    assert sorted(p.name for p in made.iterdir()) == ["config.json", "model.safetensors", "notes.md", "tokenizer.json"]
    assert before == {path.name: path.read_bytes() for path in plain.iterdir()} and list(made.parent.iterdir()) == [
        made
    ]
    told = json.loads((made / "config.json").read_text())["quantization_config"]
    groups = {g["weights"]["group_size"]: g["targets"] for g in told["config_groups"].values()}
    if kind == "int4" and name == "llama":
        assert len(groups) == 2 and len(groups[64]) == 5
        assert groups[None] == ["re:.*self_attn[.]o_proj$", "re:.*mlp[.]down_proj$"]
    else:
        assert set(groups) <= {None, 64} and list(groups.values()) == [["Linear"]]


def altered(folder, change, arrays=None):
    """A folder with another quantization_config, or other arrays."""
    path = folder / "config.json"
    given = json.loads(path.read_text())
    given["quantization_config"] = change(given["quantization_config"])
    path.write_text(json.dumps(given))
    if arrays is not None:
        file = f"{folder}/model.safetensors"
        bireme.save(arrays(bireme.load(file, return_numpy=True, safetensors=True)), file)


def weights_of(change):
    def changed(given):
        for group in given["config_groups"].values():
            group["weights"] |= change
        return given

    return changed


def refusal(folder, **settings):
    with pytest.raises(ValueError) as refused:
        bireme.llm.load(folder, **settings)
    return str(refused.value).splitlines()[0]


@pytest.fixture
def made(tmp_path):
    models.write(tmp_path, models.LLAMA)
    bireme.llm.quantize(tmp_path, tmp_path / "made", "int8")
    return tmp_path / "made"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q: {"quant_method": "gptq", "bits": 4}, "integers of compressed-tensors in the form pack-quantized"),
        (lambda q: q | {"format": "float-quantized"}, "integers of compressed-tensors in the form pack-quantized"),
        (lambda q: q | {"kv_cache_scheme": {"num_bits": 8}}, "config_groups, and no kv_cache_scheme"),
        (weights_of({"num_bits": 3}), "symmetric integers of 8 or 4 bits with scales for each output or group"),
        (weights_of({"symmetric": False}), "symmetric integers of 8 or 4 bits with scales for each output or group"),
        (weights_of({"actorder": "group"}), "groups of inputs in their order"),
        (lambda q: [q], "integers of compressed-tensors in the form pack-quantized"),
        (weights_of({"num_bits": 4}), "int32 of shape [32, 2] in model.layers.0.self_attn.q_proj.weight_packed"),
    ],
)
def test_other_integers_are_refused_in_a_sentence(change, message, made):
    altered(made, change)
    assert refusal(made).startswith(f"load(folder): expected {message}")


def test_damaged_integers_are_refused_in_a_sentence(made):
    assert refusal(made, quantize="int4").startswith("load(quantize): expected None or 'int8', as the folder has int8")
    name = "model.layers.1.self_attn.k_proj.weight"
    altered(made, lambda q: q, lambda a: a | {f"{name}_scale": np.ones((5, 1), np.float32)})
    assert refusal(made).startswith("load(folder): expected floating point of shape [16, a factor of 16] in")
    altered(made, lambda q: q, lambda a: {n: v for n, v in a.items() if n != f"{name}_packed"})
    assert refusal(made).startswith("load(folder): expected all matrices of a block as integers, and no others, got")


def test_maps_that_others_left_in_floating_point_stay_so(tmp_path):
    models.write(tmp_path, WIDE)
    bireme.llm.quantize(tmp_path, tmp_path / "made", "int8")
    name, whole = "model.layers.0.mlp.down_proj.weight", models.weights(WIDE)
    ends = ("_packed", "_scale", "_shape")
    altered(
        tmp_path / "made",
        lambda q: q,
        lambda a: {n: v for n, v in a.items() if n not in [name + e for e in ends]} | {name: whole[name]},
    )
    found = bireme.llm.load(tmp_path / "made").network
    np.testing.assert_array_equal(found.blocks[0].perceptron.output.weight.numpy(), whole[name].T)
    assert found.blocks[1].perceptron.output.weight.dtype.name == "int8"
    assert found(bireme.to_tensor([[1, 2]])).shape == [1, 2, 257]


@pytest.mark.full
def test_tokens_a_second():
    network = bireme.llm.Network(
        bireme.llm.Configuration(architecture="llama", vocabulary=9, width=8, layers=1, heads=2, inner=8)
    )
    assert 0 < language.rate(bireme.llm.LanguageModel(network.config, network), [1, 2]) < 1e5


def test_the_command_writes_a_folder_and_tells_how_well_it_goes_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(language, "rate", lambda model, prompt: float(len(prompt)))  # which compiles for seconds
    models.write(tmp_path, WIDE, tokenizer__json=models.byte_tokenizer())
    (tmp_path / "text.txt").write_text("what a text of letters is like, " * 3)
    given = ["quantize", str(tmp_path), "--to", "weight-int8", "-o", str(tmp_path / "made")]
    assert main([*given, "--data", str(tmp_path / "text.txt"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["layers"] == 14 and told["bytes"]["after"] < 0.6 * told["bytes"]["before"] and told["tokens"] == 94
    ids = np.frombuffer((tmp_path / "text.txt").read_bytes(), np.uint8)
    best = []
    for which, folder in (("before", tmp_path), ("after", tmp_path / "made")):
        network, losses = bireme.llm.load(folder).network, []
        with bireme.no_grad():
            for row in (ids[:65], ids[65:]):  # the model knows 64 positions
                logits = network(bireme.to_tensor(row[None, :-1].astype("int64"))).numpy()[0].astype(np.float64)
                best.append(logits.argmax(1))
                losses += list(np.log(np.exp(logits).sum(-1)) - logits[np.arange(len(row) - 1), row[1:]])
        assert told["perplexity"][which] == pytest.approx(np.exp(np.mean(losses)), rel=1e-3)
    assert main(["info", str(tmp_path / "made")]) == 0
    shown = capsys.readouterr().out
    assert "llama" in shown and "float32, matrices int8" in shown and "none: it takes" not in shown
    assert told["same_tokens"] == (np.concatenate(best[:2]) == np.concatenate(best[2:])).mean() and told[
        "tokens_per_second"
    ] == {"before": 16.0, "after": 16.0}
    for options, message in (
        ([], "quantize(out): expected a folder that is not there yet, or is empty"),
        (["-o", str(tmp_path)], "is the model itself"),
        (["--to", "int8"], "is a language model, whose weights alone become integers"),
        (["--group", "32"], "--group is not for language models"),
        (["--data", str(tmp_path / "none.txt")], "there is no file"),
        (["--data", str(tmp_path / "model.safetensors")], "expected a text in UTF-8, or an .npz with tokens"),
    ):
        assert main([*given, *options]) == 1
        assert message in capsys.readouterr().err
    made = ["quantize", str(tmp_path / "made"), "--to", "weight-int4", "-o", str(tmp_path / "twice")]
    assert main(made) == 1 and "has integers already, so nothing can be quantized" in capsys.readouterr().err
    assert not (tmp_path / "twice").exists()
