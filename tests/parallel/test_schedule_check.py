"""The validator passes what the frameworks accept, and marks each kind of mistake in its cell."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.parallel.ideal_bubble import idle_over_work
from simgpu.parallel.messages import Message, with_messages
from simgpu.parallel.schedule_check import check_schedule
from simgpu.parallel.schedule_grid import fault_grid
from simgpu.parallel.schedules import PIPELINE_SCHEDULES, Action, build_schedule, parse_slot, refusal


@pytest.mark.parametrize("ranks", range(1, 17))
@pytest.mark.parametrize("name", PIPELINE_SCHEDULES)
def test_the_whole_grid(name, ranks):
    """Every P up to 16, V up to 4 and M up to 64 is refused with a reason or sound; bubbles have their closed forms.

    The closed forms are piecewise linear in M with corners at multiples of P, so bubbles are taken around those.
    """
    corners = {near + step for near in (0, ranks, 2 * ranks, 64) for step in (-2, -1, 0, 1)}
    accepted = 0
    for virtual, microbatches in product(range(1, 5), range(1, 65)):
        refused = refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches)
        if refused is not None:
            assert refused.problem
            continue
        accepted += 1
        schedule = build_schedule(name, ranks=ranks, virtual=virtual, microbatches=microbatches)
        assert check_schedule(schedule) == (), (virtual, microbatches)
        expected = _units_of_bubble(name, ranks, virtual, microbatches) if microbatches in corners else None
        if expected is not None:
            work = sum(_UNITS[action.kind] for row in schedule.rows for slot in row if slot for action in slot)
            together = name in ("gpipe", "1f1b", "interleaved_1f1b", "looped_bfs")
            assert idle_over_work(schedule, together=together) * work / ranks == pytest.approx(expected)
    assert accepted == _accepted(name, ranks)


def _accepted(name, ranks):
    """How many pairs of V and M the named framework takes, from its own rules."""
    return {
        "gpipe": 64, "1f1b": 64, "zbh1": 64, "zbh2": 64, "zb2p": 64, "zbv": 64,
        "looped_bfs": 4 * 64,
        "hanayo": 2 * 64,
        "interleaved_1f1b": 4 * sum(m % max(1, m // ranks) == 0 for m in range(1, 65)),
        "interleaved_zero_bubble": 4 * sum(m % max(1, m // ranks) == 0 for m in range(1, 65)),
        "dualpipev": 64 - 2 * ranks + 1,
        "dualpipe": 0 if ranks % 2 else (64 - 2 * ranks) // 2 + 1,
    }[name]  # fmt: skip


_UNITS = {"F": 1, "I": 1, "W": 1, "B": 2}


def _units_of_bubble(name, ranks, virtual, microbatches):
    """Closed forms with F = I = W = 1 of a stage; None where there is none, or where it does not hold."""
    return {
        "gpipe": 3 * (ranks - 1),
        "1f1b": 3 * (ranks - 1),
        "interleaved_1f1b": 3 * (ranks - 1) if microbatches % ranks == 0 else None,
        "looped_bfs": 3 * (ranks - 1) if microbatches >= ranks else None,
        "zbh1": ranks - 1 if microbatches >= ranks else None,
        "zbh2": max(0, 2 * ranks - 1 - microbatches) if microbatches >= ranks else None,
        "zbv": 0 if microbatches >= 2 * ranks - 1 else None,
    }.get(name)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(PIPELINE_SCHEDULES)), st.integers(1, 6), st.integers(1, 4), st.integers(1, 16))
def test_receives_between_two_ranks_have_the_order_of_the_sends(name, ranks, virtual, microbatches):
    if refusal(name, ranks=ranks, virtual=virtual, microbatches=microbatches) is not None:
        return
    schedule = build_schedule(name, ranks=ranks, virtual=virtual, microbatches=microbatches)
    sent, received = {}, {}
    for rank, row in enumerate(with_messages(schedule)):
        assert [cell for cell in row if isinstance(cell, Action)] == list(schedule.order(rank))
        for cell in row:
            if isinstance(cell, Message):
                pair = (rank, cell.peer) if cell.sends else (cell.peer, rank)
                to = cell.stage if not cell.sends else cell.stage + (1 if cell.forward else -1)
                (sent if cell.sends else received).setdefault(pair, []).append((to, cell.forward, cell.microbatch))
    assert sent == received


def edited(**cells):
    """1F1B of two ranks and two microbatches with some cells replaced: r1s3 is slot 3 of rank 1."""
    schedule = build_schedule("1f1b", ranks=2, microbatches=2)
    rows = [list(row) for row in schedule.rows]
    for where, text in cells.items():
        rank, slot = map(int, where[1:].split("s"))
        rows[rank][slot] = parse_slot(text) if isinstance(text, str) else text
    return replace(schedule, rows=tuple(map(tuple, rows)))


# rank 0: 0F0 . . 0F1 0B0 . 0B1      rank 1: . 1F0 1B0 1F1 1B1
@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({}, []),
        ({"r0s3": "0F0"}, ["rank 0, slot 3: 0F0 was done in slot 0 already",
                           "rank 0, slot 6: 0B1 comes before 0F1"]),
        ({"r0s1": "0F0"}, ["rank 0, slot 1: 0F0 was done in slot 0 already"]),
        ({"r1s4": ""}, ["rank 1: B, or I and W, of stage 1, microbatch 1 is missing"]),
        ({"r1s4": "1I1"}, ["rank 1: W of stage 1, microbatch 1 is missing"]),
        ({"r1s4": "1W1"}, ["rank 1, slot 4: 1W1 comes before 1I1"]),
        ({"r0s4": "0W0", "r0s5": "0I0"}, ["rank 0, slot 4: 0W0 comes before 0I0"]),
        ({"r0s5": "0W0"}, ["rank 0, slot 5: 0W0 comes after 0B0: B is I and W in one"]),
        ({"r0s5": "1F0"}, ["rank 0, slot 5: 1F0 belongs on rank 1"]),
        ({"r0s5": "2F0"}, ["rank 0, slot 5: 2F0 names a stage that is not there; stages are 0 to 1"]),
        ({"r0s5": "0F2"}, ["rank 0, slot 5: 0F2 names a microbatch that is not there; they are 0 to 1"]),
        ({"r0s5": (Action(0, "X", 0),)}, ["rank 0, slot 5: 0X0 is neither F, I, W nor B"]),
        ({"r0s4": (Action(0, "B", 0), Action(0, "F", 1)), "r0s3": ""}, ["rank 0, slot 4: 0B0 and 0F1 share a slot"]),
        ({"r0s3": (Action(0, "F", 1), Action(0, "B", 1)), "r0s6": ""},
         ["rank 0, slot 3: 0F1 and 0B1 share a slot"]),
        ({"r1s2": "1F1", "r1s3": "1B0"}, []),
        ({"r1s1": "1F1", "r1s2": "1B1", "r1s3": "1F0", "r1s4": "1B0"}, []),
        ({"r0s3": "0B0", "r0s4": "0F1", "r1s1": "1F1", "r1s2": "1B1", "r1s3": "1F0", "r1s4": "1B0"},
         ["rank 0, slot 3: 0B0 waits for ever for the backward of stage 1, microbatch 0, on rank 1, which waits",
          "rank 1, slot 1: 1F1 waits for ever for the forward of stage 0, microbatch 1, on rank 0, which waits"]),
    ],
)  # fmt: skip
def test_each_mistake_is_found_where_it_is(cells, expected):
    schedule = edited(**cells)
    faults = [str(fault) for fault in check_schedule(schedule)]
    assert len(faults) == len(expected)
    assert all(fault.startswith(want) for fault, want in zip(faults, expected, strict=True))


def test_the_grid_marks_the_cell():
    schedule = edited(r1s4="1W1")
    lines = fault_grid(schedule.rows, check_schedule(schedule)).splitlines()
    assert [line for line in lines if ">" in line] == ["   4  0B0     >1W1<   <-- rank 1: 1W1 comes before 1I1"]
    assert len(lines) == 8


def test_what_is_missing_stands_below_the_grid_and_is_not_endless():
    schedule = build_schedule("gpipe", ranks=2, microbatches=12)
    empty = replace(schedule, rows=(schedule.rows[0], ()))
    lines = fault_grid(empty.rows, check_schedule(empty)).splitlines()
    assert lines[-11] == "<-- rank 1: F of stage 1, microbatch 0 is missing"
    assert lines[-1] == "<-- and 2 more that are missing"
