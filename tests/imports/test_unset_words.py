"""Launch lines that others add to: unset variables, files of arguments, loops, and settings that contradict them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from tests.imports.reading import read

MEGATRON = (
    "torchrun --nproc_per_node=8 pretrain_gpt.py --num-layers 24 --hidden-size 2048 --num-attention-heads 16 "
    "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 4 --global-batch-size 64 "
)
TRAINER = " train.py --model_name_or_path meta-llama/Llama-2-7b-hf --output_dir o --per_device_train_batch_size 2"
UNSET = ("$EXTRA_ARGS", '"$@"', "$(cat more.txt)", "${CKPT_ARGS[@]}", "`cat more.txt`", "@args.txt")


def left_out(word: str) -> str:
    plain = word.strip('"')
    return f"what {plain} holds is not in the file, and is left out"


@pytest.mark.parametrize("word", UNSET)
def test_a_switch_of_megatron_is_set_before_further_arguments(tmp_path: Path, word: str) -> None:
    reading = read(tmp_path, f"{MEGATRON} --vocab-size 50257 --bf16 {word}", ".sh")
    assert reading.settings["training.precision"] == "bf16"
    assert reading.notes.count(left_out(word)) == 1


@pytest.mark.parametrize("word", UNSET)
@pytest.mark.parametrize("idle", ["--use-mcore-models", "--vocab-size 50257"])
def test_a_value_of_megatron_holds_before_further_arguments(tmp_path: Path, word: str, idle: str) -> None:
    reading = read(tmp_path, f"{MEGATRON} --bf16 --vocab-size 50257 {idle} {word}", ".sh")
    assert reading.settings["model"]["vocab"] == 50304
    assert left_out(word) in reading.notes


def test_switches_of_megatron_in_the_midst(tmp_path: Path) -> None:
    words = "--use-distributed-optimizer ${A[@]} --sequence-parallel $EXTRA --tensor-model-parallel-size 2"
    reading = read(tmp_path, f"{MEGATRON} --vocab-size 50257 {words}", ".sh")
    assert reading.settings["parallel.data_parallel"] == "distributed_optimizer"
    assert (reading.settings["parallel.sequence_parallel"], reading.settings["parallel.tp"]) == (True, 2)


def test_a_bare_list_of_megatrons_arguments(tmp_path: Path) -> None:
    lines = MEGATRON.split("pretrain_gpt.py ")[1].replace(" --", "\n--") + "\n--vocab-size 50257 $MORE\n--bf16 $EXTRA"
    reading = read(tmp_path, lines, ".args")
    assert (reading.settings["model"]["vocab"], reading.settings["training.precision"]) == (50304, "bf16")
    assert {left_out("$MORE"), left_out("$EXTRA")} <= set(reading.notes)


def test_the_value_of_an_option_stays_open(tmp_path: Path) -> None:
    reading = read(tmp_path, MEGATRON.replace("size 64", "size $GBS") + "--vocab-size 50257", ".sh")
    assert reading.open["training.global_batch_size"] == "--global-batch-size $GBS"
    assert left_out("$GBS") not in reading.notes


@pytest.mark.parametrize("word", UNSET)
@pytest.mark.parametrize("flag", ["--bf16", "--bf16 True"])
def test_a_switch_of_trainer_is_set_before_further_arguments(tmp_path: Path, word: str, flag: str) -> None:
    reading = read(tmp_path, f"torchrun --nproc_per_node 8{TRAINER} {flag} {word}", ".sh")
    assert reading.settings["training.precision"] == "bf16"
    assert reading.notes.count(left_out(word)) == 1


@pytest.mark.parametrize("line", [MEGATRON + "--vocab-size 50257", f"torchrun --nproc_per_node 8{TRAINER}"])
def test_a_loop_around_the_line_is_said(tmp_path: Path, line: str) -> None:
    reading = read(tmp_path, f"for lr in 1e-4 3e-4; do\n  {line} --lr $lr\ndone\n", ".sh")
    assert "the launch line stands in a loop (for lr in 1e-4 3e-4): one turn of it is simulated" in reading.notes
    after = read(tmp_path, f"for i in 1 2; do echo $i; done\n{line}\n", ".sh")
    assert not any("loop" in note for note in after.notes)


def test_variables_of_nccl_that_change_time_are_not_idle(tmp_path: Path) -> None:
    names = ("NCCL_P2P_LEVEL=LOC", "NCCL_SHM_DISABLE=1", "NCCL_MIN_NCHANNELS=32", "NCCL_MAX_NCHANNELS=2",
             "NCCL_IB_HCA=mlx5_0")  # fmt: skip
    for line in (MEGATRON + "--vocab-size 50257", f"torchrun --nproc_per_node 8{TRAINER}"):
        reading = read(tmp_path, f"export {' '.join(names)} NCCL_NET=Socket NCCL_DEBUG=INFO OTHER=1\n{line}", ".sh")
        assert {f"env.{name.partition('=')[0]}" for name in names} <= set(reading.unknown)
        assert reading.settings["network.nccl.ib_disable"] is True
        assert "env.NCCL_DEBUG" in reading.idle


def test_the_launchers_dynamo_is_that_of_accelerates_file(tmp_path: Path) -> None:
    line = f"accelerate launch --num_processes 8 --dynamo_backend %s{TRAINER}"
    assert read(tmp_path, line % "inductor", ".sh").settings["software"] == "compile"
    assert read(tmp_path, line % "inductor" + " --optim adamw_torch_fused", ".sh").settings["software"] == {
        "preset": "compile", "optimizer": "fused",
    }  # fmt: skip
    assert "software" not in read(tmp_path, line % "no", ".sh").settings


NEOX = (
    "{pipe_parallel_size: 1, model_parallel_size: 1, num_layers: 12, hidden_size: 768, num_attention_heads: 12, "
    "seq_length: 2048, pos_emb: rotary, train_micro_batch_size_per_gpu: 4, fp16: {enabled: true}, %s}"
)


def test_filters_of_gpus_in_gpt_neox(tmp_path: Path) -> None:
    included = read(tmp_path, NEOX % '"include": "localhost:0,1,2,3"', ".yml")
    assert (included.gpus, included.settings["cluster.nodes"]) == (4, 1)
    excluded = read(tmp_path, NEOX % '"exclude": "w2:3"', ".yml")
    assert (excluded.gpus, excluded.open["cluster.gpus"]) == (None, "exclude w2:3")
    with pytest.raises(ScenarioError, match="stands beside include"):
        read(tmp_path, NEOX % 'include: "a:0", exclude: "a:1"', ".yml")


def test_gpus_that_deepspeed_excludes(tmp_path: Path) -> None:
    bare = read(tmp_path, f"deepspeed --exclude='w2:3'{TRAINER}", ".sh")
    assert (bare.gpus, bare.open["cluster.gpus"], bare.unknown) == (None, "--exclude w2:3", ())
    (tmp_path / "hosts").write_text("w1 slots=4\nw2 slots=4\nw3 slots=4\n")
    listed = read(tmp_path, f"deepspeed --hostfile hosts --exclude='w2:3@w3'{TRAINER}", ".sh")
    assert (listed.gpus, listed.settings["cluster.nodes"]) == (7, 2)
    with pytest.raises(ScenarioError, match="stands beside --include"):
        read(tmp_path, f"deepspeed --include w1 --exclude w2{TRAINER}", ".sh")


@pytest.mark.parametrize(
    ("script", "precision", "steps"),
    [
        (f"{TRAINER} --bf16", "bf16", 8),
        (TRAINER, "fp16", 8),
        (TRAINER.replace("train.py", "a_no_trainer.py"), "fp16", 4),
    ],
)
def test_trainers_own_arguments_come_before_the_launchers(
    tmp_path: Path, script: str, precision: str, steps: int
) -> None:
    launcher = "accelerate launch --num_processes 8 --mixed_precision fp16 --gradient_accumulation_steps 4"
    reading = read(tmp_path, f"{launcher}{script} --gradient_accumulation_steps 8", ".sh")
    assert reading.settings["training.precision"] == precision
    assert reading.settings["training.gradient_accumulation"] == steps
    said = f"--gradient_accumulation_steps 4 of the launcher contradicts the script's own arguments (8): {steps} holds"
    assert said in reading.notes
    assert any(note.startswith("--mixed_precision fp16") for note in reading.notes) is (precision == "bf16")


@pytest.mark.parametrize(
    "line",
    [
        MEGATRON.replace("=8", "=4") + "--vocab-size 50257",
        f"torchrun --nproc_per_node=4{TRAINER}",
        f"accelerate launch --num_processes 4{TRAINER}",
    ],
)
def test_more_processes_than_visible_gpus_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(ScenarioError, match="4: is more than the 3 GPUs of CUDA_VISIBLE_DEVICES=0,1,4"):
        read(tmp_path, f"CUDA_VISIBLE_DEVICES=0,1,4 {line}", ".sh")
    assert read(tmp_path, f"CUDA_VISIBLE_DEVICES=0,1,4,5 {line}", ".sh").gpus == 4


def test_options_of_the_launcher_that_come_from_elsewhere(tmp_path: Path) -> None:
    for line in (MEGATRON + "--vocab-size 50257", f"torchrun --nproc_per_node=8{TRAINER}"):
        reading = read(tmp_path, line.replace("=8", "=8 $DIST", 1), ".sh")
        assert (reading.gpus, reading.notes.count(left_out("$DIST"))) == (8, 1)


def test_a_script_behind_options_that_come_from_elsewhere(tmp_path: Path) -> None:
    line = MEGATRON.replace("=8 pretrain_gpt", "=8 $DIST pretrain_bert") + "--vocab-size 50257"
    plain = read(tmp_path, line.replace("$DIST ", ""), ".sh")
    assert read(tmp_path, line, ".sh").settings["model"] == plain.settings["model"]


def test_gpus_that_deepspeed_excludes_from_megatron(tmp_path: Path) -> None:
    line = MEGATRON.replace("torchrun --nproc_per_node=8", "deepspeed --exclude=w2:3") + "--vocab-size 50257"
    assert read(tmp_path, line, ".sh").open["cluster.gpus"] == "--exclude w2:3"
