"""The Gantt: what every stream of every class of ranks did, all variants on one time axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simgpu.metrics.report import Report
from simgpu.units import format_time
from simgpu.view.figure import GRID, Spec, layout, left_margin, payload, shorten, text, to_figure
from simgpu.view.lanes import PAINTS, Chart, Drawn, Lane, chart, thinned
from simgpu.view.palette import CLASSES, GANTT, OVER
from simgpu.view.placement import Placement, placement

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_BARS = 10_000  # plotly.js draws 10,000 bars in 0.5 s and zooms in 0.3 s; 100,000 take 8 s
_LABELLED = 600  # bars that carry a word: each costs a text element, which plotly hides where it does not fit
_PLOT_PX = 1100  # width of the plot that room for text is reckoned with
_TOP_PX = 112  # the legend
_PASSES = frozenset(("forward", "backward", "recompute"))
_WORDS = {name: name.replace(".", " ") for name in GANTT if name in ("bubble", "straggler", "host") or name[:2] == "ex"}
_HEADLINE = 125  # characters that fit above the rows, also on paper
_ROUNDED = 0.02  # pixels: too thin to see


def gantt(reports: Sequence[Report], *, max_bars: int = MAX_BARS) -> go.Figure:
    """Draw the timelines of several runs under each other on one common time axis.

    Parameters
    ----------
    reports : sequence of Report
    max_bars : int
        Bars drawn at most; above it, bars that are too short to see are merged.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> len(gantt([]).data)
    0
    """
    return to_figure(spec(reports, max_bars=max_bars))


def spec(reports: Sequence[Report], *, max_bars: int = MAX_BARS, left: int = 0) -> Spec:
    """Build the Gantt as plain data; ``left`` is the least left margin in pixels."""
    drawing = chart(reports)
    drawn = thinned(drawing.drawn, max_bars)
    rows = placement(drawing.lanes)
    start_ms, end_ms = drawn.start_ns / 1e6, drawn.end_ns / 1e6
    horizon_ms = max([report.step_time_ns / 1e6 for report in reports] + [float(end_ms.max(initial=0.0))]) or 1.0
    hover = _hover(drawing, drawn)
    inside = _inside(drawing, drawn, horizon_ms)
    outline = _outline(drawn, drawing.lanes, horizon_ms)
    data = []
    for code, name in enumerate(PAINTS):
        bars = np.flatnonzero(drawn.paint == code)
        if len(bars):
            lane, marker = drawn.lane[bars], GANTT[name].marker
            data.append(
                _trace(name)
                | {
                    "base": start_ms[bars],
                    "x": end_ms[bars] - start_ms[bars],
                    "y": rows.middle[lane],
                    "width": rows.thickness[lane],
                    "hovertext": [hover[bar] for bar in bars],
                    "text": [inside.get(bar, "") for bar in bars.tolist()],
                    "marker": marker | {"line": marker["line"] | {"width": outline[bars]}},
                }
            )
    notes = _notes(drawing, len(drawing.drawn), len(drawn))
    bottom = 52 + 16 * len(notes)
    return {
        "data": data,
        "layout": layout(
            height=rows.height + _TOP_PX + bottom,
            left=max(left, left_margin(rows.label)),
            top=_TOP_PX,
            bottom=bottom,
            barmode="overlay",
            bargap=0,
            bargroupgap=0,
            uniformtext={"minsize": 9, "mode": "hide"},
            legend={
                "orientation": "h",
                "x": 0,
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "groupclick": "toggleitem",
            },
            xaxis={
                "range": [0, horizon_ms * 1.01],
                "title": {
                    "text": "time since the start of the step (ms)" + "".join(f"<br>{words}" for words in notes),
                    "font": {"size": 12},
                    "standoff": 8,
                },
                "gridcolor": GRID,
                "zeroline": False,
                "ticks": "outside",
                "tickformat": ",~f",
            },
            yaxis={
                "range": [rows.height, 0],
                "fixedrange": True,
                "tickvals": rows.tick,
                "ticktext": [text(label) + "  " for label in rows.label],
                "showgrid": False,
                "zeroline": False,
            },
            shapes=_frames(reports, rows),
            annotations=[_header(reports[variant], y) for variant, y in zip(rows.variant, rows.header, strict=True)],
        ),
    }


def _notes(drawing: Chart, all_bars: int, drawn_bars: int) -> list[str]:
    notes = []
    if drawn_bars < all_bars:
        notes.append(
            f"{all_bars:,} bars drawn as {drawn_bars:,}: those too short to see are merged, in the colour "
            "of what runs at their middle"
        )
    if drawing.hidden_streams:
        notes.append(f"not shown, under 0.1 % of the step: {text(', '.join(drawing.hidden_streams))}")
    if drawing.hidden_ranks:
        notes.append(f"{drawing.hidden_ranks:,} more classes of ranks are not shown")
    return notes


def _trace(name: str) -> dict[str, Any]:
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
        "constraintext": "inside",
        "cliponaxis": True,
    }


def _header(report: Report, y: float) -> dict[str, Any]:
    gpus = f"{report.gpus:,} GPU{'s' if report.gpus != 1 else ''}"
    step = format_time(report.step_time_ns)
    facts = [gpus] if report.verdict.startswith(step) else [gpus, f"step {step}"]
    facts += [report.verdict] if report.verdict else []
    name = shorten(report.name, 70)
    words = f"<b>{text(name)}</b>   {text(shorten(' · '.join(facts), _HEADLINE - len(name)))}"
    return {
        "x": 0, "xref": "paper", "xanchor": "left", "y": y, "yanchor": "middle", "showarrow": False,
        "text": words, "align": "left", "font": {"size": 13, **({} if report.fits else {"color": OVER})},
    }  # fmt: skip


def _frames(reports: Sequence[Report], rows: Placement) -> list[dict[str, Any]]:
    """Put a pale track behind the rows of each variant, from the start to the end of its step."""
    shapes: list[dict[str, Any]] = []
    for variant, (top, bottom) in zip(rows.variant, rows.frame, strict=True):
        end_ms = reports[variant].step_time_ns / 1e6
        box = {"type": "rect", "layer": "below", "x0": 0, "x1": end_ms, "y0": top, "y1": bottom}
        shapes.append(box | {"fillcolor": "rgba(128,128,128,0.08)", "line": {"width": 0}})
        end = {"type": "line", "x0": end_ms, "x1": end_ms, "y0": top, "y1": bottom}
        shapes.append(end | {"line": {"color": "rgba(128,128,128,0.9)", "width": 2}})
    return shapes


def _outline(drawn: Drawn, lanes: Sequence[Lane], horizon_ms: float) -> NDArray[np.float32]:
    """Width of the line around each bar, which decides how plotly.js draws what is thinner than a pixel.

    Without a line it widens such a bar to a whole pixel: good for a rare transfer, wrong where bars are packed,
    since the last colour would cover all others. With any line it rounds both ends to pixels, so that packed bars
    share the pixels in proportion to their time.
    """
    width_px = (drawn.end_ns - drawn.start_ns) * (_PLOT_PX / (1e6 * horizon_ms))
    thin_bars = np.bincount(drawn.lane[width_px < 1], minlength=len(lanes))
    packed = np.array([lane.stream == "compute" for lane in lanes], dtype=np.bool_) | (thin_bars > _PLOT_PX / 6)
    return np.where(width_px > 4, 0.7, np.where(packed[drawn.lane], _ROUNDED, 0.0)).astype(np.float32)


def _inside(drawing: Chart, drawn: Drawn, horizon_ms: float) -> dict[int, str]:
    """Words inside the longest bars that have room: the microbatch of a pass, the name of a wait or transfer."""
    width_px = (drawn.end_ns - drawn.start_ns) / 1e6 * _PLOT_PX / horizon_ms
    longest = np.argsort(-width_px, kind="stable")
    words: dict[int, str] = {}
    for row in longest[: np.count_nonzero(width_px > 3)].tolist():
        bar, name = drawing.bars[drawn.first[row]], PAINTS[drawn.paint[row]]
        if name in _PASSES:
            word = str(bar.microbatch) if bar.microbatch >= 0 else ""
        else:
            word = _WORDS.get(name, "") or (text(bar.name) if name.startswith("transfer") else "")
        if word:
            words[row] = word
            if len(words) == _LABELLED:
                break
    return words


def _hover(drawing: Chart, drawn: Drawn) -> list[str]:
    """One line a fact, for every drawn bar."""
    shown = []
    for low, pieces, several in zip(drawn.first.tolist(), drawn.count.tolist(), drawn.mixed.tolist(), strict=True):
        bar = drawing.bars[low]
        last = drawing.bars[low + pieces - 1]
        lines = [f"<b>{text(_name(bar, last, pieces, several))}</b>"]
        lines.append(f"{format_time(last.end_ns - bar.start_ns)}, from {bar.start_ns / 1e6:,.3f} ms")
        if several:
            lines.append("zoomed out too far to tell them apart")
        else:
            if bar.microbatch >= 0:
                lines.append(f"microbatch {bar.microbatch}" + (f", {text(bar.phase)}" if bar.phase else ""))
            if bar.bytes:
                lines.append(payload(bar.bytes))
            parts: Counter[str] = Counter()
            for member in drawing.bars[low : low + pieces]:
                parts.update(dict(member.accounting))
            if len(parts) > 1 or bar.kind == "compute":
                lines.append(", ".join(f"{_class(key)} {format_time(ns)}" for key, ns in parts.most_common()))
            if bar.reason:
                lines.append(text(bar.reason))
        lines.append(f"rank {bar.rank} · {text(bar.stream)}")
        shown.append("<br>".join(lines))
    return shown


def _name(bar: Any, last: Any, pieces: int, several: bool) -> str:
    if several:
        return f"{pieces} short spans"
    if bar.name != last.name:
        return f"{bar.name} … {last.name}"
    return CLASSES[bar.name].label if bar.name in CLASSES else bar.name


def _class(key: str) -> str:
    return CLASSES[key].label if key in CLASSES else text(key)
