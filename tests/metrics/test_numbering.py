"""Numbers for the different values of a column."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simgpu.metrics.numbering import as_they_come, distinct

columns = st.lists(st.integers(-(2**62), 2**62) | st.integers(-2, 2), max_size=60)


@given(columns)
def test_distinct_values_ascend(values):
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))


@given(columns)
def test_values_are_numbered_as_they_come(values):
    first, number = as_they_come(np.array(values, np.int64))
    different = list(dict.fromkeys(values))
    assert first.tolist() == [values.index(value) for value in different]
    assert number.tolist() == [different.index(value) for value in values]
