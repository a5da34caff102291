"""Kernels run slower while communication is resident on their GPU; progress is piecewise linear."""

from dataclasses import replace

from simgpu.engine import play
from simgpu.metrics.accounting import breakdown, rank_bars
from simgpu.program import Compute, Disturbance, Kernel, Record, Wait
from tests.programs import all_reduce, cost, program, reduce_key, role

FIRST = Kernel(name="first", op_class="gemm", duration_ns=100)
SECOND = Kernel(name="second", op_class="memory_bound", duration_ns=60)
WORK = Compute(name="work", kernels=(FIRST, SECOND), duration_ns=160, phase="forward")


def lead(duration_ns):
    kernel = Kernel(name="lead", op_class="gemm", duration_ns=duration_ns)
    return Compute(name="lead", kernels=(kernel,), duration_ns=duration_ns, phase="forward")


def beside(streams, transfer_ns, *, slow_first=200, slow_second=180):
    """One rank pair; an all-reduce of ``transfer_ns`` makes ``first`` and ``second`` take 200 and 180."""
    disturbing = replace(cost(0, transfer_ns, [(0, transfer_ns)]), disturbance=0)
    whole = program([role(streams)], [0, 0], [("dp", (0, 1))], {(0, reduce_key(8)): disturbing}, links=[10**9])
    return replace(
        whole,
        disturbances=(Disturbance(ctas=24, hbm_bytes_per_s=0),),
        disturbed_ns={FIRST: (slow_first,), SECOND: (slow_second,)},
    )


def ends(timeline):
    return timeline.kernel_ends_ns.get((0, 0, 2, 0))


def test_a_kernel_under_way_goes_on_at_the_slower_pace_and_back():
    """Transfer 10 to 110: first is 10 late, half speed for 100, so 50 of it by 110; 50 more alone, then second."""
    streams = {"compute": [lead(10), Record(1), WORK, Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]}
    timeline = play(beside(streams, 100))
    assert ends(timeline) == (150, 210)


def test_a_transfer_that_outlasts_the_work_slows_all_of_it():
    streams = {"compute": [lead(10), Record(1), WORK, Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]}
    timeline = play(beside(streams, 1000))
    assert ends(timeline) == (200, 380)
    totals = {name: value for name, value in breakdown(rank_bars(timeline, 0)).items() if value}
    assert totals == {"compute.gemm": 210, "compute.memory_bound": 180, "exposed.dp": 620}


def test_work_before_and_after_a_transfer_is_undisturbed():
    streams = {"compute": [lead(10), Record(1), Wait(2), WORK], "dp": [Wait(1), all_reduce(8), Record(2)]}
    timeline = play(beside(streams, 100))
    assert not timeline.kernel_ends_ns
    assert timeline.step_ends_ns[0] == 10 + 100 + 160


def test_a_communication_kernel_that_spins_for_its_partner_disturbs_too():
    """Rank 0 arrives at 10, rank 1 at 300: rank 0's work runs at the slower pace while its kernel waits."""

    def one(delay):
        return role({"compute": [lead(delay), Record(1), WORK, Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]})

    disturbing = replace(cost(0, 50, [(0, 50)]), disturbance=0)
    whole = program([one(10), one(300)], [0, 1], [("dp", (0, 1))], {(0, reduce_key(8)): disturbing}, links=[10**9])
    timeline = play(
        replace(
            whole,
            disturbances=(Disturbance(ctas=24, hbm_bytes_per_s=0),),
            disturbed_ns={FIRST: (200,), SECOND: (180,)},
        )
    )
    # the transfer ends at 350, 340 after the start: 140 of second at a third of its pace, the rest (13.3) alone
    assert ends(timeline) == (200, 354)


def test_two_resident_kernels_count_as_the_worse_one():
    streams = {
        "compute": [lead(10), Record(1), WORK, Wait(2), Wait(3)],
        "dp": [Wait(1), all_reduce(8), Record(2)],
        "tp": [Wait(1), all_reduce(4, "tp"), Record(3)],
    }
    mild = replace(cost(0, 500, [(0, 500)]), disturbance=0)
    bad = replace(cost(0, 500, [(1, 500)]), disturbance=1)
    whole = program(
        [role(streams)],
        [0, 0],
        [("dp", (0, 1)), ("tp", (0, 1))],
        {(0, reduce_key(8)): mild, (1, reduce_key(4)): bad},
        links=[10**9, 10**9],
    )
    timeline = play(
        replace(
            whole,
            disturbances=(Disturbance(ctas=3, hbm_bytes_per_s=0), Disturbance(ctas=24, hbm_bytes_per_s=0)),
            disturbed_ns={FIRST: (110, 200), SECOND: (70, 180)},
        )
    )
    assert ends(timeline) == (200, 380)


def test_a_kernel_that_spins_takes_no_bandwidth_until_it_starts():
    """Rank 0 arrives at 10, rank 1 at 100: first runs at the pace beside a spinning kernel until 100, then slower."""

    def one(delay):
        return role({"compute": [lead(delay), Record(1), WORK, Wait(2)], "dp": [Wait(1), all_reduce(8), Record(2)]})

    moving = replace(cost(0, 1000, [(0, 1000)]), disturbance=1, spinning=0)
    whole = program([one(10), one(100)], [0, 1], [("dp", (0, 1))], {(0, reduce_key(8)): moving}, links=[10**9])
    timeline = play(
        replace(
            whole,
            disturbances=(Disturbance(ctas=24, hbm_bytes_per_s=0), Disturbance(ctas=24, hbm_bytes_per_s=10**9)),
            disturbed_ns={FIRST: (120, 240), SECOND: (60, 180)},
        )
    )
    # 90 of 120 by 100, so three quarters; a quarter of 240 is left, then second beside the moving bytes
    assert ends(timeline) == (150, 330)
