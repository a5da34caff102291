import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

from simgpu.cli.op_tables import shape_text
from simgpu.costs.gemm import gemm_ns
from simgpu.costs.operating_point import at_rate
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu
from simgpu.pricing import one_op
from simgpu.workload.op import Gemm, GroupedGemm, Timed

TRUTH = Path(__file__).parents[3] / "shared" / "truth"
SCENARIO = """\
model: {model}
cluster: {{topology: dgx-h100, gpus: 8}}
training: {{sequence_length: 2048, micro_batch_size: 1, global_batch_size: 8}}
parallel: {{tp: 4, pp: 2}}
"""
MEASURED = """id,gpu,dtype,m,n,k,time_us,notes
good,H100 80GB HBM3,bf16,8192,8192,8192,1500,
slow,H100 80GB HBM3,bf16,8192,8192,8192,3000,
dark,unstated,bf16,8192,8192,8192,1500,
alien,TPU v5,bf16,8192,8192,8192,1500,
odd,H100 80GB HBM3,int4,8192,8192,8192,1500,
"""


@pytest.fixture
def scenario(tmp_path):
    (tmp_path / "s.yaml").write_text(SCENARIO.format(model="llama-3-8b"))
    return "s.yaml"


def report(simgpu, *arguments):
    outcome = simgpu("ops", *arguments, "--json", "-")
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


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


def export(simgpu, scenario):
    assert simgpu("ops", scenario, "--csv", "my_ops.csv").code == 0
    with Path("my_ops.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def save(rows):
    with Path("my_ops.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def step_us(simgpu, scenario, *more):
    outcome = simgpu("run", scenario, "--no-html", "--json", "-", *more)
    assert outcome.code == 0, outcome.err
    (run,) = json.loads(outcome.out)["runs"]
    return run["step_time_ns"] / 1e3, run["op_table"], outcome.err


def test_an_exported_table_that_was_not_filled_in_changes_nothing(simgpu, scenario):
    rows = export(simgpu, scenario)
    assert len({tuple(row.items()) for row in rows}) == len(rows)
    plain, none, _ = step_us(simgpu, scenario)
    same, table, _ = step_us(simgpu, scenario, "--set", "costs.table=my_ops.csv")
    assert (same, none) == (plain, None)
    assert table == {"name": "my_ops.csv", "shapes": len(rows), "exact": 0, "interpolated": 0, "notes": []}


def test_a_filled_in_table_decides(simgpu, scenario):
    rows = export(simgpu, scenario)
    for row in rows:
        if row["op"] in ("attention.qkv", "norm1"):
            row["time_us"] = str(float(row["time_us"]) + 100)
    save(rows)
    (case,) = report(simgpu, scenario, "--set", "costs.table=my_ops.csv")["cases"]
    found = {row["op"]: row["source"] for row in case["rows"] if row["phase"] == "forward"}
    assert (found["attention.qkv"], found["norm1"], found["norm2"]) == ("table exact", "table exact", "model")
    assert case["table"]["exact"] == 2
    plain, _, _ = step_us(simgpu, scenario)
    slower, table, printed = step_us(simgpu, scenario, "--set", "costs.table=my_ops.csv")
    # Two stages of 16 blocks and 8 micro-batches in a pipeline of 9 slots: 2 x 100 us for each block that is passed.
    assert slower - plain == pytest.approx(2 * 100 * 16 * 9, rel=0.02)
    assert table["exact"] == 2
    assert f"2 of {table['shapes']} op shapes from my_ops.csv" in printed


def test_the_table_may_be_the_whole_step(simgpu, scenario):
    rows = export(simgpu, scenario)
    for row in rows:
        row["time_us"], row["model_us"] = "10", ""
    save(rows)
    (case,) = report(simgpu, scenario, "--set", "costs.table=my_ops.csv")["cases"]
    assert {(row["source"], row["time_us"]) for row in case["rows"]} == {("table exact", 10.0)}


def test_between_measured_shapes_it_says_interpolated(simgpu, scenario, tmp_path):
    (tmp_path / "t.csv").write_text("kind,m,n,k,time_us\ngemm,1024,1536,4096,50\ngemm,4096,1536,4096,200\n")
    (case,) = report(simgpu, scenario, "--set", "costs.table=t.csv")["cases"]
    (qkv,) = (row for row in case["rows"] if row["op"] == "attention.qkv")
    assert (qkv["source"], qkv["source_detail"]) == ("table interpolated", "t.csv")
    assert qkv["time_us"] == pytest.approx(100, rel=1e-4)


def test_one_gemm(simgpu):
    found = report(simgpu, "--gpu", "h100-sxm-80gb", "--gemm", "8192,8192,8192", "--dtype", "bf16")
    assert found["gpu"] == "H100-SXM5-80GB"
    (row,) = found["rows"]
    assert row["flops"] == 2 * 8192**3
    assert (row["kind"], row["bound"], row["source"]) == ("gemm", "compute", "model")
    assert 600 < row["tflops"] < 850


def test_one_attention(simgpu):
    arguments = ("--gpu", "a100-sxm4-80gb", "--attention", "1,8192,32,128,8")
    (causal,) = report(simgpu, *arguments)["rows"]
    (full,) = report(simgpu, *arguments, "--no-causal")["rows"]
    (backward,) = report(simgpu, *arguments, "--backward")["rows"]
    assert (causal["shape"]["kv_heads"], causal["shape"]["causal"]) == (8, True)
    assert full["flops"] == 2 * causal["flops"]
    assert 2 * backward["flops"] == 5 * causal["flops"]
    assert 1.7 < full["time_us"] / causal["time_us"] < 2.1
    assert 2 < backward["time_us"] / causal["time_us"] < 5


def test_one_op_and_a_scenario_run_the_same_attention_kernel(simgpu, scenario):
    (case,) = report(simgpu, scenario)["cases"]
    (core,) = (row for row in case["rows"] if row["op"] == "attention.core")
    asked = ",".join(str(core["shape"][size]) for size in ("batch", "sequence", "heads", "head_dim", "kv_heads"))
    outcome = simgpu("ops", "--gpu", "h100-sxm-80gb", "--attention", asked, "--json", "-")
    (alone,) = json.loads(outcome.out)["rows"]
    assert (alone["kernel"], alone["time_us"]) == (core["kernel"], core["time_us"]) == ("flash-2", core["time_us"])
    assert "causal bf16, flash-2" in outcome.err
    three = ("software.attention_kernel=flash-3", "flash-3")
    (case,) = report(simgpu, scenario, "--set", three[0])["cases"]
    (other,) = (row for row in case["rows"] if row["op"] == "attention.core")
    (named,) = report(simgpu, "--gpu", "h100-sxm-80gb", "--attention", asked, "--kernel", "Flash-3")["rows"]
    assert other["kernel"] == named["kernel"] == three[1]
    assert other["time_us"] == named["time_us"] < core["time_us"]


def test_the_kernel_that_runs_is_said_where_the_device_has_not_the_softwares(simgpu, scenario):
    (case,) = report(simgpu, scenario, "--set", "cluster.topology=hgx-b200", "--csv", "my_ops.csv")["cases"]
    assert {row["kernel"] for row in case["rows"] if row["kind"] == "attention"} == {"cudnn"}
    with Path("my_ops.csv").open(newline="") as file:
        assert {row["kernel"] for row in csv.DictReader(file) if row["kind"] == "attention"} == {"cudnn"}
    (row,) = report(simgpu, "--gpu", "p100", "--attention", "1,2048,8,128", "--dtype", "fp16")["rows"]
    assert row["kernel"] == "memory-efficient"  # FlashAttention does not run on Pascal


def test_both_gradients_of_a_product(simgpu):
    dgrad, wgrad = report(simgpu, "--gpu", "h200", "--gemm", "64,128,256,2", "--backward")["rows"]
    sizes = ("m", "n", "k", "batch", "layout")
    assert [dgrad["shape"][size] for size in sizes] == [64, 256, 128, 2, "nn"]
    assert [wgrad["shape"][size] for size in sizes] == [128, 256, 64, 2, "nt"]


@pytest.mark.parametrize(
    ("arguments", "flag"),
    [
        (("1,4096,16,128",), "M"),
        (("1,4096,16,512",), "E"),
        (("1,4096,16,128", "--dtype", "fp8"), "E"),
        (("1,4096,16,128", "--backward"), "M"),
        (("1,4096,16,128", "--backward", "--kernel", "flash-3"), "E"),
        (("1,4096,16,128", "--backward", "--kernel", "cudnn"), "E"),
    ],
)
def test_what_no_measurement_supports_is_said_to_be_extrapolated(simgpu, arguments, flag):
    (row,) = report(simgpu, "--gpu", "h100-sxm-80gb", "--attention", *arguments)["rows"]
    assert row["flag"] == flag


def test_traffic_above_the_memorys_bandwidth_is_said_to_be_in_the_cache(simgpu, tmp_path):
    small = SCENARIO.format(model="gpt2").replace("tp: 4, pp: 2", "tp: 1").replace("2048", "512")
    (tmp_path / "small.yaml").write_text(small)
    outcome = simgpu("ops", "small.yaml", "--json", "-")
    rows = [row for row in json.loads(outcome.out)["cases"][0]["rows"] if row["gb_per_s"] > 3350]
    assert rows
    assert all(row["l2"] for row in rows)
    assert "* more than the memory's nominal bandwidth: part of the traffic stays in L2" in outcome.err
    assert f"{rows[0]['gb_per_s']:.0f}*" in outcome.err


@pytest.mark.parametrize(
    ("settings", "notes"),
    [
        ((), []),
        (("costs.power_cap_w=500",), ["costs.rates and costs.power_cap_w change the model's times, not measured ones"]),
        (("costs.rates=peak",), ["costs.rates and costs.power_cap_w change the model's times, not measured ones"]),
    ],
)
def test_rates_and_caps_leave_measured_times_alone_and_it_is_said(simgpu, scenario, tmp_path, settings, notes):
    (tmp_path / "t.csv").write_text("kind,m,n,k,time_us\ngemm,2048,1536,4096,60\n")
    chosen = [part for setting in ("costs.table=t.csv", *settings) for part in ("--set", setting)]
    outcome = simgpu("ops", scenario, *chosen, "--json", "-")
    (case,) = json.loads(outcome.out)["cases"]
    (qkv,) = (row for row in case["rows"] if row["op"] == "attention.qkv")
    assert (qkv["time_us"], case["table"]["notes"]) == (60, notes)
    assert all(note in outcome.err for note in notes)


def test_a_measured_time_that_no_device_reaches_is_said(simgpu, scenario, tmp_path):
    (tmp_path / "t.csv").write_text("kind,m,n,k,time_us\ngemm,2048,1536,4096,0.06\n")
    _, table, printed = step_us(simgpu, scenario, "--set", "costs.table=t.csv")
    (note,) = table["notes"]
    assert note == (
        "1 of these times is faster than the datasheet allows, attention.qkv 434 times: are they microseconds?"
    )
    assert note in " ".join(printed.split())


def test_several_ops_at_once_and_their_table_to_fill_in(simgpu):
    outcome = simgpu("ops", "--gpu", "b200", "--gemm", "64,64,64", "--gemm", "64,64,64,8", "--csv", "x.csv")
    assert outcome.code == 0, outcome.err
    assert "8 x (64 x 64 x 64) tn bf16" in outcome.out
    assert [line.split(",")[:6] for line in Path("x.csv").read_text().splitlines()[1:]] == [
        ["gemm", "gemm", "64", "64", "64", "1"],
        ["gemm", "gemm", "64", "64", "64", "8"],
    ]


def test_the_same_from_python():
    name, (row,) = one_op("h100-sxm-80gb", gemm=["8192,8192,8192"], dtype="fp8")
    assert (name, row.op.dtype.value) == ("H100-SXM5-80GB", "fp8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "SCENARIO, --gemm, --attention or --table is missing; fix: such as simgpu ops SCENARIO"),
        (("--gpu", "h200"), "SCENARIO, --gemm, --attention or --table is missing"),
        (("--gemm", "1,2,3"), "--gpu is missing; fix: such as --gpu h100-sxm-80gb"),
        (("--gpu", "h100", "--gemm", "1,2,3"), "--gpu = h100: may be several GPUs; fix: name one: H100-SXM5-80GB"),
        (("--gpu", "h2000", "--gemm", "1,2,3"), "--gpu = h2000: is no GPU that SimGPU knows; allowed: "),
        (("--gpu", "h200", "--gemm", "1,2"), "--gemm = 1,2: has 2 numbers; allowed: M,N,K or M,N,K,BATCH"),
        (("--gpu", "h200", "--attention", "1,2,3"), "--attention = 1,2,3: has 3 numbers; allowed: BATCH,SEQUENCE"),
        (("--gpu", "h200", "--gemm", "1,2,3", "--dtype", "fp64"), "--dtype = fp64: is no number format; allowed: fp32"),
        (("--gpu", "h200", "--gemm", "1,2,3", "--rates", "fast"), "--rates = fast: 'fast' are no rates; allowed: peak"),
        (
            ("--gpu", "h200", "--gemm", "1,2,3", "--power-cap", "400 horses"),
            "--power-cap = 400 horses: is no power; allowed: a number of watts above 0, or a string such as '400 W'",
        ),
        (("--table", "x.csv", "--rates", "fast"), "--rates = fast: is no choice of rates; allowed: machine, peak"),
        (
            ("--gpu", "h200", "--gemm", "1,2,3", "--power-cap", "900"),
            "--power-cap = 900: H200-SXM5-141GB cannot be capp",
        ),
        (
            ("--gpu", "t4", "--gemm", "1,2,3", "--rates", "measured"),
            "--rates = measured: the matrix rate of T4 was not",
        ),
        (("four_vs_eigth",), "four_vs_eigth: there is no such scenario"),
        (
            ("four_vs_eight", "--rates", "peak"),
            "four_vs_eight is a scenario, whose costs.rates stands for --rates; fix: --set costs.rates=peak",
        ),
        (("four_vs_eight", "--power-cap", "400 W"), "fix: --set costs.power_cap_w='400 W'"),
        (("four_vs_eight", "--kernel", "cudnn"), "fix: --set software.attention_kernel=cudnn"),
        (
            ("--gpu", "h200", "--gemm", "1,2,3", "--rates", "machine"),
            "--rates = machine: is told from a measured table; allowed: peak, sustained, measured; fix: name the table",
        ),
        (("--gpu", "h200", "--gemm", "1,2,3", "--kernel", "cudnn"), "--kernel means nothing to --gemm; fix: leave it"),
        (("--gpu", "h200", "--gemm", "1,2,3", "--no-causal"), "--no-causal means nothing to --gemm"),
        (
            ("--gpu", "h200", "--attention", "1,2,3,64", "--kernel", "flash9"),
            "--kernel = flash9: is no attention kernel that SimGPU knows; allowed: flash-3, cudnn, flash-2",
        ),
        (
            ("--gpu", "a100-sxm4-80gb", "--attention", "1,2,3,64", "--kernel", "flash-3"),
            "--kernel = flash-3: is not modelled on A100-SXM4-80GB; allowed: flash-2",
        ),
        (
            ("--gpu", "a100-sxm4-80gb", "--attention", "1,2,3,64", "--kernel", "flash-2-paged", "--backward"),
            "--kernel = flash-2-paged: is a kernel of inference, without a backward pass; allowed: flash-2",
        ),
        (("four_vs_eight", "--gpu", "h200"), "four_vs_eight is a scenario: its GPUs and ops are its own"),
        (("--table", "x.csv", "--gpu", "h200"), "--table takes everything else from its file"),
        (("--table", "x.csv", "--csv", "y.csv"), "--table takes everything else from its file"),
        (("--table", "absent.csv"), "absent.csv: cannot be read: No such file"),
        (("--gpu", "h200", "--gemm", "1,2,3", "--set", "a=b"), "--set sets fields of a scenario"),
        (("--gpu", "h200", "--gemm", "1,2,3", "--csv", "no/x.csv"), "no/x.csv: cannot be written"),
        (("--gpu", "h200", "--gemm", "1,2,3", "--csv", "-"), "--csv - is not possible"),
        (("--gpu", "h200", "--gemm", "1,2,3", "--csv", "a", "--json", "a"), "--csv and --json both name a"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_one_sentence(simgpu, tmp_path, arguments, message):
    outcome = simgpu("ops", *arguments)
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_scenario_and_its_table_are_never_overwritten(simgpu, scenario):
    before = Path(scenario).read_text()
    export(simgpu, scenario)
    table = Path("my_ops.csv").read_text()
    for option, path in (("--csv", "my_ops.csv"), ("--json", "my_ops.csv"), ("--csv", scenario)):
        outcome = simgpu("ops", scenario, "--set", "costs.table=my_ops.csv", option, path)
        assert outcome.code == 2
        assert "was read for this run and would be replaced" in outcome.err
    assert (Path(scenario).read_text(), Path("my_ops.csv").read_text()) == (before, table)


def test_a_measured_table(simgpu, tmp_path):
    (tmp_path / "t.csv").write_text(MEASURED)
    outcome = simgpu("ops", "--table", "t.csv", "--json", "-")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert set(found) == {"groups", "mape", "bias", "skipped"}
    (group,) = found["groups"]
    assert set(group) == {"gpu", "op", "n", "mape", "bias"}
    assert (group["gpu"], group["op"], group["n"]) == ("H100-SXM5-80GB", "gemm", 2)
    predicted = one_op("h100-sxm-80gb", gemm=["8192,8192,8192"])[1][0].time_ns / 1e3
    errors = [predicted / 1500 - 1, predicted / 3000 - 1]
    assert group["bias"] == pytest.approx(sum(errors) / 2)
    assert group["mape"] == pytest.approx(sum(map(abs, errors)) / 2)
    assert (found["mape"], found["bias"]) == (group["mape"], group["bias"])
    assert found["skipped"] == [
        {"id": "dark", "reason": "gpu is unstated: 'unstated'"},
        {"id": "alien", "reason": "gpu is not in simgpu/data/gpus.csv: 'TPU v5'"},
        {"id": "odd", "reason": "number format is not modelled: int4"},
    ]
    for words in ("The worst 2", "Skipped", "slow", "8192 x 8192 x 8192 tn bf16"):
        assert words in outcome.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "t.csv: is no table of measured ops"),
        (MEASURED.replace("time_us", "time"), "of which it lacks time_us; allowed: ops: kind, time_us; gemm: gpu"),
        (MEASURED.splitlines()[0], "t.csv: has a header and no rows"),
        ("", "t.csv: is empty"),
        (
            MEASURED.replace("1500", "fast", 1),
            "t.csv:2: time_us = fast: is no number above 0; allowed: a number above 0",
        ),
        (MEASURED.replace("8192", "many", 1), "t.csv:2: m = many: is no such number; allowed: a whole number from 1"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(simgpu, tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    outcome = simgpu("ops", "--table", "t.csv", "--json", "out.json")
    assert outcome.code == 2
    assert message in outcome.err
    assert outcome.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def throttled(path, rate):
    """Write a table of a machine whose matrix rate is not the catalogue's."""
    device = at_rate(gpu("H100-SXM5-80GB"), rate)
    ops = [Gemm(name="", m=m, n=8192, k=8192) for m in range(2048, 16384, 1024)]
    lines = [f"{op.m},H100 SXM5 80GB,bf16,{op.m},{op.n},{op.k},{gemm_ns(op, device) / 1e3}" for op in ops]
    path.write_text("id,gpu,dtype,m,n,k,time_us\n" + "\n".join(lines) + "\n")


def test_a_machine_that_holds_another_rate_is_named_with_both_errors(simgpu, tmp_path):
    throttled(tmp_path / "t.csv", 500)
    outcome = simgpu("ops", "--table", "t.csv", "--json", "-")
    assert json.loads(outcome.out)["mape"] < 0.01
    words = " ".join(outcome.err.split())
    for part in ("held by this machine,", "MAPE, catalogue", " 500 ", "--rates sustained prices every row"):
        assert part in words
    plain = simgpu("ops", "--table", "t.csv", "--rate", "sustained", "--json", "-")
    assert json.loads(plain.out)["bias"] < -0.3
    assert "held by this machine" not in plain.err
    peak = simgpu("ops", "--table", "t.csv", "--rates", "peak", "--json", "-")
    assert json.loads(peak.out)["bias"] < json.loads(plain.out)["bias"]
    assert "datasheet" in peak.err


def test_measured_rates_alone_leave_the_rest_out(simgpu, tmp_path):
    rows = [f"{name},{gpu},bf16,8192,8192,8192,2000" for name, gpu in (("a", "H100-NVL-94GB"), ("b", "H100-SXM5-80GB"))]
    (tmp_path / "t.csv").write_text("\n".join(("id,gpu,dtype,m,n,k,time_us", *rows)))
    found = report(simgpu, "--table", "t.csv", "--rates", "measured")
    assert [group["gpu"] for group in found["groups"]] == ["H100-SXM5-80GB"]
    assert found["skipped"] == [{"id": "a", "reason": "the matrix rate of H100-NVL-94GB was not measured"}]


def test_a_table_without_a_row_that_can_be_compared_is_refused_with_the_reasons(simgpu, tmp_path):
    (tmp_path / "t.csv").write_text(
        "id,gpu,dtype,m,n,k,time_us\n"
        "a,A100-SXM4-80GB,fp8,8192,8192,8192,2000\nb,A100-SXM4-80GB,fp8,64,64,64,2\nc,TPU,bf16,64,64,64,2\n"
    )
    outcome = simgpu("ops", "--table", "t.csv", "--json", "x.json")
    assert outcome.code == 2
    assert outcome.err == (
        "error: t.csv: has no row that can be compared: A100-SXM4-80GB (Ampere) has no fp8 arithmetic (2 rows); "
        "gpu is not in simgpu/data/gpus.csv: 'TPU' (1 row)\n"
    )
    assert not (tmp_path / "x.json").exists()


def test_formats_that_a_device_lacks_and_times_that_none_reaches_are_not_compared(simgpu, tmp_path):
    (tmp_path / "t.csv").write_text(
        "id,gpu,dtype,m,n,k,time_us,node\n"
        "good,H100-SXM5-80GB,bf16,8192,8192,8192,1500,x\neight,H100-SXM5-80GB,fp8,8192,8192,8192,800,x\n"
        "a100,A100-SXM4-80GB,fp8,8192,8192,8192,2000,x\nv100,V100-SXM2-32GB,bf16,8192,8192,8192,9000,x\n"
        "t4,T4,bf16,1024,1024,1024,90,x\nfast,H100-SXM5-80GB,bf16,8192,8192,8192,111.13,x\n"
    )
    outcome = simgpu("ops", "--table", "t.csv", "--json", "-")
    found = json.loads(outcome.out)
    assert {one["id"]: one["reason"] for one in found["skipped"]} == {
        "a100": "A100-SXM4-80GB (Ampere) has no fp8 arithmetic",
        "v100": "V100-SXM2-32GB (Volta) has no bf16 arithmetic",
        "t4": "T4 (Turing) has no bf16 arithmetic",
        "fast": "time is impossible: 10 times as fast as the datasheet allows",
    }
    (eight,) = (line for line in outcome.err.splitlines() if "gemm.fp8" in line)
    rates = {dtype: round(gpu("H100-SXM5-80GB").sustained_tflops(dtype)) for dtype in (DType.FP8, DType.BF16)}
    assert f" {rates[DType.FP8]} " in eight
    assert f" {rates[DType.BF16]} " not in eight
    assert "Columns that were not read: node" in outcome.err


@pytest.mark.skipif(not TRUTH.is_dir(), reason="the measured tables are not here")
@pytest.mark.parametrize(
    ("name", "ops", "skipped"),
    [
        ("gemm_shapes_aic", {"gemm"}, set()),
        ("gemm_tflops", {"gemm", "gemm.fp8", "grouped_gemm.fp8"}, {"gpu"}),
        ("op_efficiency_matmul", {"gemm"}, set()),
        ("op_efficiency_group_matmul", {"grouped_gemm"}, set()),
        ("op_efficiency_sdp", {"attention.forward", "attention.backward"}, set()),
        ("attention_tflops", {"attention.forward", "attention.forward+backward"}, {"implementation", "rate"}),
        ("layer_times", {"layer.forward", "layer.backward"}, {"hardware", "times"}),
    ],
)
def test_real_tables_are_priced_or_skipped_row_by_row(simgpu, name, ops, skipped):
    path = TRUTH / f"{name}.csv"
    found = report(simgpu, "--table", path)
    assert {group["op"].split(" (")[0] for group in found["groups"]} == ops
    assert {one["reason"].split()[0] for one in found["skipped"]} <= skipped
    assert len(found["skipped"]) < len(path.read_text().splitlines())
    assert found["mape"] < 0.5  # a wrong FLOP count or unit would be off by a factor


def test_shapes_in_one_line():
    grouped = GroupedGemm(name="x", groups=8, rows=100, n=16, k=32, busiest=20)
    assert shape_text(grouped) == "100 rows in 8 x 16 x 32 tn bf16"
    assert shape_text(Timed(name="x", duration_ns=1)) == "-"


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


ATTENTION = """gpu,dtype,pass,impl,causal,head_dim,seq,tflops,batch,heads
H200-SXM5-141GB,bf16,fwd,FlashAttention-2,y,128,4096,350,4,16
A100-SXM4-80GB,bf16,fwd,FlashAttention-2,y,128,4096,180,4,16
"""


def test_rows_that_rest_on_assumed_constants_are_averaged_apart(simgpu, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(ATTENTION)
    outcome = simgpu("ops", "--table", str(path), "--wide")
    assert outcome.code == 0, outcome.err
    text = " ".join(outcome.out.split())
    assert "constants measured or scaled" in text
    assert "with one derived, assumed or extrapolated" in text
    assert "other constants assumed" in text


def test_impossible_times_of_layers_are_skipped(simgpu, tmp_path):
    path = tmp_path / "l.csv"
    path.write_text(
        "id,model,gpu,hidden,heads,seq,vocab,tp,micro_batch,seq_parallel,recompute,precision,fwd_ms,bwd_ms,notes\n"
        'x,GPT 22B,"A100-80GB (8, NVLink3/NVSwitch)",6144,64,2048,51200,8,4,n,none,fp16,0.001,0.001,'
        "no flash attention\n"
    )
    outcome = simgpu("ops", "--table", str(path))
    assert outcome.code == 2
    assert "times as fast as predicted" in " ".join((outcome.out + outcome.err).split())
