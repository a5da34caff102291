"""Work with the host's memory: gradients down, weights up, and the CPU's or the SSD's share of the optimizer step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from simgpu.costs.host_copy import PAGEABLE, READ, TO_GPU, TO_HOST, UPDATE, WRITE
from simgpu.lower.emitter import Emitter
from simgpu.parallel.data_parallel import DataParallelPlan, Reduction, ShardGroup
from simgpu.parallel.data_parallel.buckets import split_elements
from simgpu.parallel.data_parallel.offload import SUB_GROUP_ELEMENTS, HostOffload
from simgpu.program import Collective

CPU: Final = "cpu"
HOST_STREAMS: Final = (TO_GPU, TO_HOST, CPU, READ, WRITE)
"""Streams, and communicators of one rank each, of work with the host; waits for them are of class host."""


def gradients_to_host(
    emitter: Emitter, plan: DataParallelPlan, reduction: Reduction, *, after: int, microbatch: int
) -> int | None:
    """Send a reduced shard to the host; return the event of its arrival, None when gradients stay on the GPU.

    Parameters
    ----------
    emitter : Emitter
    plan : DataParallelPlan
    reduction : Reduction
        What was reduced; this rank's part goes.
    after : int
        Event of its end.
    microbatch : int
    """
    offload = plan.offload
    if offload is None or not offload.gradient_bytes:
        return None
    size = reduction.kept_elements * offload.gradient_bytes
    if offload.summed_on_gpu and plan.reduce_every_microbatch and microbatch > 0:
        after = _copy(emitter, TO_GPU, "fetch summed gradients", size, offload.pinned_states, after, microbatch)
    return _copy(emitter, TO_HOST, "gradients to host", size, offload.pinned_states, after, microbatch)


def fetch_shard(
    emitter: Emitter,
    plan: DataParallelPlan,
    group: ShardGroup,
    name: str,
    *,
    after: Sequence[int],
    phase: str,
    microbatch: int,
) -> int | None:
    """Bring this rank's shard of a group's weights to the GPU; return the event of its arrival, None when it is there.

    Parameters
    ----------
    emitter : Emitter
    plan : DataParallelPlan
    group : ShardGroup
    name : str
        The group's, for people.
    after : sequence of int
        Events that the gather of the group waits for too.
    phase : str
    microbatch : int
    """
    offload = plan.offload
    if offload is None or not offload.fetched_bytes:
        return None
    size = group.shard_elements * offload.fetched_bytes
    stream = READ if offload.weights_on_ssd else TO_GPU
    for event in after:
        emitter.wait(event, stream)
    ready = None
    if offload.weights_on_ssd:
        ready = emitter.transfer(READ, _work(READ, READ, f"read {name}", size, phase, microbatch), after=None)
    return _copy(emitter, TO_GPU, f"fetch {name}", size, offload.pinned_weights, ready, microbatch, phase)


def host_step(emitter: Emitter, plans: Sequence[DataParallelPlan]) -> None:
    """Write the optimizer step of the stages whose states are on the host, and wait for the weights that return.

    Sub-groups follow each other: read from the SSD, update, write back. A read may run beside the update before it
    only when it is pipelined, a write beside the update after it likewise.
    """
    emitter.synchronize()
    for plan in plans:
        offload = plan.offload
        if offload is None or not offload.update_elements:
            continue
        updated = free = emitter.record()
        for elements in split_elements(offload.update_elements, SUB_GROUP_ELEMENTS):
            ready = free
            if offload.swapped_bytes:
                read = _work(READ, READ, "read states", elements * offload.swapped_bytes)
                ready = emitter.transfer(READ, read, after=None if offload.pipelined_read else free)
            update = _work(CPU, UPDATE, "update on the CPU", elements * offload.update_bytes)
            updated = free = emitter.transfer(CPU, update, after=ready)
            if offload.written_bytes:
                write = _work(WRITE, WRITE, "write states", elements * offload.written_bytes)
                written = emitter.transfer(WRITE, write, after=updated)
                free = updated if offload.pipelined_write else written
        emitter.synchronize(CPU)
        if offload.returned_bytes:
            size, pinned = offload.returned_bytes, offload.pinned_states
            updated = _copy(emitter, TO_GPU, "updated weights to GPU", size, pinned, updated, -1, "optimizer")
        emitter.wait(free)
        emitter.wait(updated)
        _write_weights(emitter, offload, updated)


def store_weights(emitter: Emitter, plans: Sequence[DataParallelPlan]) -> None:
    """Send weights that the GPU has updated to where they are kept."""
    for plan in plans:
        offload = plan.offload
        if offload is not None and offload.stored_bytes:
            size, pinned = offload.stored_bytes, offload.pinned_weights
            end = _copy(emitter, TO_HOST, "weights to host", size, pinned, emitter.record(), -1, "optimizer")
            emitter.wait(end)
            _write_weights(emitter, offload, end)


def host_bytes(plans: Sequence[DataParallelPlan]) -> dict[str, int]:
    """Return the host memory of a rank by category.

    Examples
    --------
    >>> host_bytes([])
    {}
    """
    total: dict[str, int] = {}
    for plan in plans:
        for name, size in (plan.offload.host_bytes if plan.offload is not None else {}).items():
            total[name] = total.get(name, 0) + size
    return total


def _write_weights(emitter: Emitter, offload: HostOffload, after: int) -> None:
    size = offload.stored_bytes or offload.update_elements * offload.fetched_bytes
    if offload.weights_on_ssd and size:
        emitter.wait(emitter.transfer(WRITE, _work(WRITE, WRITE, "write weights", size), after=after))


def _copy(
    emitter: Emitter,
    kind: str,
    name: str,
    size_bytes: int,
    pinned: bool,
    after: int | None,
    microbatch: int,
    phase: str = "backward",
) -> int:
    """Queue a copy on the stream of its direction; from or to pageable memory the CPU waits for it."""
    work = _work(kind, kind if pinned else kind + PAGEABLE, name, size_bytes, phase, microbatch)
    end = emitter.transfer(kind, work, after=after)
    if not pinned:
        emitter.synchronize(kind)
    return end


def _work(
    stream: str, kind: str, name: str, size_bytes: int, phase: str = "optimizer", microbatch: int = -1
) -> Collective:
    return Collective(name=name, communicator=stream, kind=kind, bytes=size_bytes, phase=phase, microbatch=microbatch)
