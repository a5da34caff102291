"""The page of a sweep over a scenario's grid."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from typing import Final

from simgpu.metrics.assumption import Assumption
from simgpu.metrics.sweep_table import OK, PointResult, SweepTable
from simgpu.metrics.sweep_verdict import describe_sweep, reasons
from simgpu.units import format_bytes, format_time
from simgpu.view import basis, heat_map, pareto
from simgpu.view.figure import Spec
from simgpu.view.page import document, slot

_MOST_ROWS: Final = 50  # of the table; the CSV has them all

_TIME: Final = (
    "Dark is fast. OOM: needs more memory than there is; –: cannot be laid out. Point at a cell for the numbers or the "
    "reason."
)
_MEMORY: Final = "Dark is lean. Of the fullest rank."
_ASSUMED: Final = (
    "What the figures of the fastest point rest on besides the scenario: constants, how sure they are and where they "
    "come from, and what the fields that the scenario leaves out came to."
)
_PARETO: Final = "Left and low is good. On the line are the points that no other one beats in both."


def sweep_page(
    table: SweepTable, *, scenarios: Sequence[tuple[str, str]] = (), assumptions: Sequence[Assumption] = ()
) -> str:
    """Write the page of a sweep.

    Parameters
    ----------
    table : SweepTable
    scenarios : sequence of (str, str)
        What was asked for: name and YAML of each file.
    assumptions : sequence of Assumption
        What the figures of the fastest point rest on.

    Returns
    -------
    str, HTML
        Self-contained; makes no request to any host.
    """
    figures: dict[str, Spec] = {
        "time": heat_map.spec(table, heat_map.time_quantity(table)),
        "memory": heat_map.spec(table, heat_map.memory_quantity()),
        "pareto": pareto.memory_spec(table),
    }
    sections = [
        ("Step time" if table.equal_work else "Time per million tokens", _TIME, slot("time")),
        ("Peak memory", _MEMORY, slot("memory")),
        ("Time against memory", _PARETO, slot("pareto")),
    ]
    cost = pareto.cost_spec(table)
    if cost is not None:
        figures["cost"] = cost
        sections.append(("Time against cost", _PARETO, slot("cost")))
    sections.append(("Points", _rows_note(table), _rows(table)))
    refused = reasons(table)
    if refused:
        items = "".join(f"<li>{markup.escape(reason)}</li>" for reason in refused)
        sections.append(("Points that were not simulated", "", f"<ul>{items}</ul>"))
    if scenarios:
        sections.append(("Scenario", "What was asked for, as it was read.", basis.scenario(scenarios)))
    if assumptions:
        sections.append(("Assumptions", _ASSUMED, basis.assumptions([("", assumptions)])))
    verdict = describe_sweep(table)
    return document(title=table.name, verdict=verdict, sections=sections, figures=figures, bad=not table.ranked())


def _rows_note(table: SweepTable) -> str:
    played = sum(point.status == OK for point in table.points)
    return f"The {_MOST_ROWS} fastest of {played:,}; the CSV has all." if played > _MOST_ROWS else "Fastest first."


def _rows(table: SweepTable) -> str:
    ranked = table.ranked()
    full = [point for point in table.points if point.status == OK and not point.fits]
    priced = any(point.numbers["cost_per_million_tokens"] is not None for point in ranked)
    heads = [
        *(markup.escape(axis.field) for axis in table.axes),
        "GPUs", "step time", "tokens/s", "MFU", "bubble", "peak memory", *(["cost/Mtoken"] if priced else []),
    ]  # fmt: skip
    rows = "".join(_row(point, priced=priced) for point in (ranked + full)[:_MOST_ROWS])
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"


def _row(point: PointResult, *, priced: bool) -> str:
    numbers = point.numbers
    cost = numbers["cost_per_million_tokens"]
    cells = [
        *(markup.escape(label) for label in point.labels),
        f"{numbers['gpus']:,}",
        format_time(numbers["step_time_ns"]),
        f"{numbers['tokens_per_s']:,.0f}" if numbers["tokens_per_s"] else "–",
        f"{numbers['mfu']:.1%}" if numbers["mfu"] else "–",
        f"{numbers['bubble_fraction']:.1%}",
        format_bytes(numbers["peak_memory_bytes"]) + ("" if point.fits else " OOM"),
        *([("–" if cost is None else f"{cost:.4g}")] if priced else []),
    ]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n"
