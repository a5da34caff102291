"""Closed forms of pipelines whose stages are equal and whose network is free."""

from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import simgpu
from simgpu.api import simulate
from simgpu.config import load_cases
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, build_schedule, global_stages

times = st.integers(1, 9)
ranks = st.integers(2, 6)


def ideal(pp, microbatches, name, forward="1 ms", backward="2 ms", *, virtual=None, weight=None, saved=0, **more):
    """A synthetic pipeline; the times are those of one stage, ``more`` is of the parallel block."""
    virtual = virtual or PIPELINE_SCHEDULES[name].default_virtual
    model = {
        "stages": global_stages(name, ranks=pp, virtual=virtual),
        "forward_ns": forward,
        "backward_ns": backward,
        "saved_bytes": saved,
    }
    (case,) = load_cases(
        {
            "name": "ideal",
            "model": model if weight is None else {**model, "backward_weight_ns": weight},
            "cluster": {"topology": "dgx-a100", "gpus": pp, "nodes": -(-pp // 8)},
            "training": {"gradient_accumulation": microbatches, "micro_batch_size": 1, "optimizer": "none"},
            "parallel": {"pp": pp, "virtual_stages": virtual, "schedule": name, **more},
            "network": "free",
        }
    )
    return case


def bubble(report):
    idle = sum(rank.count * rank.breakdown_ns["bubble"] for rank in report.ranks)
    return Fraction(idle, report.gpus * report.step_time_ns)


def idle_ns(pp, microbatches, schedule, f, i, w, *, virtual=1, **parallel):
    """Step less one rank's work."""
    case = ideal(pp, microbatches, schedule, f, i + w, weight=w, virtual=virtual, **parallel)
    return simulate(case).step_time_ns - microbatches * virtual * (f + i + w)


def test_the_bundled_scenario_has_3_of_19_and_3_of_35():
    ratios = {report.name: bubble(report) for report in simgpu.run("pipeline_ideal")}
    assert list(ratios.values()) == [Fraction(3, 19), Fraction(3, 35)] * 2, ratios


def test_the_bundled_scenario_of_schedules_idles_as_its_comment_says():
    reports = {report.name: report for report in simgpu.run("pipeline_schedules")}
    idle_ms = {name: (report.step_time_ns - 96_000_000) / 1e6 for name, report in reports.items()}
    assert idle_ms == {"GPipe": 36, "1F1B": 36, "Interleaved 1F1B": 18, "ZB-H1": 12, "ZBV": 0}
    assert all(float(bubble(report)) == pytest.approx(report.ideal_bubble_fraction) for report in reports.values())
    live = {name: report.ranks[0].memory_at_peak_bytes["activations"] >> 20 for name, report in reports.items()}
    assert live == {"GPipe": 2048, "1F1B": 1024, "Interleaved 1F1B": 1408, "ZB-H1": 1024, "ZBV": 1024}


@settings(max_examples=40)
@given(st.sampled_from(["1f1b", "gpipe"]), st.integers(2, 8), st.integers(1, 24), st.integers(1, 9), st.integers(1, 9))
def test_idle_over_total_is_p_minus_1_over_m_plus_p_minus_1(schedule, stages, microbatches, forward, backward):
    report = simulate(ideal(stages, microbatches, schedule, forward, backward))
    assert bubble(report) == Fraction(stages - 1, microbatches + stages - 1)
    assert report.step_time_ns == (microbatches + stages - 1) * (forward + backward)
    assert report.bubble_over_ideal == pytest.approx((stages - 1) / microbatches)


@settings(max_examples=30)
@given(ranks, st.integers(2, 4), st.integers(1, 3), times, times, times, st.booleans())
def test_interleaved_in_groups_of_p(p, v, rounds, f, i, w, overlap):
    """Times are a chunk's, so that (p-1)(F+B)/v is (p-1)(f+i+w): also when every batch of messages is waited for."""
    idle = idle_ns(p, rounds * p, "interleaved_1f1b", f, i, w, virtual=v, overlap_p2p=overlap)
    assert idle == (p - 1) * (f + i + w)


@settings(max_examples=20)
@given(ranks, st.integers(1, 3), st.integers(0, 6), times, times, times)
def test_looped_bfs(p, v, more, f, i, w):
    assert idle_ns(p, p + more, "looped_bfs", f, i, w, virtual=v) == (p - 1) * (f + i + w)


@settings(max_examples=30)
@given(ranks, st.integers(0, 9), times, times, times)
def test_zbh1(p, more, f, i, w):
    assume(w <= f)
    assert idle_ns(p, p + more, "zbh1", f, i, w) == (p - 1) * (f + i - w)


@settings(max_examples=30)
@given(ranks, st.integers(1, 14), times, times, times)
def test_zbh2(p, m, f, i, w):
    """The last rank has at most m - 1 weight gradients to put before its last input gradient."""
    assume(w <= f)
    assume(w <= i)
    assert idle_ns(p, m, "zbh2", f, i, w) == (p - 1) * (f + i) - min(2 * (p - 1), m - 1) * w


@settings(max_examples=15)
@given(ranks, st.integers(0, 6), times)
def test_zbv(p, more, one):
    assert idle_ns(p, 2 * p - 1 + more, "zbv", one, one, one, virtual=2) == 0


def first_step_ns(case):
    """From the start to the end of the last rank; later steps overlap, as nothing joins their ends."""
    spans = simulate(case).timeline.spans
    return int(spans.end_ns[spans.step == 0].max())


@settings(max_examples=15)
@given(ranks, st.integers(0, 6), times, times)
def test_dualpipev(p, more, f, w):
    """A pair of forward and backward takes F + B here: what its overlap would hide is communication."""
    assume(w <= f)
    m = 2 * p + more
    step = first_step_ns(ideal(p, m, "dualpipev", f, f + w, weight=w))
    assert step - 2 * m * (2 * f + w) == (p - 1) * ((2 * f + w) + (f + w) - 3 * w)


@settings(max_examples=15)
@given(st.integers(1, 3), st.integers(0, 3), times, times)
def test_dualpipe(half, more, f, w):
    assume(w <= f)
    p, m = 2 * half, 4 * half + 2 * more
    step = first_step_ns(ideal(p, m, "dualpipe", f, f + w, weight=w))
    assert step - m * (2 * f + w) == (half - 1) * ((2 * f + w) + (f + w) - 3 * w)


@pytest.mark.parametrize(
    ("schedule", "microbatches", "virtual", "live"),
    [
        ("1f1b", 16, 1, [4, 3, 2, 1]),
        ("gpipe", 16, 1, [16, 16, 16, 16]),
        ("interleaved_1f1b", 16, 2, [11, 9, 7, 5]),  # 2(p-1-r) + (v-1)p + 1 chunks
        ("looped_bfs", 8, 2, [16, 16, 16, 16]),
        ("zbh1", 16, 1, [4, 4, 4, 4]),
        ("zbh2", 16, 1, [7, 7, 7, 7]),
        ("zbv", 16, 2, [8, 8, 8, 8]),
        ("dualpipev", 16, 2, [9, 9, 9, 9]),
        ("dualpipe", 16, 2, [5, 5, 5, 5]),
    ],
)
def test_live_activations_emerge_from_the_schedule(schedule, microbatches, virtual, live):
    report = simulate(ideal(4, microbatches, schedule, virtual=virtual, saved=1 << 20))
    assert [rank.memory_at_peak_bytes["activations"] >> 20 for rank in report.ranks] == live


@pytest.mark.parametrize("schedule", PIPELINE_SCHEDULES)
def test_the_ideal_that_reports_name_is_what_a_synthetic_pipeline_does(schedule):
    report = simulate(ideal(4, 8, schedule, 1000, 2000))
    assert report.ideal_bubble_fraction == pytest.approx(float(bubble(report)))


def test_a_schedule_from_a_file_is_played_as_the_same_schedule_by_name(tmp_path):
    from simgpu.io.schedule_csv import write_schedule_csv

    table = write_schedule_csv(build_schedule("zbv", ranks=4, microbatches=8))
    (tmp_path / "mine.csv").write_text(table)
    named = simulate(ideal(4, 8, "zbv", 1000, 2000))
    read = simulate(ideal(4, 8, "zbv", 1000, 2000, schedule=str(tmp_path / "mine.csv")))
    assert read.step_time_ns == named.step_time_ns == 8 * 2 * 3000


LLAMA = {
    "name": "real",
    "model": "llama-2-7b",
    "cluster": {"topology": "dgx-a100", "gpus": 4},
    "training": {"sequence_length": 4096, "micro_batch_size": 1, "global_batch_size": 8},
}


def test_interleaving_and_zero_bubble_shrink_the_bubble_of_a_real_model():
    """Llama-2-7B in four stages; the head, some 6 % more work on its rank, keeps all of them above their ideals."""
    choices = ({"pp": 4}, {"pp": 4, "virtual_stages": 2}, {"pp": 4, "virtual_stages": 4}, {"pp": 4, "schedule": "zbv"})
    reports = [simulate(*load_cases({**LLAMA, "parallel": parallel})) for parallel in choices]
    bubbles = [report.bubble_fraction for report in reports]
    ideals = [report.ideal_bubble_fraction for report in reports]
    assert bubbles == sorted(bubbles, reverse=True)
    assert all(ideal < bubble < ideal + 0.06 for ideal, bubble in zip(ideals, bubbles, strict=True))
    once = [3 / 11, 3 / 19, 3 / 35]  # (p-1)/(vm + p-1) of a step that is all pipeline: the optimizer makes it less
    assert ideals[:3] == [pytest.approx(share, rel=0.03) for share in once]
