"""GPUs and nodes of launch lines, as launchers, MPI, Slurm and a script's own variables say them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.kinds import read_foreign
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.wrappers import unwrap

TRAIN = " train.py --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 1"
MEGATRON = (
    " pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --micro-batch-size 1"
    " --vocab-size 50257 --max-position-embeddings 1024"
)
SBATCH = "#SBATCH --nodes=2\n#SBATCH --gres=gpu:a100:8\n"


def read(folder: Path, text: str) -> Reading:
    path = folder / "run.sh"
    path.write_text(text + "\n", encoding="utf-8")
    return read_foreign(path)


@pytest.mark.parametrize(
    ("line", "gpus", "nodes"),
    [
        ("torchrun --nnodes=2 --nproc-per-node=8", 16, 2),
        ("torchrun --nnodes 3:3 --nproc_per_node 8", 24, 3),
        ("torchrun", 1, None),
        ("torchrun --standalone --nproc_per_node gpu", None, None),
        ("export CUDA_VISIBLE_DEVICES=0,1,2,3\ntorchrun --nproc_per_node auto", 4, None),
        ("python -m torch.distributed.launch --nproc_per_node=8 --nnodes 4", 32, 4),
        ("torchrun --nnodes=${PET_NNODES:-2} --nproc_per_node ${NPROC:-8}", 16, 2),
        ("uv run torchrun --nproc-per-node 8", 8, None),
        ("deepspeed --num_gpus 4 --num_nodes 2", 8, 2),
        ("deepspeed --include localhost:0,2", 2, 1),
        ("deepspeed -i worker-0:0-3@worker-1:0,1", 6, 2),
        ("deepspeed --include worker-0@worker-1", None, 2),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed", 2, None),
        ("accelerate launch --num_processes 8 --num_machines 2", 8, 2),
        ("accelerate launch --multi_gpu --gpu_ids 0,1,2", 3, None),
        ("mpirun -np 16", 16, None),
        ("mpirun -np 16 -ppn 8", 16, 2),
        ("mpirun -np 16 --map-by ppr:4:node -x NCCL_ALGO=Ring -mca btl tcp", 16, 4),
        ("mpirun -H a:4,b:4", 8, 2),
        ("mpirun -np 8 -H a,b", 8, 2),
        ("mpiexec -n 8 --allow-run-as-root", 8, None),
        ("horovodrun -np 8", 8, None),
        ("srun -N 2 --ntasks-per-node 8", 16, 2),
        ("srun -N2 -n16 -c 4", 16, 2),
        ("srun --nodes=4 --gpus-per-node=8 --ntasks-per-node=1 torchrun --nnodes 4 --nproc_per_node 8", 32, 4),
        ("srun bash -c \"torchrun --nnodes 2 --nproc_per_node 4 t.py\" #", 8, 2),
        ("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\nsrun", 16, 2),
        ("#SBATCH -N2\n#SBATCH -n 16\nsrun", 16, 2),
        (f"{SBATCH}srun torchrun --nnodes $SLURM_JOB_NUM_NODES --nproc_per_node $SLURM_GPUS_ON_NODE", 16, 2),
        (f"{SBATCH}srun torchrun --nnodes $SLURM_NNODES --nproc_per_node gpu", 16, 2),
        ("srun -N 2 torchrun --nnodes $SLURM_NNODES --nproc_per_node 4", 8, 2),
        ("export WORLD_SIZE=16\n", 16, None),
        ("GPUS_PER_NODE=8\nNUM_NODES=2\n", 16, 2),
        ("CUDA_VISIBLE_DEVICES=0,1", 2, None),
        ("NNODES=2 NPROC_PER_NODE=8 llamafactory-cli train", 16, 2),
        ("CUDA_VISIBLE_DEVICES=0,1,2 llamafactory-cli train", 3, None),
        ("composer -n 8", 8, None),
    ],
)  # fmt: skip
def test_counts(tmp_path: Path, line: str, gpus: int | None, nodes: int | None) -> None:
    started = any(word in line for word in ("torchrun", "deepspeed", "accelerate", "launch", "factory", "composer"))
    reading = read(tmp_path, line + ("" if started else " python") + TRAIN)
    assert (reading.gpus, reading.settings.get("cluster.nodes")) == (gpus, nodes)


@pytest.mark.parametrize(
    "line",
    [
        "srun -N 2 --ntasks-per-node 8 python", "mpirun -np 16 -ppn 8 python", "deepspeed --num_nodes 2 --num_gpus 8",
        "GPUS_PER_NODE=8\nNNODES=2\nWORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))\npython",
        "GPUS_PER_NODE=8\nNNODES=2\nARGS=\"--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES\"\ntorchrun $ARGS",
    ],
)  # fmt: skip
def test_megatron_however_it_is_started(tmp_path: Path, line: str) -> None:
    reading = read(tmp_path, line + MEGATRON)
    assert (reading.kind, reading.gpus, reading.settings["cluster.nodes"]) == ("megatron-args", 16, 2)


def test_python_alone_starts_one_process(tmp_path: Path) -> None:
    assert read(tmp_path, f"CUDA_VISIBLE_DEVICES=0,1 python{TRAIN}").open["plain_python"] == "trainer"
    for line in ("mpirun -np 2 python", "srun -n 2 python", "srun python"):  # a process each
        assert "plain_python" not in read(tmp_path, f"CUDA_VISIBLE_DEVICES=0,1 {line}{TRAIN}").open


@pytest.mark.parametrize("line", ["torchrun --nproc_per_node $GPUS", "accelerate launch --num_processes $((A * 8))",
                                  "deepspeed --num_gpus $N", "srun -n $TASKS python"])  # fmt: skip
def test_a_variable_that_the_script_does_not_set_is_left_open(tmp_path: Path, line: str) -> None:
    reading = read(tmp_path, line + TRAIN)
    assert reading.gpus is None
    assert "$" in reading.open["cluster.gpus"]


@pytest.mark.parametrize(("options", "gpus", "nodes"), [("", 16, 2), ("--num_gpus 4", 8, 2), ("--num_nodes 1", 8, 1)])
def test_a_hostfile_beside_the_script(tmp_path: Path, options: str, gpus: int, nodes: int) -> None:
    """DeepSpeed's --num_gpus is of every host that the file lists."""
    (tmp_path / "hosts").write_text("# two nodes\na slots=8\nb slots=8\n")
    reading = read(tmp_path, f"deepspeed --hostfile hosts {options}{TRAIN}")
    assert (reading.gpus, reading.settings.get("cluster.nodes", 1)) == (gpus, nodes)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("torchrun --nnodes 1:4 --nproc_per_node 8", "launcher.nnodes = 1:4: is a range"),
        ("torchrun --nproc_per_node eight", "launcher.nproc_per_node = eight: is no whole number"),
        ("torchrun --nproc_per_node 0", "launcher.nproc_per_node = 0: is below 1"),
        ("srun -n many python", "wrapper.tasks = many: is no whole number"),
    ],
)
def test_what_is_no_number_is_refused(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read(tmp_path, line + TRAIN)
    assert says in str(caught.value)


def test_variables_that_wrappers_set() -> None:
    line = "env A=1 numactl --cpunodebind=0 mpirun -genv NCCL_PROTO LL -x B=2 -x PATH -n 2 python t.py"
    found = unwrap(line.split())
    assert found.environment == {"A": "1", "NCCL_PROTO": "LL", "B": "2"}
    assert found.words == ("python", "t.py")
