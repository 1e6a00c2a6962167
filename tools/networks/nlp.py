"""Networks of PaddleNLP: two layers of 32 features, whatever their configuration calls them."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from tools.networks import Network

# sizes by the names that configurations have for them
SIZES = {
    100: "vocab_size",
    64: "intermediate_size encoder_ffn_dim decoder_ffn_dim d_ff d_inner dff feed_forward_size inner_hidden_size "
    "ffn_hidden_size max_position_embeddings n_positions n_ctx max_sequence_length seq_length",
    32: "hidden_size d_model n_embd embedding_size emb_dim input_embedding_size output_embedding_size word_embed_proj_dim "
    "encoder_hidden_size projection_dim entity_emb_size",
    8: "d_kv d_head attention_head_size kv_channels rotary_dim",
    4: "num_attention_heads num_heads n_head n_heads encoder_attention_heads decoder_attention_heads "
    "num_encoder_attention_heads num_decoder_attention_heads num_key_value_heads",
    2: "num_hidden_layers num_layers n_layer n_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers",
}
SMALL: dict[str, Any] = {name: size for size, names in SIZES.items() for name in names.split()}
SMALL.update(image_size=32, patch_size=8)

# family (with the kind of its inputs): classes
LISTS = """
bert: BertModel BertForPretraining BertForSequenceClassification BertForTokenClassification BertForQuestionAnswering
    BertForMaskedLM BertForMultipleChoice/choices
roberta: RobertaModel RobertaForSequenceClassification RobertaForMaskedLM RobertaForCausalLM
electra: ElectraModel ElectraDiscriminator ElectraGenerator ElectraForSequenceClassification
albert: AlbertModel AlbertForMaskedLM AlbertForSequenceClassification AlbertForQuestionAnswering
ernie: ErnieModel ErnieForSequenceClassification ErnieForTokenClassification ErnieForMaskedLM ErnieForPretraining UIE
ernie_m: ErnieMModel/untyped ErnieMForSequenceClassification/untyped UIEM/untyped
ernie_gram: ErnieGramModel ErnieGramForQuestionAnswering
ernie_ctm: ErnieCtmModel ErnieCtmForTokenClassification
ernie_code: ErnieCodeModel/both ErnieCodeEncoderModel
gpt: GPTModel GPTLMHeadModel GPTForSequenceClassification GPTForTokenClassification GPTModelAuto
llama: LlamaModel LlamaForCausalLM
opt: OPTModel OPTForCausalLM
bloom: BloomModel BloomForCausalLM BloomForSequenceClassification
qwen: QWenModel QWenLMHeadModel
mixtral: MixtralModel MixtralForCausalLM
chatglm_v2: ChatGLMv2Model ChatGLMv2ForCausalLM
rw: RWModel RWForCausalLM
gptj: GPTJModel GPTJForCausalLM
codegen: CodeGenModel CodeGenForCausalLM
ctrl: CTRLModel CTRLLMHeadModel
artist: ArtistModel
t5: T5Model/both T5ForConditionalGeneration/both T5EncoderModel
mt5: MT5Model/both MT5EncoderModel
bart: BartModel BartForConditionalGeneration BartForQuestionAnswering
mbart: MBartModel MBartForConditionalGeneration
pegasus: PegasusModel/both PegasusForConditionalGeneration/both
blenderbot: BlenderbotModel/both BlenderbotForConditionalGeneration/both
blenderbot_small: BlenderbotSmallModel/both
prophetnet: ProphetNetModel/both ProphetNetForConditionalGeneration/both
unified_transformer: UnifiedTransformerModel/placed UnifiedTransformerLMHeadModel/placed
unimo: UNIMOModel/placed UNIMOLMHeadModel/placed
xlnet: XLNetModel XLNetLMHeadModel XLNetForSequenceClassification
xlm: XLMModel XLMWithLMHeadModel
bigbird: BigBirdModel/long BigBirdForSequenceClassification/long
reformer: ReformerModel
fnet: FNetModel FNetForMaskedLM/dict
funnel: FunnelModel/dict FunnelForSequenceClassification
nystromformer: NystromformerModel NystromformerForMaskedLM
convbert: ConvBertModel ConvBertForSequenceClassification
distilbert: DistilBertModel DistilBertForSequenceClassification
tinybert: TinyBertModel TinyBertForSequenceClassification
mobilebert: MobileBertModel
squeezebert: SqueezeBertModel SqueezeBertForSequenceClassification
megatronbert: MegatronBertModel MegatronBertForMaskedLM
mpnet: MPNetModel MPNetForMaskedLM
nezha: NeZhaModel NeZhaForSequenceClassification
ppminilm: PPMiniLMModel PPMiniLMForSequenceClassification
rembert: RemBertModel RemBertForMaskedLM
roformer: RoFormerModel RoFormerForMaskedLM
roformerv2: RoFormerv2Model RoFormerv2ForSequenceClassification
gau_alpha: GAUAlphaModel GAUAlphaForMaskedLM
skep: SkepModel SkepForSequenceClassification
deberta: DebertaModel DebertaForSequenceClassification
deberta_v2: DebertaV2Model DebertaV2ForTokenClassification
luke: LukeModel LukeForMaskedLM
layoutlm: LayoutLMModel/boxes LayoutLMForTokenClassification/boxes
chinesebert: ChineseBertModel/pinyin
clip: CLIPTextModel CLIPVisionModel/images CLIPTextModelWithProjection
chineseclip: ChineseCLIPTextModel ChineseCLIPVisionModel/images
ernie_vil: ErnieViLTextModel ErnieViLVisionModel/images
blip: BlipVisionModel/images BlipTextModel
clipseg: CLIPSegTextModel CLIPSegVisionModel/images
bit: BitModel/pictures
dpt: DPTModel/images
clap: ClapTextModel
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "reformer": {"axial_pos_shape": [4, 4], "axial_pos_embds_dim": [16, 16], "is_decoder": False, "num_hashes": 1,
                 "lsh_attn_chunk_length": 8, "local_attn_chunk_length": 8, "attn_layers": ["local", "local"]},
    "bert": {"num_choices": 2},
    "nezha": {"use_relative_position": True},
    "deberta": {"pooler_hidden_size": 32, "pooler_dropout": 0.0, "pooler_hidden_act": "gelu"},
    "bigbird": {"block_size": 4, "window_size": 3, "num_random_blocks": 1, "num_global_blocks": 2},
    "mobilebert": {"true_hidden_size": 32, "intra_bottleneck_size": 32, "embedding_size": 32},
    "squeezebert": {"embedding_size": 32},
    "funnel": {"block_sizes": [1, 1], "block_repeats": [1, 1]},
    "xlnet": {"d_head": 8},
    "nystromformer": {"segment_means_seq_len": 16, "num_landmarks": 4},
    "gau_alpha": {"attention_key_size": 8},
    "luke": {"entity_vocab_size": 20},
    "codegen": {"rotary_dim": 4},
    "gptj": {"rotary_dim": 4, "pad_token_id": 0},
    "chatglm_v2": {"padded_vocab_size": 100, "multi_query_group_num": 2},
    "rembert": {"input_embedding_size": 32, "output_embedding_size": 32},
    "deberta_v2": {"type_vocab_size": 2},
    "layoutlm": {"max_2d_position_embeddings": 64},
    "qwen": {"seq_length": 64, "use_flash_attention": False},
    "mixtral": {"num_local_experts": 2, "num_key_value_heads": 2},
    "bit": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_groups": 4},
}  # fmt: skip


def load() -> Any:
    return importlib.import_module("paddlenlp.transformers")


def build(family: str, name: str) -> Any:
    made = getattr(load(), name)
    configuration = made.config_class
    taken: dict[str, Any] = {}
    for each in configuration.__mro__[:-1]:  # a small class of options may leave most to the one above it
        if "__init__" in vars(each) and not each.__module__.endswith("configuration_utils"):
            for p in inspect.signature(each.__init__).parameters.values():
                if p.name in SMALL:
                    taken[p.name] = SMALL[p.name]
                elif "drop" in p.name and isinstance(p.default, float):
                    taken[p.name] = 0.0
    return made(configuration(**{**taken, **OPTIONS.get(family, {})}))


def arguments(kind: str) -> tuple[tuple, dict[str, Any]]:
    rng = np.random.RandomState(0)
    ids = rng.randint(10, 90, (2, 16)).astype("int64")
    if kind == "images":
        return (rng.standard_normal((2, 3, 32, 32)).astype("float32"),), {}
    if kind == "pictures":
        return (rng.standard_normal((2, 3, 64, 64)).astype("float32"),), {}
    if kind == "choices":
        return (np.stack([ids, ids[::-1]], 1),), {}
    if kind == "both":
        return (ids,), {"decoder_input_ids": rng.randint(10, 90, (2, 8)).astype("int64")}
    if kind == "boxes":
        return (ids,), {"bbox": np.sort(rng.randint(0, 60, (2, 16, 4)), -1).astype("int64")}
    if kind == "placed":
        places = np.tile(np.arange(16), (2, 1)).astype("int64")
        mask = np.where(np.tril(np.ones((1, 1, 16, 16), bool)), 0.0, -1e4).astype("float32")
        return (ids, np.zeros_like(ids), places, mask), {}
    if kind == "long":
        return (rng.randint(10, 90, (2, 64)).astype("int64"),), {}
    if kind == "dict":
        return (ids,), {"return_dict": True}
    if kind == "pinyin":
        return (ids, rng.randint(0, 20, (2, 16 * 8)).astype("int64")), {}
    return (ids,), {}


def networks() -> Iterator[Network]:
    for line in LISTS.strip().replace("\n    ", " ").splitlines():
        family, _, names = line.partition(": ")
        for word in names.split():
            name, _, kind = word.partition("/")
            yield Network(
                "nlp", family, name, functools.partial(build, family, name), functools.partial(arguments, kind)
            )
