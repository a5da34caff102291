"""What is said of launch scripts whose loops, helpers, arguments and files leave something to a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.lines import at, line

ARGUMENTS = "train.py --model_name_or_path gpt2 --per_device_train_batch_size"
TRAIN = f"torchrun --nproc_per_node 8 {ARGUMENTS} 1"
STARTED = "branches of the script are those that run when it is started without arguments"


@pytest.mark.parametrize(
    ("loops", "ends", "told"),
    [
        ("for bs in 1 2; do", "done", "(for bs in 1 2), of which one is simulated"),
        ("for bs in 1 2; do for lr in 1e-4 2e-4; do", "done; done", "(for bs in 1 2, for lr in 1e-4 2e-4), of which"),
        ("for lr in 1e-4 2e-4; do for bs in 1 2; do", "done; done", "(for lr in 1e-4 2e-4, for bs in 1 2), of which"),
        ("while read bs; do", "done < sizes.txt", "(while read bs), of which one is simulated"),
    ],
)
def test_a_value_that_differs_between_turns(tmp_path: Path, loops: str, ends: str, told: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        line(tmp_path, f"{loops}\n{TRAIN[:-2]} $bs --learning_rate 1\n{ends}")
    assert told in str(caught.value)
    assert "write the value of the turn that is meant for $bs" in str(caught.value)


def test_a_variable_of_a_loop_without_effect_is_no_matter(tmp_path: Path) -> None:
    run = line(tmp_path, f"for lr in 1 2; do for seed in 3 4; do\n{TRAIN} --learning_rate $lr --seed $seed\ndone; done")
    assert any("stands in a loop (for lr in 1 2, for seed in 3 4): one turn" in note for note in run.notes)


def test_a_variable_that_nothing_sets_is_said_as_before(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="is a variable whose value the file does not give"):
        line(tmp_path, f"for lr in 1 2; do\n{TRAIN[:-2]} $BS --learning_rate $lr\ndone")


@pytest.mark.parametrize("branch", ["if [ -d /x ]; then BS=1; else BS=2; fi", "read BS", 'BS=1\n[ -n "$X" ] && BS=2'])
def test_a_value_that_only_a_run_tells(tmp_path: Path, branch: str) -> None:
    with pytest.raises(
        ScenarioError, match=r"is set by a branch of the script or by a program, so that only a run tells"
    ):
        line(tmp_path, f"{branch}\n{TRAIN[:-2]} $BS")


@pytest.mark.parametrize(
    ("formula", "steps"),
    [
        ('$(echo "$GBS / ($N * $MBS)" | bc)', 4),
        ('$(python -c "print($GBS // ($N * $MBS))")', 4),
        ('$(python3 -c "print(int($GBS / ($N * $MBS)))")', 4),
        ('$(python3 -c "print(int($GBS * 3 / 7))")', 54),
        ('$(python3 -c "print(int($GBS / 7 * 3))")', None),  # not 18 * 3
    ],
)
def test_formulas_of_other_programs(tmp_path: Path, formula: str, steps: int | None) -> None:
    text = f"N=8; GBS=128; MBS=4\n{TRAIN} --gradient_accumulation_steps {formula}"
    if steps is None:
        with pytest.raises(ScenarioError, match="gradient_accumulation_steps"):
            line(tmp_path, text)
        return
    assert at(line(tmp_path, text), "training.gradient_accumulation") == [steps]


def test_a_script_that_starts_nothing_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"^run.sh: has no launch line that is known; allowed: torchrun, deepspeed"):
        line(tmp_path, "qsub -l select=2:ngpus=4 job.sh")


@pytest.mark.parametrize("text", ['{"train_micro_batch_size_per_gpu": $MBS}', '{"a": [1, ${MBS}]}'])
@pytest.mark.parametrize("write", ["envsubst < ds.tmpl > ds.json", "MBS=2\nenvsubst < ds.tmpl > ds.json"])
def test_a_blank_that_envsubst_does_not_fill(tmp_path: Path, text: str, write: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        line(tmp_path, f"{write}\n{TRAIN} --deepspeed ds.json", {"ds.tmpl": text})
    assert str(caught.value).startswith("run.sh: ds.json: is written by the script with $")
    assert "fix: set and export MBS in the script" in str(caught.value)


@pytest.mark.parametrize(
    "branch",
    [
        "MODE=${1:-full}\nif [[ $MODE =~ ^lora ]]; then X=--use_lora; else X=; fi",
        "MODE=${1:-full}\nif [[ $MODE == lora ]]; then X=--use_lora; else X=; fi",
        "M=${1:-full}\nMODE=$M\ncase $MODE in lora) X=--use_lora;; *) X=;; esac",
        'case "${1:-full}" in lora) X=--use_lora;; *) X=;; esac',
        'if [ "$1" = lora ]; then X=--use_lora; else X=; fi',
    ],
)
def test_branches_by_the_arguments_are_said(tmp_path: Path, branch: str) -> None:
    assert STARTED in line(tmp_path, f"{branch}\n{TRAIN} $X").notes


@pytest.mark.parametrize("branch", ["MODE=full", "MODE=${2:-x}\nMODE=full", "f() { MODE=${1:-full}; }\nf lora"])
def test_branches_by_other_values_are_not(tmp_path: Path, branch: str) -> None:
    run = line(tmp_path, f"{branch}\nif [[ $MODE == lora ]]; then X=; else X=; fi\n{TRAIN} $X")
    assert STARTED not in run.notes


@pytest.mark.parametrize(
    "helper", ["{ python mk.py; } > ds.json", "python mk.py > ds.json", "python tools/mk.py --in a", "python3 mk.py &"]
)
@pytest.mark.parametrize(
    "start", [TRAIN, TRAIN.replace("torchrun --nproc_per_node 8", "srun -n 8 python"), TRAIN.replace("torchrun --nproc_per_node", "deepspeed --num_gpus")]
)  # fmt: skip
def test_a_helper_beside_the_launch_line(tmp_path: Path, helper: str, start: str) -> None:
    run = line(tmp_path, f"{helper}\n{start}")
    assert at(run, "cluster.gpus") == [8]
    assert any("mk.py stands beside the launch line, and is left out" in note for note in run.notes)


@pytest.mark.parametrize("other", ["python pretrain.py > log", "python run_clm.py", "python x.py --batch_size 4"])
def test_two_trainings_are_refused(tmp_path: Path, other: str) -> None:
    with pytest.raises(ScenarioError, match="has 2 launch lines, of which one is meant"):
        line(tmp_path, f"{other}\n{TRAIN}")


@pytest.mark.parametrize(
    ("start", "own"),
    [
        ("torchrun --nnodes 2 --nproc_per_node 8", "--node_rank {} --master_addr 10.0.0.{}"),
        ("deepspeed --hostfile hosts", "--master_addr {} --master_port 2950{}"),
        ("accelerate launch --num_machines 2 --num_processes 16", "--machine_rank {} --main_process_ip {}"),
    ],
)
def test_lines_of_the_nodes_of_one_job(tmp_path: Path, start: str, own: str) -> None:
    lines = "\n".join(f"{start} {own.format(node, node)} {ARGUMENTS} 1" for node in (0, 1))
    run = line(tmp_path, lines, {"hosts": "a slots=8\nb slots=8\n"})
    assert at(run, "cluster.gpus", "cluster.nodes") == [16, 2]
    with pytest.raises(ScenarioError, match="has 2 launch lines, of which one is meant"):
        line(tmp_path, f"{lines} --bf16", {"hosts": "a slots=8\nb slots=8\n"})


def test_a_model_that_only_a_run_tells_is_for_the_user_to_say(tmp_path: Path) -> None:
    text = TRAIN.replace("gpt2", "$1")
    run = line(tmp_path, text, model="gpt2")
    assert at(run, "model") == ["gpt2"]
    assert "what $1 holds is not in the file, and is left out" in run.notes
    with pytest.raises(ScenarioError, match="model: is missing: no file says which model is trained; fix: add --model"):
        line(tmp_path, text)


def test_oumi_starts_a_process_on_each_gpu(tmp_path: Path) -> None:
    """oumi distributed_run.py hands the node's GPUs to torchrun."""
    file = "model: {model_name: gpt2, model_max_length: 512}\ntraining: {trainer_type: TRL_SFT}\n"
    run = line(tmp_path, "oumi distributed torchrun -m oumi train -c t.yaml", {"t.yaml": file})
    assert at(run, "cluster.gpus") == [8]
    run = line(tmp_path, "oumi distributed torchrun --nproc_per_node 4 -m oumi train -c t.yaml", {"t.yaml": file})
    assert at(run, "cluster.gpus") == [4]


def test_arguments_of_llama_cookbook_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="--enable_fsdp: is of llama-cookbook, whose arguments are not read"):
        line(tmp_path, "torchrun --nproc_per_node 4 finetuning.py --enable_fsdp --use_peft --model_name gpt2")


@pytest.mark.parametrize(
    "start", ["bash scripts/train.sh 8 2", "./scripts/train.sh 8 2", "srun ./scripts/train.sh 8 2", "sbatch scripts/train.sh 8 2"]
)  # fmt: skip
def test_a_script_beside_it_that_a_script_starts(tmp_path: Path, start: str) -> None:
    inner = f"torchrun --nproc_per_node $1 --nnodes $2 {ARGUMENTS} 1\n"
    run = line(tmp_path, start, {"scripts/train.sh": inner})
    assert at(run, "cluster.gpus", "cluster.nodes") == [16, 2]


def test_a_script_that_starts_what_stands_behind_it(tmp_path: Path) -> None:
    affinity = 'export CUDA_VISIBLE_DEVICES=$PMI_LOCAL_RANK\nexec "$@"\n'
    run = line(tmp_path, f"mpiexec -n 8 --ppn 4 ./affinity.sh python {ARGUMENTS} 1", {"affinity.sh": affinity})
    assert at(run, "cluster.gpus", "cluster.nodes") == [8, 2]


@pytest.mark.parametrize("nodes", ["${NNODES:?need}", "$NNODES", "1:$N"])
def test_nodes_that_the_script_does_not_set_are_no_range(tmp_path: Path, nodes: str) -> None:
    run = line(tmp_path, f"torchrun --nnodes {nodes} --nproc_per_node 8 {ARGUMENTS} 1")
    assert any(f"which run.sh leaves to --nnodes {nodes}" in text for text in run.assumed)


def test_the_world_size_of_composer(tmp_path: Path) -> None:
    run = line(tmp_path, f"composer -n 8 --world_size 16 --node_rank 0 {ARGUMENTS} 1")
    assert at(run, "cluster.gpus", "cluster.nodes") == [16, 2]


@pytest.mark.parametrize(
    "again", ["bash run.sh\n" * 3, "source ./run.sh\n" * 3, '[ -z "$SLURM_JOB_ID" ] && { sbatch run.sh; exit; }\n']
)
def test_a_script_that_starts_itself(tmp_path: Path, again: str) -> None:
    run = line(tmp_path, f"#SBATCH --nodes=2\n{again}torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 {ARGUMENTS} 1")
    assert at(run, "cluster.gpus", "cluster.nodes") == [16, 2]


@pytest.mark.parametrize(
    "helper", ["python mk.py --stage 3 --out ds.json", "python mk.py --out=./ds.json", "python mk.py ds.json"]
)
def test_a_file_that_a_helper_may_write_is_not_the_one_beside(tmp_path: Path, helper: str) -> None:
    files = {"ds.json": '{"zero_optimization": {"stage": 2}}'}
    with pytest.raises(ScenarioError, match=r"run.sh: ds.json: may be written by `python mk.py"):
        line(tmp_path, f"{helper}\n{TRAIN} --deepspeed ds.json", files)
    run = line(tmp_path, f"{TRAIN} --deepspeed ds.json\n{helper}", files)  # after the training
    assert at(run, "parallel.data_parallel") == ["zero2"]
    run = line(tmp_path, f"{helper.replace('ds.json', 'other.json')}\n{TRAIN} --deepspeed ds.json", files)
    assert at(run, "parallel.data_parallel") == ["zero2"]


@pytest.mark.parametrize(
    "start", ["torchrun \N{EN DASH}nproc_per_node 8", "torchrun --standalone \N{EM DASH}nproc_per_node=8"]
)
def test_a_dash_of_print(tmp_path: Path, start: str) -> None:
    with pytest.raises(
        ScenarioError, match="begins with a dash of print, by which no program knows an option; fix: write --nproc"
    ):
        line(tmp_path, f"{start} {ARGUMENTS} 1")
    with pytest.raises(ScenarioError, match="fix: write --bf16"):
        line(tmp_path, f"{TRAIN} \N{EN DASH}bf16")


MEGATRON = "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512"


def _after_a_file(value: str) -> str:
    command = f'"pretrain_gpt.py {MEGATRON} --micro-batch-size 2 --global-batch-size 64 --vocab-size 50257 {value}"'
    return f"source $HOME_X/start\nMB=1\nexport CMD={command}\nsrun bash -c 'torchrun --nproc_per_node 8 $CMD'"


@pytest.mark.parametrize(
    "value", ["--save $SAVE_X", "--data-path=$DATA_X", "--vocab-file ${V_X}", "--load $L_X/a --fp16"]
)
def test_a_variable_that_the_script_sets_after_a_file_is_its_own(tmp_path: Path, value: str) -> None:
    run = line(tmp_path, _after_a_file(value))
    assert at(run, "training.micro_batch_size", "cluster.gpus") == [2, 8]


@pytest.mark.parametrize("value", ["$OPTIONS_X", "--fp16 $OPTIONS_X", "--save $MB", "--save $A_X $A_X"])
def test_more_than_a_path_may_come_from_a_file(tmp_path: Path, value: str) -> None:
    with pytest.raises(ScenarioError, match=r"a launch line with CMD, which \$HOME_X/start may set"):
        line(tmp_path, _after_a_file(value).replace("MB=1\n", "").replace("source", "MB=1\nsource"))


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ("--config-path conf/megatron --config-name gpt_5b.yaml trainer.devices=1", "gpt_5b.yaml"),
        ("--config-path=conf --config-name=gpt_5b", "gpt_5b.yaml"),
        ("--config-name gpt_5b model.micro_batch_size=1", "gpt_5b.yaml"),
        ("-cp conf -cn gpt.yml", "gpt.yml"),
    ],
)
def test_a_configuration_of_hydra(tmp_path: Path, arguments: str, file: str) -> None:
    with pytest.raises(ScenarioError, match=f"names a configuration of Hydra, .* fix: give {file} itself"):
        line(tmp_path, f"torchrun --nproc_per_node 8 pretraining.py {arguments}", model="llama-2-7b")


def test_a_model_s_name_is_no_configuration_of_hydra(tmp_path: Path) -> None:
    run = line(tmp_path, "torchrun --nproc_per_node 8 run_clm.py --config-name gpt2 --per_device_train_batch_size 1")
    assert at(run, "cluster.gpus") == [8]


@pytest.mark.parametrize(
    "script", ["-m verl.trainer.fsdp_sft_trainer", "verl/trainer/fsdp_sft_trainer.py", "-m verl.trainer.main_ppo"]
)
def test_verl(tmp_path: Path, script: str) -> None:
    with pytest.raises(ScenarioError, match="is verl's, whose arguments are not read; fix: give the run as arguments"):
        line(tmp_path, f"torchrun --nproc_per_node 4 {script} data.max_length=1024 optim.lr=1e-5")


@pytest.mark.parametrize(
    "script", ["../train_dpo.py", "--module openrlhf.cli.train_dpo", "examples/train_ppo_ray.py", "-m trl.scripts.kto"]
)
def test_preference_learning_by_other_names(tmp_path: Path, script: str) -> None:
    start = "deepspeed" if "--module" in script else "torchrun --nproc_per_node 8"
    with pytest.raises(ScenarioError, match="is not simulated: its step is more than one model's training"):
        line(tmp_path, f"{start} {script} --pretrain x --ref_offload --beta 0.1", model="llama-2-13b")
