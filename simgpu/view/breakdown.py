"""Where a GPU's step goes: one stacked bar a variant, parts that add up to the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simgpu.metrics.report import Report
from simgpu.view.figure import Spec
from simgpu.view.palette import CLASSES, Paint
from simgpu.view.stacked import Part, Step, stacked

_ROOM = 0.03  # of the longest bar: below it a percentage does not fit


def spec(reports: Sequence[Report], *, left: int = 0) -> Spec:
    """Build the breakdown of each run, mean over its ranks, as plain data.

    Parameters
    ----------
    reports : sequence of Report
    left : int, pixels
        Least left margin.

    Returns
    -------
    Spec

    Examples
    --------
    >>> spec([])["data"]
    []
    """
    return bars(reports, [report.breakdown_ns for report in reports], unit="ms of the step, mean over ranks", left=left)


def path_spec(reports: Sequence[Report], *, left: int = 0) -> Spec:
    """Build the critical path of each run, by class, as plain data.

    Parameters
    ----------
    reports : sequence of Report
    left : int, pixels
        Least left margin.

    Returns
    -------
    Spec

    Examples
    --------
    >>> path_spec([])["data"]
    []
    """
    paths = [{} if report.critical_path is None else report.critical_path.breakdown_ns for report in reports]
    return bars(reports, paths, unit="ms of the step, along the critical path", left=left)


def bars(reports: Sequence[Step], breakdowns: Sequence[Mapping[str, float]], *, unit: str, left: int) -> Spec:
    """Stack nanoseconds by accounting class, one bar a run.

    Parameters
    ----------
    reports : sequence of Step
    breakdowns : sequence of mapping
        Of each report: class of `simgpu.metrics.activity.CLASSES` to nanoseconds, which sum to the step.
    unit : str
        Title of the axis.
    left : int, pixels
        Least left margin.

    Returns
    -------
    Spec

    Examples
    --------
    >>> bars([], [], unit="ms", left=0)["data"]
    []
    """
    longest_ns = max((report.step_time_ns for report in reports), default=1)
    parts = [_part(reports, breakdowns, key, paint, longest_ns) for key, paint in CLASSES.items()]
    return stacked(
        reports,
        [part for part in parts if any(part.values)],
        unit=unit,
        left=left,
        top=46,
        span=longest_ns * 1.01e-6,
    )


def _part(
    reports: Sequence[Step], breakdowns: Sequence[Mapping[str, float]], key: str, paint: Paint, longest_ns: int
) -> Part:
    lengths_ns = [float(breakdown.get(key, 0.0)) for breakdown in breakdowns]
    shares = [
        length / report.step_time_ns if report.step_time_ns else 0.0
        for length, report in zip(lengths_ns, reports, strict=True)
    ]
    both = list(zip(lengths_ns, shares, strict=True))
    return Part(
        paint=paint,
        values=[length / 1e6 for length in lengths_ns],
        inside=[f"{share:.0%}" if length > _ROOM * longest_ns else "" for length, share in both],
        facts=[f"{length / 1e6:,.3f} ms, {share:.2%} of the step" for length, share in both],
    )
