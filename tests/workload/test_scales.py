"""Soft caps and products with a number: the passes of each software generation, and what is kept for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simgpu.errors import ModelError
from simgpu.workload.families import model_units
from simgpu.workload.huggingface import model_from_huggingface
from simgpu.workload.huggingface_notes import model_notes
from simgpu.workload.layer import ModelUnits
from simgpu.workload.model import Model
from simgpu.workload.op import MemoryBound
from simgpu.workload.scales import NONE, Scales
from simgpu.workload.software import PRESETS
from simgpu.workload.training import Training

TOKENS, VOCAB, HIDDEN = 2 * 128, 1000, 256
LOGITS, STREAM, SCORES = TOKENS * VOCAB, TOKENS * HIDDEN, 2 * 4 * 128 * 128
TRAINING = Training(sequence_length=128, micro_batch_size=2, accumulation=1)
CONFIG = {
    "hidden_size": HIDDEN, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 64, "vocab_size": VOCAB,
}  # fmt: skip


def read(family: str, **more: Any) -> Model:
    model = model_from_huggingface({"model_type": family, **CONFIG, **more}, name="m")
    assert isinstance(model, Model)
    return model


def units(model: Model, preset: str, **training: Any) -> ModelUnits:
    return model_units(model, replace(TRAINING, **training), software=PRESETS[preset])


def added(model: Model, preset: str) -> dict[str, int]:
    """Return the kernels, and their bytes, that a model has more than one without scales."""

    def kernels(one: Model) -> dict[str, int]:
        parts = units(one, preset)
        passes = [item for unit in parts.units for item in (*unit.forward, *unit.backward)]
        return {item.name: item.bytes for item in passes if isinstance(item, MemoryBound)}

    plain = kernels(replace(model, scales=NONE))
    return {name: size for name, size in kernels(model).items() if name not in plain}


def cap(name: str, elements: int) -> dict[str, int]:
    forward = {f"{name}.cap_{step}": 4 * elements for step in ("divide", "tanh", "multiply")}
    backward = {f"{name}.cap_{step}.backward": 4 * elements for step in ("divide", "multiply")}
    return {**forward, **backward, f"{name}.cap_tanh.backward": 6 * elements}


def scale(*names: str, elements: int) -> dict[str, int]:
    return {f"{name}.scale{end}": 4 * elements for name in names for end in ("", ".backward")}


def test_gemma_2_caps_its_logits_in_three_kernels_each_way() -> None:
    model = read("gemma2")
    assert model.scales == Scales(embeddings=True, capped_logits=True, capped_scores=True)
    logits = {**cap("head", LOGITS), **scale("embedding", elements=STREAM)}
    for preset in ("flash", "te", "composer-2023"):  # flash attention takes the cap of the scores itself
        assert added(model, preset) == logits
    assert added(model, "eager") == {**logits, **cap("attention.core.scores", SCORES)}
    assert added(model, "compile") == {}, "torch.compile has them in the kernels around"


def test_the_tanh_is_kept_for_backward() -> None:
    model = read("gemma2")
    plain = replace(model, scales=NONE)

    def head(one: Model, preset: str) -> int:
        return units(one, preset).head.logits_bytes

    assert head(model, "flash") - head(plain, "flash") == 2 * LOGITS
    assert head(model, "te") - head(plain, "te") == 2 * LOGITS
    assert head(model, "compile") == head(plain, "compile")

    def block(one: Model, preset: str, **training: Any) -> int:
        return units(one, preset, **training).layers[0].units[0].saved_bytes

    assert block(model, "eager") - block(plain, "eager") == 2 * SCORES
    assert block(model, "flash") == block(plain, "flash")
    assert block(model, "eager", recompute="selective") == block(plain, "eager", recompute="selective")


def test_a_loss_in_chunks_takes_the_cap_of_the_logits_itself() -> None:
    model = read("gemma2")
    chunked = replace(PRESETS["flash"], fused_linear_loss=True)
    capped, plain = (model_units(one, TRAINING, software=chunked).head for one in (model, replace(model, scales=NONE)))
    assert capped == plain


def test_a_split_vocabulary_splits_the_caps() -> None:
    model = replace(read("gemma2"), scales=Scales(capped_logits=True), vocab=1024)
    half = model_units(model, TRAINING, tp=2, software=PRESETS["flash"])
    caps = [item for item in half.head.forward if isinstance(item, MemoryBound) and ".cap_" in item.name]
    assert [item.bytes for item in caps] == [4 * TOKENS * 1024 // 2] * 3


@pytest.mark.parametrize(
    ("more", "scales"),
    [
        ({"final_logit_softcapping": None}, Scales(embeddings=True, capped_scores=True)),
        ({"attn_logit_softcapping": None}, Scales(embeddings=True, capped_logits=True)),
        ({"final_logit_softcapping": None, "attn_logit_softcapping": None}, Scales(embeddings=True)),
    ],
)
def test_a_null_is_no_cap(more: dict[str, Any], scales: Scales) -> None:
    assert read("gemma2", **more).scales == scales


def test_gemma_3_has_a_cap_only_where_its_file_says_so() -> None:
    assert read("gemma3_text").scales == Scales(embeddings=True)
    capped = read("gemma3_text", final_logit_softcapping=30.0)
    assert capped.scales == Scales(embeddings=True, capped_logits=True)


@pytest.mark.parametrize("value", ["thirty", 0, -1.0])
def test_a_cap_is_a_number_above_zero(value: object) -> None:
    with pytest.raises(ModelError, match=r"final_logit_softcapping = .* must be a number above 0, or null"):
        read("gemma2", final_logit_softcapping=value)


def test_cohere_scales_its_logits() -> None:
    for family in ("cohere", "cohere2"):
        assert added(read(family), "flash") == scale("head", elements=LOGITS)
    assert added(read("cohere"), "compile") == {}
    kept, plain = (units(one, "flash").head.logits_bytes for one in (read("cohere"), read("llama")))
    assert kept == plain, "a product with a number keeps nothing"


def test_granite_scales_embeddings_branches_and_logits() -> None:
    streams = scale("embedding", "attention", "mlp", elements=STREAM)
    assert added(read("granite"), "flash") == {**streams, **scale("head", elements=LOGITS)}


def test_others_have_none() -> None:
    for family in ("llama", "qwen3", "olmo2", "mistral"):
        assert read(family, final_logit_softcapping=30.0).scales == NONE


def test_what_flash_attention_does_with_the_cap_is_said() -> None:
    said = [note for note in model_notes({"model_type": "gemma2"}) if note.startswith("attn_logit_softcapping")]
    assert len(said) == 1
    assert "software: eager" in said[0]
    assert not model_notes({"model_type": "gemma2", "attn_logit_softcapping": None})
    assert not model_notes({"model_type": "gemma3_text"})
