"""How long a unit's passes take at least: kernels in order, and exchanges that nothing in the pass hides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from simgpu.lower.emitter import issue_costs_ns
from simgpu.lower.segments import Segment, SegmentCompiler
from simgpu.parallel.data_parallel.plan import GradientStore
from simgpu.workload.host_costs import HostCosts
from simgpu.workload.unit import Exchange, GradientReady, Join, Unit

ExchangeNs = Callable[[Exchange], int]


class PassTimes(NamedTuple):
    """Least times of one micro-batch of a unit, nanoseconds, and what it keeps until its backward, bytes.

    Parameters
    ----------
    forward_ns : int
    backward_ns : int
        Recomputation and the whole backward of any micro-batch but the first.
    first_ns : int
        What the first micro-batch's backward takes more than that; may be below 0.
    input_ns, weight_ns : int
        Recomputation and the part of backward that the unit's input needs; the rest of it.
    saved_bytes : int
        Activations and logits.
    owed_bytes : int
        What stays between the gradients of inputs and those of weights, where they are apart.
    forward_issue_ns, backward_issue_ns, split_issue_ns : int
        What the CPU takes to issue the forward, recomputation and the whole backward, recomputation and both parts.
    """

    forward_ns: int
    backward_ns: int
    first_ns: int
    input_ns: int
    weight_ns: int
    saved_bytes: int
    owed_bytes: int
    forward_issue_ns: int
    backward_issue_ns: int
    split_issue_ns: int


def unit_times(
    unit: Unit, compiler: SegmentCompiler, exchange_ns: ExchangeNs, store: GradientStore, host: HostCosts | None
) -> PassTimes:
    """Return what a unit's passes take at least.

    Parameters
    ----------
    unit : Unit
    compiler : SegmentCompiler
        Prices its ops.
    exchange_ns : callable
        What an exchange takes at least, nanoseconds.
    store : GradientStore
        What keeping a gradient takes.
    host : HostCosts or None
        What the CPU takes to issue an op; None for nothing.

    Returns
    -------
    PassTimes
    """
    none: frozenset[str] = frozenset()
    recompute = compiler.recompute(unit) if unit.recompute else ()
    again, again_issue = pass_ns(recompute, exchange_ns), issue_ns(recompute, "recompute", host)
    first, later = (
        compiler.backward(unit, none, stored_bytes) for stored_bytes in (store.first_bytes, store.later_bytes)
    )
    stored, split = min(store.first_bytes, store.later_bytes), compiler.split(unit)
    forward, inputs = compiler.forward(unit), compiler.input_gradient(unit)
    weights = compiler.weight_gradient(unit, none, stored)
    later_ns = pass_ns(later, exchange_ns)
    return PassTimes(
        forward_ns=pass_ns(forward, exchange_ns),
        backward_ns=again + later_ns,
        first_ns=pass_ns(first, exchange_ns) - later_ns,
        input_ns=again + pass_ns(inputs, exchange_ns),
        weight_ns=pass_ns(weights, exchange_ns),
        saved_bytes=unit.saved_bytes + unit.logits_bytes,
        owed_bytes=min(unit.saved_bytes, split.inputs_bytes) + split.gradients_bytes,
        forward_issue_ns=issue_ns(forward, "forward", host),
        backward_issue_ns=again_issue + min(issue_ns(each, "backward", host) for each in (first, later)),
        split_issue_ns=again_issue + sum(issue_ns(each, "backward", host) for each in (inputs, weights)),
    )


def issue_ns(segments: Iterable[Segment], phase: str, host: HostCosts | None) -> int:
    """Return what the CPU takes to issue the segments of a pass.

    Parameters
    ----------
    segments : iterable of Segment
    phase : str
    host : HostCosts or None

    Examples
    --------
    >>> from simgpu.program import Kernel
    >>> gemm, several = (Kernel(name="k", op_class="gemm", duration_ns=1, launches=n) for n in (1, 3))
    >>> issue_ns([(gemm, several)], "forward", HostCosts(forward_op_ns=100, launch_ns=10))
    220
    """
    if host is None:
        return 0
    op_ns, launch_ns = issue_costs_ns(host, phase)
    transfer_ns, _ = issue_costs_ns(host, phase, communicates=True)
    total = 0
    for segment in segments:
        if isinstance(segment, Exchange):
            total += transfer_ns
        elif not isinstance(segment, Join | GradientReady):
            total += sum(op_ns + (kernel.launches - 1) * launch_ns for kernel in segment if kernel.launches)
    return total


def pass_ns(segments: Iterable[Segment], exchange_ns: ExchangeNs) -> int:
    """Play the segments of a pass on a compute stream and one stream for each axis, with nothing else there.

    Parameters
    ----------
    segments : iterable of Segment
    exchange_ns : callable

    Returns
    -------
    int, nanoseconds
        No pass takes less: whatever else is on the streams only delays it.

    Examples
    --------
    >>> from simgpu.program import Kernel
    >>> gemm = Kernel(name="gemm", op_class="gemm", duration_ns=10)
    >>> hidden = [Exchange(kind="all_reduce", bytes=8, tag="a"), (gemm,), Join(tag="a")]
    >>> pass_ns(hidden, lambda _: 7), pass_ns(hidden, lambda _: 17)
    (10, 17)
    """
    now = 0
    free: dict[str, int] = {}
    ends: dict[str, int] = {}
    for segment in segments:
        if isinstance(segment, Exchange):
            free[segment.axis] = max(now, free.get(segment.axis, 0)) + exchange_ns(segment)
            ends[segment.tag] = free[segment.axis]
        elif isinstance(segment, Join):
            now = max(now, ends.pop(segment.tag, 0))
        elif not isinstance(segment, GradientReady):
            now += sum(kernel.duration_ns for kernel in segment)
    return now
