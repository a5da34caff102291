"""A step that begins as the one before began is the one before again."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simgpu.engine import play
from simgpu.engine.recorder import END, INSTRUCTION, READY, STEP, StreamLog
from simgpu.engine.repetition import Repetition
from simgpu.fold import fold
from simgpu.lower.perturbation import Perturbation, perturbed
from simgpu.pricing import lower_case, op_prices
from simgpu.program import Issue, Record, Wait
from tests.programs import all_reduce, cost, program, reduce_key, role, work
from tests.strategies import case_of, scenarios

COLUMNS = ("rank", "stream", "instruction", "ready_ns", "issued_ns", "start_ns", "end_ns", "cause")
PERTURBATIONS = (Perturbation(), Perturbation(jitter=0.1, seed=1), Perturbation(slow={1: 1.4}))


def played_on(subject):
    """Play without looking for a repetition, until two periods are of the same length."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Repetition, "holds", lambda self, step: False)
        return play(subject)


def reported(timeline):
    """Return what happens in the reported step, from the first rank's begin; waits that began before count from it."""
    spans = timeline.spans
    ends = spans.end_ns[(spans.step == timeline.step - 1) & (spans.stream == 0)]
    ranks = spans.rank[(spans.step == timeline.step - 1) & (spans.stream == 0)]
    begin = min(int(ends[ranks == rank].max()) for rank in np.unique(ranks))
    of_step = spans.step == timeline.step
    columns = [getattr(spans, name)[of_step] for name in COLUMNS]
    return np.array(
        [
            np.maximum(column - begin, 0) if "_ns" in name else column
            for name, column in zip(COLUMNS, columns, strict=True)
        ]
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios(), st.sampled_from(PERTURBATIONS), st.booleans())
def test_it_is_the_step_that_further_play_comes_to(scenario, perturbation, folded):
    case = case_of(scenario)
    subject = perturbed(lower_case(case, op_prices(case)), perturbation)
    subject = fold(subject) if folded else subject
    found, later = play(subject), played_on(subject)
    assert found.steady or not later.steady
    if found.steady and later.steady:
        assert found.step <= later.step
        assert np.array_equal(reported(found), reported(later))


def test_a_step_whose_end_reaches_into_the_next_is_found_at_once():
    """The gather hides behind the next step's compute: 140 ns, then 100 each: the second is as good as the third."""
    only = role({"compute": [Wait(1), work(100)], "dp": [all_reduce(10), Record(1)]})
    subject = program([only], [0, 0], [("dp", (0, 1))], {(0, reduce_key(10)): cost(0, 40)})
    assert played_on(subject).step == 2
    assert play(subject).step_ends_ns[:2] == played_on(subject).step_ends_ns[:2]


def test_a_stream_that_ran_out_of_steps_tells_nothing():
    """A stream that waits for nobody slows the others' transfers down until it has gone through all steps played."""
    compute, gathers = [], []
    for begin in (1, 3, 5, 7):
        compute += [Record(begin), work(53), Wait(begin + 1)]
        gathers += [Wait(begin), all_reduce(4, "cp"), Record(begin + 1)]
    only = role({"compute": compute, "cp": gathers, "dp": [all_reduce(6)]})
    groups, moved = [("cp", (0,)), ("dp", (0,))], cost(20, 40, [(0, 80)])
    subject = program([only], [0], groups, {(0, reduce_key(4)): moved, (1, reduce_key(6)): moved}, links=[2 * 10**9])
    found, later = play(subject), played_on(subject)
    assert (found.step, found.step_ends_ns) == (later.step, later.step_ends_ns)


def late_cpu(issue_ns):
    """Kernels of 100 ns that the CPU launches, and an event that compute records in the middle."""
    stream = [work(100) for _ in range(4)]
    issues = [Issue(stream="compute", instruction=at, op_ns=issue_ns, launch_ns=0) for at in range(4)]
    return program([role({"compute": stream, "host": issues})], [0], [], {})


def test_a_cpu_that_gets_ahead_is_no_repetition():
    """At 60 ns a launch the CPU gains 160 ns a step; what it gained is not used up before its queue is full."""
    assert play(late_cpu(60)).step == played_on(late_cpu(60)).step == 2


def test_a_cpu_that_holds_the_gpu_up_repeats_itself():
    """At 150 ns a launch each step takes 600 ns, but for the first, which ends with a kernel behind the last launch."""
    assert played_on(late_cpu(150)).step_ends_ns[:3] == (700, 1300, 1900)
    assert play(late_cpu(150)).step == 1


def test_the_last_rows_before_a_time_are_found_behind_blocks():
    log = StreamLog(0, 0)
    log.spans.extend([0, 0, 0, 0, 0, 10, -1])
    rows = np.array([[0, 1], [0, 0], [0, 5], [0, 5], [0, 5], [5, 9], [-1, -1]])
    for begin in (10, 20):
        log.place(rows, begin, step=0, first=begin // 5, cause=0, since_ns=-1)
    log.spans.extend([6, 0, 29, 29, 29, 40, -1])

    def found(after, before):
        return log.between(after, before)[[INSTRUCTION, STEP, READY, END]].T.tolist()

    assert found(0, 100)[-1] == [6, 0, 29, 40]
    assert found(29, 30) == [[4, 0, 20, 25], [5, 0, 25, 29], [6, 0, 29, 40]]
    assert found(17, 26) == [[0, 0, 0, 10], [2, 0, 10, 15], [3, 0, 15, 19], [4, 0, 20, 25], [5, 0, 25, 29]]
    assert found(0, 0) == []
