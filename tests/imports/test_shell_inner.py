"""Launch lines in the texts of other commands, with their options and with what the other shell finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.foreign.launch_words import LaunchLine, find_launch_line

TRAIN = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
MEGATRON = (
    "pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --micro-batch-size 1"
    " --vocab-size 50257 --max-position-embeddings 1024"
)
SBATCH = "#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n"


def line(folder: Path, script: str) -> LaunchLine:
    return find_launch_line(f"{script}\n", "run.sh", folder)


def counts(folder: Path, script: str) -> tuple[int | None, int | None]:
    path = folder / "run.sh"
    path.write_text(f"{script}\n", encoding="utf-8")
    reading = read_foreign(path)
    return reading.gpus, reading.settings.get("cluster.nodes")


@pytest.mark.parametrize(
    ("script", "gpus", "nodes"),
    [
        (f'{SBATCH}srun bash -c "torchrun --nnodes \\$SLURM_NNODES --nproc_per_node 8 {TRAIN}"', 16, 2),
        (f"{SBATCH}srun bash -c 'torchrun --nnodes $SLURM_JOB_NUM_NODES --nproc_per_node $SLURM_GPUS_ON_NODE {TRAIN}'",
         16, 2),
        (f"srun -N 4 --gres=gpu:8 bash -lc 'torchrun --nnodes $SLURM_NNODES --nproc_per_node $SLURM_GPUS_ON_NODE {TRAIN}'",
         32, 4),
        (f"srun -N4 bash -l -c 'torchrun --nnodes=${{SLURM_NNODES}} --nproc_per_node=8 {TRAIN}'", 32, 4),
        (f'srun bash -c "torchrun --nnodes \\$SLURM_NNODES --nproc_per_node 8 {TRAIN}"', None, None),
        (f'ssh host "cd /x && torchrun --nnodes 2 --nproc_per_node 8 {TRAIN}"', 16, 2),
        (f"ssh -p 22 -o BatchMode=yes me@host torchrun --nnodes 2 --nproc_per_node 8 {TRAIN}", 16, 2),
        (f"ssh host <<'EOF'\ncd /x\ntorchrun --nnodes 2 --nproc_per_node 8 {TRAIN}\nEOF", 16, 2),
        (f"ssh host bash -s <<'EOF'\ntorchrun --nnodes 2 --nproc_per_node 8 {TRAIN}\nEOF", 16, 2),
        (f'pdsh -w a,b "cd /x; torchrun --nnodes 2 --nproc_per_node 8 {TRAIN}"', 16, 2),
        (f"sbatch <<EOF\n#!/bin/bash\n{SBATCH}srun torchrun --nnodes \\$SLURM_NNODES --nproc_per_node 8 {TRAIN}\nEOF",
         16, 2),
        (f"N=4\nsbatch <<EOF\n#!/bin/bash\n#SBATCH -N $N\nsrun torchrun --nnodes $N --nproc_per_node gpu {TRAIN}\nEOF",
         None, 4),
        (f"sbatch --nodes=4 --gres=gpu:4 <<'EOF'\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node gpu {TRAIN}\nEOF",
         16, 4),
        (f"sbatch -N 2 --wrap 'srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 {TRAIN}'", 16, 2),
        (f"cat > job.sh <<'EOF'\n{SBATCH}srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 {TRAIN}\nEOF\nsbatch job.sh",
         16, 2),
        (f"cat <<'EOF' | bash\ntorchrun --nnodes 2 --nproc_per_node 8 {TRAIN}\nEOF", 16, 2),
        (f'docker run --gpus all -v /d:/d img bash -c "cd /w && torchrun --nproc_per_node 8 {TRAIN}"', 8, None),
        (f"docker run --gpus all -e N=4 img bash -c 'torchrun --nproc_per_node $N {TRAIN}'", 4, None),
        (f"export N=4\ndocker run --gpus all img bash -c 'torchrun --nproc_per_node $N {TRAIN}'", None, None),
        (f"docker run --gpus 2 img torchrun --nproc_per_node=gpu {TRAIN}", 2, None),
        (f"docker run --gpus '\"device=0,3\"' img torchrun --nproc_per_node=gpu {TRAIN}", 2, None),
        (f"singularity exec --nv img.sif bash -c 'cd /w; torchrun --nproc_per_node 8 {TRAIN}'", 8, None),
        (f"enroot start --rw img bash -lc 'torchrun --nproc_per_node 8 {TRAIN}'", 8, None),
        (f"srun --container-image=a#b:c bash -c 'torchrun --nnodes 2 --nproc_per_node 8 {TRAIN}'", 16, 2),
    ],
)  # fmt: skip
def test_the_line_in_there_is_the_one(tmp_path: Path, script: str, gpus: int | None, nodes: int | None) -> None:
    assert counts(tmp_path, script) == (gpus, nodes)
    assert line(tmp_path, script).arguments[-4:] == tuple(TRAIN.split()[1:])


@pytest.mark.parametrize("start", [TRAIN, MEGATRON], ids=["Trainer", "Megatron"])
@pytest.mark.parametrize("word", ["gpu", "auto"])
@pytest.mark.parametrize(
    ("before", "gpus", "nodes"),
    [
        ("torchrun", None, None),
        ("torchrun --nnodes 2", None, 2),
        ("export CUDA_VISIBLE_DEVICES=0,1\ntorchrun", 2, None),
        (f"{SBATCH}srun torchrun --nnodes 2", 16, 2),
        ("srun -N 2 --gpus-per-node=4 torchrun --nnodes 2", 8, 2),
        ("srun -N 2 --gres=gpu:a100:4 torchrun --nnodes 2", 8, 2),
    ],
)
def test_a_process_on_every_gpu(
    tmp_path: Path, before: str, word: str, start: str, gpus: int | None, nodes: int | None
) -> None:
    assert counts(tmp_path, f"{before} --nproc_per_node={word} {start}") == (gpus, nodes)


@pytest.mark.parametrize("start", [TRAIN, MEGATRON], ids=["Trainer", "Megatron"])
def test_a_process_on_every_core_is_refused(tmp_path: Path, start: str) -> None:
    says = "run.sh: --nproc_per_node = cpu: starts a process on each core of the CPU; fix: write the number of GPUs"
    with pytest.raises(ScenarioError, match=says):
        counts(tmp_path, f"torchrun --nproc_per_node=cpu {start}")
