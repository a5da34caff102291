"""What readers say of keys, ranks and files that they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.reading import read


@pytest.mark.parametrize(
    ("text", "suffix", "gpus"),
    [
        ("torchrun --nproc_per_node=4 --nnodes=2 t.py", ".sh", 8),
        ("python -m torch.distributed.launch --nproc_per_node=8 t.py", ".sh", 8),
        ("deepspeed --include localhost:0,1,3 t.py", ".sh", 3),
        ("deepspeed --num_nodes 2 --num_gpus 4 t.py", ".sh", 8),
        ("accelerate launch --num_processes 6 t.py", ".sh", 6),
        ("CUDA_VISIBLE_DEVICES=2,3 python t.py", ".sh", 2),
        ("deepspeed t.py", ".sh", None),
        ("#SBATCH --nodes=3\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 t.py", ".sh", 24),
        ("distributed_type: 'NO'", ".yaml", 1),
    ],
)
def test_gpus_of_a_job(tmp_path: Path, text: str, suffix: str, gpus: int | None) -> None:
    assert read(tmp_path, text, suffix).gpus == gpus


def test_keys_are_used_idle_or_not_understood(tmp_path: Path) -> None:
    text = (
        '{"train_batch_size": 8, "steps_per_print": 10, "zero_optimization": {"stage": 2, "warp_drive": 9}, "new": 1}'
    )
    reading = read(tmp_path, text, ".json")
    assert reading.used == ("zero_optimization.stage", "train_batch_size")
    assert reading.idle == ("steps_per_print",)
    assert reading.unknown == ("zero_optimization.warp_drive", "new")


@pytest.mark.parametrize(
    ("text", "suffix", "says"),
    [
        (
            '{"train_batch_size": MB_SIZE}',
            ".json",
            "train_batch_size = MB_SIZE: is a placeholder that was never filled",
        ),
        (
            '{"sparse_attention": {"mode": "fixed"}, "train_batch_size": 8}',
            ".json",
            "sparse_attention: is not simulated",
        ),
        ('{"zero_optimization": {"stage": 4}}', ".json", "zero_optimization.stage = 4: is no ZeRO stage"),
        ('{"fp16": {"enabled": true}, "bf16": {"enabled": true}, "steps_per_print": 1}', ".json", "simultaneously"),
        ('{"train_batch_size": [8, 16]}', ".json", "is a list to search through"),
        ('{"train_batch_size": 8, "train_batch_size": 16}', ".json", "train_batch_size: is given twice"),
        ('{"train_batch_size": 8, "elasticity": {"enabled": true}}', ".json", "lets DeepSpeed choose the batch"),
        ("distributed_type: XLA", ".yaml", "distributed_type = XLA: does not run on NVIDIA GPUs"),
        ("finetuning_type: full\nstage: dpo", ".yaml", "stage = dpo: is not simulated"),
        ("base_model: a/b\nadapter: lora", ".yaml", "lora_r: is missing"),
        (
            "torchrun t.py --per_device_train_batch_size $B",
            ".sh",
            "$B: is a variable whose value the file does not give",
        ),
        ("torchrun --nproc_per_node eight train.py", ".sh", "launcher.nproc_per_node = eight: is no whole number"),
        ("torchrun --nnodes 1:4 --nproc_per_node 8 train.py", ".sh", "is a range"),
        ("torchrun a.py\ntorchrun b.py", ".sh", "has 2 launch lines, of which one is meant"),
        ("torchrun t.py --optim paged_prodigy", ".sh", "is no optimizer that is simulated"),
        ("", ".yaml", "is empty"),
        ("ls -l", ".sh", "has no launch line that is known"),
        ("[1, 2]", ".yaml", "holds a list, not a mapping"),
    ],
)
def test_refusals_name_the_field_in_one_sentence(tmp_path: Path, text: str, suffix: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, text, suffix)
    assert says in str(caught.value)
    assert str(caught.value).startswith("run")
    assert len(caught.value.issues) == 1


def test_more_layers_than_can_be_gone_through_are_refused(tmp_path: Path) -> None:
    """Experts are placed layer by layer; the first junk that hung."""
    text = (
        '{"model_type": "qwen3_moe", "hidden_size": 64, "moe_intermediate_size": 64, "intermediate_size": 64, '
        '"num_hidden_layers": 1180591620717411303424, "num_attention_heads": 4, "vocab_size": 100}'
    )
    with pytest.raises(ScenarioError, match="the number of layers must be at most 10000"):
        read(tmp_path, text, ".json")
