"""Small language models for tests: folders with weights by formula, a tokenizer of bytes, and a model that recites."""

import itertools
import json

import numpy as np

import bireme
import bireme.llm

GPT2 = {
    "model_type": "gpt2", "vocab_size": 40, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32, "eos_token_id": 39,
    "bos_token_id": 39,
}  # fmt: skip
LLAMA = {
    "model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "eos_token_id": 39, "bos_token_id": 1, "head_dim": 8,
}  # fmt: skip
QWEN2 = {k: v for k, v in LLAMA.items() if k != "head_dim"} | {"model_type": "qwen2", "tie_word_embeddings": True}
MISTRAL = LLAMA | {"model_type": "mistral", "sliding_window": 5}
CONFIGS = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "llama, biases": LLAMA | {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "llama, linear": LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "llama, dynamic": LLAMA | {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}, "max_position_embeddings": 8},
    "llama, llama3": LLAMA
    | {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    },
    "llama, yarn": LLAMA
    | {
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
        "rope_theta": 500.0,
    },
    "qwen2": QWEN2,
    "qwen2, windows": QWEN2 | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "mistral": MISTRAL,
}
TOKENS = (np.arange(24).reshape(2, 12) * 7) % 40


def shapes(config):
    """Names and shapes of a folder's tensors, as Hugging Face's libraries write them."""
    if config["model_type"] == "gpt2":
        n, most = config["n_embd"], config["n_positions"]
        found = {"transformer.wte.weight": (config["vocab_size"], n), "transformer.wpe.weight": (most, n)}
        for i in range(config["n_layer"]):
            start = f"transformer.h.{i}"
            for name, shape in {
                "ln_1": (n,),
                "ln_2": (n,),
                "attn.c_attn": (n, 3 * n),
                "attn.c_proj": (n, n),
                "mlp.c_fc": (n, 4 * n),
                "mlp.c_proj": (4 * n, n),
            }.items():
                found |= {f"{start}.{name}.weight": shape, f"{start}.{name}.bias": shape[-1:]}
        return found | {"transformer.ln_f.weight": (n,), "transformer.ln_f.bias": (n,)}
    n, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim", n // config["num_attention_heads"])
    own, shared = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    found = {"model.embed_tokens.weight": (config["vocab_size"], n), "model.norm.weight": (n,)}
    attention = config.get("attention_bias") or config["model_type"] == "qwen2"
    for i in range(config["num_hidden_layers"]):
        start = f"model.layers.{i}"
        found |= {f"{start}.input_layernorm.weight": (n,), f"{start}.post_attention_layernorm.weight": (n,)}
        for name, shape in {
            "self_attn.q_proj": (own, n),
            "self_attn.k_proj": (shared, n),
            "self_attn.v_proj": (shared, n),
            "self_attn.o_proj": (n, own),
        }.items():
            found[f"{start}.{name}.weight"] = shape
            if attention and (config["model_type"] == "llama" or "o_proj" not in name):
                found[f"{start}.{name}.bias"] = shape[:1]
        for name, shape in {
            "mlp.gate_proj": (inner, n),
            "mlp.up_proj": (inner, n),
            "mlp.down_proj": (n, inner),
        }.items():
            found[f"{start}.{name}.weight"] = shape
            if config.get("mlp_bias"):
                found[f"{start}.{name}.bias"] = shape[:1]
    if not config.get("tie_word_embeddings"):
        found["lm_head.weight"] = (config["vocab_size"], n)
    return found


def weights(config):
    """Arrays by formula: every run, and every library, has the same ones."""
    made = {}
    for i, (name, shape) in enumerate(sorted(shapes(config).items())):
        wave = np.sin(np.arange(np.prod(shape)) * (0.37 + 0.011 * i) + i).reshape(shape)
        made[name] = (1 + 0.2 * wave if len(shape) == 1 and "bias" not in name else 0.4 * wave).astype(np.float32)
    return made


def write(folder, config, shards=1, **files):
    """A folder as Hugging Face's libraries write it."""
    (folder / "config.json").write_text(json.dumps(config))
    arrays = weights(config)
    if shards == 1:
        bireme.save(arrays, f"{folder}/model.safetensors")
    else:
        places = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(arrays)}
        for file in set(places.values()):
            bireme.save({name: a for name, a in arrays.items() if places[name] == file}, f"{folder}/{file}")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def byte_letters():
    """The letters that stand for bytes in tokenizers of bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in plain)}


def byte_tokenizer():
    """The text of a tokenizer.json with a token for each byte, and <end> as token 256."""
    letters = byte_letters()
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    end = {
        "id": 256,
        "content": "<end>",
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    model = {"type": "BPE", "vocab": {letters[b]: b for b in range(256)} | {"<end>": 256}, "merges": []}
    return json.dumps(
        {"version": "1.0", "added_tokens": [end], "pre_tokenizer": level, "decoder": level, "model": model}
    )


def write_caller(folder):
    """A folder whose model has a tokenizer of bytes, an end and a chat template that knows no functions."""
    folder.mkdir()
    config = LLAMA | {"vocab_size": 257, "eos_token_id": 256, "max_position_embeddings": 1024}
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    texts = {"tokenizer__json": byte_tokenizer(), "tokenizer_config__json": json.dumps({"chat_template": template})}
    return write(folder, config, **texts)


def reciter(text, architecture="llama"):
    """A model that goes on with a text, whose bytes are all different, from any byte of it; after the last one, <end>."""
    tokens = [*text.encode(), 256]
    assert len(set(tokens)) == len(tokens)
    config = bireme.llm.Configuration(
        architecture=architecture, vocabulary=257, width=64, layers=1, heads=2, inner=8, end=(256,)
    )
    network = bireme.llm.Network(config)
    rng = np.random.default_rng(0)
    letters = rng.standard_normal((257, 64)).astype(np.float32)
    network.embedding.weight.set_value(letters)
    head = np.zeros((64, 257), np.float32)
    for token, after in itertools.pairwise(tokens):
        head[:, after] = letters[token]
    network.head.weight.set_value(head)
    for part in (network.blocks[0].attention.output, network.blocks[0].perceptron.output):
        part.weight.set_value(np.zeros(part.weight.shape, np.float32))
    return bireme.llm.LanguageModel(config, network, bireme.llm.Tokenizer(byte_tokenizer()))
