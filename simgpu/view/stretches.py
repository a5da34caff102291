"""Bars too short to see, merged into stretches that show how much of each kind there is."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simgpu.view.lanes import PAINTS, Drawn

PLOT_PX = 1100
"""Width of the plot that room for bars and words is reckoned with."""
_BIN_PX = 4  # of an overview: wide enough to see a stretch, narrow enough to see where a pass ends


def thinned(drawn: Drawn, most: int, *, pixels: int = 1200) -> Drawn:
    """Merge bars too short to see until at most ``most`` remain.

    A merged stretch is drawn as one bar for each kind in it, on top of each other over the whole stretch, each as high
    as its share of the time; where nothing runs, the row stays empty. So the picture has the shares of the run at
    every place, where picking one kind for each stretch would paint whatever the picks happen to hit.

    Parameters
    ----------
    drawn : Drawn
    most : int
        Bars allowed; at least one per lane and kind is always kept.
    pixels : int
        Width of the plot: bars shorter than one pixel are merged first, then longer ones.

    Returns
    -------
    Drawn
        The same object when it was small enough.
    """
    bin_ns = max(1, int(drawn.end_ns.max(initial=1)) // pixels)
    source, everywhere = drawn, np.ones(len(drawn), dtype=np.bool_)
    while len(drawn) > most and bin_ns < 2 * int(source.end_ns.max()):
        following = bin_ns + bin_ns // 2 + 1
        groups = len(source) - np.count_nonzero(_joins(source, bin_ns, everywhere))
        if groups <= most or following >= 2 * int(source.end_ns.max()):  # a group is a bar or more
            drawn = _merged(source, bin_ns, everywhere)
        bin_ns = following
    return drawn


def packed_lanes(drawn: Drawn, lanes: int, horizon_ns: int) -> NDArray[np.bool_]:
    """Find the lanes with more bars thinner than two pixels than a sixth of the plot's pixels.

    Parameters
    ----------
    drawn : Drawn
    lanes : int
        How many there are.
    horizon_ns : int, nanoseconds
        End of the time axis.

    Returns
    -------
    (lanes,) bool
    """
    thin = (drawn.end_ns - drawn.start_ns) * PLOT_PX < 2 * horizon_ns
    return np.bincount(drawn.lane[thin], minlength=lanes) > PLOT_PX / 6


def packed_merged(drawn: Drawn, horizon_ns: int) -> Drawn:
    """Merge what is too short to see on the lanes where bars are packed.

    Parameters
    ----------
    drawn : Drawn
        Without merged stretches.
    horizon_ns : int, nanoseconds
        End of the time axis.

    Returns
    -------
    Drawn
        The same object when no lane is packed.
    """
    packed = packed_lanes(drawn, int(drawn.lane.max(initial=-1)) + 1, horizon_ns)
    return _merged(drawn, max(1, _BIN_PX * horizon_ns // PLOT_PX), packed[drawn.lane]) if packed.any() else drawn


def shares(drawn: Drawn) -> dict[int, list[tuple[str, float]]]:
    """List what each merged stretch is made of: kind and share of its time, the largest first.

    Parameters
    ----------
    drawn : Drawn

    Returns
    -------
    dict of int to list of (str, float)
        By number of the stretch; shares sum to one less the time in which nothing runs.
    """
    found: dict[int, list[tuple[str, float]]] = {}
    for row in np.flatnonzero(drawn.stretch >= 0).tolist():
        share = float(drawn.high[row] - drawn.low[row])
        found.setdefault(int(drawn.stretch[row]), []).append((PAINTS[drawn.paint[row]], share))
    for parts in found.values():
        parts.sort(key=lambda part: -part[1])
    return found


def _merged(drawn: Drawn, bin_ns: int, allowed: NDArray[np.bool_]) -> Drawn:
    """Join neighbours of one lane that start in the same bin and are each shorter than a bin, where ``allowed``.

    Where less than a bin of idleness follows before the next short bar, it belongs to the stretch: a row that is busy
    now and then shows how much, not bars of full height.
    """
    length = drawn.end_ns - drawn.start_ns
    short, same = (length < bin_ns) & allowed, _joins(drawn, bin_ns, allowed)
    heads = np.flatnonzero(~same)
    tails = np.append(heads[1:], len(drawn)) - 1
    group = np.cumsum(~same) - 1
    start, end = drawn.start_ns[heads], drawn.end_ns[tails]
    lane, brief = drawn.lane[heads], short[heads]
    runs_on = np.zeros(len(heads), dtype=np.bool_)
    runs_on[:-1] = (lane[1:] == lane[:-1]) & brief[1:] & brief[:-1] & (start[1:] > end[:-1])
    runs_on[:-1] &= start[1:] - end[:-1] < bin_ns
    end[:-1] = np.where(runs_on[:-1], start[1:], end[:-1])
    # One row for each kind of each group; a bar that stays alone is a group of one kind.
    row_of, row = np.unique(group * len(PAINTS) + drawn.paint, return_inverse=True)
    of, paint = row_of // len(PAINTS), row_of % len(PAINTS)
    share = np.bincount(row, weights=length, minlength=len(row_of)) / (end - start)[of]
    high = _running(share, of)
    merged = ((tails > heads) | runs_on)[of]
    return Drawn(
        lane=lane[of],
        paint=paint,
        start_ns=start[of],
        end_ns=end[of],
        first=drawn.first[heads][of],
        count=(drawn.first[tails] + drawn.count[tails] - drawn.first[heads])[of],
        low=np.where(merged, high - share, 0.0),
        high=np.where(merged, high, 1.0),
        stretch=np.where(merged, of, -1),
        stage=np.where(merged, -1, drawn.stage[heads][of]),
    )


def _joins(drawn: Drawn, bin_ns: int, allowed: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Say of each bar whether it joins the one before it."""
    place, short = drawn.start_ns // bin_ns, (drawn.end_ns - drawn.start_ns < bin_ns) & allowed
    same = np.zeros(len(drawn), dtype=np.bool_)
    same[1:] = (drawn.lane[1:] == drawn.lane[:-1]) & (place[1:] == place[:-1]) & short[1:] & short[:-1]
    return same


def _running(share: NDArray[np.float64], of: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum shares up within each group; ``of`` is ascending."""
    total = np.cumsum(share)
    firsts = np.flatnonzero(np.diff(of, prepend=-1))
    before = (total - share)[firsts]
    return total - np.repeat(before, np.diff(np.append(firsts, len(of))))
