"""How long sends and receives take that nobody measured, one by one or many at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simgpu.costs.collectives.duration import grown
from simgpu.costs.collectives.graph import ARCH_ROWS
from simgpu.costs.collectives.rings import WAYS, way_of
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.link import Route

# Start: 13.3 us on NVLink up to Ampere, 7.7 us since Hopper (microsoft/vidur fits); 13 us between PCIe cards (L40S,
# two-rank all-to-all of ai-dynamo/aiconfigurator); 18.5 us and the network's own latency between nodes (H100 over
# 400 Gb/s InfiniBand: 19.5 us).
_START_NVLINK_US: Final = 13.3
_START_NVLINK_HOPPER_US: Final = 7.7
_START_PCIE_US: Final = 13.0
_START_NETWORK_US: Final = 18.5
# Share of the links' achieved rate: 358 of 371 GB/s on H100 NVLink, 22 of 24 on L40S. Between nodes several partners
# keep a NIC full, 48-49 of 50 GB/s (maintainer in NVIDIA/nccl issues); one send alone reaches no more than 36 GB/s
# (H100 over 400 Gb/s InfiniBand, microsoft/vidur), which slower ports do not feel.
_SHARE_NVLINK: Final = 0.96
_SHARE_PCIE: Final = 0.92
_SHARE_NETWORK: Final = 0.97
_MOST_OF_ONE_SEND: Final = 36e9
_BEFORE_HOPPER: Final = ("Pascal", "Volta", "Turing", "Ampere")
# Many at once. Eight sends are one batch of the kernel (NCCL src/enqueue.cc, works per batch). Through an NVSwitch each
# takes 1.14 of its bytes' time, and a member's copy of its own share comes on top, at the rate of its multiprocessors
# (all-to-all tables of ai-dynamo/aiconfigurator for H100, GB200, GB300).
_BATCH: Final = 8
_SWITCH_COST: Final = 1.14
_COPY: Final[Mapping[str, float]] = {"Volta": 0.3, "Ampere": 0.3, "Hopper": 0.15, "Blackwell": 1.0}
# Many at once through an NVSwitch: the start of LL messages, what Simple's from 256 KiB on take more, and chunks that
# fill the pipeline (the same tables, by architecture).
_START_MANY_US: Final[Mapping[str, float]] = {"Volta": 13.3, "Ampere": 14.0, "Hopper": 7.0, "Blackwell": 10.8}
_START_SIMPLE_US: Final[Mapping[str, float]] = {"Volta": 1.0, "Ampere": 1.0, "Hopper": 5.0, "Blackwell": 5.0}
_START_SIMPLE_BYTES: Final = 262_144
_FILL_US: Final[Mapping[str, float]] = {"Volta": 30.0, "Ampere": 30.0, "Hopper": 11.0, "Blackwell": 7.0}
_FILL_BYTES: Final = 16e6


def send_start_ns(cluster: Cluster, source: int, route: Route) -> tuple[float, float]:
    """Start of one send, and the share of the links' rate that it reaches.

    Parameters
    ----------
    cluster : Cluster
    source : int
        Rank.
    route : Route

    Returns
    -------
    float, nanoseconds
    float
    """
    if route.kind == "nvlink":
        old = cluster.gpu(source).arch in _BEFORE_HOPPER
        start_us = _START_NVLINK_US if old else _START_NVLINK_HOPPER_US
        return 1e3 * start_us + route.added_latency_ns, _SHARE_NVLINK
    if route.kind == "network":
        slowest = min(cluster.links[link].bytes_per_s for link in route.links)
        return 1e3 * _START_NETWORK_US + route.latency_ns, min(_SHARE_NETWORK, _MOST_OF_ONE_SEND / slowest)
    return 1e3 * _START_PCIE_US + route.added_latency_ns, _SHARE_PCIE


def pairs_ns(
    cluster: Cluster, members: tuple[int, ...], partners: int, share_bytes: int, link_ns: float
) -> tuple[float, float]:
    """Time of many sends at once.

    Notes
    -----
    A start for every batch of eight partners and the links' time at the share of their rate; through an NVSwitch
    (1.14 p + copy)/p for p partners.

    Parameters
    ----------
    cluster : Cluster
    members : tuple of int
        Ranks in ascending order.
    partners : int
        Of each member, or of the busiest.
    share_bytes : int, bytes
        To each.
    link_ns : float, nanoseconds
        Time of the links at their rate.

    Returns
    -------
    float, float, nanoseconds
        Whole time and the part of it that bandwidth explains.
    """
    way, route = _worst_route(cluster, members)
    start_ns, share = send_start_ns(cluster, members[0], route)
    batches = -(-partners // _BATCH)
    if way == "network":
        share = _SHARE_NETWORK
    elif way == "switch":
        arch = ARCH_ROWS.get(cluster.gpu(members[0]).arch, "Volta")
        share = partners / (_SWITCH_COST * partners + _COPY[arch])
        bytes = share_bytes * (partners + 1)
        start_ns = 1e3 * _START_MANY_US[arch] + route.added_latency_ns
        start_ns += 1e3 * _START_SIMPLE_US[arch] * min(1.0, bytes / _START_SIMPLE_BYTES)
        start_ns += 1e3 * _FILL_US[arch] * min(1.0, bytes / _FILL_BYTES) / batches
    stream_ns = link_ns / share
    if way == "switch":
        stream_ns = max(link_ns, grown(stream_ns, share_bytes * (partners + 1)))
    return start_ns * batches + stream_ns, stream_ns


def _worst_route(cluster: Cluster, members: tuple[int, ...]) -> tuple[str, Route]:
    """Slowest kind of way from the first member to another, and the route with most latency of that kind."""
    found = [(WAYS.index(way_of(cluster, members[0], rank)), cluster.route(members[0], rank)) for rank in members[1:]]
    worst = max(kind for kind, _ in found)
    routes = [route for kind, route in found if kind == worst]
    return WAYS[worst], max(routes, key=lambda route: (route.latency_ns, route.added_latency_ns))
