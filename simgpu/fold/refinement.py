"""Colour refinement: the coarsest equitable partition of a labelled graph, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simgpu.costs.collectives.link_bytes import distinct_values

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]


def refine(colour: Int64, source: Int64, target: Int64, label: Int64) -> Int64:
    """Split colours until all vertices of one colour see the same multiset of (label, colour) around them.

    Parameters
    ----------
    colour : (V,) int64
        Initial colours; vertices of different initial colours are never merged.
    source, target, label : (E,) int64
        Directed edges: ``source[i]`` sees ``target[i]`` through ``label[i]``, which is small and not negative. Give
        both directions.

    Returns
    -------
    (V,) int64
        Colours numbered from 0 in order of first appearance.

    Notes
    -----
    Neighbourhoods are compared by a 64-bit sum of mixed hashes; two different ones collide with probability about
    V^2 / 2^64 per round. `is_equitable` checks the result exactly.

    Examples
    --------
    A path of four vertices: ends and middles.

    >>> import numpy as np
    >>> s = np.array([0, 1, 2]); t = np.array([1, 2, 3]); one = np.zeros(6, np.int64)
    >>> refine(np.zeros(4, np.int64), np.r_[s, t], np.r_[t, s], one).tolist()
    [0, 1, 1, 0]
    """
    labels = np.arange(label.max(initial=0) + 1).astype(np.uint64)
    mixed_label = (_mix(labels + np.uint64(0x9E3779B97F4A7C15)) | np.uint64(1))[label]
    current = colour.astype(np.uint64)
    colours = _distinct(current)
    while True:
        mixed = _mix(current + np.uint64(1))
        seen = mixed[target]
        seen *= mixed_label
        around = np.zeros(len(colour), np.uint64)
        np.add.at(around, source, seen)
        current = _mix(mixed) ^ around
        if colours == (colours := _distinct(current)):
            return _canonical(current)


def is_equitable(colour: Int64, source: Int64, target: Int64, label: Int64) -> bool:
    """Whether all vertices of one colour really see the same multiset of (label, colour).

    Parameters
    ----------
    colour : (V,) int64
    source, target, label : (E,) int64

    Examples
    --------
    >>> import numpy as np
    >>> s = np.array([0, 1, 2]); t = np.array([1, 2, 3]); one = np.zeros(6, np.int64)
    >>> [is_equitable(np.array(c), np.r_[s, t], np.r_[t, s], one) for c in ([0, 1, 1, 0], [0, 0, 0, 0])]
    [True, False]
    """
    sizes = np.bincount(colour)
    several = (sizes[colour] > 1)[source]
    if 2 * np.count_nonzero(several) < len(several):  # a class of one is like itself; few are hardly worth a copy
        source, target, label = source[several], target[several], label[several]
    classes = len(sizes)
    seen = label * classes
    seen += colour[target]
    kinds, seen = distinct_values(seen)
    first = np.empty(classes, np.int64)
    first[colour[::-1]] = np.arange(len(colour))[::-1]
    chosen = np.zeros(len(colour), np.bool_)
    chosen[first] = True
    # What the first vertex of each class sees, and how often, is what every other one has to see.
    seen += colour[source] * len(kinds)
    columns, column = distinct_values(seen)
    often = np.bincount(column[chosen[source]], minlength=len(columns))
    begin = np.searchsorted(columns, np.arange(classes + 1) * len(kinds))
    width = np.diff(begin)[colour]
    row = np.cumsum(width) - width - begin[colour]
    column += row[source]
    counts = np.bincount(column, minlength=int(width.sum()))
    return bool((counts == often[np.arange(len(counts)) - np.repeat(row, width)]).all())


def _distinct(keys: UInt64) -> int:
    ordered = np.sort(keys, kind="stable")  # equal ones come in long runs
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + 1


def _canonical(keys: UInt64) -> Int64:
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[inverse]


def _mix(x: UInt64) -> UInt64:
    """Hash 64-bit integers (the finaliser of SplitMix64; G. Steele et al., OOPSLA 2014)."""
    x = x.copy()
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
