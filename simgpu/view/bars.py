"""Bars of a Gantt as traces, one a kind: where they stand, what they are labelled with, what they tell on hover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.bar_table import Label
from simgpu.units import format_time
from simgpu.view.figure import payload, text
from simgpu.view.lanes import PAINTS, Chart, Drawn, Lane
from simgpu.view.palette import CLASSES, GANTT
from simgpu.view.placement import Placement
from simgpu.view.released import Released
from simgpu.view.stretches import PLOT_PX, packed_lanes, shares

_LABELLED = 600  # bars that carry a word: each costs a text element, which plotly hides where it does not fit
_BOTH_PX = 22  # room for a microbatch and, smaller, the stage
PASSES: Final = ("forward", "backward", "recompute", "weight")
"""What carries the number of its microbatch."""
WORDS: Final = {
    name: name.replace(".", " ") for name in GANTT if name in ("bubble", "straggler", "host") or name[:2] == "ex"
}
_INVISIBLE = 0.02  # pixels: too thin to see
_SEAM = 0.5  # pixels of its own colour around a merged stretch, or the ground shines through where two meet


def traces(
    drawing: Chart, drawn: Drawn, rows: Placement, horizon_ns: int, found: Released | None = None
) -> list[dict[str, Any]]:
    """Make the traces, in the order of the legend.

    Parameters
    ----------
    drawing : Chart
    drawn : Drawn
        Its bars, or fewer where they were merged.
    rows : Placement
        Of the chart's lanes.
    horizon_ns : int, nanoseconds
        End of the time axis.
    found : Released, optional
        What released the chart's bars.

    Returns
    -------
    list of dict
        Times in milliseconds, heights in pixels; ``customdata`` is the bar's index in ``drawing.drawn``, -1 for a
        merged stretch.

    Examples
    --------
    >>> from simgpu.view.lanes import chart
    >>> from simgpu.view.placement import placement
    >>> traces(chart([]), chart([]).drawn, placement([]), 1)
    []
    """
    start_ms, end_ms, horizon_ms = drawn.start_ns / 1e6, drawn.end_ns / 1e6, horizon_ns / 1e6
    index = own_index(drawing.drawn, drawn)
    hover = _hover(drawing, drawn, index, found)
    inside = _inside(drawing, drawn, horizon_ms)
    outline = _outline(drawn, drawing.lanes, horizon_ns)
    data = []
    for code, name in enumerate(PAINTS):
        bars = np.flatnonzero(drawn.paint == code)
        if len(bars):
            lane, marker = drawn.lane[bars], GANTT[name].marker
            data.append(
                trace(name)
                | {
                    "base": start_ms[bars],
                    "x": end_ms[bars] - start_ms[bars],
                    "y": rows.middle[lane] + rows.thickness[lane] * (1 - drawn.low[bars] - drawn.high[bars]) / 2,
                    "width": rows.thickness[lane] * (drawn.high[bars] - drawn.low[bars]),
                    "hovertext": [hover[bar] for bar in bars],
                    "text": [inside.get(bar, "") for bar in bars.tolist()],
                    "customdata": index[bars].astype(np.int32),
                    "marker": marker
                    | {"line": _line(marker["line"], marker["color"], outline[bars], drawn.stretch[bars])},
                }
            )
    return data


def trace(name: str) -> dict[str, Any]:
    """Return the trace of one kind of bar, without bars.

    Examples
    --------
    >>> trace("forward")["name"]
    'forward'
    """
    paint = GANTT[name]
    return {
        "type": "bar",
        "orientation": "h",
        "name": paint.label,
        "legendgroup": paint.group,
        "legendgrouptitle": {"text": paint.group},
        "hovertemplate": "%{hovertext}<extra></extra>",
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {"size": 11, "color": paint.ink},
        "marker": paint.marker,
        "constraintext": "inside",
        "cliponaxis": True,
    }


def _outline(drawn: Drawn, lanes: Sequence[Lane], horizon_ns: int) -> NDArray[np.float32]:
    """Width of the line around each bar, which decides how plotly.js draws what is thinner than two pixels.

    Without a line it widens such a bar to whole pixels: good for a rare transfer, wrong where bars are packed, since
    the last colour would cover all others. With any line the bar keeps its true size, and bars that share a pixel mix
    there in proportion to their time.
    """
    width_px = (drawn.end_ns - drawn.start_ns) * (PLOT_PX / horizon_ns)
    packed = packed_lanes(drawn, len(lanes), horizon_ns)
    packed |= np.array([lane.stream == "compute" for lane in lanes], dtype=np.bool_)
    width = np.where(width_px > 4, 0.7, np.where(packed[drawn.lane], _INVISIBLE, 0.0))
    return np.where(drawn.stretch >= 0, _SEAM, width).astype(np.float32)


def _line(line: dict[str, Any], own: str, width: NDArray[np.float32], stretch: NDArray[np.int64]) -> dict[str, Any]:
    """Outline of the bars of one kind: white between bars, their own colour around merged stretches."""
    merged = stretch >= 0
    return {"width": width, "color": np.where(merged, own, line["color"]).tolist() if merged.any() else line["color"]}


def _inside(drawing: Chart, drawn: Drawn, horizon_ms: float) -> dict[int, str]:
    """Words inside the longest bars that have room: the microbatch of a pass, the name of a wait or transfer."""
    width_px = (drawn.end_ns - drawn.start_ns) / 1e6 * PLOT_PX / horizon_ms
    longest = np.argsort(-width_px, kind="stable")
    bars = drawing.bars
    words: dict[int, str] = {}
    for row in longest[: np.count_nonzero(width_px > 3)].tolist():
        name = PAINTS[drawn.paint[row]]
        if drawn.stretch[row] >= 0:
            continue
        if name in PASSES:
            microbatch = bars.microbatch[drawn.first[row]]
            small = f"<sub>{drawn.stage[row]}</sub>" if drawn.stage[row] >= 0 and width_px[row] > _BOTH_PX else ""
            word = f"{microbatch}{small}" if microbatch >= 0 else ""
        else:
            label = bars.labels[bars.label[drawn.first[row]]]
            word = WORDS.get(name, "") or (text(label.name) if name.startswith("transfer") else "")
        if word:
            words[row] = word
            if len(words) == _LABELLED:
                break
    return words


def own_index(all_bars: Drawn, drawn: Drawn) -> NDArray[np.int64]:
    """Return the index of each drawn bar among all of the chart, -1 for a merged stretch.

    Parameters
    ----------
    all_bars, drawn : Drawn
        The chart's bars, and those or fewer where they were merged.

    Returns
    -------
    (n,) int64
    """
    horizon = int(all_bars.end_ns.max(initial=0)) + 1
    places = all_bars.lane * horizon + all_bars.start_ns
    return np.where(drawn.stretch >= 0, -1, np.searchsorted(places, drawn.lane * horizon + drawn.start_ns))


def _hover(drawing: Chart, drawn: Drawn, index: NDArray[np.int64], found: Released | None) -> list[str]:
    """One line a fact, for every drawn bar."""
    shown = []
    parts_of, bars = shares(drawn), drawing.bars
    last = drawn.first + drawn.count - 1
    columns = (
        drawn.first, drawn.count, drawn.stretch, drawn.stage, index, bars.label[drawn.first], bars.label[last],
        bars.start_ns[drawn.first], bars.end_ns[last], bars.microbatch[drawn.first], bars.rank[drawn.first],
        bars.stream[drawn.first],
    )  # fmt: skip
    for low, pieces, stretch, stage, own, first, final, start, end, microbatch, rank, stream in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        label = bars.labels[first]
        named = f"{pieces} short spans" if stretch >= 0 else text(bar_name(label, bars.labels[final]))
        lines = [f"<b>{named}</b>", f"{format_time(end - start)}, from {start / 1e6:,.3f} ms"]
        if stretch >= 0:
            lines += [f"{share:.1%} {GANTT[name].label}" for name, share in parts_of[stretch]]
        else:
            if microbatch >= 0:
                stages = f", stage {stage}" if stage >= 0 else ""
                lines.append(f"microbatch {microbatch}{stages}" + (f", {text(label.phase)}" if label.phase else ""))
            if label.bytes:
                lines.append(payload(label.bytes))
            parts: Counter[str] = Counter()
            for member in range(low, low + pieces):
                parts.update(dict(bars.accounting(member)))
            if len(parts) > 1 or label.kind == "compute":
                lines.append(", ".join(f"{_class(key)} {format_time(ns)}" for key, ns in parts.most_common()))
            if label.reason:
                lines.append(text(label.reason))
            if found is not None and (said := found.words(own, title(drawing, int(found.bar[own])))):
                lines.append(said)
        lines.append(f"rank {rank} · {text(bars.streams[stream])}")
        shown.append("<br>".join(lines))
    return shown


def title(drawing: Chart, bar: int) -> str:
    """Name a drawn bar and its row, escaped; empty for -1.

    Parameters
    ----------
    drawing : Chart
    bar : int
        Index in ``drawing.drawn``.
    """
    if bar < 0:
        return ""
    first = int(drawing.drawn.first[bar])
    last = first + int(drawing.drawn.count[bar]) - 1
    bars = drawing.bars
    name = bar_name(bars.labels[bars.label[first]], bars.labels[bars.label[last]])
    return text(f"{name} of rank {bars.rank[first]}")


def bar_name(bar: Label, last: Label) -> str:
    """Name a drawn bar by the first and the last of those it joins."""
    if bar.name != last.name:
        return f"{bar.name} … {last.name}"
    return CLASSES[bar.name].label if bar.name in CLASSES else bar.name


def _class(key: str) -> str:
    return CLASSES[key].label if key in CLASSES else text(key)
