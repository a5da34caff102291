"""All-reduce in the NVSwitch (NVLink SHARP)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Final

from simgpu.costs.collectives.knee import measured_knee
from simgpu.costs.collectives.load import slowest_link, transfer
from simgpu.costs.collectives.rings import rings_of
from simgpu.errors import TopologyError
from simgpu.hardware.cluster import Cluster
from simgpu.program import TransferCost

# Fewest GPUs from which NCCL prefers it to rings: seen on H200 (414, 436, 460, 473 GB/s for 5 to 8) and B200.
_FEWEST: Final[Mapping[str, int]] = {"Hopper": 5, "Blackwell": 6, "Blackwell Ultra": 6}

_TRIPS: Final = 3


def uses_nvls(cluster: Cluster, members: tuple[int, ...], kind: str) -> bool:
    """Whether a group's collective runs in the switch: all-reduce on one NVSwitch, where a measured row exists.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
    kind : str

    Returns
    -------
    bool
    """
    if kind != "all_reduce":
        return False
    gpu, n = cluster.gpu(members[0]), len(members)
    if n < _FEWEST.get(gpu.arch, n + 1) or measured_knee(gpu, kind, n) is None:
        return False
    return rings_of(cluster, tuple(sorted(members)), None).way == "switch"


def nvls(cluster: Cluster, members: tuple[int, ...], kind: str, bytes: int) -> TransferCost:
    """Price an all-reduce that the switch adds up and multicasts.

    Notes
    -----
    Each GPU owns 1/n of the payload S. Reduction: it reads the sum of its part, for which every GPU sends S/n to each
    of the n owners and receives S/n. Multicast: it writes its part once and receives all n. Each GPU's NVLink thus
    carries S (n+1)/n in each direction. Latency that a topology gives the links on top of their type's is paid three
    times: by the request for the sum, by its answer, and by the write.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
    kind : str
    bytes : int
        Payload.

    Returns
    -------
    TransferCost

    Raises
    ------
    TopologyError
        Where `uses_nvls` says no.
    """
    n = len(members)
    knee = measured_knee(cluster.gpu(members[0]), kind, n)
    if knee is None or not uses_nvls(cluster, members, kind):
        raise TopologyError(f"{cluster.name}: {kind} of ranks {members} cannot run in an NVSwitch")
    rings = rings_of(cluster, tuple(sorted(members)), None)
    loads = rings.loads(-(-(n + 1) * bytes // n))
    link_ns, bottleneck = slowest_link(cluster, loads)
    stream_ns = max(knee.stream_ns(bytes * 2 * (n - 1) / n), link_ns)
    return transfer(
        loads,
        total_ns=knee.latency_ns(bytes) + stream_ns + _TRIPS * _added_latency_ns(cluster, members),
        stream_ns=stream_ns,
        algorithm="nvls",
        source="measured",
        bottleneck=bottleneck,
    )


def _added_latency_ns(cluster: Cluster, members: tuple[int, ...]) -> int:
    """Most that a way between two members takes longer than its link types do."""
    return max(cluster.route(a, b).added_latency_ns for a, b in permutations(members, 2))
