"""Real traces, cut ones, empty ones, and none at all."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from simgpu.errors import ScenarioError
from simgpu.io.json_stream import TraceStream
from simgpu.io.kineto_reader import read_kineto, trace_files
from simgpu.metrics.trace_breakdown import TRACE_CLASSES
from simgpu.metrics.trace_report import report_traces

REAL = Path(__file__).parents[3] / "shared" / "inputs" / "kineto-traces"
real = pytest.mark.skipif(not REAL.is_dir(), reason="the real traces are not here")


def kernel(name, start_us, end_us, *, stream=7, launched_us=None, correlation=1, **args):
    """A GPU kernel, and its launch when there is one."""
    ids = {"stream": stream, "correlation": correlation, **args}
    found = [{"ph": "X", "cat": "kernel", "name": name, "ts": start_us, "dur": end_us - start_us, "args": ids}]
    if launched_us is not None:
        call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launched_us, "dur": 1}
        found.append({**call, "args": {"correlation": correlation}})
    return found


def trace(path, events, *, rank=0, world=1):
    info = {"rank": rank, "world_size": world}
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}))
    return read_kineto(path)


def test_by_hand(tmp_path):
    events = [
        *kernel("sm90_gemm", 0, 10, launched_us=-5, correlation=1),
        *kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 5, 25, stream=20, launched_us=0, correlation=2),
        *kernel("vectorized_elementwise", 12, 15, launched_us=1, correlation=3),
        *kernel("flash_fwd", 40, 50, launched_us=30, correlation=4),  # the GPU idled from 25, the CPU came at 30
        *kernel("elementwise", 53, 60, launched_us=41, correlation=5),  # launched long before: nobody knows why
    ]
    (rank,) = report_traces([trace(tmp_path / "t.json", events, world=2)]).ranks
    (step,) = rank.steps
    told = {name: value / 1000 for name, value in step.breakdown_ns.items() if value}
    assert told == {
        "compute.gemm": 10,
        "compute.attention": 10,
        "compute.memory_bound": 3 + 7,
        "exposed+wait": 2 + 10,  # 10-12 and 15-25
        "host": 15,
        "unattributed": 3,
    }
    assert (step.communication_ns, step.hidden_ns) == (20_000, 8_000)


def test_matched_ranks_part_waiting_from_moving(tmp_path):
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    group = {"Process Group Name": "0", "Process Group Ranks": "[0, 1]"}
    early = trace(tmp_path / "a.json", [*kernel("gemm", 0, 10), *kernel(name, 10, 40, stream=20, **group)], world=2)
    # the other host's clock is far off, which does not matter
    late = [*kernel("gemm", 1000, 1025), *kernel(name, 1025, 1040, stream=20, **group)]
    report = report_traces([early, trace(tmp_path / "b.json", late, rank=1, world=2)])
    assert (report.collectives, report.matched) == (2, 2)
    first, second = (rank.steps[0].breakdown_ns for rank in report.ranks)
    assert (first["wait"], first["exposed"]) == (15_000, 15_000)
    assert (second["wait"], second["exposed"]) == (0, 15_000)
    alone = report_traces([early])
    assert alone.matched == 0
    assert alone.ranks[0].steps[0].breakdown_ns["exposed+wait"] == 30_000


def test_steps(tmp_path):
    """A step begins with the first kernel launched in it, however late that runs."""
    note = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 100 * n, "dur": 100} for n in (1, 2)
    ]
    events = [
        *note,
        *kernel("gemm", 150, 240, launched_us=110, correlation=1),
        *kernel("gemm", 240, 300, launched_us=210, correlation=2),
    ]
    (rank,) = report_traces([trace(tmp_path / "t.json", events)]).ranks
    assert [(step.name, step.step_time_ns) for step in rank.steps] == [
        ("ProfilerStep#1", 90_000),
        ("ProfilerStep#2", 60_000),
    ]


@pytest.mark.parametrize("packed", ["plain", "gz", "xz"])
@pytest.mark.parametrize("kept", [0.3, 0.7, 0.95])
def test_a_cut_file_is_salvaged(packed, kept, tmp_path):
    text = json.dumps({"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": f"event {n}"} for n in range(5000)]})
    content = {"plain": bytes, "gz": gzip.compress, "xz": lzma.compress}[packed](text.encode())
    path = tmp_path / "cut"
    path.write_bytes(content[: int(len(content) * kept)])
    stream = TraceStream(path)
    events = list(stream)
    assert 0 < len(events) < 5000
    assert [event["name"] for event in events] == [f"event {n}" for n in range(len(events))]
    assert "the file ends" in stream.fault


def test_a_whole_file_has_no_fault(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('  {"a": {"b": [1, NaN]}, "traceEvents": [{"x": 1.5} , {"y": "\\u00e9]"}], "after": "z" }\n')
    stream = TraceStream(path)
    assert [str(event) for event in stream] == ["{'x': Decimal('1.5')}", "{'y': 'é]'}"]
    assert (stream.header["after"], stream.fault) == ("z", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no trace"),
        ("hello", "is no trace"),
        ("{}", "has no traceEvents"),
        ('{"a": 1', "has no traceEvents"),
        ('{"a" 1}', "has no traceEvents"),
    ],
)
def test_no_trace(text, message, tmp_path):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=message):
        read_kineto(path)


def test_absent(tmp_path):
    with pytest.raises(ScenarioError, match="is not there"):
        trace_files([tmp_path / "x.json"])
    with pytest.raises(ScenarioError, match="without a trace"):
        trace_files([tmp_path])


@real
@pytest.mark.parametrize("path", sorted(REAL.glob("*")), ids=lambda path: path.name)
def test_real(path):
    """Classes sum to the step, to the nanosecond; what has no GPU says so."""
    found = read_kineto(path)
    (rank,) = report_traces([found]).ranks
    assert bool(rank.steps) == bool(found.events)
    if not found.events:
        assert any("no GPU event" in text for text in found.warnings)
    for step in rank.steps:
        assert tuple(step.breakdown_ns) == TRACE_CLASSES
        assert sum(step.breakdown_ns.values()) == step.step_time_ns > 0
        assert min(step.breakdown_ns.values()) >= 0


@real
def test_real_figures():
    """Facts that the traces' own descriptions give: data loading, eager DLRM, a small BERT that waits for the CPU."""
    resnet = report_traces([read_kineto(REAL / "kineto-tb-resnet50-v100-steps.json.gz")])
    assert 0.3 < resnet.breakdown_ns["host"] / resnet.step_time_ns < 0.5  # num_workers=0
    assert len(resnet.ranks[0].steps) == 6
    bert = report_traces([read_kineto(REAL / "tracelens-mi300-bert-small.json.gz")])
    assert bert.breakdown_ns["host"] / bert.step_time_ns > 0.8
    ddp = report_traces([read_kineto(REAL / "hta-ddp-2gpu-a100-pgconfig-rank0.json.gz")])
    assert ddp.collectives == 21
    assert ddp.ranks[0].trace.groups == {"0": "default_pg"}


def test_times_that_no_clock_gives_are_refused_with_the_event(simgpu, tmp_path):
    """As JSON has them: NaN, Infinity, 1e308, and more digits than a float or Python's conversion takes."""
    path = tmp_path / "x.json"
    event = '{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":%s,"dur":%s,"args":{"stream":7,"device":0}}'
    values = ["NaN", "Infinity", "-Infinity", "1e308", "-1e308", "1" + "0" * 400]
    for ts, dur in [*((value, "1") for value in values), *(("1", value) for value in values)]:
        path.write_text(f'{{"traceEvents": [{event % (ts, dur)}]}}')
        outcome = simgpu("trace", path)
        name = "ts" if dur == "1" else "dur"
        assert (outcome.code, outcome.out) == (2, ""), (ts, dur)
        assert f"x.json: {name} of the event 'gemm' = " in outcome.err
        assert "is no time; allowed: microseconds" in outcome.err
    path.write_text(f'{{"traceEvents": [{event % ("1" * 5000, "1")}]}}')
    outcome = simgpu("trace", path)
    assert outcome.code == 2
    assert "thousands of digits" in outcome.err
