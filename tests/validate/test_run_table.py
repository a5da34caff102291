"""A row of a table becomes the scenario that docs/validation.md promises, or is skipped with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simgpu.config.run_model import run_model
from simgpu.config.run_table import parse_selection, read_run_table
from simgpu.errors import ScenarioError
from tests.validate.tables import write_table


def _data(tmp_path: Path, **cells: str) -> dict[str, Any]:
    runs, skipped = read_run_table(write_table(tmp_path / "t.csv", [cells]))
    assert not skipped, skipped[0].reason
    return runs[0].data


def _reason(tmp_path: Path, **cells: str) -> str:
    runs, skipped = read_run_table(write_table(tmp_path / "t.csv", [cells]))
    assert not runs
    return skipped[0].reason


def test_a_complete_row(tmp_path: Path) -> None:
    data = _data(tmp_path)
    assert data["cluster"] == {"topology": "dgx-a100", "nodes": 1, "gpus": 8}
    assert data["parallel"] == {"tp": 8}
    assert data["software"] == "megatron-2021"
    assert data["model"]["positions"] == "learned"
    assert data["model"]["tied_embeddings"] is True
    training = data["training"]
    assert (training["micro_batch_size"], training["global_batch_size"], training["recompute"]) == (4, 8, "full")
    # Megatron of 2021 in fp16: fp16 gradients, fp32 master copy
    assert (training["param_dtype"], training["grad_dtype"], training["master_dtype"]) == ("fp16", "fp16", "fp32")


def test_the_batch_from_the_accumulation(tmp_path: Path) -> None:
    assert _data(tmp_path, global_batch="", grad_accum="3")["training"]["global_batch_size"] == 12


def test_a_gated_mlp_is_llama(tmp_path: Path) -> None:
    model = _data(tmp_path, model="some 7B", ffn_gated="y", framework="NeMo/Megatron-Core", flash_attn="y")["model"]
    assert (model["mlp"], model["norm"], model["positions"]) == ("swiglu", "rmsnorm", "rope")


def test_the_generation_follows_framework_and_date(tmp_path: Path) -> None:
    assert _data(tmp_path, framework="Megatron-LM (2022)")["software"] == "megatron-2022"
    assert _data(tmp_path, framework="Megatron-LM core 0.14+ (2026)", flash_attn="y (TE)")["software"] == "te"
    assert _data(tmp_path, framework="Composer + PyTorch FSDP1", flash_attn="y")["software"] == "composer-2023"


def test_block_scaled_fp8_needs_no_pass_for_scales(tmp_path: Path) -> None:
    data = _data(tmp_path, framework="Megatron-Bridge 26.04", flash_attn="y", precision="FP8-MX")
    assert data["training"]["precision"] == "fp8"
    assert data["software"] == {"preset": "te", "fp8_scaling": "delayed"}


@pytest.mark.parametrize(("precision", "scaling"), [("fp8 (TE)", "delayed"), ("FP8-DS", "delayed"), ("FP8-CS", None)])
def test_transformer_engines_own_recipe_is_delayed_scaling(tmp_path: Path, precision: str, scaling: str | None) -> None:
    row = {"precision": precision, "gpu": "H100-80GB", "framework": "NeMo 24.07", "flash_attn": "y"}
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [row]))
    older = {"preset": "te", "cross_entropy": "native"}  # than Transformer Engine's cross-entropy
    assert runs[0].data["software"] == older | ({"fp8_scaling": scaling} if scaling else {})


def test_nemo_averages_gradients_in_the_collective_and_megatron_before_it(tmp_path: Path) -> None:
    row = {"flash_attn": "y", "shard": "distributed optimizer (ZeRO-1)", "tp": "1", "dp": "8", "global_batch": "64"}
    averages = {
        name: _data(tmp_path, framework=name, **row)["distributed_optimizer"].get("average_in_collective", False)
        for name in ("NeMo/Megatron-Core", "Megatron-Bridge 25.09", "Megatron-LM core 0.14+ (2026)")
    }
    assert list(averages.values()) == [True, True, False]


def test_full_fine_tuning_is_training_and_says_so(tmp_path: Path) -> None:
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [{"model": "LLAMA2-7B SFT"}]))
    assert "packed" in runs[0].assumptions[-1]


@pytest.mark.parametrize(
    ("name", "bundled"),
    [
        ("Qwen3_30B_a3B", "qwen3-30b-a3b"), ("Qwen3_235B_a22B (tokendrop)", "qwen3-235b-a22b"),
        ("GPT OSS 120B", "gpt-oss-120b"), ("gpt-oss-20b", "gpt-oss-20b"), ("Kimi_K2", "kimi-k2"),
        ("DeepSeekV3", "deepseek-v3"), ("DeepSeekV3 (dropless)", "deepseek-v3"),
        ("DeepSeek-V3 671B (MoE)", "deepseek-v3"), ("Mixtral 8x7B", "mixtral-8x7b"), ("DeepSeekV3 (w/ MTP)", None),
        ("DeepSeekV4 Flash", None), ("Kimi_K2.5", None), ("Qwen3_Next_80B_a3B", None),
    ],
)  # fmt: skip
def test_open_mixtures_of_experts_are_known_by_name(name: str, bundled: str | None) -> None:
    """Their columns are empty: experts have none."""
    assert run_model({"model": name}, {}) == bundled


def test_a_bundled_model_with_layers_cut(tmp_path: Path) -> None:
    row = {"model": "DeepSeek-V3 (layers cut)", "layers": "4", "hidden": "7168", "heads": "128", "kv_heads": "128",
           "ffn": "18432", "vocab": "129280"}  # fmt: skip
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [row]))
    expected = {"base": "deepseek-v3", "dense_layers": 1, "layers": 4, "hidden": 7168, "heads": 128, "ffn": 18432,
                "vocab": 129280}  # fmt: skip
    assert runs[0].data["model"] == expected


def test_reductions_that_do_not_overlap_come_in_one_bucket(tmp_path: Path) -> None:
    late = _data(tmp_path, tp="4", dp="2", shard="none (DDP)", overlap_notes="gradient all-reduce not overlapped")
    assert late["ddp"]["bucket_cap_mb"] > 1e5
    assert "ddp" not in _data(tmp_path, tp="4", dp="2", shard="none (DDP)", overlap_notes="torch DDP overlap")


def test_a_distributed_optimizer_overlaps_as_the_notes_say(tmp_path: Path) -> None:
    cells = {"tp": "4", "dp": "2", "shard": "distributed optimizer (ZeRO-1)"}
    quiet = _data(tmp_path, **cells)
    assert quiet["distributed_optimizer"] == {"overlap_grad_reduce": False, "overlap_param_gather": False}
    loud = _data(tmp_path, **cells, overlap_notes="grad reduce-scatter and param all-gather overlap")
    assert loud["distributed_optimizer"] == {"overlap_grad_reduce": True, "overlap_param_gather": True}


def test_fsdp_groups_and_formats(tmp_path: Path) -> None:
    cells = {"tp": "1", "dp": "8", "framework": "Composer + PyTorch FSDP1", "flash_attn": "y"}
    full = _data(tmp_path, **cells, shard="FSDP1 FULL_SHARD (ZeRO-3)", precision="bf16, MP mode DEFAULT")
    assert (full["parallel"]["data_parallel"], full["fsdp"]) == ("fsdp1", {"reshard_after_forward": True})
    assert full["training"]["reduce_dtype"] == "fp32"
    kept = _data(tmp_path, **cells, shard="FSDP1 SHARD_GRAD_OP (ZeRO-2-like)", precision="bf16, MP mode PURE")
    assert kept["fsdp"] == {"reshard_after_forward": False}
    assert kept["training"]["reduce_dtype"] == "bf16"
    group = _data(tmp_path, **cells, shard="FSDP, group 4", precision="bf16")
    assert (group["parallel"]["data_parallel"], group["fsdp"]) == ("hsdp", {"shard_size": 4})


def test_embedding_and_head_count_as_layers_where_layers_do_not_divide(tmp_path: Path) -> None:
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [{"layers": "22", "tp": "1", "pp": "8"}]))
    assert runs[0].data["parallel"]["layers_per_stage"] == [2, 3, 3, 3, 3, 3, 3, 2]
    assert "a layer less" in runs[0].assumptions[0]


def test_stages_of_one_layer_leave_embedding_and_head_to_themselves(tmp_path: Path) -> None:
    cells = {"layers": "22", "tp": "1", "pp": "8", "vpp": "1 layer per chunk (= layers per stage)", "grad_accum": "8",
             "global_batch": "", "schedule": "1F1B-I"}  # fmt: skip
    parallel = _data(tmp_path, **cells)["parallel"]
    assert parallel["virtual_stages"] == 3
    assert parallel["layers_per_stage"] == [0, *[1] * 22, 0]


def test_a_vocabulary_that_the_source_does_not_give(tmp_path: Path) -> None:
    cells = {"layers": "62", "hidden": "6144", "heads": "48", "ffn": "24576", "seq": "1024", "params_b": "28.3"}
    given = _data(tmp_path, **cells, vocab="50304")["model"]["vocab"]
    assert given == 50304
    path = write_table(
        tmp_path / "t.csv", [cells | {"vocab": "50304", "notes": "vocab about 51k (paper does not give it)"}]
    )
    (run,), _ = read_run_table(path)
    # 28.3e9 - 62 x 12 x 6144^2 = 0.2149e9 weights = 34,973 rows of 6144, 1024 of them positions
    assert run.data["model"]["vocab"] == 33920
    assert any("vocabulary" in text for text in run.assumptions)


def test_a_profile_makes_a_second_run_of_the_pipeline_alone(tmp_path: Path) -> None:
    cells = {"id": "a", "tp": "1", "pp": "8", "vpp": "2", "layers": "16", "grad_accum": "8", "global_batch": "",
             "schedule": "1F1B-I", "prof_F_ms": "3", "prof_B_ms": "2.5", "prof_W_ms": "1.5", "prof_comm_ms": "0.25",
             "bubble_rate_paper": "0.2", "step_s": "0.09"}  # fmt: skip
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [cells, cells | {"id": "b", "step_s": ""}]))
    assert [(run.id, run.family) for run in runs] == [
        ("a", "t"), ("a", "t: profiled stages"), ("b", "t: profiled stages"),
    ]  # fmt: skip
    model = runs[1].data["model"]
    assert (model["stages"], model["forward_ns"], model["backward_ns"], model["message_ns"]) == (
        16,
        1.5e6,
        2e6,
        250_000,
    )
    assert (runs[1].step_s, runs[1].bubble) == (0.09, 0.2)
    assert runs[2].step_s == pytest.approx(8 * 0.007 / 0.8)  # what the published bubble stands for


@pytest.mark.parametrize(
    ("schedule", "name"), [("1F1B", "1f1b"), ("1F1B-I", "interleaved_1f1b"), ("ZB-1p", "zbh1"), ("ZB-2p", "zb2p"),
     ("ZB-H2", "zbh2")],
)  # fmt: skip
def test_schedules(tmp_path: Path, schedule: str, name: str) -> None:
    vpp = "3" if schedule == "1F1B-I" else "1" if schedule == "1F1B" else ""  # zero bubble takes no other number
    data = _data(tmp_path, tp="1", pp="8", vpp=vpp, grad_accum="8", global_batch="", schedule=schedule)
    assert data["parallel"]["schedule"] == name


def test_networks(tmp_path: Path) -> None:
    cells = {"gpus": "16", "dp": "2", "shard": "none (DDP)"}
    hdr = _data(tmp_path, **cells, inter_link="8x200Gb HDR IB (Selene, 3-level fat tree)")
    assert hdr["cluster"] == {"topology": "dgx-a100", "nodes": 2, "gpus": 16}
    four = _data(tmp_path, **cells, inter_link="800 Gb/s per node (config value)")
    assert four["cluster"]["topology"] == "8x-a100-four-hdr"
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [cells | {"inter_link": "RoCE RDMA"}]))
    assert runs[0].assumptions == ("network: one 200 Gb/s RoCE NIC for each GPU",)


def test_racks(tmp_path: Path) -> None:
    cells = {
        "gpu": "GB300 (NVL72)", "gpus_per_node": "4", "intra_link": "NVLink5 NVL72", "dp": "32", "tp": "4",
        "shard": "distributed optimizer", "inter_link": "4x800Gb per tray (assumed)", "gpus": "128", "micro_batch": "1",
        "global_batch": "128", "framework": "Megatron-Bridge 26.04", "flash_attn": "y", "precision": "BF16",
    }  # fmt: skip
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [cells]))
    assert runs[0].gpu_model == "GB300"
    assert runs[0].data["cluster"]["nodes"] == 2  # racks of 64


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"micro_batch": ""}, "micro_batch is unstated"),
        ({"seq": ""}, "seq is unstated"),
        ({"precision": "NVFP4"}, "precision NVFP4 is not simulated"),
        ({"framework": "Paxml (JAX)"}, "no software generation"),
        ({"framework": "Colossal-AI"}, "framework is not in"),
        ({"intra_link": ""}, "hardware is unstated"),
        ({"dp": "2"}, "tp x pp x cp x dp = 16 is not the 8 GPUs"),
        ({"tp": "4", "dp": "2", "shard": ""}, "how the replicas are joined"),
        ({"tp": "1", "pp": "8", "vpp": ""}, "vpp is unstated"),
        ({"model": "Kimi-Linear 48B"}, "not described by the table's columns"),
        ({"step_s": ""}, "step time is unstated"),
        ({"notes": "degraded: one NIC down"}, "its notes call it degraded"),
        ({"notes": "LoRA/SFT row"}, "fine-tuning"),
    ],
)
def test_a_row_that_lacks_something_is_skipped(tmp_path: Path, cells: dict[str, str], reason: str) -> None:
    assert reason in _reason(tmp_path, **cells)


def test_the_step_from_a_rate(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "step_s": "", "implied_step_s": "2.5"},
        {"id": "b", "step_s": "", "samples_s": "4"},  # 8 sequences
        {"id": "c", "step_s": "", "tokens_s_gpu": "1024"},  # 8 x 2048 tokens on 8 GPUs
    ]
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", rows))
    assert [run.step_s for run in runs] == [2.5, 2.0, 2.0]


def test_unpublished_recomputation_is_said(tmp_path: Path) -> None:
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [{"recompute": "unstated (recipe default)"}]))
    assert runs[0].data["training"]["recompute"] == "none"
    assert runs[0].assumptions == ("no recomputation",)


def test_memory_counts_only_in_a_stated_unit(tmp_path: Path) -> None:
    rows = [{"id": "a", "peak_mem_gb": "30"}, {"id": "b", "peak_mem_gb": "30", "notes": "allocated GiB"}]
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", rows))
    assert [run.memory_gib for run in runs] == [None, 30.0]


def test_selection_and_groups(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.csv", [{"id": "a"}, {"id": "b", "tier": "B"}, {"id": "c", "tier": ""}])
    runs, _ = read_run_table(path, parse_selection(["tier=A|"], "tier"))
    assert [(run.id, run.family) for run in runs] == [("a", "t: A"), ("c", "t: unstated")]


def test_overrides_hold_for_every_run(tmp_path: Path) -> None:
    runs, _ = read_run_table(write_table(tmp_path / "t.csv", [{}]), overrides=["training.recompute=none"])
    assert runs[0].data["training"]["recompute"] == "none"


def test_what_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ScenarioError, match="no table of measured runs: it has no columns id, model"):
        read_run_table(tmp_path / "x.csv")
    path = write_table(tmp_path / "t.csv", [{"step_s": "fast"}])
    with pytest.raises(ScenarioError, match=r"step_s = fast: is no number"):
        read_run_table(path)
    with pytest.raises(ScenarioError, match=r"--where = nodes: is no column"):
        read_run_table(path, parse_selection(["nodes=2"], ""))
    with pytest.raises(ScenarioError, match=r"has no column and '='"):
        parse_selection(["tier"], "")
