"""SimGPU as a library: load a scenario, simulate it, read the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from simgpu.config import load_scenario
from simgpu.config.case import Case
from simgpu.engine import play
from simgpu.fold import fold as fold_program
from simgpu.lower import lower
from simgpu.metrics.facts import RunFacts
from simgpu.metrics.report import Report
from simgpu.metrics.summary import summarize
from simgpu.metrics.verdict import describe_run
from simgpu.remedies import memory_remedies
from simgpu.timeline import Timeline
from simgpu.workload.model import Model

REMEDY_SPANS = 200_000
"""Larger runs are not repeated to try remedies: a second of play each, about."""


def play_case(case: Case, *, fold: bool = True) -> Timeline:
    """Lower a case to a Program and play it.

    Parameters
    ----------
    case : Case
    fold : bool
        Simulate one rank of every class of ranks proved alike; the times are the same either way.
    """
    program = lower(case.cluster, case.model, case.training, case.strategy, network_free=case.network_free)
    return play(fold_program(program) if fold else program)


def simulate(case: Case, *, fold: bool = True) -> Report:
    """Simulate one case to its steady-state step and report it.

    When it does not fit, the usual remedies are simulated too, unless the case is so large that this would take long,
    and the verdict names the first that would.

    Raises
    ------
    ScenarioError, ModelError, TopologyError
        When the case cannot be laid out.
    DeadlockError
        When its ranks wait for each other for ever.
    """
    report = summarize(play_case(case, fold=fold), facts(case))
    tried = []
    if not report.fits and report.timeline is not None and len(report.timeline.spans) <= REMEDY_SPANS:
        for remedy in memory_remedies(case):
            changed = summarize(play_case(remedy.case, fold=fold), facts(remedy.case))
            tried.append((remedy.text, changed))
            if changed.fits:
                break
    return replace(report, verdict=describe_run(report, tried))


def run(
    scenario: str | Path | Mapping[str, Any], *, overrides: Sequence[str] = (), fold: bool = True
) -> tuple[Report, ...]:
    """Simulate every case of a scenario: a bundled name, a path, or the mapping a file would hold.

    Examples
    --------
    >>> import simgpu
    >>> report, *_ = simgpu.run("pipeline_ideal")
    >>> round(report.bubble_fraction, 4)  # 3 / 19
    0.1579
    """
    return tuple(simulate(case, fold=fold) for case in load_scenario(scenario, overrides=overrides).cases)


def facts(case: Case) -> RunFacts:
    """Collect what metrics need to know beyond the Timeline."""
    training, strategy, model = case.training, case.strategy, case.model
    dtype, gpu = training.precision, case.cluster.gpu(0)
    tokens = training.tokens * training.accumulation * strategy.dp if isinstance(model, Model) else 0
    per_token = hardware_per_token = 0
    if isinstance(model, Model):
        per_token = model.model_flops_per_token(training.sequence_length)
        hardware_per_token = model.hardware_flops_per_token(training.sequence_length, training.recompute)
    return RunFacts(
        name=case.name,
        model=case.model.name,
        tokens=tokens,
        model_flops=tokens * per_token,
        hardware_flops=tokens * hardware_per_token,
        peak_flops_per_s=gpu.peak_tflops(dtype) * 1e12,
        stages=strategy.pp,
        microbatches=training.accumulation,
        price_per_gpu_hour=case.price_per_gpu_hour,
        train_tokens=case.train_tokens,
        warnings=case.warnings,
    )
