"""simgpu ops of a scenario: every op of its layers, and their sums."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.ops_reports import report, written


@pytest.fixture
def scenario(tmp_path):
    return written(tmp_path)


def test_every_op_of_a_layer(simgpu, scenario):
    outcome = simgpu("ops", scenario, "--json", "o.json")
    assert outcome.code == 0, outcome.err
    (case,) = json.loads(Path("o.json").read_text())["cases"]
    assert (case["names"], case["model"], case["gpu"], case["table"]) == (["s"], "llama-3-8b", "H100-SXM5-80GB", None)
    units = {(row["unit"], row["phase"]) for row in case["rows"]}
    assert units == {
        *((unit, phase) for unit in ("embedding", "block", "head") for phase in ("forward", "backward")),
        ("optimizer", "optimizer"),
    }
    rows = {(row["phase"], row["op"]): row for row in case["rows"]}
    # q of 32 heads and k, v of 8, each 128 wide, over tp = 4; 32 blocks and 8 micro-batches
    qkv = rows["forward", "attention.qkv"]
    assert {key: qkv["shape"][key] for key in ("m", "n", "k", "dtype")} == {
        "m": 2048, "n": 48 * 128 // 4, "k": 4096, "dtype": "bf16"
    }  # fmt: skip
    assert qkv["flops"] == 2 * 2048 * 1536 * 4096
    assert qkv["bytes"] == 2 * (2048 * 4096 + 4096 * 1536 + 2048 * 1536)
    assert (qkv["kind"], qkv["class"], qkv["bound"], qkv["per_step"]) == ("gemm", "gemm", "compute", 32 * 8)
    assert qkv["tflops"] == pytest.approx(qkv["flops"] / qkv["time_us"] / 1e6)
    assert qkv["gb_per_s"] == pytest.approx(qkv["bytes"] / qkv["time_us"] / 1e3)
    assert (qkv["source"], qkv["flag"]) == ("model", "M")
    assert qkv["source_detail"].startswith("H100-SXM5-80GB: ")
    assert rows["backward", "attention.qkv.dgrad"]["flops"] == rows["backward", "attention.qkv.wgrad"]["flops"]
    for words in ("block, forward", "attention.qkv", "2048 x 1536 x 4096 tn bf16", "stage 1", "per step", "M measured"):
        assert words in outcome.out


def test_totals_are_sums_of_rows(simgpu, scenario):
    (case,) = report(simgpu, scenario)["cases"]
    rows, totals = case["rows"], case["totals"]
    for total in totals:
        own = [row for row in rows if (row["unit"], row["phase"]) == (total["unit"], total["phase"])]
        assert total["time_us"] == pytest.approx(sum(row["time_us"] * row["per_step"] for row in own))
        assert total["flops"] == sum(row["flops"] * row["per_step"] for row in own)
        assert total["time_us_per_pass"] == pytest.approx(total["time_us"] / total["passes"])
    passes = {(total["unit"], total["phase"]): total["passes"] for total in totals}
    assert passes["block", "forward"] == passes["block", "backward"] == 32 * 8
    assert passes["head", "forward"] == 8
    assert passes["optimizer", "optimizer"] == 2  # one for each stage
    assert case["step"]["time_us"] == pytest.approx(sum(total["time_us"] for total in totals))
    assert case["step"]["time_us"] == pytest.approx(sum(stage["time_us"] for stage in case["stages"]))
    assert len(case["stages"]) == 2


def test_kernels_of_a_single_gpu_without_a_host_are_the_step(simgpu, tmp_path):
    (tmp_path / "one.yaml").write_text(
        "model: gpt2\ncluster: {topology: dgx-h100, gpus: 1}\n"
        "training: {sequence_length: 1024, micro_batch_size: 8, global_batch_size: 16}\n"
    )
    (case,) = report(simgpu, "one.yaml")["cases"]
    played = simgpu("run", "one.yaml", "--no-html", "--json", "-")
    assert played.code == 0, played.err
    breakdown = json.loads(played.out)["runs"][0]["breakdown_ns"]
    busy = sum(time for name, time in breakdown.items() if name.startswith("compute."))
    assert case["step"]["time_us"] * 1e3 == pytest.approx(busy, abs=1)


def test_cases_with_the_same_ops_are_listed_once(simgpu):
    cases = report(simgpu, "pipeline_bubble")["cases"]
    assert sum(len(case["names"]) for case in cases) > 1
    rows = [json.dumps([case["rows"], case["totals"]]) for case in cases]
    assert len(set(rows)) == len(rows)


def test_a_synthetic_model_has_given_times_and_nothing_to_fill_in(simgpu):
    (case, *_) = report(simgpu, "pipeline_ideal", "--csv", "x.csv")["cases"]
    assert {(row["kind"], row["bound"], row["source"]) for row in case["rows"]} == {("timed", "given", "given")}
    assert len(Path("x.csv").read_text().splitlines()) == 1


@pytest.mark.parametrize("kind", ["ddp", "zero1", "zero2", "zero3", "fsdp1", "fsdp"])
def test_every_way_of_sharding_lists_its_ops(simgpu, tmp_path, kind):
    """What only the CPU does, such as ZeRO-3's module hooks, is no op of the GPU."""
    outcome = simgpu("ops", "zero_stages", "--set", f"parallel.data_parallel={kind}", "--csv", tmp_path / "ops.csv")
    assert outcome.code == 0, outcome.err
    assert "module hooks" not in (tmp_path / "ops.csv").read_text()


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_tables_fit_the_terminal_and_say_what_they_leave_out(simgpu, scenario, monkeypatch, width):
    monkeypatch.setattr("simgpu.cli.destination._PIPE_WIDTH", width)
    lines = simgpu("ops", scenario).out.splitlines()
    assert max(map(len, lines)) <= width
    end = " ".join(" ".join(lines).split())
    assert ("Left out in" in end) == (width < 160)
    for name in ("attention.core", "mlp.gate_up", "TFLOP/s", "GB/s", "block, backward"):
        assert name in end
    assert not any("…" in line for line in lines)
    wide = simgpu("ops", scenario, "--wide").out
    assert "Left out in" not in wide
    assert all(name in wide for name in ("GFLOP", "source", "per step", "2048 x 1536 x 4096 tn bf16"))


def test_a_scenarios_ops_need_neither_the_graph_library_nor_the_statistics_module(simgpu, scenario):
    """What a short command would spend a third of its time on; no test asserts wall time."""
    code = (
        "import sys; from simgpu.cli.ops import OneOp, ops_command; "
        f"ops_command({scenario!r}, OneOp(), overrides=(), table=None, csv=None, json=None); "
        "print([name for name in ('networkx', 'statistics', 'pandas', 'plotly', 'rich.table') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
