"""Options of torchtitan that once were read as without effect, or as another thing than torchtitan makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from simgpu.config.imported_run import RunAnswers, import_run
from simgpu.errors import ScenarioError
from tests.imports.reading import read
from tests.imports.test_deepspeed_effects import told
from tests.imports.test_torchtitan_options import job

OF_2024 = "[model]\nname = 'llama3'\nflavor = '8B'\n{model}\n[training]\nbatch_size = 1\nseq_len = 4096\n{training}\n"
FP8 = "converters = ['float8']"


def early(folder: Path, *, training: str = "data_parallel_degree = -1", model: str = "", more: str = ""):
    return read(folder, OF_2024.format(training=training, model=model) + more, ".toml")


@pytest.mark.parametrize(
    ("asked", "precision"),
    [
        ("enable_fp8_linear = true", "fp8"), ("enable_fp8_linear = false", "bf16"), ("fp8_linear = 'dynamic'", "fp8"),
        ("fp8_linear = ''", "bf16"), ("enable_float8_linear = true", "fp8"),
    ],
)  # fmt: skip
def test_fp8_of_2024(tmp_path: Path, asked: str, precision: str) -> None:
    reading = early(tmp_path, training=f"data_parallel_degree = -1\n{asked}")
    assert reading.settings["training.precision"] == precision
    assert reading.unknown == ()


def test_replicas_of_2024(tmp_path: Path) -> None:
    plain = early(tmp_path, training="data_parallel_degree = 8\ndata_parallel_type = 'ddp'")
    assert plain.settings["parallel.data_parallel"] == "ddp"
    assert plain.gpus == 8
    whole = early(tmp_path, training="data_parallel_degree = -1\ndata_parallel_type = 'fsdp'")
    assert whole.settings["parallel.data_parallel"] == "fsdp"
    with pytest.raises(ScenarioError, match="data_parallel_type = zero: is not known to torchtitan; allowed: fsdp"):
        early(tmp_path, training="data_parallel_degree = -1\ndata_parallel_type = 'zero'")


@pytest.mark.parametrize(("kind", "norm"), [("np_layernorm", "layernorm"), ("rmsnorm", None), ("fused_rmsnorm", None)])
def test_norms_of_2024(tmp_path: Path, kind: str, norm: str | None) -> None:
    reading = early(tmp_path, model=f"norm_type = '{kind}'")
    assert reading.settings.get("model.norm") == norm
    assert told(reading, "norms are kernels op by op") == (kind == "fused_rmsnorm")


def test_a_norm_reaches_the_scenario(tmp_path: Path) -> None:
    for flavor in ("8B", "405B"):  # a bundled model, and dimensions
        path = tmp_path / "job.toml"
        text = OF_2024.format(training="data_parallel_degree = 8", model="norm_type = 'layernorm'")
        path.write_text(text.replace("8B", flavor))
        assert import_run([path], RunAnswers(topology="dgx-h100")).data["model"]["norm"] == "layernorm"


@pytest.mark.parametrize(("backend", "preset"), [("inductor", "compile"), ("eager", "megatron-2023")])
def test_backends_of_compile(tmp_path: Path, backend: str, preset: str) -> None:
    software = job(tmp_path, more=f"[compile]\nenable = true\nbackend = '{backend}'\n").settings["software"]
    assert (software if isinstance(software, str) else software["preset"]) == preset


def test_fp8_that_is_emulated_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"float8\.emulate = true: runs products in fp32 .*; allowed: false"):
        job(tmp_path, model=FP8, more="[float8]\nemulate = true\n")
    assert job(tmp_path, more="[float8]\nemulate = true\n").settings["training.precision"] == "bf16"


@pytest.mark.parametrize(
    ("float8", "words"),
    [
        ("recipe_name = 'rowwise_with_gw_hp'", "gradients of weights are in bf16"),
        ("recipe_name = 'rowwise'", "scales of rows"),
        ("filter_fqns = ['output', 'attention.wk', 'attention.wv']", "attention.wk, attention.wv are in bf16"),
        ("scaling_type_input = 'delayed'", "delayed"),
        ("enable_fsdp_float8_all_gather = true", "weights are gathered in bf16"),
    ],
)
def test_recipes_of_fp8(tmp_path: Path, float8: str, words: str) -> None:
    for table in ("float8", "quantize.linear.float8"):
        assert told(job(tmp_path, model=FP8, more=f"[{table}]\n{float8}\n"), words)
        assert not told(job(tmp_path, more=f"[{table}]\n{float8}\n"), words)
    assert not told(job(tmp_path, model=FP8, more="[float8]\nfilter_fqns = ['output', 'router.gate']\n"), "filter_fqns")


def test_fp8_with_tensor_parallelism(tmp_path: Path) -> None:
    words = "inputs of tensor-parallel layers are gathered in fp8"
    assert told(job(tmp_path, model=FP8, parallelism="tensor_parallel_degree = 2"), words)
    rows = "[float8]\nrecipe_name = 'rowwise'\n"
    assert not told(job(tmp_path, model=FP8, parallelism="tensor_parallel_degree = 2", more=rows), words)
    assert not told(job(tmp_path, model=FP8), words)


def test_fp8_of_models_with_experts(tmp_path: Path) -> None:
    text = "[model]\nname = 'llama4'\nflavor = '17bx16e'\nconverters = {c}\n[training]\nlocal_batch_size = 1\n{more}"
    words = "products of experts"

    def reading(converters: str, more: str = ""):
        return read(tmp_path, text.format(c=converters, more=more), ".toml")

    assert told(reading("['float8']"), words)
    assert not told(reading("['float8']", "[float8]\nmoe_fqns_prototype = ['experts']\n"), words)
    assert not told(reading("['quantize.linear.float8', 'quantize.grouped_mm.float8']"), words)
    assert not told(job(tmp_path, model=FP8), words)


@pytest.mark.parametrize(
    "more",
    [
        "[debug]\ndeterministic = true",
        "[activation_checkpoint]\nearly_stop = true",
        "[fault_tolerance]\nenable = true\nsemi_sync_method = 'diloco'",
    ],
)
def test_what_is_not_simulated_is_said(tmp_path: Path, more: str) -> None:
    reading = job(tmp_path, more=more)
    assert told(reading, more.rsplit("\n", 1)[1].partition(" =")[0])
    assert reading.unknown == ()


@pytest.mark.parametrize(("balancer", "said"), [("headtail", False), ("ptrr", True)])
def test_balance_of_context_parallelism(tmp_path: Path, balancer: str, said: bool) -> None:
    text = f"context_parallel_degree = 2\ncontext_parallel_load_balancer = '{balancer}'"
    assert told(job(tmp_path, parallelism=text), "context_parallel_load_balancer") == said
