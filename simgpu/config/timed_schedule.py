"""The pipeline schedule that is made for the times of a case's own stages."""

from __future__ import annotations

from dataclasses import replace

from simgpu.config.case import Case
from simgpu.parallel.schedules.timed_zero_bubble import zb2p_schedule

TIMED = "zb2p"
"""The schedule that needs to know times."""


def with_timed_schedule(case: Case) -> Case:
    """Return a case whose schedule, where it is one that depends on times, was made for its stages' own.

    Parameters
    ----------
    case : Case

    Returns
    -------
    Case
        The same where no such schedule is asked for.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> (case,) = load_cases({
    ...     "model": {"stages": 2, "forward_ns": 3000, "backward_ns": 5000, "backward_weight_ns": 2000},
    ...     "cluster": {"topology": "dgx-a100", "gpus": 2}, "training": {"micro_batch_size": 1, "global_batch_size": 4},
    ...     "parallel": {"schedule": "zb2p"}, "network": "free"})
    >>> " ".join(map(str, case.strategy.table.order(1)))
    '1F0 1I0 1F1 1I1 1F2 1I2 1F3 1I3 1W0 1W1 1W2 1W3'
    """
    strategy = case.strategy
    if strategy.schedule != TIMED or strategy.pp == 1 or strategy.table is not None:
        return case
    from simgpu.lower import lower
    from simgpu.lower.kernels import KernelPrices
    from simgpu.lower.stage_times import mean_stage_times

    program = lower(
        case.cluster,
        case.model,
        case.training,
        replace(strategy, schedule="zbh1"),
        network_free=case.network_free,
        nccl=case.nccl,
        prices=KernelPrices(case.costs.device(case.cluster.gpu(0)), case.costs.table),
        software=case.software,
    )
    times = mean_stage_times(program, case.training.accumulation)
    each = strategy.pipeline_microbatches or case.training.accumulation
    table = zb2p_schedule(strategy.pp, 1, each, times)
    return replace(case, strategy=replace(strategy, table=table))
