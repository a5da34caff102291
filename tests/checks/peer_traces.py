"""What broke tools that read traces, or made them answer wrongly, tried on ours."""

from __future__ import annotations

import json
from dataclasses import replace

from simgpu.checks import check_traces
from simgpu.io.kineto_reader import read_kineto
from simgpu.metrics.trace_report import report_traces
from tests.checks.trace_events import breakdown, kernel, launch
from tests.checks.tried import Tried, case

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def older_traces(tried: Tried) -> None:
    old = [
        {**kernel("gemm", 0, 10, correlation=1), "cat": "Kernel"},
        {**kernel(REDUCE, 10, 30, stream=20, correlation=2), "cat": "Kernel"},
        {**launch(-4, 1), "cat": "Runtime"},
    ]
    new = [kernel("gemm", 0, 10, correlation=1), kernel(REDUCE, 10, 30, stream=20, correlation=2), launch(-4, 1)]
    assert breakdown(tried.trace(old)) == breakdown(tried.trace(new)) == {"compute.gemm": 10, "exposed+wait": 20}


def cpu_only_traces(tried: Tried) -> None:
    path = tried.written(
        "t.json", {"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 0, "dur": 5}]}
    )
    text = tried.refused("trace", path)
    assert "there is no GPU event in it (CPU only, or the profiler ran without CUDA activities)" in text


def types_from_kernels(tried: Tried) -> None:
    host = {"ph": "X", "cat": "cpu_op", "name": "nccl:broadcast", "ts": 0, "dur": 1, "args": {}}
    report = tried.trace([host, kernel(REDUCE, 0, 20, stream=20), kernel("gemm", 5, 15, correlation=2)])
    assert breakdown(report) == {"compute.gemm": 10, "exposed+wait": 10}, "streams without an event have no order"
    (moved,) = [event for event in report.ranks[0].trace.events if event.kind == "collective"]
    assert "AllReduce" in moved.name


def traces_without_a_rank(tried: Tried) -> None:
    report = tried.trace([kernel("gemm", 0, 10), launch(0, 1)])
    assert breakdown(report) == {"compute.gemm": 10}
    assert "there is no distributedInfo with a rank" in report.ranks[0].trace.warnings
    some = tried.folder / "some"
    some.mkdir()
    ranks = {"compute.gemm": 10}
    for rank in (0, 2):  # 1 and 3 are missing
        info = {"distributedInfo": {"rank": rank, "world_size": 4}}
        (some / f"{rank}.json").write_text(json.dumps({**info, "traceEvents": [kernel("gemm", 0, 10), launch(0, 1)]}))
    found = report_traces([read_kineto(some / f"{rank}.json") for rank in (0, 2)])
    assert [breakdown(replace(found, ranks=(rank,))) for rank in found.ranks] == [ranks, ranks]
    assert check_traces(case(), found).measured_ns == 10_000


def names_of_nccl(tried: Tried) -> None:
    names = (
        "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", REDUCE, "ncclDevKernel_SendRecv(ncclDevComm*)",
        "ncclKernel_AllGather_RING_SIMPLE_Sum_int8_t", "rcclGenericKernel_6_1",
        "ncclDevKernel_Generic_4(ncclDevKernelArgs)",
    )  # fmt: skip
    for name in names:
        assert breakdown(tried.trace([kernel(name, 0, 10, stream=20), launch(0, 1)])) == {"exposed+wait": 10}, name


def what_is_no_kernel(tried: Tried) -> None:
    others = [
        {**kernel("Context Sync", 0, 100), "cat": "cuda_sync"},
        {**kernel("ProfilerStep#1", 0, 100), "cat": "gpu_user_annotation"},
    ]
    report = tried.trace(
        [*others, kernel("gemm", 0, 10), kernel(REDUCE, 10, 30, stream=20, correlation=2), launch(-1, 1)]
    )
    assert breakdown(report) == {"compute.gemm": 10, "exposed+wait": 20}


def cut_traces(tried: Tried) -> None:
    whole = json.dumps({"traceEvents": [kernel("gemm", 10 * at, 10 * at + 10, correlation=at) for at in range(100)]})
    path = tried.written("cut.json", whole[: len(whole) * 2 // 3])
    found = read_kineto(path)
    assert 50 < len(found.events) < 100
    assert any(text.startswith("truncated: the file ends") for text in found.warnings)
    outcome = tried.simgpu("trace", path)
    assert outcome.code == 0
    assert "truncated" in outcome.out


def streams_of_two_gpus(tried: Tried) -> None:
    both = [
        kernel("gemm", 0, 10, args={"device": 0}, pid=0, tid=7),
        kernel("gemm", 10, 20, correlation=2, args={"device": 0}, pid=0, tid=7),
        kernel("gemm", 5, 95, correlation=3, args={"device": 1}, pid=1, tid=7),
    ]
    report = tried.trace(both)
    assert breakdown(report) == {"compute.gemm": 20}
    assert any("those of GPU 1 are left out" in text for text in report.ranks[0].trace.warnings)
