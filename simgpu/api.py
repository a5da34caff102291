"""SimGPU as a library: load a scenario, simulate it, read the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simgpu.break_even import warn_of_slower
from simgpu.config import load_scenario
from simgpu.config.case import Case
from simgpu.costs.collectives.settings import CURRENT, NcclSettings
from simgpu.dtypes import DType
from simgpu.engine import paused_collector, play
from simgpu.fold import fold as fold_program
from simgpu.hardware.computer import host_memory_bytes, host_ranks
from simgpu.lower.perturbation import perturbed
from simgpu.lower.recompute import recomputed_share
from simgpu.metrics.critical_path import critical_path
from simgpu.metrics.facts import RunFacts
from simgpu.metrics.loading import loading_memory
from simgpu.metrics.report import Report
from simgpu.metrics.summary import summarize
from simgpu.metrics.verdict import describe_run, launch_bound
from simgpu.parallel.data_parallel import SHARDED_WEIGHTS
from simgpu.parallel.ideal_bubble import idle_over_work
from simgpu.parallel.pipeline import pipeline_schedule
from simgpu.pricing import lower_case, op_prices, ops
from simgpu.remedies import launch_remedies, memory_remedies
from simgpu.timeline import Timeline
from simgpu.workload.architecture import Architecture
from simgpu.workload.frozen import spared_flops

if TYPE_CHECKING:
    from simgpu.metrics.collective_errors import TableErrors
    from simgpu.metrics.collective_sweep import CollectiveSweep

REMEDY_SPANS = 130_000
"""Larger runs are not repeated to try remedies: a second of play each, about."""


def play_case(case: Case, *, fold: bool = True) -> Timeline:
    """Lower a case to a Program and play it.

    Parameters
    ----------
    case : Case
    fold : bool
        Simulate one rank of every class of ranks proved alike; the times are the same either way.
    """
    with paused_collector():
        program = perturbed(lower_case(case, op_prices(case)), case.perturbation)
        return play(fold_program(program) if fold else program)


def report_case(case: Case, *, fold: bool = True) -> Report:
    """Play one case and sum it up, without verdict, remedies and critical path, which `simulate` adds.

    Parameters
    ----------
    case : Case
    fold : bool
        Simulate one of each class of equal ranks only.

    Returns
    -------
    Report
    """
    with paused_collector():
        return summarize(play_case(case, fold=fold), facts(case))


def simulate(case: Case, *, fold: bool = True) -> Report:
    """Simulate one case to its steady-state step and report it.

    When it does not fit, the usual remedies are simulated too, unless the case is so large that this would take long,
    and the verdict names the first that would. When it is launch-bound, the verdict says what CUDA graphs and a larger
    micro-batch would give.

    Raises
    ------
    ScenarioError, ModelError, TopologyError
        When the case cannot be laid out.
    DeadlockError
        When its ranks wait for each other for ever.
    """
    report = report_case(case, fold=fold)
    tried = []
    if report.timeline is not None and len(report.timeline.spans) <= REMEDY_SPANS:
        remedies = () if report.fits else memory_remedies(case)
        for remedy in launch_remedies(case) if report.fits and launch_bound(report) else remedies:
            changed = report_case(remedy.case, fold=fold)
            tried.append((remedy.text, changed))
            if changed.fits and not report.fits:
                break
    path = None if report.timeline is None else critical_path(report.timeline)
    return replace(report, verdict=describe_run(report, tried), critical_path=path)


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
    cases = load_scenario(scenario, overrides=overrides).cases
    return advise(cases, [simulate(case, fold=fold) for case in cases], fold=fold)


def advise(cases: Sequence[Case], reports: Sequence[Report], *, fold: bool = True) -> tuple[Report, ...]:
    """Warn of runs that are slower than one with fewer GPUs, with the bandwidth at which they would not be.

    Parameters
    ----------
    cases : sequence of Case
    reports : sequence of Report
        Of these cases.
    fold : bool
        Simulate one of each class of equal ranks only.

    Returns
    -------
    tuple of Report
    """
    return warn_of_slower(cases, reports, partial(report_case, fold=fold))


def collective(
    kind: str,
    *,
    topology: str,
    nodes: int = 1,
    gpus: int | None = None,
    ranks: str | Sequence[int] | None = None,
    fabric: Mapping[str, Any] | None = None,
    links: Mapping[str, float] | None = None,
    sizes: str | Sequence[int] = "1K:8G",
    factor: float = 2.0,
    dtype: DType = DType.FP32,
    nccl: NcclSettings = CURRENT,
) -> CollectiveSweep:
    """Price a collective at several sizes, as nccl-tests measures it.

    Parameters
    ----------
    kind : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``broadcast``, ``all_to_all`` or ``sendrecv``.
    topology : str
        Bundled name, or path of a topology file.
    nodes, gpus, fabric
        As in a scenario's ``cluster`` block.
    links : mapping of str to float, optional
        What is left of links, by their names: ``{"node0/nic0<->*": 0.5}``.
    ranks : str or sequence of int, optional
        Members of the group, such as ``0-63:8``; all by default.
    sizes : str or sequence of int
        ``MIN:MAX`` with K, M, G as powers of 1024, or sizes in bytes.
    factor : float
        Between one size and the next.
    dtype : DType
    nccl : NcclSettings
        Version and settings of NCCL.

    Returns
    -------
    CollectiveSweep

    Raises
    ------
    SimGPUError
        For a cluster, ranks or sizes that do not exist.

    Examples
    --------
    >>> row, = collective("all_reduce", topology="dgx-h100", sizes="1G").rows
    >>> row.algorithm, row.source, 430 < row.busbw_gb_per_s < 480
    ('nvls', 'measured', True)
    """
    from simgpu.config.cluster_request import ClusterRequest, request_cluster  # who simulates a step needs none of it
    from simgpu.config.sizes import parse_ranks, parse_sizes
    from simgpu.metrics.collective_sweep import sweep_collective

    cluster = request_cluster(ClusterRequest(topology=topology, nodes=nodes, gpus=gpus, fabric=fabric, links=links))
    members = (
        parse_ranks(ranks) if isinstance(ranks, str) else tuple(range(cluster.world_size) if ranks is None else ranks)
    )
    wanted = parse_sizes(sizes, factor=factor) if isinstance(sizes, str) else tuple(sizes)
    return sweep_collective(cluster, members, kind, wanted, dtype=dtype, nccl=nccl)


def collective_table(path: str | Path, *, topology: str | None = None, nccl: NcclSettings = CURRENT) -> TableErrors:
    """Price every row of a measured table and compare.

    Parameters
    ----------
    path : path
        CSV, docs/collective.md has the columns; with a topology the output of nccl-tests.
    topology : str, optional
        What nccl-tests ran on: bundled name, or path of a topology file.
    nccl : NcclSettings
        For the output of nccl-tests: version and settings.

    Returns
    -------
    TableErrors

    Raises
    ------
    ScenarioError
        When the file is no such table.
    """
    from simgpu.metrics.collective_errors import price_table

    if topology is None:
        from simgpu.config.collective_table import read_collective_table

        table = read_collective_table(Path(path))
    else:
        from simgpu.config.collective_log import read_collective_log

        table = read_collective_log(Path(path), topology, nccl)
    return price_table(table.rows, table.skipped)


def facts(case: Case) -> RunFacts:
    """Collect what metrics need to know beyond the Timeline."""
    training, strategy, model = case.training, case.strategy, case.model
    dtype, gpu = training.matmul_dtype, case.cluster.gpu(0)
    tokens = training.tokens * training.accumulation * strategy.dp if isinstance(model, Architecture) else 0
    passes = training.accumulation * strategy.dp
    model_flops = hardware_flops = 0
    if isinstance(model, Architecture):
        spared = spared_flops(model, training)
        model_flops = model.model_flops(training) - spared[0]
        repeated = model.hardware_flops(training) - spared[1] - model_flops
        hardware_flops = model_flops + round(recomputed_share(model, training, strategy) * repeated)
    return RunFacts(
        name=case.name,
        model=case.model.name,
        tokens=tokens,
        model_flops=passes * model_flops,
        hardware_flops=passes * hardware_flops,
        peak_flops_per_s=gpu.peak_tflops(dtype) * 1e12,
        idle_over_work=_idle_over_work(case),
        price_per_gpu_hour=case.price_per_gpu_hour,
        train_tokens=case.train_tokens,
        ranks_per_host=host_ranks(case.cluster, 0),
        host_memory_bytes=host_memory_bytes(case.cluster),
        loading=loading_memory(
            model.parameters if isinstance(model, Architecture) else 0,
            host_ranks(case.cluster, 0),
            sharded=strategy.data_parallel in SHARDED_WEIGHTS,
            model_parallel=strategy.tp * strategy.pp,
        ),
        op_table=None if case.costs.table is None else ops(case).table,
        warnings=case.warnings,
    )


def _idle_over_work(case: Case) -> float:
    """Return what the schedule idles by itself; steps end together where a norm is summed over the stages."""
    if case.strategy.pp == 1:
        return 0.0
    together = isinstance(case.model, Architecture) and case.training.optimizer != "none"
    return idle_over_work(pipeline_schedule(case.strategy, case.training.accumulation), together=together)
