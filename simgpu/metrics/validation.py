"""Predicted against measured steps of whole runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simgpu.metrics.layout_choice import LayoutChoice, layout_choice
from simgpu.metrics.mean_errors import mean_errors
from simgpu.metrics.report import Report
from simgpu.units import GIB

_UNSEEN = ("context", "communication")
"""Memory that ``torch.cuda.max_memory_allocated`` does not show: it lies outside PyTorch's allocator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedRun:
    """A measured run and its prediction.

    Parameters
    ----------
    id, family : str
    measured_step_s, predicted_step_s : float, seconds
    measured_memory_gib, predicted_memory_gib : float or None
        What the allocator of the fullest rank has handed out; None where it was not measured.
    breakdown : mapping of str to float
        Share of the predicted step by class of `simgpu.metrics.activity.CLASSES`.
    fits : bool
        The prediction needs no more memory than there is.
    assumptions : tuple of str
        What the source does not say.
    source : str
    setting : str
        What was trained on what: runs of one setting differ in their layout. Empty where that does not matter.
    measured_bubble : float or None
        Published share of the step in which ranks idle.
    """

    id: str
    family: str
    measured_step_s: float
    predicted_step_s: float
    measured_memory_gib: float | None = None
    predicted_memory_gib: float | None = None
    breakdown: Mapping[str, float] = field(default_factory=dict)
    fits: bool = True
    assumptions: tuple[str, ...] = ()
    source: str = ""
    setting: str = ""
    measured_bubble: float | None = None

    @property
    def predicted_bubble(self) -> float | None:
        """What is left of the step without all that ranks compute; None where no bubble was measured."""
        if self.measured_bubble is None:
            return None
        return 1 - sum(share for name, share in self.breakdown.items() if name.startswith("compute."))

    @property
    def error(self) -> float:
        """Predicted over measured step, less one: positive when the prediction is too slow."""
        return self.predicted_step_s / self.measured_step_s - 1

    @property
    def memory_error(self) -> float | None:
        """Predicted over measured memory, less one; None where it was not measured."""
        if not self.measured_memory_gib or self.predicted_memory_gib is None:
            return None
        return self.predicted_memory_gib / self.measured_memory_gib - 1

    def largest(self, count: int) -> tuple[tuple[str, float], ...]:
        """Return the classes that take most of the predicted step, with their shares, largest first."""
        shares = sorted(self.breakdown.items(), key=lambda item: -item[1])
        return tuple((name, share) for name, share in shares[:count] if share > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnpredictedRun:
    """A run without a prediction, and why."""

    id: str
    family: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyErrors:
    """Errors of runs that belong together.

    Parameters
    ----------
    family : str
    n, skipped : int
        Runs with and without a prediction.
    mape, bias : float or None
        Mean of the sizes of the steps' errors, and of the errors; fractions of the measured step.
    memory_mape : float or None
        Mean of the sizes of the memories' errors, where memory was measured.
    bubble_points : float or None
        Largest difference of a predicted and a published bubble, in points of the step.
    layouts : LayoutChoice or None
        How well layouts were told apart, where some work was measured in several.
    """

    family: str
    n: int
    skipped: int
    mape: float | None
    bias: float | None
    memory_mape: float | None
    bubble_points: float | None = None
    layouts: LayoutChoice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """What a validation found.

    Parameters
    ----------
    runs : tuple of ValidatedRun
    skipped : tuple of UnpredictedRun
    families : tuple of FamilyErrors
        In order of appearance.
    mape, bias : float or None
        Over all runs; None without any.
    """

    runs: tuple[ValidatedRun, ...]
    skipped: tuple[UnpredictedRun, ...]
    families: tuple[FamilyErrors, ...]
    mape: float | None
    bias: float | None

    def worst(self, count: int) -> tuple[ValidatedRun, ...]:
        """Return the runs with the largest errors, largest first."""
        return tuple(sorted(self.runs, key=lambda run: -abs(run.error))[:count])


def sum_up(runs: Iterable[ValidatedRun], skipped: Iterable[UnpredictedRun]) -> Validation:
    """Sum errors up by family and in total.

    Parameters
    ----------
    runs : iterable of ValidatedRun
    skipped : iterable of UnpredictedRun

    Returns
    -------
    Validation

    Examples
    --------
    >>> runs = [ValidatedRun(id="", family="f", measured_step_s=1.0, predicted_step_s=step) for step in (0.9, 1.3)]
    >>> found = sum_up(runs, [])
    >>> round(found.mape, 3), round(found.bias, 3), found.families[0].n
    (0.2, 0.1, 2)
    """
    runs, skipped = tuple(runs), tuple(skipped)
    names = dict.fromkeys([run.family for run in runs] + [run.family for run in skipped])
    families = tuple(
        _family(name, [run for run in runs if run.family == name], sum(run.family == name for run in skipped))
        for name in names
    )
    _, mape, bias = mean_errors(runs)
    return Validation(runs=runs, skipped=skipped, families=families, mape=mape, bias=bias)


def allocated_gib(report: Report) -> float:
    """Return the peak of what PyTorch's allocator has handed out on the fullest rank.

    Parameters
    ----------
    report : Report

    Returns
    -------
    float, GiB
    """
    parts = report.memory_by_category_bytes
    return (report.peak_memory_bytes - sum(parts.get(name, 0) for name in _UNSEEN)) / GIB


def validation_to_json(found: Validation) -> dict[str, Any]:
    """Turn a validation into plain data for ``json.dumps``; errors are fractions, not per cent.

    Parameters
    ----------
    found : Validation

    Returns
    -------
    dict
    """
    return {
        "rows": [
            {
                "id": run.id,
                "family": run.family,
                "measured_step_s": run.measured_step_s,
                "predicted_step_s": run.predicted_step_s,
                "error": run.error,
                "measured_memory_gib": run.measured_memory_gib,
                "predicted_memory_gib": run.predicted_memory_gib,
                **_bubbles(run),
            }
            for run in found.runs
        ],
        "skipped": [{"id": run.id, "reason": run.reason} for run in found.skipped],
        "families": [_family_to_json(one) for one in found.families],
        "mape": found.mape,
        "bias": found.bias,
    }


def _bubbles(run: ValidatedRun) -> dict[str, Any]:
    if run.measured_bubble is None:
        return {}
    return {"measured_bubble": run.measured_bubble, "predicted_bubble": run.predicted_bubble}


def _family_to_json(one: FamilyErrors) -> dict[str, Any]:
    """Name what holds for every family, and what holds for this one besides."""
    found: dict[str, Any] = {
        "id": one.family, "n": one.n, "mape": one.mape, "bias": one.bias, "memory_mape": one.memory_mape,
    }  # fmt: skip
    if one.bubble_points is not None:
        found["bubble_points"] = one.bubble_points
    if one.layouts is not None:
        found["layouts"] = {
            "settings": one.layouts.settings, "regret": one.layouts.regret, "pairs": one.layouts.pairs,
            "ordered": one.layouts.ordered,
        }  # fmt: skip
    return found


def _family(name: str, runs: Sequence[ValidatedRun], skipped: int) -> FamilyErrors:
    n, mape, bias = mean_errors(runs)
    memory = [abs(error) for run in runs if (error := run.memory_error) is not None]
    bubbles = [
        100 * abs(run.predicted_bubble - run.measured_bubble)
        for run in runs
        if run.predicted_bubble is not None and run.measured_bubble is not None
    ]
    return FamilyErrors(
        family=name,
        n=n,
        skipped=skipped,
        mape=mape,
        bias=bias,
        memory_mape=sum(memory) / len(memory) if memory else None,
        bubble_points=max(bubbles) if bubbles else None,
        layouts=layout_choice(runs),
    )
