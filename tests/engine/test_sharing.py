"""Transfers chained over links: a change at one end reaches the other."""

from simgpu.engine import play
from simgpu.program import Record, Wait
from tests.programs import all_reduce, cost, program, reduce_key, role, work

GB = 10**9


def ends(transfers, capacities):
    """Play one rank with a stream per transfer ``name: (start_ns, bytes, links)``; return when each ends.

    Alone, each moves one byte per nanosecond. The compute stream waits for all, so that steps do not mix.
    """
    streams, costs, waits = {}, {}, []
    for number, (name, (start, size, links)) in enumerate(transfers.items()):
        event = number + 1
        delay = [work(start)] if start else []
        streams[name] = [Wait(99), *delay, all_reduce(size, name), Record(event)]
        costs[number, reduce_key(size)] = cost(0, size, [(link, size) for link in links])
        waits.append(Wait(event))
    only = role({"compute": [work(1), Record(99), *waits], **streams})
    groups = [(name, (0,)) for name in transfers]
    timeline = play(program([only], [0], groups, costs, links=[int(rate * GB) for rate in capacities]))
    found = {}
    for name in transfers:
        row = timeline.rows(0, name)[-1]
        begin = timeline.step_ends_ns[int(timeline.spans.step[row]) - 1]
        found[name] = int(timeline.spans.end_ns[row]) - begin - 1  # since the work of 1 ns
    return found


def test_a_transfer_alone_takes_its_own_time():
    assert ends({"a": (0, 100, [0])}, [1]) == {"a": 100}


def test_the_third_of_a_chain_feels_the_first_come_and_go():
    """a-b share link 0 (1 B/ns), b-c share link 1 (1.5 B/ns).

    0-40 b and c alone: 0.75 each, 30 B. a comes: a and b 0.5 each, c may have 1.0. a's 100 B end at 240, when b has
    130 B and c 230 B; then 0.75 each again: c's 275 B end at 300, with b at 175 B; b goes on at 1.0 and its 275 B
    end at 400.
    """
    found = ends({"a": (40, 100, [0]), "b": (0, 275, [0, 1]), "c": (0, 275, [1])}, [1, 1.5])
    assert found == {"a": 240, "b": 400, "c": 300}


def test_the_end_of_the_first_slows_the_third_and_speeds_up_the_fourth():
    """a-b on link 0 (1 B/ns), b-c on link 1 (1.5), c-d on link 2 (1.75).

    0-200 a and b 0.5; c and d 0.875 each, 175 B. Then b and c 0.75, and d takes what c leaves, 1.0: c's last 75 of
    250 B and d's last 100 of 275 B end at 300, with b at 175 B; its last 100 B alone end at 400.
    """
    found = ends({"a": (0, 100, [0]), "b": (0, 275, [0, 1]), "c": (0, 250, [1, 2]), "d": (0, 275, [2])}, [1, 1.5, 1.75])
    assert found == {"a": 200, "b": 400, "c": 300, "d": 300}


def test_strangers_do_not_feel_each_other():
    found = ends({"a": (0, 100, [0]), "b": (20, 100, [0]), "c": (0, 100, [1]), "d": (90, 100, [1])}, [1, 1])
    assert found == {"a": 180, "b": 200, "c": 110, "d": 200}
