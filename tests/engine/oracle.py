"""A list scheduler without SimPy: every stream as far as it can go, again and again. Fixed durations only."""

from simgpu.program import HOST, Collective, Compute, Issue, Record, Recv, Send, TransferKey, Wait


def schedule(program, steps, queue_depth=1024):
    """Spans {(rank, stream): [(ready, start, end), ...]} of instructions that take part in time; none of the host's.

    A host stream issues one launch after another; launches of an op share its time evenly (exact for one or two). It
    begins with an instruction when fewer than ``queue_depth`` launches were issued to that stream after the last
    instruction known to have ended; a single instruction counts as fewer.
    """
    launched, sizes, over = {}, {}, {}  # by (rank, stream): {(step, index): times}, [launches], [end]
    hosted = set()
    for r, rank in enumerate(program.ranks):
        for items in program.roles[rank.role].streams.values():
            for item in items:
                if isinstance(item, Issue):
                    hosted.add((target(program, r, item), item.stream, item.instruction))
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
                on_host = (rank, stream, index) in hosted
                times = launched.get((rank, stream), {}).get((step, index))
                if on_host and times is None:
                    break
                if isinstance(item, Issue):
                    goal = target(program, rank, item), item.stream
                    work = program.roles[program.ranks[goal[0]].role].streams[goal[1]][item.instruction]
                    issued, behind = sizes.setdefault(goal, []), 0
                    needed = len(issued) - 1
                    while needed >= 0 and behind + issued[needed] < queue_depth:
                        behind += issued[needed]
                        needed -= 1
                    if needed >= len(over.setdefault(goal, [])):
                        break
                    now = max([now, *over[goal][needed : needed + 1 if needed >= 0 else 0]])
                    times, launches = [], [k.launches for k in work.kernels] if isinstance(work, Compute) else [1]
                    for count in launches:
                        for launch in range(count):
                            now += item.launch_ns if launch else item.op_ns
                            times.append(now)
                    issued.append(min(sum(launches), queue_depth - 1))
                    launched.setdefault(goal, {})[step, item.instruction] = times
                elif isinstance(item, Compute) and on_host:
                    ready, begin, queue = now, None, list(times)
                    for kernel in item.kernels:
                        for launch in range(kernel.launches):
                            now = max(now, queue.pop(0))
                            begin = now if begin is None else begin
                            share = kernel.duration_ns * (kernel.launches - 1) // kernel.launches
                            now += kernel.duration_ns - share if launch == kernel.launches - 1 else share
                    found[rank, stream].append((ready, begin, now))
                elif isinstance(item, Compute):
                    found[rank, stream].append((now, now, now + item.duration_ns))
                    now += item.duration_ns
                elif isinstance(item, Record):
                    events[rank, step, item.event] = now
                elif isinstance(item, Wait):
                    time = events.get((rank, step, item.event))
                    if time is None:
                        break
                    if time > now and stream != HOST:
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
                    arrived[rank] = max([now, *(times or ())])
                    if set(arrived) != parties:
                        break
                    cost, start = program.transfers[group, key], max(arrived.values())
                    end = start + cost.latency_ns + cost.stream_ns
                    found[rank, stream].append((now, start, end))
                    now = end
                moved = True
                if on_host:
                    over.setdefault((rank, stream), []).append(now)
                state[2] = now
                state[1] += 1
                if state[1] == len(instructions):
                    state[0], state[1] = step + 1, 0
    return found


def target(program, rank, issue):
    """Index of the rank that an Issue is for."""
    if issue.member < 0:
        return rank
    return program.groups[program.ranks[rank].groups[HOST]].members[issue.member]
