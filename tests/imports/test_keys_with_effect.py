"""Keys that once were read as without effect, or as another thing than the framework makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading
from tests.imports.reading import read, values_of
from tests.imports.test_degrees import FOUNDRY, TORCHTUNE
from tests.imports.test_reader_keys import NANOTRON

FP8 = (
    "distributed_type: FSDP\nfsdp_config: {{fsdp_version: 2}}\nmixed_precision: fp8\nnum_machines: 1\n"
    "num_processes: 8\nfp8_config: {{{fp8}}}\n"
)


def told(reading: Reading, words: str) -> bool:
    return any(words in note for note in reading.notes)


@pytest.mark.parametrize(
    ("fp8", "more", "software"),
    [
        ("backend: AO", "dynamo_config: {dynamo_backend: INDUCTOR}\n", "compile"),
        ("fp8_backend: AO", "", "flash"),
        ("fp8_backend: TE", "", {"preset": "te", "fp8_scaling": "delayed"}),
        ("backend: TE", "dynamo_config: {dynamo_backend: INDUCTOR}\n", {"preset": "te", "fp8_scaling": "delayed"}),
    ],
)
def test_libraries_of_fp8_in_accelerate(tmp_path: Path, fp8: str, more: str, software: Any) -> None:
    reading = read(tmp_path, FP8.format(fp8=fp8) + more, ".yaml")
    assert reading.settings["software"] == software
    assert reading.unknown == ()
    assert told(reading, "dynamo_backend") == ("TE" in fp8 and bool(more))


@pytest.mark.parametrize("loss", ["CEWithChunkedOutputLoss", "LinearCrossEntropyLoss", "CrossEntropyLoss"])
def test_losses_of_torchtune_that_hold_no_whole_logits(tmp_path: Path, loss: str) -> None:
    reading = read(tmp_path, TORCHTUNE.replace("loss.X", f"loss.{loss}"), ".yaml")
    assert told(reading, "logits in chunks") == (loss != "CrossEntropyLoss")


@pytest.mark.parametrize(
    ("value", "preset"),
    [("True", "compile"), ("{model: True, loss: True}", "compile"), ("{loss: True}", "compile"),
     ("{model: False, loss: True}", "flash")],
)  # fmt: skip
def test_parts_that_torchtune_compiles(tmp_path: Path, value: str, preset: str) -> None:
    reading = read(tmp_path, f"{TORCHTUNE}compile: {value}\n", ".yaml")
    assert reading.settings["software"]["preset"] == preset
    assert told(reading, "compile.model: false") == (preset == "flash")
    assert reading.unknown == ()


@pytest.mark.parametrize(
    ("precision", "mode", "reduced"),
    [("amp_bf16", "PURE", "bf16"), ("amp_bf16", "DEFAULT", "fp32"), ("amp_bf16", "FULL", "fp32"),
     ("amp_fp16", "PURE", "fp16"), ("amp_fp8", "PURE", "bf16"), ("fp32", "FULL", None)],
)  # fmt: skip
def test_formats_of_composer(tmp_path: Path, precision: str, mode: str, reduced: str | None) -> None:
    text = FOUNDRY.replace("amp_bf16", precision) + f"fsdp_config: {{mixed_precision: {mode}}}\n"
    reading = read(tmp_path, text, ".yaml")
    assert reading.settings.get("training.reduce_dtype") == reduced
    assert told(reading, "FULL gathers parameters in fp32") == (mode == "FULL" and precision != "fp32")


def test_widths_of_mpt(tmp_path: Path) -> None:
    def model(more: str) -> Any:
        return read(tmp_path, FOUNDRY.replace("vocab_size: 100", f"vocab_size: 100, {more}"), ".yaml").settings["model"]

    assert model("ffn_config: {ffn_type: mptglu, ffn_hidden_size: 176}")["ffn"] == 176
    assert model("expansion_ratio: 2")["ffn"] == 128
    with pytest.raises(ScenarioError, match=r"model\.ffn_config\.ffn_type = mb_moe: is a mixture of experts"):
        model("ffn_config: {ffn_type: mb_moe, moe_num_experts: 8}")


def test_models_of_the_hub_that_llm_foundry_changes(tmp_path: Path) -> None:
    model = "{name: hf_causal_lm, pretrained_model_name_or_path: a/b, config_overrides: {num_hidden_layers: 4}}"
    text = FOUNDRY.replace(FOUNDRY[FOUNDRY.index("{name: mpt") : FOUNDRY.index("\noptimizer")], model)
    reading = read(tmp_path, text, ".yaml")
    assert (reading.settings["model.layers"], reading.unknown) == (4, ())
    with pytest.raises(ScenarioError, match=r"tp_config\.tensor_parallel_degree = 2"):
        read(tmp_path, f"{text}tp_config: {{strategy: ffn, tensor_parallel_degree: 2}}\n", ".yaml")


def test_layers_that_composer_recomputes(tmp_path: Path) -> None:
    text = (
        f"{FOUNDRY}fsdp_config: {{activation_checkpointing: true, activation_checkpointing_target: {{a: first-3}}}}\n"
    )
    assert told(read(tmp_path, text, ".yaml"), "activation_checkpointing_target: blocks are recomputed whole")


@pytest.mark.parametrize(("flavor", "precision"), [("30B-A3B", "fp8"), ("8B", "bf16")])
def test_fp8_of_experts_alone(tmp_path: Path, flavor: str, precision: str) -> None:
    text = f"[model]\nname = 'qwen3'\nflavor = '{flavor}'\nconverters = ['quantize.grouped_mm.float8']\n"
    reading = read(tmp_path, f"{text}[parallelism]\ntensor_parallel_degree = 1\n", ".toml")
    assert reading.settings["training.precision"] == precision
    assert told(reading, "experts' products alone") == (precision == "fp8")


def test_picotron_ties_nothing(tmp_path: Path) -> None:
    data = {"distributed": {"tp_size": 1, "dp_size": 2}, "model": {"name": "HuggingFaceTB/SmolLM-1.7B"}, "training": {}}
    assert read(tmp_path, json.dumps(data), ".json").settings["model.tied_embeddings"] is False


@pytest.mark.parametrize(
    ("vocabulary", "tp", "divisible", "padded"), [(128255, 4, 1, 128256), (100, 1, 64, 128), (99, 1, None, 99)]
)
def test_vocabulary_that_nanotron_pads(
    tmp_path: Path, vocabulary: int, tp: int, divisible: int | None, padded: int
) -> None:
    text = NANOTRON.replace(", MORE", "").replace("tp: 1", f"tp: {tp}").replace("size: 100", f"size: {vocabulary}")
    if divisible is not None:
        text += f"  make_vocab_size_divisible_by: {divisible}\n"
    reading = read(tmp_path, text, ".yaml")
    assert (reading.settings["model"]["vocab"], reading.unknown) == (padded, ())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("num_experts: 4, top_k: 1, enable_shared_expert: true",
         {"experts": 4, "experts_per_token": 1, "expert_ffn": 128, "shared_ffn": 128}),
        ("moe_intermediate_size: 32, shared_expert_intermediate_size: 96, enable_shared_expert: true, layers: [1]",
         {"experts": 8, "experts_per_token": 2, "expert_ffn": 32, "shared_ffn": 96, "dense_layers": [0]}),
        ("num_experts: 4, layers: [-1]", {"experts": 4, "experts_per_token": 2, "expert_ffn": 128}),
    ],
)  # fmt: skip
def test_experts_of_nanotron(tmp_path: Path, words: str, wanted: dict[str, object]) -> None:
    text = NANOTRON.replace(", MORE", "").replace("vocab_size", f"moe_config: {{{words}}}, vocab_size")
    model = read(tmp_path, text, ".yaml").settings["model"]
    assert {name: model[name] for name in model if "expert" in name or name in ("shared_ffn", "dense_layers")} == wanted
    with pytest.raises(ScenarioError, match=r"expert_parallel_size = 2: is not simulated with .*moe_config"):
        read(tmp_path, text.replace("tp: 1", "tp: 1, expert_parallel_size: 2"), ".yaml")


def test_tensor_parallelism_of_nanotron_that_is_not_simulated(tmp_path: Path) -> None:
    options = "tp_linear_async_communication: true, tp_recompute_allgather: false"
    alone, divided = (
        read(tmp_path, NANOTRON.replace("MORE", options).replace("tp: 1", f"tp: {tp}"), ".yaml") for tp in (1, 2)
    )
    assert [name for name in ("async_comm", "recompute_allgather") if told(alone, name)] == []
    assert [name for name in ("async_comm", "recompute_allgather") if told(divided, name)] == [
        "async_comm", "recompute_allgather",
    ]  # fmt: skip


@pytest.mark.parametrize(("device", "noted"), [("nvme", True), ("cpu", False)])
def test_parameters_that_deepspeed_keeps_in_host_memory(tmp_path: Path, device: str, noted: bool) -> None:
    block = {"stage": 3, "offload_param": {"device": device, "nvme_path": "/n", "max_in_cpu": 1e9}}
    reading = read(tmp_path, json.dumps({"train_batch_size": 4, "zero_optimization": block}), ".json")
    assert told(reading, "max_in_cpu: 1000000000 parameters") == noted


def test_a_batch_that_litgpt_rounds_down(tmp_path: Path) -> None:
    text = "checkpoint_dir: c/meta-llama/Llama-2-7b-hf\nprecision: bf16-true\ndevices: 6\ntrain: {{{train}}}\n"
    sizes = "global_batch_size: 64, micro_batch_size: 2, max_seq_length: 1024"
    reading = read(tmp_path, text.format(train=sizes), ".yaml")
    wanted = {"training.gradient_accumulation": 5, "training.global_batch_size": None}
    assert values_of(reading, wanted) == wanted
    assert told(reading, "a step has 60 sequences")
    even = read(tmp_path, text.format(train=sizes.replace("64", "48")), ".yaml")
    assert (even.settings["training.global_batch_size"], told(even, "a step has")) == (48, False)
    with pytest.raises(ScenarioError, match=r"train\.global_batch_size = 8: is less than one micro-batch"):
        read(tmp_path, text.format(train=sizes.replace("64", "8")), ".yaml")


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ("memory_efficient_fsdp_wrap: true\n", {"fsdp.wrap_embedding_and_head": True}),
        ("memory_efficient_fsdp_wrap: false\n", {"fsdp.wrap_embedding_and_head": None}),
    ],
)
def test_units_of_torchtune(tmp_path: Path, more: str, wanted: dict[str, Any]) -> None:
    assert values_of(read(tmp_path, TORCHTUNE + more, ".yaml"), wanted) == wanted


@pytest.mark.parametrize(("option", "kernels"), [("foreach: false", "for_loop"), ("foreach: true", "foreach")])
def test_kernels_of_torchtunes_optimizer(tmp_path: Path, option: str, kernels: str) -> None:
    reading = read(tmp_path, TORCHTUNE.replace("optim.AdamW}", f"optim.AdamW, {option}, amsgrad: true}}"), ".yaml")
    assert reading.settings["software"]["optimizer"] == kernels
    assert told(reading, "optimizer.amsgrad")


def test_dropout_of_mpt(tmp_path: Path) -> None:
    text = FOUNDRY.replace("vocab_size: 100", "vocab_size: 100, resid_pdrop: 0.1, attn_config: {attn_pdrop: 0}")
    assert read(tmp_path, text, ".yaml").settings["training.dropout"] == 0.1


def test_gradients_that_composer_keeps_low(tmp_path: Path) -> None:
    low = read(tmp_path, f"{FOUNDRY}fsdp_config: {{keep_low_precision_grads: true}}\n", ".yaml")
    assert told(low, "keep_low_precision_grads is not simulated")


def test_kernels_of_nanotrons_optimizer(tmp_path: Path) -> None:
    text = NANOTRON.replace(", MORE", "").replace("zero_stage: 1", "zero_stage: 1, torch_adam_is_fused: false")
    assert read(tmp_path, text, ".yaml").settings["software"]["optimizer"] == "foreach"


def test_attention_of_picotron_by_its_variable(tmp_path: Path) -> None:
    data = {
        "distributed": {"tp_size": 1},
        "model": {"name": "a/b"},
        "training": {},
        "environment": {"FLASH_ATTEN": "0"},
    }
    assert read(tmp_path, json.dumps(data), ".json").settings["software"]["preset"] == "eager"


@pytest.mark.parametrize(
    ("more", "kept"),
    [("optimizer: SGD\n", "sgd"), ("optimizer: {class_path: bitsandbytes.optim.AdamW8bit}\n", "adam8bit")],
)
def test_optimizers_of_litgpt(tmp_path: Path, more: str, kept: str) -> None:
    text = "checkpoint_dir: c/a/b\nprecision: bf16-true\ntrain: {micro_batch_size: 1, tie_embeddings: true}\n"
    wanted = {"training.optimizer": kept, "model.tied_embeddings": True}
    assert values_of(read(tmp_path, text + more, ".yaml"), wanted) == wanted


def test_modules_that_fsdp_leaves_out(tmp_path: Path) -> None:
    text = (
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 2\nfsdp_config: {fsdp_ignored_modules: head}\n"
    )
    assert told(read(tmp_path, text, ".yaml"), "fsdp_ignored_modules is not simulated")
