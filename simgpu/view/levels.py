"""Every bar of a large timeline in a few bytes each, for a page that draws what its reader zooms in on."""

from __future__ import annotations

import base64
import gzip
from typing import Any, Final

import numpy as np

from simgpu.metrics.bar_table import Label
from simgpu.metrics.numbering import as_they_come
from simgpu.metrics.releases import REASONS
from simgpu.timeline import Int64
from simgpu.view.bars import PASSES, WORDS, bar_name, trace
from simgpu.view.figure import payload, text
from simgpu.view.lanes import PAINTS, Chart
from simgpu.view.placement import Placement
from simgpu.view.released import Released

_TICKS: Final = 1 << 32  # times are unsigned 32-bit: nanoseconds up to 4.29 s, coarser above
_LEVEL: Final = 6  # of gzip: higher ones gain little


def levels(drawing: Chart, rows: Placement, horizon_ns: int, found: Released) -> dict[str, Any]:
    """Pack all bars of a chart for ``levels.js`` and ``overlay.js``.

    Parameters
    ----------
    drawing : Chart
    rows : Placement
        Of its lanes.
    horizon_ns : int, nanoseconds
        End of the time axis.
    found : Released
        What released each bar.

    Returns
    -------
    dict
        ``tick_ns``; ``middle`` and ``thickness`` of the lanes, pixels, and their ``titles``; ``paints``, a trace
        without bars for each kind; ``words``, what is written in its bars, ``#`` for the microbatch, ``*`` for its
        name; ``labels``, what bars tell on hover besides their times; ``reasons``; ``columns``, gzip and base64,
        little-endian, one after the other: first bar of each lane and the end (uint32), start and length in ticks
        (uint32), label (uint32), the bar that released it (uint32, all ones for none), microbatch (int32), stage
        (int16), paint (uint8), reason (uint8).

    Examples
    --------
    >>> from simgpu.view.lanes import chart
    >>> from simgpu.view.placement import placement
    >>> from simgpu.view.released import released
    >>> one = chart([])
    >>> packed = levels(one, placement([]), 1, released(one, []))
    >>> packed["tick_ns"], packed["labels"], len(gzip.decompress(base64.b64decode(packed["columns"])))
    (1, [], 4)
    """
    drawn = drawing.drawn
    tick_ns = -(-horizon_ns // (_TICKS - 1))
    labels, label = _labels(drawing)
    start = drawn.start_ns // tick_ns
    columns = (
        np.searchsorted(drawn.lane, np.arange(len(drawing.lanes) + 1)).astype("<u4"),
        start.astype("<u4"),
        (drawn.end_ns // tick_ns - start).astype("<u4"),
        label.astype("<u4"),
        found.bar.astype("<u4"),
        drawing.bars.microbatch[drawn.first].astype("<i4"),
        drawn.stage.astype("<i2"),
        drawn.paint.astype("u1"),
        found.reason.astype("u1"),
    )
    packed = gzip.compress(b"".join(column.tobytes() for column in columns), compresslevel=_LEVEL, mtime=0)
    return {
        "bars": len(drawn),
        "tick_ns": tick_ns,
        "middle": rows.middle,
        "thickness": rows.thickness,
        "titles": [f"{lane.title} · {lane.stream}" for lane in drawing.lanes],
        "paints": [trace(name) for name in PAINTS],
        "words": [_word(name) for name in PAINTS],
        "reasons": REASONS,
        "labels": labels,
        "columns": base64.b64encode(packed).decode(),
    }


def _word(paint: str) -> str:
    if paint in PASSES:
        return "#"
    return "*" if paint.startswith("transfer") else WORDS.get(paint, "")


def _labels(drawing: Chart) -> tuple[list[str], Int64]:
    """Write the labels of all drawn bars, in the order in which they come first; return the number of each one's."""
    drawn, bars = drawing.drawn, drawing.bars
    last = drawn.first + drawn.count - 1
    # Bars of a lane say the same where the first and the last of the bars that they join do.
    first_of, last_of, count = bars.label[drawn.first], bars.label[last], len(bars.labels)
    says = (first_of * count + last_of) * len(drawing.lanes) + drawn.lane
    first, which = as_they_come(says)
    known: dict[str, int] = {}
    number = np.zeros(len(first), np.int64)
    for one, row in enumerate(first.tolist()):
        begin = int(drawn.first[row])
        lane = f"rank {bars.rank[begin]} · {text(bars.streams[bars.stream[begin]])}"
        said = _label(bars.labels[bars.label[begin]], bars.labels[bars.label[last[row]]], lane)
        number[one] = known.setdefault(said, len(known))
    return list(known), number[which]


def _label(bar: Label, last: Label, lane: str) -> str:
    """Lines of a hover, between which the page puts the time."""
    lines = [f"<b>{text(bar_name(bar, last))}</b>"]
    if bar.phase:
        lines.append(text(bar.phase))
    if bar.bytes:
        lines.append(payload(bar.bytes))
    if bar.reason:
        lines.append(text(bar.reason))
    lines.append(lane)
    return "<br>".join(lines)
