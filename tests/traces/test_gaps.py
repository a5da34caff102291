"""Traces that can be read and are not whole: kernels, the end of a step or ranks are missing, and that is said."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from simgpu.io.kineto_reader import read_kineto
from simgpu.io.trace_gaps import rank_gaps

REAL = Path(__file__).parents[3] / "shared" / "inputs" / "kineto-traces"
MADE = "hta-mini-base.json.gz"
real = pytest.mark.skipif(not REAL.is_dir(), reason="the real traces are not here")


def step_events(number: int, *, kernels: int = 10, length_us: int = 1000) -> list[dict[str, Any]]:
    """A step: its annotation, the launches spread over it, and the kernels a little later."""
    begin = number * length_us
    events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": begin, "dur": length_us}]
    each = length_us // kernels
    for at in range(kernels):
        shared = {"ph": "X", "args": {"correlation": number * kernels + at, "stream": 7}}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begin + at * each, "dur": 2}
        kernel = {"cat": "kernel", "name": "sm90_gemm", "ts": begin + at * each + 5, "dur": each - 5}
        events += [{**shared, **launch}, {**shared, **kernel}]
    return events


def written(path: Path, events: list[dict[str, Any]], rank: int = 0, world: int = 1) -> Path:
    info = {"rank": rank, "world_size": world}
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}))
    return path


def test_a_whole_trace_has_no_gap(tmp_path: Path) -> None:
    events = [event for number in (3, 4, 5) for event in step_events(number)]
    assert read_kineto(written(tmp_path / "t.json", events)).warnings == ()


def test_kernels_that_were_cut_off_behind_their_launches(tmp_path: Path) -> None:
    """Kineto writes what the CPU did before what the GPU did."""
    events = sorted(step_events(3), key=lambda event: event["cat"] == "kernel")
    (told,) = read_kineto(written(tmp_path / "t.json", events[:-4])).warnings
    assert told.startswith("4 of 10 kernels that were launched are not in it: it was cut off")


def test_a_step_whose_end_was_cut_off(tmp_path: Path) -> None:
    events = [*step_events(3), *step_events(4)[: 1 + 2 * 6]]  # six of ten kernels, launches and all
    told, few = read_kineto(written(tmp_path / "t.json", events)).warnings
    assert told.startswith("no work of the GPU is recorded in the last 40% of ProfilerStep#4: it was cut off, or ")
    assert few == "ProfilerStep#4 has 6 kernels, and others 10: the rest is not in it, or it does less"


def test_a_step_that_is_missing_between_others(tmp_path: Path) -> None:
    events = [event for number in (3, 5) for event in step_events(number)]
    assert read_kineto(written(tmp_path / "t.json", events)).warnings == (
        "ProfilerStep#4 between the others is not in it",
    )


@pytest.mark.parametrize(
    ("ranks", "told"),
    [
        ([(0, 4), (1, 4), (3, 4)], "rank 2 of the 4 of the job is not among these traces"),
        ([(0, 4), (99, 4)], "says that it is rank 99 of 4, which there is not"),
        ([(0, 2), (0, 2)], "all say that they are rank 0"),
        ([(0, 2), (1, 4)], "of jobs of 2, 4 ranks, not of one job"),
    ],
)
def test_ranks_that_do_not_fit_their_job(simgpu: Any, tmp_path: Path, ranks: list[tuple[int, int]], told: str) -> None:
    folder = tmp_path / "traces"
    folder.mkdir()
    for place, (rank, world) in enumerate(ranks):
        written(folder / f"{place}.json", step_events(3), rank, world)
    result = simgpu("trace", str(folder))
    assert result.code == 0
    assert told in " ".join(result.out.split())
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "model: gpt2\ncluster: {topology: dgx-a100, gpus: 4}\ntraining: {sequence_length: 512, micro_batch_size: 1}\n"
        "parallel: {data_parallel: ddp}\n"
    )
    result = simgpu("check", str(scenario), "--trace", str(folder))
    assert told in " ".join(result.out.split())


def test_one_file_of_a_job_of_many_is_no_gap(tmp_path: Path) -> None:
    assert rank_gaps([read_kineto(written(tmp_path / "t.json", step_events(3), 5, 128))]) == []


@real
def test_real_traces_are_whole_and_halves_of_them_are_not(tmp_path: Path) -> None:
    path = REAL / "param-dlrm-8xv100-rank0.json.gz"
    assert read_kineto(path).warnings == ()
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["traceEvents"] = data["traceEvents"][: len(data["traceEvents"]) * 7 // 10]
    cut = tmp_path / "cut.json"
    cut.write_text(json.dumps(data))
    assert [text.partition(":")[0] for text in read_kineto(cut).warnings] == [
        "no work of the GPU is recorded in the last 41% of ProfilerStep#10",
    ]


@real
@pytest.mark.parametrize("path", sorted(REAL.iterdir()) if REAL.is_dir() else [], ids=lambda path: path.name)
def test_no_gap_is_found_in_any_real_trace(path: Path) -> None:
    if path.name == MADE:
        pytest.skip("put together by hand, and most of its kernels have no launch")
    assert not any("cut off" in text or "between the others" in text for text in read_kineto(path).warnings)


def shuffled(events: list[dict[str, Any]], lost: str, share: float) -> list[dict[str, Any]]:
    """Return events in another order than that of time, without the last of one category."""
    kept = [event for event in events if event["cat"] != lost]
    some = sorted((event for event in events if event["cat"] == lost), key=lambda event: (event["ts"] * 7919) % 1009)
    return some[: round(len(some) * (1 - share))][::-1] + kept[::-1]


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("kernel", "10 of 40 kernels that were launched are not in it"),
        ("cuda_runtime", "kernels behind others that have theirs are not in it"),
        ("user_annotation", "kernels were launched outside of its ProfilerSteps, and are left out"),
    ],
)
def test_a_cut_that_leaves_events_out_of_order(tmp_path: Path, lost: str, told: str) -> None:
    """What is missing is spread over the time, and the end of it is there."""
    events = [event for number in range(4) for event in step_events(number)]
    assert read_kineto(written(tmp_path / "whole.json", events[::-1])).warnings == ()
    warnings = read_kineto(written(tmp_path / "cut.json", shuffled(events, lost, 0.25))).warnings
    assert any(told in warning for warning in warnings), warnings


def test_a_step_of_which_much_is_missing(tmp_path: Path) -> None:
    events = [event for number in (1, 3) for event in step_events(number)] + step_events(2)[:9]
    assert read_kineto(written(tmp_path / "t.json", events)).warnings == (
        "ProfilerStep#2 has 4 kernels, and others 10: the rest is not in it, or it does less",
    )


@real
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["param-dlrm-8xv100-rank0.json.gz", "hta-ddp-2gpu-a100-pgconfig-rank0.json.gz"])
def test_real_traces_in_any_order_are_whole_and_most_of_them_is_not(tmp_path: Path, name: str, seed: int) -> None:
    data = json.loads(gzip.decompress((REAL / name).read_bytes()))
    random.Random(seed).shuffle(data["traceEvents"])
    path = tmp_path / "t.json"
    path.write_text(json.dumps(data))
    assert read_kineto(path).warnings == ()
    data["traceEvents"] = data["traceEvents"][: len(data["traceEvents"]) * 9 // 10]
    path.write_text(json.dumps(data))
    assert any("cut off" in text for text in read_kineto(path).warnings)
