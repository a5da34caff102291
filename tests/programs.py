"""Small Programs written by hand, for tests of the engine, the fold and metrics."""

from simgpu.program import (
    COMPUTE,
    HOST,
    Collective,
    Communicator,
    Compute,
    Group,
    Issue,
    Kernel,
    Link,
    Load,
    Program,
    Rank,
    Recv,
    Role,
    Send,
    TransferCost,
    TransferKey,
)

GIB = 1 << 30


def work(duration_ns, op_class="gemm", name="work", phase="forward", microbatch=-1):
    return Compute(
        name=name,
        kernels=(Kernel(name=name, op_class=op_class, duration_ns=duration_ns),),
        duration_ns=duration_ns,
        phase=phase,
        microbatch=microbatch,
    )


def works(*durations_ns, launches=1, name="work"):
    """Build a run of kernels of these durations."""
    kernels = tuple(
        Kernel(name=name, op_class="gemm", duration_ns=duration, launches=launches) for duration in durations_ns
    )
    return Compute(name=name, kernels=kernels, duration_ns=sum(durations_ns), phase="forward")


def hosted(streams, op_ns, launch_ns=None, *, order=None):
    """Add a host stream that issues everything on the others, in an order of (stream, instruction)."""
    issued = [
        (stream, index)
        for stream, items in streams.items()
        for index, item in enumerate(items)
        if isinstance(item, Compute | Collective | Send | Recv)
    ]
    return {**streams, HOST: [issue(*at, op_ns, launch_ns) for at in order or issued]}


def issue(stream, instruction, op_ns, launch_ns=None, *, member=-1):
    launch_ns = op_ns if launch_ns is None else launch_ns
    return Issue(stream=stream, instruction=instruction, op_ns=op_ns, launch_ns=launch_ns, member=member)


def all_reduce(size_bytes, communicator="dp"):
    return Collective(name="all_reduce", communicator=communicator, kind="all_reduce", bytes=size_bytes)


def send(peer, size_bytes, tag="x"):
    return Send(name=f"send {tag}", communicator="pp", peer=peer, bytes=size_bytes, tag=tag)


def recv(peer, size_bytes, tag="x"):
    return Recv(name=f"recv {tag}", communicator="pp", peer=peer, bytes=size_bytes, tag=tag)


def role(streams, *, stage=0, resident=None):
    return Role(
        name=f"stage {stage}",
        stages=(stage,),
        position={"pp": stage},
        streams={COMPUTE: (), **{name: tuple(items) for name, items in streams.items()}},
        resident_bytes=resident or {},
        capacity_bytes=GIB,
        device="test",
    )


def program(roles, role_of_rank, groups, transfers, links=()):
    """Build a Program.

    groups: list of (communicator, members); transfers: {(group, TransferKey): TransferCost};
    links: capacities in bytes per second.
    """
    bindings = [{} for _ in role_of_rank]
    for index, (communicator, members) in enumerate(groups):
        for rank in members:
            bindings[rank][communicator] = index
    names = {communicator for communicator, _ in groups}
    return Program(
        roles=tuple(roles),
        ranks=tuple(
            Rank(role=number, groups=bindings[rank], members=(rank,)) for rank, number in enumerate(role_of_rank)
        ),
        groups=tuple(Group(communicator=name, members=tuple(members)) for name, members in groups),
        communicators={
            name: Communicator(name=name, axis=name if name != "norm" else "pp", spans_stages=name in ("pp", "norm"))
            for name in sorted(names)
        },
        links=tuple(Link(name=f"link {i}", kind="test", bytes_per_s=rate) for i, rate in enumerate(links)),
        transfers=transfers,
    )


def cost(latency_ns, stream_ns, loads=()):
    return TransferCost(
        latency_ns=latency_ns,
        stream_ns=stream_ns,
        loads=tuple(Load(link=link, bytes=size) for link, size in loads),
        algorithm="test",
    )


def reduce_key(size_bytes):
    return TransferKey(kind="all_reduce", bytes=size_bytes)


def message_key(source, target, size_bytes):
    return TransferKey(kind="send_recv", bytes=size_bytes, source=source, target=target)
