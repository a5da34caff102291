"""Keys that no program has are not understood, whatever their names begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.io.foreign import (
    gptneox_keys,
    megatron_idle,
    megatron_idle_beside,
    megatron_not_simulated,
    megatron_yaml_cfg,
    nanotron,
    nccl_environment,
    nemo_keys,
    olmo,
)
from tests.imports.reading import read

MEGATRON = (
    "{}torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 "
    "--seq-length 1024 --max-position-embeddings 1024 --vocab-size 50257 --bf16 --micro-batch-size 1 {}\n"
)
CFG = (
    "language_model: {{num_layers: 24, hidden_size: 1024, num_attention_heads: 16, activation_func: swiglu{}}}\n"
    "model_parallel: {{bf16: true{}}}\nmicro_batch_size: 2\nglobal_batch_size: 128\nseq_length: 4096\n"
    "vocab_size: 50257\nmax_position_embeddings: 4096\n{}"
)
LITGPT = "n_layer: 2\nn_embd: 64\nn_head: 4\npadded_vocab_size: 100\n{}: 3\n"
OLMO = "model: {{d_model: 64, n_layers: 2, n_heads: 2, mlp_ratio: 4}}\nglobal_train_batch_size: 8\noptimizer: {{name: adamw}}\n{}: {{{}: 1}}\n"
NEOX = '{{"pipe_parallel_size": 1, "num_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "{}": 1}}'


@pytest.mark.parametrize(
    "name",
    ["save-twice", "log-nothing", "lr-boost", "moe-router-magic", "tokenizer-temperature", "rotary-speed", "adam-turbo",
     "eval-all", "profile-everything", "sglang-invented", "rollout-invented", "exit-early", "wandb-colour",
     "distributed-invented", "master-key", "bias-invented-fusion", "num-layers-at-middle-in-bf16", "loss-scale-invented"],
)  # fmt: skip
def test_arguments_of_megatron(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, MEGATRON.format("", f"--{name} 4"), ".sh").unknown == (f"--{name}",)


@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("NCCL_DEBUGGER", True), ("NCCL_IB_TURBO", True), ("TORCH_NCCL_TURBO", True), ("NVTE_TURBO", True),
        ("NVSHMEM_TURBO", True), ("UB_TURBO", True), ("NCCL_MAX_NCHANNELS", True), ("CUDA_TURBO", True),
        ("NCCL_DEBUG", False), ("TORCH_NCCL_AVOID_RECORD_STREAMS", False), ("NVTE_FUSED_ATTN", False),
        ("MY_OWN_PATH", False), ("HF_HOME", False), ("OMP_NUM_THREADS", False), ("CUDA_DEVICE_MAX_CONNECTIONS", False),
    ],
)  # fmt: skip
def test_variables_of_libraries(tmp_path: Path, name: str, unknown: bool) -> None:
    found = read(tmp_path, MEGATRON.format(f"export {name}=1\n", ""), ".sh")
    assert found.unknown == ((f"env.{name}",) if unknown else ())
    line = "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 4 --bf16\n"
    assert read(tmp_path, f"export {name}=1\n{line}", ".sh").unknown == found.unknown


def test_an_attention_that_transformer_engine_is_not_to_take(tmp_path: Path) -> None:
    found = read(tmp_path, MEGATRON.format("export NVTE_FUSED_ATTN=0\n", ""), ".sh")
    assert any("NVTE_FUSED_ATTN=0 is not simulated" in note for note in found.notes)


@pytest.mark.parametrize(
    ("places", "unknown"),
    [
        ((", fp8_invented: 1", "", ""), "language_model.fp8_invented"),
        ((", bias_invented_fusion: 1", "", ""), "language_model.bias_invented_fusion"),
        (("", ", tp_comm_invented: 1", ""), "model_parallel.tp_comm_invented"),
        (("", ", invented_func: 1", ""), "model_parallel.invented_func"),
        (("", "", "tensorboard_invented: 1\n"), "tensorboard_invented"),
        (("", "", "save_invented: 1\n"), "save_invented"),
    ],
)
def test_megatrons_yaml(tmp_path: Path, places: tuple[str, str, str], unknown: str) -> None:
    assert read(tmp_path, CFG.format(*places), ".yaml").unknown == (unknown,)


def test_others(tmp_path: Path) -> None:
    assert read(tmp_path, LITGPT.format("rope_speed"), ".yaml").unknown == ("rope_speed",)
    assert read(tmp_path, LITGPT.format("n_experts"), ".yaml").unknown == ("n_experts",)
    assert read(tmp_path, LITGPT.format("rope_local_base_freq"), ".yaml").unknown == ()
    for block, name in (("data", "speed"), ("wandb", "colour"), ("scheduler", "turbo")):
        assert read(tmp_path, OLMO.format(block, name), ".yaml").unknown == (f"{block}.{name}",)
    assert read(tmp_path, OLMO.format("data", "num_workers"), ".yaml").unknown == ()
    for name in (
        "save_twice",
        "log_nothing",
        "wandb_colour",
        "lr_boost",
        "weight_invented",
        "do_invent",
        "my_data_paths",
    ):
        assert read(tmp_path, NEOX.format(name), ".yml").unknown == (name,)


def test_lists_have_names_and_no_patterns() -> None:
    lists = (
        megatron_idle.IDLE, megatron_idle_beside.BESIDE, megatron_not_simulated.NOT_SIMULATED, megatron_yaml_cfg._IDLE,
        nccl_environment._IDLE, nemo_keys.IDLE, gptneox_keys.OPTIONS, olmo._IDLE, nanotron._IDLE, nanotron._PICO_IDLE,
    )  # fmt: skip
    assert [name for names in lists for name in names if {*name} & {*"*?["}] == []


@pytest.mark.parametrize(
    "name", ["deterministic-mode", "no-fp8-wgrad", "fp32-residual-connection", "fp16-lm-cross-entropy"]
)
def test_what_changes_the_step_is_not_without_effect(tmp_path: Path, name: str) -> None:
    found = read(tmp_path, MEGATRON.format("", f"--{name}"), ".sh")
    assert any(note.startswith(f"--{name} is not simulated: ") for note in found.notes)
    assert f"--{name}" not in found.idle
    assert name not in megatron_idle.IDLE
