"""Options of launchers: those that count GPUs, those without effect, and misspelt ones, which are never swallowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from simgpu.io.foreign import launcher_keys, nemo_keys
from tests.imports.reading import read

SCRIPT = "t.py --model_name_or_path gpt2 --per_device_train_batch_size 1"
SEVERAL = "accelerate launch --use_deepspeed --zero_stage 2 --num_machines 2 --num_processes 16"
HOSTS = "a slots=8\nb slots=8\nc slots=8\n"


@pytest.mark.parametrize(
    ("line", "wrong", "meant"),
    [
        ("accelerate launch --num_processess 8", "num_processess", "num_processes"),
        ("accelerate launch --num_machine 2", "num_machine", "num_machines"),
        ("accelerate launch --use_megatron_lm --num_processes 8 --megatron_lm_tp_degre 4", "megatron_lm_tp_degre",
         "megatron_lm_tp_degree"),
        ("accelerate launch --use_fsdp --num_processes 8 --fsdp_offload_param true", "fsdp_offload_param",
         "fsdp_offload_params"),
        ("accelerate launch --use_parallelism_config --num_processes 8 --parallelism_config_tp_sise 2",
         "parallelism_config_tp_sise", "parallelism_config_tp_size"),
        ("torchrun --nproc_per_nod 8", "nproc_per_nod", "nproc_per_node"),
        ("deepspeed --num_gpu 8", "num_gpu", "num_gpus"),
        ("deepspeed --num_gpus 4 --bind_core_lst 0-3", "bind_core_lst", "bind_core_list"),
    ],
)  # fmt: skip
def test_misspelt_options_are_listed(tmp_path: Path, line: str, wrong: str, meant: str) -> None:
    reading = read(tmp_path, f"{line} {SCRIPT}", ".sh")
    assert reading.not_understood == f"launcher.{wrong} (did you mean launcher.{meant}?)"


def test_misspelt_options_of_what_starts_the_launcher(tmp_path: Path) -> None:
    reading = read(tmp_path, f"srun --nodes 2 --ntasks-per-node 8 --cpu-bnd none python {SCRIPT}", ".sh")
    assert reading.not_understood == "wrapper.cpu_bnd (did you mean wrapper.cpu_bind?)"


@pytest.mark.parametrize("keys", [launcher_keys.LAUNCHER, launcher_keys.WRAPPER, nemo_keys.IDLE])
def test_lists_have_names_and_no_patterns(keys: tuple[str, ...]) -> None:
    assert [name for name in keys if "*" in name] == []


@pytest.mark.parametrize(
    ("options", "gpus", "nodes"),
    [
        ("--deepspeed_hostfile hosts --deepspeed_inclusion_filter a:0,1@b", 10, 2),
        ("--deepspeed_inclusion_filter a:0,1@b:0-3", 6, 2),
        ("--deepspeed_hostfile hosts --deepspeed_exclusion_filter b@c:7", 15, 2),
        ("--deepspeed_inclusion_filter a:0@b:0 --deepspeed_multinode_launcher standard", 16, 2),
        ("", 16, 2),
    ],
)
def test_filters_that_accelerate_hands_to_deepspeed(tmp_path: Path, options: str, gpus: int, nodes: int) -> None:
    (tmp_path / "hosts").write_text(HOSTS)
    reading = read(tmp_path, f"{SEVERAL} {options} {SCRIPT}", ".sh")
    assert (reading.gpus, reading.settings["cluster.nodes"]) == (gpus, nodes)
    assert reading.unknown == ()
    words = iter(options.split())
    given = {name.removeprefix("--"): value for name, value in zip(words, words, strict=True)}
    block = "".join(f"  {name}: {value}\n" for name, value in {"zero_stage": 2, **given}.items())
    text = f"distributed_type: DEEPSPEED\nnum_machines: 2\nnum_processes: 16\ndeepspeed_config:\n{block}"
    reading = read(tmp_path, text, ".yaml")
    assert (reading.gpus, reading.settings["cluster.nodes"]) == (gpus, nodes)
    assert reading.unknown == ()


def test_a_filter_on_one_machine_has_no_effect(tmp_path: Path) -> None:
    line = "accelerate launch --use_deepspeed --num_processes 8 --deepspeed_inclusion_filter localhost:0,1"
    assert read(tmp_path, f"{line} {SCRIPT}", ".sh").gpus == 8


def test_gpus_that_no_hostfile_lists_cannot_be_taken_away(tmp_path: Path) -> None:
    text = (
        "distributed_type: DEEPSPEED\nnum_machines: 2\nnum_processes: 16\n"
        "deepspeed_config: {zero_stage: 2, deepspeed_exclusion_filter: 'a:0'}\n"
    )
    with pytest.raises(ScenarioError, match="takes GPUs away that no hostfile beside it lists"):
        read(tmp_path, text, ".yaml")


@pytest.mark.parametrize("strategy", ["3", "NO_SHARD"])
def test_whole_weights_on_the_cpu_are_refused(tmp_path: Path, strategy: str) -> None:
    text = (
        "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n"
        f"  fsdp_sharding_strategy: {strategy}\n  fsdp_offload_params: true\n"
    )
    with pytest.raises(ScenarioError, match=r"fsdp_offload_params = true: keeps whole weights on the CPU"):
        read(tmp_path, text, ".yaml")
    reading = read(tmp_path, text.replace("true", "false"), ".yaml")
    assert (reading.settings["parallel.data_parallel"], reading.unknown) == ("ddp", ())


def test_misspelt_keys_of_accelerates_blocks(tmp_path: Path) -> None:
    text = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_forward_prefech: true}\n"
    assert read(tmp_path, text, ".yaml").unknown == ("fsdp_config.fsdp_forward_prefech",)
    other = text.replace("type: FSDP", "type: MULTI_GPU")  # which does not read the block
    assert read(tmp_path, other, ".yaml").unknown == ()


NEMO = (
    "trainer: {devices: 8, precision: bf16}\nmodel:\n  num_layers: 12\n  hidden_size: 768\n  num_attention_heads: 12\n"
    "  micro_batch_size: 4\n  global_batch_size: 32\n  ffn_hidden_size: 3072\n  encoder_seq_length: 1024\n"
    "  tensor_model_parallel_size: 1\n  max_position_embeddings: 1024\n  optim: {optim}\n"
)


@pytest.mark.parametrize(
    ("optim", "elements"),
    [
        ("{name: mcore_distributed_optim, ddp_bucket_size: 5000000}", 5_000_000),
        ("{name: mcore_distributed_optim, bucket_cap_mb: 200}", None),  # Megatron's own 40e6
        ("{name: distributed_fused_adam, bucket_cap_mb: 200}", 52_428_800),  # of fp32
        ("{name: distributed_fused_adam, bucket_cap_mb: 200, grad_sync_dtype: bf16}", 104_857_600),
        ("{name: distributed_fused_adam}", 26_214_400),  # Apex's 100 MiB
    ],
)
def test_buckets_of_nemo(tmp_path: Path, optim: str, elements: int | None) -> None:
    reading = read(tmp_path, NEMO.replace("{optim}", optim), ".yaml")
    assert reading.settings.get("distributed_optimizer.ddp_bucket_size") == elements
    assert reading.unknown == ()
    said = any("bucket_cap_mb has no effect with mcore_distributed_optim" in note for note in reading.notes)
    assert said == ("bucket_cap_mb" in optim and "mcore" in optim)


def test_misspelt_options_of_nemo(tmp_path: Path) -> None:
    text = NEMO.replace("{optim}", "{name: mcore_distributed_optim, overlap_grad_snc: true}")
    assert read(tmp_path, text, ".yaml").unknown == ("model.optim.overlap_grad_snc",)
    text = NEMO.replace("{optim}", "{name: fused_adam}") + "  activations_checkpoint_granularty: full\n"
    reading = read(tmp_path, text, ".yaml")
    assert reading.near["model.activations_checkpoint_granularty"] == "model.activations_checkpoint_granularity"


def test_a_filtered_run_is_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(f"{SEVERAL} --deepspeed_inclusion_filter a:0-3@b:0-3 {SCRIPT}\n")
    cluster = import_run([tmp_path / "run.sh"], RunAnswers(topology="dgx-a100")).data["cluster"]
    assert cluster == {"topology": "dgx-a100", "nodes": 2, "gpus": 8}
