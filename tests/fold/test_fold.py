"""Folded and unfolded runs agree to the nanosecond."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simgpu.engine import play
from simgpu.fold import fold
from simgpu.program import Load, Record, Wait
from tests.programs import all_reduce, cost, hosted, program, reduce_key, role, work


def pairs(durations, capacity=10**9, latency=7):
    """Pairs of ranks (2i, 2i+1) that reduce over one common link; pair i computes for durations[i]."""
    roles, role_of_rank, groups, transfers = [], [], [], {}
    for index, duration in enumerate(durations):
        if duration not in durations[:index]:
            roles.append(
                role(
                    {
                        "compute": [work(duration), Record(1), work(3), Record(3), Wait(2), Wait(4), work(11)],
                        "dp": [Wait(1), all_reduce(100), Record(2), Wait(3), all_reduce(64), Record(4)],
                    }
                )
            )
        number = list(dict.fromkeys(durations)).index(duration)
        role_of_rank += [number, number]
        groups.append(("dp", (2 * index, 2 * index + 1)))
        for size in (100, 64):
            transfers[index, reduce_key(size)] = cost(latency, size, [(0, size), (1 + index, size)])
    return program(roles, role_of_rank, groups, transfers, links=[capacity, *[10**9] * len(durations)])


def times(timeline, folded=None):
    """Every span's times per real rank."""
    found = {}
    for index, binding in enumerate(timeline.program.ranks):
        for member in binding.members:
            for stream in timeline.streams:
                found[member, stream] = [
                    (
                        int(timeline.spans.ready_ns[row]),
                        int(timeline.spans.start_ns[row]),
                        int(timeline.spans.end_ns[row]),
                    )
                    for row in timeline.rows(index, stream)
                ]
    return found


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([10, 17, 40]), min_size=1, max_size=5),
    st.sampled_from([3 * 10**8, 10**9, 2 * 10**9, 10**10]),
)
def test_folded_equals_unfolded_to_the_nanosecond(durations, capacity):
    whole = pairs(durations, capacity)
    small = fold(whole)
    assert sorted(member for rank in small.ranks for member in rank.members) == list(range(2 * len(durations)))
    full, folded = play(whole), play(small)
    assert full.step_ends_ns == folded.step_ends_ns
    assert times(full) == times(folded)


def test_alike_ranks_fold_to_one_with_multiplicities():
    small = fold(pairs([10, 10, 10, 10]))
    assert [rank.members for rank in small.ranks] == [tuple(range(8))]
    assert len(small.groups) == 1
    loads = small.transfers[0, reduce_key(100)].loads
    assert [(small.links[load.link].name, load.bytes, load.count) for load in loads] == [
        ("link 0", 100, 4),
        ("link 1", 100, 1),
    ]


def test_one_slower_link_splits_only_what_it_touches():
    whole = pairs([10, 10, 10])
    links = list(whole.links)
    links[2] = replace(links[2], bytes_per_s=5 * 10**8)
    small = fold(replace(whole, links=tuple(links)))
    assert [rank.members for rank in small.ranks] == [(0, 1, 4, 5), (2, 3)]


def test_a_folded_program_folds_to_itself():
    small = fold(pairs([10, 10, 17]))
    again = fold(small)
    assert [rank.members for rank in again.ranks] == [rank.members for rank in small.ranks]
    assert again.transfers == small.transfers


def test_a_wrong_fold_shows():
    """Negative control: dropping the multiplicities gives other times."""
    whole = pairs([10, 10, 10, 10])
    small = fold(whole)
    wrong = {
        key: replace(value, loads=tuple(Load(link=load.link, bytes=load.bytes) for load in value.loads))
        for key, value in small.transfers.items()
    }
    assert play(replace(small, transfers=wrong)).step_ends_ns != play(whole).step_ends_ns


@pytest.mark.parametrize("steps", [1, 2])
def test_reruns_are_identical(steps):
    del steps
    first, second = play(pairs([10, 17])), play(pairs([10, 17]))
    assert times(first) == times(second)
    assert first.flows.rate_per_ns.tolist() == second.flows.rate_per_ns.tolist()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([10, 17, 40]), min_size=1, max_size=4),
    st.sampled_from([3 * 10**8, 10**10]),
    st.sampled_from([1, 9, 60]),
)
def test_folding_keeps_what_the_cpu_does(durations, capacity, issue_ns):
    bare = pairs(durations, capacity)
    whole = replace(
        bare, roles=tuple(replace(r, streams=_frozen(hosted(dict(r.streams), issue_ns))) for r in bare.roles)
    )
    full, folded = play(whole), play(fold(whole))
    assert full.step_ends_ns == folded.step_ends_ns
    assert times(full) == times(folded)
    assert issue_ns < 60 or times(full) != times(play(bare))


def _frozen(streams):
    return {name: tuple(items) for name, items in streams.items()}
