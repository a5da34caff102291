"""Ring collectives."""

from __future__ import annotations

from simgpu.costs.collectives.duration import ring_ns
from simgpu.costs.collectives.graph import graph_of
from simgpu.costs.collectives.knee import measured_row
from simgpu.costs.collectives.load import inside_nodes, slowest_link, transfer
from simgpu.costs.collectives.request import Request
from simgpu.costs.collectives.rings import rings_of
from simgpu.costs.collectives.shape import shape_of
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost


def ring(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int, request: Request) -> TransferCost:
    """Price a collective run on rings.

    Notes
    -----
    Every hop carries 2(n-1)/n of an all-reduce's payload, (n-1)/n of an all-gather's output or a reduce-scatter's
    input, all of a broadcast; shared equally by the channels. Time: measured rows of
    ``simgpu/data/collective_fits.csv``, else constructed (`simgpu.costs.collectives.duration`).

    Latency that a topology gives its links on top of their types' is paid at every step of the ring: a chunk crosses
    n - 1 hops a round, so 1 us more on each hop makes an all-reduce of 8 slower by 14 us, whatever its size (the chunks
    of a large one follow each other closely). Between nodes a link's latency is part of the network's.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Two or more ranks; the first is the root of a broadcast, else their order does not matter.
    kind : str
        ``all_reduce``, ``all_gather``, ``reduce_scatter`` or ``broadcast``.
    bytes : int
        Payload, as NCCL counts it.
    request : Request
        Protocol and settings.

    Returns
    -------
    TransferCost

    Raises
    ------
    ProgramError
        For another kind.
    TopologyError
        When members cannot reach each other.
    """
    n, shape = len(members), shape_of(kind)
    ordered = tuple(sorted(members))
    rings = rings_of(cluster, ordered, members[0] if shape.rooted else None)
    loads = rings.loads(shape.hop_bytes(n, bytes))
    link_ns, bottleneck = slowest_link(cluster, loads)
    inside_ns, _ = slowest_link(cluster, inside_nodes(cluster, loads))
    total_ns, stream_ns = ring_ns(
        graph_of(cluster, ordered), request.candidate(), shape, bytes, link_ns, inside_ns,
        rings.network_latency_ns, rings.channels,
    )  # fmt: skip
    knee = measured_row(cluster, members, kind) if request.measured else None
    if knee is not None:
        total_ns, stream_ns = knee.times_ns(bytes, shape.bus_factor(n), link_ns, total_ns)
    total_ns += shape.rounds * rings.added_latency_ns
    return transfer(
        loads, total_ns=total_ns, stream_ns=stream_ns, algorithm="ring", protocol=request.protocol,
        source="constructed" if knee is None else "measured", bottleneck=bottleneck,
    )  # fmt: skip
