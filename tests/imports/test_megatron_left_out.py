"""Arguments of Megatron and keys of NeMo that once were called without effect on the step, and have one."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading
from tests.imports.lines import at, line
from tests.imports.reading import read
from tests.imports.test_deepspeed_effects import told
from tests.imports.test_megatron_effects import DEEPSPEED, job
from tests.imports.test_megatron_yaml_cfg import CONFIG

NEMO = (
    "trainer: {{devices: 8, num_nodes: 1, precision: bf16}}\nmodel:\n  mcore_gpt: true\n  micro_batch_size: 1\n"
    "  global_batch_size: 8\n  encoder_seq_length: 1024\n  num_layers: 4\n  hidden_size: 512\n"
    "  num_attention_heads: 8\n  max_position_embeddings: 1024\n  megatron_amp_O2: true\n{}"
)
SCATTERED = "parallel.scatter_gather_tensors_in_pipeline"
EXPERTS = "--num-experts 4 --expert-model-parallel-size 2"


def nemo(folder: Path, *lines: str) -> Reading:
    return read(folder, NEMO.format("".join(f"  {text}\n" for text in lines)), ".yaml")


@pytest.mark.parametrize(
    ("words", "quiet"),
    [
        ("--timing-log-level 2", "--timing-log-level 0"),
        ("--rerun-mode report_stats", "--rerun-mode validate_results"),
        ("--distributed-backend gloo", "--distributed-backend nccl"),
        ("--pipeline-model-parallel-comm-backend ucc", "--pipeline-model-parallel-comm-backend nccl"),
        ("--variable-seq-lengths", ""),
        (f"{EXPERTS} --moe-extended-tp", EXPERTS),
        ("--use-checkpoint-args", ""),
        ("--use-mp-args-from-checkpoint-args", ""),
        ("--random-ltd", ""),
        ("--data-efficiency-curriculum-learning", ""),
        (
            "--tensor-model-parallel-size 2 --no-async-tensor-model-parallel-allreduce",
            "--tensor-model-parallel-size 2 --sequence-parallel --no-async-tensor-model-parallel-allreduce",
        ),
    ],
)
def test_what_is_not_simulated_is_told(tmp_path: Path, words: str, quiet: str) -> None:
    name = next(word for word in reversed(words.split()) if word.startswith("--"))
    assert told(job(tmp_path, words), f"{name} is not simulated: ")
    reading = job(tmp_path, quiet)
    assert not told(reading, f"{name} is not simulated: ")
    assert reading.unknown == ()


def test_a_run_that_leaves_training_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"--skip-train.* leaves training out: there is no step to simulate"):
        job(tmp_path, "--skip-train")


def test_experts_one_by_one(tmp_path: Path) -> None:
    words = "the job computes its experts one by one"
    assert told(job(tmp_path, EXPERTS), words)
    assert not told(job(tmp_path, f"{EXPERTS} --moe-grouped-gemm"), words)
    assert not told(job(tmp_path, ""), words)
    moe = ("num_moe_experts: 4", "moe_router_topk: 2")
    assert told(nemo(tmp_path, *moe, "moe_grouped_gemm: false"), "model.moe_grouped_gemm is not set")
    assert not told(nemo(tmp_path, *moe, "moe_grouped_gemm: true"), words)


@pytest.mark.parametrize(
    ("words", "scattered"),
    [
        ("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2", True),
        ("--tensor-model-parallel-size 2", None),
        ("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel", None),
    ],
)
def test_deepspeeds_pipeline_sends_shares(tmp_path: Path, words: str, scattered: bool | None) -> None:
    config = '{"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}'
    text = DEEPSPEED.replace("--global-batch-size 8", "--global-batch-size 16")
    assert at(line(tmp_path, f"{text} {words}", {"ds.json": config}), SCATTERED) == [scattered]


@pytest.mark.parametrize(
    ("lines", "mib"),
    [
        ((), 125),
        (("grad_allreduce_chunk_size_mb: 64",), 64),
        (("async_grad_allreduce: false",), 1_000_000),
        (("tensor_model_parallel_size: 2", "sequence_parallel: true"), 1_000_000),
        (("pipeline_model_parallel_size: 2",), 1_000_000),
        (("gradient_accumulation_fusion: true",), 1_000_000),
    ],
)
def test_gradients_of_nemo_that_are_reduced_under_backward(tmp_path: Path, lines: tuple[str, ...], mib: int) -> None:
    reading = nemo(tmp_path, *lines, "optim: {name: fused_adam}")
    assert reading.settings["parallel.data_parallel"] == "ddp"
    assert reading.settings["ddp.bucket_cap_mb"] == mib
    assert reading.unknown == ()


@pytest.mark.parametrize(
    "text",
    [
        "deterministic_mode: true",
        "fp16_lm_cross_entropy: true",
        "sharp: true",
        "fp8_dot_product_attention: true",
        "num_micro_batches_with_partial_activation_checkpoints: 2",
        "activations_checkpoint_layers_per_pipeline: 1",
        "ffn_dropout: 0.1",
        "optim: {name: distributed_fused_adam, store_param_remainders: true}",
    ],
)
def test_what_of_nemo_is_not_simulated(tmp_path: Path, text: str) -> None:
    reading = nemo(tmp_path, text)
    name = text.rpartition(" {")[2].rpartition(", ")[2].partition(":")[0]
    assert told(reading, f"{name} is not simulated")
    assert reading.unknown == ()


def test_gradients_of_weights_in_16_bits(tmp_path: Path) -> None:
    words = "fp8_wgrad is not simulated"
    assert told(nemo(tmp_path, "fp8: true", "transformer_engine: true", "fp8_wgrad: false"), words)
    assert not told(nemo(tmp_path, "fp8_wgrad: false"), words)
    own = CONFIG.replace("fp8: null", "fp8: hybrid\n  fp8_wgrad: false")
    assert told(read(tmp_path, own, ".yaml"), words)
    plain = read(tmp_path, CONFIG.replace("fp8: null", "fp8: null\n  fp8_wgrad: false"), ".yaml")
    assert not told(plain, words)
    assert plain.unknown == ()


def test_layers_of_nemo_without_experts(tmp_path: Path) -> None:
    moe = ("num_moe_experts: 4", "moe_router_topk: 2")
    assert told(nemo(tmp_path, *moe, "moe_frequency: 2"), "model.moe_frequency 2: every layer has experts here")
    assert not told(nemo(tmp_path, *moe, "moe_frequency: 1"), "moe_frequency")


def test_parts_of_the_overlap_that_are_off(tmp_path: Path) -> None:
    words = "tp_comm_bulk_wgrad is not simulated"
    split = ("tensor_model_parallel_size: 2", "sequence_parallel: true", "tp_comm_bulk_wgrad: false")
    assert told(nemo(tmp_path, *split, "ub_tp_comm_overlap: true"), words)
    assert not told(nemo(tmp_path, *split, "ub_tp_comm_overlap: false"), words)
    off = CONFIG.replace("  bf16: True\n", "  bf16: True\n  tp_comm_overlap: True\n  tp_comm_bulk_wgrad: False\n")
    assert told(read(tmp_path, off, ".yaml"), words)
    unused = read(tmp_path, off.replace("tp_comm_overlap: True", "tp_comm_overlap: False"), ".yaml")
    assert not told(unused, words)
    assert unused.unknown == ()


def test_gated_units_of_the_yaml(tmp_path: Path) -> None:
    own = CONFIG.replace("activation_func: swiglu", "activation_func: gelu\n  gated_linear_unit: True")
    assert read(tmp_path, own, ".yaml").settings["model"]["mlp"] == "geglu"
    assert read(tmp_path, CONFIG, ".yaml").settings["model"]["mlp"] == "swiglu"
    plain = own.replace("gated_linear_unit: True", "gated_linear_unit: False")
    assert read(tmp_path, plain, ".yaml").settings["model"]["mlp"] == "gelu"


def test_a_stage_of_the_embedding_alone(tmp_path: Path) -> None:
    assert told(job(tmp_path, "--standalone-embedding-stage"), "--standalone-embedding-stage is not simulated")
    own = CONFIG + "standalone_embedding_stage: True\n"
    assert told(read(tmp_path, own, ".yaml"), "standalone_embedding_stage is not simulated")
