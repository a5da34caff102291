"""Measured tables beside the model: errors, what is skipped, and what is refused."""

import json
from pathlib import Path

import pytest

from simgpu.costs.gemm import gemm_ns
from simgpu.costs.operating_point import at_rate
from simgpu.dtypes import DType
from simgpu.hardware.gpu import gpu
from simgpu.pricing import one_op
from simgpu.workload.op import Gemm
from tests.cli.ops_reports import report

TRUTH = Path(__file__).parents[3] / "shared" / "truth"
MEASURED = """id,gpu,dtype,m,n,k,time_us,notes
good,H100 80GB HBM3,bf16,8192,8192,8192,1500,
slow,H100 80GB HBM3,bf16,8192,8192,8192,3000,
dark,unstated,bf16,8192,8192,8192,1500,
alien,TPU v5,bf16,8192,8192,8192,1500,
odd,H100 80GB HBM3,int4,8192,8192,8192,1500,
"""
ATTENTION = """gpu,dtype,pass,impl,causal,head_dim,seq,tflops,batch,heads
H200-SXM5-141GB,bf16,fwd,FlashAttention-2,y,128,4096,350,4,16
A100-SXM4-80GB,bf16,fwd,FlashAttention-2,y,128,4096,180,4,16
"""


def throttled(path, rate):
    """Write a table of a machine whose matrix rate is not the catalogue's."""
    device = at_rate(gpu("H100-SXM5-80GB"), rate)
    ops = [Gemm(name="", m=m, n=8192, k=8192) for m in range(2048, 16384, 1024)]
    lines = [f"{op.m},H100 SXM5 80GB,bf16,{op.m},{op.n},{op.k},{gemm_ns(op, device) / 1e3}" for op in ops]
    path.write_text("id,gpu,dtype,m,n,k,time_us\n" + "\n".join(lines) + "\n")


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
