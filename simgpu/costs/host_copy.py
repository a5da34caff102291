"""Prices of work with host memory: copies over PCIe or C2C, updates by the CPU, reads and writes of an SSD."""

from __future__ import annotations

import math
from functools import cache
from typing import Final

from simgpu.errors import ProgramError, TopologyError
from simgpu.hardware.cluster import Cluster
from simgpu.hardware.computer import host_ranks, memory_links
from simgpu.hardware.link import Link
from simgpu.hardware.table import read_table
from simgpu.program import Load, TransferCost

TO_HOST, TO_GPU, UPDATE, READ, WRITE = "d2h", "h2d", "cpu_update", "nvme_read", "nvme_write"
PAGEABLE: Final = "_pageable"
HOST_KINDS: Final = frozenset({TO_HOST, TO_GPU, TO_HOST + PAGEABLE, TO_GPU + PAGEABLE, UPDATE, READ, WRITE})
"""Kinds of transfers that one rank does with its host. A pageable copy's kind ends in ``_pageable``."""

UPDATE_SHARE: Final = 0.54
"""Share of the host memory's achieved bandwidth that a CPU optimizer moves.

ZeRO-Offload (arXiv 2101.06840), table 4: 1, 2, 4, 8 and 10e9 parameters in 0.22, 0.51, 1.03, 2.41 and 2.57 s, about
4e9/s x 28 bytes = 110 GB/s, of two sockets with six channels of DDR4-2666 each (DGX-2; 128 GB/s nominal a socket,
0.8 of it achieved): 110 / 204.8.
"""
_SSD: Final = {READ: "NVMe SSD PCIe 4.0 x4 read", WRITE: "NVMe SSD PCIe 4.0 x4 write"}
_LINK: Final = "PCIe {} x16"
_PINNED: Final = "PCIe {} x16 host-to-device pinned copy"
_GENERATIONS: Final = (("3.0", 15.75e9), ("4.0", 31.5e9), ("5.0", 63e9))
_PAGEABLE: Final = "pageable copy through a pinned buffer"
_NANO: Final = 10**9


def host_transfer(cluster: Cluster, rank: int, kind: str, bytes: int) -> TransferCost:
    """Price what a rank does with its host's memory.

    Parameters
    ----------
    cluster : Cluster
    rank : int
    kind : str
        One of `HOST_KINDS`.
    bytes : int
        Bytes copied, read or written; of an update the memory traffic, reads and writes.

    Returns
    -------
    TransferCost
        Free for zero bytes.

    Raises
    ------
    ProgramError
        For an unknown kind.
    TopologyError
        When the topology has no host memory that the GPU reaches.

    Notes
    -----
    A pinned copy goes at the rate that DMA copies reach on the narrowest link of its way, which is above the figure
    that NCCL achieves there; it occupies the link accordingly less. A pageable one is staged by a thread of the CPU.
    Copies use the memory nearest to the GPU. An update is spread over all memories of the computer, as the threads of
    a process are that nobody binds. Its ranks share the memories as links, and one SSD in equal parts.

    Examples
    --------
    >>> from simgpu.hardware.cluster import build_cluster
    >>> box = {"name": "box", "devices": {"gpu": {"kind": "gpu", "model": "A40"}, "cpu": {"kind": "cpu"},
    ...        "memory": {"kind": "memory"}}, "links": [{"from": "gpu", "to": "cpu", "type": "PCIe 4.0 x16"},
    ...        {"from": "cpu", "to": "memory", "type": "DDR4-3200, 8 channels"}]}
    >>> cluster = build_cluster(box, nodes=1, gpus=None)
    >>> [host_transfer(cluster, 0, kind, 10**9).stream_ns // 10**6 for kind in ("h2d", "h2d_pageable", "nvme_read")]
    [40, 125, 147]
    """
    if kind not in HOST_KINDS:
        raise ProgramError(f"no price is known for host work of kind {kind!r}; known: {', '.join(sorted(HOST_KINDS))}")
    if bytes == 0:
        return TransferCost(latency_ns=0, stream_ns=0)
    if kind == UPDATE:
        return _update(cluster, rank, bytes)
    if kind in _SSD:
        rate, latency_ns = _row(_SSD[kind])
        stream_ns = math.ceil(bytes * host_ranks(cluster, rank) / rate * _NANO)
        return TransferCost(latency_ns=latency_ns, stream_ns=stream_ns, algorithm="nvme", source="constructed")
    return _copy(cluster, rank, bytes, to_host=kind.startswith(TO_HOST), pinned=not kind.endswith(PAGEABLE))


def _copy(cluster: Cluster, rank: int, bytes: int, *, to_host: bool, pinned: bool) -> TransferCost:
    route = cluster.host_route(rank, to_host=to_host)
    links = [cluster.links[link] for link in route.links]
    slowest = min(links, key=copy_rate)
    rate = copy_rate(slowest)
    staged_rate, latency_ns = _row(_PAGEABLE)
    if not pinned:
        rate = min(rate, staged_rate)
    loads = []
    for index, link in sorted(zip(route.links, links, strict=True)):
        loads.append(Load(link=index, bytes=math.floor(bytes * link.bytes_per_s / copy_rate(link))))
    return TransferCost(
        latency_ns=latency_ns,
        stream_ns=math.ceil(bytes / rate * _NANO),
        loads=tuple(loads),
        algorithm="copy",
        source="constructed",
        bottleneck=slowest.name,
    )


def _update(cluster: Cluster, rank: int, bytes: int) -> TransferCost:
    links = memory_links(cluster, rank)
    if not links:
        raise TopologyError(f"{cluster.name} has no host memory, which offload needs; add a device of kind memory")
    each = math.ceil(bytes / len(links) / UPDATE_SHARE)
    slowest = min(links, key=lambda link: cluster.links[link].bytes_per_s)
    return TransferCost(
        latency_ns=0,
        stream_ns=math.ceil(each / cluster.links[slowest].bytes_per_s * _NANO),
        loads=tuple(Load(link=link, bytes=each) for link in sorted(links)),
        algorithm="cpu",
        source="constructed",
        bottleneck=cluster.links[slowest].name,
    )


def copy_rate(link: Link) -> float:
    """Return how fast a DMA copy goes over a link; on PCIe above NCCL's figure as copies of its generation are.

    Parameters
    ----------
    link : Link

    Returns
    -------
    float
        Bytes per second, proportional to the link's own.

    Examples
    --------
    >>> link = Link(name="", source="", target="", kind="pcie", bytes_per_s=24 * 10**9, latency_ns=0,
    ...             nominal_bytes_per_s=31_500_000_000)
    >>> round(copy_rate(link) / 1e9, 1)
    25.0
    """
    if link.kind != "pcie":
        return float(link.bytes_per_s)
    generation, _ = min(_GENERATIONS, key=lambda entry: abs(math.log(entry[1] / link.nominal_bytes_per_s)))
    return link.bytes_per_s * _row(_PINNED.format(generation))[0] / _row(_LINK.format(generation))[0]


@cache
def _row(name: str) -> tuple[float, int]:
    """Rate in bytes per second and start in nanoseconds of a row of links.csv."""
    row = next(row for row in read_table("links.csv") if row["name"] == name)
    return float(row["gb_s_per_dir_achieved"]) * 1e9, round(float(row["latency_us"] or 0) * 1000)
