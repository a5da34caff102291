"""Colour refinement: the coarsest equitable partition of a labelled graph, in numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]


def refine(colour: Int64, source: Int64, target: Int64, label: Int64) -> Int64:
    """Split colours until all vertices of one colour see the same multiset of (label, colour) around them.

    Parameters
    ----------
    colour : (V,) int64
        Initial colours; vertices of different initial colours are never merged.
    source, target, label : (E,) int64
        Directed edges: ``source[i]`` sees ``target[i]`` through ``label[i]``. Give both directions.

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
    order = np.argsort(source, kind="stable")
    source, target = source[order], target[order]
    mixed_label = _mix(label[order].astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    first = np.flatnonzero(np.r_[True, source[1:] != source[:-1]]) if len(source) else np.zeros(0, np.int64)
    current = colour.astype(np.uint64)
    colours = _distinct(current)
    while True:
        mixed = _mix(current + np.uint64(1))
        around = np.zeros(len(colour), np.uint64)
        if len(source):
            around[source[first]] = np.add.reduceat(_mix(mixed[target] ^ mixed_label), first)
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
    kinds = (int(label.max(initial=0)) + 1) * (int(colour.max(initial=0)) + 1)
    ordered = np.sort(source * kinds + label * (int(colour.max(initial=0)) + 1) + colour[target])
    source, seen = np.divmod(ordered, kinds)
    degree = np.bincount(source, minlength=len(colour))
    start = np.r_[0, np.cumsum(degree)[:-1]]
    _, first, inverse = np.unique(colour, return_index=True, return_inverse=True)
    representative = first[inverse]
    if (degree != degree[representative]).any():
        return False
    counterpart = start[representative[source]] + (np.arange(len(source)) - start[source])
    return bool((seen == seen[counterpart]).all())


def _distinct(keys: UInt64) -> int:
    ordered = np.sort(keys)
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
