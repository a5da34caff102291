"""What a sweep shows, in sentences."""

from __future__ import annotations

from collections import Counter

from simgpu.metrics.sweep_table import FAILED, INVALID, OK, PointResult, SweepTable
from simgpu.units import format_bytes, format_time

_MOST_REASONS = 5


def point_name(table: SweepTable, point: PointResult) -> str:
    """Write what sets a point apart, such as ``parallel.tp = 2, parallel.pp = 4``.

    Parameters
    ----------
    table : SweepTable
    point : PointResult

    Returns
    -------
    str
    """
    return ", ".join(f"{axis.field} = {label}" for axis, label in zip(table.axes, point.labels, strict=True))


def time_text(table: SweepTable, point: PointResult) -> str:
    """Write the time that points are compared by, and of what it is.

    Parameters
    ----------
    table : SweepTable
    point : PointResult

    Returns
    -------
    str
    """
    return f"{format_time(table.time_ns(point))} {'a step' if table.equal_work else 'per million tokens'}"


def describe_sweep(table: SweepTable) -> str:
    r"""Say in a few lines which point is fastest, which is cheapest, and what became of the others.

    Parameters
    ----------
    table : SweepTable

    Returns
    -------
    str
        Plain text, one finding a line.

    Examples
    --------
    >>> describe_sweep(SweepTable(name="s", axes=(), points=()))
    'No point fits\n0 points'
    """
    ranked = table.ranked()
    lines = []
    if ranked:
        best = ranked[0]
        lines.append(f"Fastest that fits: {point_name(table, best)}: {time_text(table, best)}, {_memory(best)}")
        if len(ranked) > 1:
            slowest = ranked[-1]
            ratio = table.time_ns(slowest) / table.time_ns(best) if table.time_ns(best) else 1.0
            lines.append(f"{ratio:.2f}× as fast as the slowest that fits ({point_name(table, slowest)})")
        lean = min(ranked, key=lambda one: (one.numbers["peak_memory_bytes"], table.time_ns(one), one.index))
        if lean is not best:
            lines.append(f"Least memory: {point_name(table, lean)}: {_memory(lean)}, {time_text(table, lean)}")
        priced = [point for point in ranked if point.numbers["cost_per_million_tokens"] is not None]
        if priced:
            cheap = min(priced, key=lambda one: (one.numbers["cost_per_million_tokens"], one.index))
            cost = cheap.numbers["cost_per_million_tokens"]
            lines.append(f"Cheapest: {point_name(table, cheap)}: {cost:.4g} per million tokens")
    else:
        lines.append("No point fits")
    lines.append(_counts(table))
    return "\n".join(lines)


def reasons(table: SweepTable) -> list[str]:
    """Return why points are not simulated, most frequent first, each with how many it holds for.

    Parameters
    ----------
    table : SweepTable

    Returns
    -------
    list of str
    """
    found = Counter(point.reason for point in table.points if point.status != OK)
    lines = [f"{count}× {reason}" for reason, count in found.most_common(_MOST_REASONS)]
    rest = len(found) - len(lines)
    return [*lines, f"{rest} other reasons; all are in the table"] if rest else lines


def _counts(table: SweepTable) -> str:
    points = table.points
    parts = [f"{len(points):,} points"]
    full = sum(point.status == OK and not point.fits for point in points)
    invalid = sum(point.status == INVALID for point in points)
    failed = sum(point.status == FAILED for point in points)
    if full:
        parts.append(f"{full:,} out of memory")
    if invalid:
        parts.append(f"{invalid:,} that cannot be laid out")
    if failed:
        parts.append(f"{failed:,} failed: run the sweep again to try them once more")
    return ", ".join(parts)


def _memory(point: PointResult) -> str:
    used, held = point.numbers["peak_memory_bytes"], point.numbers["capacity_bytes"]
    return f"{format_bytes(used)} of {format_bytes(held)}"
