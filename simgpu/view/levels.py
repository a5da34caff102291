"""Every bar of a large timeline in a few bytes each, for a page that draws what its reader zooms in on."""

from __future__ import annotations

import base64
import gzip
from typing import Any, Final

import numpy as np

from simgpu.metrics.activity import Bar
from simgpu.view.bars import bar_name, trace
from simgpu.view.figure import payload, text
from simgpu.view.lanes import PAINTS, Chart
from simgpu.view.placement import Placement

_TICKS: Final = 1 << 32  # times are unsigned 32-bit: nanoseconds up to 4.29 s, coarser above
_LEVEL: Final = 6  # of gzip: higher ones gain little


def levels(drawing: Chart, rows: Placement, horizon_ns: int) -> dict[str, Any]:
    """Pack all bars of a chart for ``levels.js``.

    Parameters
    ----------
    drawing : Chart
    rows : Placement
        Of its lanes.
    horizon_ns : int, nanoseconds
        End of the time axis.

    Returns
    -------
    dict
        ``tick_ns``; ``middle`` and ``thickness`` of the lanes, pixels; ``paints``, a trace without bars for each kind;
        ``labels``, what bars tell on hover besides their times; ``columns``, gzip and base64, little-endian, one after
        the other: first bar of each lane and the end (uint32), start and length in ticks (uint32), label (uint32),
        microbatch (int32), paint (uint8).

    Examples
    --------
    >>> from simgpu.view.lanes import chart
    >>> from simgpu.view.placement import placement
    >>> found = levels(chart([]), placement([]), 1)
    >>> found["tick_ns"], found["labels"], len(gzip.decompress(base64.b64decode(found["columns"])))
    (1, [], 4)
    """
    drawn = drawing.drawn
    tick_ns = -(-horizon_ns // (_TICKS - 1))
    known: dict[str, int] = {}
    label = np.empty(len(drawn), dtype="<u4")
    microbatch = np.empty(len(drawn), dtype="<i4")
    for row, (first, count) in enumerate(zip(drawn.first.tolist(), drawn.count.tolist(), strict=True)):
        bar = drawing.bars[first]
        label[row] = known.setdefault(_label(bar, drawing.bars[first + count - 1]), len(known))
        microbatch[row] = bar.microbatch
    start = drawn.start_ns // tick_ns
    columns = (
        np.searchsorted(drawn.lane, np.arange(len(drawing.lanes) + 1)).astype("<u4"),
        start.astype("<u4"),
        (drawn.end_ns // tick_ns - start).astype("<u4"),
        label,
        microbatch,
        drawn.paint.astype("u1"),
    )
    packed = gzip.compress(b"".join(column.tobytes() for column in columns), compresslevel=_LEVEL, mtime=0)
    return {
        "bars": len(drawn),
        "tick_ns": tick_ns,
        "middle": rows.middle,
        "thickness": rows.thickness,
        "paints": [trace(name) for name in PAINTS],
        "labels": list(known),
        "columns": base64.b64encode(packed).decode(),
    }


def _label(bar: Bar, last: Bar) -> str:
    """Lines of a hover, between which the page puts the time."""
    lines = [f"<b>{text(bar_name(bar, last))}</b>"]
    if bar.phase:
        lines.append(text(bar.phase))
    if bar.bytes:
        lines.append(payload(bar.bytes))
    if bar.reason:
        lines.append(text(bar.reason))
    lines.append(f"rank {bar.rank} · {text(bar.stream)}")
    return "<br>".join(lines)
