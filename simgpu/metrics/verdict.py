"""Plain sentences about one run: where its step goes, whether it fits, and what would make it fit."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.metrics.host_work import describe_host_work, host_work
from simgpu.metrics.launches import launches
from simgpu.metrics.limit import FULL
from simgpu.metrics.report import RankReport, Report
from simgpu.metrics.slowest import describe_slowest
from simgpu.units import GIB, format_time

WORDS = {
    "compute.gemm": "matrix products",
    "compute.attention": "attention",
    "compute.memory_bound": "memory-bound ops",
    "compute.recompute": "recomputation",
    "compute.optimizer": "optimizer",
    "exposed.tp": "exposed tensor-parallel communication",
    "exposed.cp": "exposed context-parallel communication",
    "exposed.ep": "exposed expert-parallel communication",
    "exposed.pp": "exposed pipeline communication",
    "exposed.dp": "exposed data-parallel communication",
    "bubble": "pipeline bubble",
    "straggler": "waiting for stragglers",
    "host": "waiting for the host",
}
LINK_WORDS = {
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "socket": "the socket link",
    "host_memory": "host memory",
    "network": "the network",
}
NOTABLE = 0.005
"""Shares of the step below this are not worth a sentence."""
MOSTLY = 0.5
LAUNCH_BOUND = 0.05
"""Share of the step that waits for the CPU from which on, as the largest loss, it is called launch-bound."""
FURTHER = "split the model further (parallel.tp, parallel.pp), shorten the sequence or use more GPUs"


def describe_run(report: Report, remedies: Sequence[tuple[str, Report]] = ()) -> str:
    """One run in a sentence: out of memory first, with what would fit; else where the step goes.

    Parameters
    ----------
    report : Report
    remedies : sequence of (str, Report)
        Changes that were simulated, for a run that does not fit or that is launch-bound.
    """
    if not report.fits:
        return describe_overflow(report) + describe_remedies(remedies)
    compute = sum(v for k, v in report.breakdown_ns.items() if k.startswith("compute."))
    lost = [f"{share} {words}" for share, words in lost_time(report)]
    parts = ", ".join([f"{_share(compute, report)} compute", *lost])
    memory = f"{report.peak_memory_bytes / GIB:.1f} of {report.capacity_bytes / GIB:.1f} GiB"
    rate = f", {report.tokens_per_s:,.0f} tokens/s" if report.tokens_per_s else ""
    text = f"{format_time(report.step_time_ns)} per step{rate}: {parts}; peak memory {memory}"
    return text + describe_launches(report, remedies) if launch_bound(report) else text


def launch_bound(report: Report) -> bool:
    """Whether most of the time that is lost waits for the CPU to launch kernels, and that is much of the step.

    Where states are offloaded, the wait is taken to be for these.
    """
    host = report.breakdown_ns["host"]
    lost = [value for name, value in report.breakdown_ns.items() if not name.startswith("compute.")]
    much = host >= LAUNCH_BOUND * report.step_time_ns and host == max(lost)
    return much and report.timeline is not None and not host_work(report)


def describe_launches(report: Report, remedies: Sequence[tuple[str, Report]]) -> str:
    """Set the CPU's time to launch kernels beside the GPU's to run them, and say what simulated changes would give."""
    assert report.timeline is not None  # launch_bound looks
    worst = max(report.ranks, key=lambda rank: rank.breakdown_ns["host"])
    issued = launches(report.timeline.program, report.ranks.index(worst))
    text = (
        f". Launch-bound: the CPU needs {format_time(issued.cpu_ns)} to launch {issued.kernels:,} kernels, "
        f"{format_time(issued.each_ns)} each, that the GPU runs in {format_time(_compute_ns(worst))}"
    )
    gains = [
        f"{change} gives {changed.tokens_per_s / report.tokens_per_s:.2f}× the tokens/s"
        for change, changed in remedies
        if changed.fits and changed.tokens_per_s > (1 + NOTABLE) * report.tokens_per_s
    ]
    return text + (f"; {', '.join(gains)}" if gains else "")


def _compute_ns(rank: RankReport) -> int:
    return sum(value for name, value in rank.breakdown_ns.items() if name.startswith("compute."))


def describe_overflow(report: Report) -> str:
    """Say where, when and by how much memory runs out, and what the peak is made of, in GiB."""
    rank = max(report.ranks, key=lambda rank: rank.peak_memory_bytes / rank.capacity_bytes)
    always = min(total for _, total in rank.memory_curve)
    if always > rank.capacity_bytes:
        when = f"before the first step ({always / GIB:.1f} GiB are held all the time)"
    else:
        first = next(time for time, total in rank.memory_curve if total > rank.capacity_bytes)
        when = f"at {format_time(first)}"
    parts = list(rank.memory_at_peak_bytes.items())
    listed = [f"{name} {size / GIB:.1f}" for name, size in parts[:5]]
    other = sum(size for _, size in parts[5:])
    if other:
        listed.append(f"other {other / GIB:.1f}")
    return (
        f"OUT OF MEMORY on rank {rank.rank} {when}: "
        f"{rank.peak_memory_bytes / GIB:.1f} of {rank.capacity_bytes / GIB:.1f} GiB at the peak ({', '.join(listed)})"
    )


def describe_remedies(remedies: Sequence[tuple[str, Report]]) -> str:
    """Name a simulated change that fits; when none does, how near the best one comes."""
    if not remedies:
        return f". To fit, {FURTHER}"
    for text, changed in remedies:
        if changed.fits:
            return f". Fits with {text} ({changed.peak_memory_bytes / GIB:.1f} GiB)"
    text, best = min(remedies, key=lambda item: item[1].peak_memory_bytes)
    return f". Even {text} needs {best.peak_memory_bytes / GIB:.1f} GiB: {FURTHER}"


def describe_bubble(report: Report) -> str:
    """Set the bubble beside that of equal stages and free messages, and name the busiest stage."""
    if not report.ideal_bubble_fraction:
        return ""
    text = f"equal stages and free messages would idle {percent(report.ideal_bubble_fraction)}"
    work = {
        rank.stages: sum(value for name, value in rank.breakdown_ns.items() if name.startswith("compute."))
        for rank in report.ranks
    }
    busiest = max(work, key=lambda stages: work[stages])
    mean = sum(work.values()) / len(work)
    excess = work[busiest] / mean - 1 if mean else 0.0
    if excess >= NOTABLE:
        stages = f"stage {busiest[0]} has" if len(busiest) == 1 else f"stages {', '.join(map(str, busiest))} have"
        text += f"; {stages} {percent(excess)} more work than the mean"
    return f" ({text})"


def lost_time(report: Report) -> list[tuple[str, str]]:
    """Shares of the step that are not compute and are worth mentioning, largest first, with the link in words."""
    lost = sorted(
        ((value, name) for name, value in report.breakdown_ns.items() if not name.startswith("compute.")),
        key=lambda item: -item[0],
    )
    return [
        (_share(value, report), WORDS[name] + _detail(report, name))
        for value, name in lost
        if report.step_time_ns and value / report.step_time_ns >= NOTABLE
    ]


def _detail(report: Report, name: str) -> str:
    if name == "bubble":
        waited = report.breakdown_ns["straggler"] >= NOTABLE * report.step_time_ns  # then it is said there
        return describe_bubble(report) + ("" if waited else describe_slowest(report))
    if name == "straggler":
        return describe_slowest(report)
    return describe_host_work(report) if name == "host" else _over(report, name)


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
    """Say over what the axis' busiest transfer goes, how much of it is latency, and which link holds it."""
    if not name.startswith("exposed.") or report.timeline is None:
        return ""
    program = report.timeline.program
    kinds = {link.name: link.kind for link in program.links}
    moved = [t for t in report.transfers if t.axis == name.removeprefix("exposed.") and t.bottleneck in kinds]
    if not moved:
        return ""
    busiest = max(moved, key=lambda transfer: transfer.count * transfer.mean_ns)
    latency, kind = busiest.latency_share, kinds[busiest.bottleneck]
    if busiest.crosses_network:
        where = "over the network" if kind == "network" else "between nodes"
        of = busiest.bottleneck
        if busiest.link_use < FULL:
            of = f"NCCL itself, with {of} at {percent(busiest.link_use)}"
        return f" {where} ({percent(latency)} latency, {percent(1 - latency)} bandwidth of {of})"
    over = LINK_WORDS.get(kind, kind)
    return f" over {over}" if latency <= MOSTLY else f" over {over}, {percent(latency)} of it latency"
