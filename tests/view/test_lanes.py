"""Bars laid out on lanes: nothing lost, nothing doubled, waits cut where they change."""

from dataclasses import replace

import pytest

from simgpu.metrics.activity import Bar
from simgpu.view.lanes import PAINTS, Drawn, chart
from simgpu.view.rank_classes import member_text

from .reports import MS, ddp, pipeline, rank_report, report


def drawn_ns(drawn: Drawn, lane: int) -> int:
    rows = drawn.lane == lane
    return int((drawn.end_ns[rows] - drawn.start_ns[rows]).sum())


def test_one_lane_a_stream_compute_first():
    drawing = chart([pipeline(stages=2)])
    assert [(lane.title, lane.stream) for lane in drawing.lanes] == [
        ("stage 0 · rank 0", "compute"), ("stage 0 · rank 0", "pp"),
        ("stage 1 · rank 1", "compute"), ("stage 1 · rank 1", "pp"),
    ]  # fmt: skip


def test_compute_lanes_are_filled_without_a_gap():
    run = pipeline(kernels=3)
    drawing = chart([run])
    for index, lane in enumerate(drawing.lanes):
        if lane.stream == "compute":
            assert drawn_ns(drawing.drawn, index) == run.step_time_ns
            rows = drawing.drawn.lane == index
            assert (drawing.drawn.start_ns[rows][1:] == drawing.drawn.end_ns[rows][:-1]).all()


def test_pieces_of_one_pass_are_one_bar():
    whole, cut = chart([pipeline(kernels=1)]).drawn, chart([pipeline(kernels=7)]).drawn
    assert whole.start_ns.tolist() == cut.start_ns.tolist()
    assert whole.end_ns.tolist() == cut.end_ns.tolist()
    assert cut.count.max() == 7


def test_neighbouring_microbatches_stay_apart():
    drawing = chart([pipeline(stages=2, microbatches=4)])
    first = [
        drawing.bars[b].microbatch
        for b, lane, paint in zip(drawing.drawn.first, drawing.drawn.lane, drawing.drawn.paint, strict=True)
        if lane == 0 and PAINTS[paint] == "forward"
    ]
    assert first == [0, 1, 2, 3]


def test_a_wait_is_cut_into_its_classes_late_member_first():
    drawing = chart([ddp(straggler=True)])
    waits = [
        (PAINTS[paint], int(end - start))
        for paint, start, end in zip(drawing.drawn.paint, drawing.drawn.start_ns, drawing.drawn.end_ns, strict=True)
        if PAINTS[paint] in ("straggler", "exposed.dp")
    ]
    assert [name for name, _ in waits] == ["straggler", "exposed.dp"]
    assert waits[0][1] == MS


def test_ranks_that_look_alike_share_lanes():
    run = pipeline(stages=1, microbatches=2)
    twins = [replace(run.ranks[0], rank=r, members=(r,)) for r in range(4)]
    odd = rank_report(9, (*run.ranks[0].bars[:-1], replace(run.ranks[0].bars[-1], phase="forward")),
                      run.step_time_ns, run.ranks[0].memory_curve, 1)  # fmt: skip
    drawing = chart([report("alike", [*twins, odd], run.step_time_ns, gpus=5, axis="dp")])
    assert [lane.title for lane in drawing.lanes] == ["ranks 0–3", "rank 9"]


def test_too_many_classes_are_sampled_and_counted():
    drawing = chart([pipeline(stages=6)], max_ranks=3)
    assert list(dict.fromkeys(lane.title for lane in drawing.lanes)) == [
        "stage 0 · rank 0", "stage 2 · rank 2", "stage 5 · rank 5",
    ]  # fmt: skip
    assert drawing.hidden_ranks == 3


def test_streams_without_bars_have_no_lane():
    run = pipeline(stages=1, microbatches=1)
    assert {lane.stream for lane in chart([run]).lanes} == {"compute"}


@pytest.mark.parametrize(
    ("members", "expected"),
    [((3,), "rank 3"), (range(16), "ranks 0–15"), ((0, 2, 3), "ranks 0, 2–3"),
     (range(0, 20, 2), "ranks 0, 2, 4, 6 … 18 (10 of them)")],
)  # fmt: skip
def test_member_text(members, expected):
    assert member_text(members) == expected


def test_streams_too_small_to_see_are_named_not_drawn():
    run = ddp()
    tiny = Bar(rank=0, stream="norm", start_ns=0, end_ns=1000, kind="transfer", name="all_reduce", axis="dp")
    rank = replace(run.ranks[0], bars=(*run.ranks[0].bars, tiny))
    drawing = chart([replace(run, ranks=(rank,))])
    assert [lane.stream for lane in drawing.lanes] == ["compute", "dp"]
    assert drawing.hidden_streams == ("norm",)
