"""Tiny random models of many architectures of transformers, and the scheme of each. They are data for tests."""

from typing import Any

import torch
import transformers

WIDTHS = (
    "hidden_size d_model n_embd dim embed_dim emb_dim embedding_size word_embed_proj_dim encoder_hidden_size "
    "decoder_hidden_size"
)
INNER = (
    "intermediate_size d_ff ffn_dim n_inner encoder_ffn_dim decoder_ffn_dim hidden_dim ffn_hidden_size "
    "moe_intermediate_size shared_expert_intermediate_size shared_intermediate_size"
)
TWO = (
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
    "num_encoder_layers num_attention_heads n_head n_heads num_heads encoder_attention_heads "
    "decoder_attention_heads num_key_value_heads num_experts_per_tok eos_token_id"
)
FOUR = "patch_size num_experts num_local_experts n_routed_experts moe_num_experts rotary_dim state_size mamba_d_state"
EIGHT = "image_size head_dim d_kv sliding_window"
SIZES: dict[str, int] = {
    **dict.fromkeys(WIDTHS.split(), 16),
    **dict.fromkeys(INNER.split(), 24),
    **dict.fromkeys(TWO.split(), 2),
    **dict.fromkeys(FOUR.split(), 4),
    **dict.fromkeys(EIGHT.split(), 8),
    **{"vocab_size": 40, "max_position_embeddings": 32, "n_positions": 32, "mamba_n_heads": 4, "mamba_d_head": 8},
    **{"n_group": 1, "topk_group": 1, "n_shared_experts": 1, "first_k_dense_replace": 1},
    **{"pad_token_id": 0, "bos_token_id": 1, "decoder_start_token_id": 0},
}
"""The sizes of a tiny model, by the names that configs use for them."""
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
OWN_SIZES: dict[str, dict[str, Any]] = {
    "CLIPTextModel": {"hidden_act": "gelu"},
    "CodeGenForCausalLM": {"n_embd": 32, "n_head": 4, "rotary_dim": 4},
    "DeepseekV2ForCausalLM": {**LATENT, "num_experts_per_tok": 2},
    "DeepseekV3ForCausalLM": LATENT,
    "FalconForCausalLM": {"head_dim": None, "num_kv_heads": 2, "ffn_hidden_size": 24},
    "GPTNeoForCausalLM": {"attention_types": [[["global", "local"], 1]]},
    "GraniteForCausalLM": {"residual_multiplier": 0.22, "embedding_multiplier": 12.0},
    "GraniteMoeForCausalLM": {"residual_multiplier": 0.22, "embedding_multiplier": 12.0},
    "GPTNeoXJapaneseForCausalLM": {"intermediate_multiple_size": 2},
    "ConvNextForImageClassification": {
        "hidden_sizes": [8, 16], "depths": [2, 2], "num_stages": 2, "image_size": 32, "patch_size": 4,
    },
    "SwinForImageClassification": {
        "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 2], "window_size": 4, "image_size": 32, "patch_size": 4,
        "num_hidden_layers": None, "hidden_size": None,
    },
    "Wav2Vec2Model": {"conv_dim": [16, 16], "conv_stride": [4, 4], "conv_kernel": [8, 8], "num_feat_extract_layers": 2,
                      "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "hidden_dim": None},
    "Wav2Vec2ConformerModel": {
        "conv_dim": [16, 16], "conv_stride": [4, 4], "conv_kernel": [8, 8], "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "conv_depthwise_kernel_size": 3,
    },
    "LongcatFlashForCausalLM": {
        **LATENT, "zero_expert_num": 1, "moe_topk": 2, "ffn_hidden_size": 24, "expert_ffn_hidden_size": 8,
        "num_layers": 2,
    },
    "MllamaForCausalLM": {"num_hidden_layers": 4, "cross_attention_layers": [1, 3]},
    "Gemma3nForCausalLM": {
        "vocab_size_per_layer_input": 40, "hidden_size_per_layer_input": 8, "intermediate_size": [24, 24],
        "layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 0, "laurel_rank": 4,
        "altup_num_inputs": 3, "activation_sparsity_pattern": [0.95, 0.0],
    },
    "XLNetLMHeadModel": {"d_inner": 24, "max_position_embeddings": None},
    "ReformerModelWithLMHead": {
        "axial_pos_embds_dim": [8, 8], "axial_pos_shape": [4, 8], "attn_layers": ["local", "lsh"], "is_decoder": True,
        "attention_head_size": 8, "num_hidden_layers": 2, "feed_forward_size": 24, "num_buckets": 2,
        "lsh_attn_chunk_length": 4, "local_attn_chunk_length": 4,
    },
    "SqueezeBertForMaskedLM": {"embedding_size": 16},
    "YolosForObjectDetection": {"image_size": [8, 8], "num_detection_tokens": 3},
    "ViTMAEForPreTraining": {
        "decoder_hidden_size": 16, "decoder_intermediate_size": 24, "decoder_num_hidden_layers": 2,
        "decoder_num_attention_heads": 2,
    },
    "WhisperModel": {"max_source_positions": 8, "max_target_positions": 16, "num_mel_bins": 4},
}  # fmt: skip
GIVEN: dict[str, Any] = {
    "Wav2Vec2Model": lambda draw: {"input_values": draw(2, 200)},
    "Wav2Vec2ConformerModel": lambda draw: {"input_values": draw(2, 200)},
    "MllamaForCausalLM": lambda draw: {
        "input_ids": torch.arange(24).reshape(2, 12),
        "cross_attention_states": draw(2, 5, 16),
    },
    "WhisperModel": lambda draw: {"input_features": draw(2, 4, 16), "decoder_input_ids": torch.tensor([[1, 5, 7]] * 2)},
}
"""Inputs of models that take neither texts nor images."""

APART: dict[str, str] = {
    "A F": """
        CLIPTextModel GPTNeoForCausalLM GraniteMoeForCausalLM GPTNeoXJapaneseForCausalLM AfmoeForCausalLM
        ApertusForCausalLM ArceeForCausalLM BeitForImageClassification BigBirdPegasusForCausalLM BioGptForCausalLM
        BitNetForCausalLM BlenderbotForCausalLM BloomForCausalLM CpmAntForCausalLM CTRLLMHeadModel DeepseekV2ForCausalLM
        DeepseekV3ForCausalLM HYV3ForCausalLM HYV4ForCausalLM Data2VecVisionForImageClassification
        DeiTForImageClassification DiffLlamaForCausalLM Dinov2ForImageClassification
        Dinov2WithRegistersForImageClassification Ernie4_5ForCausalLM EuroBertForMaskedLM Exaone4ForCausalLM
        ExaoneMoeForCausalLM FlexOlmoForCausalLM GemmaForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM GlmForCausalLM
        Glm4ForCausalLM Glm4MoeForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM GptOssForCausalLM GraniteForCausalLM
        HeliumForCausalLM HunYuanDenseV1ForCausalLM IJepaForImageClassification Jais2ForCausalLM JambaForCausalLM
        JetMoeForCausalLM Lfm2ForCausalLM LlamaForCausalLM MBartForCausalLM MegatronBertForCausalLM MiniMaxM2ForCausalLM
        MinistralForCausalLM MistralForCausalLM MixtralForCausalLM ModernBertForMaskedLM ModernBertDecoderForCausalLM
        MptForCausalLM NanoChatForCausalLM NemotronForCausalLM OlmoForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM
        OlmoeForCausalLM OPTForCausalLM PegasusForCausalLM PersimmonForCausalLM Phi3ForCausalLM PhimoeForCausalLM
        Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM RobertaPreLayerNormForCausalLM
        SeedOssForCausalLM SmolLM3ForCausalLM StableLmForCausalLM Starcoder2ForCausalLM VaultGemmaForCausalLM
        ViTForImageClassification ViTMSNForImageClassification XGLMForCausalLM
    """,
    "A N F M": """
        Wav2Vec2Model AlbertForMaskedLM BartForCausalLM BertLMHeadModel BertGenerationDecoder BigBirdForCausalLM
        BlenderbotSmallForCausalLM CamembertForCausalLM ConvBertForMaskedLM Data2VecTextForCausalLM DebertaForMaskedLM
        DebertaV2ForMaskedLM DistilBertForMaskedLM ElectraForCausalLM ErnieForCausalLM FNetForMaskedLM IBertForMaskedLM
        LayoutLMForMaskedLM MarianForCausalLM MPNetForMaskedLM MvpForCausalLM NomicBertForMaskedLM
        NystromformerForMaskedLM OpenAIGPTLMHeadModel PLBartForCausalLM RemBertForCausalLM RobertaForCausalLM
        RoCBertForCausalLM RoFormerForCausalLM SqueezeBertForMaskedLM XLMRobertaForCausalLM XLNetLMHeadModel
        YosoForMaskedLM
    """,
    "A+F": """
        FalconForCausalLM CodeGenForCausalLM CohereForCausalLM Cohere2ForCausalLM Cohere2MoeForCausalLM
        GPTNeoXForCausalLM GPTJForCausalLM PhiForCausalLM
    """,
    "A N F M | A N C M F P": """
        BartForConditionalGeneration MarianMTModel FSMTForConditionalGeneration
    """,
    "A F | A C F": """
        WhisperModel PegasusForConditionalGeneration LongT5ForConditionalGeneration M2M100ForConditionalGeneration
        MT5ForConditionalGeneration SwitchTransformersForConditionalGeneration T5ForConditionalGeneration
        UMT5ForConditionalGeneration
    """,
    "N A M F": "MiniMaxForCausalLM",
    "A F | A F": "SwinForImageClassification ViTMAEForPreTraining",
    "A B+F": "InklingForCausalLM LongcatFlashForCausalLM",
    "A C F": "MllamaForCausalLM",
    "F0/2 A B F1/2 N": "Wav2Vec2ConformerModel",
}
"""Models whose attention and feed-forward are found apart, by their schemes; several stacks have a bar between. B is a
second field that mixes tokens: Inkling's short convolution of its feed-forward, and Longcat's second attention, which
is read together with the networks around it since the experts go past it. A layer of Mllama has either A or C."""
OTHERS: dict[str, tuple[str, str]] = {
    "FalconMambaForCausalLM": ("A", "a block of Mamba has one field by design"),
    "MambaForCausalLM": ("A", "a block of Mamba has one field by design"),
    "ConvNextForImageClassification": ("A | A", "a block of ConvNeXt has one field by design"),
    "DeepseekV4ForCausalLM": ("W", "its residual streams are mixed by matrices that depend on the state"),
    "MraForMaskedLM": ("F N B M", "without its own CUDA kernel transformers returns zeros for its attention"),
    "DogeForCausalLM": ("W", "its residual connection is scaled by a vector of weights"),
    "Gemma3nForCausalLM": ("W", "its residual streams are mixed by matrices that depend on the state"),
    "MobileBertForMaskedLM": ("A N", "its blocks have an inner stream of another width"),
    "RwkvForCausalLM": ("N A B", "its feed-forward reads the token before, so it mixes tokens too"),
}
"""Models that are not, with the reason."""
REFUSED: dict[str, tuple[str, str]] = {
    "FlaubertWithLMHeadModel": ("do not follow one another", "its blocks are lists of parts, which are no modules"),
    "HrmTextForCausalLM": ("do not follow one another", "two stacks take turns, and each adds to the other's state"),
    "ReformerModelWithLMHead": (r"the state changes by \d+\.\d% between", "its blocks change two streams in turn"),
    "YolosForObjectDetection": ("do not follow one another", "it adds positions to the state between two blocks"),
}
"""Models that are not one flow: a part of the error, and the reason."""
FAST = [
    "GPT2LMHeadModel", "LlamaForCausalLM", "MixtralForCausalLM", "Gemma2ForCausalLM", "GraniteForCausalLM",
    "CohereForCausalLM", "DebertaForMaskedLM", "AlbertForMaskedLM", "BartForConditionalGeneration",
    "T5ForConditionalGeneration", "ViTForImageClassification", "Wav2Vec2ConformerModel", "MambaForCausalLM",
]  # fmt: skip
"""One or two of each kind, which run always."""


def schemes() -> dict[str, str]:
    """The scheme of every model, by its class."""
    apart = {name: scheme for scheme, names in APART.items() for name in names.split()}
    return apart | {name: scheme for name, (scheme, _) in OTHERS.items()}


def tiny(name: str, std: float = 0.05) -> Any:
    """A model of this class. Its matrices are drawn anew with this standard deviation, and vectors, such as the scales
    of norms, are that far from their start, where biases are zero."""
    kind = getattr(transformers, name)
    usual, own = kind.config_class(), OWN_SIZES.get(name, {})
    known = {size for size in SIZES if size not in kind.config_class.attribute_map and fits(usual, size)}
    sizes = {**{size: SIZES[size] for size in known}, **own}
    torch.manual_seed(0)
    model = kind(kind.config_class(**{size: value for size, value in sizes.items() if value is not None}))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.zero_()
            weight.add_(torch.randn_like(weight), alpha=std)
    return model.eval()


def fits(config: Any, size: str) -> bool:
    value = getattr(config, size, "")
    return isinstance(value, int) or (value is None and size in ("head_dim", "num_key_value_heads"))
