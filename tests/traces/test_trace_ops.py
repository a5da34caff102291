"""From a profiler's trace to a table of measured ops that costs.table takes."""

import csv
import json
from pathlib import Path

import pytest

from simgpu.config import load_cases
from simgpu.io.json_stream import TraceStream
from simgpu.io.kineto_ops import OpCalls
from simgpu.workload.op import Attention, Gemm

REAL = Path(__file__).parents[3] / "shared" / "inputs" / "kineto-traces"
HEADER = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}], "distributedInfo": {"rank": 0}}


def call(name, number, ts, dims, *, strides=None, dtype="c10::BFloat16", concrete=None, dur=100, launch=True):
    """One op on the CPU, its launch, and its kernel of 7 us and a bit."""
    args = {"External id": number, "Input Dims": dims, "Input type": [dtype] * len(dims)}
    args |= {"Input Strides": strides} if strides else {}
    args |= {"Concrete Inputs": concrete} if concrete else {}
    yield {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}
    if launch:
        launched = {"correlation": 9000 + number}
        yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": ts + dur // 2,
               "dur": 3, "args": launched}  # fmt: skip
    yield {"ph": "X", "cat": "kernel", "name": "ampere_gemm", "pid": 0, "tid": 7, "ts": ts + 1000, "dur": 7 + number,
           "args": {"correlation": 9000 + number, "External id": number if not launch else 9000 + number, "stream": 7,
                    "device": 0}}  # fmt: skip


def trace(tmp_path, *calls, name="t.json"):
    path = tmp_path / name
    path.write_text(json.dumps({**HEADER, "traceEvents": [event for one in calls for event in one]}))
    return path


def read_kineto_ops(path):
    """One pass over a trace for its ops alone."""
    calls = OpCalls()
    for event in TraceStream(path):
        calls.take(event)
    return calls.ops()


ROW, COLUMN = [4096, 1], [1, 4096]


@pytest.mark.parametrize(
    ("strides", "layout"),
    [([ROW, COLUMN], "tn"), ([ROW, ROW], "nn"), ([COLUMN, ROW], "nt")],
)
def test_a_product_and_its_layout(tmp_path, strides, layout):
    path = trace(tmp_path, call("aten::mm", 1, 0, [[2048, 4096], [4096, 1024]], strides=strides))
    (one,) = read_kineto_ops(path).ops
    assert one.op == Gemm(name="aten::mm", m=2048, n=1024, k=4096, layout=layout)
    assert one.time_ns == 8000


def test_without_strides_the_weights_of_addmm_tell_the_layout(tmp_path):
    path = trace(
        tmp_path,
        call("aten::addmm", 1, 0, [[1024], [2048, 4096], [4096, 1024]]),
        call("aten::mm", 2, 200, [[2048, 1024], [1024, 4096]]),
        call("aten::mm", 3, 400, [[1024, 2048], [2048, 4096]]),
    )
    assert [(one.op.layout, one.op.m) for one in read_kineto_ops(path).ops] == [
        ("tn", 2048), ("nn", 2048), ("nt", 1024),
    ]  # fmt: skip


def test_batches_and_tf32(tmp_path):
    events = [list(call("aten::bmm", 1, 0, [[32, 128, 64], [32, 64, 128]], dtype="float"))]
    events[0][-1]["name"] = "ampere_tf32_s1688gemm"
    (one,) = read_kineto_ops(trace(tmp_path, *events)).ops
    assert (one.op.batch, one.op.dtype.value) == (32, "tf32")


def test_attention_forward_and_backward_by_the_innermost_call(tmp_path):
    qkv = [[4, 2048, 32, 128], [4, 2048, 8, 128], [4, 2048, 8, 128]]
    outer = [[4, 32, 2048, 128], [4, 8, 2048, 128], [4, 8, 2048, 128]]
    forward = ["", "", "", "", "", "2048", "2048", "0.", "True", "False"]
    backward = [""] * 8 + ["2048", "2048", "0.", "True"]
    outside = next(
        iter(
            call("aten::_scaled_dot_product_flash_attention", 8, 0, outer, concrete=[""] * 3 + ["0.", "True"], dur=150)
        )
    )
    path = trace(
        tmp_path,
        [outside],
        call("aten::_flash_attention_forward", 1, 10, qkv, concrete=forward),
        call("aten::_flash_attention_backward", 2, 300, [qkv[0], *qkv], concrete=backward),
    )
    found = read_kineto_ops(path).ops
    shape = {"batch": 4, "sequence": 2048, "heads": 32, "kv_heads": 8, "head_dim": 128, "kernel": "flash-2"}
    assert [one.op for one in found] == [
        Attention(name="aten::_flash_attention_forward", **shape),
        Attention(name="aten::_flash_attention_backward", backward=True, **shape),
    ]


def test_kernels_without_launches_go_by_their_external_id(tmp_path):
    path = trace(tmp_path, call("aten::mm", 5, 0, [[64, 64], [64, 64]], launch=False))
    assert [one.time_ns for one in read_kineto_ops(path).ops] == [12_000]


def test_what_is_left_out_is_counted_by_its_reason(tmp_path):
    path = trace(
        tmp_path,
        call("aten::mm", 1, 0, [[64, 64]]),
        call("aten::mm", 2, 200, [[64, 64], [64, 64]], dtype="double"),
        call("aten::mm", 3, 400, [[64, 32], [64, 64]]),
        call("aten::_flash_attention_forward", 4, 600, [[1, 8, 1, 8]] * 3),
    )
    found = read_kineto_ops(path)
    assert found.ops == ()
    assert sorted(found.left.values()) == [1, 1, 1, 1]
    assert any("record_shapes" in reason for reason in found.left)


def test_the_table_prices_a_scenario_with_the_measured_times(simgpu, tmp_path):
    """A layer of Llama-2-7B: its output projection takes what the trace says, 8 us and 9 us: the median."""
    dims = [[4096, 4096], [4096, 4096]]
    path = trace(
        tmp_path,
        call("aten::mm", 1, 0, dims, strides=[ROW, COLUMN]),
        call("aten::mm", 2, 200, dims, strides=[ROW, COLUMN]),
    )
    outcome = simgpu("trace", str(path), "--ops", str(tmp_path / "ops.csv"))
    assert outcome.code == 0, outcome.err
    assert "1 shape of 2 calls" in outcome.out
    with (tmp_path / "ops.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["kind"], row["m"], row["gpu"], row["time_us"]) == ("gemm", "4096", "A100-SXM4-80GB", "8.5")
    (case,) = load_cases(
        {
            "model": "llama-2-7b",
            "cluster": {"topology": "dgx-a100", "gpus": 1},
            "training": {"sequence_length": 4096, "micro_batch_size": 1},
            "costs": {"table": str(tmp_path / "ops.csv")},
        }
    )
    table = case.costs.table
    assert table is not None
    assert table.time(Gemm(name="proj", m=4096, n=4096, k=4096)).time_ns == 8500


def test_no_op_at_all_is_one_message_and_no_file(simgpu, tmp_path):
    path = trace(tmp_path, call("aten::mul", 1, 0, [[64, 64], [64, 64]]))
    outcome = simgpu("trace", str(path), "--ops", str(tmp_path / "ops.csv"))
    assert outcome.code == 2
    assert "no call of aten::mm" in " ".join(outcome.err.split())
    assert not (tmp_path / "ops.csv").exists()


@pytest.mark.skipif(not REAL.is_dir(), reason="the collected traces are not here")
def test_real_traces():
    """Every launch lies within its op: six steps of ResNet-50 have its last layer forward and backward."""
    found = read_kineto_ops(REAL / "kineto-tb-resnet50-v100-steps.json.gz")
    layouts = [one.op.layout for one in found.ops]
    assert [layouts.count(layout) for layout in ("tn", "nn", "nt")] == [6, 6, 6]
    assert {(one.op.m, one.op.n, one.op.k) for one in found.ops if one.op.layout == "tn"} == {(32, 1000, 2048)}
    bert = read_kineto_ops(REAL / "tracelens-mi300-bert-small.json.gz")
    assert sum(isinstance(one.op, Attention) for one in bert.ops) == 4
