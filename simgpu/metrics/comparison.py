"""Plain sentences about several runs: which is faster, by how much, and why."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.metrics.report import Report
from simgpu.metrics.verdict import NOTABLE, WORDS, describe_bubble, lost_time, percent
from simgpu.units import format_time

CHANGES_NAMED = 3
SEVERAL, MOST_LINES = 3, 12
"""Runs among which the fastest is named first, and sentences about them at the most."""


def compare(reports: Sequence[Report]) -> str:
    """Several runs in a few sentences, one per line.

    Each run is measured against the first that fits with the same model on the same device, else with the same model.
    Speed is tokens per second, so runs of different batch compare too; the share in parentheses is the speed-up over
    the ratio of GPUs.
    """
    if len(reports) == 1:
        return reports[0].verdict
    fitting = [report for report in reports if report.fits]
    lines = [] if fitting else ["None of them fits"]
    if len(fitting) == 1:
        lines = [f"Only {fitting[0].name} fits: {fitting[0].verdict}"]
    elif all(report.tokens_per_s for report in fitting):
        if len(fitting) >= SEVERAL and len({report.model for report in fitting}) == 1:
            best = max(fitting, key=lambda report: report.tokens_per_s)
            lines.append(f"{best.name} is the fastest of {len(fitting)}: {best.tokens_per_s:,.0f} tokens/s")
        lines += [_against(_base(fitting, other), other) for other in fitting if _base(fitting, other) is not other]
        alone = [
            report
            for report in fitting
            if not any(_base(fitting, other) is report for other in fitting if other is not report)
        ]
        lines += [
            f"{report.name} ({report.model}): {report.verdict}" for report in alone if _base(fitting, report) is report
        ]
    else:
        if len(fitting) >= SEVERAL and _same_work(fitting):
            best = min(fitting, key=lambda report: report.step_time_ns)
            lines.append(f"{best.name} is the fastest of {len(fitting)}: {format_time(best.step_time_ns)} per step")
        lines += [
            f"{report.name}: {', '.join(' '.join(lost) for lost in lost_time(report)) or 'nothing but compute'}"
            for report in fitting
        ]
    lines += [f"{report.name}: {report.verdict}" for report in reports if not report.fits]
    if len(lines) > MOST_LINES + 1:
        lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more, in the table"]
    return "\n".join(lines)


def _same_work(reports: Sequence[Report]) -> bool:
    """Whether all runs compute as long, over all their GPUs: else the shortest step may just do the least."""
    work = [
        report.gpus * sum(time for name, time in report.breakdown_ns.items() if name.startswith("compute"))
        for report in reports
    ]
    return max(work) <= (1 + NOTABLE) * min(work)


def _base(reports: Sequence[Report], other: Report) -> Report:
    alike = [report for report in reports if report.model == other.model]
    near = [report for report in alike if report.ranks[0].device == other.ranks[0].device]
    return alike[0] if near[0] is other else near[0]


def _against(base: Report, other: Report) -> str:
    ratio = other.tokens_per_s / base.tokens_per_s
    left, right, verb, efficiency = other.name, base.name, "is", ""
    if other.gpus != base.gpus:
        efficiency = f" ({100 * ratio * base.gpus / other.gpus:.0f} %)"
        if (left, right) == (f"{other.gpus} GPUs", f"{base.gpus} GPUs"):
            right, verb = str(base.gpus), "are"
        else:
            left, right = f"{left} on {other.gpus} GPUs", f"{right} on {base.gpus}"
    if 0.995 <= ratio <= 1.005:
        text = f"{left} {verb} as fast as {right}{efficiency}"
    elif ratio > 1:
        text = f"{left} {verb} {ratio:.2f}× faster than {right}{efficiency}"
    else:
        text = f"{left} {verb} {1 / ratio:.2f}× slower than {right}{efficiency}"
    if abs(other.tokens_per_s * other.step_time_ns / (base.tokens_per_s * base.step_time_ns) - 1) > NOTABLE:
        text += " in tokens/s"
    if other.gpus != base.gpus or other.ranks[0].device != base.ranks[0].device:
        reasons = lost_time(other)
        return text + (
            f": {reasons[0][0]} of the step is {reasons[0][1]}" if reasons else ": nearly all of it computes"
        )
    return text + _changes(base, other)


def _changes(base: Report, other: Report) -> str:
    """Name the classes whose time per token changed most, with their shares of the two steps."""
    scale = base.tokens_per_s * base.step_time_ns / (other.tokens_per_s * other.step_time_ns)  # base's tokens per step
    changes = sorted(
        (
            ((other.breakdown_ns[name] * scale - base.breakdown_ns[name]) / base.step_time_ns, name)
            for name in base.breakdown_ns
        ),
        key=lambda change: -abs(change[0]),
    )
    texts = []
    for change, name in changes[:CHANGES_NAMED]:
        before, after = (report.breakdown_ns[name] / report.step_time_ns for report in (base, other))
        if abs(change) >= NOTABLE:
            left = describe_bubble(other) if name == "bubble" else ""
            texts.append(f"{WORDS[name]} {percent(before)} → {percent(after)}{left}")
    return f": of the step, {', '.join(texts)}" if texts else ""
