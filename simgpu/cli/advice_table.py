"""Advice as a table: what to set, what it gives, what the framework calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from simgpu.units import format_bytes, format_time

if TYPE_CHECKING:
    from simgpu.metrics.advice import Advice
    from simgpu.metrics.report import Report

MOST: Final = 6
"""Levers that are shown; JSON has all."""


def advice_table(report: Report) -> Table:
    """Return the levers that would help a run, those that gain most first.

    Parameters
    ----------
    report : Report
        With something that disappoints.

    Returns
    -------
    Table
    """
    table = Table(title=f"{report.name}: {'; '.join(report.disappointments)}: simulated levers", title_justify="left")
    table.add_column("set in the scenario", overflow="fold")
    for name in ("tokens/s", "step", "memory"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("the framework's option", overflow="fold")
    for one in _chosen(report.advice or ()):
        told = Text(one.yaml.replace(", ", "\n"))
        if one.batch_factor != 1:
            told.append(f"\n(a global batch {one.batch_factor:g} times as large)", style="dim")
        gain = f"{100 * one.tokens_per_s_gain:+.1f} %".replace("-", "−")
        sizes = (gain, format_time(one.step_time_ns), format_bytes(one.peak_memory_bytes))
        table.add_row(told, *sizes, Text(one.option))
    return table


def _chosen(advice: Sequence[Advice]) -> Sequence[Advice]:
    """Return the best of each lever first, then others, up to as many as are shown; in their order."""
    best = {one.lever: one for one in reversed(advice)}
    first = [one for one in advice if best[one.lever] is one]
    rest = [one for one in advice if best[one.lever] is not one]
    shown = {id(one) for one in [*first, *rest][:MOST]}
    return [one for one in advice if id(one) in shown]
