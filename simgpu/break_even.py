"""When more GPUs are slower: which link is to blame, and the bandwidth at which they would be as fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from simgpu.config.case import Case
from simgpu.hardware.cluster import Cluster
from simgpu.metrics.report import Report
from simgpu.units import format_bandwidth

_NOTABLE: Final = 0.995  # of the smaller run's speed; what is nearer counts as equal
_MOST: Final = 2.0**20  # times the bandwidth: beyond it, it is no matter of bandwidth
_CLOSE: Final = 1.01  # factor to which the break-even is found
_LARGEST_SPANS: Final = 20_000  # runs above are not repeated some fifteen times for this


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """What a link would have to carry.

    Parameters
    ----------
    link : str
        The link that holds the larger run's exposed communication.
    kind : str
        Of that link; all links of the kind are made faster together.
    bytes_per_s : int, bytes per second
        What it carries.
    needed_bytes_per_s : float or None, bytes per second
        At which both runs are as fast; None where no bandwidth is enough.
    """

    link: str
    kind: str
    bytes_per_s: int
    needed_bytes_per_s: float | None


def warn_of_slower(
    cases: Sequence[Case], reports: Sequence[Report], play: Callable[[Case], Report]
) -> tuple[Report, ...]:
    """Add a warning to every run that is slower than one with fewer GPUs of the same kind and model.

    Parameters
    ----------
    cases : sequence of Case
    reports : sequence of Report
        Of these cases.
    play : callable
        Simulates a case; called some fifteen times for each such run, unless it is large.

    Returns
    -------
    tuple of Report
    """
    result = []
    for case, report in zip(cases, reports, strict=True):
        base = _faster_with_fewer(report, reports)
        if base is not None:
            found = None
            if report.timeline is not None and len(report.timeline.spans) <= _LARGEST_SPANS:
                found = break_even(case, report, base.tokens_per_s, play)
            report = replace(report, warnings=(*report.warnings, _sentence(report, base, found)))
        result.append(report)
    return tuple(result)


def break_even(case: Case, report: Report, tokens_per_s: float, play: Callable[[Case], Report]) -> BreakEven | None:
    """Find the bandwidth of the limiting link at which a run reaches a speed.

    Parameters
    ----------
    case : Case
    report : Report
        Of this case.
    tokens_per_s : float
        The speed to reach.
    play : callable
        Simulates a case.

    Returns
    -------
    BreakEven or None
        None for a run that loses no time to a link.

    Notes
    -----
    The case is simulated with all links of the limiting link's kind 2, 4, 8, ... times as fast until it is fast
    enough, then between the last two by bisection to 1 %.
    """
    link = limiting_link(report)
    if link is None:
        return None
    found = next(one for one in case.cluster.links if one.name == link)

    def reaches(factor: float) -> bool:
        faster = replace(case, cluster=with_faster_links(case.cluster, found.kind, factor))
        return play(faster).tokens_per_s >= tokens_per_s

    low, high = 1.0, 2.0
    while high <= _MOST and not reaches(high):
        low, high = high, 4 * high
    needed = None
    if high <= _MOST:
        while high > _CLOSE * low:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if reaches(middle) else (middle, high)
        needed = high * found.bytes_per_s
    return BreakEven(link=link, kind=found.kind, bytes_per_s=found.bytes_per_s, needed_bytes_per_s=needed)


def limiting_link(report: Report) -> str | None:
    """Name the link that holds a run's longest exposed communication.

    Parameters
    ----------
    report : Report

    Returns
    -------
    str or None
        None where nothing is exposed.
    """
    exposed = {name: value for name, value in report.breakdown_ns.items() if name.startswith("exposed.") and value > 0}
    if not exposed:
        return None
    axis = max(exposed, key=lambda name: exposed[name]).removeprefix("exposed.")
    moved = [transfer for transfer in report.transfers if transfer.axis == axis and transfer.bottleneck]
    return max(moved, key=lambda one: one.count * one.mean_ns).bottleneck if moved else None


def with_faster_links(cluster: Cluster, kind: str, factor: float) -> Cluster:
    """Return a cluster whose links of one kind are faster, and nothing else is changed.

    Parameters
    ----------
    cluster : Cluster
    kind : str
        ``network``, ``pcie``, ...
    factor : float

    Returns
    -------
    Cluster

    Examples
    --------
    >>> from simgpu.config.cluster_request import ClusterRequest, request_cluster
    >>> pair = request_cluster(ClusterRequest(topology="2x-rtx3090-nvlink"))
    >>> max(link.bytes_per_s for link in with_faster_links(pair, "nvlink", 2).links) // 10**9
    96
    """
    links = tuple(
        replace(
            link,
            bytes_per_s=round(link.bytes_per_s * factor),
            nominal_bytes_per_s=round(link.nominal_bytes_per_s * factor),
        )
        if link.kind == kind
        else link
        for link in cluster.links
    )
    return replace(cluster, links=links, memo={}, _graph=[])


def _faster_with_fewer(report: Report, reports: Sequence[Report]) -> Report | None:
    """Fastest run with the same model on fewer GPUs of the same kind, if it is faster and fits where the other does."""
    device = report.ranks[0].device
    fewer = [
        other
        for other in reports
        if other.gpus < report.gpus
        and other.model == report.model
        and other.ranks[0].device == device
        and (other.fits or not report.fits)
    ]
    best = max(fewer, key=lambda other: other.tokens_per_s, default=None)
    if best is None or not report.tokens_per_s or report.tokens_per_s >= _NOTABLE * best.tokens_per_s:
        return None
    return best


def _sentence(report: Report, base: Report, found: BreakEven | None) -> str:
    speed = f"{base.tokens_per_s / report.tokens_per_s:.2f}×"
    text = f"{report.gpus} GPUs are {speed} slower than {base.name} with {base.gpus}: stay with {base.gpus}"
    if found is None:
        return text
    now = format_bandwidth(float(f"{found.bytes_per_s:.3g}"))
    if found.needed_bytes_per_s is None:
        return f"{text}; no bandwidth of {found.link} ({now}) would make up for it"
    needed = format_bandwidth(float(f"{found.needed_bytes_per_s:.3g}"))
    return f"{text}. Break-even: {found.link} would have to carry {needed} instead of {now}"
