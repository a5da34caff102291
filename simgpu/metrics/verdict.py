"""Plain sentences: what a run costs, whether it fits, and which of several is better and why."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.metrics.report import Report
from simgpu.units import format_time

GIB = 1 << 30
WORDS = {
    "exposed.tp": "exposed tensor-parallel communication",
    "exposed.cp": "exposed context-parallel communication",
    "exposed.ep": "exposed expert-parallel communication",
    "exposed.pp": "exposed pipeline communication",
    "exposed.dp": "exposed data-parallel communication",
    "bubble": "pipeline bubble",
    "straggler": "waiting for stragglers",
    "host": "waiting for the host",
}
LINK_WORDS = {"nvlink": "NVLink", "pcie": "PCIe", "network": "the network", "host_memory": "host memory"}
NOTABLE = 0.005
"""Shares of the step below this are not worth a sentence."""


def describe_run(report: Report, advice: Sequence[str] = ()) -> str:
    """One run in a sentence: out of memory first, with what could be changed; else where the step goes."""
    if not report.fits:
        return describe_overflow(report) + (f". To make it fit: {'; '.join(advice)}" if advice else "")
    compute = sum(v for k, v in report.breakdown_ns.items() if k.startswith("compute."))
    parts = ", ".join(
        [f"{_share(compute, report)} compute", *(f"{share} {words}" for share, words in lost_time(report))]
    )
    memory = f"{report.peak_memory_bytes / GIB:.1f} of {report.capacity_bytes / GIB:.1f} GiB"
    rate = f", {report.tokens_per_s:,.0f} tokens/s" if report.tokens_per_s else ""
    return f"{format_time(report.step_time_ns)} per step{rate}: {parts}; peak memory {memory}"


def describe_overflow(report: Report) -> str:
    """Say where, when and by how much memory runs out, with the largest categories at the peak in GiB."""
    rank = max(report.ranks, key=lambda rank: rank.peak_memory_bytes - rank.capacity_bytes)
    when = next((time for time, total in rank.memory_curve if total > rank.capacity_bytes), 0)
    at = f"at {format_time(when)}" if when else "before the first step"
    largest = ", ".join(f"{name} {size / GIB:.1f}" for name, size in list(rank.memory_at_peak_bytes.items())[:4])
    return (
        f"OUT OF MEMORY on rank {rank.rank} {at}: "
        f"{rank.peak_memory_bytes / GIB:.1f} of {rank.capacity_bytes / GIB:.1f} GiB ({largest})"
    )


def describe_bubble(report: Report) -> str:
    """Set the bubble beside that of equal stages and a free network, and name the busiest stage."""
    if not report.ideal_bubble_fraction:
        return ""
    text = f"equal stages and a free network would idle {percent(report.ideal_bubble_fraction)}"
    work = {
        rank.stages: sum(value for name, value in rank.breakdown_ns.items() if name.startswith("compute."))
        for rank in report.ranks
    }
    busiest = max(work, key=lambda stages: work[stages])
    mean = sum(work.values()) / len(work)
    excess = work[busiest] / mean - 1 if mean else 0.0
    if excess >= NOTABLE:
        text += f"; stage {busiest[0]} has {percent(excess)} more work than the mean"
    return f" ({text})"


def lost_time(report: Report) -> list[tuple[str, str]]:
    """Shares of the step that are not compute and are worth mentioning, largest first, with the link in words."""
    lost = sorted(
        ((value, name) for name, value in report.breakdown_ns.items() if not name.startswith("compute.")),
        key=lambda item: -item[0],
    )
    return [
        (_share(value, report), WORDS[name] + (describe_bubble(report) if name == "bubble" else _over(report, name)))
        for value, name in lost
        if report.step_time_ns and value / report.step_time_ns >= NOTABLE
    ]


def compare(reports: Sequence[Report]) -> str:
    """Several runs in a few sentences, one per line.

    Each is measured against the first that fits on the same device, and the first of a device against the first of
    all. Speed is tokens per second, so runs of different batch compare too; the share in parentheses is the speed-up
    over the ratio of GPUs.
    """
    if len(reports) == 1:
        return reports[0].verdict
    fitting = [report for report in reports if report.fits]
    if not fitting:
        lines = ["None of them fits"]
    elif len(fitting) == 1:
        lines = [f"Only {fitting[0].name} fits: {fitting[0].verdict}"]
    elif fitting[0].tokens_per_s:
        lines = [_against(_base(fitting, other), other) for other in fitting[1:]]
    else:
        lines = [f"{report.name}: {', '.join(' '.join(lost) for lost in lost_time(report))}" for report in fitting]
    lines += [f"{report.name}: {describe_overflow(report)}" for report in reports if not report.fits]
    return "\n".join(lines)


def _base(reports: Sequence[Report], other: Report) -> Report:
    alike = [report for report in reports if report.ranks[0].device == other.ranks[0].device]
    return reports[0] if alike[0] is other else alike[0]


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
        text = f"{left} {verb} as fast as {right}"
    elif ratio > 1:
        text = f"{left} {verb} {ratio:.2f}× faster than {right}{efficiency}"
    else:
        text = f"{left} {verb} {1 / ratio:.2f}× slower than {right}{efficiency}"
    reasons = lost_time(other)
    return text + (f": {reasons[0][0]} of the step is {reasons[0][1]}" if reasons else ": nearly all of it computes")


def _share(value_ns: float, report: Report) -> str:
    return percent(value_ns / report.step_time_ns if report.step_time_ns else 0.0)


def percent(share: float) -> str:
    """Write a share for people.

    Examples
    --------
    >>> percent(3 / 19)
    '15.8 %'
    """
    return f"{100 * share:.1f} %"


def _over(report: Report, name: str) -> str:
    """Name the kind of link that bounds the axis' busiest transfer."""
    if not name.startswith("exposed.") or report.timeline is None:
        return ""
    kinds = {link.name: link.kind for link in report.timeline.program.links}
    moved = [t for t in report.transfers if t.axis == name.removeprefix("exposed.") and t.bottleneck in kinds]
    if not moved:
        return ""
    busiest = max(moved, key=lambda transfer: transfer.count * transfer.mean_ns)
    return f" over {LINK_WORDS.get(kinds[busiest.bottleneck], kinds[busiest.bottleneck])}"
