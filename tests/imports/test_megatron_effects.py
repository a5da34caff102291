"""Arguments of Megatron and keys of NeMo that change time or memory: read, or told; never called without effect."""

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading
from tests.imports.lines import at, line
from tests.imports.reading import read

ARGUMENTS = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 "
    "--seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --bf16 "
    "--use-distributed-optimizer --vocab-size 32000 {}\n"
)


def job(folder: Path, words: str) -> Reading:
    return read(folder, ARGUMENTS.format(words), ".sh")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--cpu-offloading-num-layers 10", "activations of those layers stay on the GPU here"),
        ("--moe-expert-capacity-factor 2 --moe-pad-expert-input-to-capacity", "padded ones too in the job"),
        ("--overlap-param-gather-with-optimizer-step", "weights are gathered when the optimizer has updated all"),
        ("--empty-unused-memory-level 2", "PyTorch keeps its memory here"),
        ("--moe-enable-deepep", "tokens go by NCCL's all-to-all here"),
        ("--moe-token-dispatcher-type flex", "tokens go by NCCL's all-to-all here"),
        ("--moe-token-dispatcher-type allgather", "tokens go by NCCL's all-to-all here"),
        ("--exp-avg-dtype bf16 --use-precision-aware-optimizer", "moments are in fp32 here"),
    ],
)
def test_what_is_not_simulated_is_told(tmp_path: Path, words: str, told: str) -> None:
    reading = job(tmp_path, words)
    name = next(word for word in reversed(words.split()) if word.startswith("--"))
    if "exp-avg" in words:
        name = "--exp-avg-dtype"
    assert any(note.startswith(f"{name} is not simulated: ") and told in note for note in reading.notes)
    assert name in reading.used
    assert name not in reading.idle


@pytest.mark.parametrize(
    "words", ["--cpu-offloading-num-layers 0", "--empty-unused-memory-level 0", "--moe-token-dispatcher-type alltoall"]
)
def test_values_that_change_nothing_are_not_told(tmp_path: Path, words: str) -> None:
    assert not any("is not simulated" in note for note in job(tmp_path, words).notes)


def test_masters_in_16_bits(tmp_path: Path) -> None:
    words = "--use-precision-aware-optimizer --main-params-dtype fp16"
    assert job(tmp_path, words).settings["training.master_dtype"] == "fp16"
    assert job(tmp_path, "").settings["training.master_dtype"] == "fp32"
    with pytest.raises(ScenarioError, match="needs --use-precision-aware-optimizer"):
        job(tmp_path, "--main-params-dtype fp16")


DEEPSPEED = (
    "deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 "
    "--max-position-embeddings 1024 --micro-batch-size 1 --global-batch-size 8 --bf16 --vocab-size 32000 "
    "--deepspeed --deepspeed_config ds.json --zero-stage 1"
)


@pytest.mark.parametrize(("types", "wanted"), [('{"grad_accum_dtype": "fp32"}', "fp32"), ("{}", None)])
def test_with_deepspeed_its_file_says_what_gradients_add_up_in(tmp_path: Path, types: str, wanted: str | None) -> None:
    config = (
        '{"train_batch_size": 8, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, '
        f'"zero_optimization": {{"stage": 1}}, "data_types": {types}}}'
    )
    run = line(tmp_path, DEEPSPEED, {"ds.json": config})
    assert at(run, "training.grad_dtype", "training.reduce_dtype") == [wanted, None]
    assert not any("goes before" in note for note in run.notes)


NEMO = (
    "trainer: {{devices: 8, num_nodes: 1, precision: bf16-mixed}}\nmodel:\n  mcore_gpt: true\n  micro_batch_size: 1\n"
    "  global_batch_size: 8\n  encoder_seq_length: 1024\n  num_layers: 4\n  hidden_size: 512\n"
    "  num_attention_heads: 8\n  max_position_embeddings: 1024\n  fsdp: true\n{}"
)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("", "fp32"),
        ("  fsdp_grad_reduce_dtype: 32\n", "fp32"),
        ("  fsdp_grad_reduce_dtype: fp32\n", "fp32"),
        ("  fsdp_grad_reduce_dtype: bf16\n", "bf16"),
        ("  fsdp_grad_reduce_dtype: null\n", None),
    ],
)
def test_what_nemo_reduces_in_under_fsdp(tmp_path: Path, words: str, wanted: str | None) -> None:
    assert read(tmp_path, NEMO.format(words), ".yaml").settings.get("training.reduce_dtype") == wanted


def test_a_precision_that_nemo_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"model\.fsdp_grad_reduce_dtype = fp12: is no precision"):
        read(tmp_path, NEMO.format("  fsdp_grad_reduce_dtype: fp12\n"), ".yaml")
