"""Where the rows of a Gantt stand: positions in pixels from the top, labels, headers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from simgpu.view.lanes import Lane

_HEADER_PX, _COMPUTE_PX, _STREAM_PX, _SHARED_PX, _GROUP_GAP_PX, _VARIANT_GAP_PX = 30, 22, 19, 8, 5, 14


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement:
    """Rows of all variants from top to bottom; the unit is the pixel.

    Streams of one axis (``pp send to 1``, ``pp recv from 1``, ...) share a band: one label, a thin row each.

    Parameters
    ----------
    middle, thickness : (n_lanes,) float64
    tick, label : per band
        Where its label stands, and the label.
    header : tuple of float
        Middle of each variant's headline.
    frame : tuple of (float, float)
        Top and bottom of each variant's rows.
    variant : tuple of int
        Which Report each header and frame belongs to.
    height : int
    """

    middle: NDArray[np.float64]
    thickness: NDArray[np.float64]
    tick: tuple[float, ...]
    label: tuple[str, ...]
    header: tuple[float, ...]
    frame: tuple[tuple[float, float], ...]
    variant: tuple[int, ...]
    height: int


def placement(lanes: Sequence[Lane]) -> Placement:
    """Stack the lanes, in their order.

    Examples
    --------
    >>> lane = Lane(variant=0, group=0, title="rank 0", stream="compute")
    >>> rows = placement([lane])
    >>> rows.label, rows.middle.tolist(), rows.height
    (('rank 0 · compute',), [41.0], 56)
    """
    middle, thickness = np.zeros(len(lanes)), np.zeros(len(lanes))
    ticks: list[float] = []
    labels: list[str] = []
    headers: list[float] = []
    frames: list[tuple[float, float]] = []
    variants: list[int] = []
    y = 0.0
    for variant, of_variant in groupby(range(len(lanes)), key=lambda i: lanes[i].variant):
        y += _VARIANT_GAP_PX if variants else 0
        variants.append(variant)
        headers.append(y + _HEADER_PX / 2)
        y += _HEADER_PX
        top = y
        for group, of_group in groupby(of_variant, key=lambda i: lanes[i].group):
            y += _GROUP_GAP_PX if group else 0
            title = ""
            for band, of_band in groupby(of_group, key=lambda i: lanes[i].band):
                rows = list(of_band)
                size = _COMPUTE_PX if band == "compute" else _STREAM_PX
                size = max(size, _SHARED_PX * len(rows) + 3)
                each = (size - 2) / len(rows)
                for place, row in enumerate(rows):
                    middle[row] = y + 1 + (place + 0.5) * each
                    thickness[row] = each - (1 if len(rows) > 1 else 0)
                ticks.append(y + size / 2)
                labels.append(f"· {band}" if title else f"{lanes[rows[0]].title} · {band}")
                title = lanes[rows[0]].title
                y += size
        frames.append((top, y))
    return Placement(
        middle=middle,
        thickness=thickness,
        tick=tuple(ticks),
        label=tuple(labels),
        header=tuple(headers),
        frame=tuple(frames),
        variant=tuple(variants),
        height=int(y) + 4,
    )
