"""Say who waits for whom when the event list ran dry with work left."""

from __future__ import annotations

from collections.abc import Sequence

from simgpu.engine.host import HostThread
from simgpu.engine.queue import LaunchQueue
from simgpu.engine.rendezvous import Meeting
from simgpu.engine.stream import StreamProcess
from simgpu.program import Collective, Program, Record, Recv, Send, Wait

Node = tuple[int, str]  # rank, stream
Process = StreamProcess | HostThread


def describe_deadlock(program: Program, processes: Sequence[Process]) -> str:
    """Name the wait-for cycle, or the chain that ends in a stream without work left, one line per waiting stream."""
    by_node = {(p.rank, p.name): p for p in processes}
    stuck = [p for p in processes if not p.done]
    edges = {(p.rank, p.name): _blocker(program, processes, p) for p in stuck}
    path = _cycle(edges) or _chain(edges)
    lines = [_line(by_node[node], edges[node]) for node in path if node in edges]
    head = f"deadlock: {len(stuck)} of {len(processes)} streams wait for ever"
    tail = "" if _cycle(edges) else "; the last of them has no work left"
    return head + "\n" + "\n".join(lines) + tail


def _blocker(program: Program, processes: Sequence[Process], process: Process) -> Node:
    waiting = process.waiting
    if isinstance(waiting, LaunchQueue) and isinstance(process, StreamProcess):
        return next((p.rank, p.name) for p in processes if isinstance(p, HostThread) and waiting in p.queues)
    if isinstance(waiting, LaunchQueue):
        return next((p.rank, p.name) for p in processes if isinstance(p, StreamProcess) and p.queue is waiting)
    if isinstance(waiting, Meeting):
        missing = next(rank for rank in waiting.side.channel.parties if rank not in waiting.arrived)
        return missing, _stream_of(program, missing, waiting)
    event = waiting.event if isinstance(waiting, Wait) else -1
    streams = program.roles[program.ranks[process.rank].role].streams
    for name, instructions in streams.items():
        if any(isinstance(i, Record) and i.event == event for i in instructions):
            return process.rank, name
    return process.rank, f"(no stream records event {event})"


def _stream_of(program: Program, rank: int, meeting: Meeting) -> str:
    communicator = program.groups[meeting.side.channel.group].communicator
    role = program.roles[program.ranks[rank].role]
    for name, instructions in role.streams.items():
        for instruction in instructions:
            if isinstance(instruction, Collective) and meeting.side.key.source < 0:
                if instruction.communicator == communicator:
                    return name
            elif isinstance(instruction, Send | Recv) and instruction.communicator == communicator:
                peer = meeting.side.key.target if isinstance(instruction, Send) else meeting.side.key.source
                own = meeting.side.key.source if isinstance(instruction, Send) else meeting.side.key.target
                if instruction.peer == peer and role.position[communicator] == own:
                    return name
    return "(no such stream)"


def _cycle(edges: dict[Node, Node]) -> list[Node]:
    for start in edges:
        path, node = [start], edges[start]
        while node in edges and node not in path:
            path.append(node)
            node = edges[node]
        if node in path:
            return path[path.index(node) :]
    return []


def _chain(edges: dict[Node, Node]) -> list[Node]:
    path, node = [], next(iter(edges))
    while node in edges and node not in path:
        path.append(node)
        node = edges[node]
    return path


def _line(process: Process, blocker: Node) -> str:
    waiting = process.waiting
    if isinstance(waiting, Meeting):
        what = f"{waiting.side.label} of {waiting.side.key.bytes} bytes with rank {blocker[0]}, stream {blocker[1]}"
    elif isinstance(waiting, LaunchQueue) and isinstance(process, StreamProcess):
        what = f"the CPU to issue its next instruction (rank {blocker[0]}, stream {blocker[1]})"
    elif isinstance(waiting, LaunchQueue):
        what = f"room in the launch queue of rank {blocker[0]}, stream {blocker[1]}"
    else:
        what = f"its own stream {blocker[1]}"
    return f"  rank {process.rank}, stream {process.name} waits for {what}"
