"""Programs whose arguments stand on the line alone: their own defaults, and what they start."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign.launch_programs import started
from tests.imports.lines import at, line
from tests.imports.test_degrees import TORCHTUNE
from tests.imports.test_reader_keys import NANOTRON

BATCH = ("training.micro_batch_size", "training.gradient_accumulation")
WANTED = ("training.precision", "training.recompute", "training.sequence_length", "training.lora")
QWEN = "--model Qwen/Qwen2.5-7B-Instruct"


def test_trl_has_defaults_of_its_own(tmp_path: Path) -> None:
    text = (
        "trl sft --model_name_or_path Qwen/Qwen2.5-7B --use_peft --lora_r 32 --per_device_train_batch_size 2 "
        "--gradient_accumulation_steps 8 --accelerate_config zero2 --num_processes 4"
    )
    run = line(tmp_path, text)
    lora = {"rank": 32, "targets": ["q_proj", "v_proj"]}
    assert at(run, *WANTED, *BATCH) == ["bf16", "full", 1024, lora, 2, 8]
    assert at(run, "parallel.data_parallel", "cluster.gpus") == ["zero2", 4]
    assert run.unknown == ()


def test_trl_is_told_otherwise(tmp_path: Path) -> None:
    files = {
        "c.yaml": "model_name_or_path: Qwen/Qwen3-8B\nper_device_train_batch_size: 4\nmax_length: 512\nlora_r: 8\n"
    }
    run = line(tmp_path, "trl sft --config c.yaml --max_length 4096 --no_gradient_checkpointing --fp16", files)
    assert at(run, *WANTED) == ["fp16", None, 4096, None]  # lora_r counts with use_peft only
    assert at(run, *BATCH) == [4, 1]


@pytest.mark.parametrize(
    ("named", "kind", "prefetch"),
    [("zero3", "zero3", None), ("fsdp1", "fsdp1", True), ("fsdp2", "fsdp", None), ("multi_gpu", "ddp", None)],
)
def test_accelerate_s_configurations_in_trl(tmp_path: Path, named: str, kind: str, prefetch: object) -> None:
    run = line(tmp_path, f"trl sft --model_name_or_path gpt2 --accelerate_config {named}")
    assert at(run, "parallel.data_parallel", "fsdp.forward_prefetch", "cluster.gpus") == [kind, prefetch, 8]


@pytest.mark.parametrize(
    "text",
    [
        "trl dpo --model_name_or_path gpt2", "accelerate launch examples/scripts/grpo_vlm.py --model_name_or_path gpt2",
        "NPROC_PER_NODE=8 swift rlhf --rlhf_type dpo " + QWEN, "torchrun run_dpo.py --model_name_or_path gpt2",
    ],
)  # fmt: skip
def test_other_trainers_are_no_supervised_ones(tmp_path: Path, text: str) -> None:
    with pytest.raises(ScenarioError, match="is not simulated: its step is more than one model's training"):
        line(tmp_path, text)


def test_ms_swift(tmp_path: Path) -> None:
    text = (
        f"NPROC_PER_NODE=4 NNODES=2 swift sft {QWEN} --train_type lora --lora_rank 16 --target_modules q_proj v_proj "
        "--deepspeed zero3_offload --max_length 4096 --torch_dtype bfloat16"
    )
    run = line(tmp_path, text)
    assert at(run, *WANTED) == ["bf16", "full", 4096, {"rank": 16, "targets": ["q_proj", "v_proj"]}]
    assert at(run, *BATCH, "cluster.gpus") == [1, 2, 8]  # accumulates to 16 sequences
    assert at(run, "parallel.data_parallel", "zero.offload_param.device") == ["zero3", "cpu"]
    assert at(run, "zero.reduce_bucket_size") == [3584 * 3584]
    assert run.unknown == ()


def test_ms_swift_by_default(tmp_path: Path) -> None:
    run = line(tmp_path, f"CUDA_VISIBLE_DEVICES=0 swift sft {QWEN}")
    assert at(run, "training.lora", *BATCH, "cluster.gpus") == [{"rank": 8, "targets": ["all-linear"]}, 1, 16, 1]
    full = line(tmp_path, f"CUDA_VISIBLE_DEVICES=0 swift sft {QWEN} --tuner_type full --gradient_checkpointing false")
    assert at(full, "training.lora", "training.recompute", "training.param_dtype") == [None, None, "bf16"]


def test_ms_swift_spreads_a_model_over_the_gpus_of_one_process(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="over which ms-swift spreads the model"):
        line(tmp_path, f"CUDA_VISIBLE_DEVICES=0,1 swift sft {QWEN}")


def test_a_file_of_ms_swift(tmp_path: Path) -> None:
    files = {
        "sft.yaml": "model: Qwen/Qwen3-8B\ntuner_type: lora\nlora_rank: 4\ntarget_regex: '.*(q|k)_proj'\nfsdp: fsdp2\n"
    }
    run = line(tmp_path, "NPROC_PER_NODE=8 swift sft sft.yaml --per_device_train_batch_size 4", files)
    assert at(run, "training.lora", *BATCH) == [{"rank": 4, "targets": ["q_proj", "k_proj"]}, 4, 1]
    assert at(run, "parallel.data_parallel", "training.recompute") == ["fsdp", "full"]


def test_llamafactory_without_a_file(tmp_path: Path) -> None:
    text = "--stage sft --do_train --finetuning_type lora --model_name_or_path meta-llama/Llama-2-7b-hf --bf16"
    for start in (
        "llamafactory-cli train",
        "torchrun --nproc_per_node 8 src/train.py",
        "python -m llamafactory.cli train",
    ):
        run = line(tmp_path, f"{start} {text} --per_device_train_batch_size 2")
        assert at(run, *WANTED) == ["bf16", "full", 2048, {"rank": 8, "targets": ["all-linear"]}]


def test_oumi(tmp_path: Path) -> None:
    files = {
        "o.yaml": "model: {model_name: meta-llama/Llama-3.1-8B, model_max_length: 2048, torch_dtype_str: bfloat16}\n"
        "training: {trainer_type: TRL_SFT, per_device_train_batch_size: 16, enable_gradient_checkpointing: true}\n"
    }
    text = (
        "oumi distributed torchrun --nproc_per_node 4 -m oumi train -c o.yaml --training.per_device_train_batch_size 2"
    )
    run = line(tmp_path, text, files)
    assert at(run, *BATCH, "training.recompute", "cluster.gpus") == [2, 1, "full", 4]


def test_other_commands_are_left_alone() -> None:
    for words in (["axolotl", "preprocess", "a.yml"], ["trl", "env"], ["swift", "infer"], []):
        assert started(words) == words


def test_visible_gpus_are_accelerate_s(tmp_path: Path) -> None:
    text = "accelerate launch run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
    assert at(line(tmp_path, f"CUDA_VISIBLE_DEVICES=0,1,2 {text}"), "cluster.gpus") == [3]


def test_precision_from_the_environment(tmp_path: Path) -> None:
    """Accelerator reads it; Accelerate's launcher writes over it."""
    rest = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
    for start, wanted in (("torchrun --nproc_per_node 8", "bf16"), ("accelerate launch --num_processes 8", "fp32")):
        run = line(tmp_path, f"ACCELERATE_MIXED_PRECISION=bf16 {start} {rest}")
        assert at(run, "training.precision") == [wanted]


def test_accelerate_compiles_whatever_attention_a_script_has(tmp_path: Path) -> None:
    files = {
        "acc.yaml": "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: bf16\n"
        "dynamo_config: {dynamo_backend: INDUCTOR}\n"
    }
    rest = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 4 --attn_implementation flash_attention_2"
    assert at(line(tmp_path, f"accelerate launch --config_file acc.yaml {rest}", files), "software") == ["compile"]


@pytest.mark.parametrize(("flag", "rank"), [("--use_lora", 64), ("--lora_enable True", 64), ("--use_peft", 16)])
def test_rank_by_the_script(tmp_path: Path, flag: str, rank: int) -> None:
    run = line(tmp_path, f"torchrun --nproc_per_node 8 finetune.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 {flag}")
    assert at(run, "training.lora.rank") == [rank]


def test_more_than_one_gpu_is_no_kind_beside_another(tmp_path: Path) -> None:
    rest = "train.py --model_name_or_path gpt2 --per_device_train_batch_size 4"
    for options, kind in (("--use_fsdp", "fsdp1"), ("--use_deepspeed --zero_stage 2", "zero2"), ("", "ddp")):
        run = line(tmp_path, f"accelerate launch --multi_gpu --num_processes 8 {options} {rest}")
        assert at(run, "parallel.data_parallel") == [kind]


def test_json_of_arguments(tmp_path: Path) -> None:
    files = {"args.json": '{"model_name_or_path": "gpt2", "per_device_train_batch_size": 3, "bf16": true}'}
    run = line(tmp_path, "torchrun --nproc_per_node 8 run_clm.py args.json", files)
    assert at(run, *BATCH, "training.precision") == [3, 1, "bf16"]


LITGPT = (
    "checkpoint_dir: checkpoints/meta-llama/Llama-3.2-1B\nprecision: bf16-true\ndevices: 2\nlora_r: 32\n"
    "train: {micro_batch_size: 2, global_batch_size: 8, max_seq_length: 512}\neval: {}\n"
)


def test_litgpt(tmp_path: Path) -> None:
    text = "litgpt finetune_lora checkpoints/meta-llama/Llama-2-7b-hf --config l.yaml --train.micro_batch_size 4"
    run = line(tmp_path, text, {"l.yaml": LITGPT})
    assert at(run, "model", *BATCH, "cluster.gpus") == ["llama-2-7b", 4, 1, 2]
    assert at(run, "training.lora") == [{"rank": 32, "targets": ["q_proj", "v_proj"]}]


def test_ms_swift_s_megatron(tmp_path: Path) -> None:
    """Its arguments are Megatron's under its own names, with a model of the hub; its other methods are refused."""
    text = (
        "NPROC_PER_NODE=8 megatron {} --model Qwen/Qwen3-8B --tensor_model_parallel_size 2 --micro_batch_size 2 "
        "--global_batch_size 16 --max_length 2048 --packing true"
    )
    run = line(tmp_path, text.format("sft"))
    assert at(run, *BATCH, "parallel.tp", "cluster.gpus", "training.sequence_length") == [2, 2, 2, 8, 2048]
    with pytest.raises(ScenarioError, match="script = megatron rlhf: is ms-swift's Megatron"):
        line(tmp_path, text.format("rlhf"))


@pytest.mark.parametrize("processes", [4, 16])
def test_a_line_that_starts_another_number_of_ranks_than_the_job_has(tmp_path: Path, processes: int) -> None:
    files = {"n.yaml": NANOTRON.replace("dp: 2, tp: 1, pp: 1, MORE", "dp: 4, tp: 2, pp: 1")}
    text = "torchrun --nproc_per_node={} --nnodes={} run_train.py --config-file n.yaml"
    assert at(line(tmp_path, text.format(8, 1), files), "cluster.gpus") == [8]
    with pytest.raises(ScenarioError, match=f"is a job of 8 ranks in nanotron, and run.sh starts {processes}"):
        line(tmp_path, text.format(min(8, processes), -(-processes // 8)), files)


def test_a_loop_of_its_own_has_accelerate_s_ddp(tmp_path: Path) -> None:
    rest = "--model_name_or_path gpt2 --per_device_train_batch_size 2 --gradient_accumulation_steps 4"
    for script, unused in (("run_clm_no_trainer.py", None), ("run_clm.py", True)):
        run = line(tmp_path, f"accelerate launch --multi_gpu --num_processes 4 {script} {rest}")
        assert at(run, "ddp.find_unused_parameters", *BATCH) == [unused, 2, 4]


@pytest.mark.parametrize(
    ("text", "kind", "gpus"),
    [
        ("axolotl train ax.yaml --launcher python", "dataparallel", 8),
        ("python -m axolotl.cli.train ax.yaml", "dataparallel", 8),
        ("python src/train.py lf.yaml", None, 1),
        ("llamafactory-cli train lf.yaml", "ddp", 8),
    ],
)
def test_one_process(tmp_path: Path, text: str, kind: str | None, gpus: int) -> None:
    files = {
        "ax.yaml": "base_model: gpt2\nsequence_len: 512\nmicro_batch_size: 2\nbf16: true\n",
        "lf.yaml": "model_name_or_path: gpt2\nfinetuning_type: full\ncutoff_len: 512\nbf16: true\n",
    }
    assert at(line(tmp_path, text, files), "parallel.data_parallel", "cluster.gpus") == [kind, gpus]


def test_llamafactory_in_one_process_has_one_gpu(tmp_path: Path) -> None:
    files = {"lf.yaml": "model_name_or_path: gpt2\nfinetuning_type: full\ncutoff_len: 512\nbf16: true\n"}
    with pytest.raises(ScenarioError, match="Please launch distributed training with `llamafactory-cli` or `torchrun`"):
        line(tmp_path, "CUDA_VISIBLE_DEVICES=0,1 python src/train.py lf.yaml", files)


def test_gpus_that_a_line_leaves_to_the_machine_are_named_with_the_topology(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text("torchrun --nproc_per_node gpu train.py --per_device_train_batch_size 1")
    with pytest.raises(
        ScenarioError, match=r"no file says which machines, and run.sh leaves GPUs to --nproc_per_node gpu"
    ):
        import_run([tmp_path / "run.sh"], RunAnswers(model="gpt2"), folder=tmp_path)


def test_options_of_a_block_of_torchtune_on_the_line(tmp_path: Path) -> None:
    files = {"t.yaml": TORCHTUNE}
    text = "tune run --nproc_per_node 8 full_finetune_distributed --config t.yaml optimizer.lr=5e-6 batch_size=3"
    assert at(line(tmp_path, text, files), "training.micro_batch_size") == [3]


def test_the_first_llama_factory_cuts_at_1024(tmp_path: Path) -> None:
    rest = (
        "--stage sft --model_name_or_path Qwen/Qwen2.5-7B --finetuning_type full --per_device_train_batch_size 2 --bf16"
    )
    for script, length in (("src/train_bash.py", 1024), ("src/train.py", 2048)):
        assert at(line(tmp_path, f"python {script} {rest}"), "training.sequence_length") == [length]
