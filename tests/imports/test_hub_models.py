"""Models that files name and nobody describes: the dimensions that the table gives have the published parameters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run_model import choose_model
from simgpu.errors import ScenarioError
from simgpu.hardware.table import read_table
from simgpu.workload.architecture import Architecture
from simgpu.workload.bundled import bundled_model, bundled_models
from simgpu.workload.derived import derived_model
from simgpu.workload.inline import model_from_fields

PUBLISHED = {
    "Qwen/Qwen2.5-0.5B-Instruct": 494_032_768, "Qwen/Qwen2.5-1.5B": 1_543_714_304, "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-Coder-14B": 14_770_033_664, "Qwen/Qwen2.5-32B": 32_763_876_352, "Qwen/Qwen2-72B": 72_706_203_648,
    "Qwen/Qwen3-0.6B": 596_049_920, "Qwen/Qwen3-1.7B-Base": 1_720_574_976, "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-4B-Instruct-2507": 4_022_468_096, "Qwen/Qwen3-14B": 14_768_307_200, "Qwen/Qwen3-32B": 32_762_123_264,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096, "mistralai/Mistral-7B-Instruct-v0.3": 7_248_023_552,
    "meta-llama/Llama-3.2-1B": 1_235_814_400, "unsloth/Llama-3.2-3B-Instruct": 3_212_749_824,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "HuggingFaceTB/SmolLM2-135M": 134_515_008, "HuggingFaceTB/SmolLM2-360M-Instruct": 361_821_120,
    "HuggingFaceTB/SmolLM2-1.7B": 1_711_376_384, "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "microsoft/phi-4": 14_659_507_200, "google/gemma-2b": 2_506_172_416, "google/gemma-7b-it": 8_537_680_896,
    "01-ai/Yi-6B": 6_061_035_520, "01-ai/Yi-34B": 34_388_917_248, "codellama/CodeLlama-34b-hf": 33_743_970_304,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000, "llama3_2_1b": 1_235_814_400,
    "qwen2_5_0_5b_instruct": 494_032_768, "phi4_14b": 14_659_507_200, "gemma_7b": 8_537_680_896,
    "mistralai/Mistral-7B-Instruct-v0.2": 7_241_732_096, "mistral_7b": 7_241_732_096, "phi3_mini": 3_821_079_552,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": 14_770_033_664, "llama3_2_3b": 3_212_749_824,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": 32_763_876_352, "gemma_2b": 2_506_172_416,
    "qwen2_1_5b": 1_543_714_304, "qwen2_5_3b": 3_085_938_688, "qwen2_5_14b_base": 14_770_033_664,
    "qwen2_5_32b_base": 32_763_876_352, "qwen2_5_72b_instruct": 72_706_203_648,
    "facebook/opt-125m": 125_239_296, "facebook/opt-1.3b": 1_315_758_080, "facebook/opt-2.7b": 2_651_596_800,
    "facebook/opt-6.7b": 6_658_473_984, "facebook/opt-13b": 12_853_473_280, "facebook/opt-30b": 29_974_540_288,
    "facebook/opt-66b": 65_719_701_504,
    "codellama/CodeLlama-7b-hf": 6_738_546_688, "codellama/CodeLlama-7b-Python-hf": 6_738_415_616,
    "codellama/CodeLlama-13b-Instruct-hf": 13_016_028_160, "codellama/CodeLlama-13b-Python-hf": 13_015_864_320,
    "codellama/CodeLlama-70b-hf": 68_976_910_336, "code_llama2_7b": 6_738_546_688, "code_llama2_13b": 13_016_028_160,
    "code_llama2_70b": 68_976_910_336,
    "microsoft/phi-1_5": 1_418_270_720 - 51_200, "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "databricks/dbrx-base": 131_596_523_520 + 81 * 6144, "micro-llama-300M": 304_636_928,
    "openlm-research/open_llama_3b": 3_426_473_600,
    "mistralai/Mistral-Nemo-Instruct-2407": 12_247_782_400, "mistralai/Mistral-Large-Instruct-2407": 122_610_069_504,
    "mistralai/Mistral-Small-24B-Instruct-2501": 23_572_403_200,
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": 23_572_403_200,
    "mistralai/Mixtral-8x22B-Instruct-v0.1": 140_630_071_296,
    "deepseek-ai/DeepSeek-V2-Lite-Chat": 15_706_484_224, "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "deepseek-ai/deepseek-llm-7b-base": 6_910_365_696, "deepseek-ai/deepseek-llm-67b-chat": 67_425_001_472,
    "deepseek-ai/deepseek-math-7b-rl": 6_910_365_696, "deepseek-ai/deepseek-moe-16b-base": 16_375_728_128,
    "deepseek-ai/deepseek-coder-1.3b-base": 1_346_471_936, "deepseek-ai/deepseek-coder-6.7b-base": 6_740_512_768,
    "deepseek-ai/deepseek-coder-33b-instruct": 33_342_991_360,
    "Qwen/Qwen1.5-0.5B": 463_987_712, "Qwen/Qwen1.5-1.8B": 1_836_828_672, "Qwen/Qwen1.5-4B-Chat": 3_950_369_280,
    "Qwen/Qwen1.5-7B": 7_721_324_544, "Qwen/Qwen1.5-14B": 14_167_290_880, "Qwen/Qwen1.5-32B": 32_512_218_112,
    "Qwen/Qwen1.5-72B": 72_287_920_128, "Qwen/Qwen1.5-MoE-A2.7B": 14_315_784_192 - 24 * 2048,
    "Qwen/Qwen3-Reranker-0.6B": 595_776_512, "Qwen/Qwen3-Embedding-0.6B": 595_776_512,
    "Qwen/Qwen3-Reranker-4B": 4_022_468_096 - 267 * 2560, "Qwen/Qwen3-Embedding-4B": 4_021_774_336,
    "Qwen/Qwen3-Reranker-8B": 8_190_735_360 - 2 * 267 * 4096, "Qwen/Qwen3-Embedding-8B": 8_188_515_328,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_085_938_688, "Qwen/Qwen2.5-VL-32B-Instruct": 32_763_876_352,
    "Qwen/Qwen2.5-VL-72B-Instruct": 72_706_203_648, "Qwen/Qwen2-VL-2B-Instruct": 1_543_714_304,
    "Qwen/QwQ-32B": 32_763_876_352,
    "allenai/OLMo-2-1124-13B": 13_716_198_400, "allenai/OLMo-2-0325-32B": 32_234_279_936,
    "allenai/OLMo-1B-hf": 1_176_764_416 + 33 * 2 * 2048, "allenai/OLMo-7B-hf": 6_888_095_744 + 65 * 2 * 4096,
    "tiiuae/falcon-40b": 41_303_293_952, "tiiuae/Falcon3-1B-Base": 1_669_408_768,
    "tiiuae/Falcon3-3B-Base": 3_227_655_168, "tiiuae/Falcon3-7B-Instruct": 7_455_550_464,
    "tiiuae/Falcon3-10B-Base": 10_305_653_760,
    "mosaicml/mpt-7b-instruct": 6_649_286_656 + 65 * 4096, "mosaicml/mpt-30b": 29_957_200_896 + 97 * 7168,
    "EleutherAI/pythia-14m": 14_067_712, "EleutherAI/pythia-31m": 30_494_720, "EleutherAI/pythia-70m": 70_426_624,
    "EleutherAI/pythia-160m": 162_322_944, "EleutherAI/pythia-410m": 405_334_016,
    "EleutherAI/pythia-1b": 1_011_781_632,
    "EleutherAI/pythia-1.4b": 1_414_647_808, "EleutherAI/pythia-2.8b-deduped": 2_775_208_960,
    "EleutherAI/pythia-6.9b": 6_857_302_016, "EleutherAI/pythia-12b": 11_846_072_320,
    "EleutherAI/gpt-neox-20b": 20_554_567_680, "EleutherAI/gpt-neo-125m": 125_198_592,
    "EleutherAI/gpt-neo-1.3B": 1_315_575_808, "EleutherAI/gpt-neo-2.7B": 2_651_307_520,
    "bigscience/bloom-560m": 559_214_592 - 2 * 1024, "bigscience/bloom-1b1": 1_065_314_304 - 2 * 1536,
    "bigscience/bloomz-1b7": 1_722_408_960 - 2 * 2048, "bigscience/bloom-3b": 3_002_557_440 - 2 * 2560,
    "bigscience/bloomz-7b1-mt": 7_069_016_064 - 2 * 4096, "bigscience/bloom": 176_247_271_424 - 2 * 14336,
    "stabilityai/stablelm-3b-4e1t": 2_795_443_200, "stabilityai/stablelm-2-1_6b": 1_644_515_328,
    "internlm/internlm2-chat-1_8b": 1_889_110_016, "internlm/internlm2_5-7b-chat": 7_737_708_544,
    "internlm/internlm2-20b": 19_861_149_696,
    "THUDM/glm-4-9b-chat": 9_399_951_360, "THUDM/chatglm3-6b": 6_243_584_000,
    "baichuan-inc/Baichuan2-7B-Chat": 7_505_973_248, "baichuan-inc/Baichuan2-13B-Base": 13_896_668_160,
    "01-ai/Yi-1.5-9B": 8_829_407_232, "bigcode/starcoder2-3b": 3_030_371_328,
    "CohereForAI/aya-23-8B": 8_028_033_024 + 33 * 4096,
    "openai-community/gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "distilgpt2": 81_912_576,
    "bert-base-cased": 108_932_934, "bert-large-cased": 334_661_958, "google-bert/bert-base-chinese": 102_882_442,
    "bert-base-multilingual-cased": 178_566_653, "roberta-large": 355_412_057, "xlm-roberta-base": 278_295_186,
    "FacebookAI/xlm-roberta-large": 560_142_482,
    "t5-small": 60_506_624, "google-t5/t5-3b": 2_851_598_336, "t5-11b": 11_307_321_344,
    "google/flan-t5-small": 76_961_152, "google/flan-t5-base": 247_577_856, "google/t5-v1_1-large": 783_150_080,
    "LnL-AI/dbrx-base-converted-v2": 131_596_523_520 + 81 * 6144, "google/gemma-1.1-2b-it": 2_506_172_416,
    "google/codegemma-7b": 8_537_680_896, "mistralai/Magistral-Small-2506": 23_572_403_200,
    "HuggingFaceH4/zephyr-7b-beta": 7_241_732_096, "microsoft/Phi-3-medium-4k-instruct": 13_960_238_080,
    "Qwen/Qwen-1_8B": 1_836_828_672, "Qwen/Qwen-7B-Chat": 7_721_324_544, "Qwen/Qwen-14B": 14_167_290_880,
    "google/gemma-3-270m-it": 268_098_176, "HuggingFaceTB/SmolLM3-3B": 3_075_098_624,
    "google/flan-t5-xl": 2_849_757_184, "google/flan-t5-xxl": 11_135_332_352,
}  # fmt: skip
"""Tensors of the published weights; of BERT and RoBERTa, of Transformers' classes for pretraining. What stands behind a
sum is counted otherwise here: norms have biases (DBRX, MPT, Aya) or weights (OLMo) that those have not, BLOOM has a norm
behind its embedding, the head of Phi biases, a shared expert a gate. Qwen3's embedding and reranking models are as
keras-team/keras-hub keras_hub/src/models/qwen3 counts them, with a head, and Qwen3 with rows of the vocabulary less."""


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters_are_the_published_ones(name: str, count: int) -> None:
    model, note = choose_model(name, "a.yml", None, Path())
    assert built(model).parameters == count
    assert note is not None
    assert note.startswith(f"model: dimensions of {name}, which a.yml names")
    assert choose_model(None, "", name, Path())[0] == model, "and so --model may name it"


def built(model: Any) -> Architecture:
    if "base" in model:
        return derived_model(bundled_model(model["base"]), {key: model[key] for key in model if key != "base"})
    return model_from_fields(model, "m")


def test_every_row_is_checked() -> None:
    unknown = [row["pattern"] for row in read_table("hub_models.csv") if None in row or None in row.values()]
    assert not unknown, "five cells in a row"
    for row in read_table("hub_models.csv"):
        assert row["source"]
        if "=" in row["model"]:
            assert any(re.fullmatch(row["pattern"], name, re.IGNORECASE) for name in PUBLISHED), row["pattern"]
        elif row["model"]:
            assert row["model"] in bundled_models()


@pytest.mark.parametrize(
    ("name", "bundled"),
    [
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"), ("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"), ("unsloth/gpt-oss-120b-BF16", "gpt-oss-120b"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"), ("deepseek-ai/DeepSeek-V3-Base", "deepseek-v3"),
        ("google/gemma-2-9b-it", "gemma-2-9b"), ("gemma2_27b", "gemma-2-27b"), ("google/gemma-3-1b-pt", "gemma-3-1b"),
        ("unsloth/gemma-3-12b-it", "gemma-3-12b"), ("microsoft/phi-2", "phi-2"), ("tiiuae/falcon-7b", "falcon-7b"),
        ("allenai/OLMo-2-1124-7B-SFT", "olmo-2-7b"), ("bigcode/starcoder2-7b", "starcoder2-7b"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"), ("EleutherAI/gpt-j-6B", "gpt-j-6b"),
        ("meta-llama/Llama-4-Maverick-17B-128E", "llama-4-maverick"), ("roberta-base", "roberta-base"),
        ("openai/clip-vit-base-patch16", "clip-vit-b-16"), ("CohereForAI/c4ai-command-r-v01", "command-r"),
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5-7b"), ("microsoft/resnet-50", "resnet-50"),
        ("google/vit-base-patch16-224-in21k", "vit-base"), ("openlm-research/open_llama_7b", "llama-2-7b"),
    ],
)  # fmt: skip
def test_some_are_bundled(name: str, bundled: str) -> None:
    assert choose_model(name, "a.yml", None, Path())[0] == bundled


def test_what_is_left_out_of_a_named_model_is_said() -> None:
    towers = "model_type qwen2_5_vl: the language model alone is simulated, on text: its other towers are left out"
    for name in ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen2.5-VL-3B-Instruct"):
        assert str(choose_model(name, "a.yml", None, Path())[1]).endswith(f"which a.yml names; {towers}")
        assert str(choose_model(None, "", name, Path())[1]).endswith(f"{name}; {towers}")
    assert choose_model("Qwen/Qwen2.5-7B", "a", None, Path())[1] == (
        "model: qwen2.5-7b has the dimensions of Qwen/Qwen2.5-7B, which a names"
    )
    for name, said in (
        ("gemma2_9b", "torchtune computes attention in kernels of its own"),
        ("google/gemma-2-2b", "attn_logit_softcapping: flash attention is simulated as taking it"),
        ("bigscience/bloom-3b", "the norm behind the embedding is left out"),
        ("Qwen/Qwen3-Embedding-8B", "it has no head there"),
    ):
        assert said in str(choose_model(name, "a.yml", None, Path())[1])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("llama3_2_vision_11b", "layers of cross attention to images"),
        ("meta-llama/Llama-3.2-90B-Vision-Instruct", "layers of cross attention to images"),
        ("microsoft/deberta-v3-base", "attention with separate positions"),
        ("state-spaces/mamba-2.8b", "state-space (Mamba) layers"),
        ("openai/whisper-large-v3", "an audio encoder with convolutions"),
        ("google/gemma-3n-E4B-it", "alternating predictions of the residual stream, and embeddings in every layer"),
    ],
)
def test_a_model_that_is_not_modelled_is_refused_by_its_feature(name: str, reason: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        choose_model(name, "a.yml", None, Path())
    assert str(raised.value) == (
        f"a.yml: model = {name}: is not modelled: it has {reason}; fix: give a model of the same size by --model"
    )
    with pytest.raises(ScenarioError, match=r"--model = .*: is not modelled: it has "):
        choose_model(None, "", name, Path())
