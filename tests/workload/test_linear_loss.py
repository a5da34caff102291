"""The head and its loss in chunks of tokens: nothing is computed twice, and no logits are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simgpu
from simgpu.errors import ScenarioError
from simgpu.workload.bundled import bundled_model
from simgpu.workload.families import model_units
from simgpu.workload.frozen import trained_units
from simgpu.workload.linear_loss import chunk_tokens
from simgpu.workload.lora import Lora
from simgpu.workload.op import Gemm, MemoryBound
from simgpu.workload.software import PRESETS
from simgpu.workload.training import Training
from simgpu.workload.unit import Unit

FLASH = PRESETS["flash"]
MODEL = bundled_model("llama-3-8b")
TOKENS, HIDDEN, VOCAB = 8192, MODEL.hidden, MODEL.vocab


def head(training: Training, *, chunks: bool = False) -> Unit:
    units = model_units(MODEL, training, software=replace(FLASH, fused_linear_loss=chunks))
    return trained_units(units, MODEL, training).head


def trained(**more: Any) -> Training:
    return Training(sequence_length=TOKENS, micro_batch_size=1, accumulation=1, **more)


def products(items: Any) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in items:
        if isinstance(item, Gemm):
            found[item.name] = found.get(item.name, 0) + item.flops
    return found


def test_the_products_are_those_of_a_head_with_logits() -> None:
    chunks, whole = head(trained(), chunks=True), head(trained())
    assert products(chunks.forward) == products(whole.forward + whole.backward)
    assert products(chunks.backward) == {}
    assert chunks.parameters == whole.parameters


def test_memory_is_a_chunk_s_logits_and_the_weight_s_gradient() -> None:
    unit = head(trained(), chunks=True)
    assert unit.logits_bytes == 2 * 256 * VOCAB + 2 * VOCAB * HIDDEN
    assert unit.backward_bytes == 0


def test_a_frozen_head_has_no_gradient_of_its_weight() -> None:
    unit = head(trained(lora=Lora(rank=8)), chunks=True)
    assert set(products(unit.forward)) == {"head", "head.dgrad"}
    assert unit.logits_bytes == 2 * 256 * VOCAB
    assert [
        item.name for item in unit.backward if isinstance(item, MemoryBound) and item.name[:4] in ("head", "loss")
    ] == ["loss.scale"]


@given(st.integers(1, 1 << 17), st.integers(64, 1 << 14), st.integers(64, 1 << 18))
def test_chunks_cover_all_tokens_in_about_the_room_of_their_input(tokens: int, hidden: int, vocab: int) -> None:
    chunk = chunk_tokens(tokens, hidden, vocab)
    assert 1 <= chunk <= tokens
    assert chunk == tokens or chunk & (chunk - 1) == 0
    assert chunk * vocab <= 2 * (tokens * hidden + vocab)


def scenario(**software: str) -> dict[str, Any]:
    return {
        "model": {"base": "llama-3-8b", "layers": 2},
        "cluster": {"topology": "dgx-h100"},
        "training": {"sequence_length": 8192, "micro_batch_size": 1, "global_batch_size": 8, "precision": "bf16"},
        "parallel": {"data_parallel": "fsdp"},
        "software": {"preset": "flash", **software},
    }


def test_a_run_needs_less_memory_and_about_the_same_time() -> None:
    (whole,), (chunks,) = simgpu.run(scenario()), simgpu.run(scenario(cross_entropy="fused_linear"))
    logits = 8192 * VOCAB
    spared = whole.peak_memory_bytes - chunks.peak_memory_bytes
    assert 6 * logits < spared < 10 * logits  # of 10 B a logit; the weight's gradient comes earlier
    assert abs(chunks.step_time_ns / whole.step_time_ns - 1) < 0.1


def test_a_split_vocabulary_is_refused() -> None:
    data = scenario(cross_entropy="fused_linear")
    data["parallel"] = {"tp": 2, "data_parallel": "ddp"}
    with pytest.raises(ScenarioError, match=r"software.cross_entropy = fused_linear: .* parallel.tp = 2 splits them"):
        simgpu.run(data)
