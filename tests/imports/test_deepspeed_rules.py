"""DeepSpeed files beside Trainer arguments: what "auto" becomes, and what Transformers and Accelerate refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.config.imported_run_merge import Merged
from simgpu.config.imported_run_sizes import fill_automatic
from simgpu.errors import ScenarioError
from simgpu.io.foreign.reading import Reading

Import = Callable[..., ImportedRun]
LAUNCH = (
    "torchrun --nproc_per_node 4 sft.py --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 2 "
    "--model_max_length 1024 --deepspeed ds.json "
)
FACTORY = (
    "model_name_or_path: meta-llama/Llama-2-7b-hf\nstage: sft\nfinetuning_type: full\ncutoff_len: 1024\nbf16: true\n"
    "deepspeed: ds.json\n"
)
AXOLOTL = (
    "base_model: NousResearch/Llama-2-7b-hf\nsequence_len: 512\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"
    "bf16: true\noptimizer: adamw_torch\ndeepspeed: ds.json\n"
)
MISMATCH = "Please correct the following DeepSpeed config values that mismatch TrainingArguments values: "


@pytest.fixture
def imported(tmp_path: Path) -> Import:
    def run(options: dict[str, Any], files: dict[str, str], **answers: Any) -> ImportedRun:
        (tmp_path / "ds.json").write_text(json.dumps(options), encoding="utf-8")
        for name, text in files.items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        paths = [tmp_path / name for name in [*files, "ds.json"]]
        return import_run(paths, RunAnswers(**{"topology": "dgx-a100", **answers}), folder=tmp_path)

    return run


@pytest.mark.parametrize(
    ("model", "width"),
    [("t5-large", 1024), ("bert-base", 768), ("resnet-50", 2048), ("resnet-18", 512), ("clip-vit-b-32", 512)],
)
def test_auto_takes_the_width_that_the_models_configuration_has(imported: Import, model: str, width: int) -> None:
    """d_model of T5, the largest of ResNet's hidden_sizes, the text tower's hidden_size of CLIP."""
    block = {"stage": 2, "reduce_bucket_size": "auto"}
    run = imported({"zero_optimization": block, "bf16": {"enabled": True}}, {}, model=model)
    assert run.data["zero"]["reduce_bucket_size"] == width * width


def test_auto_of_a_model_without_a_width_has_transformers_message() -> None:
    key = "zero_optimization.reduce_bucket_size"
    reading = Reading(source="ds.json", kind="deepspeed", settings={}, open={key: "auto"})
    merged = Merged(values={"parallel.data_parallel": "zero2"})
    with pytest.raises(ScenarioError, match="has neither `hidden_size` nor `hidden_sizes`, therefore .*" + key):
        fill_automatic(merged, [reading], None, [])


@pytest.mark.parametrize(
    ("options", "files", "says"),
    [
        ({"gradient_accumulation_steps": 4}, {"run.sh": LAUNCH + "--gradient_accumulation_steps 2"},
         "ds gradient_accumulation_steps=4 vs hf gradient_accumulation_steps=2"),
        ({"gradient_accumulation_steps": 4}, {"run.sh": LAUNCH},  # TrainingArguments' default
         "ds gradient_accumulation_steps=4 vs hf gradient_accumulation_steps=1"),
        ({"train_micro_batch_size_per_gpu": 4}, {"sft.yaml": FACTORY},  # its default too
         "ds train_micro_batch_size_per_gpu=4 vs hf per_device_train_batch_size=8"),
        ({"fp16": {"enabled": True}}, {"run.sh": LAUNCH + "--bf16 True"},
         "ds fp16.enabled=True vs hf fp16|fp16_full_eval=False"),
        ({"bf16": {"enabled": False}}, {"run.sh": LAUNCH + "--bf16 True"},
         "ds bf16.enabled=False vs hf bf16|bf16_full_eval=True"),
        ({"gradient_clipping": 1.0}, {"run.sh": LAUNCH + "--max_grad_norm 0.3"},
         "ds gradient_clipping=1.0 vs hf max_grad_norm=0.3"),
        ({"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}}, {"run.sh": LAUNCH + "--learning_rate 2e-5"},
         "ds optimizer.params.lr=1e-05 vs hf learning_rate=2e-05"),
        ({"train_batch_size": 64}, {"run.sh": LAUNCH + "--gradient_accumulation_steps 4"},  # 4 GPUs x 2 x 4
         "ds train_batch_size=64 vs hf train_batch_size (calculated)=32"),
        ({"gradient_accumulation_steps": 2}, {"a.yml": AXOLOTL},
         "ds gradient_accumulation_steps=2 vs hf gradient_accumulation_steps=4"),
    ],
)  # fmt: skip
def test_what_transformers_refuses(imported: Import, options: dict[str, Any], files: dict[str, str], says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        imported({"zero_optimization": {"stage": 2}, **options}, files)
    assert MISMATCH + says in str(caught.value)
    assert len(caught.value.issues) == 1


@pytest.mark.parametrize(
    ("options", "files", "batch"),
    [
        ({"train_batch_size": 32, "gradient_clipping": 1}, {"run.sh": LAUNCH + "--gradient_accumulation_steps 4 "
          "--max_grad_norm 1.0"}, (2, 4)),
        ({"train_batch_size": "auto"}, {"sft.yaml": FACTORY}, (8, 1)),
        ({"train_micro_batch_size_per_gpu": 4}, {"run.sh": LAUNCH + "--auto_find_batch_size True"}, (2, 1)),
        ({"train_batch_size": 32}, {"a.yml": AXOLOTL}, (2, 4)),
    ],
)  # fmt: skip
def test_what_agrees_is_taken(
    imported: Import, options: dict[str, Any], files: dict[str, str], batch: tuple[int, int]
) -> None:
    run = imported({"zero_optimization": {"stage": 2}, **options}, files, gpus=4)
    training = run.data["training"]
    assert (training["micro_batch_size"], training["gradient_accumulation"]) == batch


@pytest.mark.parametrize("line", ["mixed_precision: bf16\n", "", "gradient_accumulation_steps: 4"])
def test_accelerate_refuses_to_hear_twice_what_the_file_says(imported: Import, line: str) -> None:
    inner = f", {line}" if line.startswith("grad") else ""
    outer = line if line.startswith("mixed") else ""
    text = f"distributed_type: DEEPSPEED\nnum_processes: 4\n{outer}"
    text += f"deepspeed_config: {{deepspeed_config_file: ds.json, zero3_init_flag: true{inner}}}\n"
    options = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
    if not line:
        assert imported(options, {"a.yaml": text}, model="gpt2").data["parallel"]["data_parallel"] == "zero3"
        return
    with pytest.raises(ScenarioError, match="the following accelerate config variables will be ignored: "):
        imported(options, {"a.yaml": text}, model="gpt2")


MEGATRON = (
    "deepspeed --num_gpus 8 pretrain_gpt.py --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 512 "
    "--max-position-embeddings 512 --micro-batch-size 1 --vocab-size 50304 --bf16 --deepspeed "
    "--pipeline-model-parallel-size {pp} --deepspeed_config ds.json"
)


@pytest.mark.parametrize("stage", [2, 3])
def test_stages_that_pipelines_refuse(tmp_path: Path, stage: int) -> None:
    """deepspeed/runtime/pipe/engine.py asserts it before the first step."""
    (tmp_path / "ds.json").write_text(json.dumps({"zero_optimization": {"stage": stage}, "bf16": {"enabled": True}}))
    script = tmp_path / "run.sh"
    script.write_text(MEGATRON.format(pp=2))
    with pytest.raises(ScenarioError) as caught:
        import_run([script, tmp_path / "ds.json"], RunAnswers(topology="dgx-a100"))
    assert (
        f"ds.json: zero_optimization.stage = {stage}: beside parallel.pp 2 of run.sh: DeepSpeed: ZeRO-2 and ZeRO-3 "
        in (str(caught.value))
    )
    decided = RunAnswers(topology="dgx-a100", settings=(f"parallel.data_parallel=zero{stage}",))
    assert import_run([script, tmp_path / "ds.json"], decided).data["parallel"]["data_parallel"] == f"zero{stage}"
    script.write_text(MEGATRON.format(pp=1))
    data = import_run([script, tmp_path / "ds.json"], RunAnswers(topology="dgx-a100")).data
    assert data["parallel"]["data_parallel"] == f"zero{stage}"
