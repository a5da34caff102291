"""Numbers for the different values of a column."""

from __future__ import annotations

import numpy as np

from simgpu.timeline import Int64


def distinct(values: Int64) -> Int64:
    """Return the different values, ascending.

    ``np.unique`` alone would do, but imports numpy's masked arrays, which takes longer than all that it is asked here.

    Parameters
    ----------
    values : (n,) int64

    Returns
    -------
    (different,) int64

    Examples
    --------
    >>> distinct(np.array([7, 3, 7, 5])).tolist()
    [3, 5, 7]
    """
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]


def as_they_come(values: Int64) -> tuple[Int64, Int64]:
    """Give numbers to the different values, in the order in which they come first.

    Parameters
    ----------
    values : (n,) int64

    Returns
    -------
    first : (different,) int64
        Where each of them comes first, ascending.
    number : (n,) int64
        Of each value.

    Examples
    --------
    >>> first, number = as_they_come(np.array([7, 3, 7, 5]))
    >>> first.tolist(), number.tolist()
    ([0, 1, 3], [0, 1, 0, 2])
    """
    _, first, which = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(first), np.int64)
    number[order] = np.arange(len(first))
    return first[order], number[which]
