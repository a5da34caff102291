"""Curves of many steps, cut down to what a plot can show; ``curves.js`` draws a zoomed window from all their points."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Curve = NDArray[np.float64]

_BINS: Final = 800  # of a whole plot: a pixel or two each
_MOST_POINTS: Final = 50_000  # that a page carries for zooming


def thinned(x: Curve, y: Curve, how: str, bins: int = _BINS) -> tuple[Curve, Curve]:
    """Cut a curve down to two points a bin at most.

    Parameters
    ----------
    x : (n,) float64
        Ascending; the last one ends the curve.
    y : (n,) float64
        Value from each x to the next.
    how : str
        ``hold`` keeps the lowest and the highest value of each bin, ``mean`` the mean over x.
    bins : int

    Returns
    -------
    (x, y)
        Unchanged when they are no more than two a bin.

    Examples
    --------
    >>> x, y = thinned(np.arange(9.0), np.array([0.0, 1, 0, 1, 0, 1, 0, 1, 0]), "mean", bins=2)
    >>> x.tolist(), y.tolist()
    ([0.0, 4.0, 8.0], [0.5, 0.5, 0.0])
    """
    if len(x) <= 2 * bins or x[-1] <= x[0]:
        return x, y
    edges = np.linspace(x[0], x[-1], bins + 1)
    if how == "mean":
        area = np.concatenate([[0.0], np.cumsum(y[:-1] * np.diff(x))])
        return edges, np.append(np.diff(np.interp(edges, x, area)) * bins / (x[-1] - x[0]), y[-1])
    starts = np.searchsorted(x, edges[:-1], "right") - 1
    stops = np.maximum(np.searchsorted(x, edges[1:], "left"), starts + 1)
    pairs, held = np.stack([starts, stops], axis=1).ravel(), np.append(y, y[-1])
    low, high = np.minimum.reduceat(held, pairs)[::2], np.maximum.reduceat(held, pairs)[::2]
    half = (edges[1] - edges[0]) / 2
    points = np.stack([edges[:-1], edges[:-1] + half], axis=1).ravel()
    return np.append(points, x[-1]), np.append(np.stack([low, high], axis=1).ravel(), y[-1])


def packed(trace: int, x: Curve, y: Curve, how: str) -> dict[str, Any] | None:
    """Return what ``curves.js`` needs to draw a curve when zoomed in; None when the picture has all its points.

    Parameters
    ----------
    trace : int
        Its number in the figure.
    x, y, how
        As in `thinned`.

    Examples
    --------
    >>> packed(0, np.arange(3.0), np.zeros(3), "hold") is None
    True
    """
    if len(x) <= 2 * _BINS:
        return None
    x, y = thinned(x, y, how, bins=_MOST_POINTS // 2)
    return {"trace": trace, "how": how, "x": x, "y": y.astype(np.float32)}
