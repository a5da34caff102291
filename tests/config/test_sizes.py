import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.config.sizes import RangeError, parse_ranks, parse_sizes


def test_units_are_powers_of_1024_in_either_case():
    assert parse_sizes("1k:4K") == (1024, 2048, 4096)
    assert parse_sizes("1M") == parse_sizes("1 MiB") == (2**20,)
    assert parse_sizes("2G:8G") == (2**31, 2**32, 2**33)


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.floats(1.2, 10))
def test_sizes_grow_by_the_factor_from_the_first_to_at_most_the_last(first, more, factor):
    sizes = parse_sizes(f"{first}:{first + more}", factor=factor)
    assert sizes[0] == first
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] <= first + more < sizes[-1] * factor + 1


@pytest.mark.parametrize("text", ["", ":", "1K:", ":1K", "1MB", "-1", "0", "1K:2K:3K", "9999999T", "nan", "1e3"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(RangeError, match="--sizes"):
        parse_sizes(text)


def test_a_range_of_too_many_sizes_is_refused():
    with pytest.raises(RangeError, match="raise --factor"):
        parse_sizes("1M:1G", factor=1.0001)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 9))
def test_a_range_of_ranks_is_pythons(first, more, step):
    assert parse_ranks(f"{first}-{first + more}:{step}") == tuple(range(first, first + more + 1, step))


@pytest.mark.parametrize("text", ["", "a", "1-", "3-1", "0-4:0", "0,,1", "1,1", "0-3,2", "0-9999999"])
def test_what_is_no_list_of_ranks_is_refused(text):
    with pytest.raises(RangeError, match="--ranks"):
        parse_ranks(text)
