"""Bus bandwidth of a collective against its size, and the page that shows it."""

from __future__ import annotations

import html as markup
from itertools import groupby
from typing import Final

from simgpu.metrics.collective_sweep import CollectiveSweep, SweepRow
from simgpu.units import format_bandwidth, format_time
from simgpu.view.figure import FONT, GRID, Spec, layout, template, text
from simgpu.view.page import document, slot
from simgpu.view.palette import INK

_COLOURS: Final = ("#2253A6", "#D25D1E", "#119283", "#992354", "#6C8CA8", "#E5A801")
_HEIGHT: Final = 470  # pixels
_LEFT: Final = 78  # pixels
_FEW_TICKS: Final = 14

_BANDWIDTH: Final = (
    "Bus bandwidth is nccl-tests' measure: what the links carry, whatever the operation and the number of ranks, so it "
    "can be held against the links' own. A colour for each algorithm and protocol; the dotted curve is the time, on "
    "the right axis. Small messages are all latency, large ones all bandwidth."
)


def spec(sweep: CollectiveSweep) -> Spec:
    """Draw bus bandwidth and time against size, sizes on a logarithmic axis.

    Parameters
    ----------
    sweep : CollectiveSweep

    Returns
    -------
    Spec
    """
    rows = sweep.rows
    names = list(dict.fromkeys(_choice(row) for row in rows))
    colours = {name: _COLOURS[index % len(_COLOURS)] for index, name in enumerate(names)}
    data = [_time(rows)]
    shown: set[str] = set()
    end: list[SweepRow] = []
    for name, part in groupby(rows, key=_choice):
        stretch = list(part)
        data.append(_bandwidth([*end, *stretch], len(end), name, colours[name], legend=name not in shown))
        shown.add(name)
        end = stretch[-1:]
    ticks = [row.size_bytes for row in rows]
    ticks = ticks[:: -(-len(ticks) // _FEW_TICKS)] if ticks else []
    top = max((row.busbw_gb_per_s for row in rows), default=1.0)
    axis = {"gridcolor": GRID, "linecolor": GRID, "zeroline": False}
    return {
        "data": data,
        "layout": layout(
            height=_HEIGHT,
            left=_LEFT,
            top=56,
            bottom=58,
            margin={"l": _LEFT, "r": 84, "t": 56, "b": 58},
            hovermode="x",
            legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "font": {"size": 13}},
            xaxis=axis
            | {
                "type": "log",
                "title": {"text": "size of the message"},
                "tickvals": ticks,
                "ticktext": [size_label(size) for size in ticks],
            },
            yaxis=axis | {"title": {"text": "bus bandwidth, GB/s"}, "range": [0, top * 1.08]},
            yaxis2={
                "type": "log",
                "overlaying": "y",
                "side": "right",
                "showgrid": False,
                "linecolor": GRID,
                "title": {"text": "time, µs (dotted)"},
                "dtick": 1,
                "exponentformat": "none",
            },
        ),
    }


def page(sweep: CollectiveSweep, *, title: str) -> str:
    """Write the page of a sweep.

    Parameters
    ----------
    sweep : CollectiveSweep
    title : str
        Plain text.

    Returns
    -------
    str, HTML
        Self-contained; makes no request to any host.
    """
    sections = [("Bus bandwidth", _BANDWIDTH, slot("busbw")), ("Sizes", "", _table(sweep))]
    return document(title=title, verdict=headline(sweep), sections=sections, figures={"busbw": spec(sweep)})


def headline(sweep: CollectiveSweep) -> str:
    """Say in a sentence or two what the sweep shows.

    Parameters
    ----------
    sweep : CollectiveSweep

    Returns
    -------
    str
        Plain text, one finding a line.
    """
    first, last = sweep.rows[0], sweep.rows[-1]
    best = max(sweep.rows, key=lambda row: row.busbw_gb_per_s)
    bandwidth = format_bandwidth(float(f"{best.busbw_gb_per_s:.3g}") * 1e9)
    lines = [f"Up to {bandwidth} bus bandwidth at {size_label(best.size_bytes)} ({_choice(best)})"]
    lines.append(
        f"The smallest message, {size_label(first.size_bytes)}, takes {format_time(first.time_ns)}, "
        f"{first.latency_share:.0%} of it latency; the largest, {size_label(last.size_bytes)}, "
        f"{format_time(last.time_ns)}, {last.latency_share:.0%} latency."
    )
    even = next((row for row in sweep.rows if row.latency_share <= 0.5), None)
    if even is not None and even is not first:
        lines.append(f"From {size_label(even.size_bytes)} on, bandwidth takes more of the time than latency.")
    if best.limit:
        lines.append(f"It is limited by {best.limit}.")
    return "\n".join(lines)


def size_label(size_bytes: int) -> str:
    """Write a size as nccl-tests' options take it.

    Parameters
    ----------
    size_bytes : int

    Returns
    -------
    str

    Examples
    --------
    >>> size_label(1024), size_label(1536 * 2**20), size_label(1000)
    ('1 KiB', '1.5 GiB', '1000 B')
    """
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= scale:
            return f"{float(f'{size_bytes / scale:.3g}'):.10g} {unit}"
    return f"{size_bytes} B"


def _choice(row: SweepRow) -> str:
    return " ".join(word for word in (row.algorithm, row.protocol) if word)


def _bandwidth(rows: list[SweepRow], joined: int, name: str, colour: str, *, legend: bool) -> Spec:
    """Draw one stretch of the curve; its first ``joined`` points belong to the stretch before."""
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": text(name),
        "legendgroup": name,
        "showlegend": legend,
        "x": [row.size_bytes for row in rows],
        "y": [row.busbw_gb_per_s for row in rows],
        "line": {"color": colour, "width": 3},
        "marker": {"color": colour, "size": [0] * joined + [8] * (len(rows) - joined)},
        "hovertemplate": [""] * joined + [_hover(row) for row in rows[joined:]],
    }


def _hover(row: SweepRow) -> str:
    return (
        f"<b>{template(size_label(row.size_bytes))}</b>: {row.busbw_gb_per_s:.4g} GB/s bus bandwidth<br>"
        f"{template(format_time(row.time_ns))}, {row.latency_share:.0%} latency<br>{template(_choice(row))}, "
        f"{row.source}<br>limited by {template(row.limit)}<extra></extra>"
    )


def _time(rows: tuple[SweepRow, ...]) -> Spec:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "time",
        "yaxis": "y2",
        "x": [row.size_bytes for row in rows],
        "y": [row.time_ns / 1e3 for row in rows],
        "line": {"color": "#8C959F", "width": 2, "dash": "dot"},
        "hoverinfo": "skip",
        "textfont": {"family": FONT, "color": INK},
    }


def _table(sweep: CollectiveSweep) -> str:
    heads = ("size", "count", "time", "algbw", "busbw", "algorithm", "protocol", "latency", "limited by", "source")
    rows = "".join(
        f"<tr><td>{size_label(row.size_bytes)}</td><td>{row.count:,}</td><td>{format_time(row.time_ns)}</td>"
        f"<td>{row.algbw_gb_per_s:.4g}</td><td>{row.busbw_gb_per_s:.4g}</td><td class=left>{row.algorithm}</td>"
        f"<td class=left>{row.protocol}</td><td>{row.latency_share:.0%}</td>"
        f"<td class=left>{markup.escape(row.limit)}</td><td class='left source'>{row.source}</td></tr>\n"
        for row in sweep.rows
    )
    left = {"algorithm", "protocol", "limited by", "source"}
    head = "".join(f"<th{' class=left' if name in left else ''}>{name}</th>" for name in heads)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
