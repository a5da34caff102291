"""Keys of torchtune, ms-swift, nanotron, picotron and GPT-NeoX that once were read as another thing than these make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading
from tests.imports.lines import at, line
from tests.imports.reading import read
from tests.imports.test_deepspeed_effects import told
from tests.imports.test_degrees import TORCHTUNE
from tests.imports.test_reader_keys import NANOTRON

NEOX: dict[str, Any] = {
    "pipe_parallel_size": 2, "model_parallel_size": 2, "num_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
    "seq_length": 128, "max_position_embeddings": 128, "train_micro_batch_size_per_gpu": 1, "precision": "bfloat16",
    "tokenizer_type": "HFTokenizer", "vocab_file": "20B_tokenizer.json",
}  # fmt: skip
SCATTERED = "parallel.scatter_gather_tensors_in_pipeline"


def tune(folder: Path, more: str) -> Reading:
    return read(folder, f"{TORCHTUNE}{more}\n", ".yaml")


def neox(folder: Path, **keys: Any) -> Reading:
    return read(folder, json.dumps(NEOX | keys), ".yml")


def nanotron(folder: Path, more: str, *, model: str = "") -> Reading:
    text = NANOTRON.replace("pp: 1, MORE", more).replace("vocab_size: 100", f"vocab_size: 100{model}")
    return read(folder, text, ".yaml")


@pytest.mark.parametrize(("name", "batch"), [("batch_size", 4), ("per_device_train_batch_size", 4), ("x", 1)])
def test_names_of_the_first_ms_swift(tmp_path: Path, name: str, batch: int) -> None:
    text = f"NPROC_PER_NODE=2 swift sft --model_type qwen-7b --sft_type full --dtype bf16 --{name} 4 --max_length 512"
    run = line(tmp_path, text)
    assert at(run, "training.micro_batch_size", "training.precision", "model.ffn") == [batch, "bf16", 11008]
    assert not any("torch_dtype is left out" in said for said in run.notes)
    assert ("x" in str(run.unknown)) is (name == "x")


@pytest.mark.parametrize(("tp", "split"), [(1, None), (2, True)])
def test_torchtune_splits_norms_with_tensor_parallelism(tmp_path: Path, tp: int, split: bool | None) -> None:
    assert tune(tmp_path, f"tensor_parallel_dim: {tp}").settings.get("parallel.sequence_parallel") == split


def test_torchtune_without_gpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="device = cpu: asks for a run without GPUs; allowed: cuda"):
        tune(tmp_path, "device: cpu")
    assert tune(tmp_path, "device: cuda:0").unknown == ()


@pytest.mark.parametrize(
    ("name", "kept", "kernels", "moments", "paged"),
    [
        ("torch.optim.AdamW", "adamw", "foreach", True, False),
        ("bitsandbytes.optim.PagedAdamW", "adamw", "fused", False, True),
        ("bitsandbytes.optim.AdamW", "adamw", "fused", False, False),
        ("bitsandbytes.optim.PagedAdamW8bit", "adam8bit", "fused", False, True),
    ],
)
def test_states_of_torchtunes_optimizers(
    tmp_path: Path, name: str, kept: str, kernels: str, moments: bool, paged: bool
) -> None:
    text = TORCHTUNE.replace("torch.optim.AdamW", name)
    reading = read(tmp_path, text, ".yaml")
    assert reading.settings["training.optimizer"] == kept
    assert reading.settings["software"]["optimizer"] == kernels
    assert (told(reading, "the moments are in bf16 there"), told(reading, "managed memory")) == (moments, paged)


@pytest.mark.parametrize(
    ("words", "kept", "note"),
    [
        ("optimizer=torch.optim.AdamW", ["adamw", "fused"], None),
        ("optimizer=torch.optim.SGD", ["sgd", "fused"], "torch.optim.SGD of run.sh goes before torch.optim.AdamW"),
        ("loss=torchtune.modules.loss.CEWithChunkedOutputLoss", ["adamw", "fused"], "logits in chunks"),
    ],
)
def test_a_component_by_the_name_of_its_block(tmp_path: Path, words: str, kept: list[str], note: str | None) -> None:
    text = TORCHTUNE.replace("torch.optim.AdamW}", "torch.optim.AdamW, fused: true}")
    run = line(tmp_path, f"tune run --nproc_per_node 4 x --config c.yaml {words}", {"c.yaml": text})
    assert at(run, "training.optimizer", "software.optimizer") == kept
    assert run.unknown == ()
    assert not any("a block of options" in said for said in run.notes)
    assert note is None or any(note in said for said in run.notes)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("dataset: {packed: false}", "shorter in the job"),
        ("cudnn_deterministic_mode: true", "cudnn_deterministic_mode"),
    ],
)
def test_what_of_torchtune_is_not_simulated(tmp_path: Path, more: str, words: str) -> None:
    assert told(tune(tmp_path, more), words)
    assert not told(tune(tmp_path, "dataset: {packed: true}\ncudnn_deterministic_mode: null"), words)


@pytest.mark.parametrize(
    ("more", "schedule"),
    [("pp: 2", "gpipe"), ("pp: 2, pp_engine: null", "gpipe"), ("pp: 2, pp_engine: 1f1b", "1f1b"), ("pp: 1", None)],
)
def test_nanotrons_pipeline_where_none_is_named(tmp_path: Path, more: str, schedule: str | None) -> None:
    assert nanotron(tmp_path, more).settings.get("parallel.schedule") == schedule


def test_layers_of_nanotrons_stages(tmp_path: Path) -> None:
    reading = nanotron(tmp_path, "pp: 2, pp_layer_partition: [1, 1]")
    assert reading.settings["parallel.layers_per_stage"] == [1, 1]
    assert reading.unknown == ()
    for wrong in ("[2]", "[1, 2]", "[2, 0]"):
        with pytest.raises(ScenarioError, match=r"pp_layer_partition = .* does not place 2 layers on 2 stages"):
            nanotron(tmp_path, f"pp: 2, pp_layer_partition: {wrong}")


def test_nanotrons_stages_of_zero(tmp_path: Path) -> None:
    path = tmp_path / "n.yaml"
    path.write_text(NANOTRON.replace(", MORE", "").replace("zero_stage: 1", "zero_stage: 3"))
    with pytest.raises(ScenarioError, match=r"optimizer\.zero_stage = 3: is not known to nanotron; allowed: 0, 1"):
        read(tmp_path, path.read_text(), ".yaml")


def test_a_reference_model_beside_is_refused(tmp_path: Path) -> None:
    plain = NANOTRON.replace(", MORE", "")
    assert read(tmp_path, plain + "doremi: {domain_names: 'a, b'}\n", ".yaml").unknown == ()
    with pytest.raises(ScenarioError, match=r"doremi\.ref_model_resume_checkpoint_path = x: runs a reference model"):
        read(tmp_path, plain + "doremi: {domain_names: 'a', ref_model_resume_checkpoint_path: x}\n", ".yaml")


@pytest.mark.parametrize("model", [", flex_attention_mask: document", ", no_rope_layer: 4"])
def test_what_of_nanotron_is_not_simulated(tmp_path: Path, model: str) -> None:
    assert told(nanotron(tmp_path, "pp: 1", model=model), model[2:].partition(":")[0])


def test_picotron_on_another_backend(tmp_path: Path) -> None:
    text: dict[str, Any] = {
        "distributed": {"tp_size": 1, "backend": "gloo"},
        "model": {"name": "a/b"},
        "training": {"seq_length": 8},
    }
    assert told(read(tmp_path, json.dumps(text), ".json"), "distributed.backend gloo")
    text["distributed"]["backend"] = "nccl"
    assert not told(read(tmp_path, json.dumps(text), ".json"), "distributed.backend")


@pytest.mark.parametrize(
    ("keys", "scattered"),
    [
        ({}, True), ({"model_parallel_size": 1}, None), ({"pipe_parallel_size": 1}, None),
        ({"sequence_parallel": True}, None),
    ],
)  # fmt: skip
def test_deepspeeds_pipeline_sends_shares(tmp_path: Path, keys: dict[str, Any], scattered: bool | None) -> None:
    assert neox(tmp_path, **keys).settings.get(SCATTERED) == scattered


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"synchronize_each_layer": True, "checkpoint_activations": True}, "synchronize_each_layer"),
        ({"log_gradient_noise_scale": True}, "log_gradient_noise_scale"),
        ({"pipe_partition_method": "parameters"}, "pipe_partition_method"),
    ],
)
def test_what_of_neox_is_not_simulated(tmp_path: Path, keys: dict[str, Any], words: str) -> None:
    assert told(neox(tmp_path, **keys), words)
    quiet = {"synchronize_each_layer": True, "pipe_partition_method": "type:transformer|mlp"}
    assert not told(neox(tmp_path, **quiet), words)
