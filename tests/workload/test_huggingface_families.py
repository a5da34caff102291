"""Decoder families beside Llama's: published parameters, and what their blocks do more or less than Llama's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simgpu.errors import ModelError, ScenarioError
from simgpu.workload.derived import derived_model
from simgpu.workload.families import model_units
from simgpu.workload.huggingface import model_from_huggingface
from simgpu.workload.huggingface_notes import model_notes
from simgpu.workload.op import Attention, Gemm, MemoryBound
from simgpu.workload.splits import Splits
from simgpu.workload.training import Training

TRAINING = Training(sequence_length=4096, micro_batch_size=1, accumulation=1)


def llama_keys(family, hidden, inner, layers, heads, vocab, **more):
    return {
        "model_type": family, "hidden_size": hidden, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "vocab_size": vocab, **more,
    }  # fmt: skip


FALCON_7B = {
    "model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
    "vocab_size": 65024, "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False,
}  # fmt: skip
PUBLISHED = {
    "falcon-7b": (FALCON_7B, 6_921_720_704),
    "gemma-2b": (llama_keys("gemma", 2048, 16384, 18, 8, 256000, num_key_value_heads=1, head_dim=256), 2_506_172_416),
    "gemma-7b": (llama_keys("gemma", 3072, 24576, 28, 16, 256000, num_key_value_heads=16, head_dim=256), 8_537_680_896),
    "gemma-2-2b": (
        llama_keys("gemma2", 2304, 9216, 26, 8, 256000, num_key_value_heads=4, head_dim=256), 2_614_341_888
    ),
    "gemma-2-9b": (
        llama_keys("gemma2", 3584, 14336, 42, 16, 256000, num_key_value_heads=8, head_dim=256), 9_241_705_984
    ),
    "gemma-3-1b": (
        llama_keys("gemma3_text", 1152, 6912, 26, 4, 262144, num_key_value_heads=1, head_dim=256, sliding_window=512),
        999_885_952,
    ),
    "OLMo-2-1124-7B": (llama_keys("olmo2", 4096, 11008, 32, 32, 100352), 7_298_617_344),
    "Qwen-7B": (llama_keys("qwen", 4096, 22016, 32, 32, 151936, kv_channels=128), 7_721_324_544),
    "c4ai-command-r-v01": (llama_keys("cohere", 8192, 22528, 40, 64, 256000), 34_980_831_232 + 41 * 8192),
    "phi-2": (llama_keys("phi", 2560, 10240, 32, 32, 51200), 2_779_683_840 - 51200),
    "starcoder2-7b": (llama_keys("starcoder2", 4608, 18432, 32, 36, 49152, num_key_value_heads=4), 7_173_923_840),
    "glm-4-9b-hf": (llama_keys("glm", 4096, 13696, 40, 32, 151552, num_key_value_heads=2, head_dim=128), 9_399_951_360),
    "chatglm3-6b": (
        {
            "model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 28,
            "num_attention_heads": 32, "padded_vocab_size": 65024, "multi_query_attention": True,
            "multi_query_group_num": 2, "kv_channels": 128, "add_qkv_bias": True,
        },
        6_243_584_000,
    ),
    "OLMoE-1B-7B": (llama_keys("olmoe", 2048, 1024, 16, 16, 50304, num_experts=64), 6_919_161_856),
    "starcoderbase-1b": (
        {"model_type": "gpt_bigcode", "n_embd": 2048, "n_inner": 8192, "n_layer": 24, "n_head": 16, "n_positions": 8192,
         "vocab_size": 49152},
        1_137_207_296,
    ),
}  # fmt: skip
"""Tensors of the published weights; the comments beside a sum say what is counted otherwise here: the norms of Command
R have no biases, the head of Phi-2 has one."""


@pytest.mark.parametrize(("config", "count"), PUBLISHED.values(), ids=PUBLISHED.keys())
def test_parameters_are_the_published_ones(config, count):
    model = model_from_huggingface(config, name="m")
    assert model.parameters == count
    units = model_units(model, replace(TRAINING, sequence_length=1024)).units
    assert sum(unit.elements for unit in units) == count


def units_of(config, **changes):
    model = model_from_huggingface(config, name="m")
    return model, model_units(model, replace(TRAINING, **changes))


def test_one_norm_before_both_branches():
    model, parts = units_of(FALCON_7B)
    two = model_units(replace(model, shared_norm=False), TRAINING)
    one_block, two_block = parts.layers[0].units[0], two.layers[0].units[0]
    assert two_block.elements - one_block.elements == 2 * 4544
    norms = [[op.name for op in block.forward if "norm" in getattr(op, "name", "")] for block in (one_block, two_block)]
    assert norms == [["norm1"], ["norm1", "norm2"]]
    assert two_block.saved_bytes - one_block.saved_bytes == 2 * 4096 * 4544, "the second norm's output"


def test_norms_behind_the_branches():
    config = llama_keys("gemma2", 256, 512, 2, 4, 1000, num_key_value_heads=4, head_dim=64)
    _, parts = units_of(config)
    names = [op.name for op in parts.layers[0].units[0].forward if "norm" in op.name]
    assert names == ["norm1", "attention_norm", "norm2", "mlp_norm"]


def cores(parts):
    return [next(op for op in layer.units[0].forward if isinstance(op, Attention)) for layer in parts.layers]


def test_windows_in_some_layers():
    config = llama_keys("gemma3_text", 256, 512, 7, 4, 1000, num_key_value_heads=4, head_dim=64, sliding_window=512)
    model, parts = units_of(config)
    assert [core.window for core in cores(parts)] == [512] * 5 + [None, 512]
    whole, band = 4096**2 // 2, 512 * (2 * 4096 - 512) // 2
    assert [core.flops // (4 * 64 * 4) for core in cores(parts)] == [band] * 5 + [whole, band]
    # the whole square is counted for MFU, and so twice the band
    assert model.attention_flops(4096) * 4096 == 2 * 4 * 128 * (4096**2 + 6 * 2 * band)
    _, short = units_of(config, sequence_length=512)
    assert {core.window for core in cores(short)} == {None}
    listed = config | {"layer_types": ["full_attention"] * 6 + ["sliding_attention"]}
    assert model_from_huggingface(listed, name="m").window_layers == (6,)


def test_a_pattern_of_windows_goes_on_in_a_model_with_more_layers():
    gemma = model_from_huggingface(
        llama_keys("gemma3_text", 256, 512, 12, 4, 1000, num_key_value_heads=4, head_dim=64, sliding_window=512),
        name="m",
    )
    for layers in (6, 12, 15):
        expected = tuple(layer for layer in range(layers) if (layer + 1) % 6)
        assert derived_model(gemma, {"layers": layers}).window_layers == expected
    every = model_from_huggingface(llama_keys("mistral", 256, 512, 2, 8, 1000, sliding_window=1024), name="m")
    assert derived_model(every, {"layers": 5}).window_layers == (0, 1, 2, 3, 4)
    odd = replace(gemma, window_layers=(1, 2, 7))
    assert derived_model(odd, {"layers": 3}).window_layers == (1, 2)
    with pytest.raises(ModelError, match="layers = 13 is more than its pattern of layers says; give a config"):
        derived_model(odd, {"layers": 13})


def test_windows_are_not_cut_by_context_parallelism():
    config = llama_keys("mistral", 256, 512, 2, 8, 1000, sliding_window=1024)
    model = model_from_huggingface(config, name="m")
    with pytest.raises(ScenarioError, match="not modelled with context parallelism"):
        model_units(model, TRAINING, splits=Splits(cp=2))
    model_units(model, replace(TRAINING, sequence_length=1024), splits=Splits(cp=2))


NEXT = llama_keys(
    "qwen3_next", 2048, 5120, 48, 16, 151936, num_key_value_heads=2, head_dim=256, num_experts=512,
    num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512,
)  # fmt: skip


def test_linear_attention_in_three_layers_of_four():
    model, parts = units_of(NEXT)
    # Qwen/Qwen3-Next-80B-A3B: 80 B, 3 B of them active beside the embeddings
    assert round(model.parameters / 1e9, 1) == 79.7
    assert round((model.active_parameters - 2 * 151936 * 2048) / 1e9, 1) == 3.3
    assert sum(unit.elements for unit in parts.units) == model.parameters
    linear = [not any(isinstance(op, Attention) for op in layer.units[0].forward) for layer in parts.layers]
    assert linear == ([True] * 3 + [False]) * 12
    block = parts.layers[0].units[0]
    small = [op for op in block.forward if isinstance(op, Gemm) and op.batch > 1]
    chunks, c, k, v = 4096 // 64 * 32, 64, 128, 128
    assert sum(op.flops for op in small) == 2 * chunks * (3 * c * c * k + 2 * c * c * v + 3 * c * k * v)
    gate = next(op for op in parts.layers[3].units[0].forward if getattr(op, "name", "") == "attention.gate")
    assert isinstance(gate, MemoryBound)
    assert gate.bytes == 3 * 2 * 4096 * 16 * 256


def test_linear_attention_grows_with_the_sequence_and_not_with_its_square():
    def small_products(length):
        block = units_of(NEXT, sequence_length=length)[1].layers[0].units[0]
        return sum(op.flops for op in block.forward if isinstance(op, Gemm) and op.batch > 1)

    assert small_products(8192) == 2 * small_products(4096)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"linear_num_value_heads": 24}, "no multiple of the 16 key heads"),
        ({"layer_types": ["mamba"] * 48}, "layer_types holds mamba"),
        ({"linear_key_head_dim": 0}, "linear_key_head_dim = 0"),
    ],
)
def test_linear_attention_that_cannot_be(changes, message):
    with pytest.raises(ModelError, match=message):
        model_from_huggingface(NEXT | changes, name="m")


def test_linear_attention_is_divided_by_whole_heads_only():
    model = model_from_huggingface(NEXT, name="m")
    with pytest.raises(ScenarioError, match="is not modelled for the linear attention"):
        model_units(model, TRAINING, splits=Splits(cp=2))
    half = model_units(model, TRAINING, tp=2).layers[0].units[0]
    whole = model_units(model, TRAINING).layers[0].units[0]
    delta = [p for p in half.parameters if p.name.startswith("delta.") and not p.replicated]
    assert sum(p.total for p in delta) == sum(
        p.elements for p in whole.parameters if p.name.startswith("delta.") and not p.replicated
    )
    assert sum(p.elements for p in delta) * 2 == sum(p.total for p in delta)


def test_language_models_of_several_towers():
    inner = llama_keys("qwen3_vl_text", 2560, 9728, 36, 32, 151936, num_key_value_heads=8, head_dim=128)
    tower = {"model_type": "qwen3_vl", "text_config": inner, "tie_word_embeddings": True, "vision_config": {}}
    plain = model_from_huggingface(inner | {"model_type": "qwen3", "tie_word_embeddings": True}, name="m")
    assert model_from_huggingface(tower, name="m") == plain
    assert model_notes(tower) == (
        "model_type qwen3_vl: the language model alone is simulated, on text: its other towers are left out",
    )
    gemma = {"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
             "num_hidden_layers": 34, "sliding_window": 1024}}  # fmt: skip
    assert model_from_huggingface(gemma, name="m").parameters == 3_880_263_168  # google/gemma-3-4b-pt without vision


def test_descriptions_of_llm_analysis():
    llama = {
        "model_type": "llama", "hidden_dim": 8192, "ffn_embed_dim": 32768, "n_head": 64, "num_layers": 80,
        "vocab_size": 32000, "max_seq_len": 2048,
    }  # fmt: skip
    assert model_from_huggingface(llama, name="65b").parameters == 65_285_660_672
    assert "llm-analysis writes 4 x hidden" in model_notes(llama)[0]
