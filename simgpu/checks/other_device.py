"""Whether traces are of the GPU that a scenario has."""

from __future__ import annotations

from simgpu.config.case import Case
from simgpu.config.gpu_name import is_other_gpu
from simgpu.metrics.trace_report import TraceReport


def other_device(case: Case, report: TraceReport) -> str:
    """Say that traces are of other GPUs than the scenario has; empty where they are not, or do not tell.

    Parameters
    ----------
    case : Case
    report : TraceReport

    Returns
    -------
    str
    """
    own = tuple(dict.fromkeys(case.cluster.gpu(rank).name for rank in range(case.cluster.world_size)))
    seen = dict.fromkeys(rank.trace.device for rank in report.ranks if rank.trace.device)
    strange = [name for name in seen if is_other_gpu(name, own)]
    if not strange:
        return ""
    return (
        f"another GPU: the traces are of {', '.join(strange)}, the scenario has {', '.join(own)}; "
        "set cluster.topology to a machine with the GPU of the run"
    )
