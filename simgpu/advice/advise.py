"""Which runs disappoint, and what the usual levers would give each of them, simulated."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from simgpu.advice.levers import BUBBLE, EXPOSED, MEMORY, SCALING, Lever, levers
from simgpu.advice.options import filled
from simgpu.config.case import Case
from simgpu.config.draft import Draft
from simgpu.config.inputs import Inputs
from simgpu.config.point_case import point_case
from simgpu.errors import SimGPUError
from simgpu.metrics.advice import Advice
from simgpu.metrics.memory import NEARLY_FULL
from simgpu.metrics.report import Report

LARGEST_SPANS: Final = 2_000
"""Runs with more bars are repeated a dozen times only where that was asked for."""

_BUBBLE: Final = 0.20
_EXPOSED: Final = 0.15
_SPEEDUP: Final = 1.5  # for twice the GPUs, at the least
_WORTH: Final = 0.01  # of the tokens per second


def disappointments(report: Report, others: Sequence[Report] = ()) -> dict[str, str]:
    """Say what disappoints about a run.

    Parameters
    ----------
    report : Report
    others : sequence of Report
        Runs beside it; one of the same model on fewer GPUs is what it is measured by.

    Returns
    -------
    dict of str to str
        ``memory`` (above 93 % of the card), ``bubble`` (above 20 %), ``exposed`` (communication above 15 % of the
        step), ``scaling`` (less than 1.5 times as fast on twice the GPUs), each with the reason in words.
    """
    found = {}
    if report.capacity_bytes and report.peak_memory_bytes > NEARLY_FULL * report.capacity_bytes:
        share = report.peak_memory_bytes / report.capacity_bytes
        found[MEMORY] = f"{share:.0%} of the card's memory" + ("" if report.fits else ": it does not fit")
    if report.bubble_fraction > _BUBBLE:
        found[BUBBLE] = f"{report.bubble_fraction:.0%} of the step is pipeline bubble"
    exposed_ns = sum(value for name, value in report.breakdown_ns.items() if name.startswith("exposed."))
    if exposed_ns > _EXPOSED * report.step_time_ns:
        found[EXPOSED] = f"{exposed_ns / report.step_time_ns:.0%} of the step is exposed communication"
    for other in others:
        if other.model == report.model and other.gpus < report.gpus and other.tokens_per_s and report.tokens_per_s:
            speedup = report.tokens_per_s / other.tokens_per_s
            if speedup < _SPEEDUP ** math.log2(report.gpus / other.gpus):
                found[SCALING] = (
                    f"{speedup:.2f} times as fast as {other.name} with {report.gpus / other.gpus:g} times the GPUs"
                )
    return found


def advise_runs(
    cases: Sequence[Case],
    reports: Sequence[Report],
    drafts: Sequence[tuple[Mapping[str, Any], Path]],
    play: Callable[[Case], Report],
    *,
    begin: Callable[[str], None] = lambda name: None,
    all_of_them: bool = True,
) -> tuple[Report, ...]:
    """Add to every run that disappoints what the levers would give it.

    Parameters
    ----------
    cases, reports : sequences of Case and Report
    drafts : sequence of (mapping, Path)
        What each case's scenario would hold without variants, and where its relative paths start.
    play : callable
        Simulates a case; called up to some fifteen times for each such run.
    begin : callable
        Told the name of the run that is worked on.
    all_of_them : bool
        Otherwise only runs of up to `LARGEST_SPANS` bars; the others learn what disappoints.

    Returns
    -------
    tuple of Report
    """
    result = []
    for case, report, (data, folder) in zip(cases, reports, drafts, strict=True):
        reasons = disappointments(report, [other for other in reports if other is not report])
        small = report.timeline is not None and len(report.timeline.spans) <= LARGEST_SPANS
        if reasons:
            tried = all_of_them or small
            if tried:
                begin(case.name)
            advice = _try(case, report, data, Inputs(folder=folder), frozenset(reasons), play) if tried else None
            report = replace(report, advice=advice, disappointments=tuple(reasons.values()))
        result.append(report)
    return tuple(result)


def _try(
    case: Case,
    report: Report,
    data: Mapping[str, Any],
    inputs: Inputs,
    reasons: frozenset[str],
    play: Callable[[Case], Report],
) -> tuple[Advice, ...]:
    found = []
    for lever in levers(case):
        if not lever.against & reasons:
            continue
        try:
            settings = _different(data, lever.settings)
            changed = point_case(case.name, _changed(data, settings), inputs)
            played = play(changed)
        except SimGPUError:
            continue  # the lever does not exist for this scenario
        advice = _advice(case, changed, report, played, replace(lever, settings=settings))
        if played.fits and _helps(advice, report, reasons, lever):
            found.append(advice)
    return tuple(sorted(found, key=lambda one: -one.tokens_per_s_gain))


def _advice(case: Case, changed: Case, report: Report, played: Report, lever: Lever) -> Advice:
    more = changed.global_batch_size / case.global_batch_size
    speed = (played.step_time_ns and more * report.step_time_ns / played.step_time_ns) or 1.0
    return Advice(
        lever=lever.name,
        settings=dict(lever.settings),
        option=filled(lever.option, changed),
        step_time_ns=played.step_time_ns,
        tokens_per_s_gain=speed - 1,
        peak_memory_bytes=played.peak_memory_bytes,
        batch_factor=more,
    )


def _helps(advice: Advice, report: Report, reasons: frozenset[str], lever: Lever) -> bool:
    """Whether it makes the run faster, or small enough where memory is what disappoints."""
    smaller = advice.peak_memory_bytes <= NEARLY_FULL * report.capacity_bytes
    if MEMORY in reasons and MEMORY in lever.against:
        return smaller or (not report.fits and advice.peak_memory_bytes < report.peak_memory_bytes)
    return advice.tokens_per_s_gain > _WORTH and (smaller or MEMORY not in reasons)


def _different(data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the settings that the scenario does not have as they are."""
    draft = Draft(data=dict(data), source="")
    return {path: value for path, value in settings.items() if draft.get(tuple(path.split("."))) != value}


def _changed(data: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario with fields set, and those of None taken out."""
    changed = copy.deepcopy(dict(data))
    for path, value in settings.items():
        *blocks, name = path.split(".")
        home = changed
        for block in blocks:
            inner = home.get(block)
            home[block] = inner if isinstance(inner, dict) else {}
            home = home[block]
        if value is None:
            home.pop(name, None)
        else:
            home[name] = value
    return changed
