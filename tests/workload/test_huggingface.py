import json
from pathlib import Path

import pytest

from simgpu.errors import ModelError
from simgpu.workload.huggingface import model_from_huggingface

CONFIGS = Path(__file__).parents[2].parent / "shared" / "inputs" / "hf-config"

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
}


def read(**changes):
    config = {key: value for key, value in {**LLAMA, **changes}.items() if value != "absent"}
    return model_from_huggingface(config, name="m")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 32),
        ({"num_key_value_heads": 8}, 8),
        ({"num_key_value_heads": None}, 32),
        ({"model_type": "mistral"}, 8),
        ({"model_type": "mistral", "num_key_value_heads": None}, 32),
        ({"model_type": "qwen2"}, 32),
    ],
)
def test_key_value_heads_default_as_in_transformers(changes, expected):
    assert read(**changes).kv_heads == expected


def test_head_dim_defaults_per_family():
    assert read().head_dim == 128
    assert read(num_attention_heads=16, num_key_value_heads=16).head_dim == 256
    assert read(model_type="qwen3", hidden_size=1024).head_dim == 128  # Qwen3Config's own default
    assert read(head_dim=64).head_dim == 64


def test_biases_per_family():
    def biases(**changes):
        model = read(**changes)
        return model.qkv_bias, model.output_bias, model.mlp_bias

    assert biases() == (False, False, False)
    assert biases(attention_bias=True) == (True, True, False)
    assert biases(mlp_bias=True) == (False, False, True)
    assert biases(model_type="qwen2") == (True, False, False)
    assert biases(model_type="gpt_neox", hidden_act="gelu") == (True, True, True)


def test_published_counts_of_other_families():
    # tensors of EleutherAI/gpt-neox-20b: 44 blocks of 12 h^2 + 13 h, untied embeddings
    neox = read(
        model_type="gpt_neox",
        hidden_act="gelu_fast",
        hidden_size=6144,
        intermediate_size=24576,
        num_hidden_layers=44,
        num_attention_heads=64,
        vocab_size=50432,
    )
    assert neox.parameters == 20_554_567_680
    assert neox.parallel_residual
    opt = model_from_huggingface(
        {
            "model_type": "opt",
            "hidden_size": 768,
            "ffn_dim": 3072,
            "num_hidden_layers": 12,
            "num_attention_heads": 12,
            "vocab_size": 50272,
            "max_position_embeddings": 2048,
        },
        name="opt-125m",
    )
    assert opt.parameters == 125_239_296
    assert (opt.position_rows, opt.mlp, opt.tied_embeddings) == (2050, "relu", True)
    # mistralai/Mistral-7B-v0.1
    mistral = read(model_type="mistral", intermediate_size=14336)
    assert mistral.parameters == 7_241_732_096
    assert mistral.sliding_window == 4096


def test_qwen_windows():
    base = {"model_type": "qwen2", "sliding_window": 1024}
    assert read(**base).sliding_window is None
    assert read(**base, use_sliding_window=True).sliding_window == 1024  # layers 28 to 31
    assert read(**base, use_sliding_window=True, max_window_layers=32).sliding_window is None
    kinds = ["full_attention"] * 31 + ["sliding_attention"]
    assert read(**base, use_sliding_window=True, max_window_layers=32, layer_types=kinds).sliding_window == 1024
    with pytest.raises(ModelError, match="layer_types holds linear_attention"):
        read(**base, layer_types=["linear_attention"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_local_experts": 8}, "num_local_experts = 8: mixture-of-experts layers .* not modelled for llama"),
        ({"model_type": "mixtral", "num_local_experts": 0}, "num_local_experts = 0"),
        ({"model_type": "mixtral", "num_experts_per_tok": 9}, "active = 9 is more than the 8 experts"),
        ({"model_type": "qwen3_moe"}, "moe_intermediate_size is missing"),
        ({"model_type": "qwen3_moe", "moe_intermediate_size": 8, "mlp_only_layers": 3}, "mlp_only_layers = 3"),
        ({"model_type": "deepseek_v3", "n_routed_experts": 8}, "kv_lora_rank is missing"),
        ({"model_type": "jamba"}, "model_type = 'jamba' is not modelled: it has state-space"),
        ({"model_type": "unheard-of"}, "model_type = 'unheard-of' is not modelled; allowed: llama"),
        (
            {"hidden_dim": 64, "ffn_embed_dim": 256, "n_head": 8, "num_key_value_heads": 2},
            "intermediate_size is missing",
        ),
        ({"model_type": ["llama"]}, "model_type"),
        ({"num_attention_heads": True}, "num_attention_heads = True"),
        ({"hidden_size": 4096.0}, "hidden_size = 4096.0"),
        ({"hidden_size": "absent"}, "hidden_size is missing"),
        ({"num_key_value_heads": 5}, "not a multiple of kv_heads = 5"),
        ({"hidden_size": 100}, "not a multiple of 32 heads"),
        ({"hidden_act": "relu2"}, "hidden_act = 'relu2'"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings = 'no'"),
        ({"vocab_size": 0}, "vocab_size = 0"),
        ({"model_type": "opt", "ffn_dim": 1, "word_embed_proj_dim": 512}, "word_embed_proj_dim = 512"),
        ({"model_type": "opt", "ffn_dim": 1, "do_layer_norm_before": False}, "do_layer_norm_before = False"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "cross attention"),
    ],
)
def test_refusals_name_the_feature(changes, message):
    with pytest.raises(ModelError, match=message):
        read(**changes)


def test_all_problems_at_once():
    with pytest.raises(ModelError) as caught:
        read(hidden_size=None, vocab_size=-1, hidden_act="tanh", num_experts=4)
    assert str(caught.value).count("\n") == 3


def test_quantization_is_ignored():
    assert read(quantization_config={"quant_method": "fp8"}) == read()


def test_experts_by_family():
    mixtral = read(model_type="mixtral", intermediate_size=14336)
    assert mixtral.parameters == 46_702_792_704
    assert mixtral.dense_layers == ()
    qwen = read(model_type="qwen3_moe", moe_intermediate_size=768, decoder_sparse_step=2, mlp_only_layers=[1])
    assert (qwen.experts.count, qwen.experts.active, qwen.qk_norm, qwen.kv_heads) == (128, 8, True, 4)
    assert qwen.dense_layers == (0, 1, *range(2, 32, 2)), "every second layer, counted from 1, and the listed one"
    shared = read(model_type="qwen2_moe", moe_intermediate_size=1408, shared_expert_intermediate_size=5632)
    assert (shared.experts.shared_ffn, shared.experts.shared_gate, shared.qkv_bias) == (5632, True, True)
    # Qwen/Qwen1.5-MoE-A2.7B: 14.3 B, of which 2.7 B active
    small = read(
        model_type="qwen2_moe",
        hidden_size=2048,
        intermediate_size=5632,
        moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632,
        num_hidden_layers=24,
        num_attention_heads=16,
        num_key_value_heads=16,
        vocab_size=151936,
    )
    assert small.parameters == 14_315_784_192
    assert round(small.active_parameters / 1e9, 1) == 2.7


def test_deepseek_v2_lite():
    # deepseek-ai/DeepSeek-V2-Lite: 15.7 B, 2.4 B active with embeddings left out
    lite = read(
        model_type="deepseek_v2",
        hidden_size=2048,
        intermediate_size=10944,
        moe_intermediate_size=1408,
        num_hidden_layers=27,
        num_attention_heads=16,
        n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=6,
        first_k_dense_replace=1,
        q_lora_rank=None,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        vocab_size=102400,
    )
    assert lite.parameters == 15_706_484_224
    assert round((lite.active_parameters - 102400 * 2048) / 1e9, 1) == 2.5


PUBLISHED = {
    "aic-Qwen--Qwen3-8B": 8_190_735_360,
    "aic-Qwen--Qwen3-32B": 32_762_123_264,
    "aic-Qwen--Qwen3-1.7B": 1_720_574_976,
    "aic-Qwen--Qwen3-30B-A3B": 30_532_122_624,
    "aic-Qwen--Qwen3-30B-A3B-FP8": 30_532_122_624,
    "simai-qwen3-30B-A3B_config": 30_532_122_624,
    "aic-Qwen--Qwen3-235B-A22B": 235_093_634_560,
    "aic-Qwen--Qwen3-235B-A22B-FP8": 235_093_634_560,
    "simai-qwen3-235B-A22B_config": 235_093_634_560,
    "aic-Qwen--Qwen3-Coder-480B-A35B-Instruct": 480_154_875_392,
    "aic-mistralai--Mixtral-8x22B-v0.1": 140_620_634_112,
    "aic-deepseek-ai--DeepSeek-R1": 671_026_404_352,
    "simai-deepseek_v3_config": 671_026_404_352,
    "aic-moonshotai--Kimi-K2-Instruct": 1_026_408_209_408,  # and 60 x 384 correction biases that no gradient trains
    "aic-nvidia--Llama-3.1-70B-Instruct-FP8": 70_553_706_496,
    "tt-Qwen2.5-7B-Instruct": 7_615_616_512,
    "neusight-gpt2_xl": 1_557_611_200,
    "neusight-bert": 109_514_298,  # with the masked language model's head
    "titan-t5-v1_1-xxl": 11_135_332_352,
}
BILLIONS = {
    "aic-MiniMaxAI--MiniMax-M2.5": 228.7, "aic-Qwen--Qwen3-VL-4B-Instruct": 4.02, "aic-Qwen--Qwen3.5-397B-A17B": 397,
    "aic-Qwen--Qwen3.5-35B-A3B": 34.66, "aic-Qwen--Qwen3.5-27B": 26.9, "aic-XiaomiMiMo--MiMo-7B-Base": 7.6,
    "aic-meta-llama--Llama-4-Scout-17B-16E-Instruct": 107.8, "aic-openai--gpt-oss-120b": 116.8,
    "aic-meta-llama--Llama-4-Maverick-17B-128E-Instruct": 400.7, "aic-moonshotai--Kimi-K2.5": 1026.4,
    "aic-deepseek-ai--DeepSeek-V3.2": 671, "aic-zai-org--GLM-5.1": 744, "simai-qwen3-next-80B-A3B_config": 79.7,
    "ipex-tiiuae_falcon-40b": 41.303, "ipex-mosaicml_mpt-7b": 6.6493, "la-EleutherAI_gpt-neo-125m": 0.1252,
    "la-PygmalionAI_pygmalion-6b": 6.0509, "la-bigscience_bloom-560m": 0.5592, "la-gpt2": 0.12444,
    "la-decapoda-research_llama-30b-hf": 32.529, "la-decapoda-research_llama-65b-hf": 65.286,
    "la-facebook_opt-66b": 65.72, "la-NousResearch_Llama-2-7b-hf": 6.7384,
}  # fmt: skip
"""Published, towers, predictors, indexers and biases of experts left out."""
REFUSED = ("is not modelled: it has", "word_embed_proj_dim")


@pytest.mark.skipif(not CONFIGS.is_dir(), reason="../shared/inputs/hf-config is absent")
def test_real_configs_parse_or_are_refused_by_name():
    counts, refusals = {}, {}
    for file in sorted(CONFIGS.glob("*.json")):
        config = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(config, list):  # litgpt's shapes, all models in one file
            continue
        try:
            counts[file.stem] = model_from_huggingface(config, name=file.stem).parameters
        except ModelError as error:
            refusals[file.stem] = str(error)
    assert [name for name, text in refusals.items() if not any(words in text for words in REFUSED)] == []
    assert {name: counts[name] for name in PUBLISHED} == PUBLISHED
    assert {name: counts[name] / 1e9 for name in BILLIONS} == pytest.approx(BILLIONS, rel=0.003)
    assert (len(counts), len(refusals)) == (82, 14)
