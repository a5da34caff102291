"""Unions of time intervals: one function that every overlap metric uses."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[int, int]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Merge half-open intervals into disjoint ones in order; empty ones vanish.

    Examples
    --------
    >>> union([(5, 7), (0, 2), (1, 3), (3, 4), (6, 6)])
    [(0, 4), (5, 7)]
    """
    merged: list[Interval] = []
    for start, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Interval]) -> int:
    """Total length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def intersection(left: Iterable[Interval], right: Iterable[Interval]) -> list[Interval]:
    """Where two disjoint ordered lists overlap.

    Examples
    --------
    >>> intersection([(0, 4), (6, 9)], [(3, 7)])
    [(3, 4), (6, 7)]
    """
    a, b = list(left), list(right)
    found, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] <= b[j][1]:
            i += 1
        else:
            j += 1
    return found
