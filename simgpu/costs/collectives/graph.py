"""What NCCL's tuning model knows of a group: its channels, their bandwidth, and what the links allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simgpu.costs.collectives.load import slowest_link
from simgpu.costs.collectives.rings import rings_of
from simgpu.hardware.cluster import Cluster

# Rows of NCCL's tables, by the catalogue's architectures; the oldest stands for anything older.
ARCH_ROWS: Final[Mapping[str, str]] = {
    "Ampere": "Ampere",
    "Ada": "Ampere",
    "Hopper": "Hopper",
    "Blackwell": "Blackwell",
    "Blackwell Ultra": "Blackwell",
}
_OLDEST: Final = "Volta"
# GB/s of one channel that the graph search settles on behind an NVSwitch (NVIDIA/nccl src/graph/search.cc: 12 x 20 on
# DGX A100, 12 x 30 on HGX H100, 18 x 40 on HGX B200).
_CHANNEL_GB_PER_S: Final[Mapping[str, float]] = {"Volta": 20.0, "Ampere": 20.0, "Hopper": 30.0, "Blackwell": 40.0}
# NVLS: 8 x 40 of 370.8 GB/s of links and 8 x 80 of 721.8; as much of fewer links (H800: 215 of H100's 480 GB/s).
_NVLS_OF_LINKS: Final[Mapping[str, float]] = {"Hopper": 320 / 370.8, "Blackwell": 640 / 721.8}
# Fewest GPUs from which NCCL prefers the switch to rings: seen on H200 (414, 436, 460, 473 GB/s for 5 to 8) and B200.
_NVLS_FEWEST: Final[Mapping[str, int]] = {"Hopper": 5, "Blackwell": 6}
# Channels of 25 GB/s and more are split in two; since Hopper of 50, or up to 4 of them (src/graph/search.cc).
_SPLIT_GB_PER_S: Final = 25.0
_SPLIT_HOPPER_GB_PER_S: Final = 50.0
_FEW_CHANNELS: Final = 4
# Latency that a network plugin reports for its NICs, microseconds; NCCL's own report none (aws/aws-ofi-nccl tuner).
_PLUGIN_US: Final[Mapping[str, float]] = {"AWS EFA": 20.0}
# aws/aws-ofi-nccl sets NCCL_PROTO for EFA of A100 instances and later.
_SIMPLE_ONLY: Final = "AWS EFA"
# nccl-tests of 2 x 8 H200 and B200 over RoCE, GPUDirect-TCPXO and InfiniBand take Simple's time from 1 MiB on.
_LL128_OVER_NETWORK: Final = ("Volta", "Ampere")
_AMD_SOCKETS: Final = ("AMD", "xGMI")
_PROBE_BYTES: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A group as NCCL's tuning model sees it.

    Parameters
    ----------
    n, nodes, most_per_node : int
        Members, nodes that have some, and members of the node that has most.
    even : bool
        Whether all nodes have as many.
    arch : str
        Row of NCCL's tables.
    hardware : str
        ``NVLINK`` or ``PCI``: worst hop within a node.
    way, inside : str
        Worst hop, and worst hop within a node, as `simgpu.costs.collectives.rings.Rings` has them.
    channels : int
        Of a ring.
    bus_gb_per_s : float, GB/s
        Bus bandwidth that the links allow a ring.
    nvlink_gb_per_s : float, GB/s
        Of the NVLinks between one GPU and the NVSwitch of its node; 0 without.
    nvls_gb_per_s : float, GB/s
        Of all NVLS channels; 0 where NCCL does not use the switch.
    duplex : bool
        Whether a ring loads PCIe links both ways at once.
    sharp : bool
        Whether the network adds up.
    ll128 : bool
        Whether all paths keep 128-byte stores whole: NVLink within nodes, no host bridge on the way to the NICs; not
        over the network since Hopper.
    simple_only : bool
        Whether the network's plugin allows no other protocol than Simple.
    network_us : float, microseconds
        Latency that the NICs report.
    cpu : str
        ``Intel`` or ``AMD``.
    """

    n: int
    nodes: int
    most_per_node: int
    even: bool
    arch: str
    hardware: str
    way: str
    inside: str
    channels: int
    bus_gb_per_s: float
    nvlink_gb_per_s: float
    nvls_gb_per_s: float
    duplex: bool
    sharp: bool
    ll128: bool
    simple_only: bool
    network_us: float
    cpu: str


def graph_of(cluster: Cluster, members: tuple[int, ...]) -> Graph:
    """Describe a group, once for each group of a cluster.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Two ranks or more, in ascending order.

    Returns
    -------
    Graph

    Raises
    ------
    TopologyError
        When members cannot reach each other.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> pair = {"name": "pair", "devices": {"gpu": {"kind": "gpu", "count": 2, "model": "A40"}},
    ...         "links": [{"from": "gpu 0", "to": "gpu 1", "type": "GA102 bridge pair (3090/A6000)"}]}
    >>> graph_of(build_cluster(pair, nodes=1, gpus=None), (0, 1)).bus_gb_per_s
    48.0
    """
    key = ("graph", members)
    found: Graph | None = cluster.memo.get(key)
    if found is None:
        found = cluster.memo[key] = _describe(cluster, members)
    return found


def _describe(cluster: Cluster, members: tuple[int, ...]) -> Graph:
    rings = rings_of(cluster, members, None)
    bus = _PROBE_BYTES / slowest_link(cluster, rings.loads(_PROBE_BYTES))[0]
    gpu = cluster.gpu(members[0])
    arch = ARCH_ROWS.get(gpu.arch, _OLDEST)
    most, several_nodes = rings.most_per_node, rings.nodes > 1
    inside_nvlink = rings.inside in ("direct", "switch")
    nvlink = _nvlink_gb_per_s(cluster, members) if rings.inside == "switch" else 0.0
    channels = rings.channels
    if rings.way in ("direct", "switch"):
        channels = max(channels, int(bus / _CHANNEL_GB_PER_S[arch] + 1e-6))
    threshold = _SPLIT_GB_PER_S if arch in ("Volta", "Ampere") or channels <= _FEW_CHANNELS else _SPLIT_HOPPER_GB_PER_S
    if bus / channels >= threshold:
        channels *= 2
    nvls = 0.0
    if nvlink and most >= _NVLS_FEWEST.get(arch, most + 1):
        nvls = nvlink * _NVLS_OF_LINKS[arch]
    several = cluster.distinct(rings.links) if several_nodes else ()
    ends = {cluster.links[link].target.rpartition("/")[2] for link in several}
    this, following = rings.links[:-1], rings.links[1:]
    both = this[(this % 2 == 0) & (following == this + 1)]  # directions of a link are neighbours, the first at 2n
    port = _port_name(cluster) if several_nodes else ""
    return Graph(
        n=len(members),
        nodes=rings.nodes,
        most_per_node=most,
        even=len(members) == rings.nodes * most,
        arch=arch,
        hardware="NVLINK" if inside_nvlink else "PCI",
        way=rings.way,
        inside=rings.inside,
        channels=channels,
        bus_gb_per_s=bus,
        nvlink_gb_per_s=nvlink,
        nvls_gb_per_s=nvls,
        duplex=any(cluster.links[link].kind == "pcie" for link in cluster.distinct(both)),
        sharp=several_nodes and cluster.fabric.sharp,
        ll128=inside_nvlink
        and not any(end.startswith("cpu") for end in ends)
        and (not several_nodes or arch in _LL128_OVER_NETWORK),
        simple_only=port.startswith(_SIMPLE_ONLY) and arch != _OLDEST,
        network_us=next((us for name, us in _PLUGIN_US.items() if port.startswith(name)), 0.0),
        cpu=_cpu(cluster),
    )


def _nvlink_gb_per_s(cluster: Cluster, members: tuple[int, ...]) -> float:
    """Least bandwidth between a member and its switch."""
    local = {cluster.machine.gpus[place] for place in {rank % cluster.gpus_per_node for rank in members}}
    return (
        min(wire.bytes_per_s for wire in cluster.machine.wires if wire.kind == "nvlink" and wire.source in local) / 1e9
    )


def _port_name(cluster: Cluster) -> str:
    if cluster.fabric.port is not None:
        return cluster.fabric.port.name
    ports = [device.port for device in cluster.machine.devices if device.port is not None]
    return ports[0].name if ports else ""


def _cpu(cluster: Cluster) -> str:
    """AMD where the sockets are joined by its links; else Intel, as NCCL's own tables take for anything unknown."""
    sockets = {wire.type for wire in cluster.machine.wires if wire.kind == "socket"}
    return "AMD" if any(name.startswith(_AMD_SOCKETS) for name in sockets) else "Intel"
