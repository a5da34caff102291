import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simgpu.units import (
    QuantityError,
    format_bandwidth,
    format_bytes,
    format_count,
    format_time,
    parse_bandwidth,
    parse_bytes,
    parse_count,
    parse_number,
    parse_time,
)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (parse_bandwidth, "200 Gb/s", 25_000_000_000),  # 200e9 bits / 8
        (parse_bandwidth, "200Gbit/s", 25_000_000_000),
        (parse_bandwidth, "25 GB/s", 25_000_000_000),
        (parse_bandwidth, "1 GiB/s", 2**30),
        (parse_bandwidth, "12.5 MB/s", 12_500_000),
        (parse_bandwidth, 300, 300_000_000_000),
        (parse_bandwidth, "300", 300_000_000_000),
        (parse_time, "25 us", 25_000),
        (parse_time, "1.1 us", 1_100),  # 1.1 * 1000 in binary floats is 1100.0000000000002
        (parse_time, "25 µs", 25_000),
        (parse_time, "3 ms", 3_000_000),
        (parse_time, "1.5 s", 1_500_000_000),
        (parse_time, "1 min", 60_000_000_000),
        (parse_time, "2 h", 7_200_000_000_000),
        (parse_time, 0, 0),
        (parse_time, 7, 7),
        (parse_time, "2.5 ns", 2),  # half to even
        (parse_bytes, "80 GiB", 80 * 2**30),
        (parse_bytes, "512 MB", 512_000_000),
        (parse_bytes, "25 MiB", 25 * 2**20),
        (parse_bytes, "1_024 B", 1024),
        (parse_count, "5e8", 500_000_000),
        (parse_count, 5e8, 500_000_000),
        (parse_count, "40M", 40_000_000),
        (parse_count, "1.4 T", 1_400_000_000_000),
        (parse_number, "2.5", 2.5),
        (parse_number, 3, 3.0),
    ],
)
def test_quantities_are_read_exactly(parse, text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "value", "words"),
    [
        (parse_bandwidth, "200 Gb" + "ps", "does not say bits or bytes"),
        (parse_bandwidth, "200 GB" + "PS", "write 'Gb/s' for bits or 'GB/s' for bytes"),
        (parse_bandwidth, "200 gb/s", "write 'Gb/s' or 'GB/s'"),
        (parse_bandwidth, "16 GT/s", "lane count"),
        (parse_bandwidth, "16 furlongs", "unknown unit 'furlongs'"),
        (parse_bandwidth, "5 GiB", "unknown unit"),
        (parse_bandwidth, "-1 GB/s", "negative"),
        (parse_time, "-3 ms", "negative"),
        (parse_time, math.nan, "not a finite number"),
        (parse_time, math.inf, "not a finite number"),
        (parse_time, "nan", "not a finite number"),
        (parse_time, "-inf ms", "not a finite number"),
        (parse_time, ".inf", "not a finite number"),
        (parse_time, "0.1 ns", "below 1 ns"),
        (parse_time, True, "a boolean"),
        (parse_time, None, "empty"),
        (parse_time, [1], "a list"),
        (parse_time, {"a": 1}, "a mapping"),
        (parse_time, "", "does not start with a number"),
        (parse_time, "fast", "does not start with a number"),
        (parse_bytes, "80 Gb", "bits"),
        (parse_bytes, "80 gib", "bits"),
        (parse_bytes, "80 GIB", "write 'GiB'"),
        (parse_bytes, "80 %", "unknown unit"),
        (parse_count, 2.5, "not a whole number"),
        (parse_count, "2.5", "not a whole number"),
        (parse_count, "1e999999999", "too large"),
        (parse_count, True, "a boolean"),
        (parse_number, "3 s", "has a unit"),
        (parse_number, -1, "negative"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_reason(parse, value, words):
    with pytest.raises(QuantityError) as caught:
        parse(value)
    assert words in str(caught.value)
    assert "allowed: " in str(caught.value)


@given(st.integers(0, 10**6), st.sampled_from([("ns", 1), ("us", 10**3), ("ms", 10**6), ("s", 10**9)]))
def test_a_whole_number_with_a_unit_is_exact(number, unit):
    assert parse_time(f"{number} {unit[0]}") == number * unit[1]
    assert parse_time(number, plain=unit[0]) == number * unit[1]


@given(st.integers(1, 10**14))
def test_bits_are_an_eighth_of_bytes(number):
    assert parse_bandwidth(f"{8 * number} b/s") == parse_bandwidth(f"{number} B/s") == number


@given(st.integers(1, 10**14))
def test_what_is_written_for_people_reads_back_within_its_four_digits(number):
    for write, read in (
        (format_time, parse_time),
        (format_bytes, parse_bytes),
        (format_bandwidth, parse_bandwidth),
        (format_count, parse_count),
    ):
        assert read(write(number)) == pytest.approx(number, rel=5.1e-4, abs=1.1)


@given(st.floats(allow_nan=True, allow_infinity=True) | st.text(max_size=20) | st.booleans() | st.none())
def test_any_value_gives_a_quantity_or_a_quantity_error(value):
    for parse in (parse_time, parse_bytes, parse_bandwidth, parse_count, parse_number):
        with contextlib.suppress(QuantityError):
            assert parse(value) >= 0


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (999_999.6, "1 ms"),
        (999_960_000, "1 s"),
        (999_600_000, "999.6 ms"),
        (1_420_000_000, "1.42 s"),
    ],
)
def test_times_choose_their_unit_after_rounding(time_ns, text):
    assert format_time(time_ns) == text


@pytest.mark.parametrize(
    ("read", "largest", "too_large", "allowed"),
    [
        (parse_bandwidth, "100000 GB/s", "25e9 GB/s", "up to 100,000 GB/s"),
        (parse_time, "1e6 s", 10**18, "up to 1e6 s"),
        (parse_bytes, 2**60, 10**30, "up to 1 EiB"),
        (parse_count, "1e18", "2e18", "up to 1e18"),
        (parse_count, 10**18, 10**100, "up to 1e18"),
    ],
)
def test_what_would_not_fit_64_bits_is_too_large_to_be_meant(read, largest, too_large, allowed):
    assert read(largest) < 2**62
    with pytest.raises(QuantityError) as caught:
        read(too_large)
    assert caught.value.problem == "is too large to be meant"
    assert caught.value.allowed.endswith(allowed)
