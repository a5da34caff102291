"""Exported traces: nesting, tracks, counters; and what reading them back says."""

import gzip
import json
from collections import defaultdict

import pytest

from simgpu.api import facts, play_case
from simgpu.cli.one_case import one_case
from simgpu.config import load_scenario
from simgpu.io.kineto import write_kineto
from simgpu.io.kineto_reader import read_kineto, trace_files
from simgpu.io.perfetto import write_perfetto
from simgpu.metrics.intervals import intersection, length, union
from simgpu.metrics.summary import summarize
from simgpu.metrics.trace_report import report_traces
from simgpu.metrics.trace_slices import trace_slices

IDEAL = {
    "model": {"stages": 2, "forward_ns": "1 ms", "backward_ns": "2 ms"},
    "cluster": {"topology": "dgx-a100", "gpus": 2},
    "training": {"micro_batch_size": 1, "global_batch_size": 4},
    "parallel": {"pp": 2},
}
CASES = (("zero_stages", "ZeRO-3"), ("pipeline_bubble", "M = 8"), ("tp_across_nodes", "A100, TP 8"))


def played(scenario, name, overrides=()):
    case = one_case(scenario, name=name, overrides=overrides)
    timeline = play_case(case, fold=False)
    return timeline, summarize(timeline, facts(case))


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0])
def run(request):
    return played(*request.param)


def complete(events):
    """Complete events by track, in nanoseconds."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            tracks[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000), event))
    return tracks


def test_perfetto_rules(run, tmp_path):
    timeline, report = run
    path = tmp_path / "step.json.gz"
    count = write_perfetto(path, report)
    data = json.loads(gzip.decompress(path.read_bytes()))
    events = data["traceEvents"]
    assert len(events) == count
    assert all(event["pid"] >= 0 and event.get("tid", 1) >= 1 for event in events)  # tid 0 would become the pid
    for spans in complete(events).values():
        open_until = []
        for start, end, _ in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or end <= open_until[-1], "slices of a track must nest"
            open_until.append(end)
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= named
    flows = defaultdict(set)
    for event in events:
        if event["ph"] in "sf":
            flows[event["id"]].add(event["ph"])
    assert all(ends == {"s", "f"} for ends in flows.values())
    sends = sum(piece.kind == "send" for rank in range(len(report.ranks)) for piece in trace_slices(timeline, rank))
    assert len(flows) == sends


def test_perfetto_counters_say_what_the_report_says(run, tmp_path):
    _, report = run
    path = tmp_path / "step.json"
    write_perfetto(path, report)
    events = json.loads(path.read_text())["traceEvents"]
    for pid, rank in enumerate(report.ranks, start=1):
        held, peak = {}, 0
        counters = [e for e in events if e["ph"] == "C" and e["pid"] == pid]
        for position, event in enumerate(counters):
            held |= event["args"]
            if position + 1 == len(counters) or counters[position + 1]["ts"] != event["ts"]:
                peak = max(peak, sum(held.values()))
        assert peak == pytest.approx(rank.peak_memory_bytes / 2**30, abs=1e-4)


def test_same_step_same_bytes(run, tmp_path):
    timeline, _ = run
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_kineto(tmp_path / name, timeline)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_kineto_read_back(run, tmp_path):
    """Compute, exposed communication and overlap survive the trip to the nanosecond."""
    timeline, report = run
    write_kineto(tmp_path, timeline)
    found = report_traces([read_kineto(path) for path in trace_files([tmp_path])])
    assert found.matched == found.collectives > 0
    assert [rank.trace.rank for rank in found.ranks] == [rank.rank for rank in report.ranks]
    for traced, rank in zip(found.ranks, report.ranks, strict=True):
        (step,) = traced.steps
        assert sum(step.breakdown_ns.values()) == step.step_time_ns
        busy = union((b.start_ns, b.end_ns) for b in rank.bars if b.kind == "compute")
        talking = union((b.start_ns, b.end_ns) for b in rank.bars if b.kind == "transfer" and b.bytes)
        copying = union((b.start_ns, b.end_ns) for b in rank.bars if b.kind == "transfer" and not b.bytes)
        for name in ("gemm", "attention", "optimizer"):
            assert step.breakdown_ns[f"compute.{name}"] == rank.breakdown_ns[f"compute.{name}"]
        copies = length(copying) - length(intersection(copying, busy))
        assert step.breakdown_ns["compute.memory_bound"] == rank.breakdown_ns["compute.memory_bound"] + copies
        assert step.communication_ns == length(talking)
        assert step.hidden_ns == length(intersection(talking, busy))
        covered = union([*busy, *copying])
        assert step.breakdown_ns["exposed"] == length(talking) - length(intersection(talking, covered))


def test_spinning_kernels_are_parted_again(tmp_path):
    """With waits in the kernels, as a profiler shows them, matching finds the bytes' own time."""
    timeline, report = played("pipeline_bubble", "M = 8")
    plain, spinning = (traced(tmp_path, timeline, waits=waits) for waits in (False, True))
    assert plain["wait"] == 0
    assert spinning["exposed"] == pytest.approx(plain["exposed"])
    assert spinning["wait"] == pytest.approx(report.breakdown_ns["bubble"], rel=0.01)


def traced(folder, timeline, *, waits):
    """Export, read back, and return the mean breakdown."""
    folder = folder / str(waits)
    folder.mkdir()
    write_kineto(folder, timeline, waits=waits)
    return report_traces([read_kineto(path) for path in trace_files([folder])]).breakdown_ns


def test_kineto_launches(run, tmp_path):
    """Every kernel has a launch of its own, no later than itself, in the order of its stream."""
    timeline, _ = run
    write_kineto(tmp_path, timeline)
    events = json.loads(gzip.decompress((tmp_path / "rank0.json.gz").read_bytes()))["traceEvents"]
    assert events[0]["ph"] == "M"
    launches = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    kernels = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy")]
    assert len(launches) == len(kernels)
    last = {}
    for kernel in kernels:
        launch = launches[kernel["args"]["correlation"]]
        assert launch["ts"] <= kernel["ts"]
        assert launch["ts"] >= last.get(kernel["tid"], 0)
        last[kernel["tid"]] = launch["ts"]
        assert kernel["tid"] == kernel["args"]["stream"] > 0
    assert '"rank": 0' in gzip.decompress((tmp_path / "rank0.json.gz").read_bytes()).decode()


def test_names_from_files_stay_text(tmp_path):
    name = 'a "b" </script>'
    case = load_scenario({**IDEAL, "name": name}).cases[0]
    path = tmp_path / "step.json"
    write_perfetto(path, summarize(play_case(case), facts(case)))
    assert json.loads(path.read_text())["otherData"]["title"] == name
