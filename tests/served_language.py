"""A tiny language model for tests of the server: as an object, or as a folder of Hugging Face's layout."""

import json

import numpy as np

import bireme
from bireme import llm

SIZES = {"vocabulary": 64, "width": 32, "layers": 1, "heads": 4, "inner": 48}
WORDS = {
    "type": "WordLevel",
    "vocab": {**{f"w{i}": i for i in range(60)}, "user": 60, "assistant": 61, "?": 62},
    "unk_token": "?",
}
TOKENIZER = {"version": "1.0", "model": WORDS, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": []}
TEMPLATE = (
    "{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}{% if add_generation_prompt %}assistant{% endif %}"
)


def language_model():
    """The model, with random weights that are always the same."""
    bireme.seed(5)
    config = llm.Configuration(architecture="llama", **SIZES)
    network = llm.Network(config)
    for p in network.parameters():
        p.set_value(p * 20)  # so that texts are not always one word
    template = llm.ChatTemplate(TEMPLATE, {})
    return llm.LanguageModel(config, network, llm.Tokenizer(json.dumps(TOKENIZER)), template)


def write_folder(folder):
    """The same sizes as files."""
    folder.mkdir()
    told = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 48, "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32",
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(told))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    rng = np.random.default_rng(0)
    shapes = {"model.embed_tokens.weight": (64, 32), "model.norm.weight": (32,), "lm_head.weight": (64, 32)}
    block = {
        "self_attn.q_proj": (32, 32), "self_attn.k_proj": (32, 32), "self_attn.v_proj": (32, 32), "self_attn.o_proj": (32, 32),
        "mlp.gate_proj": (48, 32), "mlp.up_proj": (48, 32), "mlp.down_proj": (32, 48), "input_layernorm": (32,),
        "post_attention_layernorm": (32,),
    }  # fmt: skip
    shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in block.items()}
    arrays = {name: rng.standard_normal(shape).astype("float32") for name, shape in shapes.items()}
    bireme.save({name: bireme.to_tensor(a) for name, a in arrays.items()}, str(folder / "model.safetensors"))
