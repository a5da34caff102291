"""A Program: what every rank does, in order, on each of its streams. Data only, no clock.

Ranks with the same instructions share a *role*. Instructions name communicators, never ranks; a rank's binding
says which group of each communicator it belongs to. That is what makes a Program small at any scale and foldable:
a folded Program has the same type, its ranks stand for several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

COMPUTE = "compute"
HOST = "host"
"""The stream of CPU time; also the communicator whose groups list the ranks that one CPU thread issues for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One op on a compute stream, priced. ``launches`` says how many kernels the CPU launches for it."""

    name: str
    op_class: str  # gemm | attention | memory_bound | recompute | optimizer
    duration_ns: int
    flops: int = 0
    bytes: int = 0
    launches: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """Consecutive kernels of one stream: one event for the engine, kernels again for a view that asks."""

    name: str
    kernels: tuple[Kernel, ...]
    duration_ns: int
    phase: str  # forward | backward | recompute | optimizer
    microbatch: int = -1
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """Starts when every member's stream has reached it and ends for all together.

    ``bytes`` is the payload of the whole collective, as NCCL counts it: the full tensor of an all-reduce, the
    output of an all-gather, the input of a reduce-scatter.
    """

    name: str
    communicator: str
    kind: str
    bytes: int
    phase: str = ""
    microbatch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Starts when the receiver has arrived too. ``peer`` is a position in the rank's group of ``communicator``."""

    name: str
    communicator: str
    peer: int
    bytes: int
    tag: str
    phase: str = ""
    microbatch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recv:
    """The other side of a Send with the same tag."""

    name: str
    communicator: str
    peer: int
    bytes: int
    tag: str
    phase: str = ""
    microbatch: int = -1


@dataclass(frozen=True, slots=True)
class Record:
    """Mark a point of this stream; event numbers belong to one rank and one step."""

    event: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Hold this stream until the event was recorded on another stream of the rank."""

    event: int


@dataclass(frozen=True, slots=True)
class Alloc:
    """Take memory; takes no time."""

    bytes: int
    category: str


@dataclass(frozen=True, slots=True)
class Free:
    """Give memory back; takes no time."""

    bytes: int
    category: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """The CPU issues an instruction of another stream, which starts no earlier; stands on a host stream.

    A host stream is a thread of the CPU: in order, ahead of the GPU, and it may wait for events of other streams as
    they may (``Wait`` there is a synchronisation). A stream whose instructions nobody issues needs no CPU.

    Parameters
    ----------
    stream : str
        The stream of the instruction.
    instruction : int
        Its position there: a Compute, Collective, Send or Recv.
    op_ns : int, nanoseconds
        CPU time up to the first launch of each kernel's op; of the whole, when a communication is issued.
    launch_ns : int, nanoseconds
        CPU time of each further launch of the same op.
    member : int
        -1 when the stream is the rank's own. Else one thread issues for several ranks (Python's threads under one
        interpreter lock): the position of the stream's rank in this rank's group of the communicator HOST.
    """

    stream: str
    instruction: int
    op_ns: int
    launch_ns: int
    member: int = -1


Instruction = Compute | Collective | Send | Recv | Record | Wait | Alloc | Free | Issue


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What ranks of one kind do in one step."""

    name: str
    stages: tuple[int, ...]
    position: Mapping[str, int]  # communicator -> position within the group, for Send and Recv
    streams: Mapping[str, Sequence[Instruction]]  # the compute stream is named COMPUTE; tuples or Scripts
    resident_bytes: Mapping[str, int]  # memory category -> bytes held from before the first step
    capacity_bytes: int  # memory of the device
    device: str
    host_bytes: Mapping[str, int] = field(default_factory=dict)  # category -> bytes of host memory held all the time


@dataclass(frozen=True, slots=True, kw_only=True)
class Communicator:
    """A kind of group. ``axis`` is the accounting class of its transfers.

    A wait for a late member is a *bubble* when ``spans_stages``, a *straggler* otherwise.
    """

    name: str
    axis: str  # tp | cp | ep | pp | dp | host
    spans_stages: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One communicator instance. ``members[i]`` is the (index of the) rank at position i.

    In a folded Program members are classes, and a class may stand at several positions.
    """

    communicator: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A rank, or in a folded Program a class of ranks that ``members`` lists."""

    role: int
    groups: Mapping[str, int]  # communicator -> index into Program.groups
    members: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A directed link that transfers may share."""

    name: str
    kind: str
    bytes_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """``count`` transfers of this class put ``bytes`` each on the link (count is 1 unless folded)."""

    link: int
    bytes: int
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Disturbance:
    """What a resident communication kernel takes from its GPU: multiprocessors (one per CTA) and memory bandwidth."""

    ctas: int
    hbm_bytes_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferCost:
    """A latency and a load on links (DESIGN section 3).

    Parameters
    ----------
    latency_ns : int
        Time before the first byte moves at full rate; uses no bandwidth.
    stream_ns : int
        Time to move the bytes when nothing else is on its links: the transfer's own top speed.
    loads : sequence of Load
        Bytes on every directed link used, sorted by link.
    algorithm : str
        ``ring``, ``tree``, ``nvls``, ``p2p``, ... for people.
    source : str
        Where the duration comes from: ``measured``, ``constructed`` or ``free``.
    bottleneck : str
        Name of the link that limits it alone, or empty.
    disturbance : int
        Index into Program.disturbances, -1 for none.
    spinning : int
        The same while the kernel waits for its partners: it holds its multiprocessors and moves nothing. -1 where it
        disturbs as much as later.
    protocol : str
        NCCL's ``LL``, ``LL128`` or ``Simple``, for people; empty where that is no question.
    """

    latency_ns: int
    stream_ns: int
    loads: Sequence[Load] = ()
    algorithm: str = ""
    source: str = ""
    bottleneck: str = ""
    disturbance: int = -1
    spinning: int = -1
    protocol: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TransferKey:
    """What is moved within a group; ``source`` and ``target`` are positions, -1 for collectives."""

    kind: str
    bytes: int
    source: int = -1
    target: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Roles, the ranks that play them, their groups, and the price of every transfer.

    ``disturbances`` are sorted, worst last; ``disturbed_ns`` has the duration of each kernel under each of them.
    Kernels that are not listed feel none.
    """

    roles: tuple[Role, ...]
    ranks: Sequence[Rank]
    groups: Sequence[Group]
    communicators: Mapping[str, Communicator]
    links: Sequence[Link]
    transfers: Mapping[tuple[int, TransferKey], TransferCost]  # (group index, key)
    disturbances: tuple[Disturbance, ...] = ()
    disturbed_ns: Mapping[Kernel, tuple[int, ...]] = field(default_factory=dict)

    @property
    def world_size(self) -> int:
        """Ranks, counting every member of a class."""
        return sum(rank.count for rank in self.ranks)
