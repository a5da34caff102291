"""What disappoints about runs, and what the usual levers would give them, as a table."""

from __future__ import annotations

import html
from collections.abc import Sequence

from simgpu.metrics.report import Report
from simgpu.units import format_bytes, format_time
from simgpu.view.table import cell, grid


def table(reports: Sequence[Report]) -> str:
    """Show one part a run that disappoints, and in it one row a lever, those that gain most first.

    Parameters
    ----------
    reports : sequence of Report

    Returns
    -------
    str, HTML

    Examples
    --------
    >>> table([])
    ''
    """
    return "\n".join(_part(report) for report in reports if report.disappointments)


def _part(report: Report) -> str:
    told = html.escape(f"{report.name}: {'; '.join(report.disappointments)}")
    if report.advice is None:
        return f"<p>{told}. <code>--advice</code> tries the usual levers.</p>"
    if not report.advice:
        return f"<p>{told}. None of the usual levers helps.</p>"
    rows = [
        cell(html.escape(one.yaml).replace(", ", "<br>") + _batch(one.batch_factor), "left")
        + cell(f"{100 * one.tokens_per_s_gain:+.1f} %".replace("-", "−"))
        + cell(format_time(one.step_time_ns))
        + cell(format_bytes(one.peak_memory_bytes))
        + cell(html.escape(one.option), "left")
        for one in report.advice
    ]
    heads = ("set in the scenario", "tokens/s", "step time", "peak memory", "the framework's option")
    return f"<p>{told}.</p>" + grid(heads, rows, left=(0, 4))


def _batch(factor: float) -> str:
    return "" if factor == 1 else f"<br><small>(a global batch {factor:g} times as large)</small>"
