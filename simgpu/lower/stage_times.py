"""What a micro-batch takes on a pipeline stage, before anything is played: what a timed schedule is made for."""

from __future__ import annotations

from collections.abc import Iterator

from simgpu.parallel.schedules.timed_zero_bubble import StageTimes
from simgpu.program import Collective, Compute, Program, TransferKey
from simgpu.workload.backward_split import WEIGHT_GRADIENT

_PHASES = ("forward", "backward", "recompute")


def mean_stage_times(program: Program, microbatches: int) -> StageTimes:
    """Return the mean over the pipeline's ranks, as profiles of a running pipeline give it.

    Parameters
    ----------
    program : Program
        Whose weights' gradients are actions of their own.
    microbatches : int
        Per step and pipeline.

    Returns
    -------
    StageTimes
        In nanoseconds: kernels, and the exchanges within a stage as if nothing hid them; messages between stages.

    Examples
    --------
    >>> from simgpu.config import load_cases
    >>> from simgpu.lower import lower
    >>> (case,) = load_cases({"model": {"stages": 2, "forward_ns": 3000, "backward_ns": 5000, "message_ns": 70},
    ...     "cluster": {"topology": "dgx-a100", "gpus": 2}, "training": {"micro_batch_size": 1, "global_batch_size": 4},
    ...     "parallel": {"schedule": "zbh1"}})
    >>> mean_stage_times(lower(case.cluster, case.model, case.training, case.strategy), 4)
    StageTimes(forward=3000.0, input_gradient=2500.0, weight_gradient=2500.0, message=70.0)
    """
    times = {"forward": 0, "input_gradient": 0, "weight_gradient": 0}
    roles = list(dict.fromkeys(rank.role for rank in program.ranks))
    for item, time_ns in (pair for role in roles for pair in _timed(program, role)):
        if item.phase in _PHASES:
            late = item.name.startswith(WEIGHT_GRADIENT)
            times["weight_gradient" if late else "forward" if item.phase == "forward" else "input_gradient"] += time_ns
    share = 1 / (len(roles) * microbatches)
    messages = [
        cost.latency_ns + cost.stream_ns
        for (group, key), cost in program.transfers.items()
        if key.source >= 0 and program.groups[group].communicator == "pp"
    ]
    return StageTimes(
        message=sum(messages) / max(1, len(messages)), **{name: total * share for name, total in times.items()}
    )


def _timed(program: Program, role: int) -> Iterator[tuple[Compute | Collective, int]]:
    groups = next(rank.groups for rank in program.ranks if rank.role == role)
    for stream in program.roles[role].streams.values():
        for item in stream:
            if isinstance(item, Compute):
                yield item, item.duration_ns
            elif isinstance(item, Collective) and program.communicators[item.communicator].axis != "dp":
                key = TransferKey(kind=item.kind, bytes=item.bytes)
                cost = program.transfers[groups[item.communicator], key]
                yield item, cost.latency_ns + cost.stream_ns
