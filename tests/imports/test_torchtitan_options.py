"""torchtitan's options by today's names and by those of 2024 and 2025."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.foreign import torchtitan_keys
from simgpu.io.foreign.reading import Reading
from simgpu.io.foreign.torchtitan_pipeline import behind_first, spread_layers
from tests.imports.reading import read

JOB = (
    "[model]\nname = 'llama3'\nflavor = '8B'\n{model}\n[training]\nlocal_batch_size = 4\nseq_len = 4096\n{training}\n"
    "[parallelism]\npipeline_parallel_degree = {pp}\n{parallelism}\n"
)


def job(
    folder: Path, *, pp: int = 2, model: str = "", training: str = "", parallelism: str = "", more: str = ""
) -> Reading:
    return read(folder, JOB.format(model=model, training=training, pp=pp, parallelism=parallelism) + more, ".toml")


PARTS = "[[{a}], [{b}]]".format(
    a=", ".join(["'tok_embeddings'", *(f"'layers.{layer}'" for layer in range(14))]),
    b=", ".join([*(f"'layers.{layer}'" for layer in range(14, 32)), "'norm'", "'output'"]),
)


@pytest.mark.parametrize(
    "cut", [f"module_fqns_per_model_part = {PARTS}", "pipeline_parallel_split_points = ['layers.14']",
            "pipeline_parallel_split_points = 'layers.14'"]
)  # fmt: skip
def test_where_stages_begin_by_either_name(tmp_path: Path, cut: str) -> None:
    reading = job(tmp_path, parallelism=cut)
    assert reading.settings["parallel.layers_per_stage"] == [14, 18]
    assert reading.unknown == ()


def test_a_stage_of_no_layers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"module_fqns_per_model_part = .* has a stage without layers"):
        job(tmp_path, parallelism="module_fqns_per_model_part = [['tok_embeddings'], ['layers.0', 'output']]")


@pytest.mark.parametrize(
    ("less", "layers"),
    [
        ("", [8, 9, 8, 7]),  # of 34, each end with one less
        ("pipeline_parallel_first_stage_less_layers = 0\npipeline_parallel_last_stage_less_layers = 0", None),  # 8 each
        ("pipeline_parallel_first_stage_less_layers = 2", [7, 9, 9, 7]),  # of 35
    ],
)
def test_how_many_layers_the_ends_have_less(tmp_path: Path, less: str, layers: list[int] | None) -> None:
    assert job(tmp_path, pp=4, parallelism=less).settings.get("parallel.layers_per_stage") == layers
    assert layers is None or sum(layers) == 32


def test_more_than_all_layers_less_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="first_stage_less_layers = 40: leaves less than no layer"):
        job(tmp_path, parallelism="pipeline_parallel_first_stage_less_layers = 40")
    assert spread_layers(32, 2, first=0, last=0) == [16, 16]


def test_the_optimizers_kernels(tmp_path: Path) -> None:
    def kernels(more: str) -> object:
        return job(tmp_path, more=more).settings["software"]["optimizer"]

    assert kernels("") == "fused"  # torchtitan's default
    assert kernels("[optimizer]\nimplementation = 'for-loop'\n") == "for_loop"
    assert kernels("[optimizer]\nfused = false\n") == "foreach"
    assert kernels("[optimizer]\nimplementation = 'foreach'\n[compile]\nenable = true\n") == "foreach"


@pytest.mark.parametrize("model", ["hf_assets_path = './a'", "tokenizer_path = './a'"])
def test_where_the_tokenizer_lies_is_known_by_either_name(tmp_path: Path, model: str) -> None:
    assert job(tmp_path, model=model).unknown == ()


@pytest.mark.parametrize(
    ("change", "wrong", "meant"),
    [
        ({"parallelism": "tensor_paralel_degree = 8"}, "parallelism.tensor_paralel_degree", "tensor_parallel_degree"),
        ({"parallelism": "pipeline_parallel_microbatchsize = 2"}, "parallelism.pipeline_parallel_microbatchsize",
         "pipeline_parallel_microbatch_size"),
        ({"more": "[activation_checkpoint]\nmod = 'none'"}, "activation_checkpoint.mod", "mode"),
        ({"more": "[compile]\nenabled = true"}, "compile.enabled", "enable"),
        ({"training": "enable_cpu_ofload = true"}, "training.enable_cpu_ofload", "enable_cpu_offload"),
    ],
)  # fmt: skip
def test_misspelt_options_are_listed(tmp_path: Path, change: dict[str, str], wrong: str, meant: str) -> None:
    reading = job(tmp_path, **change)  # type: ignore[arg-type]
    assert reading.unknown == (wrong,)
    assert reading.near[wrong].endswith(f".{meant}")


def test_what_is_not_simulated_is_said(tmp_path: Path) -> None:
    reading = job(tmp_path, parallelism="disable_loss_parallel = true", more="[fault_tolerance]\nenable = true\n")
    assert any("disable_loss_parallel is not simulated" in note for note in reading.notes)
    assert any("fault_tolerance.enable is not simulated" in note for note in reading.notes)
    with pytest.raises(ScenarioError, match=r"comm\.mode = fake_backend: runs no job on GPUs"):
        job(tmp_path, more="[comm]\nmode = 'fake_backend'\n")


def test_the_list_has_names_and_no_patterns() -> None:
    assert [name for name in torchtitan_keys.IDLE if "*" in name] == []


OLD = (
    "[model]\nname = 'llama3'\nflavor = '8B'\n[training]\nbatch_size = {batch}\n[{table}]\n"
    "pipeline_parallel_degree = {pp}\n{more}\n"
)


@pytest.mark.parametrize(
    ("table", "pp", "batch", "more", "layers", "pieces"),
    [
        ("experimental", 3, 12, "", [10, 11, 11], 3),  # 32 = 3 * 10 + 2, behind the first stage
        ("experimental", 4, 8, "", None, 4),  # 8 each
        ("experimental", 3, 12, "pipeline_parallel_schedule = 'Interleaved1F1B'", [5, 6, 6, 5, 5, 5], 6),  # one per stage
        ("experimental", 2, 8, "pipeline_parallel_schedule = '1F1B'\npipeline_parallel_microbatches = 4", None, 4),
        ("experimental", 2, 6, "pipeline_parallel_split_points = ['layers.8', 'layers.16', 'layers.24']\n"
         "pipeline_parallel_schedule = 'Interleaved1F1B'\npipeline_parallel_microbatches = 6", [8, 8, 8, 8], 6),
        ("parallelism", 3, 6, "pipeline_parallel_microbatches = 6", [10, 11, 11], 6),  # February to April 2025
        ("parallelism", 3, 6, "", [11, 11, 10], 6),  # today: 34 over 3, the ends with one less
        ("parallelism", 3, 6, "pipeline_parallel_microbatch_size = 2", [11, 11, 10], 3),
    ],
)  # fmt: skip
def test_the_pipeline_of_a_file_with_the_names_of_its_time(
    tmp_path: Path, table: str, pp: int, batch: int, more: str, layers: list[int] | None, pieces: int
) -> None:
    settings = read(tmp_path, OLD.format(batch=batch, table=table, pp=pp, more=more), ".toml").settings
    assert settings.get("parallel.layers_per_stage") == layers
    assert (settings["training.micro_batch_size"], settings["training.gradient_accumulation"]) == (
        batch // pieces, pieces
    )  # fmt: skip


def test_more_stages_than_layers_are_refused_as_they_were(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="pipeline_parallel_degree = 40: makes 40 stages of 32 layers"):
        read(tmp_path, OLD.format(batch=40, table="experimental", pp=40, more=""), ".toml")
    assert behind_first(80, 4) == [20] * 4
