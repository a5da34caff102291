"""Models that files name and nobody describes: the dimensions that the table gives have the published parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run_model import choose_model
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
}  # fmt: skip
"""Tensors of the published weights."""


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameters_are_the_published_ones(name: str, count: int) -> None:
    model, note = choose_model(name, "a.yml", None, Path())
    fields: Any = model
    assert model_from_fields(fields, name).parameters == count
    assert note == f"model: dimensions of {name}, which a.yml names"
    assert choose_model(None, "", name, Path())[0] == model, "and so --model may name it"


@pytest.mark.parametrize(
    ("name", "bundled"),
    [
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"), ("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"), ("unsloth/gpt-oss-120b-BF16", "gpt-oss-120b"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"), ("deepseek-ai/DeepSeek-V3-Base", "deepseek-v3"),
    ],
)  # fmt: skip
def test_some_are_bundled(name: str, bundled: str) -> None:
    assert choose_model(name, "a.yml", None, Path())[0] == bundled
