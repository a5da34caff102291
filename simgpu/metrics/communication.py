"""What was communicated: how often, how much, how fast, from where to where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simgpu.metrics.instruction_table import TRANSFER, instruction_table
from simgpu.metrics.limit import link_use
from simgpu.metrics.report import TransferReport
from simgpu.program import Collective, Instruction, Role, Send, TransferKey
from simgpu.timeline import Int64, Timeline, reported

RING_SHARES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1}
"""busbw = share x (n-1)/n x size / time; size / time for everything else (nccl-tests doc/PERFORMANCE.md)."""


def bus_bandwidth(kind: str, members: int, size_bytes: int, time_ns: float) -> float:
    """Bus bandwidth as nccl-tests prints it, bytes per second.

    Examples
    --------
    >>> bus_bandwidth("all_reduce", 8, 8_000_000, 70_000) / 1e9
    200.0
    """
    factor = RING_SHARES[kind] * (members - 1) / members if kind in RING_SHARES else 1.0
    return factor * size_bytes / time_ns * 1e9 if time_ns else 0.0


def transfer_reports(timeline: Timeline) -> Iterator[TransferReport]:
    """One row per rank (class), communicator, kind and size, in order of first use within the reported step."""
    program = timeline.program
    limits = _limiting_links(timeline)
    step = timeline.derived(reported)
    calls = step.derived(step_calls)
    length = step.spans.end_ns[calls.row] - step.spans.start_ns[calls.row]
    pair = step.spans.rank[calls.row] * len(calls.listed) + calls.which
    counts = np.bincount(pair)
    times = np.bincount(pair, weights=length)
    first = np.zeros(len(counts), np.int64)
    first[pair[::-1]] = np.arange(len(pair))[::-1]  # of several, the last that is written stays
    used = np.flatnonzero(counts)
    for number in used[np.argsort(first[used])].tolist():
        rank, which = divmod(number, len(calls.listed))
        communicator, key = calls.listed[which]
        count, total_ns = int(counts[number]), int(times[number])
        group = program.ranks[rank].groups[communicator]
        cost = program.transfers[group, key]
        mean = total_ns / count
        held = limits.get((group, key))
        yield TransferReport(
            rank=program.ranks[rank].members[0],
            axis=program.communicators[communicator].axis,
            kind=key.kind,
            bytes=key.bytes,
            count=count,
            mean_ns=mean,
            busbw_bytes_per_s=bus_bandwidth(key.kind, len(program.groups[group].members), key.bytes, mean),
            latency_share=cost.latency_ns / mean if mean else 0.0,
            crosses_network=any(program.links[load.link].kind == "network" for load in cost.loads),
            algorithm=cost.algorithm,
            source=cost.source,
            bottleneck=cost.bottleneck if held is None else program.links[held].name,
            link_use=link_use(cost, program.links) if held is None else 1.0,
        )


def _limiting_links(timeline: Timeline) -> dict[tuple[int, TransferKey], int]:
    """Link that held each transfer for the longest time; only those held for most of their streaming time."""
    flows = timeline.flows
    ever = np.zeros(int(flows.transfer.max(initial=-1)) + 1, np.bool_)  # held by a link at all
    ever[flows.transfer[flows.limit >= 0]] = True
    chosen = np.flatnonzero(ever[flows.transfer])
    width = int(flows.limit.max(initial=0)) + 2
    pairs, group = np.unique(flows.transfer[chosen] * width + flows.limit[chosen] + 1, return_inverse=True)
    held_ns = np.zeros(len(pairs), np.int64)
    np.add.at(held_ns, group, flows.end_ns[chosen] - flows.start_ns[chosen])
    times: dict[int, dict[int, int]] = {}
    for pair, held in zip(pairs.tolist(), held_ns.tolist(), strict=True):
        times.setdefault(pair // width, {})[pair % width - 1] = held
    found = {}
    for transfer, by_link in times.items():
        longest = max(sorted(by_link), key=lambda link: by_link[link])
        if longest >= 0:
            found[timeline.transfers[transfer]] = longest
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calls:
    """The transfers that began within the step, in the order of the spans; of a message only the side that sends.

    Parameters
    ----------
    row : (n,) int64
        Span of the reported Timeline.
    which : (n,) int64
        Index into ``listed``.
    listed : list of (str, TransferKey)
        Communicator and transfer.
    """

    row: Int64
    which: Int64
    listed: list[tuple[str, TransferKey]]


def step_calls(step: Timeline) -> Calls:
    """Find the transfers of a reported Timeline's step.

    Parameters
    ----------
    step : Timeline

    Returns
    -------
    Calls
    """
    program, spans = step.program, step.spans
    begin, end = step.window_ns
    table = step.derived(instruction_table)
    inside = np.flatnonzero((spans.start_ns >= begin) & (spans.start_ns < end))
    number = table.number[inside]
    moves = np.flatnonzero(table.kind[number] == TRANSFER)
    row, count = inside[moves], len(table.items)
    role = np.array([rank.role for rank in program.ranks], np.int64)
    keys, which = np.unique(role[spans.rank[row]] * count + number[moves], return_inverse=True)
    numbers: dict[_Call, int] = {}
    found = []
    for key in keys.tolist():
        call = _call(program.roles[key // count], table.items[key % count])
        found.append(-1 if call is None else numbers.setdefault(call, len(numbers)))
    called = np.array(found, np.int64)[which]
    listed = [(name, TransferKey(kind=kind, bytes=size, source=a, target=b)) for name, kind, size, a, b in numbers]
    return Calls(row=row[called >= 0], which=called[called >= 0], listed=listed)


_Call = tuple[str, str, int, int, int]  # communicator, and the fields of a TransferKey


def _call(own: Role, work: Instruction) -> _Call | None:
    if isinstance(work, Send):
        return work.communicator, "send_recv", work.bytes, own.position[work.communicator], work.peer
    if isinstance(work, Collective):
        return work.communicator, work.kind, work.bytes, -1, -1
    return None
