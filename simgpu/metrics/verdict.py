"""Plain sentences: what a run costs, whether it fits, and which of several is better and why."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.metrics.facts import RunFacts
from simgpu.metrics.report import RankReport, Report
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
NOTABLE = 0.005
"""Shares of the step below this are not worth a sentence."""


def describe_run(report: Report, facts: RunFacts) -> str:
    """One run in a sentence: out of memory first, else where the step goes."""
    advice = facts.advice
    if not report.fits:
        worst = max(report.ranks, key=lambda rank: rank.peak_memory_bytes - rank.capacity_bytes)
        text = describe_overflow(worst)
        return text + (f". To make it fit: {'; '.join(advice)}" if advice else "")
    compute = sum(v for k, v in report.breakdown_ns.items() if k.startswith("compute."))
    parts = [f"{_share(compute, report)} compute", *(f"{share} {words}" for share, words in lost_time(report))]
    if report.bubble_fraction >= NOTABLE and facts.stages > 1:
        parts.append(describe_bubble(report, facts))
    memory = f"{report.peak_memory_bytes / GIB:.1f} of {report.capacity_bytes / GIB:.1f} GiB"
    rate = f", {report.tokens_per_s:,.0f} tokens/s" if report.tokens_per_s else ""
    return f"{format_time(report.step_time_ns)} per step{rate}: {_joined(parts)}; peak memory {memory}"


def describe_overflow(rank: RankReport) -> str:
    """Say where, when and by how much memory runs out.

    The largest categories at the peak are listed; GiB.
    """
    when = next((time for time, total in rank.memory_curve if total > rank.capacity_bytes), 0)
    largest = ", ".join(f"{name} {size / GIB:.1f}" for name, size in list(rank.memory_at_peak_bytes.items())[:4])
    return (
        f"OUT OF MEMORY on rank {rank.rank} at {format_time(when)}: "
        f"{rank.peak_memory_bytes / GIB:.1f} of {rank.capacity_bytes / GIB:.1f} GiB ({largest})"
    )


def describe_bubble(report: Report, facts: RunFacts) -> str:
    """Set the bubble beside (p-1)/(m+p-1), that of equal stages and a free network, and name the busiest stage."""
    ideal = (facts.stages - 1) / (facts.microbatches + facts.stages - 1)
    text = f"equal stages and a free network would idle {ideal:.1%}"
    work = {
        rank.stages: sum(value for name, value in rank.breakdown_ns.items() if name.startswith("compute."))
        for rank in report.ranks
    }
    busiest = max(work, key=lambda stages: work[stages])
    mean = sum(work.values()) / len(work)
    excess = work[busiest] / mean - 1 if mean else 0.0
    if excess < NOTABLE:
        return f"({text})"
    return f"({text}; stage {busiest[0]} has {excess:.1%} more work than the mean)"


def lost_time(report: Report) -> list[tuple[str, str]]:
    """Shares of the step that are not compute and are worth mentioning, largest first, with the link in words."""
    lost = sorted(
        ((value, name) for name, value in report.breakdown_ns.items() if not name.startswith("compute.")),
        key=lambda item: -item[0],
    )
    return [
        (_share(value, report), WORDS[name] + _over(report, name))
        for value, name in lost
        if report.step_time_ns and value / report.step_time_ns >= NOTABLE
    ]


def compare(reports: Sequence[Report]) -> str:
    """Several runs in a few sentences; the first that fits is what the others are measured against.

    Speed is tokens per second, so runs of different batch compare too; efficiency is the speed-up over the ratio of
    GPUs.
    """
    if len(reports) == 1:
        return reports[0].verdict
    fitting = [report for report in reports if report.fits]
    sentences = []
    if fitting and fitting[0].tokens_per_s:
        base = fitting[0]
        sentences = [_against(base, other) for other in fitting[1:]]
        if len(fitting) == 1:
            sentences = [f"Only {base.name} fits: {base.verdict}"]
    else:
        sentences = [f"{report.name}: {report.bubble_fraction:.1%} bubble" for report in fitting]
    sentences += [f"{report.name}: {report.verdict}" for report in reports if not report.fits]
    return ". ".join(sentences) + "."


def _against(base: Report, other: Report) -> str:
    ratio = other.tokens_per_s / base.tokens_per_s
    scale = other.gpus / base.gpus
    if other.gpus != base.gpus:
        left, right = f"{other.name} ({other.gpus} GPUs)", f"{base.name} ({base.gpus})"
        if other.name == f"{other.gpus} GPUs" and base.name == f"{base.gpus} GPUs":
            left, right = other.name, str(base.gpus)
        verb, efficiency = "are", f" ({ratio / scale:.0%})"
    else:
        left, right, verb, efficiency = other.name, base.name, "is", ""
    if 0.995 <= ratio <= 1.005:
        text = f"{left} {verb} as fast as {right}"
    elif ratio > 1:
        text = f"{left} {verb} {ratio:.2f}× faster than {right}{efficiency}"
    else:
        text = f"{left} {verb} {1 / ratio:.2f}× slower than {right}{efficiency}"
    reasons = lost_time(other)
    return text + (f": {reasons[0][0]} of the step is {reasons[0][1]}" if reasons else ": nearly all of it computes")


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(parts).replace(", (", " (")


def _share(value_ns: float, report: Report) -> str:
    share = value_ns / report.step_time_ns if report.step_time_ns else 0.0
    return f"{share:.0%}" if share >= 0.095 or share == 0 else f"{share:.1%}"


def _over(report: Report, name: str) -> str:
    """Name the kind of link that bounds the axis' busiest transfer."""
    if not name.startswith("exposed.") or report.timeline is None:
        return ""
    kinds = {link.name: link.kind for link in report.timeline.program.links}
    moved = [t for t in report.transfers if t.axis == name.removeprefix("exposed.") and t.bottleneck in kinds]
    if not moved:
        return ""
    busiest = max(moved, key=lambda transfer: transfer.count * transfer.mean_ns)
    return f" over {kinds[busiest.bottleneck]}"
