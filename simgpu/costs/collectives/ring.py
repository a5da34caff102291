"""Ring collectives."""

from __future__ import annotations

from simgpu.costs.collectives.knee import (
    constructed_efficiency,
    constructed_latency_ns,
    measured_knee,
    one_per_node_ns,
)
from simgpu.costs.collectives.load import slowest_link, transfer
from simgpu.costs.collectives.rings import rings_of
from simgpu.costs.collectives.shape import shape_of
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost


def ring(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int) -> TransferCost:
    """Price a collective run on rings.

    Notes
    -----
    Every hop carries 2(n-1)/n of an all-reduce's payload, (n-1)/n of an all-gather's output or a reduce-scatter's
    input, all of a broadcast; shared equally by the channels. Time: measured rows of
    ``simgpu/data/collective_fits.csv`` on one NVSwitch, else constructed (`simgpu.costs.collectives.knee`).

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
    rings = rings_of(cluster, tuple(sorted(members)), members[0] if shape.rooted else None)
    loads = rings.loads(shape.hop_bytes(n, bytes))
    link_ns, bottleneck = slowest_link(cluster, loads)
    gpu = cluster.gpu(members[0])
    knee = measured_knee(gpu, kind, n) if rings.way == "switch" else None
    if knee is not None:
        stream_ns = max(knee.stream_ns(bytes * shape.bus_factor(n)), link_ns)
        total_ns, source = knee.latency_ns(bytes) + stream_ns, "measured"
    else:
        stream_ns, source = link_ns / constructed_efficiency(rings.way, n), "constructed"
        if rings.nodes > 1 and rings.most_per_node == 1:
            chunk = (bytes if shape.rooted else bytes / n) / rings.channels
            total_ns = one_per_node_ns(shape, n, rings.network_latency_ns, stream_ns, chunk)
        else:
            blackwell = gpu.arch.startswith("Blackwell")
            total_ns = stream_ns + constructed_latency_ns(
                shape, n, rings.nodes, rings.inside, rings.network_latency_ns, blackwell, bytes
            )
    total_ns += shape.rounds * rings.added_latency_ns
    return transfer(
        loads, total_ns=total_ns, stream_ns=stream_ns, algorithm="ring", source=source, bottleneck=bottleneck
    )
