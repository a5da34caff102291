"""Schedules as data: every microbatch once forward and once backward, live activations as the papers say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.parallel.schedules import build_schedule

NAMES = ["1f1b", "gpipe"]


def order(name, stages, microbatches, stage):
    return build_schedule(name, ranks=stages, microbatches=microbatches).order(stage)


def live(actions):
    held = peak = 0
    for action in actions:
        held += 1 if action.kind == "F" else -1
        peak = max(peak, held)
    return peak


@given(st.sampled_from(NAMES), st.integers(1, 16), st.integers(1, 64), st.data())
def test_each_microbatch_runs_forward_then_backward_once(name, stages, microbatches, data):
    stage = data.draw(st.integers(0, stages - 1))
    actions = order(name, stages, microbatches, stage)
    assert len(actions) == 2 * microbatches
    assert [a.microbatch for a in actions if a.kind == "F"] == list(range(microbatches))
    assert [a.microbatch for a in actions if a.kind == "B"] == list(range(microbatches))
    done = set()
    for action in actions:
        if action.kind == "B":
            assert action.microbatch in done
        done.add(action.microbatch)


@given(st.integers(1, 16), st.integers(1, 64), st.data())
def test_peak_live_activations(stages, microbatches, data):
    stage = data.draw(st.integers(0, stages - 1))
    assert live(order("1f1b", stages, microbatches, stage)) == min(microbatches, stages - stage)
    assert live(order("gpipe", stages, microbatches, stage)) == microbatches


@pytest.mark.parametrize(
    ("stage", "wanted"),
    [
        (0, "0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0B3 0B4 0B5"),
        (1, "1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1B4 1B5"),
        (3, "3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5"),
    ],
)
def test_1f1b_of_four_stages_and_six_microbatches_by_hand(stage, wanted):
    assert " ".join(map(str, order("1f1b", 4, 6, stage))) == wanted
