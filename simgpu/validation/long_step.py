"""A long step from two short ones: once a pipeline is full, every further micro-batch adds the same time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from simgpu.api import report_case
from simgpu.config.case import Case
from simgpu.metrics.report import Report
from simgpu.metrics.validation import allocated_gib

WORTH: Final = 1.25
"""A step is played whole unless it has so many times the micro-batches of the two short ones together."""

_APART: Final = 4  # micro-batches between the two, so that rounding to nanoseconds is shared out


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedStep:
    """What a validation wants to know of a step.

    Parameters
    ----------
    step_ns : float, nanoseconds
    breakdown : mapping of str to float
        Share of the step by class, classes that take none left out.
    memory_gib : float, GiB
    fits : bool
    """

    step_ns: float
    breakdown: dict[str, float]
    memory_gib: float
    fits: bool


def short_lengths(case: Case) -> tuple[int, int] | None:
    """Return how many micro-batches two shorter steps have that tell the length of the whole, None where none do.

    Under 1F1B a pipeline of p stages is full from its p-th micro-batch on, and p are in flight at most: neither the
    period nor the memory changes after that. Interleaved stages take micro-batches in groups of p, of which one fills
    the pipeline already. Several runs of a pipeline, split backward passes and schedules searched for a number of
    micro-batches are played whole.

    Parameters
    ----------
    case : Case

    Returns
    -------
    tuple of two int, or None
    """
    strategy, whole = case.strategy, case.training.accumulation
    stages = strategy.pp
    if strategy.pipeline_microbatches not in (None, whole):
        return None
    if stages == 1:
        lengths = (_APART, 2 * _APART)
    elif strategy.schedule == "1f1b":
        lengths = (stages + _APART, stages + 2 * _APART)
    elif strategy.schedule == "interleaved_1f1b" and whole % stages == 0:
        lengths = (stages, 2 * stages)
    else:
        return None
    return lengths if WORTH * sum(lengths) <= whole else None


def play_step(case: Case) -> PlayedStep:
    """Play a case, or where its step is long two shorter ones and draw the line through them.

    Parameters
    ----------
    case : Case

    Returns
    -------
    PlayedStep
    """
    lengths = short_lengths(case)
    if lengths is None:
        return _line(report_case(case))
    first, second = (
        report_case(replace(case, training=replace(case.training, accumulation=length))) for length in lengths
    )
    return _line(second, first, (case.training.accumulation - lengths[1]) / (lengths[1] - lengths[0]))


def _line(last: Report, first: Report | None = None, beyond: float = 0.0) -> PlayedStep:
    """Go on from ``last`` by ``beyond`` times what it is longer than ``first``."""
    first = first or last
    step_ns = last.step_time_ns + beyond * (last.step_time_ns - first.step_time_ns)
    lengths_ns = {
        name: length + beyond * (length - first.breakdown_ns.get(name, 0)) for name, length in last.breakdown_ns.items()
    }
    return PlayedStep(
        step_ns=step_ns,
        breakdown={name: length / step_ns for name, length in lengths_ns.items() if step_ns and length},
        memory_gib=allocated_gib(last),
        fits=last.fits,
    )
