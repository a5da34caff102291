"""A step as a profiler would record it: kernels, copies and communication of one rank, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from simgpu.program import COMPUTE, HOST, Collective, Compute, Recv, Send
from simgpu.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One stretch of one stream, nanoseconds since the step began.

    Parameters
    ----------
    stream : str
        ``compute``, ``dp``, ``pp send to 1``, ...
    start_ns, end_ns : int
        Of the kernel; of a communication, while its bytes move.
    ready_ns : int
        When the stream had come to it. A communication that waits for its partners spins from then on.
    launched_ns : int
        When the CPU launched it, where the stream had to wait for that. Otherwise it was some time before, and this
        is when the stream began what came before it.
    kind : str
        ``kernel``, ``copy`` (on the GPU, beside a transfer), ``collective``, ``send`` or ``recv``.
    name, op_class, phase : str
        As in the Program; ``op_class`` is empty for communication.
    microbatch : int
        -1 when there is none.
    unit : str
        Part of the model, such as ``block 3``.
    flops, bytes : int
        Of a kernel; ``bytes`` of a communication is its payload.
    collective : str
        ``all_reduce``, ...; empty for anything else.
    communicator : str
        Kind of group, such as ``tp``; empty for kernels.
    group, sequence : int
        Which group, and the how-manieth operation of that group on this stream; -1 for kernels.
    peer : int
        Position of the other side of a send or recv in the group, -1 otherwise.
    tag : str
        The same on a send and its recv.
    """

    stream: str
    start_ns: int
    end_ns: int
    ready_ns: int
    launched_ns: int
    kind: str
    name: str
    op_class: str = ""
    phase: str = ""
    microbatch: int = -1
    unit: str = ""
    flops: int = 0
    bytes: int = 0
    collective: str = ""
    communicator: str = ""
    group: int = -1
    sequence: int = -1
    peer: int = -1
    tag: str = ""


def trace_slices(timeline: Timeline, rank: int) -> Iterator[Slice]:
    """Yield what one rank did in the reported step, stream by stream, in order.

    Kernels take the times that the engine gave them, also where communication slowed them down. What lies across an
    end of the step is cut there.

    Parameters
    ----------
    timeline : Timeline
    rank : int
        Row of ``Program.ranks``.

    Yields
    ------
    Slice
    """
    role = timeline.program.roles[timeline.program.ranks[rank].role]
    streams = [COMPUTE, *(name for name in role.streams if name not in (COMPUTE, HOST))]
    begin, end = timeline.window_ns
    for stream in streams:
        yield from _of_stream(timeline, rank, stream, begin, end)


def _of_stream(timeline: Timeline, rank: int, stream: str, begin: int, end: int) -> Iterator[Slice]:
    spans = timeline.spans
    groups = timeline.program.ranks[rank].groups
    number = timeline.streams.index(stream)
    counted: Counter[int] = Counter()
    before = begin  # when the stream began its last kernel or transfer
    for row in timeline.rows(rank, stream):
        work = timeline.instruction(row)
        start, stop = int(spans.start_ns[row]), int(spans.end_ns[row])
        if stop <= begin or start >= end:
            continue
        ready, issued = int(spans.ready_ns[row]), int(spans.issued_ns[row])
        launched = issued if issued > ready else before
        if isinstance(work, Compute):
            key = (rank, number, int(spans.instruction[row]), int(spans.step[row]))
            kind = "kernel" if stream == COMPUTE else "copy"
            for piece in _kernels(timeline, work, key, start, launched, stream, kind):
                before = piece.start_ns
                if (cut := _cut(piece, begin, end)) is not None:
                    yield cut
        elif isinstance(work, Collective | Send | Recv):
            group = groups[work.communicator]
            piece = Slice(
                stream=stream,
                start_ns=start,
                end_ns=stop,
                ready_ns=min(issued, start),
                launched_ns=min(launched, start),
                kind=type(work).__name__.lower(),
                name=work.name,
                phase=work.phase,
                microbatch=work.microbatch,
                bytes=work.bytes,
                collective=work.kind if isinstance(work, Collective) else "",
                communicator=work.communicator,
                group=group,
                sequence=counted[group],
                peer=-1 if isinstance(work, Collective) else work.peer,
                tag="" if isinstance(work, Collective) else work.tag,
            )
            counted[group] += 1
            before = start
            if (cut := _cut(piece, begin, end)) is not None:
                yield cut


def _kernels(
    timeline: Timeline,
    work: Compute,
    key: tuple[int, int, int, int],
    start: int,
    launched: int,
    stream: str,
    kind: str,
) -> Iterator[Slice]:
    """Split a run into its kernels; one that the CPU held up was launched just as it began."""
    ends, holds = timeline.kernel_ends_ns.get(key), timeline.kernel_holds_ns.get(key)
    free = start
    for position, kernel in enumerate(work.kernels):
        end = free + kernel.duration_ns if ends is None else start + ends[position]
        held = 0 if holds is None else holds[position]
        begins = free + held
        if end > begins:
            yield Slice(
                stream=stream,
                start_ns=begins,
                end_ns=end,
                ready_ns=begins,
                launched_ns=begins if held else launched,
                kind=kind,
                name=kernel.name,
                op_class=kernel.op_class,
                phase=work.phase,
                microbatch=work.microbatch,
                unit=work.unit,
                flops=kernel.flops,
                bytes=kernel.bytes,
            )
            launched = begins
        free = end


def _cut(piece: Slice, begin: int, end: int) -> Slice | None:
    """Move a slice to the step's own time and cut what lies outside; None when nothing is left."""
    start, stop = max(piece.start_ns, begin), min(piece.end_ns, end)
    if stop <= start:
        return None
    values = {name: getattr(piece, name) for name in piece.__slots__}
    values |= {"start_ns": start - begin, "end_ns": stop - begin}
    values |= {name: max(getattr(piece, name), begin) - begin for name in ("ready_ns", "launched_ns")}
    return Slice(**values)
