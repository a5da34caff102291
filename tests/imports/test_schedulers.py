"""Processes and nodes of jobs under PBS and LSF, as ``mpiexec``, ``jsrun`` and ``lrun`` start them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign.shell_start import job_variables
from tests.imports.lines import at, line

TRAIN = "python train.py --model_name_or_path gpt2 --per_device_train_batch_size 1"
POLARIS = "#PBS -l select=2:ncpus=64:ngpus=4\n"
COUNTED = f"{POLARIS}N=$(wc -l < $PBS_NODEFILE)\nNG=$((N * 4))\n"
SUMMIT = "#BSUB -nnodes 2\n"


@pytest.mark.parametrize(
    ("script", "gpus", "nodes"),
    [
        (f"{COUNTED}mpiexec -n $NG --ppn 4 --depth 16 --cpu-bind depth", 8, 2),  # PALS
        (f"{COUNTED}mpirun -np $NG -ppn 4", 8, 2),  # Intel
        (f"{COUNTED}mpirun -np $NG --map-by ppr:4:node", 8, 2),  # Open MPI
        (f"{COUNTED}mpirun -np $NG -npernode 4", 8, 2),
        (f"{POLARIS}mpirun --map-by ppr:4:node", 8, 2),
        (f"{POLARIS}mpiexec -n $UNSET --ppn 4", 8, 2),
        (f"{POLARIS}mpiexec -n 8", 8, 2),
        (f"{POLARIS}mpiexec -n 2 --ppn 4", 2, None),
        ("#PBS -l select=3:mpiprocs=4:ngpus=4,walltime=1:00:00\nmpirun", 12, 3),
        ("#PBS -l nodes=2:ppn=4:gpus=4\nNP=$(wc -l < $PBS_NODEFILE)\nmpirun -np $NP -machinefile $PBS_NODEFILE", 8, 2),
        (f"{POLARIS}mpiexec -n 8 --ppn 4 ./set_affinity.sh", 8, 2),
        ("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=4\nmpirun -np 16", 16, 4),
        ("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=4\nmpirun", 16, 4),
        (f"{SUMMIT}jsrun -n 12 -a 1 -c 7 -g 1 -r 6", 12, 2),
        (f"{SUMMIT}jsrun -n2 -a6 -c42 -g6 -r1 --smpiargs \"-gpu\" --bind=proportional-packed:7", 12, 2),
        (f"{SUMMIT}jsrun --smpiargs -gpu --nrs 2 --rs_per_host 1 --tasks_per_rs 6 --gpu_per_rs 6 -E A=1", 12, 2),
        (f"{SUMMIT}jsrun -r 6 -a 1 -g 1", 12, 2),
        ("#BSUB -nnodes 3\njsrun -n ALL_HOSTS -a 4 -g ALL_GPUS", 12, 3),
        ("jsrun -p 8 -r 4", 8, None),
        ("lrun -N2 -T4", 8, 2),
        ("aprun -n 8 -N 4", 8, 2),
        (f"{POLARIS}mpiexec -n 8 --ppn $PPN", 8, 2),
        ("srun -n 16 -N $NODES", 16, 2),  # as many as they fill
        ("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=4\nmpirun -np 8", 8, 2),
        ("#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=4\nsrun -n 8", 8, 4),
        ("mpiexec.hydra -hosts a,b -ppn 4 -n 8", 8, 2),
        ("mpirun -np 2 --map-by ppr:1:node bash -c 'torchrun --nnodes 2 --nproc_per_node 8 $0 $@' #", 16, 2),
        ("srun -N 2 --ntasks-per-node 1 torchrun --nnodes 2 --nproc_per_node 8 #", 16, 2),
        ("#PBS -l nodes=2:ppn=4\nmpirun -np $((PBS_NUM_NODES * 4))", 8, 2),
        ("#PBS -l nodes=2:ppn=4\nmpirun -np $PBS_NP", 8, 2),
        ("tmux new -d -s x 'torchrun --nproc_per_node 8 train.py --model_name_or_path gpt2 "
         "--per_device_train_batch_size 1'\necho #", 8, None),
        ("#BSUB -R span[ptile=1]\nblaunch torchrun --nnodes 2 --nproc_per_node 8 #", 16, 2),
        ("flux run -N 2 -n 8 -g 1", 8, 2),
        ("mpirun -np 16 -npernode 8 --map-by slot", 16, 2),
        ("#SBATCH --nodes=2\n#SBATCH --tasks-per-node=8\nsrun singularity exec x.sif conda-python-distributed -u #", 16, 2),
        ("#SBATCH --nodes=2\n#SBATCH --tasks-per-node=4\nsrun python -W ignore -u -X dev #", 8, 2),
        ("ray job submit --address=http://127.0.0.1:8265 -- torchrun --nproc_per_node 8 #", 8, None),
        ("srun torchrun_jsc --nnodes 2 --nproc_per_node=4 #", 8, 2),
        ("export PET_NNODES=2 PET_NPROC_PER_NODE=8\ntorchrun #", 16, 2),
        ("PET_NNODES=2 PET_NPROC_PER_NODE=8 torchrun --nnodes 3 #", 24, 3),
    ],
)  # fmt: skip
def test_processes_and_nodes(tmp_path: Path, script: str, gpus: int, nodes: int | None) -> None:
    whole = script[:-1] + TRAIN.removeprefix("python ") if script.endswith("#") else f"{script} {TRAIN}"
    run = line(tmp_path, whole)
    assert at(run, "cluster.gpus", "cluster.nodes") == [gpus, nodes]
    assert run.unknown == ()


@pytest.mark.parametrize(
    ("job", "start", "kind", "gpus"),
    [
        ("#SBATCH --nodes=1\n#SBATCH --gres=gpu:4", "", "dataparallel", 4),  # sbatch runs it once
        ("#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4", "", "dataparallel", 4),
        ("#SBATCH --gres=gpu:a100:4", "srun ", "dataparallel", 4),
        ("#SBATCH --ntasks=1\n#SBATCH --gres=gpu:4", "srun ", "dataparallel", 4),
        ("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4", "srun ", "ddp", 4),
        ("#SBATCH --nodes=2\n#SBATCH --gres=gpu:4", "srun ", "ddp", 2),
        (POLARIS, "", "dataparallel", 4),
    ],
)
def test_python_that_a_job_starts_once(tmp_path: Path, job: str, start: str, kind: str, gpus: int) -> None:
    run = line(tmp_path, f"{job}\n{start}{TRAIN}")
    assert at(run, "parallel.data_parallel", "cluster.gpus") == [kind, gpus]


def test_a_program_that_counts_by_its_environment_on_each_node(tmp_path: Path) -> None:
    started = "srun llamafactory-cli train --stage sft --model_name_or_path gpt2 --per_device_train_batch_size 1"
    run = line(tmp_path, f"#SBATCH --nodes=2\nexport NNODES=$SLURM_NNODES NPROC_PER_NODE=4\n{started} --cutoff_len 64")
    assert at(run, "cluster.gpus", "cluster.nodes") == [8, 2]


def test_a_megatron_that_a_job_starts_once(tmp_path: Path) -> None:
    """Which joins no GPUs of one process."""
    sizes = "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 512 --micro-batch-size 1"
    text = f"#SBATCH --gres=gpu:4\nsrun -n 1 python pretrain_gpt.py {sizes} --vocab-size 50257"
    assert at(line(tmp_path, f"{text} --max-position-embeddings 512"), "cluster.gpus") == [1]


@pytest.mark.parametrize(
    ("job", "start", "gpus", "nodes"),
    [
        ("--nodes=4\n#SBATCH --ntasks=4\n#SBATCH --gpus-per-task=8",
         "srun torchrun --nnodes $SLURM_NTASKS --nproc_per_node $SLURM_GPUS_PER_TASK", 32, 4),
        ("--nodes=4\n#SBATCH --gpus-per-task=4", "srun torchrun --nnodes 4 --nproc_per_node gpu", 16, 4),
        ("--nodes=2\n#SBATCH --ntasks-per-node=8", "accelerate launch --num_processes $SLURM_NTASKS --num_machines 2", 16, 2),
        ("--gres=gpu:4", "torchrun --nproc_per_node $(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l)", 4, None),
        ("--gres=gpu:4", "torchrun --nproc_per_node $(echo $SLURM_JOB_GPUS | awk -F, '{print NF}')", 4, None),
    ],
)  # fmt: skip
def test_variables_that_slurm_sets(tmp_path: Path, job: str, start: str, gpus: int, nodes: int | None) -> None:
    run = line(tmp_path, f"#SBATCH {job}\n{start} {TRAIN.removeprefix('python ')}")
    assert at(run, "cluster.gpus", "cluster.nodes") == [gpus, nodes]


@pytest.mark.parametrize("start", ["deepspeed", "accelerate launch"])
def test_launchers_that_count_what_a_job_gives(tmp_path: Path, start: str) -> None:
    run = line(tmp_path, f"#SBATCH --gres=gpu:4\n{start} {TRAIN.removeprefix('python ')}")
    assert at(run, "cluster.gpus") == [4]


@pytest.mark.parametrize(
    "hosts",
    [
        "for node in $(scontrol show hostnames $SLURM_JOB_NODELIST); do echo $node slots=4 >> hosts; done",
        "scontrol show hostnames | sed 's/$/ slots=4/' > hosts",
        "nodes=($(scontrol show hostname ${SLURM_NODELIST}))\nprintf '%s slots=4\\n' ${nodes[@]} > hosts",
    ],
)
def test_a_hostfile_of_slurms_nodes(tmp_path: Path, hosts: str) -> None:
    run = line(tmp_path, f"#SBATCH --nodes=3\n{hosts}\ndeepspeed --hostfile hosts {TRAIN.removeprefix('python ')}")
    assert at(run, "cluster.gpus", "cluster.nodes") == [12, 3]
    unknown = f"#SBATCH --exclusive\n{hosts}\ndeepspeed --hostfile hosts {TRAIN.removeprefix('python ')}"
    with pytest.raises(ScenarioError, match=r"of which only a run|only a run decides|which is not run"):
        line(tmp_path, unknown)


def test_a_script_that_a_container_runs(tmp_path: Path) -> None:
    inner = f"cat << EOF > ./inner.sh\ntorchrun --nnodes 2 --nproc_per_node 8 {TRAIN.removeprefix('python ')}\nEOF\n"
    run = line(tmp_path, f"{inner}chmod +x ./inner.sh\nsrun singularity exec x.sif ./inner.sh")
    assert at(run, "cluster.gpus", "cluster.nodes") == [16, 2]


def test_a_number_of_processes_that_is_not_known_is_named(tmp_path: Path) -> None:
    run = line(tmp_path, f"mpiexec -n $TASKS {TRAIN}")
    assert any("which run.sh leaves to tasks of mpirun, $TASKS" in text for text in run.assumed)


def test_tasks_that_share_a_gpu_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"is more than the GPUs of a resource set \(-g 1\), one for each process"):
        line(tmp_path, f"{SUMMIT}jsrun -n 2 -a 6 -g 1 {TRAIN}")


@pytest.mark.parametrize("select", ["8:ncpus=8:ngpus=1", "$NODES:ngpus=4"])
def test_chunks_that_are_no_nodes(tmp_path: Path, select: str) -> None:
    """Of chunks with one GPU each a host may have several; place=scatter spreads them."""
    script = f"#PBS -l select={select}\nmpiexec -n 8 {TRAIN}"
    assert at(line(tmp_path, script), "cluster.gpus", "cluster.nodes") == [8, None]
    if "1" in select:
        run = line(tmp_path, f"#PBS -l place=scatter\n{script}")
        assert at(run, "cluster.gpus", "cluster.nodes") == [8, 8]


def test_gpus_of_a_node_that_pbs_gives(tmp_path: Path) -> None:
    script = f"{POLARIS}mpiexec -n 2 --ppn 1 torchrun --nnodes 2 --nproc_per_node gpu {TRAIN.removeprefix('python ')}"
    assert at(line(tmp_path, script), "cluster.gpus", "cluster.nodes") == [8, 2]


@pytest.mark.parametrize("word", ["gpu", "auto"])
def test_every_gpu_of_a_node_is_named_where_nothing_tells_how_many(tmp_path: Path, word: str) -> None:
    run = line(tmp_path, f"torchrun --nproc_per_node={word} {TRAIN.removeprefix('python ')}")
    assert any(f"which run.sh leaves to --nproc_per_node {word};" in text for text in run.assumed)


@pytest.mark.parametrize(
    ("start", "hosts", "shares", "each"),
    [
        ("deepspeed --hostfile hosts", "a slots=8\nb slots=4\n", "8, 4", 6),
        ("mpirun --hostfile hosts python", "a slots=8\nb slots=4\n", "8, 4", 6),
        ("mpirun -np 10 --hostfile hosts python", "a slots=8\nb slots=8\n", "8, 2", 5),
        ("mpirun -H a:4,b:2 python", "", "4, 2", 3),
    ],
)
def test_uneven_hosts_are_said(tmp_path: Path, start: str, hosts: str, shares: str, each: int) -> None:
    run = line(tmp_path, f"{start} {TRAIN.removeprefix('python ')}", {"hosts": hosts})
    assert at(run, "cluster.gpus", "cluster.nodes") == [2 * each, 2]
    assert f"gpus: run.sh has {shares} on its nodes; {each} on each are simulated" in run.notes


@pytest.mark.parametrize("empty", ["--account=", "--account", "--time =", "--partition= ", "-A", "--exclusive", "-N"])
def test_an_option_of_slurm_without_a_value_takes_nothing_of_the_next_line(tmp_path: Path, empty: str) -> None:
    job = f"#SBATCH {empty}\n#SBATCH --nodes=4\n#SBATCH {empty}\n#SBATCH --ntasks-per-node=8\n#SBATCH --gres=gpu:8\n"
    run = line(tmp_path, f"{job}srun {TRAIN}")
    assert at(run, "cluster.gpus", "cluster.nodes") == [32, 4]


@pytest.mark.parametrize(
    "job",
    ["#PBS -A\n#PBS -l select=2:ngpus=4:mpiprocs=4\n", "#PBS -l\n#PBS -q\n#PBS -l select=2:ngpus=4:mpiprocs=4\n"],
)
def test_an_option_of_pbs_without_a_value(tmp_path: Path, job: str) -> None:
    assert at(line(tmp_path, f"{job}mpirun {TRAIN}"), "cluster.gpus", "cluster.nodes") == [8, 2]


@pytest.mark.parametrize("job", ["#PBS\n-l select=2:mpiprocs=4", "#BSUB -P\n-nnodes 4", "#SBATCH\n--nodes=4"])
def test_a_line_of_a_scheduler_ends_with_its_line(job: str) -> None:
    assert job_variables(job) == {}
