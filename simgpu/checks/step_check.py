"""Where a real step and the predicted one differ most, and what would explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from simgpu.api import report_case
from simgpu.checks.causes import COMPUTE, Cause, batch_causes, causes, wrong_batch
from simgpu.checks.hints import HINTS, OVER
from simgpu.checks.other_device import other_device
from simgpu.checks.slow_rank import slow_rank
from simgpu.config.case import Case
from simgpu.metrics.report import Report
from simgpu.metrics.trace_breakdown import TRACE_CLASSES
from simgpu.metrics.trace_report import TraceReport, as_traced
from simgpu.units import format_time

MOST: Final = 3
"""Differences that are named."""

_SMALL: Final = 0.01  # of the step: no difference
_EXPLAINS: Final = 0.3  # of a difference, at the least
_SLOWER: Final = 1.05  # times the median, of a rank that the others wait for
_ALIKE: Final = 0.08  # around the mean factor, of classes that are off by the same one
_WEIGHTY: Final = 0.05  # of the step, of classes that say something about the clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A cause, simulated.

    Parameters
    ----------
    cause : Cause
    step_time_ns : float
        Of the case in that state.
    share : float
        Part of the difference that it accounts for, up to 1.
    fit : float
        Part of the differences of all classes together.
    """

    cause: Cause
    step_time_ns: float
    share: float
    fit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One class of the step.

    Parameters
    ----------
    op_class : str
        A class of TRACE_CLASSES, or ``step`` where only the whole was measured.
    measured_ns, predicted_ns : float
    hint : str
        The usual reason.
    explained : tuple of Explained
        Simulated causes, the one that fits the whole step best first.
    """

    op_class: str
    measured_ns: float
    predicted_ns: float
    hint: str
    explained: tuple[Explained, ...]

    @property
    def ns(self) -> float:
        """Measured less predicted."""
        return self.measured_ns - self.predicted_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCheck:
    """A measured step beside the predicted one.

    Parameters
    ----------
    name : str
        Of the case.
    measured_ns, predicted_ns : float
        The whole step.
    measured, predicted : mapping of str to float
        Nanoseconds by TRACE_CLASSES; empty where only the whole was measured.
    differences : tuple of Difference
        The largest ones above a hundredth of the step, largest first, at most `MOST`.
    """

    name: str
    measured_ns: float
    predicted_ns: float
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    differences: tuple[Difference, ...]

    @property
    def error(self) -> float:
        """Predicted over measured, less one: negative when the real step is slower."""
        return self.predicted_ns / self.measured_ns - 1


def check_traces(case: Case, report: TraceReport) -> StepCheck:
    """Lay traced steps beside the predicted one, class by class.

    Parameters
    ----------
    case : Case
    report : TraceReport
        With at least one step.

    Returns
    -------
    StepCheck
    """
    measured = report.breakdown_ns
    played = _Played(known=measured)
    predicted = played.breakdown(case)
    step_ns = sum(measured.values())
    apart = sorted(TRACE_CLASSES, key=lambda name: -abs(measured[name] - predicted[name]))
    largest = [name for name in apart if abs(measured[name] - predicted[name]) > _SMALL * step_ns][:MOST]
    device = other_device(case, report)
    slow = None if device else slow_rank(case, report, played.report(case))
    listed = () if device else causes(case) if slow is None else causes(case, slow_rank=slow[0], slow_factor=slow[1])
    factor = _same_factor(measured, predicted, step_ns)
    differences = []
    for name in largest:
        found = [
            one
            for cause in listed
            if name in cause.classes and (one := played.explain(cause, name, predicted)) is not None
        ]
        hint = HINTS[name] if measured[name] > predicted[name] else OVER
        if name in COMPUTE and factor is not None:
            hint = f"all kernels take {factor:.2f} times as long: a power limit, heat, or another card than was meant"
        differences.append(
            Difference(
                op_class=name,
                measured_ns=measured[name],
                predicted_ns=predicted[name],
                hint=device or hint,
                explained=tuple(sorted(found, key=lambda one: -one.fit)),
            )
        )
    return StepCheck(
        name=case.name,
        measured_ns=step_ns,
        predicted_ns=sum(predicted.values()),
        measured=measured,
        predicted=predicted,
        differences=tuple(differences),
    )


def check_step(case: Case, measured_ns: float, *, batch: int | None = None) -> StepCheck:
    """Compare a step time alone, and find the causes that would explain the difference.

    Parameters
    ----------
    case : Case
    measured_ns : float, nanoseconds
    batch : int, optional
        Sequences of the real step, where they are known. When the scenario has others, this is the only cause named:
        the rest can be told once the batch is right. Otherwise no cause has others.

    Returns
    -------
    StepCheck
        Without classes.
    """
    other = None if batch in (None, case.global_batch_size) else batch
    played = _Played(known={"exposed": 1.0})
    predicted_ns = sum(played.breakdown(case).values())
    hint = "a trace of the step tells which part of it differs: simgpu check --trace"
    differences: tuple[Difference, ...] = ()
    apart_ns = abs(measured_ns - predicted_ns)
    if other is not None or apart_ns > _SMALL * measured_ns:
        found = []
        for cause in causes(case, batch=batch) if other is None else batch_causes(case, other):
            step_ns = sum(played.breakdown(cause.case).values())
            share = max(0.0, 1 - abs(measured_ns - step_ns) / apart_ns) if apart_ns else 0.0
            if share >= _EXPLAINS:
                found.append(Explained(cause=cause, step_time_ns=step_ns, share=share, fit=share))
            elif other is not None:
                further = abs(measured_ns - step_ns) > apart_ns
                more = ", further from the real one, so that something else is wrong too" if further else ""
                hint = f"{cause.text}; the step is then predicted at {format_time(step_ns)}{more}"
        best = tuple(sorted(found, key=lambda one: -one.share))[:MOST]
        if other is not None and wrong_batch(case, other) not in hint:
            hint = wrong_batch(case, other)
        differences = (
            Difference(op_class="step", measured_ns=measured_ns, predicted_ns=predicted_ns, hint=hint, explained=best),
        )
    return StepCheck(
        name=case.name,
        measured_ns=measured_ns,
        predicted_ns=predicted_ns,
        measured={},
        predicted={},
        differences=differences,
    )


def check_to_json(check: StepCheck) -> dict[str, Any]:
    """Return a check as plain data for ``--json``.

    Parameters
    ----------
    check : StepCheck

    Returns
    -------
    dict
    """
    return {
        "schema": 1,
        "name": check.name,
        "measured_ns": check.measured_ns,
        "predicted_ns": check.predicted_ns,
        "error": check.error,
        "measured_breakdown_ns": dict(check.measured),
        "predicted_breakdown_ns": dict(check.predicted),
        "differences": [
            {
                "class": one.op_class,
                "measured_ns": one.measured_ns,
                "predicted_ns": one.predicted_ns,
                "hint": one.hint,
                "causes": [
                    {
                        "id": found.cause.name,
                        "text": found.cause.text,
                        "step_time_ns": found.step_time_ns,
                        "share": found.share,
                        "fit": found.fit,
                    }
                    for found in one.explained
                ],
            }
            for one in check.differences
        ],
    }


class _Played:
    """Breakdowns of cases, each simulated once, in the classes that the traces can tell."""

    def __init__(self, known: Mapping[str, float]) -> None:
        self._known = known
        self._found: dict[str, dict[str, float]] = {}
        self._reports: dict[int, tuple[Case, Report]] = {}  # the case too: an id is free when its object is gone

    def report(self, case: Case) -> Report:
        if id(case) not in self._reports:
            self._reports[id(case)] = case, report_case(case)
        return self._reports[id(case)][1]

    def breakdown(self, case: Case) -> dict[str, float]:
        return as_traced(self.report(case).breakdown_ns, self._known)

    def explain(self, cause: Cause, name: str, predicted: Mapping[str, float]) -> Explained | None:
        """Return a cause that brings a class closer to what was measured, and the whole step too."""
        if cause.name not in self._found:
            self._found[cause.name] = self.breakdown(cause.case)
        found, measured = self._found[cause.name], self._known
        before, after = abs(measured[name] - predicted[name]), abs(measured[name] - found[name])
        share = (before - after) / before
        fit = 1 - _distance(measured, found) / _distance(measured, predicted)
        if share < _EXPLAINS or fit <= 0:
            return None
        return Explained(cause=cause, step_time_ns=sum(found.values()), share=share, fit=fit)


def _distance(measured: Mapping[str, float], predicted: Mapping[str, float]) -> float:
    return sum(abs(measured[name] - predicted[name]) for name in TRACE_CLASSES)


def _same_factor(measured: Mapping[str, float], predicted: Mapping[str, float], step_ns: float) -> float | None:
    """Return by how much all kinds of kernels are slower, where it is the same for all of them."""
    weighty: Sequence[str] = [name for name in COMPUTE if predicted[name] > _WEIGHTY * step_ns]
    if len(weighty) < 2:
        return None
    factors = [measured[name] / predicted[name] for name in weighty]
    mean = sum(measured[name] for name in weighty) / sum(predicted[name] for name in weighty)
    same = all(abs(factor / mean - 1) < _ALIKE for factor in factors)
    return mean if same and mean > _SLOWER else None
