"""Tiny random models of many architectures of transformers, and the scheme of each. They are data for tests."""

from typing import Any

import torch
import transformers
from torch import Tensor

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
STAGES: dict[str, Any] = {
    "hidden_sizes": [8, 16], "depths": [2, 2], "num_encoder_blocks": 2, "num_attention_heads": [1, 2],
    "sr_ratios": [2, 1], "patch_sizes": [3, 3], "strides": [2, 2], "mlp_ratios": [2, 2], "image_size": 16,
}  # fmt: skip
SOUNDS: dict[str, Any] = {
    "conv_dim": [16, 16], "conv_stride": [4, 4], "conv_kernel": [8, 8], "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
OWN_SIZES: dict[str, dict[str, Any]] = {
    "CLIPTextModel": {"hidden_act": "gelu"},
    "CodeGenForCausalLM": {"n_embd": 32, "n_head": 4, "rotary_dim": 4},
    "DeepseekV2ForCausalLM": {**LATENT, "num_experts_per_tok": 2},
    "DeepseekV3ForCausalLM": LATENT,
    "FocalNetForImageClassification": {
        "image_size": 32, "depths": [2, 2], "hidden_sizes": [16, 32], "focal_levels": [2, 2], "focal_windows": [3, 3],
    },
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
    "Wav2Vec2Model": {**SOUNDS, "hidden_dim": None},
    "Wav2Vec2ConformerModel": {**SOUNDS, "conv_depthwise_kernel_size": 3},
    "LongcatFlashForCausalLM": {
        **LATENT, "zero_expert_num": 1, "moe_topk": 2, "ffn_hidden_size": 24, "expert_ffn_hidden_size": 8,
        "num_layers": 2,
    },
    "SegformerForImageClassification": STAGES,
    "PvtV2ForImageClassification": STAGES,
    "NemotronHForCausalLM": {
        "layers_block_type": ["mamba", "attention", "mlp", "mamba"], "mamba_num_heads": 4, "mamba_head_dim": 8,
        "ssm_state_size": 4, "n_groups": 1, "chunk_size": 4, "num_hidden_layers": None,
    },
    "FunnelForMaskedLM": {"num_hidden_layers": None, "block_sizes": [2, 2], "num_decoder_layers": 2},
    "ProphetNetForCausalLM": {
        "num_hidden_layers": None, "num_decoder_layers": 2, "num_encoder_layers": 2, "ngram": 2, "is_decoder": True,
    },
    "TimesformerForVideoClassification": {"num_frames": 2},
    "DecisionTransformerModel": {"state_dim": 3, "act_dim": 2, "max_ep_len": 20},
    "LxmertModel": {"visual_feat_dim": 6, "visual_pos_dim": 4, "l_layers": 2, "x_layers": 2, "r_layers": 2},
    "LukeForMaskedLM": {"entity_vocab_size": 20, "entity_emb_size": 8},
    "PatchTSMixerForPrediction": {
        "num_input_channels": 2, "context_length": 16, "patch_length": 4, "patch_stride": 4, "prediction_length": 4,
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


def texts() -> dict[str, Tensor]:
    return {"input_ids": torch.arange(24).reshape(2, 12)}


GIVEN: dict[str, Any] = {
    "Wav2Vec2Model": lambda draw: {"input_values": draw(2, 200)},
    "Wav2Vec2ConformerModel": lambda draw: {"input_values": draw(2, 200)},
    "MllamaForCausalLM": lambda draw: {**texts(), "cross_attention_states": draw(2, 5, 16)},
    "TimesformerForVideoClassification": lambda draw: {"pixel_values": draw(2, 2, 3, 8, 8)},
    "DecisionTransformerModel": lambda draw: {
        "states": draw(2, 5, 3), "actions": draw(2, 5, 2), "rewards": draw(2, 5, 1), "returns_to_go": draw(2, 5, 1),
        "timesteps": torch.arange(5).repeat(2, 1),
    },
    "LxmertModel": lambda draw: {**texts(), "visual_feats": draw(2, 4, 6), "visual_pos": draw(2, 4, 4)},
    "LukeForMaskedLM": lambda draw: {
        **texts(), "entity_ids": torch.tensor([[3, 4], [5, 6]]),
        "entity_position_ids": torch.tensor([[[1, 2, -1], [4, -1, -1]]] * 2),
    },
    "PatchTSMixerForPrediction": lambda draw: {"past_values": draw(2, 16, 2)},
    "WhisperModel": lambda draw: {"input_features": draw(2, 4, 16), "decoder_input_ids": torch.tensor([[1, 5, 7]] * 2)},
}  # fmt: skip
"""Inputs of models that take neither texts nor images."""

APART: dict[str, str] = {
    "A F": """
        AfmoeForCausalLM Aimv2VisionModel ApertusForCausalLM ArceeForCausalLM AriaModel AriaTextForCausalLM
        AudioFlamingo3ForConditionalGeneration AXK2ForCausalLM BambaForCausalLM BeitForImageClassification
        BigBirdPegasusForCausalLM BioGptForCausalLM BitNetForCausalLM BlenderbotForCausalLM BloomForCausalLM
        ChineseCLIPVisionModel CLIPTextModel CLIPVisionModel ColModernVBertForRetrieval ColPaliForRetrieval
        Cosmos3OmniModel CpmAntForCausalLM CTRLLMHeadModel CwmForCausalLM Data2VecVisionForImageClassification
        DecisionTransformerModel DeepseekV2ForCausalLM DeepseekV3ForCausalLM DeepseekVLModel
        DeiTForImageClassification DiffLlamaForCausalLM Dinov2ForImageClassification
        Dinov2WithRegistersForImageClassification DINOv3ViTModel DPTModel Emu3ForCausalLM Ernie4_5ForCausalLM
        EsmcForMaskedLM EuroBertForMaskedLM EvollaForProteinText2Text Exaone4_5_Model Exaone4ForCausalLM
        ExaoneMoeForCausalLM FlexOlmoForCausalLM FuyuForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM
        Gemma3ForConditionalGeneration GemmaForCausalLM Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM
        GlmAsrForConditionalGeneration GlmForCausalLM GotOcr2ForConditionalGeneration GPT2LMHeadModel
        GPTBigCodeForCausalLM GPTNeoForCausalLM GPTNeoXJapaneseForCausalLM GptOssForCausalLM GraniteForCausalLM
        GraniteMoeForCausalLM GraniteMoeSharedForCausalLM GraniteMoeSWAForCausalLM
        GraniteSpeechForConditionalGeneration GraniteSpeechPlusForConditionalGeneration GraniteSWAForCausalLM
        HeliumForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM HyperCLOVAXForCausalLM HYV3ForCausalLM
        HYV4ForCausalLM Idefics2ForConditionalGeneration Idefics3ForConditionalGeneration IJepaForImageClassification
        ImageGPTForImageClassification InternVLModel InternVLVisionModel Jais2ForCausalLM JambaForCausalLM
        JetMoeForCausalLM Kosmos2_5Model LagunaForCausalLM Lfm2ForCausalLM Lfm2VlModel LightOnOcrModel
        Llama4ForCausalLM LlamaForCausalLM LlavaForConditionalGeneration LlavaNextForConditionalGeneration
        LlavaNextVideoForConditionalGeneration LlavaOnevisionForConditionalGeneration MBartForCausalLM
        MegatronBertForCausalLM MellumForCausalLM MgpstrForSceneTextRecognition MiniCPM3ForCausalLM MiniCPMV4_6Model
        MiniMaxM2ForCausalLM MiniMaxM3VLForCausalLM MiniMaxM3VLModel Ministral3ForCausalLM MinistralForCausalLM
        Mistral3ForConditionalGeneration MistralForCausalLM MixtralForCausalLM MLCDVisionModel
        ModernBertDecoderForCausalLM ModernBertForMaskedLM ModernVBertForMaskedLM MoshiForCausalLM MptForCausalLM
        MuseGlimmerTextModel MusicFlamingoForConditionalGeneration NanoChatForCausalLM NemotronForCausalLM
        NemotronHForCausalLM Olmo2ForCausalLM Olmo3ForCausalLM OlmoeForCausalLM OlmoForCausalLM OlmoHybridForCausalLM
        OpenAIPrivacyFilterModel OPTForCausalLM Ovis2Model PaliGemmaForConditionalGeneration PegasusForCausalLM
        PersimmonForCausalLM Phi3ForCausalLM PhimoeForCausalLM PixioModel QianfanOCRModel QianfanOCRVisionModel
        Qwen2AudioForConditionalGeneration Qwen2ForCausalLM Qwen2MoeForCausalLM Qwen3_5ForCausalLM
        Qwen3_5MoeForCausalLM Qwen3ForCausalLM Qwen3MoeForCausalLM Qwen3NextForCausalLM Qwen3VLModel Qwen3VLMoeModel
        Qwen3VLMoeTextModel Qwen3VLTextModel Qwen4ExpForCausalLM RecurrentGemmaForCausalLM
        RobertaPreLayerNormForCausalLM Sam3ViTModel SamVisionModel Sapiens2Model SeedOssForCausalLM SiglipVisionModel
        SmolLM3ForCausalLM SmolVLMModel SolarOpenForCausalLM StableLmForCausalLM Starcoder2ForCausalLM Tipsv2Model
        Tipsv2TextModel Tipsv2VisionModel VaultGemmaForCausalLM VideoLlama3Model VideoLlavaForConditionalGeneration
        VipLlavaForConditionalGeneration VitDetModel ViTForImageClassification ViTMSNForImageClassification
        VoxtralForConditionalGeneration WhisperForCausalLM XGLMForCausalLM XLMRobertaXLForCausalLM xLSTMForCausalLM
    """,
    "A N F M": """
        AlbertForMaskedLM BartForCausalLM BertGenerationDecoder BertLMHeadModel BigBirdForCausalLM
        BlenderbotSmallForCausalLM CamembertForCausalLM ConvBertForMaskedLM Data2VecTextForCausalLM DebertaForMaskedLM
        DebertaV2ForMaskedLM DistilBertForMaskedLM DPRQuestionEncoder ElectraForCausalLM ErnieForCausalLM
        FNetForMaskedLM GitForCausalLM IBertForMaskedLM JinaEmbeddingsV3ForMaskedLM LayoutLMForMaskedLM
        LongformerForMaskedLM MarianForCausalLM MarkupLMForSequenceClassification MPNetForMaskedLM MvpForCausalLM
        NomicBertForMaskedLM NystromformerForMaskedLM OpenAIGPTLMHeadModel PLBartForCausalLM ProphetNetForCausalLM
        RemBertForCausalLM RobertaForCausalLM RoCBertForCausalLM RoFormerForCausalLM SqueezeBertForMaskedLM
        TapasForMaskedLM TrOCRForCausalLM VisualBertForPreTraining Wav2Vec2Model XLMRobertaForCausalLM
        XLNetLMHeadModel YosoForMaskedLM
    """,
    "A+F": """
        AyaVisionModel CodeGenForCausalLM Cohere2ForCausalLM Cohere2MoeForCausalLM Cohere2VisionModel
        CohereForCausalLM FalconForCausalLM GPTJForCausalLM GPTNeoXForCausalLM PhiForCausalLM
    """,
    "A N F M | A N C M F P": """
        BartForConditionalGeneration FSMTForConditionalGeneration LEDForConditionalGeneration MarianMTModel
    """,
    "A F | A C F": """
        LongT5ForConditionalGeneration M2M100ForConditionalGeneration MT5ForConditionalGeneration
        NllbMoeForConditionalGeneration PegasusForConditionalGeneration PegasusXForConditionalGeneration
        Pop2PianoForConditionalGeneration SeamlessM4TForTextToText SeamlessM4Tv2ForTextToText
        SwitchTransformersForConditionalGeneration T5ForConditionalGeneration T5GemmaForConditionalGeneration
        UMT5ForConditionalGeneration WhisperModel
    """,
    "A F | A F | A F | A F": "HieraForImageClassification",
    "N A M F": "MiniMaxForCausalLM",
    "A F | A F": """
        FocalNetForImageClassification SwinForImageClassification T5Gemma2ForConditionalGeneration ViTMAEForPreTraining
    """,
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
    "HiggsAudioV2ForConditionalGeneration": ("A N", "its feed-forward writes into the rows of texts or of sounds"),
    "SegformerForImageClassification": ("A B | A B", "its feed-forward has a convolution, so it mixes tokens too"),
    "PvtV2ForImageClassification": ("A B | A B", "its feed-forward has a convolution, so it mixes tokens too"),
    "TimesformerForVideoClassification": ("=A F", "its attention goes over time and space in turn, and past a class"),
    "FunnelForMaskedLM": ("A N F M | C A N F M | A N F M", "its second stack begins with fewer tokens, which read all"),
    "RwkvForCausalLM": ("N A B", "its feed-forward reads the token before, so it mixes tokens too"),
}
"""Models that are not, with the reason."""
REFUSED: dict[str, tuple[str, str]] = {
    "FlaubertWithLMHeadModel": ("do not follow one another", "its blocks are lists of parts, which are no modules"),
    "HrmTextForCausalLM": ("do not follow one another", "two stacks take turns, and each adds to the other's state"),
    "LukeForMaskedLM": ("hand on more than their state", "words and entities are two states that change each other"),
    "LxmertModel": ("hand on more than their state", "words and images are two states that change each other"),
    "PatchTSMixerForPrediction": (
        "its states are not",
        "its channels and patches cannot be distinguished from the width",
    ),
    "PixtralVisionModel": ("its states are not", "the patches of all images are one list"),
    "ReformerModelWithLMHead": (r"the state changes by \d+\.\d% between", "its blocks change two streams in turn"),
    "XLMWithLMHeadModel": ("do not follow one another", "its blocks are lists of parts, which are no modules"),
    "YolosForObjectDetection": ("do not follow one another", "it adds positions to the state between two blocks"),
}
"""Models that are not one flow: a part of the error, and the reason."""
STAGED = [f"{name}ForImageClassification" for name in ("ConvNext", "FocalNet", "Hiera", "PvtV2", "Segformer", "Swin")]
UNSHOWN: dict[str, str] = {
    **dict.fromkeys(STAGED, "states between stages"),
    "CpmAntForCausalLM": "states without the tokens of its prompt",
    "FunnelForMaskedLM": "states of all its stacks in one list",
    "LEDForConditionalGeneration": "states without the tokens that fill a window",
    "LongformerForMaskedLM": "states without the tokens that fill a window",
    "PegasusXForConditionalGeneration": "states of its encoder in pairs, with those of global tokens",
    "ProphetNetForCausalLM": "states without those of the tokens that it predicts",
    "Tipsv2Model": "no states",
    "ViTMAEForPreTraining": "states of its encoder alone",
}
"""What models show as their hidden states, where those are not the states of all blocks."""
FAINT = {"FocalNetForImageClassification"}
"""Models in which small weights multiply each other until one token changes another by less than rounding does."""
NAMED = [
    "ReformerModelWithLMHead", "FlaubertWithLMHeadModel", "YolosForObjectDetection", "PixtralVisionModel",
    "XLNetLMHeadModel", "SqueezeBertForMaskedLM", "ViTMAEForPreTraining", "MllamaForCausalLM",
    "LongcatFlashForCausalLM", "Gemma3nForCausalLM", "FSMTForConditionalGeneration", "SwinForImageClassification",
    "VitDetModel", "SamVisionModel", "Aimv2VisionModel", "RwkvForCausalLM", "FalconForCausalLM",
    "DeepseekV3ForCausalLM", "WhisperModel", "CpmAntForCausalLM",
]  # fmt: skip
"""Models whose states are laid out, drawn or called in an unusual way: left out of `make check`, not of `make test`."""
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
    torch.manual_seed(0)
    model = kind(kind.config_class(**sizes_of(kind.config_class, OWN_SIZES.get(name, {}))))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.zero_()
            weight.add_(torch.randn_like(weight), alpha=std)
    return model.eval()


def sizes_of(kind: Any, own: dict[str, Any]) -> dict[str, Any]:
    """The entries of a tiny config, and of the configs within it."""
    usual = kind()
    known = {size for size in SIZES if size not in kind.attribute_map and fits(usual, size)}
    within = {key: getattr(usual, key, None) for key in kind.sub_configs}
    parts = {
        key: {**sizes_of(type(one), {}), "model_type": one.model_type}
        for key, one in within.items()
        if isinstance(one, transformers.PreTrainedConfig)
    }
    sizes = {**{size: SIZES[size] for size in known}, **parts, **own}
    return {size: value for size, value in sizes.items() if value is not None}


def fits(config: Any, size: str) -> bool:
    value = getattr(config, size, "")
    return isinstance(value, int) or (value is None and size in ("head_dim", "num_key_value_heads"))
