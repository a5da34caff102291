"""The rank whose kernels take longer than the others' in traces, and how much slower its GPU is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Final

from simgpu.api import report_case
from simgpu.config.case import Case
from simgpu.lower.perturbation import Perturbation
from simgpu.metrics.report import Report
from simgpu.metrics.trace_report import TraceReport

_SLOWER: Final = 1.05  # times the others, of a rank that they wait for
_TRIES: Final = 6
_CLOSE: Final = 0.001  # of the ratio that is looked for
_FASTEST_TRY, _SLOWEST_TRY = 1.01, 20.0


def slow_rank(case: Case, traces: TraceReport, predicted: Report) -> tuple[int, float] | None:
    """Find a rank that is slower than the others, and by which factor.

    Parameters
    ----------
    case : Case
    traces : TraceReport
    predicted : Report
        The case, simulated.

    Returns
    -------
    (int, float) or None
        None where traces of one rank alone, or of ranks that are alike, show none.

    Notes
    -----
    Ranks are compared by their kernels' time over the predicted one, so that stages of a pipeline may differ. The
    others do not only wait: their kernels run beside collectives that spin for the slow rank, and take longer too. So
    the ratio is smaller than the factor, which is found by simulating: the one that makes the ratio that was measured
    (secant method).
    """
    work = {
        rank.trace.rank: _compute_ns(rank.breakdown_ns)
        for rank in traces.ranks
        if rank.steps and rank.trace.rank is not None
    }
    usual = _work(predicted, work)
    if len(work) < 2 or set(usual) != set(work) or case.perturbation:
        return None
    ratios = {rank: work[rank] / usual[rank] for rank in work}
    rank, longest = max(ratios.items(), key=lambda item: item[1])
    wanted = longest / median(ratios.values())
    if wanted <= _SLOWER:
        return None
    factor, before, ratio_before = max(wanted, longest), 1.0, 1.0
    for _ in range(_TRIES):
        factor = min(max(factor, _FASTEST_TRY), _SLOWEST_TRY)
        found = _work(report_case(replace(case, perturbation=Perturbation(slow={rank: factor}))), work)
        times = {one: found[one] / usual[one] for one in work}
        ratio = times[rank] / median(times.values())
        if abs(ratio - wanted) <= _CLOSE * wanted or ratio == ratio_before:
            break
        before, ratio_before, factor = (
            factor, ratio, factor + (wanted - ratio) * (factor - before) / (ratio - ratio_before),
        )  # fmt: skip
    return rank, min(max(factor, _FASTEST_TRY), _SLOWEST_TRY)


def _work(report: Report, wanted: Mapping[int, float]) -> dict[int, float]:
    """Return the time of the kernels of some ranks, where there are any."""
    found: dict[int, float] = {}
    for one in report.ranks:
        time_ns = _compute_ns(one.breakdown_ns)
        found |= {member: time_ns for member in (one.members or (one.rank,)) if member in wanted and time_ns}
    return found


def _compute_ns(breakdown_ns: Mapping[str, float]) -> float:
    return sum(value for name, value in breakdown_ns.items() if name.startswith("compute."))
