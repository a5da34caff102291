"""Loads of many links as arrays say what loops over mappings say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.costs.collectives.crossings import crossings
from simgpu.costs.collectives.link_bytes import MANY, LinkBytes, ManyLoads, columns, distinct_values
from simgpu.costs.collectives.load import merged, transfer
from simgpu.program import Load

shares = st.dictionaries(st.integers(0, 400), st.integers(1, 3), max_size=200)


def as_arrays(loads):
    """The same as columns, in the order that they have: by link."""
    return LinkBytes(*columns(dict(sorted(loads.items()))))


@given(st.lists(shares, min_size=1, max_size=6), st.integers(0, 10**12))
def test_shares_are_whole_bytes_that_sum_to_all(parts, size):
    share, extra = divmod(size, len(parts))
    expected = {}
    for number, part in enumerate(parts):
        for link, times in part.items():
            expected[link] = expected.get(link, 0) + times * (share + (number < extra))
    found = crossings(parts).loads(size)
    assert dict(found) == {link: load for link, load in expected.items() if load}
    assert isinstance(found, LinkBytes) == (len(found) > MANY)
    assert dict(crossings([columns(part) for part in parts]).loads(size)) == dict(found)


@given(shares, shares)
def test_adding_up(one, other):
    expected = merged(one, other)
    assert dict(merged(as_arrays(one), other)) == dict(merged(as_arrays(one), as_arrays(other))) == expected


@given(shares)
def test_loads_of_a_transfer(loads):
    def loads_of(given):
        return transfer(given, total_ns=2, stream_ns=1, algorithm="ring", source="measured", bottleneck="").loads

    listed = tuple(Load(link=link, bytes=loads[link]) for link in sorted(loads))
    assert loads_of(as_arrays(loads)) == loads_of(loads) == listed
    assert isinstance(loads_of(as_arrays(loads)), ManyLoads)
    assert loads_of(as_arrays(loads))[:2] == listed[:2]
    assert hash(loads_of(as_arrays(loads))) == hash(listed)


@pytest.mark.parametrize("most", [20, 10**15])  # dense and sparse
@given(st.data())
def test_distinct_values(most, data):
    values = data.draw(st.lists(st.integers(0, most), max_size=60))
    distinct, place = distinct_values(np.array(values, np.int64))
    assert distinct.tolist() == sorted(set(values))
    assert distinct[place].tolist() == values
