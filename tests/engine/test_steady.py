"""Which step is reported."""

from simgpu.engine import play
from simgpu.program import Record, Wait
from tests.programs import all_reduce, cost, program, reduce_key, role, work


def periods(timeline):
    ends = timeline.step_ends_ns
    return [end - begin for begin, end in zip((0, *ends), ends, strict=False)]


def cold_start():
    """Three stages of copies that run ahead of compute, at 100, 80 and 50 ns per step.

    The second adds a delay of 45 ns and the third two of them, so compute's k-th step ends at the largest of
    100 k, 80 k + 45 and 50 k + 90: 140, 205, 300, 400, 500.
    """
    return role(
        {
            "compute": [Wait(1), Wait(3), Wait(6)],
            "x": [work(100), Record(1)],
            "y": [work(80), Record(2)],
            "y later": [Wait(2), work(45), Record(3)],
            "z": [work(50), Record(4)],
            "z later": [Wait(4), work(45), Record(5)],
            "z last": [Wait(5), work(45), Record(6)],
        }
    )


def test_the_first_period_that_equals_the_one_before_is_reported():
    timeline = play(program([cold_start()], [0], [], {}))
    assert periods(timeline)[:5] == [140, 65, 95, 100, 100]
    assert (timeline.step, timeline.steady) == (4, True)
    assert timeline.window_ns == (400, 500)


def test_one_cold_step_is_left_behind():
    """The gather of the next step hides behind this one's compute: 140, then 100 each."""
    only = role({"compute": [Wait(1), work(100)], "dp": [all_reduce(10), Record(1)]})
    timeline = play(program([only], [0, 0], [("dp", (0, 1))], {(0, reduce_key(10)): cost(0, 40)}))
    assert periods(timeline)[:3] == [140, 100, 100]
    assert (timeline.step, timeline.steady) == (2, True)


def two_hands():
    """Two streams that start each step when the other's last one ended, 100 and 150 ns later.

    Compute ends at 100, 250, 350, 500, 600, ...: every second period is alike, no two successive ones.
    """
    streams = {"compute": [Record(1), Wait(20)], "other": [Record(2), Wait(13)]}
    for first, chain in ((1, (11, 12, 13)), (2, (21, 20))):
        before = first
        for event in chain:
            streams[f"delay {event}"] = [Wait(before), work(50), Record(event)]
            before = event
    return role(streams)


def test_a_program_that_never_settles_says_so():
    timeline = play(program([two_hands()], [0], [], {}))
    assert periods(timeline)[:4] == [100, 150, 100, 150]
    assert not timeline.steady
    assert timeline.step == len(timeline.step_ends_ns) - 2, "the last full step with one more behind it"
