"""Several files about one run: who goes before whom, what "auto" becomes, whose message a contradiction gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.config.imported_run_batch import Batch, complete_batch
from simgpu.errors import ScenarioError

DEEPSPEED = json.dumps(
    {
        "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "train_batch_size": "auto",
        "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"},
    }
)  # fmt: skip
LAUNCH = (
    "torchrun --nproc_per_node 4 sft.py --model_name_or_path meta-llama/Llama-2-7b-hf --bf16 True "
    "--per_device_train_batch_size 2 --gradient_accumulation_steps 3 --model_max_length 1024 --deepspeed ds.json\n"
)
Import = Callable[..., ImportedRun]


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    def run(files: Mapping[str, str], *, given: tuple[str, ...] | None = None, **answers: Any) -> ImportedRun:
        for name, text in files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        paths = [tmp_path / name for name in given or files]
        return import_run(paths, RunAnswers(**{"topology": "dgx-a100", **answers}), folder=tmp_path)

    return run


@pytest.mark.parametrize(
    ("files", "policy"),
    [
        ({"a.yaml": "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\n"
                    "fsdp_config: {fsdp_auto_wrap_policy: NO_WRAP}\n"}, "no_wrap"),
        ({"run.sh": 'torchrun --nproc_per_node 4 sft.py --bf16 True --fsdp "full_shard auto_wrap"\n'}, None),
        ({"run.sh": "torchrun --nproc_per_node 4 sft.py --bf16 True --fsdp full_shard\n"}, "no_wrap"),
    ],
)  # fmt: skip
def test_a_model_without_a_wrapping_policy_is_one_unit(imported: Import, files: Mapping[str, str], policy: str) -> None:
    run = imported(files, model="gpt2")
    assert run.data["parallel"]["data_parallel"] == "fsdp1"
    assert run.data["fsdp"].get("auto_wrap_policy") == policy


def test_auto_becomes_what_transformers_makes_of_it(imported: Import) -> None:
    run = imported({"run.sh": LAUNCH, "ds.json": DEEPSPEED})
    assert run.data["training"] | {"optimizer": ""} == {
        "sequence_length": 1024, "micro_batch_size": 2, "gradient_accumulation": 3, "precision": "bf16", "optimizer": "",
    }  # fmt: skip
    # 4096 x 4096, 0.9 x 4096 x 4096, 10 x 4096
    assert run.data["zero"] == {
        "reduce_bucket_size": 16777216,
        "stage3_prefetch_bucket_size": 15099494,
        "stage3_param_persistence_threshold": 40960,
    }
    assert run.data["cluster"] == {"topology": "dgx-a100", "gpus": 4}


def test_a_file_that_is_named_is_found_beside(imported: Import) -> None:
    run = imported({"run.sh": LAUNCH, "ds.json": DEEPSPEED}, given=("run.sh",))
    assert [reading.source for reading in run.readings] == ["run.sh", "ds.json"]


def test_a_file_that_is_named_and_absent_is_asked_for(imported: Import) -> None:
    with pytest.raises(ScenarioError, match=r"run.sh: deepspeed_config_file = ds.json: is named and was not given"):
        imported({"run.sh": LAUNCH})


def test_mismatch_has_the_message_of_transformers(imported: Import) -> None:
    wrong = DEEPSPEED.replace('"train_micro_batch_size_per_gpu": "auto"', '"train_micro_batch_size_per_gpu": 4')
    with pytest.raises(ScenarioError) as caught:
        imported({"run.sh": LAUNCH, "ds.json": wrong})
    assert "Please correct the following DeepSpeed config values that mismatch TrainingArguments" in str(caught.value)
    assert "ds train_micro_batch_size_per_gpu=4 vs hf per_device_train_batch_size=2" in str(caught.value)


def test_precision_mismatch_has_their_message(imported: Import) -> None:
    files = {"run.sh": LAUNCH, "ds.json": DEEPSPEED.replace('"bf16": {"enabled": "auto"}', '"fp16": {"enabled": true}')}
    with pytest.raises(ScenarioError, match=r"ds fp16.enabled=True vs hf fp16.fp16_full_eval=False"):
        imported(files)
    launch = "accelerate launch --use_deepspeed --num_processes 2 --mixed_precision bf16 --deepspeed_config_file ds.json t.py"
    with pytest.raises(ScenarioError, match=r"cannot be set to `bf16` when `fp16` is set in the DeepSpeed config file"):
        imported({"run.sh": launch, "ds.json": files["ds.json"]}, model="gpt2")


def test_batch_has_the_message_of_deepspeed(imported: Import) -> None:
    file = {"ds.json": '{"train_batch_size": 32, "train_micro_batch_size_per_gpu": 4, "fp16": {"enabled": true}}'}
    run = imported(file, model="bert-large", gpus=8)
    assert run.data["training"]["gradient_accumulation"] == 1
    with pytest.raises(ScenarioError) as caught:
        imported(file, model="bert-large", gpus=6)
    assert (
        "Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * "
        "world_size 32 != 4 * 1 * 6" in str(caught.value)
    )


def test_gpus_that_nobody_gives_fit_the_batch(imported: Import) -> None:
    run = imported({"ds.json": '{"train_batch_size": 6, "fp16": {"enabled": true}}'}, model="bert-large")
    assert run.data["cluster"]["gpus"] == 6
    assert any(line.startswith("gpus: 6") for line in run.assumed)


def test_the_launch_line_goes_before_the_file_that_it_starts(imported: Import) -> None:
    files = {
        "a.yaml": "distributed_type: FSDP\nmixed_precision: fp16\nnum_processes: 8\nfsdp_config: {}\n",
        "run.sh": "accelerate launch --config_file a.yaml --num_processes 2 --mixed_precision bf16 t.py\n",
    }
    run = imported(files, model="llama-2-7b")
    assert (run.data["cluster"]["gpus"], run.data["training"]["precision"]) == (2, "bf16")
    assert "training.precision: bf16 of run.sh goes before fp16 of a.yaml" in run.notes


def test_files_that_contradict_each_other_are_refused(imported: Import) -> None:
    files = {
        "a.yaml": "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {}\n",
        "ds.json": '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}}',
    }
    with pytest.raises(ScenarioError, match=r"parallel.data_parallel: is fsdp1 in a.yaml and zero2 in ds.json"):
        imported(files, model="llama-2-7b")
    run = imported(files, model="llama-2-7b", settings=("parallel.data_parallel=zero2",))
    assert run.data["parallel"]["data_parallel"] == "zero2"


def test_settings_go_before_every_file(imported: Import) -> None:
    run = imported(
        {"run.sh": LAUNCH, "ds.json": DEEPSPEED}, settings=("training.sequence_length=256", "zero.overlap_comm=false")
    )
    assert run.data["training"]["sequence_length"] == 256
    assert run.data["zero"]["overlap_comm"] is False


def test_the_batch_that_nobody_gives_does_not_hang_on_how_the_model_is_given(tmp_path: Path, imported: Import) -> None:
    files = {
        "a.yaml": "distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: bf16\n",
        "config.json": '{"model_type": "gpt2", "n_embd": 256, "n_head": 4, "n_layer": 2, "vocab_size": 1000}',
    }
    as_a_file = imported(files)
    as_an_answer = imported(files, given=("a.yaml",), model=str(tmp_path / "config.json"))
    assert as_a_file.data["training"] == as_an_answer.data["training"]
    assert as_a_file.data["training"]["micro_batch_size"] == 1


@pytest.mark.parametrize(
    ("more", "precision"),
    [(" --torch_dtype bfloat16", "bf16"), ("", "fp32"), (" --torch_dtype bfloat16 --fsdp full_shard", "fp32")],
)
def test_weights_that_nothing_casts_are_multiplied_in_their_format(imported: Import, more: str, precision: str) -> None:
    line = "torchrun --nproc_per_node 4 run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 2"
    run = imported({"run.sh": line + more})
    assert run.data["training"]["precision"] == precision
    assert any("as the weights are loaded" in sentence for sentence in run.assumed) == (precision == "bf16")


@pytest.mark.parametrize("blocking", ["", "CUDA_LAUNCH_BLOCKING=1 "])
@pytest.mark.parametrize(("model", "kernels"), [("gpt2", "flash"), ("t5-base", "eager")])
def test_the_kernels_that_are_assumed_are_said(imported: Import, blocking: str, model: str, kernels: str) -> None:
    line = f"torchrun --nproc_per_node 4 run.py --model_name_or_path {model} --per_device_train_batch_size 2 --bf16"
    run = imported({"run.sh": blocking + line})
    software = run.data["software"]
    assert (software if isinstance(software, str) else software["preset"]) == kernels
    assert any(sentence.startswith(f"software: {kernels}, kernels of") for sentence in run.assumed)


def test_what_nobody_says_is_said(imported: Import) -> None:
    run = imported({"ds.json": DEEPSPEED}, model="llama-2-7b")
    assert run.assumed == (
        "training.precision: fp32, the default of Transformers and Accelerate, which ds.json leaves open",
        "training.micro_batch_size: 8, the default of Transformers' Trainer",
        "training.sequence_length: 2048, which nobody gives",
        "software: flash, kernels of PyTorch with FlashAttention-2",
        "training.optimizer: adamw, the default of Transformers",
        "training.recompute: none, since no file asks for gradient checkpointing",
        "gpus: 8 on 1 node of dgx-a100; --gpus N for another number",
    )


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({}, "model: is missing: no file says which model is trained"),
        ({"model": "llama-2-7b", "topology": None}, "topology: is missing: no file says which machines"),
        ({"model": "lama-2-7b"}, "--model = lama-2-7b: is neither bundled nor a config.json"),
        ({"model": "llama-2-7b", "topology": "dgx-a10"}, "--topology = dgx-a10: is no topology"),
        ({"model": "llama-2-7b", "settings": ("zero.speed=1",)}, "zero.speed = 1: is not a field of SimGPU"),
    ],
)
def test_what_is_missing_or_wrong_is_one_sentence(imported: Import, answers: dict[str, Any], says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        imported({"ds.json": DEEPSPEED}, **answers)
    assert says in str(caught.value)
    assert len(caught.value.issues) == 1


def test_a_model_that_is_only_named_needs_its_dimensions(imported: Import) -> None:
    file = {"a.yml": "base_model: someone/unheard-of\nsequence_len: 128\nbf16: true\n"}
    with pytest.raises(ScenarioError, match=r"a.yml: model = someone/unheard-of: is named, and no file gives its dim"):
        imported(file)
    run = imported(file, model="gpt2")
    assert run.data["model"] == "gpt2"
    assert any("given for someone/unheard-of" in note for note in run.notes)


def test_a_config_json_beside_gives_the_dimensions(imported: Import, tmp_path: Path) -> None:
    from simgpu.workload.bundled import bundled_config

    files = {
        "a.yml": "base_model: someone/unheard-of\nsequence_len: 128\nbf16: true\n",
        "config.json": json.dumps(bundled_config("llama-2-7b")),
    }
    run = imported(files)
    assert run.data["model"] == "config.json"
    assert any("config.json has the dimensions of someone/unheard-of" in note for note in run.notes)


@pytest.mark.parametrize("gpus", [8, 16])
def test_hybrid_sharding_is_within_nodes(imported: Import, gpus: int) -> None:
    file = {
        "a.yaml": f"distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: {gpus}\nfsdp_config:\n"
        "  fsdp_sharding_strategy: HYBRID_SHARD\n  fsdp_backward_prefetch: BACKWARD_PRE\n"
    }
    run = imported(file, model="llama-2-7b")
    assert run.data["parallel"]["data_parallel"] == ("fsdp1" if gpus == 8 else "hsdp")
    assert ("backward_prefetch" in run.data.get("fsdp", {})) == (gpus == 8)  # an option of FSDP 1


@given(
    micro=st.none() | st.integers(1, 8),
    steps=st.none() | st.integers(1, 8),
    total=st.none() | st.integers(1, 512),
    dp=st.integers(1, 16),
    rule=st.sampled_from(["deepspeed", "composer", "megatron", "product"]),
)
def test_a_batch_is_a_product_or_refused(
    micro: int | None, steps: int | None, total: int | None, dp: int, rule: str
) -> None:
    try:
        batch = complete_batch(Batch(micro=micro, steps=steps, total=total), dp, rule, "x")
    except ScenarioError as error:
        assert total is not None
        assert len(error.issues) == 1
        return
    assert batch.micro is not None
    assert batch.steps is not None
    assert batch.total == batch.micro * batch.steps * dp
    assert total in (None, batch.total)
    if rule != "composer":
        assert micro in (None, batch.micro)
        assert steps in (None, batch.steps)


def test_more_gpus_than_there_can_be_are_refused_before_any_is_tried(imported: Import) -> None:
    file = {
        "ds.json": '{"train_batch_size": 7, "tensor_parallel": {"autotp_size": 1099511627776}, "steps_per_print": 1}'
    }
    with pytest.raises(
        ScenarioError, match=r"gpus = 1099511627776: is what the degrees and nodes of the files come to"
    ):
        imported(file, model="llama-2-7b")


def test_adapters_without_a_rank_have_the_programs_own(imported: Import) -> None:
    launch = "torchrun --nproc_per_node 8 sft.py --use_peft --lora_target_modules q_proj v_proj --bf16 True\n"
    run = imported({"run.sh": launch}, model="gpt2")
    assert run.data["training"]["lora"] == {"rank": 16, "targets": ["q_proj", "v_proj"]}
    tuned = imported({"t.yaml": "stage: sft\nfinetuning_type: lora\nlora_target: q_proj,v_proj\n"}, model="gpt2")
    assert tuned.data["training"]["lora"] == {"rank": 8, "targets": ["q_proj", "v_proj"]}


def test_misspelt_steps_are_not_said_to_have_no_effect(imported: Import) -> None:
    run = imported(
        {"run.sh": "torchrun --nproc_per_node 8 sft.py --gradient_acumulation_steps 8 --bf16 True\n"}, model="gpt2"
    )
    assert any("gradient_acumulation_steps" in key for key in run.unknown)


def test_a_micro_batch_of_none_is_refused(imported: Import) -> None:
    with pytest.raises(ScenarioError, match="train_micro_batch_size_per_gpu"):
        imported({"ds.json": '{"train_micro_batch_size_per_gpu": 0, "zero_optimization": {"stage": 2}}'}, model="gpt2")
