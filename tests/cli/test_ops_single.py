"""simgpu ops of single ops: one product, one attention, several, and their table to fill in."""

import csv
import json
from pathlib import Path

import pytest

from simgpu.cli.op_tables import shape_text
from simgpu.pricing import one_op
from simgpu.workload.op import GroupedGemm, Timed
from tests.cli.ops_reports import SCENARIO, report, written


@pytest.fixture
def scenario(tmp_path):
    return written(tmp_path)


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


def test_shapes_in_one_line():
    grouped = GroupedGemm(name="x", groups=8, rows=100, n=16, k=32, busiest=20)
    assert shape_text(grouped) == "100 rows in 8 x 16 x 32 tn bf16"
    assert shape_text(Timed(name="x", duration_ns=1)) == "-"
