"""A list scheduler without SimPy: every stream as far as it can go, again and again. Fixed durations only."""

from simgpu.program import Collective, Compute, Record, Recv, Send, TransferKey, Wait


def schedule(program, steps):
    """Spans {(rank, stream): [(ready, start, end), ...]} of instructions that take part in time."""
    position = {(r, s): [0, 0, 0] for r, rank in enumerate(program.ranks) for s in program.roles[rank.role].streams}
    events, arrivals, found, counts = {}, {}, {key: [] for key in position}, {}
    moved = True
    while moved:
        moved = False
        for (rank, stream), state in position.items():
            role = program.roles[program.ranks[rank].role]
            instructions = role.streams[stream]
            while state[0] < steps and instructions:
                step, index, now = state
                item = instructions[index]
                if isinstance(item, Compute):
                    found[rank, stream].append((now, now, now + item.duration_ns))
                    now += item.duration_ns
                elif isinstance(item, Record):
                    events[rank, step, item.event] = now
                elif isinstance(item, Wait):
                    time = events.get((rank, step, item.event))
                    if time is None:
                        break
                    if time > now:
                        found[rank, stream].append((now, now, time))
                    now = max(now, time)
                elif isinstance(item, Collective | Send | Recv):
                    group = program.ranks[rank].groups[item.communicator]
                    members = program.groups[group].members
                    if isinstance(item, Collective):
                        key, parties = TransferKey(kind=item.kind, bytes=item.bytes), set(members)
                        counts.setdefault(
                            (group, rank, stream, step, index),
                            len([c for c in counts if c[:3] == (group, rank, stream)]),
                        )
                        name = (group, counts[group, rank, stream, step, index])
                    else:
                        own = role.position[item.communicator]
                        ends = (own, item.peer) if isinstance(item, Send) else (item.peer, own)
                        key = TransferKey(kind="send_recv", bytes=item.bytes, source=ends[0], target=ends[1])
                        parties, name = {members[end] for end in ends}, (group, *ends, item.tag, step)
                    arrived = arrivals.setdefault(name, {})
                    arrived[rank] = now
                    if set(arrived) != parties:
                        break
                    cost, start = program.transfers[group, key], max(arrived.values())
                    end = start + cost.latency_ns + cost.stream_ns
                    found[rank, stream].append((now, start, end))
                    now = end
                moved = True
                state[2] = now
                state[1] += 1
                if state[1] == len(instructions):
                    state[0], state[1] = step + 1, 0
    return found
