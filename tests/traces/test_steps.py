"""Steps of traces that lack the CPU's launches: by annotations of the GPU, or by the time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simgpu.io.kineto_reader import read_kineto
from simgpu.metrics.trace_report import report_traces
from tests.traces.test_gaps import step_events, written


def without_launches(*numbers: int) -> list[dict[str, Any]]:
    events = [event for number in numbers for event in step_events(number)]
    return [event for event in events if event["cat"] != "cuda_runtime"]


def on_gpu(number: int, begin: int, end: int) -> list[dict[str, Any]]:
    """One annotation for each of two streams."""
    event = {"ph": "X", "cat": "gpu_user_annotation", "name": f"ProfilerStep#{number}", "ts": begin}
    return [{**event, "dur": end - begin, "tid": 7}, {**event, "ts": begin + 10, "dur": end - begin - 20, "tid": 20}]


def test_kernels_are_of_the_step_in_which_they_began(tmp_path: Path) -> None:
    trace = read_kineto(written(tmp_path / "t.json", without_launches(3, 4, 5)))
    (rank,) = report_traces([trace]).ranks
    assert [step.name for step in rank.steps] == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    assert [step.step_time_ns for step in rank.steps] == [1_000_000, 1_000_000, 995_000]  # the last to its last kernel
    assert all(sum(step.breakdown_ns.values()) == step.step_time_ns for step in rank.steps)
    assert any("a kernel is counted to the ProfilerStep in which it began" in text for text in trace.warnings)


def test_annotations_of_the_gpu_go_before_the_time(tmp_path: Path) -> None:
    """The CPU runs half a step ahead: the kernels of a step begin half a step behind its annotation."""
    late = [
        event | {"ts": event["ts"] + 500} if event["cat"] == "kernel" else event for event in without_launches(1, 2)
    ]
    events = [*late, *on_gpu(1, 1505, 2500), *on_gpu(2, 2505, 3500)]
    trace = read_kineto(written(tmp_path / "t.json", events))
    (rank,) = report_traces([trace]).ranks
    assert [(step.name, step.start_ns, step.kernels) for step in rank.steps] == [
        ("ProfilerStep#1", 1_505_000, 10), ("ProfilerStep#2", 2_505_000, 10),
    ]  # fmt: skip
    assert any("its steps are those of the annotations on the GPU" in text for text in trace.warnings)


def test_launches_tell_where_they_are(tmp_path: Path) -> None:
    events = [*step_events(1), *step_events(2), *on_gpu(1, 0, 50)]
    trace = read_kineto(written(tmp_path / "t.json", events))
    assert trace.warnings == ()
    assert [step.name for step in report_traces([trace]).ranks[0].steps] == ["ProfilerStep#1", "ProfilerStep#2"]


def test_annotations_without_a_kernel_are_said_to_be_no_steps(tmp_path: Path) -> None:
    events = without_launches(1) + [event for event in step_events(7) if event["cat"] == "user_annotation"]
    events = [event for event in events if event.get("name") != "ProfilerStep#1"]
    trace = read_kineto(written(tmp_path / "t.json", events))
    assert "no kernel began in its ProfilerSteps: the whole trace is taken for one step" in trace.warnings
    assert [step.name for step in report_traces([trace]).ranks[0].steps] == ["trace"]


def test_the_commands_take_them(simgpu: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", without_launches(3, 4, 5))
    out = tmp_path / "out.json"
    assert simgpu("trace", str(path), "--json", str(out)).code == 0
    steps = json.loads(out.read_text())["ranks"][0]["steps"]
    assert [step["name"] for step in steps] == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    only = simgpu("trace", str(path), "--step", "4")
    assert (only.code, "1.00 ms" in only.out or "1 ms" in only.out) == (0, True)
    with_check = simgpu("check", "four_vs_eight", "--case", "4 GPUs", "--trace", str(path), "--step", "9")
    assert with_check.code == 2
