"""Modules that are trained whole beside adapters, and DoRA, as each program spells them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import ImportedRun, RunAnswers, import_run
from simgpu.config.load import load_cases
from simgpu.workload.families import model_units
from simgpu.workload.frozen import trained_units

TRL = (
    "accelerate launch --num_processes 8 trl/scripts/sft.py --model_name_or_path Qwen/Qwen2.5-7B --use_peft --lora_r 16"
    " --lora_target_modules q_proj v_proj --max_length 512 --per_device_train_batch_size 1"
)
SWIFT = (
    "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --train_type lora --lora_rank 16 --target_modules q_proj v_proj"
    " --torch_dtype bfloat16 --max_length 512"
)
LLAMAFACTORY = (
    "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\nfinetuning_type: lora\nlora_rank: 16\nlora_target: q_proj,v_proj\n"
    "cutoff_len: 512\nbf16: true\n"
)
AXOLOTL = (
    "base_model: Qwen/Qwen2.5-7B\nadapter: lora\nlora_r: 16\nsequence_len: 512\nbf16: true\nmicro_batch_size: 1\n"
    "lora_target_modules: [q_proj, v_proj]\n"
)
OUMI = (
    "model: {model_name: Qwen/Qwen2.5-7B, model_max_length: 512, torch_dtype_str: bfloat16}\n"
    "training: {trainer_type: TRL_SFT, use_peft: true, per_device_train_batch_size: 1}\n"
    "peft: {lora_r: 16, lora_target_modules: [q_proj, v_proj]%s}\n"
)
BOTH = {
    "trl": (TRL + " --lora_modules_to_save embed_tokens lm_head", ".sh"),
    "ms-swift": (SWIFT + " --modules_to_save embed_tokens lm_head", ".sh"),
    "llamafactory": (LLAMAFACTORY + "additional_target: embed_tokens,lm_head\n", ".yaml"),
    "llamafactory, new tokens": (LLAMAFACTORY + "resize_vocab: true\n", ".yaml"),
    "axolotl": (AXOLOTL + "lora_modules_to_save: [embed_tokens, lm_head]\n", ".yml"),
    "axolotl, all": (
        AXOLOTL.replace("lora_target_modules: [q_proj, v_proj]", "lora_target_linear: true")
        + "lora_modules_to_save: [model.embed_tokens, lm_head]\n",
        ".yml",
    ),
    "oumi": (OUMI % ", lora_modules_to_save: [embed_tokens, lm_head]", ".yaml"),
}
DORA = {
    "trl": (TRL + " --use_dora", ".sh"),
    "ms-swift": (SWIFT + " --use_dora true", ".sh"),
    "llamafactory": (LLAMAFACTORY + "use_dora: true\n", ".yaml"),
    "axolotl": (AXOLOTL + "peft_use_dora: true\n", ".yml"),
}


def run(folder: Path, text: str, suffix: str) -> ImportedRun:
    path = folder / f"run{suffix}"
    path.write_text(text, encoding="utf-8")
    return import_run([path], RunAnswers(topology="dgx-a100"))


def idle(imported: ImportedRun) -> set[str]:
    return {key for reading in imported.readings for key in reading.idle}


@pytest.mark.parametrize(("text", "suffix"), BOTH.values(), ids=BOTH)
def test_saved_embeddings_are_trained(tmp_path: Path, text: str, suffix: str) -> None:
    imported = run(tmp_path, text, suffix)
    assert imported.data["training"]["lora"]["modules_to_save"] == ["embed_tokens", "lm_head"]
    assert not [key for key in idle(imported) if "save" in key or "additional" in key]
    assert imported.unknown == ()
    (case,) = load_cases(imported.data)
    parts = trained_units(model_units(case.model, case.training), case.model, case.training)
    trained = sum(p.total for unit in parts.units for p in unit.parameters if not p.frozen and ".lora_" not in p.name)
    assert trained == 2 * 152064 * 3584


def test_other_modules_are_said_to_be_trained(tmp_path: Path) -> None:
    imported = run(tmp_path, TRL + " --lora_modules_to_save lm_head score", ".sh")
    assert imported.data["training"]["lora"]["modules_to_save"] == ["lm_head"]
    assert "lora_modules_to_save: score is trained whole there, which is not simulated" in imported.notes


NOT_SIMULATED = {
    "embeddings of ms-swift": (SWIFT.replace("q_proj v_proj", "all-linear all-embedding"), ".sh",
                               "adapters on all-embedding are not simulated"),
    "experts": (AXOLOTL + "lora_target_parameters: [mlp.experts.gate_up_proj]\n", ".yml",
                "lora_target_parameters: adapters on the weights of experts are not simulated"),
    "head of LitGPT": ("litgpt finetune_lora c/meta-llama/Meta-Llama-3-8B --devices 2 --lora_head true", ".sh",
                       "adapters on lm_head are not simulated"),
    "parts of layers": (
        LLAMAFACTORY.replace("type: lora", "type: freeze") + "freeze_trainable_modules: mlp\n", ".yaml",
        "freeze_trainable_modules: mlp alone is trained of them there; here all of it is"),
    "modules beside layers": (
        LLAMAFACTORY.replace("type: lora", "type: freeze") + "freeze_extra_modules: embed_tokens,norm\n", ".yaml",
        "freeze_extra_modules: embed_tokens, norm are trained there besides, which is not simulated"),
    "bits of LLaVA": (
        "torchrun --nproc_per_node 8 train_mem.py --model_name_or_path lmsys/vicuna-7b-v1.5 --lora_enable True "
        "--lora_r 128 --bits 4 --bf16 True --per_device_train_batch_size 1 --model_max_length 2048", ".sh",
        "the 4-bit weights are simulated in 16 bits: 4 times their memory and traffic, and no time to unpack them"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "suffix", "note"), NOT_SIMULATED.values(), ids=NOT_SIMULATED)
def test_what_is_trained_besides_is_said(tmp_path: Path, text: str, suffix: str, note: str) -> None:
    imported = run(tmp_path, text, suffix)
    assert note in imported.notes
    assert note.partition(":")[0] not in idle(imported)
    assert imported.unknown == ()


def test_a_rank_that_oumi_gives_is_not_missing(tmp_path: Path) -> None:
    imported = run(tmp_path, OUMI % "", ".yaml")
    assert imported.data["training"]["lora"]["rank"] == 16
    assert not [note for note in imported.notes if "TRL's default" in note]


def test_without_adapters_they_mean_nothing(tmp_path: Path) -> None:
    text = LLAMAFACTORY.replace("lora\nlora_rank: 16", "full") + "additional_target: embed_tokens\nuse_dora: true\n"
    imported = run(tmp_path, text, ".yaml")
    assert "lora" not in imported.data["training"]
    assert {"additional_target", "use_dora"} <= idle(imported)


@pytest.mark.parametrize(("text", "suffix"), DORA.values(), ids=DORA)
def test_dora_is_told_in_one_way(tmp_path: Path, text: str, suffix: str) -> None:
    imported = run(tmp_path, text, suffix)
    told = [note for note in imported.notes if "DoRA" in note]
    words = "use_dora: the magnitudes of DoRA and the norms of its weights are not simulated: it is priced as LoRA"
    assert [note.removeprefix("peft_") for note in told] == [words]
    assert not [key for key in idle(imported) if "dora" in key]
