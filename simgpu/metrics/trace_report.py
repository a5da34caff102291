"""Real traces broken down, rank by rank, and laid beside a simulated step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simgpu.metrics.rank_trace import RankTrace
from simgpu.metrics.trace_breakdown import TRACE_CLASSES, StepBreakdown, trace_breakdown
from simgpu.metrics.trace_match import moving_times

_WAITS: Final = ("bubble", "straggler")


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRank:
    """One file and its steps."""

    trace: RankTrace
    steps: tuple[StepBreakdown, ...]

    @property
    def step_time_ns(self) -> float:
        """Mean over the steps."""
        return sum(step.step_time_ns for step in self.steps) / len(self.steps) if self.steps else 0.0

    @property
    def breakdown_ns(self) -> dict[str, float]:
        """Mean over the steps, by class."""
        return _mean([step.breakdown_ns for step in self.steps])

    @property
    def overlap_ratio(self) -> float:
        """Part of the communication time under which kernels ran."""
        total = sum(step.communication_ns for step in self.steps)
        return sum(step.hidden_ns for step in self.steps) / total if total else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """Several ranks of one job.

    Parameters
    ----------
    ranks : tuple of TracedRank
        In the order of the files.
    collectives, matched : int
        NCCL kernels of all files, and those whose partners were all traced.
    """

    ranks: tuple[TracedRank, ...]
    collectives: int
    matched: int

    @property
    def breakdown_ns(self) -> dict[str, float]:
        """Mean over ranks that have steps."""
        return _mean([rank.breakdown_ns for rank in self.ranks if rank.steps])

    @property
    def step_time_ns(self) -> float:
        """Mean over ranks that have steps."""
        return sum(self.breakdown_ns.values())


def report_traces(traces: Sequence[RankTrace]) -> TraceReport:
    """Match the collectives of some traces and break their steps down.

    Parameters
    ----------
    traces : sequence of RankTrace

    Returns
    -------
    TraceReport
    """
    moving = moving_times(traces)
    ranks = tuple(
        TracedRank(trace=trace, steps=trace_breakdown(trace, moving, index)) for index, trace in enumerate(traces)
    )
    collectives = sum(event.kind == "collective" for trace in traces for event in trace.events)
    return TraceReport(ranks=ranks, collectives=collectives, matched=len(moving))


def as_traced(breakdown_ns: Mapping[str, float], known: Mapping[str, float]) -> dict[str, float]:
    """Return a simulated breakdown in the classes that a trace can tell.

    Parameters
    ----------
    breakdown_ns : mapping of str to float
        By the classes of `simgpu.metrics.activity.CLASSES`.
    known : mapping of str to float
        The traced breakdown beside it: where that could not part waiting from moving, neither is parted here.

    Returns
    -------
    dict of str to float
        By TRACE_CLASSES; the sum is the same.

    Examples
    --------
    >>> simulated = {"compute.gemm": 5.0, "exposed.dp": 2.0, "exposed.pp": 1.0, "bubble": 3.0, "host": 0.5}
    >>> as_traced(simulated, {"exposed": 4.0})["wait"], as_traced(simulated, {"exposed+wait": 4.0})["exposed+wait"]
    (3.0, 6.0)
    """
    found = dict.fromkeys(TRACE_CLASSES, 0.0)
    parted = not known.get("exposed+wait")
    for name, value in breakdown_ns.items():
        if name.startswith("exposed."):
            found["exposed" if parted else "exposed+wait"] += value
        elif name in _WAITS:
            found["wait" if parted else "exposed+wait"] += value
        else:
            found[name] = found.get(name, 0.0) + value
    return found


def traces_to_json(report: TraceReport) -> dict[str, Any]:
    """Return a report as plain data for ``--json``.

    Parameters
    ----------
    report : TraceReport

    Returns
    -------
    dict
    """
    return {
        "schema": 1,
        "step_time_ns": report.step_time_ns,
        "breakdown_ns": report.breakdown_ns,
        "collectives": report.collectives,
        "matched_collectives": report.matched,
        "ranks": [
            {
                "source": rank.trace.source,
                "rank": rank.trace.rank,
                "world_size": rank.trace.world_size,
                "device": rank.trace.device,
                "step_time_ns": rank.step_time_ns,
                "overlap_ratio": rank.overlap_ratio,
                "breakdown_ns": rank.breakdown_ns,
                "steps": [
                    {
                        "name": step.name,
                        "step_time_ns": step.step_time_ns,
                        "breakdown_ns": dict(step.breakdown_ns),
                        "communication_ns": step.communication_ns,
                        "hidden_ns": step.hidden_ns,
                        "kernels": step.kernels,
                    }
                    for step in rank.steps
                ],
                "warnings": list(rank.trace.warnings),
            }
            for rank in report.ranks
        ],
    }


def _mean(breakdowns: Sequence[Mapping[str, float]]) -> dict[str, float]:
    count = len(breakdowns) or 1
    return {name: sum(found[name] for found in breakdowns) / count for name in TRACE_CLASSES}
